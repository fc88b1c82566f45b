"""The takes and puts of a step on one task, kept until the caller has the values of the step.

A taken element belongs to the caller only when the caller has the values of the step. A cancellation, a time limit or a
lost client may come in between. Then the step puts the taken elements back, and removes the elements that it put.

A kernel registers each take and put when it has happened. The code that hands the values over keeps the object until
then. It calls `give_back` if the caller will never have the values. If the caller has them, a local handover needs no
call.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from aioflow import errors

GiveBack = Callable[[], object]
"""Puts taken elements back at their place."""
TakeOut = Callable[[], GiveBack | None]
"""Removes elements that were put. Returns a function that puts them in again; None if another step has taken one."""
KEPT_OF_LOOPS: Final = 256
"""The most takes, and the most puts, that a step keeps of those inside loops: a loop may take elements without end."""
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
        """Register taken elements. If the step has already given back, they are put back at once."""
        if self._given_back:
            give_back()
        elif not looped:
            self._takes.append(give_back)
        else:
            self._looped_takes = self._looped_takes or deque(maxlen=KEPT_OF_LOOPS)
            self._looped_takes.append(give_back)

    def put(self, take_out: TakeOut, looped: bool = False) -> None:
        """Register elements that were put. If the step has already given back, they are removed at once."""
        if self._given_back:
            take_out()
        elif not looped:
            self._puts.append(take_out)
        else:
            self._looped_puts = self._looped_puts or deque(maxlen=KEPT_OF_LOOPS)
            self._looped_puts.append(take_out)

    def __bool__(self) -> bool:
        """Whether the step has takes or puts that it can still give back."""
        return bool(self._takes or self._puts or self._looped_takes or self._looped_puts)

    def ended(self, error: BaseException) -> None:
        """Give back after the step has ended with that error, unless one of its kernels failed.

        An element on which a kernel fails is not put back, because it would make the next step fail, too.
        """
        if isinstance(error, _OUTSIDE):
            self.give_back()

    def give_back(self) -> bool:
        """Undo all takes and puts, because the values of the step are lost.

        Returns False, and undoes nothing, if another step has taken an element that this one put.
        """
        self._given_back = True
        is_out = self._take_out_all()
        if is_out:
            for give_back in reversed([*self._takes, *(self._looped_takes or ())]):
                give_back()
        self.forget()
        return is_out

    async def commit(self) -> None:
        """Return when the values may be handed over. After an error they must not be handed over."""

    def forget(self) -> None:
        """Drop the takes and puts, because the values are handed over."""
        self._takes.clear()
        self._puts.clear()
        self._looped_takes = self._looped_puts = None

    def _take_out_all(self) -> bool:
        """Remove all elements that were put. If one of them is gone, put all others in again, and return False."""
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
"""The list to which a run adds its handover if its caller hands the values over later."""

__all__ = ["GiveBack", "Handover", "Held", "TakeOut"]
