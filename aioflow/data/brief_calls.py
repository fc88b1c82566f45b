"""Calls of a function for one element after the other; several brief ones in one go on a thread.

A way to a thread and back takes about as long as a hundred brief calls. So once some calls have shown that the function
is brief, the elements that the input has at hand are taken ahead, and one thread calls the function for them, for
`SLICE` seconds at most and one call more. The order of calls and results stays, nothing waits for the input, and after
a call that fails no further one is made.
"""

import dataclasses
import inspect
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.data.calls import Calls, Outcome, UserFunction, outcome_of
from aioflow.data.elements import arguments, size_of
from aioflow.data.position import Position
from aioflow.data.stage import Cursor

SLICE: Final = 1e-3
"""Seconds of calls in one go: several ways to a thread and back, and no noticeable wait for the first result."""
ALONE: Final = 16
"""The number of calls, one at a time, before the first ones in one go."""
MOST: Final = 256
"""The most elements that are taken ahead."""
LARGE: Final = 1 << 20
"""Bytes of results after which no further call is made in one go."""
clock: Final = time.perf_counter
"""The time of calls, in seconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """An element of the input.

    Attributes:
        number: its number.
        element: the element.
        after: the position of the input after it.
    """

    number: int
    element: Any
    after: Position


class BriefCalls:
    """The calls of a function for the elements of a cursor.

    Args:
        source: the cursor.
        calls: runs the calls, and names their errors.
        function: the function.
    """

    def __init__(self, source: Cursor[Any], calls: Calls, function: UserFunction) -> None:
        self._source: Final = source
        self._calls: Final = calls
        self._function: Final = function
        self._taken: Final[deque[Taken]] = deque()
        self._outcomes: Final[deque[Outcome]] = deque()
        self._ended: Exception | None = None
        self._alone = ALONE
        self.most = 1

    @property
    def has_results(self) -> bool:
        """Whether results wait to be taken."""
        return bool(self._outcomes)

    @property
    def size(self) -> int:
        """The number of elements that were taken from the input ahead."""
        return len(self._taken)

    async def next(self, convert: Callable[[Any], Any]) -> tuple[Taken, Any]:
        """Return the next element of the input, and the converted result of its call.

        EndOfData if there is none. OpError, with the number of the element, if the call fails.
        """
        if not self._outcomes:
            await self._take()
            await self._call()
        taken = self._taken.popleft()
        return taken, await self._calls.result(taken.number, _result(self._outcomes.popleft()), convert)

    async def _take(self) -> None:
        """Take an element, and further ones that the input has at hand."""
        while len(self._taken) < self.most and (not self._taken or (not self._ended and self._source.is_ready())):
            if self._ended is not None:
                raise self._ended
            number = self._source.given
            try:
                element = await self._source.take()
            except Exception as error:
                if not self._taken:
                    raise
                self._ended = error
            else:
                self._taken.append(Taken(number, element, self._source.position()))

    async def _call(self) -> None:
        """Call the function for the first of the taken elements, or for several."""
        if self._function.is_async:
            self._outcomes.append((self._function.function(*arguments(self._taken[0].element)), None))
            return
        elements = [taken.element for taken in self._taken]
        outcomes, seconds = await self._calls.on_thread(_several, self._function.function, elements)
        self._outcomes.extend(outcomes)
        self._learn(len(outcomes), seconds)

    def _learn(self, count: int, seconds: float) -> None:
        """Choose how many elements are taken, by the time of some calls. A call that must be awaited is made alone."""
        self._alone -= count
        if inspect.isawaitable(self._outcomes[-1][0]):
            self._alone, self.most = 1 << 62, 1
        elif self._alone <= 0:
            self.most = max(1, min(2 * self.most, MOST, int(SLICE * count / max(seconds, 1e-9))))

    def close(self) -> None:
        """Drop the results that nobody has taken."""
        for result, _ in self._outcomes:
            if inspect.iscoroutine(result):
                result.close()


async def _result(outcome: Outcome) -> Any:
    value, error = outcome
    if error is None:
        return await value if inspect.isawaitable(value) else value
    try:
        raise error
    finally:
        del error, outcome


def _several(function: Callable[..., Any], elements: Sequence[Any]) -> tuple[list[Outcome], float]:
    """Call a function for elements, until a call fails or must be awaited, or the time or the memory is used up."""
    outcomes: list[Outcome] = []
    begin, size = clock(), 0
    for element in elements:
        outcomes.append(outcome_of(function, arguments(element)))
        made, error = outcomes[-1]
        seconds, size = clock() - begin, size + size_of(made)
        if error is not None or inspect.isawaitable(made) or seconds > SLICE or size > LARGE:
            break
    return outcomes, seconds
