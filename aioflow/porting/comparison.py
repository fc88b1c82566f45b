"""Two systems compared tensor by tensor [P15 section 6]."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.runtime.feeds import parse_feeds
from aioflow.runtime.fetches import parse_fetches
from aioflow.session import Session
from aioflow.tensors.dtypes import Array


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
        hint: what may be the reason, if that is known.

    Examples:
        >>> x = af.constant([1.0, 2.0], name="x")
        >>> comparison = await af.porting.compare_outputs(session, {x: np.array([1.0, 2.5], np.float32)})
        >>> print(comparison.first())
        x:0 (constant): 0.5 absolute, 0.2 relative at (1,)
    """

    tensor: str
    op_type: str
    line: str
    index: tuple[int, ...]
    extremes: tuple[tuple[float, float], ...]
    hint: str = ""

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
        place = f"; {self.hint}" if self.hint else f" at {self.index}"
        return f"{self.tensor} ({self.op_type}): {apart}{place}"


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of all compared tensors, in the order of the graph.

    Examples:
        >>> x = af.constant([1.0, 2.0])
        >>> comparison = await af.compare(session, session, [af.tanh(x), x * x])
        >>> all(difference.absolute == 0.0 for difference in comparison.differences)
        True
    """

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

    Examples:
        >>> x = af.constant([1.0, 2.0])
        >>> comparison = await af.compare(session, session, af.tanh(x))
        >>> print(comparison.first())
        None
    """
    wanted, given = parse_fetches(a.graph, fetches), parse_feeds(a.graph, feeds)
    targets: list[Tensor | Operation] = [*wanted.tensors, *wanted.operations]
    tensors = [tensor for tensor in _ancestors(targets, given) if is_comparable(tensor)]
    named = [[tensor.name for tensor in tensors], [target.name for target in targets]]
    by_name = {tensor.name: value for tensor, value in given.items()}
    values_a, _ = await a.run(named, by_name)
    values_b, _ = await b.run(named, by_name if feeds_b is None else feeds_b)
    return Comparison(tuple([difference(*each) for each in zip(tensors, values_a, values_b, strict=True)]))


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


def is_comparable(tensor: Tensor) -> bool:
    """Return whether a session can fetch the tensor, and it has numbers or booleans."""
    return (tensor.dtype.is_numeric or tensor.dtype.is_bool) and tensor.graph.is_fetchable(tensor)


def difference(tensor: Tensor, a: Any, b: Any, hint: str = "") -> Difference:
    """Return the difference of two values of a tensor."""
    index, extremes = distance(np.asarray(a), np.asarray(b))
    return Difference(tensor.name, tensor.op.type, describe_line(tensor.op), index, extremes, hint)


def distance(a: Array, b: Array) -> tuple[tuple[int, ...], tuple[tuple[float, float], ...]]:
    """Return where two arrays are furthest apart, and the extremes of how far."""
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
