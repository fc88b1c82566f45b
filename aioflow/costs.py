"""What a node costs, estimated from shapes; measurements of earlier runs replace the estimate where they exist."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from aioflow.dtypes import Array, DeviceKind, Spec
from aioflow.op import Op


class Costed(Protocol):
    """A node, as far as its cost goes."""

    @property
    def definition(self) -> Op[Any]:
        """Its op."""

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes."""

    @property
    def output_specs(self) -> Sequence[Spec]:
        """What it makes."""


PER_NODE: Final = 0.7e-6
"""Seconds for calling a kernel at all."""
BYTES_PER_SECOND: Final = 6e9
OPERATIONS_PER_SECOND: Final = 60e9
"""Rates of one CPU with two cores; only their order of magnitude matters."""
_GUESS: Final = 32
"""The size assumed for an axis whose size is open."""


def seconds(node: Costed, inputs: Sequence[Spec], outputs: Sequence[Spec] | None = None) -> float:
    """The estimated time of one execution, for inputs of these Specs."""
    results = node.output_specs if outputs is None else outputs
    kernel = node.definition.kernel_for(DeviceKind.CPU, inputs)
    moves = kernel is None or kernel.fresh  # else it hands on a view
    moved = sum(elements(spec) * spec.dtype.size for spec in (*inputs, *results)) if moves else 0
    rule = node.definition.cost_rule
    operations = rule(inputs, results, node.attrs) if rule is not None else 0.0
    return PER_NODE + moved / BYTES_PER_SECOND + operations / OPERATIONS_PER_SECOND


def elements(spec: Spec) -> int:
    """How many elements, with a guess for what is open."""
    count = 1
    for size in spec.sizes or ():
        count *= _GUESS if size is None else size
    return count


Estimate = Callable[[Sequence[Array]], tuple[float, bool]]
"""Seconds for concrete inputs, and whether most of them are spent in kernels worth a thread."""
HEAVY: Final = 100e-6
"""Seconds: what takes longer leaves the loop."""
_BIG_KERNEL: Final = 20e-6
"""Seconds: a kernel this long is worth a thread; many short ones would only fight the loop for the interpreter."""
_STEP: Final = 0.1
_FAR: Final = 2.0
_FAR_STEP: Final = 1.5
"""A measurement this many times the figure moves it faster: an estimate can be wrong by orders of magnitude."""


class RegionCost:
    """What a group of nodes costs, by the size of its inputs: estimated at first, then measured.

    Of inputs that may be sizes of what is made inside, `numbers` by their place, the value counts as a size, too.

    Measurements move the figure by a fixed fraction towards themselves, which makes it follow their median: one run
    that the machine interrupted counts little.
    """

    __slots__ = ("_count", "_estimate", "_known", "_numbers")

    def __init__(self, estimate: Estimate, count: float, numbers: Sequence[int] = ()) -> None:
        self._numbers = numbers
        self._estimate = estimate
        self._count = count
        self._known: dict[int, tuple[float, bool]] = {}

    @property
    def endless(self) -> bool:
        """Whether no measurement tells how long it takes the next time: it has a loop."""
        return math.isinf(self._count)

    def bucket(self, inputs: Sequence[Array]) -> int:
        """The size class of these inputs."""
        size = 0
        for value in inputs:
            size += getattr(value, "size", 1)
        for place in self._numbers:
            value = inputs[place]
            size += int(abs(value) if value.ndim == 0 else abs(value).max(initial=0))
        return size.bit_length()

    def light(self, bucket: int, inputs: Sequence[Array]) -> bool:
        """Whether it is done before the loop would notice."""
        found = self._known.get(bucket)
        if found is None:
            found = self._known[bucket] = self._estimate(inputs)
        return found[0] <= HEAVY

    def heavy(self, bucket: int, inputs: Sequence[Array]) -> bool:
        """Whether it belongs on a thread: it is not light, and most of it are kernels worth a thread."""
        return not self.light(bucket, inputs) and self._known[bucket][1]

    def learn(self, bucket: int, measured: float) -> None:
        """Take a measured execution into account."""
        estimate, threads = self._known[bucket]
        if measured > _FAR * estimate:
            estimate *= _FAR_STEP
        else:
            estimate *= 1 + _STEP if measured > estimate else 1 - _STEP
        self._known[bucket] = (estimate, threads or estimate > _BIG_KERNEL * self._count)


def total(each: Sequence[float]) -> tuple[float, bool]:
    """The sum of several kernels' seconds, and whether the big ones among them make up most of it."""
    whole = sum(each)
    return whole, sum(part for part in each if part > _BIG_KERNEL) > whole / 2


__all__ = ["HEAVY", "Costed", "Estimate", "RegionCost", "elements", "seconds", "total"]
