"""The records of one work item, such as the name of a file, several of which are read at a time."""

import itertools
import logging
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from aioflow import errors
from aioflow.files.filesystem import Files
from aioflow.files.record_formats import Format, Place, Record

_log: Final = logging.getLogger("aioflow.input")

AHEAD: Final = 1 << 20
"""Bytes that are read before the first of them is used."""


class ReadAhead:
    """A work item while it is read, on threads, one at a time.

    Attributes:
        ready: records that were read ahead.
        ended: whether no more will come.
        error: why not, if that is not the end of the file.
        taken: how many records were given.
        skipped: how many parts were left out, or that all was, once it has ended.
        anchor: (number, offset) of a place at or before the next record to give, from which reading can begin.
    """

    def __init__(self, form: Format, name: bytes, taken: int = 0, anchor: tuple[int, int] = (0, 0)) -> None:
        self.name: Final = name
        self.ready: Final[deque[Record]] = deque()
        self.ended: bool = False
        self.error: errors.OpError | None = None
        self.taken: int = taken
        self.skipped: int = 0
        self._format = form
        self.anchor: tuple[int, int] = anchor
        self._place: Final = Place(*anchor)
        self._skip = taken - anchor[0]
        self._records: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def fill(self, files: Any) -> None:
        """There is something ready, unless it has ended."""
        with self._lock:
            if self.ready or self.ended:
                return
            try:
                self._read(files)
            except Exception as error:
                self.error, self.ended = errors.from_exception(error), True
            finally:
                if self.ended or self._closed:
                    self._records.close()

    def _read(self, files: Files) -> None:
        if self._records is None:
            self._records = self._found(files)
        self.anchor = self._place.number, self._place.offset
        for _ in itertools.islice(self._records, self._skip):
            self._skip -= 1
        size = 0
        for record in self._records:
            self.ready.append(record)
            size += len(record[0]) + len(record[1])
            if size >= AHEAD or self._closed:
                return
        self.ended = True

    def _found(self, files: Files) -> Iterator[Record]:
        """Yield its records. If damage is skipped, a missing or corrupt file yields no more records."""
        try:
            self.skipped = yield from self._format.records(files, self.name, self._place)
        except (errors.NotFoundError, errors.DataLossError) as error:
            if not self._format.skip_corrupt:
                raise
            self.skipped = 1
            _log.warning("%r is left out: %s", self.name.decode(errors="replace"), error)

    def take(self, count: int) -> list[Record]:
        """Return at most `count` records that are ready."""
        records = [self.ready.popleft() for _ in range(min(count, len(self.ready)))]
        self.taken += len(records)
        return records

    def close(self) -> None:
        """Let go of the file; if a thread reads it now, when that is done."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._records is not None:
                    self._records.close()
                self.ended = True
            finally:
                self._lock.release()
