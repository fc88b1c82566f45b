"""Elements that are kept in a file: a file of TFRecords, each an element as plain data in msgpack.

An iteration writes to a new file, which gets its name when the iteration is complete. So a file with that name has all
elements.
"""

import contextlib
import os
import secrets
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls
from aioflow.data.elements import size_of
from aioflow.data.position import Position
from aioflow.data.record_files import FileCursor, RecordFile
from aioflow.data.stage import Cursor, EndOfData, OneInput, OneToOne, Run, Stage
from aioflow.files.filesystem import FILES, translate_errors
from aioflow.files.record_formats import TFRecords
from aioflow.files.tfrecord import TFRecordWriter
from aioflow.tensors.plain_data import from_plain, pack, to_plain, unpack

BLOCK: Final = 1 << 20
"""Bytes of elements that are written at a time."""


class _FileCacheCursor(Cursor["FileCache"]):
    """A cursor at a position makes the elements before it again, if the file is not there."""

    def __init__(self, stage: "FileCache", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)

    async def _next(self) -> Any:
        if not self.inputs:
            self.inputs = (await self._source(),)
        (source,) = self.inputs
        while source.given < self.given:
            await self._repeated(source.take())
        return await source.take()

    async def _source(self) -> Cursor[Any]:
        stage, name = self.stage, self.stage.filename
        if await self._calls.on_thread(FILES.exists, name):
            return Kept(stage.name, stage.line, name, stage.spec).begin(self.run)
        return Keeping(stage.inputs[0], name, stage.name, stage.line).begin(self.run.once(self.run.entropy))

    async def close(self) -> None:
        """Close the files and the input."""
        await self._calls.settle()
        await super().close()


class FileCache(OneToOne):
    """The same elements, which the first complete iteration keeps in a file.

    Attributes:
        filename: the name of the file.
    """

    name = "cache"
    cursor: ClassVar = _FileCacheCursor

    def __init__(self, source: Stage, filename: str) -> None:
        super().__init__(source.spec, source)
        self.filename: Final = filename


class _KeptCursor(FileCursor["Kept"]):
    async def _next(self) -> Any:
        try:
            return _decoded(unpack(await self.record()))
        except ValueError as error:
            damaged = errors.DataLossError(f"the file {self.stage.file!r} is damaged: {error}")
            raise self.stage.failed(damaged) from error


class Kept(RecordFile):
    """The elements of a file."""

    cursor: ClassVar = _KeptCursor

    def __init__(self, name: str, line: str, filename: str, spec: Any) -> None:
        super().__init__(name, line, TFRecords(), os.fsencode(filename), spec)


class _KeepingCursor(OneInput["Keeping"]):
    def __init__(self, stage: "Keeping", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._file: Final = _NewFile(stage.filename)
        self._unwritten: list[Any] = []
        self._size = 0

    async def _next(self) -> Any:
        try:
            element = await self.input.take()
        except EndOfData:
            await self._write()
            await self._calls.on_thread(self._file.complete)
            raise
        self._unwritten.append(element)
        self._size += size_of(element)
        if self._size >= BLOCK:
            await self._write()
        return element

    async def _write(self) -> None:
        elements, self._unwritten, self._size = self._unwritten, [], 0
        await self._calls.result(self.given, self._calls.on_thread(self._file.write, elements), lambda nothing: None)

    async def close(self) -> None:
        """Remove a file that is not complete, and close the input."""
        await self._calls.settle()
        await self._calls.on_thread(self._file.remove)
        await super().close()


class Keeping(Stage):
    """The elements, which are written to a file.

    Attributes:
        filename: the name of the file.
    """

    cursor: ClassVar = _KeepingCursor

    def __init__(self, source: Stage, filename: str, name: str, line: str | None = None) -> None:
        super().__init__(source.spec, source, line=line)
        self.name = name
        self.filename: Final = filename


class _NewFile:
    """A file that gets its name when it is complete. Used on one thread at a time."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._temporary: Final = f"{name}.{secrets.token_hex(8)}.tmp"
        self._writer: TFRecordWriter | None = None

    def write(self, elements: list[Any]) -> None:
        """Append elements. InvalidArgumentError if one cannot be kept."""
        if self._writer is None:
            with translate_errors(self._name):
                os.makedirs(os.path.dirname(self._name) or ".", exist_ok=True)
            self._writer = TFRecordWriter(self._temporary)
        for element in elements:
            self._writer.write(pack(_encoded(element)))

    def complete(self) -> None:
        """Give the file its name."""
        assert self._writer is not None
        self._writer.close()
        with translate_errors(self._name):
            os.replace(self._temporary, self._name)

    def remove(self) -> None:
        """Remove the file, unless it is complete."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)


def _encoded(element: Any) -> Any:
    """Return an element as plain data. ValueError if it has no plain form."""
    if isinstance(element, dict):
        return {"dict": [[key, _encoded(item)] for key, item in element.items()]}
    if type(element) is tuple:
        return {"items": [_encoded(item) for item in element]}
    if isinstance(element, tuple):
        raise ValueError(f"a file keeps tuples and dicts, not the named tuple {type(element).__name__}")
    return to_plain(np.asarray(element) if isinstance(element, np.generic) else element)


def _decoded(data: Any) -> Any:
    match data:
        case {"dict": [*items]}:
            return {key: _decoded(item) for key, item in items}
        case {"items": [*items]}:
            return tuple([_decoded(item) for item in items])
    leaf = from_plain(data)
    return leaf[()] if isinstance(leaf, np.ndarray) else leaf
