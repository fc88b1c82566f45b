"""What a step has taken and put on one task, as long as its values are not handed over to the caller.

An element that a step has taken belongs to the caller only when the caller has the values of the step. A cancel, a time
limit or a lost client may come between the two. Then the step gives back what it took, and takes out again what it put.

A kernel registers each such effect when it has happened. Whoever hands the values over keeps the object until then, and
calls `give_back` if that never happens. Nothing has to be called when it does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from aioflow import errors

E = TypeVar("E")
GiveBack = Callable[[], object]
"""Puts what was taken back to where it was."""
TakeOut = Callable[[], GiveBack | None]
"""Takes out what was put, and returns what puts it in again; None if another step has taken some of it already."""
KEPT_OF_LOOPS: Final = 256
"""A step keeps so many of the last effects that happened inside of loops: a loop may take elements without end."""
_OUTSIDE: Final = (
    asyncio.CancelledError,
    errors.CancelledError,
    errors.DeadlineExceededError,
    errors.UnavailableError,
    errors.AbortedError,
)


class _Effects(Generic[E]):
    """Takes, or puts, in the order in which they happened; of those inside of loops only the last."""

    __slots__ = ("_each", "_looped")

    def __init__(self) -> None:
        self._each: Final[list[E]] = []
        self._looped: deque[E] | None = None

    def add(self, effect: E, looped: bool) -> None:
        """One more has happened, inside of a loop or not."""
        if not looped:
            self._each.append(effect)
            return
        if self._looped is None:
            self._looped = deque(maxlen=KEPT_OF_LOOPS)
        self._looped.append(effect)

    def all(self) -> list[E]:
        """Those that are kept."""
        return [*self._each, *(self._looped or ())]

    def __bool__(self) -> bool:
        return bool(self._each or self._looped)


class Handover:
    """The takes and puts of one step on one task. For the loop's thread."""

    __slots__ = ("_committed", "_given_back", "_puts", "_takes")

    def __init__(self) -> None:
        self._takes: _Effects[GiveBack] = _Effects()
        self._puts: _Effects[TakeOut] = _Effects()
        self._committed: Final[list[tuple[_Effects[GiveBack], _Effects[TakeOut]]]] = []
        self._given_back = False

    def took(self, give_back: GiveBack, looped: bool = False) -> None:
        """The step has taken something. If its values are lost already, it is given back at once."""
        if self._given_back:
            give_back()
        else:
            self._takes.add(give_back, looped)

    def put(self, take_out: TakeOut, looped: bool = False) -> None:
        """The step has put something. If its values are lost already, it is taken out at once."""
        if self._given_back:
            take_out()
        else:
            self._puts.add(take_out, looped)

    def __bool__(self) -> bool:
        """Whether the step has taken or put anything."""
        return bool(self._takes or self._puts or self._committed)

    def ended(self, error: BaseException) -> None:
        """The step has ended with that error: it gives back, unless a kernel of its own failed.

        An element on which a kernel fails is used up: given back, it would fail the next step, too.
        """
        if isinstance(error, _OUTSIDE):
            self.give_back()

    def give_back(self) -> bool:
        """Nobody gets the values of the step: it has taken nothing and put nothing, but for what is committed.

        False if another step has taken something that this one put. Then all stays as it is: the elements have gone on.
        """
        self._given_back = True
        is_out = _undo(self._takes, self._puts)
        self._takes, self._puts = _Effects(), _Effects()
        return is_out

    def refuse(self) -> bool:
        """Nobody has the values of the step, though it may be committed: it gives back everything.

        False if another step has taken something that this one put.
        """
        is_out = self.give_back()
        while self._committed:
            is_out &= _undo(*self._committed.pop())
        return is_out

    async def commit(self) -> None:
        """The values may be handed over, which `forget` then says. An error means that nobody may have them."""

    def set_committed(self) -> None:
        """The caller may have the values so far: what led to them is given back only if the caller refuses them."""
        if self._takes or self._puts:
            self._committed.append((self._takes, self._puts))
            self._takes, self._puts = _Effects(), _Effects()

    @property
    def is_committed(self) -> bool:
        """Whether all that it has taken and put is committed."""
        return not (self._takes or self._puts)

    def forget(self) -> None:
        """The values so far are handed over: what led to them is never given back."""
        self._takes, self._puts = _Effects(), _Effects()
        self._committed.clear()


def _undo(takes: _Effects[GiveBack], puts: _Effects[TakeOut]) -> bool:
    """All that was put is out again, and all that was taken is back: True; or nothing has changed: False."""
    put_again: list[GiveBack] = []
    for take_out in puts.all():
        undone = take_out()
        if undone is None:
            for put in put_again:
                put()
            return False
        put_again.append(undone)
    for give_back in reversed(takes.all()):
        give_back()
    return True


Held = list[Handover]
"""What a run adds its handover to, if its values are kept for a while before they are handed over."""

__all__ = ["GiveBack", "Handover", "Held", "TakeOut"]
