"""Records of files, and names of files. Threads read the files, up to 1 MiB before it is used.

A position in a file is the number of its records, and the number and offset of a record at or shortly before it. A
cursor at a position begins to read at that offset; in compressed files, and where corrupt records are left out, at the
start.
"""

from typing import Any, ClassVar, Final, TypeVar

from aioflow import errors
from aioflow.data.calls import Calls
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import Cursor, EndOfData, Run, Stage, Turns
from aioflow.files.filesystem import FILES, as_name
from aioflow.files.read_ahead import ReadAhead
from aioflow.files.record_formats import Format
from aioflow.tensors.dtypes import Spec, string
from aioflow.tensors.shape import SCALAR

TEXT: Final = Spec(string, SCALAR)


F = TypeVar("F", bound="RecordFile")


class FileCursor(Cursor[F]):
    """A cursor whose own position is [records taken, records before an offset, offset]."""

    def __init__(self, stage: F, run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        taken, *anchor = [0, 0, 0] if self._start is None else map(as_number, entries(self._start, 3))
        if anchor[0] > taken:
            raise ValueError(f"a position in a file has a place at or before it, not {self._start}")
        self._calls: Final = Calls(stage)
        self._turns: Final = Turns()
        self._records: Final = ReadAhead(stage.format, stage.file, taken, (anchor[0], anchor[1]))

    async def record(self) -> bytes:
        """Return the next record. EndOfData if there is none."""
        records = self._records
        while not records.ready:
            if records.ended:
                raise EndOfData if records.error is None else self.stage.failed(records.error)
            await self._calls.on_thread(records.fill, FILES)
        await self._turns.turn()
        ((_, value),) = records.take(1)
        return value

    def _position(self) -> Position:
        return [self._records.taken, *self._records.anchor]

    def does(self) -> str:
        """Its file."""
        return f"the file {as_name(self.stage.file)!r}"

    async def close(self) -> None:
        """Close the file."""
        self._records.close()
        await self._calls.settle()
        await super().close()


class _RecordCursor(FileCursor["RecordFile"]):
    async def _next(self) -> Any:
        return await self.record()

    def _at_hand(self, most: int) -> list[Any]:
        return [value for _, value in self._records.take(most)]


class RecordFile(Stage):
    """The records of a file.

    Attributes:
        format: the format of the records.
        file: the name of the file.
    """

    cursor: ClassVar[type[Cursor[Any]]] = _RecordCursor

    def __init__(self, name: str, line: str, form: Format, file: bytes, spec: Any = TEXT) -> None:
        super().__init__(spec, line=line)
        self.name = name
        self.format: Final = form
        self.file: Final = file


class _MatchingCursor(Cursor["Matching"]):
    def __init__(self, stage: "Matching", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._names: list[bytes] | None = None

    async def _next(self) -> Any:
        if self._names is None:
            self._names = await self._calls.result(0, self._calls.on_thread(self.stage.find), list)
        if self.given >= len(self._names):
            raise EndOfData
        return self._names[self.given]

    def does(self) -> str:
        """The file system."""
        return "the file system"

    async def close(self) -> None:
        """Wait until the file system is not read."""
        await self._calls.settle()


class Matching(Stage):
    """The sorted names of the files that match patterns."""

    name = "list_files"
    cursor: ClassVar = _MatchingCursor

    def __init__(self, patterns: list[str]) -> None:
        super().__init__(TEXT)
        self._patterns: Final = patterns

    def find(self) -> list[bytes]:
        """Return the names. InvalidArgumentError if there are none."""
        names = sorted({name.encode() for pattern in self._patterns for name in FILES.matching(pattern)})
        if not names:
            raise errors.InvalidArgumentError(f"no file matches {' or '.join(map(repr, self._patterns))}")
        return names
