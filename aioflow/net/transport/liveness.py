"""Decides whether a peer is lost, busy or well, from its signs of life. Pure: the caller passes the time.

Signs of life come from two sources. The peer's frames show that its loop turns. Its monitor, a process beside it,
reports the states that the loop cannot report itself: the loop is busy and does not turn, the process is stopped, or
the process has ended.

A busy peer is not lost: only the time limits of steps apply to it. A peer that is stopped, or silent on both sources,
is lost after the heartbeat timeout. If no monitor can be reached, only frames count.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Final, Protocol

_LOOKS: Final = 5
"""The number of pings to a peer within the heartbeat timeout."""
_WORDS: Final = 10
"""The number of messages from a monitor within the heartbeat timeout."""
_SHORTEST, _LONGEST = 0.05, 1.0
"""The least and the most seconds between two messages of a monitor."""


class State(enum.Enum):
    """The state of a process, as its monitor reports it."""

    TURNING = "turning"
    BUSY = "busy"
    STOPPED = "stopped"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True, slots=True)
class MonitorMessage:
    """A message of a monitor.

    Attributes:
        state: the state of the process.
        seconds: the seconds since its loop turned.
        doing: the kernels on its compute threads; empty if they are unknown.
    """

    state: State
    seconds: float = 0.0
    doing: str = ""


class Watch(Protocol):
    """A subscription to the monitor of one peer.

    Attributes:
        on_message: called with each change of the state, and with every busy message. None drops messages.
    """

    on_message: Callable[[MonitorMessage], None] | None

    def close(self) -> None:
        """End the subscription, and the messages to the peer's monitor. May be called again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """The data with which the monitor of a peer dials the monitor of this process.

    Attributes:
        port: the port of this monitor, on the address that the peer has dialled.
        key: the key by which both monitors authenticate.
        watch: the subscription to the peer's monitor.
    """

    port: int
    key: str
    watch: Watch


def message_interval(heartbeat: float) -> float:
    """Seconds between two messages of a monitor to a peer with that heartbeat timeout."""
    return min(max(heartbeat / _WORDS, _SHORTEST), _LONGEST)


class Liveness:
    """The signs of life of one peer."""

    def __init__(self, heartbeat: float) -> None:
        """A peer without a sign of life so far, which is lost after `heartbeat` seconds of silence."""
        self.heartbeat: Final = heartbeat
        self.interval: Final = heartbeat / _LOOKS
        self._pardon = 0.0
        self._word: MonitorMessage | None = None
        self._on_message = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether the last message of its monitor reports a stopped process."""
        return self._word is not None and self._word.state is State.STOPPED

    def record(self, word: MonitorMessage, now: float) -> None:
        """Record a message of its monitor."""
        if word.state is State.BUSY:
            self._pardon = now
        self._word, self._on_message = word, now

    def due(self, now: float, heard: float) -> float:
        """The time of the next check, if its last frame came at `heard`."""
        return min(now + self.interval, self._deadline(heard))

    def is_silent(self, now: float, due: float, heard: float) -> bool:
        """Whether the peer is lost, in a check now that was due at `due`.

        After a check that is far too late the silence starts anew: this process was not listening itself.
        """
        if now > due + self.interval:
            self._pardon = now
        return now >= self._deadline(heard)

    def _deadline(self, heard: float) -> float:
        return max(self._pardon, heard) + self.heartbeat

    def busy(self, now: float, heard: float) -> str:
        """A text with how long its loop has been busy, and with which kernels; empty if it turns, or is unknown."""
        word, ago = self._word, now - self._on_message
        if word is None or word.state is not State.BUSY or ago > self.heartbeat or heard > self._on_message:
            return ""
        return f"busy since {word.seconds + ago:.1f} s" + f" with {word.doing}" * bool(word.doing)
