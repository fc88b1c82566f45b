"""Decides from what is heard of a peer whether it is lost, busy, or well. Pure: it is told the time and never waits.

A peer is heard by two ways. Its own frames show that its loop turns. Its monitor, a process beside it, says what the
loop cannot say of itself: that the loop is busy and does not turn, that the process is stopped, or that it has ended.

A busy peer is as good as one that answers: only the time limits of steps apply to it. A stopped one is not, nor one of
which neither way says anything: after the heartbeat timeout it is lost. Where no monitor can be reached, only frames
count.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Final, Protocol

_LOOKS: Final = 5
"""A peer is asked for a sign of life so many times within the heartbeat timeout."""
_WORDS: Final = 10
"""A monitor speaks so many times within the heartbeat timeout."""
_SHORTEST, _LONGEST = 0.05, 1.0
"""Seconds between two words of a monitor, at least and at most."""


class State(enum.Enum):
    """What a monitor says of its process."""

    TURNING = "turning"
    BUSY = "busy"
    STOPPED = "stopped"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """What a monitor said.

    Attributes:
        state: of the process.
        seconds: how long ago its loop turned.
        doing: what its compute threads do, as far as is known.
    """

    state: State
    seconds: float = 0.0
    doing: str = ""


class Watch(Protocol):
    """The monitor of one peer, as it is heard here.

    Attributes:
        told: is told each change of the state, and again each word that says busy. None drops them.
    """

    told: Callable[[Word], None] | None

    def close(self) -> None:
        """Nothing more is told, and the peer's monitor is told nothing more. May be called again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """How the monitor of a peer can dial the monitor of this process.

    Attributes:
        port: at which it listens, on the address that the peer has dialled.
        key: by which both know each other.
        watch: the monitor of that peer.
    """

    port: int
    key: str
    watch: Watch


def word_interval(heartbeat: float) -> float:
    """Seconds between two words of a monitor, for a peer that bears a silence of so many seconds."""
    return min(max(heartbeat / _WORDS, _SHORTEST), _LONGEST)


class Liveness:
    """What is known of the life of one peer."""

    def __init__(self, heartbeat: float) -> None:
        """Nothing has been heard. A silence of `heartbeat` seconds is borne."""
        self.heartbeat: Final = heartbeat
        self._interval: Final = heartbeat / _LOOKS
        self._pardon = 0.0
        self._word: Word | None = None
        self._told = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether its monitor said last that its process is stopped."""
        return self._word is not None and self._word.state is State.STOPPED

    def tell(self, word: Word, now: float) -> None:
        """Its monitor said this."""
        if word.state is State.BUSY:
            self._pardon = now
        self._word, self._told = word, now

    def due(self, now: float, heard: float) -> float:
        """When to look again, if its last frame came at `heard`."""
        return min(now + self._interval, self._deadline(heard))

    def is_silent(self, now: float, due: float, heard: float) -> bool:
        """Whether it is lost, for one who looks now and meant to look at `due`.

        One who looks far too late did not listen itself, so that the silence begins again.
        """
        if now > due + self._interval:
            self._pardon = now
        return now >= self._deadline(heard)

    def _deadline(self, heard: float) -> float:
        return max(self._pardon, heard) + self.heartbeat

    def busy(self, now: float, heard: float) -> str:
        """Since when its loop has not turned, and what it does, in words; empty if it turns, or that is not known."""
        word, ago = self._word, now - self._told
        if word is None or word.state is not State.BUSY or ago > self.heartbeat or heard > self._told:
            return ""
        return f"busy since {word.seconds + ago:.1f} s" + f" with {word.doing}" * bool(word.doing)


__all__ = ["Liveness", "Offer", "State", "Watch", "Word", "word_interval"]
