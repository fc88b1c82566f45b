"""Checkpoints of TensorFlow in their second version, which are only read.

    model.ckpt-1234.index                  a sorted table: {name: dtype, shape, and where the bytes are}
    model.ckpt-1234.data-00000-of-00001    the bytes of the tensors

A variable in parts has an entry that lists its slices, and an entry for each. Every tensor has one checksum.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.checkpoint.encoding import Shape, size_of
from aioflow.checkpoint.reading import Checkpoint, StoredTensor
from aioflow.checkpoint.records import MOST_AXES, Entry, ShardRecord
from aioflow.checkpoint.sorted_table import read_table
from aioflow.checkpoint.storage import Storage
from aioflow.files import message_wire as wire
from aioflow.files.crc32c import crc32c, mask
from aioflow.files.dtype_numbers import NUMBERS
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, resource, string

INDEX: Final = ".index"
"""The end of the name of the index."""
_DTYPES: Final = {number: dtype for dtype, number in NUMBERS.items() if dtype is not resource}
_VERSION: Final = 1
_Box = tuple[Shape, Shape]


class _Stored(NamedTuple):
    """An entry of the index.

    Attributes:
        dtype: the number of the dtype.
        shape: the shape.
        shard: the number of the file with its bytes.
        offset: position of its first byte there.
        size: number of its bytes.
        checksum: the checksum of them.
        slices: the start and the length of each slice along each axis; a length of -1 for all of it.
    """

    dtype: int
    shape: Shape
    shard: int
    offset: int
    size: int
    checksum: int
    slices: tuple[tuple[tuple[int, int], ...], ...]


class Bundle(Checkpoint):
    """A checkpoint of TensorFlow. See `Checkpoint`."""

    def __init__(
        self, path: str, storage: Storage, shards: Sequence[ShardRecord], checksums: Mapping[str, int], created: float
    ) -> None:
        super().__init__(path, storage, "", shards, {}, created, has_manifest=False)
        self._checksums: Final = checksums

    def _mapped(self, name: str, maps: dict[str, memoryview | None]) -> AnyArray:
        return self.read(name)

    def _read_bytes(self, file: str, piece: Entry, begin: int, buffer: memoryview) -> None:
        """Fill the buffer. Reads all of the piece, since its checksum needs all its bytes."""
        whole = buffer if len(buffer) == piece.size else memoryview(bytearray(piece.size))
        super()._read_bytes(file, piece, 0, whole)
        if mask(crc32c(bytes(whole))) != self._checksums[piece.key]:
            raise errors.DataLossError(f"{piece.name!r} is damaged: its checksum in {file!r} does not match")
        if whole is not buffer:
            buffer[:] = whole[begin : begin + len(buffer)]

    def _is_sound(self, placed: tuple[str, Entry]) -> bool:
        try:
            self.read(placed[1].name)
        except errors.DataLossError:
            return False
        return True

    def _read_strings(self, name: str, stored: StoredTensor) -> AnyArray:
        """The strings: their lengths, a checksum of these, and their bytes."""
        ((file, piece),) = stored.pieces
        data = bytearray(piece.size)
        super()._read_bytes(file, piece, 0, memoryview(data))
        try:
            lengths, at = _lengths(bytes(data), math.prod(stored.shape))
        except ValueError as error:
            raise errors.DataLossError(f"{name!r} is damaged: {error}") from None
        found = crc32c(b"".join([length.to_bytes(4 if length < 1 << 32 else 8, "little") for length in lengths]))
        if bytes(data[at : at + 4]) != mask(found).to_bytes(4, "little") or at + 4 + sum(lengths) != len(data):
            raise errors.DataLossError(f"{name!r} is damaged: the lengths of its strings do not fit {len(data)} bytes")
        if mask(crc32c(bytes(data[at:]), found)) != self._checksums[piece.key]:
            raise errors.DataLossError(f"{name!r} is damaged: its checksum in {file!r} does not match")
        texts, at = np.empty(len(lengths), object), at + 4
        for place, length in enumerate(lengths):
            texts[place] = bytes(data[at : at + length])
            at += length
        return texts.reshape(stored.shape)


def _lengths(data: bytes, count: int) -> tuple[list[int], int]:
    lengths, at = list[int](), 0
    for _ in range(count):
        length, at = wire.read_varint(data, at, len(data))
        lengths.append(length)
    return lengths, at


def has_bundle(storage: Storage, name: str) -> bool:
    """Whether there is an index of that checkpoint."""
    return storage.status(f"{name}{INDEX}") is not None


def open_bundle(storage: Storage, name: str, given: str) -> Bundle:
    """Open the checkpoint of that name. DataLossError if it is damaged, NotFoundError if a file of it is missing."""
    source = storage.open(f"{name}{INDEX}")
    try:
        data = bytearray(source.size)
        source.read_into(0, memoryview(data))
    finally:
        source.close()
    table = read_table(bytes(data), f"{given}{INDEX}")
    count = _shards(table.pop(b"", b""), given)
    entries: list[list[Entry]] = [[] for _ in range(count)]
    checksums: dict[str, int] = {}
    for shard, entry, checksum in _pieces(table, given):
        if shard >= count:
            raise errors.DataLossError(f"{entry.name!r} of {given!r} lies in file {shard} of {count}")
        entries[shard].append(entry)
        checksums[entry.key] = checksum
    shards = [_record(storage, name, given, number, count, each) for number, each in enumerate(entries)]
    status = storage.status(f"{name}{INDEX}")
    created = 0.0 if status is None or math.isinf(status.changed) else status.changed
    return Bundle(given, storage, shards, checksums, created)


def _record(storage: Storage, name: str, given: str, number: int, count: int, entries: Sequence[Entry]) -> ShardRecord:
    file = f"{name}.data-{number:05}-of-{count:05}"
    source = storage.open(file)
    try:
        size = source.size
    finally:
        source.close()
    for entry in entries:
        if entry.offset + entry.size > size:
            raise errors.DataLossError(f"{file!r} has {size} bytes, and {entry.name!r} of {given!r} lies behind them")
    return ShardRecord(number, count, file, size, tuple(sorted(entries, key=lambda entry: entry.offset)))


def _shards(header: bytes, given: str) -> int:
    """The number of data files. DataLossError without a header, UnimplementedError for another form."""
    numbers = {1: 0, 2: 0}
    try:
        for field, kind, begin, end in wire.fields(header, (0, len(header))):
            if kind == wire.VARINT and field in numbers:
                numbers[field] = wire.read_varint(header, begin, end)[0]
    except ValueError as error:
        raise errors.DataLossError(f"the header of {given!r} is damaged: {error}") from None
    if not 0 < numbers[1] < 1 << 16:
        raise errors.DataLossError(f"{given!r} has no header that says how many files it has")
    if numbers[2]:
        raise errors.UnimplementedError(f"{given!r} was written on a machine of the other order of bytes")
    return numbers[1]


def _pieces(table: Mapping[bytes, bytes], given: str) -> Iterator[tuple[int, Entry, int]]:
    """The file, the entry and the checksum of each piece of each tensor."""
    for key, value in table.items():
        if key[:1] == b"\0":
            continue  # a slice, which the entry of its tensor names
        name = key.decode(errors="replace")
        try:
            whole = _stored(value)
            if not whole.slices:
                yield whole.shard, _entry(name, name, whole, (0,) * len(whole.shape), whole), whole.checksum
            for extents in whole.slices:
                part = _stored(table[slice_key(key, extents)])
                begin = tuple([start if length >= 0 else 0 for start, length in extents])
                yield part.shard, _entry(name, f"{name} at {begin}", whole, begin, part), part.checksum
        except (KeyError, ValueError) as error:
            raise errors.DataLossError(f"{name!r} of {given!r} has a damaged entry: {error}") from None


def _entry(name: str, key: str, whole: _Stored, start: Shape, part: _Stored) -> Entry:
    dtype: DType | None = _DTYPES.get(part.dtype)
    if dtype is None:
        raise errors.UnimplementedError(f"{name!r} has dtype {part.dtype} of TensorFlow, which aioflow does not have")
    if (dtype is not string and size_of(dtype, part.shape) != part.size) or len(whole.shape) > MOST_AXES:
        raise ValueError(f"{part.size} bytes for {dtype.name}{[*part.shape]}")
    entry = Entry(name, key, dtype, whole.shape, start, part.shape, part.offset, part.size, ())
    entry.check()
    return entry


def _stored(data: bytes) -> _Stored:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: Shape = ()
    checksum, slices = 0, []
    for field, kind, begin, end in wire.fields(data, (0, len(data))):
        if field in numbers and kind == wire.VARINT:
            numbers[field] = wire.signed(wire.read_varint(data, begin, end)[0])
        elif field == 2 and kind == wire.BYTES:
            shape = tuple([_number(data, part, 1, 0) for part in wire.parts(data, (begin, end), 2)])
        elif field == 6 and kind == wire.FOUR:
            checksum = int.from_bytes(data[begin:end], "little")
        elif field == 7 and kind == wire.BYTES:
            extents = wire.parts(data, (begin, end), 1)
            slices.append(tuple([(_number(data, part, 1, 0), _number(data, part, 2, -1)) for part in extents]))
    if min([*numbers.values(), *shape], default=0) < 0:
        raise ValueError("a size is negative")
    return _Stored(numbers[1], shape, numbers[3], numbers[4], numbers[5], checksum, tuple(slices))


def _number(data: bytes, part: wire.Part, field: int, default: int) -> int:
    for found, kind, begin, end in wire.fields(data, part):
        if found == field and kind == wire.VARINT:
            default = wire.signed(wire.read_varint(data, begin, end)[0])
    return default


def slice_key(name: bytes, extents: Sequence[tuple[int, int]]) -> bytes:
    """Return the key of a slice: codes of its parts whose order as bytes is that of the parts."""
    rank = bytes([len(extents)]) if extents else b""
    places = [_signed(0 if length < 0 else start) + _signed(length) for start, length in extents]
    return b"\0" + _escaped(name) + bytes([len(rank)]) + rank + b"".join(places)


def _escaped(text: bytes) -> bytes:
    special = {0: b"\0\xff", 255: b"\xff\0"}
    return b"".join([special.get(byte, bytes([byte])) for byte in text]) + b"\0\x01"


def _signed(number: int) -> bytes:
    """A number whose first bits say how many bytes it has."""
    size = next(size for size in range(1, 11) if -(1 << 7 * size - 1) <= number < 1 << 7 * size - 1)
    header = ((1 << size) - 1 << 16 - size).to_bytes(2, "big")
    body = number.to_bytes(size + 1, "big", signed=True)[1:]
    return bytes([byte ^ bits for byte, bits in zip(body, header + bytes(size), strict=False)])
