"""Aids for porting a model, after the white paper's lessons [P15 section 6].

Count the parameters, compare two systems tensor by tensor, and do so first of all with learning turned off.
"""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.runtime.feeds import parse_feeds
from aioflow.runtime.fetches import parse_fetches
from aioflow.session import Session
from aioflow.tensors.dtypes import Array


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterReport:
    """How many parameters a graph has: (name, shape, dtype, count, trainable) of each variable."""

    rows: tuple[tuple[str, tuple[int, ...], str, int, bool], ...]

    @property
    def total(self) -> int:
        """Parameters of all variables."""
        return sum(row[3] for row in self.rows)

    @property
    def trainable(self) -> int:
        """Parameters of the trainable ones."""
        return sum(row[3] for row in self.rows if row[4])

    def __str__(self) -> str:
        width = max(len(name) for name in ["total", *[row[0] for row in self.rows]])
        lines = [
            f"{name:<{width}}  {count:>12,}  {dtype}{list(shape)}{'' if trainable else '  not trainable'}"
            for name, shape, dtype, count, trainable in self.rows
        ]
        return "\n".join([*lines, f"{'total':<{width}}  {self.total:>12,}  {self.trainable:,} of them trainable"])


def parameter_report(graph: Graph | None = None) -> ParameterReport:
    """The variables of a graph (the default one if None) with their sizes. ValueError if a shape is open."""
    graph = get_default_graph() if graph is None else graph
    trainable = {id(variable) for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    rows = []
    for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES):
        count = variable.shape.num_elements()
        if count is None:
            raise ValueError(
                f"variable {variable.op.name!r} has shape {variable.shape}: its parameters cannot be counted"
            )
        shape = tuple(variable.shape.as_list())
        rows.append((variable.op.name, shape, variable.dtype.name, count, id(variable) in trainable))
    return ParameterReport(tuple(rows))


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one tensor between two sessions: the largest absolute and relative difference.

    Attributes:
        tensor: the name of the tensor.
        op_type: the type of its operation.
        line: the user's line that built the operation.
        index: the position of the largest absolute difference.
        extremes: (absolute, relative) difference of each element than which none differs more in both, the largest
            absolute one first; empty if all are equal.
    """

    tensor: str
    op_type: str
    line: str
    index: tuple[int, ...]
    extremes: tuple[tuple[float, float], ...]

    @property
    def absolute(self) -> float:
        """The largest absolute difference; infinite if shapes, or which values are finite, differ."""
        return self.extremes[0][0] if self.extremes else 0.0

    @property
    def relative(self) -> float:
        """The largest difference relative to the larger magnitude."""
        return self.extremes[-1][1] if self.extremes else 0.0

    def exceeds(self, rtol: float, atol: float) -> bool:
        """Whether an element differs by more than both tolerances."""
        return any(absolute > atol and relative > rtol for absolute, relative in self.extremes)

    def __str__(self) -> str:
        apart = f"{self.absolute:.3g} absolute, {self.relative:.3g} relative"
        return f"{self.tensor} ({self.op_type}): {apart} at {self.index}"


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of all compared tensors, in the order of the graph."""

    differences: tuple[Difference, ...]

    def first(self, rtol: float = 1e-5, atol: float = 1e-8) -> Difference | None:
        """The first tensor, in the order of the graph, of which an element differs by more than both tolerances."""
        return next((difference for difference in self.differences if difference.exceeds(rtol, atol)), None)

    def __str__(self) -> str:
        return "\n".join(str(difference) for difference in self.differences)


async def compare(
    a: Session,
    b: Session,
    fetches: Any,
    feeds: Mapping[Any, Any] | None = None,
    feeds_b: Mapping[Any, Any] | None = None,
) -> Comparison:
    """Run the same fetches in two sessions, once each, and compare every tensor they depend on.

    The sessions may differ in configuration or device, or hold two graphs built by the same program: tensors are
    matched by name. Both runs change state as any run of `fetches` does.

    Args:
        a: one session.
        b: the other.
        fetches: fetches of `a`.
        feeds: values fed in both, by tensor of `a`'s graph or by name.
        feeds_b: the feeds of `b`, if they differ.
    """
    wanted, given = parse_fetches(a.graph, fetches), parse_feeds(a.graph, feeds)
    targets: list[Tensor | Operation] = [*wanted.tensors, *wanted.operations]
    tensors = [tensor for tensor in _ancestors(targets, given) if _comparable(tensor)]
    named = [[tensor.name for tensor in tensors], [target.name for target in targets]]
    by_name = {tensor.name: value for tensor, value in given.items()}
    values_a, _ = await a.run(named, by_name)
    values_b, _ = await b.run(named, by_name if feeds_b is None else feeds_b)
    return Comparison(tuple([_difference(*each) for each in zip(tensors, values_a, values_b, strict=True)]))


