"""Merges the nodes of a layer normalisation of one row into one node, where nothing else reads between them.

The formula has nine nodes, and on a row of hundreds of numbers their calls take far longer than their arithmetic:

    (x - mean) * rsqrt(variance + epsilon) * scale + shift

The factors may come in any order. The variance is the mean of the squares of x - mean, or of `squared_difference`.
Several rows keep their nodes, which programs compute in blocks.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from aioflow.kernels.math.broadcasting import axes_of
from aioflow.kernels.nn.activation import LONGEST
from aioflow.kernels.nn.layer_norm import layer_norm
from aioflow.plan.passes.flow import Flow, Node, Value, rewrite
from aioflow.tensors.dtypes import float32


class _Formula(NamedTuple):
    """A layer normalisation: its arguments, and the nodes before its last one."""

    x: Value
    scale: Value
    shift: Value
    epsilon: float
    inner: frozenset[Node]


def merge_layer_norms(flow: Flow) -> Flow:
    """Return the flow with such nodes merged."""
    if not any(node.definition.name == "rsqrt" for node in flow.nodes):
        return flow
    reads = Counter([*flow.fetches, *[value for node in flow.nodes for value in node.inputs]])
    awaited = {*flow.targets, *[source for node in flow.nodes for source in node.controls]}
    chosen = set()
    for node in flow.nodes:
        formula = _formula(node)
        if formula is not None and awaited.isdisjoint(formula.inner) and _is_alone(node, formula.inner, reads):
            chosen.add(node.name)
    return rewrite(flow, lambda node: _merged(node) if node.name in chosen else node) if chosen else flow


def _is_alone(last: Node, inner: frozenset[Node], reads: Counter[Value]) -> bool:
    """Whether nothing else reads from the inner nodes, they wait for nothing, and all of them may run in one place."""
    own = Counter([value for node in (last, *inner) for value in node.inputs])
    device = last.operation.device
    free = not any(node.controls or node.operation.device != device for node in (last, *inner))
    return free and all(reads[Value(node, 0)] == own[Value(node, 0)] for node in inner)


def _merged(node: Node) -> Node:
    found = _formula(node)
    assert found is not None
    inputs, attrs = (found.x, found.scale, found.shift), {"epsilon": found.epsilon}
    specs = layer_norm.infer([value.spec for value in inputs], attrs)
    return Node(node.operation, layer_norm, node.name, inputs, (), attrs, specs)


def _formula(node: Node) -> _Formula | None:
    """The layer normalisation of one row that ends in this node; None if none does."""
    if node.definition.name != "add" or node.output_specs[0].dtype is not float32:
        return None
    for product, shift in _both_ways(node):
        for (centred, inverse, scale), products in _factors(product):
            statistics = _statistics(centred, inverse)
            if statistics is not None and _is_row(centred, scale, shift):
                epsilon, inner = statistics
                return _Formula(centred.node.inputs[0], scale, shift, epsilon, inner | products)
    return None


def _both_ways(node: Node) -> Iterator[tuple[Value, Value]]:
    first, second = node.inputs
    yield first, second
    yield second, first


def _factors(product: Value) -> Iterator[tuple[tuple[Value, ...], frozenset[Node]]]:
    """The factors of a product of three in every order, and the nodes that multiply them."""
    outer = product.node
    if outer.definition.name != "multiply":
        return
    for pair, third in _both_ways(outer):
        if pair.node.definition.name == "multiply":
            for factors in itertools.permutations((*pair.node.inputs, third)):
                yield factors, frozenset({outer, pair.node})


def _statistics(centred: Value, inverse: Value) -> tuple[float, frozenset[Node]] | None:
    """The epsilon, and the nodes of the statistics, if these are x - mean and rsqrt(variance + epsilon)."""
    if centred.node.definition.name != "subtract" or inverse.node.definition.name != "rsqrt":
        return None
    (x, mean), total = centred.node.inputs, inverse.node.inputs[0].node
    if total.definition.name != "add" or not _is_mean(mean, x):
        return None
    for variance, epsilon in _both_ways(total):
        number = epsilon.node.attrs["value"] if epsilon.node.definition.name == "constant" else None
        if number is None or number.ndim or variance.node.definition.name != "reduce_mean":
            continue
        distance = variance.node.inputs[0]
        if _is_mean(variance, distance) and _axes(variance) == _axes(mean) and _is_square(distance, x, mean, centred):
            nodes = centred.node, inverse.node, total, mean.node, variance.node, distance.node
            return float(number), frozenset(nodes)
    return None


def _is_square(distance: Value, x: Value, mean: Value, centred: Value) -> bool:
    name, inputs = distance.node.definition.name, distance.node.inputs
    return (name == "squared_difference" and {*inputs} == {x, mean}) or (name == "square" and inputs == (centred,))


def _is_mean(mean: Value, x: Value) -> bool:
    """Whether it is a mean of x that keeps the axes."""
    made = mean.node
    return made.definition.name == "reduce_mean" and made.inputs == (x,) and bool(made.attrs["keepdims"])


def _axes(mean: Value) -> list[int]:
    return sorted(axes_of(mean.node.attrs["axis"], mean.spec.rank))


def _is_row(centred: Value, scale: Value, shift: Value) -> bool:
    """Whether x is one row along the axes of its mean, and has the length of the vectors."""
    (x, mean), sizes = centred.node.inputs, scale.spec.sizes
    if x.spec.sizes is None or not sizes or shift.spec.sizes != sizes or shift.spec.dtype is not scale.spec.dtype:
        return False
    before = len(x.spec.sizes) - len(sizes)
    if before < 0 or _axes(mean) != [*range(before, len(x.spec.sizes))] or x.spec.sizes != (*[1] * before, *sizes):
        return False
    count = x.spec.shape.num_elements()
    return count is not None and 0 < count <= LONGEST
