"""The identity of a task in a cluster, and its settings for peers."""

import dataclasses
import itertools
import secrets
from collections.abc import Iterator
from typing import Final

from aioflow.config import Config
from aioflow.net.wire.limits import STANDARD, Limits

_NOTICED: Final = 0.85
"""The part of the heartbeat timeout after which a silent peer is lost. The rest is for the report to the clients."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """One incarnation of a task or a client.

    Attributes:
        task: its name, such as `/job:worker/replica:0/task:1`; empty for a client.
        incarnation: a number that is new at each start.
        cluster: the digest of its cluster; empty for none.
        numbers: the numbers of its requests. Each is used once, so the peer recognises a repeated request.
    """

    task: str = ""
    incarnation: int = dataclasses.field(default_factory=lambda: secrets.randbits(63))
    cluster: str = ""
    numbers: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    @property
    def label(self) -> str:
        """Its name in errors."""
        return self.task or f"client {self.incarnation:016x}"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a task for its peers.

    Attributes:
        limits: the sizes that it accepts.
        silence: the seconds after which a silent peer counts as lost.
        handshake: the seconds within which a dialling peer must identify itself.
        connections: the most accepted connections at a time.
        remembered: the number of latest requests that it remembers, to recognise repeated ones.
    """

    limits: Limits = STANDARD
    silence: float = 5.0 * _NOTICED
    handshake: float = 5.0
    connections: int = 4096
    remembered: int = 10_000

    @classmethod
    def of(cls, config: Config) -> "Settings":
        """Return the settings of a configuration."""
        return cls(silence=config.heartbeat_timeout * _NOTICED)


USUAL: Final = Settings()
"""Where nothing else is said."""