def _ancestors(targets: Iterable[Tensor | Operation], given: Collection[Tensor]) -> list[Tensor]:
    """Every tensor that is computed for the targets, in the order of the graph."""
    found: set[Operation] = set()
    stack = [target.op if isinstance(target, Tensor) else target for target in targets if target not in given]
    while stack:
        operation = stack.pop()
        if operation not in found:
            found.add(operation)
            stack.extend(tensor.op for tensor in operation.inputs if tensor not in given)
            stack.extend(operation.control_inputs)
    ordered = sorted(found, key=lambda operation: operation.id)
    return [tensor for operation in ordered for tensor in operation.outputs if tensor not in given]


def _comparable(tensor: Tensor) -> bool:
    return (tensor.dtype.is_numeric or tensor.dtype.is_bool) and tensor.graph.is_fetchable(tensor)


def _difference(tensor: Tensor, a: Any, b: Any) -> Difference:
    index, extremes = _distance(np.asarray(a), np.asarray(b))
    return Difference(tensor.name, tensor.op.type, describe_line(tensor.op), index, extremes)


def _distance(a: Array, b: Array) -> tuple[tuple[int, ...], tuple[tuple[float, float], ...]]:
    """Where they are furthest apart, and the extremes of how far."""
    if a.shape != b.shape:
        return (), ((np.inf, np.inf),)
    if a.size == 0:
        return (), ()
    kinds = a.dtype.kind + b.dtype.kind
    wide = np.complex128 if "c" in kinds else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        if kinds.strip("biu") == "":  # float64 may not distinguish long integers
            apart = np.maximum(apart, a != b)
        scaled = apart / np.maximum(np.abs(x), np.abs(y))
    scaled = np.where(np.isfinite(scaled), scaled, np.inf)
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return tuple(int(i) for i in place), _extremes(apart[apart > 0], scaled[apart > 0])


def _extremes(apart: Array, scaled: Array) -> tuple[tuple[float, float], ...]:
    """Those pairs, one of each array, that no other pair exceeds in both, by falling first number."""
    order = np.lexsort((-scaled, -apart))
    apart, scaled = apart[order], scaled[order]
    chosen = scaled > np.maximum.accumulate(np.append(-1.0, scaled[:-1]))
    return tuple(zip(apart[chosen].tolist(), scaled[chosen].tolist(), strict=True))


async def check_learning_off(
    a: Session,
    b: Session,
    loss: Any,
    train: Any,
    batches: Iterable[Mapping[Any, Any]] | AsyncIterable[Mapping[Any, Any]],
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> list[Comparison]:
    """Check that with a learning rate of zero two systems agree on every batch, and that nothing is learned.

    Feed the learning rate, 0, as part of each batch. Variables that training changes all the same (a global step, the
    moments of an optimizer) are not looked at, only the trainable ones.

    Raises:
        AssertionError: naming the first tensor, in the order of the graph, that differs, and the batch; or the variable
            that changed.
    """
    variables = a.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)
    reads = {variable.op.name: variable._as_graph_element() for variable in variables}
    names = {name: read.name for name, read in reads.items() if _comparable(read)}
    before = [(session, await session.run(names)) for session in (a, b)]
    comparisons = []
    async with contextlib.aclosing(_numbered(batches)) as numbered:
        async for number, batch in numbered:
            comparisons.append(await compare(a, b, [loss, train], batch))
            apart = comparisons[-1].first(rtol, atol)
            if apart is not None:
                text = f"with learning off, batch {number} differs first at {apart}\n  built at: {apart.line}"
                raise AssertionError(text)
            for session, values in before:
                changed = _changed(values, await session.run(names))
                if changed is not None:
                    raise AssertionError(f"with learning off, batch {number} changed variable {changed!r}")
    return comparisons


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The name of the first value that is not the same."""
    return next((name for name in before if _distance(np.asarray(before[name]), np.asarray(after[name]))[1]), None)


async def _numbered(batches: Any) -> AsyncGenerator[tuple[int, Any], None]:
    number = 0
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield number, batch
            number += 1
    else:
        for number, batch in enumerate(batches):
            yield number, batch
