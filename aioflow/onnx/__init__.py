"""Models in the ONNX format, as ordinary aioflow graphs.

Input: a file or bytes of the format. Output: tensors of a graph by the model's names, with its weights as variables.
`reading` checks the protocol buffers and makes plain data of them, `build` walks the nodes, and `operators` has one
function for each operator, which builds operations. `saving` goes the other way, and `exporters` has one function for
each type of operation, which adds nodes. This folder may use the library and what lies below it. It never runs an
operation itself. Only `protobuf` imports the package onnx, when a model is loaded: `pip install aioflow-engine[onnx]`.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.onnx.loaded": "ImportedModel",
    "aioflow.onnx.loading": "load",
    "aioflow.onnx.optional_value": "OptionalValue",
    "aioflow.onnx.saving": "save",
})  # fmt: skip
