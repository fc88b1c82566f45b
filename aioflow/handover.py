"""What a step has taken and put on one task, as long as its values are not handed over to the caller.

An element that a step has taken belongs to the caller only when the caller has the values of the step. A cancel, a time
limit or a lost client may come between the two. Then the step gives back what it took, and takes out again what it put.

A kernel registers each such effect when it has happened. Whoever hands the values over keeps the object until then, and
calls `give_back` if that never happens. Nothing has to be called when it does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from aioflow import errors

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


class Handover:
    """The takes and puts of one step on one task. For the loop's thread."""

    __slots__ = ("_given_back", "_looped_puts", "_looped_takes", "_puts", "_takes")

    def __init__(self) -> None:
        self._takes: Final[list[GiveBack]] = []
        self._puts: Final[list[TakeOut]] = []
        self._looped_takes: deque[GiveBack] | None = None
        self._looped_puts: deque[TakeOut] | None = None
        self._given_back = False

    def took(self, give_back: GiveBack, looped: bool = False) -> None:
        """The step has taken something. If its values are lost already, it is given back at once."""
        if self._given_back:
            give_back()
        elif not looped:
            self._takes.append(give_back)
        else:
            self._looped_takes = self._looped_takes or deque(maxlen=KEPT_OF_LOOPS)
            self._looped_takes.append(give_back)

    def put(self, take_out: TakeOut, looped: bool = False) -> None:
        """The step has put something. If its values are lost already, it is taken out at once."""
        if self._given_back:
            take_out()
        elif not looped:
            self._puts.append(take_out)
        else:
            self._looped_puts = self._looped_puts or deque(maxlen=KEPT_OF_LOOPS)
            self._looped_puts.append(take_out)

    def __bool__(self) -> bool:
        """Whether the step has taken or put anything."""
        return bool(self._takes or self._puts or self._looped_takes or self._looped_puts)

    def ended(self, error: BaseException) -> None:
        """The step has ended with that error: it gives back, unless a kernel of its own failed.

        An element on which a kernel fails is used up: given back, it would fail the next step, too.
        """
        if isinstance(error, _OUTSIDE):
            self.give_back()

    def give_back(self) -> bool:
        """Nobody gets the values of the step: it has taken nothing and put nothing.

        False if another step has taken something that this one put. Then all stays as it is: the elements have gone on.
        """
        self._given_back = True
        is_out = self._take_out_all()
        if is_out:
            for give_back in reversed([*self._takes, *(self._looped_takes or ())]):
                give_back()
        self.forget()
        return is_out

    async def commit(self) -> None:
        """The values may be handed over, which `forget` then says. An error means that nobody may have them."""

    def forget(self) -> None:
        """The values are handed over: nothing is given back any more."""
        self._takes.clear()
        self._puts.clear()
        self._looped_takes = self._looped_puts = None

    def _take_out_all(self) -> bool:
        """All that was put is out again: True; or all of it is in, as some of it cannot be taken out."""
        put_again: list[GiveBack] = []
        for take_out in (*self._puts, *(self._looped_puts or ())):
            undone = take_out()
            if undone is None:
                for put in put_again:
                    put()
                return False
            put_again.append(undone)
        return True


Held = list[Handover]
"""What a run adds its handover to, if its values are kept for a while before they are handed over."""

__all__ = ["GiveBack", "Handover", "Held", "TakeOut"]
