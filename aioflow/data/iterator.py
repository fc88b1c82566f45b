"""One iteration of a dataset: `async for`, its state, what it waits for."""

import secrets
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self

from aioflow.data.elements import leaves_of
from aioflow.data.position import State, as_state
from aioflow.data.report import Report, innermost_wait, report
from aioflow.data.stage import Cursor, EndOfData, Run, Stage


class DatasetIterator:
    """Gives the elements of a dataset, one after the other.

    Nothing runs before the first element is asked for. When the dataset ends, when a stage fails, when the task that
    waits for an element is cancelled, and when the iterator is closed or dropped, all tasks, calls, generators and
    files of its stages end. `async with` closes it in time; after a `break` the loop closes it in one of its next
    turns.

    Args:
        stage: the last stage of the dataset.
        state: what `state()` of another iterator of the dataset returned; None to begin at the first element.
        epoch: shuffles that reshuffle have another order in each epoch.

    Raises:
        ValueError: the state is none of this dataset.

    Examples:
        >>> async with af.data.Dataset.range(9).iterate() as iterator:
        ...     first, second, state = await anext(iterator), await anext(iterator), iterator.state()
        >>> [int(number) async for number in af.data.Dataset.range(9).iterate(state)]
        [2, 3, 4, 5, 6, 7, 8]
    """

    def __init__(self, stage: Stage, state: Any = None, epoch: int = 0) -> None:
        start = State(str(stage), secrets.randbits(62), epoch, None) if state is None else as_state(state, str(stage))
        self._start: Final = start
        self._cursor: Final = stage.begin(Run(start.entropy, epochs=(start.epoch,)), start.position)
        self._position = self._cursor.position()
        self._is_between = True
        self._elements: Any = _elements(self._cursor)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next element.

        Raises:
            StopAsyncIteration: there is none.
            af.errors.OpError: a stage has failed; its attributes `op` and `line` say which one.
        """
        if self._is_between:
            self._position, self._is_between = self._cursor.position(), False
        element = await anext(self._elements)
        self._is_between = True
        return element

    def state(self) -> dict[str, Any]:
        """Return the position after the last element that was given, as plain data that JSON can hold.

        `dataset.iterate(state)` goes on from there, also in another process with the same dataset. After a failure
        that is again the element that failed.
        """
        position = self._cursor.position() if self._is_between else self._position
        return self._start._replace(position=position).as_plain()

    def explain(self) -> Report:
        """Return which stage waits for what at this moment, and how full the buffers are."""
        return report(self._cursor, ended=self._elements.ag_frame is None)

    def waits_for(self) -> str:
        """Return which stage holds the others back, and what it waits for; empty if none makes an element."""
        return innermost_wait(self._cursor)

    async def aclose(self) -> None:
        """End all tasks, calls, generators and files. Later there is no element."""
        await self._elements.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Components:
    """The leaves of each element, as the components of an element of a queue.

    Args:
        elements: the iterator, which is closed with this one.
    """

    def __init__(self, elements: DatasetIterator) -> None:
        self._elements: Final = elements
        self.waits_for: Final = elements.waits_for
        self.state: Final = elements.state
        self.aclose: Final = elements.aclose

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Any, ...]:
        """Return the components of the next element."""
        return tuple(leaves_of(await anext(self._elements)))


async def _elements(cursor: Cursor[Any]) -> AsyncIterator[Any]:
    """Yield the elements, and close the cursor.

    It knows no iterator, so that Python ends it as soon as its iterator is dropped.
    """
    try:
        while True:
            yield await cursor.take()
    except EndOfData:
        return
    finally:
        await cursor.close()
