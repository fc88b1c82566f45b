"""The formats of records that readers read: whole files, lines, records of a fixed length, TFRecords, or names."""

import dataclasses
from collections.abc import Generator
from typing import BinaryIO, ClassVar, Protocol

from aioflow import errors
from aioflow.files.filesystem import Files, as_name, translate_errors
from aioflow.files.tfrecord import CHUNK, FRAME_BYTES, Records
from aioflow.files.tfrecord_options import TFRecordOptions

Record = tuple[bytes, bytes]
"""A key, which names the origin, and a value."""
Found = Generator[Record, None, int]
"""A generator of records that returns the number of skipped parts of the work item."""


@dataclasses.dataclass(slots=True)
class Place:
    """A place between two records of a work item. A format that cannot begin at places leaves it at the start.

    Attributes:
        number: the number of records before it.
        offset: the number of bytes before it.
    """

    number: int = 0
    offset: int = 0

    def seek(self, file: BinaryIO, files: Files, work: bytes) -> None:
        """Go to the place in an open file. FailedPreconditionError if the file ends before it."""
        if self.offset:
            size = files.size(work)
            if size is not None and size < self.offset:
                raise errors.FailedPreconditionError(
                    f"{as_name(work)!r} has {size} bytes and cannot be read from byte {self.offset} on: it has changed"
                )
            file.seek(self.offset)


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

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """Yield the records of one work item from a place on, and move the place. OpError if not all can be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """One record: the work item as key and as value."""

    single: ClassVar[bool] = True
    is_file: ClassVar[bool] = False
    skip_corrupt: ClassVar[bool] = False

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """One record."""
        yield work, work
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class WholeFile:
    """One record: the name of the file and its contents."""

    skip_corrupt: bool = False
    single: ClassVar[bool] = True
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
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

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """Yield all lines, empty ones too."""
        place = place or Place()
        with files.open(work) as file, translate_errors(as_name(work)):
            place.seek(file, files, work)
            before = place.number + self.skip_header_lines if place.offset else 0
            for number, line in enumerate(file, before + 1):
                place.offset += len(line)
                if number <= self.skip_header_lines:
                    continue
                place.number += 1
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

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """Record after record."""
        place = place or Place()
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
            begins = range(self.header_bytes, end + 1, hop)
            if place.number > len(begins):
                raise errors.FailedPreconditionError(
                    f"{as_name(work)!r} has {len(begins)} records, and {place.number} were read: it has changed"
                )
            for number, begin in enumerate(begins[place.number :], place.number):
                if begin + self.record_bytes > at + len(buffer):
                    file.seek(begin)
                    buffer, at = file.read(max(CHUNK, self.record_bytes)), begin
                value = buffer[begin - at : begin - at + self.record_bytes]
                if len(value) < self.record_bytes:
                    raise errors.DataLossError(f"{as_name(work)!r} became shorter than {size} bytes while it was read")
                place.number += 1
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

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """Record after record."""
        place = place or Place()
        options = TFRecordOptions(
            self.compression_type, skip_corrupt=self.skip_corrupt, max_record_bytes=self.max_record_bytes,
            max_expansion=self.max_expansion,
        )  # fmt: skip
        name = as_name(work)
        with files.open(work) as file, translate_errors(name):
            place.seek(file, files, work)
            found = Records(file, files.size(work), name, options, place.offset)
            for offset, payload in found:
                if not self.compression_type and not self.skip_corrupt:
                    place.number += 1
                    place.offset = offset + FRAME_BYTES + len(payload)
                yield b"%s:%d" % (work, offset), payload
        return found.skipped
