"""How recurrent operations are written."""

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter

_GATES = "iofc"
"""The order of the gates in ONNX."""


@exporter("lstm")
def _(export: Export, op: Operation) -> list[str]:
    """ONNX has an axis of directions, kernels that are multiplied from the right, and a bias for each of them."""
    x, kernel, recurrent_kernel, bias, h, c = [export.name(tensor) for tensor in op.inputs[:6]]
    units = op.outputs[1].shape.as_list()[1]
    if units is None:
        raise ValueError("its number of units is not known")
    first, no_bias = export.integers([0]), export.initial(op.inputs[3].dtype.np.type(0))

    def weight(name: str, axis: int) -> str:
        parts = dict(zip(op.attrs["gates"], export.add_all("Split", [name], 4, axis=axis, num_outputs=4), strict=True))
        return export.add("Concat", *[parts[gate] for gate in _GATES], axis=axis)

    kernels = [export.add("Transpose", weight(name, 1), perm=[1, 0]) for name in (kernel, recurrent_kernel)]
    zeros = export.add("Expand", no_bias, export.integers([4 * units]))
    both = export.add("Concat", weight(bias, 0), zeros, axis=0)
    lengths = "" if op.inputs[6].shape.as_list() == [0] else export.name(op.inputs[6])
    w, r, b, h, c = [export.add("Unsqueeze", name, first) for name in (*kernels, both, h, c)]
    outputs, *last = export.add_all("LSTM", [x, w, r, b, lengths, h, c], 3, hidden_size=units)
    return [export.add("Squeeze", outputs, export.integers([1])), *[export.add("Squeeze", y, first) for y in last]]
