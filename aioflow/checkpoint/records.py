"""Records of the files and tensors of a checkpoint, and their JSON, which is checked when it is read.

A tensor may consist of several pieces in several shards. Checksums belong to blocks, so that several threads can read
and check parts of one tensor.

Checksums of blocks, as fast as memory. A CRC of every byte would make a restore take twice as long.

A block is a matrix of little-endian 64-bit numbers in rows of 1021. The checksum first adds up each column modulo
2**64. It is the CRC-32 of these sums, continued over the bytes after the last whole row; for less than one row it is
the plain CRC-32. Every wrong bit changes a sum. The number of columns is prime, and a block is 1021 pages of 4096 bytes
long: no two pages of a block start in the same column, so the checksum also detects pages that changed places.
"""

import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from aioflow import errors
from aioflow.checkpoint.encoding import STORED, Shape, code_and_shape, size_of
from aioflow.tensors.dtypes import DType, string

MOST_AXES: Final = 64
MOST_PIECES: Final = 10_000
LARGEST: Final = (1 << 63) - 1
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,200}\.safetensors")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor in a shard, or one piece of it.

    Attributes:
        name: name of the tensor.
        key: its name in the safetensors file.
        dtype: dtype of the tensor.
        full_shape: shape of the tensor.
        start: the first index of the piece in the tensor, by axis.
        shape: shape of the piece.
        offset: position of its first byte in the file.
        size: number of its bytes.
        checksums: one of each block, see `checksums`; empty if they are unknown.
    """

    name: str
    key: str
    dtype: DType
    full_shape: Shape
    start: Shape
    shape: Shape
    offset: int
    size: int
    checksums: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return {
            "name": self.name,
            "key": self.key,
            "dtype": self.dtype.name,
            "full_shape": [*self.full_shape],
            "start": [*self.start],
            "shape": [*self.shape],
            "offset": self.offset,
            "size": self.size,
            "checksums": [*self.checksums],
        }

    @classmethod
    def from_json(cls, data: Any) -> "Entry":
        """Return the entry in plain data. DataLossError if the data is damaged."""
        name = field(data, "name", str)
        dtype = STORED.get(field(data, "dtype", str))
        if dtype is None:
            raise errors.DataLossError(f"{name!r} has the unknown dtype {data['dtype']!r}")
        full, start, shape = (_number_list(data, axes, MOST_AXES) for axes in ("full_shape", "start", "shape"))
        offset, size = natural_field(data, "offset"), natural_field(data, "size")
        checksums = _number_list(data, "checksums", blocks_in(size))
        entry = cls(name, field(data, "key", str), dtype, full, start, shape, offset, size, checksums)
        entry.check()
        return entry

    def check(self) -> None:
        """Raise DataLossError if the numbers contradict each other."""
        fits = len(self.full_shape) == len(self.start) == len(self.shape) and all(
            begin + count <= whole for begin, count, whole in zip(self.start, self.shape, self.full_shape, strict=True)
        )
        size = size_of(self.dtype, self.shape)
        largest = math.prod(max(count, 1) for count in self.full_shape) * self.dtype.size
        if not fits or largest > LARGEST or (size is not None and size != self.size):
            raise errors.DataLossError(
                f"{self.name!r} cannot be {self.dtype.name}{[*self.full_shape]} with a piece {[*self.shape]} at "
                f"{[*self.start]} of {self.size} bytes"
            )
        if len(self.checksums) not in (0, blocks_in(self.size)):
            raise errors.DataLossError(f"{self.name!r} has {len(self.checksums)} checksums for {self.size} bytes")


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A written file of a checkpoint.

    Attributes:
        number: its number among the shards, from 0.
        count: number of shards.
        file: its name in the checkpoint's directory.
        size: its size in bytes.
        entries: its tensors and pieces, ordered by offset.
    """

    number: int
    count: int
    file: str
    size: int
    entries: tuple[Entry, ...]

    @property
    def begin(self) -> int:
        """The position of the first tensor, after the header."""
        return self.entries[0].offset if self.entries else self.size

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data for JSON."""
        return {
            "number": self.number,
            "count": self.count,
            "file": self.file,
            "size": self.size,
            "entries": [entry.to_json() for entry in self.entries],
        }

    @classmethod
    def from_json(cls, data: Any) -> "ShardRecord":
        """Return the record in plain data. DataLossError if it is damaged, PermissionDeniedError for a foreign file."""
        file = check_file_name(field(data, "file", str))
        entries = tuple(map(Entry.from_json, field(data, "entries", list)))
        record = cls(
            natural_field(data, "number"), natural_field(data, "count"), file, natural_field(data, "size"), entries
        )
        record.check()
        return record

    def check(self) -> None:
        """Raise DataLossError if tensors overlap, or leave bytes between them or after them."""
        ends = [self.begin, *(entry.offset + entry.size for entry in self.entries)]
        if [entry.offset for entry in self.entries] != ends[:-1] or ends[-1] != self.size:
            raise errors.DataLossError(f"the entries of {self.file!r} do not fill its {self.size} bytes exactly")


def check_keys(entries: Iterable[Entry]) -> None:
    """Raise InvalidArgumentError if two entries have the same key, or one has the key of the metadata."""
    seen = {"__metadata__"}
    for key in (entry.key for entry in entries):
        if key in seen:
            raise errors.InvalidArgumentError(f"a checkpoint cannot hold two tensors named {key!r}")
        seen.add(key)


def header_entries(entries: Iterable[Entry]) -> dict[str, tuple[str, Shape, int]]:
    """Return {key: (code, shape, size in bytes)} for the header of a safetensors file."""
    return {entry.key: (*code_and_shape(entry.dtype, entry.shape, entry.size), entry.size) for entry in entries}


def pieces_by_name(records: Iterable[ShardRecord]) -> dict[str, list[tuple[str, Entry]]]:
    """Return {tensor: its pieces and their files}, the pieces in the order in which they begin in the tensor.

    DataLossError if the pieces of a tensor do not fill it, each element once.
    """
    found: dict[str, list[tuple[str, Entry]]] = {}
    for record in records:
        for entry in record.entries:
            found.setdefault(entry.name, []).append((record.file, entry))
    for name in found:
        found[name].sort(key=lambda piece: piece[1].start)
        _check_filled(name, [entry for _, entry in found[name]])
    return dict(sorted(found.items()))


def _check_filled(name: str, pieces: Sequence[Entry]) -> None:
    first = pieces[0]
    if any((piece.dtype, piece.full_shape) != (first.dtype, first.full_shape) for piece in pieces):
        raise errors.DataLossError(f"the pieces of {name!r} have different dtypes or full shapes")
    if first.dtype is string and len(pieces) > 1:
        raise errors.DataLossError(f"{name!r} holds strings in {len(pieces)} pieces; strings are saved in one piece")
    whole, there = math.prod(first.full_shape), sum(math.prod(piece.shape) for piece in pieces)
    if whole != there or len(pieces) > MOST_PIECES or _overlap(pieces):
        raise errors.DataLossError(
            f"the {len(pieces)} pieces of {name!r} do not make up {[*first.full_shape]}: "
            + ", ".join(f"{[*piece.shape]} at {[*piece.start]}" for piece in pieces[:8])
        )


def _overlap(pieces: Sequence[Entry]) -> bool:
    """Whether any two pieces of a tensor have an element in common."""
    low = np.array([piece.start for piece in pieces], np.int64)
    high = low + np.array([piece.shape for piece in pieces], np.int64)
    return any(
        bool(np.any(np.all(np.maximum(low[i], low[i + 1 :]) < np.minimum(high[i], high[i + 1 :]), axis=1)))
        for i in range(len(pieces) - 1)
    )


def check_file_name(file: str) -> str:
    """Return the name of a file beside the manifest. PermissionDeniedError if it could lead elsewhere."""
    if not _FILE.fullmatch(file):
        raise errors.PermissionDeniedError(
            f"a checkpoint names {file[:200]!r}, which is not a safetensors file beside it; no other file is read"
        )
    return file


def field(data: Any, name: str, kind: type[_T]) -> _T:
    """Return the field of a JSON object. DataLossError if it is missing or has another type."""
    value: Any = data.get(name) if isinstance(data, Mapping) else None
    if type(value) is not kind:
        raise errors.DataLossError(f"a checkpoint's description has no field {name!r} of type {kind.__name__}")
    found: _T = value
    return found


def natural_field(data: Any, name: str) -> int:
    """Return the field of a JSON object, a whole number from 0 to `LARGEST`. DataLossError if it is none."""
    value = field(data, name, int)
    if not 0 <= value <= LARGEST:
        raise errors.DataLossError(f"{name!r} in a checkpoint's description is {value}, outside of 0 to {LARGEST}")
    return value


def _number_list(data: Any, name: str, most: int) -> tuple[int, ...]:
    values: list[Any] = field(data, name, list)
    if len(values) > most or not all(type(value) is int and 0 <= value <= LARGEST for value in values):
        raise errors.DataLossError(f"{name!r} in a checkpoint's description is not a list of at most {most} numbers")
    return tuple(values)


_COLUMNS: Final = 1021
_ROW: Final = 8 * _COLUMNS
BLOCK: Final = 4096 * _COLUMNS
"""Bytes that share a checksum, about 4 MB; the last block of a piece is shorter."""


def blocks_in(size: int) -> int:
    """Return the number of blocks in `size` bytes."""
    return -(-size // BLOCK)


def checksums(data: memoryview) -> list[int]:
    """Return the checksum of each block of the data.

    All whole blocks are summed in one call without the interpreter's lock: beside a busy event loop a thread may wait
    long for the lock after each call.
    """
    whole = len(data) // BLOCK
    words = np.frombuffer(data, "<u8", whole * BLOCK // 8).reshape(whole, BLOCK // _ROW, _COLUMNS)
    found = [_crc32(memoryview(sums).cast("B")) for sums in np.add.reduce(words, axis=1)]
    return found if len(data) == whole * BLOCK else [*found, _last_checksum(data[whole * BLOCK :])]


def _last_checksum(block: memoryview) -> int:
    """Return the checksum of a block that may be shorter than the others."""
    rows = len(block) // _ROW
    if not rows:
        return zlib.crc32(block)
    sums = np.add.reduce(np.frombuffer(block, "<u8", rows * _COLUMNS).reshape(rows, _COLUMNS), axis=0)
    return _crc32(block[rows * _ROW :], _crc32(memoryview(sums).cast("B")))


_PIECE: Final = 4096
"""Bytes: zlib gives the interpreter's lock away for more than 5 KiB."""


def _crc32(data: memoryview, crc: int = 0) -> int:
    for begin in range(0, len(data), _PIECE):
        crc = zlib.crc32(data[begin : begin + _PIECE], crc)
    return crc
