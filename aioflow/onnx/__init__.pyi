"""Models in the ONNX format, as ordinary aioflow graphs.

Input: a file or bytes of the format. Output: tensors of a graph by the model's names, with its weights as variables.
`reading` checks the protocol buffers and makes plain data of them, `build` walks the nodes, and `operators` has one
function for each operator, which builds operations. `saving` goes the other way, and `exporters` has one function for
each type of operation, which adds nodes. This folder may use the library and what lies below it. It never runs an
operation itself. Only `protobuf` imports the package onnx, when a model is loaded: `pip install aioflow-engine[onnx]`.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.onnx.loaded import ImportedModel as ImportedModel
from aioflow.onnx.loading import load as load
from aioflow.onnx.optional_value import OptionalValue as OptionalValue
from aioflow.onnx.saving import save as save

__all__ = ["ImportedModel", "OptionalValue", "load", "save"]
