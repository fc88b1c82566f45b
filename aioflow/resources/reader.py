"""Readers: they take work items, such as names of files, from a queue, and return their records one by one.

Reads are served one at a time, in the order of their calls. A thread reads several records ahead. They belong to the
reader, not to the waiting read, so a cancelled read takes neither a work item nor a record.
"""

import heapq
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.files.read_ahead import ReadAhead
from aioflow.files.record_formats import Format, Record
from aioflow.queues import Queue
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

WithFiles = Callable[..., Awaitable[Any]]
"""Runs function(files, *args) on a thread: `StepView.with_files`."""
Taken = tuple[int, Record]
"""A record with its number in the order of reading."""


class Reader(Waitable):
    """Reads the records of the work items of a queue. Usable from any loop of the process.

    A damaged work item ends with its error after its intact records; the next read goes on with the next work item. A
    missing or corrupt file is skipped if the format of the reader says so.
    """

    def __init__(self, name: str, form: Format) -> None:
        super().__init__(name)
        self.format: Final = form
        self._readers = WaiterLine()
        self._lines = (self._readers,)
        self._busy = False
        self._work: ReadAhead | None = None
        self._finished = self._produced = self._skipped = 0
        self._returned: list[Taken] = []
        self._numbers: Final = itertools.count()

    # Reading

    async def read(self, queue: Queue, with_files: WithFiles, who: Any = None) -> Record:
        """The next record. OutOfRangeError when the queue is closed and has no work item left."""
        return (await self.read_up_to(queue, 1, with_files, who))[0]

    async def read_up_to(self, queue: Queue, count: int, with_files: WithFiles, who: Any = None) -> list[Record]:
        """The next records of one work item: `count`, or fewer at its end or if that is all that was read ahead."""
        return [record for _, record in await self.read_marked(queue, count, with_files, who)]

    async def read_marked(self, queue: Queue, count: int, with_files: WithFiles, who: Any = None) -> list[Taken]:
        """The next records with the data for `put_back`. Records that were put back come first."""
        await self._turn("read records with", who)
        try:
            if self._returned:
                taken = [heapq.heappop(self._returned) for _ in range(min(count, len(self._returned)))]
                self._produced += len(taken)
                return taken
            while True:
                work = await self._next_work(queue, who)
                await self._read_ahead(work, with_files)
                records = work.take(count)
                if records:
                    self._produced += len(records)
                    if self.format.single:
                        self._end_work(work)
                    return [(next(self._numbers), record) for record in records]
                self._end_work(work)
        finally:
            self._leave()

    def put_back(self, taken: Sequence[Taken]) -> None:
        """Return records that no step used: the next reads get them first."""
        with self._lock:
            for each in taken:
                heapq.heappush(self._returned, each)
            self._produced -= len(taken)

    async def _next_work(self, queue: Queue, who: Any) -> ReadAhead:
        if self._work is None:
            item = await queue.take(who)
            self._work = ReadAhead(self.format, _text(item, queue))
        return self._work

    async def _read_ahead(self, work: ReadAhead, with_files: WithFiles) -> None:
        """Wait until there is a record, or none will come."""
        while not work.ready and not work.ended:
            if self.format.is_file:
                await with_files(work.fill)
            else:
                work.fill(None)

    def _end_work(self, work: ReadAhead) -> None:
        """Go on with the next work item. Raises the error of this one."""
        self._work = None
        self._skipped += work.skipped
        if work.error is not None:
            raise work.error
        self._finished += 1

    # Turns

    async def _turn(self, what: str, who: Any) -> None:
        """Nobody else uses the reader until `_leave`."""
        await self.attempt(self._readers, Attempt(what, self._enter, who))

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

    # State

    @property
    def records_produced(self) -> int:
        """How many records it gave."""
        return self._produced

    @property
    def work_units_completed(self) -> int:
        """How many work items were read to their end."""
        return self._finished

    @property
    def skipped(self) -> int:
        """How many files, and parts of files, were left out since they are missing or corrupt."""
        return self._skipped

    async def reset(self, who: Any = None) -> None:
        """Drop all progress, as in a new reader. Waits until no read is running."""
        await self._turn("reset", who)
        try:
            self._become(None, 0, 0)
        finally:
            self._leave()

    def _become(self, work: ReadAhead | None, finished: int, produced: int) -> None:
        if self._work is not None:
            self._work.close()
        self._work = work
        self._finished = finished
        self._produced = produced
        self._skipped = 0
        self._returned.clear()

    def contents(self) -> bytes:
        """The same as `state`."""
        return self.state()

    def state(self) -> bytes:
        """Return its progress as text for `restore`."""
        work = self._work
        now = None if work is None else [work.name.decode("latin-1"), max(0, work.taken - len(self._returned))]
        return json.dumps({"finished": self._finished, "produced": self._produced, "work": now}).encode()

    async def restore(self, state: bytes, who: Any = None) -> None:
        """Continue from the state of a reader. Waits until no read is running.

        InvalidArgumentError if the text is not a state.
        """
        finished, produced, work = _parsed(state)
        await self._turn("restore", who)
        try:
            self._become(None if work is None else ReadAhead(self.format, *work), finished, produced)
        finally:
            self._leave()

    def release(self) -> None:
        """Fail all present and later reads with CancelledError: the container is reset, or the session closed."""
        super().release()
        work, self._work = self._work, None
        if work is not None:
            work.close()

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"reader {self.name!r} is gone: its container was reset or its session closed")

    def __repr__(self) -> str:
        at = "" if self._work is None else f" in {self._work.name!r}"
        return f"<Reader {self.name!r} {self.format}{at}, {self._produced} records, {len(self._readers)} waiting>"


def _text(item: tuple[Any, ...], queue: Queue) -> bytes:
    """The work item. InvalidArgumentError if the queue holds anything but single strings."""
    if len(item) == 1 and isinstance(item[0], (bytes, str)):
        return item[0].encode() if isinstance(item[0], str) else item[0]
    raise errors.InvalidArgumentError(f"queue {queue.name!r} gives {item!r}, and is to give names, one string each")


def _parsed(state: bytes) -> tuple[int, int, tuple[bytes, int] | None]:
    """Finished work items, produced records, the present work item and how many of its records were given."""
    try:
        match json.loads(state):
            case {"finished": int(finished), "produced": int(produced), "work": None}:
                return finished, produced, None
            case {"finished": int(finished), "produced": int(produced), "work": [str(name), int(taken)]}:
                return finished, produced, (name.encode("latin-1"), taken)
    except (ValueError, RecursionError):
        pass
    raise errors.InvalidArgumentError(f"{state[:80]!r} is not the state of a reader, as serialize_state returns it")
