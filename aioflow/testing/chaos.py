"""What goes wrong in a simulated cluster, drawn from a seed.

Mishaps that befall hosts are drawn before anything runs, and what befalls a frame is drawn by the path it takes. So
the same seed does the same to every program, and a program that takes the same turns fares the same.
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
"""Of so many frames that are late one is late by far more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chaos:
    """How much goes wrong, and for how long: then all is well again.

    Nothing breaks the promise of a reliable stream, that what arrives is what was sent, in order and without gaps.

    Attributes:
        seconds: how long.
        delay: seconds that a frame is late on average. Frames of one channel keep their order, those of different
            channels between two hosts do not.
        drop: how likely each frame is lost for good, and with it all that its channel carries after it in that
            direction: the connection hangs, and the other direction goes on.
        duplicate: how likely each request and each answer that is one frame arrives twice.
        resets: how many connections to expect that are lost, as both ends are told.
        half_open: how many to expect of which nothing arrives any more in one direction, as nobody is told.
        partitions: how often to expect that some hosts hear nothing of the others, or neither of the other.
        pauses: how often to expect that a host stops: it neither reads nor writes, and its timers come too late.
        crashes: how often to expect that a server is killed, or its power fails, as nobody is told; it starts anew.
        blocks: how often to expect that the loop of a host does not turn although its process lives.
        lasting: between how many and how many seconds that lasts.
        spared: hosts that neither stop nor block nor crash.
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
"""Nothing goes wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mishap:
    """One thing that goes wrong.

    Attributes:
        at: when it begins, in seconds from the start of the cluster.
        kind: one of `reset`, `half-open`, `partition`, `one-way partition`, `pause`, `block`, `crash` and
            `power failure`.
        hosts: whom it befalls: a pair and the direction, the hosts that are cut off, or one host.
        seconds: how long it lasts.
        which: a number from 0 to 1 that says which of several connections.
    """

    at: float
    kind: str
    hosts: tuple[str, ...]
    seconds: float
    which: float

    def of(self, things: Sequence[T]) -> T:
        """The one of them that it means."""
        return things[int(self.which * len(things))]

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(self.hosts)}" + (f" for {self.seconds:.3f} s" if self.seconds else "")


def drawn(seed: int, chaos: Chaos, servers: Sequence[str], clients: Sequence[str]) -> tuple[Mishap, ...]:
    """What befalls these hosts, in the order of time."""
    draw = random.Random(f"{seed} mishaps")
    hosts = (*servers, *clients)
    mortal = [server for server in servers if server not in chaos.spared]
    stopping = [host for host in hosts if host not in chaos.spared]
    kinds: list[tuple[tuple[str, ...], float, Callable[[], tuple[str, ...]]]] = [
        (("reset",), chaos.resets, lambda: tuple(draw.sample(hosts, 2))),
        (("half-open",), chaos.half_open, lambda: tuple(draw.sample(hosts, 2))),
        (("partition", "one-way partition"), chaos.partitions, lambda: _some(draw, hosts)),
        (("pause",), chaos.pauses if stopping else 0.0, lambda: (draw.choice(stopping),)),
        (("crash", "power failure"), chaos.crashes if mortal else 0.0, lambda: (draw.choice(mortal),)),
        (("block",), chaos.blocks if stopping else 0.0, lambda: (draw.choice(stopping),)),
    ]
    found = [
        _one(draw, chaos, draw.choice(names), whom())
        for names, expected, whom in kinds
        for _ in range(_count(draw, expected))
    ]
    return tuple(sorted(found, key=lambda mishap: mishap.at))


def _one(draw: random.Random, chaos: Chaos, kind: str, hosts: tuple[str, ...]) -> Mishap:
    at = draw.uniform(0.0, chaos.seconds)
    shortest, longest = map(math.log, chaos.lasting)
    seconds = min(math.exp(draw.uniform(shortest, longest)), chaos.seconds - at)
    return Mishap(at, kind, hosts, 0.0 if kind in ("reset", "half-open") else seconds, draw.random())


def _some(draw: random.Random, hosts: Sequence[str]) -> tuple[str, ...]:
    """At least one of them, and not all."""
    return tuple(draw.sample(hosts, draw.randint(1, len(hosts) - 1)))


def _count(draw: random.Random, expected: float) -> int:
    """A number from Poisson's law."""
    count, left = 0, draw.expovariate(1.0)
    while left < expected:
        count += 1
        left += draw.expovariate(1.0)
    return count


def afflict(
    path: Path, name: str, seed: int, chaos: Chaos, raging: Callable[[], bool], tell: Callable[[str], None]
) -> None:
    """Let go wrong what goes wrong with frames on that path, as long as it is `raging`; and tell of it."""
    draw = random.Random(f"{seed} {name}")

    def delay() -> float:
        if not raging():
            return 0.0
        return draw.expovariate(1.0) * chaos.delay * (1.0 if draw.random() > _LATE else 1 / _LATE)

    def lost() -> bool:
        found = raging() and draw.random() < chaos.drop
        if found:
            tell(f"a frame from {name} is lost")
        return found

    def twice(frame: bytes) -> bool:
        found = raging() and draw.random() < chaos.duplicate and _repeatable(frame)
        if found:
            tell(f"{verb_of(frame)} from {name} arrives twice")
        return found

    path.delay, path.lost, path.twice = delay, lost, twice


def _repeatable(frame: bytes) -> bool:
    """Whether it is a whole message that may come twice."""
    try:
        announced = announcement(frame, _LIMITS)
    except ProtocolError:
        return False
    return issubclass(announced.record.cls, _REPEATABLE) and not announced.header.follows


def verb_of(frame: bytes) -> str:
    """What a frame says, in a few words."""
    try:
        header = announcement(frame, _LIMITS).header
    except ProtocolError:
        return f"{len(frame)} bytes"
    return f"{header.verb} {header.id}" if header.id else header.verb
