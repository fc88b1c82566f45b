"""How cross entropies are written, and products that are 0 where one factor is."""

import numpy as np

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter


@exporter("sparse_softmax_cross_entropy_with_logits")
def _(export: Export, op: Operation) -> list[str]:
    """The gradient of each row, which is the second result, has no name."""
    logs = export.add("LogSoftmax", export.name(op.inputs[0]), axis=-1)
    labels = export.add("Unsqueeze", export.as_int64(op.inputs[1]), export.integers([-1]))
    found = export.add("GatherElements", logs, labels, axis=-1)
    return [export.add("Neg", export.add("Squeeze", found, export.integers([-1])))]


@exporter("softmax_cross_entropy_with_logits")
def _(export: Export, op: Operation) -> list[str]:
    logits, labels = export.names(op)
    zero = export.initial(op.inputs[0].dtype.np.type(0))
    each = export.add("Mul", labels, export.add("LogSoftmax", logits, axis=-1))
    kept = export.add("Where", export.add("Equal", labels, zero), zero, each)
    return [export.add("Neg", export.add("ReduceSum", kept, export.integers([-1]), keepdims=0))]


@exporter("sigmoid_cross_entropy_with_logits")
def _(export: Export, op: Operation) -> str:
    """max(x, 0) - x · label + log(1 + exp(-|x|)), which does not overflow."""
    labels, logits = export.names(op)
    rest = export.add("Softplus", export.add("Neg", export.add("Abs", logits)))
    plain = export.add("Sub", export.add("Relu", logits), export.add("Mul", logits, labels))
    return export.add("Add", plain, rest)


@exporter("scale_rows")
def _(export: Export, op: Operation) -> str:
    x, factor = export.names(op)
    return export.add("Mul", x, export.add("Unsqueeze", factor, export.integers([-1])))


@exporter("xlogy")
def _(export: Export, op: Operation) -> str:
    x, y = export.names(op)
    return _except_at_0(export, op, export.add("Mul", x, export.add("Log", y)))


@exporter("xdivy")
def _(export: Export, op: Operation) -> str:
    return _except_at_0(export, op, export.add("Div", *export.names(op)))


def _except_at_0(export: Export, op: Operation, made: str) -> str:
    """The result, and 0 where the first operand is 0."""
    zero = export.initial(op.inputs[0].dtype.np.type(0))
    return export.add("Where", export.add("Equal", export.name(op.inputs[0]), zero), zero, made)


@exporter("cross")
def _(export: Export, op: Operation) -> str:
    """The products of the next two components in both orders."""
    turned = [
        [export.add("Gather", name, export.initial(np.array(order, np.int64)), axis=-1) for name in export.names(op)]
        for order in ([1, 2, 0], [2, 0, 1])
    ]
    (a, b), (c, d) = turned
    return export.add("Sub", export.add("Mul", a, d), export.add("Mul", c, b))
