"""A small algebra: rules written as the expressions they match, each exact for every value, NaN and -0.0 included."""

from typing import Any, Final

import numpy as np

from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite

PASS_THROUGH: Final = frozenset({"identity", "stop_gradient", "prevent_gradient", "placeholder_with_default"})


class Pattern:
    """An expression with variables, matched against a value by its op and its inputs."""

    def __init__(self, op: str | None = None, *parts: Any) -> None:
        self.op = op
        self.parts = parts

    def __mul__(self, other: Any) -> "Pattern":
        return Pattern("multiply", self, other)

    def __sub__(self, other: Any) -> "Pattern":
        return Pattern("subtract", self, other)

    def __truediv__(self, other: Any) -> "Pattern":
        return Pattern("divide", self, other)

    def __pow__(self, other: Any) -> "Pattern":
        return Pattern("pow", self, other)

    def __neg__(self) -> "Pattern":
        return Pattern("negative", self)

    def __invert__(self) -> "Pattern":
        return Pattern("logical_not", self)

    def match(self, value: Value) -> Value | None:
        """Return the value that matches the variable of the pattern; None if the value has another form."""
        if self.op is None:
            return value
        node = value.node
        if node.definition.name != self.op or node.controls:
            return None
        found = None
        for part, source in zip(self.parts, node.inputs, strict=True):
            if isinstance(part, Pattern):
                found = part.match(source)
                if found is None:
                    return None
            elif not _is(source, part):
                return None
        return found


def _is(value: Value, number: int) -> bool:
    """Whether it is a constant with that number in every element, and waits for nothing."""
    if value.node.definition.name != "constant" or value.node.controls:
        return False
    array = value.node.attrs["value"]
    return (
        array.dtype.kind in "iufc"
        and array.size == 1
        and bool(array.reshape(()) == number)
        and not np.signbit(array.real).any()
    )


x: Final = Pattern()
RULES: Final = (x * 1, x - 0, x / 1, x**1, Pattern("negative", -x), Pattern("logical_not", ~x))
"""Each of these is x."""
_BY_OP: Final[dict[str | None, list[Pattern]]] = {}
for _rule in RULES:
    _BY_OP.setdefault(_rule.op, []).append(_rule)


def simplify(flow: Flow) -> Flow:
    """Return the flow without nodes that only pass on their inputs."""
    return rewrite(flow, _visit)


def _visit(node: Node) -> Replacement:
    if node.controls or len(node.output_specs) != 1:
        return node
    if node.definition.name in PASS_THROUGH:
        return (node.inputs[0],) if _same_place(node) else node
    for source, part in _swapped(node):
        if _is(part, 1) and node.definition.name == "multiply" and _same(source, node):
            return (source,)
    for rule in _BY_OP.get(node.definition.name, ()):
        found = rule.match(Value(node, 0))
        if found is not None and _same(found, node):
            return (found,)
    return node


def _swapped(node: Node) -> list[tuple[Value, Value]]:
    return [(node.inputs[1], node.inputs[0])] if node.definition.commutative and len(node.inputs) == 2 else []


def _same(value: Value, node: Node) -> bool:
    """Whether the value has the dtype and, surely, the shape of the node's output."""
    mine, wanted = value.spec, node.output_specs[0]
    if mine.dtype is not wanted.dtype or mine.sizes is None:
        return False
    return mine.shape is wanted.shape or (mine.shape.is_fully_defined() and mine.shape == wanted.shape)


def _same_place(node: Node) -> bool:
    """Whether it is not a copy to another device, which the user requested by a device scope."""
    return node.operation.device in ("", node.inputs[0].node.operation.device)
