"""Who a task is to its peers, and what it lets them do."""

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
    """One task, or a client, as it was started this time.

    Attributes:
        task: its name, as `/job:worker/replica:0/task:1`; empty for a client.
        incarnation: a number it never has again when it is started anew.
        cluster: digest of the cluster it believes to be in; empty for none.
        numbers: of its requests. None is used twice, so a request that comes again is known.
    """

    task: str = ""
    incarnation: int = dataclasses.field(default_factory=lambda: secrets.randbits(63))
    cluster: str = ""
    numbers: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.task or f"client {self.incarnation:016x}"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How a task treats its peers.

    Attributes:
        limits: what it accepts.
        silence: seconds after which a peer without a sign of life counts as lost.
        handshake: seconds that whoever dials has to say who it is.
        connections: how many may be open at a time, of all who dialled.
        remembered: of how many requests it knows that they were asked, to recognise those that come again.
    """

    limits: Limits = STANDARD
    silence: float = 5.0 * _NOTICED
    handshake: float = 5.0
    connections: int = 4096
    remembered: int = 10_000

    @classmethod
    def of(cls, config: Config) -> "Settings":
        """Those that a configuration tells of."""
        return cls(silence=config.heartbeat_timeout * _NOTICED)


USUAL: Final = Settings()
"""Where nothing else is said."""
