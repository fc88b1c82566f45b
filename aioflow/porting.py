"""Aids for porting a model, after the white paper's lessons [P15 section 6].

Count the parameters, compare two systems tensor by tensor, and do so first of all with learning turned off.
"""

import dataclasses
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aioflow.graph import Graph, get_default_graph
from aioflow.graph_keys import GraphKeys
from aioflow.node import Operation, Tensor, describe_line
from aioflow.session import Session


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
        width = max([len(row[0]) for row in self.rows], default=4)
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
    """How far one tensor is apart: the largest absolute and relative difference, and where.

    Attributes:
        tensor: its name.
        op_type: what made it.
        line: the user's line that built that.
        absolute: the largest absolute difference; infinite if shapes, or which values are finite, differ.
        relative: the largest difference relative to the larger magnitude.
        index: the position of the largest absolute difference.
    """

    tensor: str
    op_type: str
    line: str
    absolute: float
    relative: float
    index: tuple[int, ...]

    def __str__(self) -> str:
        apart = f"{self.absolute:.3g} absolute, {self.relative:.3g} relative"
        return f"{self.tensor} ({self.op_type}): {apart} at {self.index}"


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of all compared tensors, in the order of the graph."""

    differences: tuple[Difference, ...]

    def first(self, rtol: float = 1e-5, atol: float = 1e-8) -> Difference | None:
        """The first tensor, in the order of the graph, that differs by more than either tolerance allows."""
        return next((d for d in self.differences if d.absolute > atol and d.relative > rtol), None)

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
        fetches: tensors or operations of `a`'s graph, or their names.
        feeds: values fed in both, by tensor of `a`'s graph or by name.
        feeds_b: what `b` is fed instead.
    """
    targets = [a.graph.as_graph_element(fetch) for fetch in _flat(fetches)]
    fed = {a.graph.as_graph_element(key): value for key, value in (feeds or {}).items()}
    tensors = [tensor for tensor in _ancestors(targets, fed) if _comparable(tensor)]
    by_name = {element.name: value for element, value in fed.items()}
    operations = [element.name for element in targets if isinstance(element, Operation)]
    names = [tensor.name for tensor in tensors]
    values_a = await a.run([names, operations], by_name)
    values_b = await b.run([names, operations], by_name if feeds_b is None else feeds_b)
    pairs = zip(tensors, values_a[0], values_b[0], strict=True)
    return Comparison(tuple([_difference(tensor, x, y) for tensor, x, y in pairs]))


def _flat(fetches: Any) -> list[Any]:
    if isinstance(fetches, (list, tuple)):
        return [item for part in fetches for item in _flat(part)]
    return [fetches]


def _ancestors(targets: Sequence[Tensor | Operation], fed: Iterable[Any]) -> list[Tensor]:
    """Every tensor that the targets depend on, in the order of the graph."""
    given = set(fed)
    found: set[Operation] = set()
    stack = [element.op if isinstance(element, Tensor) else element for element in targets]
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
    absolute, relative, index = _distance(np.asarray(a), np.asarray(b))
    return Difference(tensor.name, tensor.op.type, describe_line(tensor.op), absolute, relative, index)


def _distance(a: Any, b: Any) -> tuple[float, float, tuple[int, ...]]:
    if a.shape != b.shape:
        return np.inf, np.inf, ()
    if a.size == 0:
        return 0.0, 0.0, ()
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        scaled = apart / np.maximum(np.abs(x), np.abs(y))
    scaled = np.where(apart == 0, 0.0, np.where(np.isfinite(scaled), scaled, np.inf))
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return float(apart.max()), float(scaled.max()), tuple(int(i) for i in place)


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
    names = [variable.op.name for variable in a.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)]
    reads = [variable._as_graph_element().name for variable in a.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)]
    before = [await a.run(reads), await b.run(reads)]
    comparisons = []
    async for number, batch in _numbered(batches):
        comparison = await compare(a, b, [loss, train], batch)
        comparisons.append(comparison)
        apart = comparison.first(rtol, atol)
        if apart is not None:
            raise AssertionError(
                f"with learning off, batch {number} differs first at {apart}\n  built at: {apart.line}"
            )
        for session, values in zip((a, b), before, strict=True):
            for name, old, new in zip(names, values, await session.run(reads), strict=True):
                if not np.array_equal(old, new, equal_nan=True):
                    raise AssertionError(f"with learning off, batch {number} changed variable {name!r}")
    return comparisons


async def _numbered(batches: Any) -> Any:
    number = 0
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield number, batch
            number += 1
    else:
        for number, batch in enumerate(batches):
            yield number, batch
