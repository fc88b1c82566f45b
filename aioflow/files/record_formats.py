"""The formats of records that readers read: whole files, lines, records of a fixed length, TFRecords, or names."""

import dataclasses
import itertools
from collections.abc import Generator
from typing import ClassVar, Protocol

from aioflow import errors
from aioflow.files.filesystem import Files, as_name, translate_errors
from aioflow.files.tfrecord import CHUNK, Records, TFRecordOptions

Record = tuple[bytes, bytes]
"""A key, which names the origin, and a value."""
Found = Generator[Record, None, int]
"""A generator of records that returns the number of skipped parts of the work item."""


class Format(Protocol):
    """Reads the records of a work item. Two formats are equal if they read the same records.

    Attributes:
        single: whether a work item is one record.
        is_file: whether a work item is the name of a file, so that its records are read on a thread.
    """

    single: ClassVar[bool]
    is_file: ClassVar[bool]

    @property
    def skip_corrupt(self) -> bool:
        """Whether missing or corrupt data is skipped and logged instead of raising an error."""

    def records(self, files: Files, work: bytes) -> Found:
        """Yield the records of one work item. OpError if not all can be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """One record: the work item as key and as value."""

    single: ClassVar[bool] = True
    is_file: ClassVar[bool] = False
    skip_corrupt: ClassVar[bool] = False

    def records(self, files: Files, work: bytes) -> Found:
        """One record."""
        yield work, work
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class WholeFile:
    """One record: the name of the file and its contents."""

    skip_corrupt: bool = False
    single: ClassVar[bool] = True
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes) -> Found:
        """One record."""
        yield work, files.read(work)
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text without their line ends. The key has the number of the line, from 1 on."""

    skip_header_lines: int = 0
    skip_corrupt: bool = False
    single: ClassVar[bool] = False
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes) -> Found:
        """Yield all lines, empty ones too."""
        with files.open(work) as file, translate_errors(as_name(work)):
            lines = enumerate(file, 1)
            for number, line in itertools.islice(lines, self.skip_header_lines, None):
                text = line.removesuffix(b"\n")
                yield b"%s:%d" % (work, number), text.removesuffix(b"\r") if text is not line else text
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class FixedLength:
    """Records of `record_bytes`, each `hop_bytes` after the previous one. The key has the record's number, from 0 on.

    An incomplete record before the footer is dropped.
    """

    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0
    hop_bytes: int = 0
    skip_corrupt: bool = False
    single: ClassVar[bool] = False
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes) -> Found:
        """Record after record."""
        size = files.size(work)
        with files.open(work) as file, translate_errors(as_name(work)):
            if size is None:
                raise errors.UnimplementedError(
                    f"the size of {as_name(work)!r} is unknown, and so the start of its footer"
                )
            if size < self.header_bytes + self.footer_bytes:
                least = self.header_bytes + self.footer_bytes
                raise errors.DataLossError(f"{as_name(work)!r} has {size} bytes, its header and footer alone {least}")
            hop = self.hop_bytes or self.record_bytes
            end = size - self.footer_bytes - self.record_bytes
            buffer, at = b"", 0
            for number, begin in enumerate(range(self.header_bytes, end + 1, hop)):
                if begin + self.record_bytes > at + len(buffer):
                    file.seek(begin)
                    buffer, at = file.read(max(CHUNK, self.record_bytes)), begin
                value = buffer[begin - at : begin - at + self.record_bytes]
                if len(value) < self.record_bytes:
                    raise errors.DataLossError(f"{as_name(work)!r} became shorter than {size} bytes while it was read")
                yield b"%s:%d" % (work, number), value
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class TFRecords:
    """The payloads of TFRecords. The key has the offset of the record."""

    compression_type: str = ""
    skip_corrupt: bool = False
    max_record_bytes: int = 1 << 30
    max_expansion: float = 250.0
    single: ClassVar[bool] = False
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes) -> Found:
        """Record after record."""
        options = TFRecordOptions(
            self.compression_type, skip_corrupt=self.skip_corrupt, max_record_bytes=self.max_record_bytes,
            max_expansion=self.max_expansion,
        )  # fmt: skip
        name = as_name(work)
        with files.open(work) as file, translate_errors(name):
            found = Records(file, files.size(work), name, options)
            for offset, payload in found:
                yield b"%s:%d" % (work, offset), payload
        return found.skipped
