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
from typing import Final, Generic, TypeVar

from aioflow import errors

E = TypeVar("E")
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


class _Effects(Generic[E]):
    """Takes, or puts, in the order of their execution; only the last `KEPT_OF_LOOPS` of those inside loops."""

    __slots__ = ("_each", "_looped")

    def __init__(self) -> None:
        self._each: Final[list[E]] = []
        self._looped: deque[E] | None = None

    def add(self, effect: E, looped: bool) -> None:
        """Register one more."""
        if not looped:
            self._each.append(effect)
            return
        if self._looped is None:
            self._looped = deque(maxlen=KEPT_OF_LOOPS)
        self._looped.append(effect)

    def all(self) -> list[E]:
        """All registered ones, except those dropped from loops."""
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
        """Register taken elements. If the step has already given back, they are put back at once."""
        if self._given_back:
            give_back()
        else:
            self._takes.add(give_back, looped)

    def put(self, take_out: TakeOut, looped: bool = False) -> None:
        """Register elements that were put. If the step has already given back, they are removed at once."""
        if self._given_back:
            take_out()
        else:
            self._puts.add(take_out, looped)

    def __bool__(self) -> bool:
        """Whether the step has takes or puts that it can still give back."""
        return bool(self._takes or self._puts or self._committed)

    def ended(self, error: BaseException) -> None:
        """Give back after the step has ended with that error, unless one of its kernels failed.

        An element on which a kernel fails is not put back, because it would make the next step fail, too.
        """
        if isinstance(error, _OUTSIDE):
            self.give_back()

    def give_back(self) -> bool:
        """Undo all takes and puts that are not committed, because the values of the step are lost.

        Returns False, and undoes nothing, if another step has taken an element that this one put.
        """
        self._given_back = True
        is_out = _undo(self._takes, self._puts)
        self._takes, self._puts = _Effects(), _Effects()
        return is_out

    def refuse(self) -> bool:
        """Undo all takes and puts, even committed ones, because the caller refuses the values.

        Returns False if another step has taken an element that this one put.
        """
        is_out = self.give_back()
        while self._committed:
            is_out &= _undo(*self._committed.pop())
        return is_out

    async def commit(self) -> None:
        """Return when the values may be handed over. After an error they must not be handed over."""

    def set_committed(self) -> None:
        """Commit all takes and puts so far: the caller may have their values. Only `refuse` undoes them."""
        if self._takes or self._puts:
            self._committed.append((self._takes, self._puts))
            self._takes, self._puts = _Effects(), _Effects()

    @property
    def is_committed(self) -> bool:
        """Whether all takes and puts are committed."""
        return not (self._takes or self._puts)

    def forget(self) -> None:
        """Drop all takes and puts so far, because the values are handed over."""
        self._takes, self._puts = _Effects(), _Effects()
        self._committed.clear()


def _undo(takes: _Effects[GiveBack], puts: _Effects[TakeOut]) -> bool:
    """Remove the elements that were put, and put back those taken. False, with no change, if one cannot be removed."""
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
"""The list to which a run adds its handover if its caller hands the values over later."""
