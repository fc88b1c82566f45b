"""Draws the faults of a simulated cluster from a seed.

The faults of hosts are drawn before anything runs, and those of frames by the path of the frame. So a seed always
causes the same faults, and a deterministic program always has the same outcome.
"""

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from aioflow.net.transport.in_memory import Path
from aioflow.net.wire.codec import ProtocolError, announcement
from aioflow.net.wire.control_verbs import Cancel, Pong
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import Answer, Request

T = TypeVar("T")
_LIMITS: Final = Limits()
_REPEATABLE: Final = (Request, Answer, Cancel, Pong)
_LATE: Final = 0.02
"""One in this many delayed frames is delayed far longer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chaos:
    """The amount and the duration of faults. After that time the cluster works without faults.

    A stream stays reliable: a frame that arrives is unchanged, in order and without gaps before it.

    Attributes:
        seconds: how long faults occur.
        delay: average delay of a frame in seconds. Frames of one channel keep their order, those of different
            channels between two hosts do not.
        drop: probability that a frame is lost, with all later frames of its channel in that direction: the connection
            hangs, and the other direction goes on.
        duplicate: probability that a request or answer of one frame arrives twice.
        resets: expected number of connections that are lost; both ends learn it.
        half_open: expected number of connections in which one direction fails; neither end learns it.
        partitions: expected number of partitions: some hosts receive nothing from the others, or neither side does.
        pauses: expected number of hosts that stop: they neither read nor write, and their timers fire late.
        crashes: expected number of servers that are killed, or lose power without anyone learning it; they restart.
        blocks: expected number of hosts whose event loop is blocked while the process lives.
        lasting: the shortest and the longest duration of a fault, in seconds.
        spared: hosts that neither stop nor block nor crash.

    Examples:
        >>> from aioflow.testing import Chaos
        >>> Chaos(seconds=5.0, crashes=0.0).crashes
        0.0
    """

    seconds: float = 10.0
    delay: float = 0.002
    drop: float = 0.0005
    duplicate: float = 0.01
    resets: float = 1.0
    half_open: float = 1.0
    partitions: float = 1.0
    pauses: float = 1.0
    crashes: float = 1.0
    blocks: float = 1.0
    lasting: tuple[float, float] = (0.1, 8.0)
    spared: Sequence[str] = ()


QUIET: Final = Chaos(0.0)
"""No faults."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mishap:
    """One fault of hosts or connections.

    Attributes:
        at: when it begins, in seconds from the start of the cluster.
        kind: one of `reset`, `half-open`, `partition`, `one-way partition`, `pause`, `block`, `crash` and
            `power failure`.
        hosts: the affected hosts: a pair and the direction, the hosts that are cut off, or one host.
        seconds: its duration.
        which: a number from 0 to 1 that selects one of several connections.

    Examples:
        >>> from aioflow.testing import Mishap
        >>> Mishap(at=1.0, kind="crash", hosts=("worker1",), seconds=2.0, which=0.0).kind
        'crash'
    """

    at: float
    kind: str
    hosts: tuple[str, ...]
    seconds: float
    which: float

    def of(self, things: Sequence[T]) -> T:
        """Return the selected one of `things`."""
        return things[int(self.which * len(things))]

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(self.hosts)}" + (f" for {self.seconds:.3f} s" if self.seconds else "")


def draw_mishaps(seed: int, chaos: Chaos, servers: Sequence[str], clients: Sequence[str]) -> tuple[Mishap, ...]:
    """Draw the faults of these hosts, ordered by time."""
    draw = random.Random(f"{seed} mishaps")
    hosts = (*servers, *clients)
    mortal = [server for server in servers if server not in chaos.spared]
    stopping = [host for host in hosts if host not in chaos.spared]
    kinds: list[tuple[tuple[str, ...], float, Callable[[], tuple[str, ...]]]] = [
        (("reset",), chaos.resets, lambda: tuple(draw.sample(hosts, 2))),
        (("half-open",), chaos.half_open, lambda: tuple(draw.sample(hosts, 2))),
        (("partition", "one-way partition"), chaos.partitions, lambda: _draw_hosts(draw, hosts)),
        (("pause",), chaos.pauses if stopping else 0.0, lambda: (draw.choice(stopping),)),
        (("crash", "power failure"), chaos.crashes if mortal else 0.0, lambda: (draw.choice(mortal),)),
        (("block",), chaos.blocks if stopping else 0.0, lambda: (draw.choice(stopping),)),
    ]
    found = [
        _draw_mishap(draw, chaos, draw.choice(names), draw_hosts())
        for names, expected, draw_hosts in kinds
        for _ in range(_draw_count(draw, expected))
    ]
    return tuple(sorted(found, key=lambda mishap: mishap.at))


def _draw_mishap(draw: random.Random, chaos: Chaos, kind: str, hosts: tuple[str, ...]) -> Mishap:
    at = draw.uniform(0.0, chaos.seconds)
    shortest, longest = map(math.log, chaos.lasting)
    seconds = min(math.exp(draw.uniform(shortest, longest)), chaos.seconds - at)
    return Mishap(at, kind, hosts, 0.0 if kind in ("reset", "half-open") else seconds, draw.random())


def _draw_hosts(draw: random.Random, hosts: Sequence[str]) -> tuple[str, ...]:
    """Draw at least one host, but not all."""
    return tuple(draw.sample(hosts, draw.randint(1, len(hosts) - 1)))


def _draw_count(draw: random.Random, expected: float) -> int:
    """Draw a number from a Poisson distribution."""
    count, left = 0, draw.expovariate(1.0)
    while left < expected:
        count += 1
        left += draw.expovariate(1.0)
    return count


def inject_faults(
    path: Path, name: str, seed: int, chaos: Chaos, active: Callable[[], bool], record: Callable[[str], None]
) -> None:
    """Cause faults of the frames on that path while `active` returns True, and report them to `record`."""
    draw = random.Random(f"{seed} {name}")

    def delay() -> float:
        if not active():
            return 0.0
        return draw.expovariate(1.0) * chaos.delay * (1.0 if draw.random() > _LATE else 1 / _LATE)

    def lost() -> bool:
        found = active() and draw.random() < chaos.drop
        if found:
            record(f"a frame from {name} is lost")
        return found

    def twice(frame: bytes) -> bool:
        found = active() and draw.random() < chaos.duplicate and _repeatable(frame)
        if found:
            record(f"{describe_frame(frame)} from {name} arrives twice")
        return found

    path.delay, path.lost, path.twice = delay, lost, twice


def _repeatable(frame: bytes) -> bool:
    """Whether the frame is a whole message that may arrive twice."""
    try:
        announced = announcement(frame, _LIMITS)
    except ProtocolError:
        return False
    return issubclass(announced.record.cls, _REPEATABLE) and not announced.header.follows


def describe_frame(frame: bytes) -> str:
    """Return a short description of a frame."""
    try:
        announced = announcement(frame, _LIMITS)
    except ProtocolError:
        return f"{len(frame)} bytes"
    name, number = announced.record.name, announced.header.id
    return f"{name} {number}" if number else name
