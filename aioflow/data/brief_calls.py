"""Calls of a function for one element after the other; several brief ones in one go on a thread.

A way to a thread and back takes about as long as a hundred brief calls. So once some calls have shown that the function
is brief, the elements that the input has at hand are taken ahead, and one thread calls the function for them, for
`SLICE` seconds at most and one call more. The order of calls and results stays, nothing waits for the input, and after
a call that fails no further one is made.
"""

import inspect
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.data.calls import Calls, Outcome, UserFunction, outcome_of
from aioflow.data.elements import arguments, leaves_of, size_of
from aioflow.data.position import Position
from aioflow.data.stage import Cursor

SLICE: Final = 1e-3
"""Seconds of calls in one go: several ways to a thread and back, and no noticeable wait for the first result."""
ALONE: Final = 4
"""The number of calls, one at a time, before the first ones in one go."""
MOST: Final = 256
"""The most elements that are taken ahead."""
LARGE: Final = 1 << 20
"""Bytes of results after which no further call is made in one go."""
clock: Final = time.perf_counter
"""The time of calls, in seconds."""


class BriefCalls:
    """The calls of a function for the elements of a cursor.

    Args:
        source: the cursor.
        calls: runs the calls, and names their errors.
        function: the function.
        convert: makes an element of what a call returns.

    Attributes:
        most: the most elements that are taken from the input ahead.
    """

    def __init__(
        self, source: Cursor[Any], calls: Calls, function: UserFunction, convert: Callable[[Any], Any]
    ) -> None:
        self._source: Final = source
        self._calls: Final = calls
        self._function: Final = function
        self._convert: Final = convert
        self._taken: Final[deque[Any]] = deque()
        self._before: Position = None
        self._done = 0
        self._outcomes: Final[deque[Outcome]] = deque()
        self._last_is_awaitable = False
        self._alone: float = ALONE
        self._latest: Any = None
        self.most: int = 1

    @property
    def size(self) -> int:
        """The number of elements that were taken from the input ahead."""
        return len(self._taken)

    def position(self) -> Position:
        """Return a position of the input, and the number of elements after it whose results were given."""
        return [self._before, self._done] if self._taken else [self._source.position(), 0]

    async def next(self) -> tuple[Any, Any]:
        """Return the next element of the input, and the converted result of its call, after `call_ahead`.

        OpError, with the number of the element, if the call failed. Then the next element follows it.
        """
        number = self._source.given - len(self._taken)
        is_simple = self._is_simple()
        element, (value, error) = self._pop()
        if is_simple:
            return element, value
        self._last_is_awaitable = False
        return element, await self._calls.result(number, _awaited(value, error), self._convert)

    async def call_ahead(self) -> None:
        """Call the function, unless there is a result. EndOfData if the input has ended, or the error of the input."""
        if not self._outcomes:
            await self._take()
            await self._call()

    def at_hand(self, most: int) -> list[tuple[Any, Any]]:
        """Return the next elements, and their results, that are there already."""
        found: list[tuple[Any, Any]] = []
        while self._outcomes and len(found) < most and self._is_simple():
            element, (value, _) = self._pop()
            found.append((element, value))
        return found

    def _is_simple(self) -> bool:
        """Whether the next outcome is a converted result."""
        return self._outcomes[0][1] is None and not (self._last_is_awaitable and len(self._outcomes) == 1)

    def _pop(self) -> tuple[Any, Outcome]:
        self._done += 1
        return self._taken.popleft(), self._outcomes.popleft()

    async def _take(self) -> None:
        """Take an element, and further ones that the input has at hand."""
        if not self._taken:
            self._before, self._done = self._source.position(), 0
            self._taken.append(await self._source.take())
            self._taken.extend(self._source.take_at_hand(self.most - 1))

    async def _call(self) -> None:
        """Call the function for the first of the taken elements, or for several."""
        if self._function.is_async:
            self._outcomes.append(outcome_of(self._function.function, arguments(self._taken[0])))
            self._last_is_awaitable = True
            return
        outcomes, is_awaitable, seconds = await self._calls.on_thread(
            _several, self._function.function, list(self._taken), self._convert
        )
        self._outcomes.extend(outcomes)
        self._last_is_awaitable = is_awaitable
        self._learn(outcomes, seconds)

    def _learn(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Choose how many elements are taken, by the time of some calls.

        Calls that must be awaited, or fill one array again and again, are made alone.
        """
        count, made = len(outcomes), outcomes[-1][0]
        self._alone -= count
        if self._last_is_awaitable or _share_memory(self._latest, made):
            self._alone, self.most = math.inf, 1
        elif self._alone <= 0:
            self.most = max(1, min(2 * self.most, MOST, int(SLICE * count / max(seconds, 1e-9))))
        self._latest = made if 0 < self._alone <= ALONE else None

    def close(self) -> None:
        """Drop the results that nobody has taken."""
        if self._last_is_awaitable and self._outcomes and inspect.iscoroutine(self._outcomes[-1][0]):
            self._outcomes[-1][0].close()


def _share_memory(before: Any, made: Any) -> bool:
    """Whether an array of one result lies where one of the other lies, and can be written to."""
    pairs = zip(leaves_of(before), leaves_of(made), strict=False)
    arrays = [pair for pair in pairs if all(isinstance(leaf, np.ndarray) for leaf in pair)]
    return any(new.flags.writeable and np.may_share_memory(old, new) for old, new in arrays)


async def _awaited(value: Any, error: BaseException | None) -> Any:
    """Return the result of an awaitable, or raise an error."""
    if error is None:
        return await value
    try:
        raise error
    finally:
        del error


def _several(
    function: Callable[..., Any], elements: Sequence[Any], convert: Callable[[Any], Any]
) -> tuple[list[Outcome], bool, float]:
    """Call a function for elements, until a call fails or must be awaited, or the time or the memory is used up.

    Returns the outcomes, whether the last one must be awaited, and the seconds.
    """
    outcomes: list[Outcome] = []
    begin, size, is_awaitable = clock(), 0, False
    for element in elements:
        made, error = outcome_of(function, arguments(element))
        is_awaitable = error is None and inspect.isawaitable(made)
        if error is None and not is_awaitable:
            made, error = outcome_of(convert, (made,))
        outcomes.append((made, error))
        seconds, size = clock() - begin, size + size_of(made)
        if error is not None or is_awaitable or seconds > SLICE or size > LARGE:
            break
    return outcomes, is_awaitable, seconds
