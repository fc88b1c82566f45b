"""What readers find in a file: the whole of it, its lines, records of a fixed length, TFRecords, or just its name."""

import dataclasses
import itertools
from collections.abc import Generator
from typing import ClassVar, Protocol

from aioflow import errors
from aioflow.files.filesystem import Files, as_name, translate_errors
from aioflow.files.tfrecord import CHUNK, Records, TFRecordOptions

Record = tuple[bytes, bytes]
"""A key, which says where it comes from, and a value."""
Found = Generator[Record, None, int]
"""Records, one after the other, and then how many parts of the work item were left out."""


class Format(Protocol):
    """How the records of a work item are found. Two are equal if they find the same.

    Attributes:
        single: whether a work item is a single record.
        is_file: whether a work item is the name of a file, so that its records are read on a thread.
    """

    single: ClassVar[bool]
    is_file: ClassVar[bool]

    @property
    def skip_corrupt(self) -> bool:
        """Whether what is missing or corrupt is left out, and logged, instead of ending with an error."""

    def records(self, files: Files, work: bytes) -> Found:
        """The records of one work item. OpError if they cannot be read, or not all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """The work item itself, as key and as value."""

    single: ClassVar = True
    is_file: ClassVar = False
    skip_corrupt: ClassVar = False

    def records(self, files: Files, work: bytes) -> Found:
        """One record."""
        yield work, work
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class WholeFile:
    """The name of the file, and its contents."""

    skip_corrupt: bool = False
    single: ClassVar = True
    is_file: ClassVar = True

    def records(self, files: Files, work: bytes) -> Found:
        """One record."""
        yield work, files.read(work)
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text, without what ends them; the key tells the number of the line, from 1 on."""

    skip_header_lines: int = 0
    skip_corrupt: bool = False
    single: ClassVar = False
    is_file: ClassVar = True

    def records(self, files: Files, work: bytes) -> Found:
        """Line after line, the empty ones too."""
        with files.open(work) as file, translate_errors(as_name(work)):
            lines = enumerate(file, 1)
            for number, line in itertools.islice(lines, self.skip_header_lines, None):
                text = line.removesuffix(b"\n")
                yield b"%s:%d" % (work, number), text.removesuffix(b"\r") if text is not line else text
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class FixedLength:
    """Records of `record_bytes`, each `hop_bytes` after the one before; keys tell the number of the record from 0 on.

    What is left before the footer and is no whole record is left out.
    """

    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0
    hop_bytes: int = 0
    skip_corrupt: bool = False
    single: ClassVar = False
    is_file: ClassVar = True

    def records(self, files: Files, work: bytes) -> Found:
        """Record after record."""
        size = files.size(work)
        with files.open(work) as file, translate_errors(as_name(work)):
            if size is None:
                raise errors.UnimplementedError(
                    f"the size of {as_name(work)!r} is unknown, and where its footer begins"
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
    """The payloads of TFRecords; the key tells the offset at which a record begins."""

    compression_type: str = ""
    skip_corrupt: bool = False
    max_record_bytes: int = 1 << 30
    max_expansion: float = 250.0
    single: ClassVar = False
    is_file: ClassVar = True

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
