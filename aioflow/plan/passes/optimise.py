"""Rewrites a flow to compute the same results with less work: passes in a fixed order, until nothing changes.

dedupe     keeps one of several nodes that compute the same value [P15 section 5.1]
fold       computes nodes that depend only on constants once, at planning time
simplify   applies algebraic rules, each exact for every value, NaN and -0.0 included

and then `channels_last`, `group`, `contract`, `merge_layer_norms`, `mark_blocked` and `mark_row_products`.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from aioflow.plan import op_cost
from aioflow.plan.allocation import needed
from aioflow.plan.passes.blocked import mark_blocked
from aioflow.plan.passes.contract import contract
from aioflow.plan.passes.flow import (
    Flow,
    Node,
    Replacement,
    Value,
    in_blocks,
    rewrite,
    staged,
)
from aioflow.plan.passes.groups import group
from aioflow.plan.passes.layer_norms import merge_layer_norms
from aioflow.plan.passes.layout import channels_last
from aioflow.plan.passes.prune import trim
from aioflow.plan.passes.row_products import mark_row_products
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DeviceKind, spec_of

_LARGEST_COMPARED = 4096
"""Bytes: constants above this are the same only if they are one object."""


def dedupe(flow: Flow) -> Flow:
    """The Flow with one node for each set of equal ones. Never touches state."""
    first: dict[Hashable, Node] = {}

    def visit(node: Node) -> Replacement:
        if not node.pure:
            return node
        kept = first.setdefault(_key(node), node)
        return node if kept is node else tuple([Value(kept, index) for index in range(len(kept.output_specs))])

    return rewrite(flow, visit)


def _key(node: Node) -> Hashable:
    inputs: Any = [(id(source), index) for source, index in node.inputs]
    if node.definition.commutative:
        inputs.sort()
    controls = frozenset(id(control) for control in node.controls)
    attrs = tuple([(name, _frozen(value)) for name, value in sorted(node.attrs.items())])
    operation = node.operation
    return node.definition.name, tuple(inputs), controls, attrs, operation.device, operation.colocation


def _frozen(value: Any) -> Hashable:
    """Return a key that is equal only for identical attributes: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, np.ndarray):
        if value.nbytes > _LARGEST_COMPARED or value.dtype == object:
            return "array", id(value)
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple([_frozen(item) for item in value])
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


LARGEST_RESULT = 10 * 2**20
"""Bytes: larger results are computed in every run."""
LONGEST = 0.01
"""Seconds. A node with a longer estimate is computed in every run, since planning must not block the loop."""

_LARGEST_FILLED = 2**16
"""Bytes: more zeros or ones are made when they are needed."""
_SHAPE_ALONE = {"zeros_like": 0, "ones_like": 1}
"""Ops that use only the shape of their input, with the number that they fill it with."""


def fold(flow: Flow) -> Flow:
    """The Flow with constants in place of all that can be known."""

    def visit(node: Node) -> Replacement:
        if not node.pure or node.definition.name == "constant":
            return node
        values = _known(node)
        if values is None:
            values = _computed(node)
        if values is None:
            return node
        controls = tuple(dict.fromkeys([*node.controls, *[c for v in node.inputs for c in v.node.controls]]))
        return tuple([Value(node.as_constant(i, value, controls), 0) for i, value in enumerate(values)])

    return rewrite(flow, visit)


def _known(node: Node) -> list[Any] | None:
    """Return the value that the shape rule knows, for example of the shape of a tensor with known sizes."""
    if node.definition.name in _SHAPE_ALONE:
        return _filled(node)
    known = [spec.known for spec in node.output_specs]
    if not known or any(value is None or (isinstance(value, tuple) and None in value) for value in known):
        return None
    try:
        return [np.asarray(value, spec.dtype.np) for value, spec in zip(known, node.output_specs, strict=True)]
    except OverflowError:  # the run computes it, and raises an error where the kernel does
        return None


def _filled(node: Node) -> list[Any] | None:
    spec = node.output_specs[0]
    if not spec.shape.is_fully_defined() or (spec.bytes or 0) > _LARGEST_FILLED or spec.dtype is dtypes.string:
        return None
    return [_as_constant(np.full(spec.shape.as_list(), _SHAPE_ALONE[node.definition.name], spec.dtype.np))]


def _computed(node: Node) -> list[Any] | None:
    constants = [node.constant(index) for index in range(len(node.inputs))]
    lists = any(spec.dtype is dtypes.resource for spec in node.output_specs)
    if lists or not node.output_specs or any(value is None for value in constants) or not _worth(node):
        return None
    kernel = node.definition.kernel_for(DeviceKind.CPU, node.input_specs)
    if kernel is None or kernel.context or kernel.asynchronous:
        return None
    try:
        if needed(node.definition, node.attrs, constants) > LARGEST_RESULT:
            return None
        with np.errstate(all="ignore"):
            result = kernel.bind(node.definition, node, np)(*constants)
    except Exception:  # the run raises it, with the place in the graph
        return None
    results = [result] if len(node.output_specs) == 1 else list(result)
    if sum(np.asarray(value).nbytes for value in results) > LARGEST_RESULT:
        return None
    return [_as_constant(value) for value in results]


def _worth(node: Node) -> bool:
    sizes = [spec.bytes for spec in node.output_specs]
    return all((size or 0) <= LARGEST_RESULT for size in sizes) and op_cost.seconds(node, node.input_specs) < LONGEST


def _as_constant(value: Any) -> Any:
    array = np.array(value, copy=True, order="C", dtype=object if spec_of(value).dtype is dtypes.string else None)
    array.flags.writeable = False
    return array


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


PASSES: Final[tuple[Callable[[Flow], Flow], ...]] = (simplify, dedupe, fold)
"""Applied in this order, again until nothing changes."""
ROUNDS: Final = 4


def optimise(flow: Flow) -> Flow:
    """The Flow that computes the same with less: PASSES, until nothing changes, at most ROUNDS times.

    The blocks of branches and loops are optimised first. Then their unused outputs are removed, and the rest is
    optimised again. Finally neighbouring nodes that one kernel computes together become one node.
    """
    passes = _simpler, _if_blocks(trim), _if_blocks(_simpler), channels_last, group, _contracted
    return staged(flow, *passes, deep=True)


def _if_blocks(apply: Callable[[Flow], Flow]) -> Callable[[Flow], Flow]:
    return lambda flow: apply(flow) if any(node.blocks for node in flow.nodes) else flow


def _simpler(flow: Flow) -> Flow:
    return staged(flow, lambda flow: in_blocks(flow, _simpler), _rounds)


def _rounds(flow: Flow) -> Flow:
    for _ in range(ROUNDS):
        count = len(flow.nodes)
        flow = staged(flow, *PASSES)
        if len(flow.nodes) == count:
            break
    return flow


def _contracted(flow: Flow) -> Flow:
    return staged(
        flow, lambda flow: in_blocks(flow, _contracted), contract, merge_layer_norms, mark_blocked, mark_row_products
    )
