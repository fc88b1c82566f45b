"""Estimates the time of a node from shapes. Measurements of earlier runs replace the estimate."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.op import Op
from aioflow.tensors.dtypes import Array, DeviceKind, Spec


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """A device as placement sees it.

    Attributes:
        name: its full name.
        spec: the name in parts.
        kind: which kernels it runs.
        memory_limit: how many bytes it may hold; None for no limit.
    """

    name: str
    spec: DeviceSpec
    kind: DeviceKind
    memory_limit: int | None = None

    @classmethod
    def from_string(cls, name: str, memory_limit: int | None = None) -> "Site":
        """Return the device of that full name. ValueError if it is malformed, or no kernels exist for its type."""
        spec = DeviceSpec.from_string(name)
        return cls(name, spec, DeviceKind(spec.device_type or ""), memory_limit)


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


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """How fast a kind of device is: seconds for calling a kernel at all, bytes and operations per second.

    Examples:
        >>> af.Rates(per_call=1e-6, bytes_per_second=1e10, operations_per_second=1e10)
        Rates(per_call=1e-06, bytes_per_second=10000000000.0, operations_per_second=10000000000.0)
    """

    per_call: float
    bytes_per_second: float
    operations_per_second: float


CPU_RATES: Final = Rates(PER_NODE, BYTES_PER_SECOND, OPERATIONS_PER_SECOND)
_GUESS: Final = 32
"""The size assumed for an axis whose size is open."""


def seconds(
    node: Costed,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec] | None = None,
    kind: DeviceKind = DeviceKind.CPU,
    rates: Rates = CPU_RATES,
) -> float:
    """The estimated time of one execution, for inputs of these Specs."""
    results = node.output_specs if outputs is None else outputs
    kernel = node.definition.kernel_for(kind, inputs)
    moves = kernel is None or kernel.fresh  # else it hands on a view
    moved = sum(elements(spec) * spec.dtype.size for spec in (*inputs, *results)) if moves else 0
    rule = node.definition.cost_rule
    operations = rule(inputs, results, node.attrs) if rule is not None else 0.0
    return rates.per_call + moved / rates.bytes_per_second + operations / rates.operations_per_second


def elements(spec: Spec) -> int:
    """Return the number of elements, with a guess for unknown sizes."""
    count = 1
    for size in spec.sizes or ():
        count *= _GUESS if size is None else size
    return count


Estimate = Callable[[Sequence[Array]], tuple[float, bool]]
"""Seconds for concrete inputs, and whether most of them are spent in kernels worth a thread."""
HEAVY: Final = 100e-6
"""Seconds. Longer work runs on a thread, unless it is brief."""
BRIEF: Final = 2e-3
"""Seconds, the slice of time of inline work. Work that was measured to be no longer may stay on the loop.

