"""The place in a dataset at which the steps of a graph take its elements.

Elements are taken one at a time, in the order of the calls. A call that fails or is cancelled takes no element: the
next call goes on from the position before it.
"""

import heapq
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

from aioflow import errors
from aioflow.tensors.dtypes import Array, Spec
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

Item = tuple[Array, ...]
"""The components of an element."""
Taken = tuple[int, Item]
"""An element with its number in the order of taking."""


class Components(Protocol):
    """Gives the components of one element after the other, in one iteration."""

    def __aiter__(self) -> Self:
        """Return itself."""

    async def __anext__(self) -> tuple[Any, ...]:
        """Return the components of the next element."""

    def state(self) -> dict[str, Any]:
        """Return the position after the last element, as plain data."""

    async def aclose(self) -> None:
        """End the iteration."""


class Source(Protocol):
    """Elements that can be iterated from any position."""

    def components(self, state: Mapping[str, Any] | None = None) -> Components:
        """Return a new iteration, from a position. ValueError if it is a position in something else."""


class Iteration(Waitable):
    """Gives the elements of a source, or of the one that `begin` sets.

    Attributes:
        specs: the dtype and shape of each component.
        signature: the attributes of the handle that it was made for.
    """

    def __init__(
        self, name: str, specs: Sequence[Spec], signature: Mapping[str, Any], source: Source | None = None
    ) -> None:
        super().__init__(name)
        self.specs: Final = tuple(specs)
        self.signature: Final = signature
        self._elements: Final = Elements(specs)
        self._takers: Final = WaiterLine()
        self._lines = (self._takers,)
        self._busy = False
        self._source = source
        self._iteration: Components | None = None
        self._state: Mapping[str, Any] | None = None
        self._returned: list[Taken] = []
        self._numbers: Final = itertools.count()

    async def begin(self, source: Source, who: Any = None) -> None:
        """Go on with the first element of a source."""
        await self._turn("begin", who)
        try:
            await self._stop()
            self._source, self._returned = source, []
        finally:
            self._leave()

    async def take(self, who: Any = None) -> Taken:
        """Return the next element, with the data for `put_back`.

        OutOfRangeError if there is none, FailedPreconditionError if there is no source.
        """
        await self._turn("take an element of", who)
        try:
            return heapq.heappop(self._returned) if self._returned else (next(self._numbers), await self._next())
        finally:
            self._leave()

    def put_back(self, taken: Taken) -> None:
        """Return an element that no step used: the next call gets it first."""
        with self._lock:
            heapq.heappush(self._returned, taken)

    def _current(self) -> Components:
        if self._source is None:
            raise errors.FailedPreconditionError(f"{self!r} has no dataset yet: run its initializer before")
        if self._iteration is None:
            self._iteration = self._source.components(self._state)
        return self._iteration

    async def _next(self) -> Item:
        iteration = self._current()
        try:
            return self._checked(await anext(iteration))
        except StopAsyncIteration:
            raise errors.OutOfRangeError(f"{self!r} has no further element") from None
        except BaseException:
            self._iteration, self._state = None, iteration.state()
            raise

    def _checked(self, components: tuple[Any, ...]) -> Item:
        try:
            return self._elements.item(components)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"an element does not fit the iterator: {error}") from error

    # Turns

    async def _turn(self, what: str, who: Any) -> None:
        """Nobody else uses it until `_leave`."""
        await self.attempt(self._takers, Attempt(what, self._enter, who))

    def _enter(self) -> Outcome | None:
        if self._busy:
            return None
        self._busy = True
        return None, None

    def _give_back(self, attempt: Attempt) -> None:
        self._busy = False

    def _leave(self) -> None:
        with self._lock:
            self._busy = False
            served = self._serve()
        wake(served)

    # Ending

    async def _stop(self) -> None:
        iteration, self._iteration, self._state = self._iteration, None, None
        if iteration is not None:
            await iteration.aclose()

    async def aclose(self) -> None:
        """End the iteration: tasks, calls, generators and files of its source."""
        await self._stop()

    def release(self) -> None:
        """Fail all present and later calls with CancelledError. The iteration ends in one of the loop's next turns."""
        super().release()
        self._iteration = None

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"{self!r} is gone: its container was reset or its session closed")

    def __repr__(self) -> str:
        return f"iterator {self.name!r}"