To wake a thread, and then the loop again, takes up to 0.2 ms on a virtual machine. An estimate alone does not suffice,
since it can be wrong by orders of magnitude.
"""
WAKE: Final = 0.3e-3
"""Seconds to wake a thread, and then the loop again. A thread gains nothing for work that takes less."""
BIG_KERNEL: Final = 20e-6
"""Seconds: a kernel this long is worth a thread; many short ones would only fight the loop for the interpreter."""
_STEP: Final = 0.1
_FAR: Final = 2.0
"""A measurement counts as far from the estimate if one is this many times the other."""
_EACH: Final = 512
"""The most strings that are all measured; a larger array is estimated from a sample."""
_SAMPLE: Final = 64


class RegionCost:
    """The time of a group of nodes by the size of its inputs: estimated at first, then measured.

    The value of an input that may set the size of a tensor made inside (`numbers`, by place) counts as a size, too. So
    do the bytes of an input of strings (`texts`, by place).

    A measurement of more than twice the figure replaces it at once, because an estimate can be wrong by orders of
    magnitude, and a group that holds the loop must not do so a second time. A measurement of less than half halves the
    figure: after an interruption by the machine, light work runs on a thread a few times, which is harmless. Closer
    measurements move the figure by a fixed fraction, so that it follows their median.
    """

    __slots__ = ("_branches", "_count", "_estimate", "_known", "_measured", "_numbers", "_texts")

    def __init__(
        self, estimate: Estimate, count: float, numbers: Sequence[int] = (), texts: Sequence[int] = (),
        branches: bool = False,
    ) -> None:  # fmt: skip
        self._branches = branches
        self._numbers = numbers
        self._texts = texts
        self._estimate = estimate
        self._count = count
        self._known: dict[int, tuple[float, bool]] = {}
        self._measured: set[int] = set()

    @property
    def endless(self) -> bool:
        """Whether measurements do not predict the next time, since the group has a loop."""
        return math.isinf(self._count)

    def bucket(self, inputs: Sequence[Array]) -> int:
        """The size class of these inputs."""
        size = 0
        for value in inputs:
            size += getattr(value, "size", 1)
        for place in self._numbers:
            value = inputs[place]
            if value.size:  # as Python's integers: the absolute value of NumPy's least integer overflows
                size += max(abs(int(value.min())), abs(int(value.max())))
        for place in self._texts:
            size += text_bytes(inputs[place])
        return size.bit_length()

    def light(self, bucket: int, inputs: Sequence[Array]) -> bool:
        """Whether it is done before the loop would notice."""
        found = self._known.get(bucket)
        if found is None:
            found = self._known[bucket] = self._estimate(inputs)
        return found[0] <= HEAVY

    def heavy(self, bucket: int, inputs: Sequence[Array]) -> bool:
        """Whether it belongs on a thread: it is not light, and most of it are kernels worth a thread."""
        if self.light(bucket, inputs):
            return False
        figure, threads = self._known[bucket]
        return threads or figure > BIG_KERNEL * self._count

    def spreads(self, bucket: int) -> bool:
        """Whether its kernels may use several threads of a library: most of its time goes to big ones."""
        figure, threads = self._known[bucket]
        return threads and figure > HEAVY / 2

    def brief(self, bucket: int) -> bool:
        """Whether measurements say that it is done within a slice of time, and may hold the loop alone."""
        return self._was_within(BRIEF, bucket)

    def short(self, bucket: int) -> bool:
        """Whether measurements say that it takes no longer than a thread would take to begin it."""
        return self._was_within(WAKE, bucket)

    def _was_within(self, seconds: float, bucket: int) -> bool:
        """Whether measurements say so. They cannot with a branch: the next run may take the dear one."""
        is_measured = bucket in self._measured and not self.endless and not self._branches
        return is_measured and self._known[bucket][0] <= seconds

    def learn(self, bucket: int, measured: float) -> None:
        """Take a measured execution into account. A clock that stands still, as in simulations, has measured none."""
        if not measured:
            return
        self._measured.add(bucket)
        figure, threads = self._known[bucket]
        if measured > _FAR * figure:
            figure = measured
        elif measured * _FAR < figure:
            figure /= _FAR
        else:
            figure *= 1 + _STEP if measured > figure else 1 - _STEP
        self._known[bucket] = (figure, threads)


def text_bytes(value: Array) -> int:
    """The bytes of an array of strings; for a large array, an estimate from a sample."""
    if getattr(value, "size", 1) == 1:
        text = value.item() if isinstance(value, np.ndarray) else value
        return len(text) if isinstance(text, bytes) else 0
    step = 1 if value.size <= _EACH else value.size // _SAMPLE
    return step * sum([len(text) for text in value.flat[::step] if isinstance(text, bytes)])


def total(each: Iterable[tuple[float, float]]) -> tuple[float, bool]:
    """The sum of several kernels' seconds, each times its number of runs, and whether big ones make up most of it."""
    whole = big = 0.0
    for seconds, times in each:
        whole += seconds * times
        big += seconds * times * (seconds > BIG_KERNEL)
    return whole, big > whole / 2
