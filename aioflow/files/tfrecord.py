"""Reads and writes TFRecord files, whose payloads stand between their length and a checksum.

    u64 length | masked crc32c of the length | payload | masked crc32c of the payload        all little-endian

The reader uses a length only if its checksum is right and the rest of the file can hold that many bytes; for a
compressed file, if the rest could inflate to that many. `skip_corrupt` continues with the next
record, or, after a wrong length, at the next bytes that are followed by their checksum. If a file cannot be
decompressed further, or is a bomb, its rest is skipped.
"""

import bisect
import logging
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Protocol, Self

import numpy as np

from aioflow import errors
from aioflow.files.crc32c import crc32c, mask, masked_crc32c_windows
from aioflow.files.filesystem import FILES, Files, Path, as_name, translate_errors
from aioflow.files.tfrecord_options import WINDOW, TFRecordOptions

_log: Final = logging.getLogger("aioflow.input")

CHUNK: Final = 1 << 18
"""The bytes of one read."""
_HEADER: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")
FRAME_BYTES: Final = 16
_STEEPEST: Final = 1032
"""The largest expansion of deflate."""
_HARMLESS: Final = 1 << 26
"""The bytes to which any compressed file may expand."""

# Sources of bytes


class _Source(Protocol):
    """A source of the bytes of records."""

    def read(self, count: int) -> bytes:
        """Return at most `count` bytes; b"" only at the end."""

    def left(self) -> int | None:
        """Return an upper bound of the bytes still to come; None if there is no bound."""


class _PlainSource:
    """The bytes of an uncompressed file."""

    def __init__(self, file: BinaryIO, size: int | None) -> None:
        self._file = file
        self._left = size

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        if self._left is not None:
            self._left -= len(data)
        return data

    def left(self) -> int | None:
        return self._left


class _InflatedSource:
    """The decompressed bytes of a file, which may contain several compressed streams."""

    def __init__(self, file: BinaryIO, size: int | None, name: str, options: TFRecordOptions) -> None:
        self._file, self._size, self._name, self._options = file, size, name, options
        self._stream = self._new_stream()
        self._waiting = b""
        self._begun = False
        self._read = self._made = 0

    def _new_stream(self) -> Any:
        return zlib.decompressobj(WINDOW[self._options.compression_type])

    def read(self, count: int) -> bytes:
        while True:
            at_end = not self._waiting and not self._refill()
            if at_end and not self._begun:
                return b""
            data = self._inflate(count)
            if self._stream.eof:
                self._waiting, self._stream, self._begun = self._stream.unused_data, self._new_stream(), False
            if data:
                return data
            if at_end and self._begun:
                raise errors.DataLossError(f"{self._name!r} is truncated: it ends at byte {self._read}")

    def _refill(self) -> bool:
        self._waiting = self._file.read(CHUNK)
        self._read += len(self._waiting)
        return bool(self._waiting)

    def _inflate(self, count: int) -> bytes:
        try:
            data: bytes = self._stream.decompress(self._waiting, count)
        except zlib.error as error:
            at = self._read - len(self._waiting)
            raise errors.DataLossError(
                f"{self._name!r} holds no {self._options.compression_type} data after byte {at}: {error}"
            ) from error
        self._begun = True
        self._waiting = self._stream.unconsumed_tail
        self._made += len(data)
        most = max(_HARMLESS, self._options.max_expansion * (self._read - len(self._waiting)))
        if self._made > most:
            raise errors.ResourceExhaustedError(
                f"{self._name!r} expands {self._made / max(1, self._read):.0f} times when it is decompressed, to "
                f"{self._made} bytes so far: if that is right, allow it by TFRecordOptions(max_expansion=)"
            )
        return data

    def left(self) -> int | None:
        """Return the bytes to which deflate could expand the rest at most."""
        if self._size is None:
            return None
        return (max(0, self._size - self._read) + len(self._waiting)) * _STEEPEST + (1 << 16)


# Reading


class Records:
    """An iterator of the (offset, payload) of the records of an open file, for one thread at a time.

    Args:
        file: the file, at the offset `start`.
        size: the bytes of the whole file, if that is known.
        name: its name in errors.
        options: the compression, and whether corrupt data are skipped.
        start: the offset of the first record, in a file that is not compressed.

    Attributes:
        skipped: the number of skipped parts.
    """

    def __init__(
        self, file: BinaryIO, size: int | None, name: str, options: TFRecordOptions | None = None, start: int = 0
    ) -> None:
        self._options: Final = options or TFRecordOptions()
        self._name = name
        compressed = bool(self._options.compression_type)
        self._source: _Source = (
            _InflatedSource(file, size, name, self._options)
            if compressed
            else _PlainSource(file, None if size is None else size - start)
        )
        self._buffer = b""
        self._offset = start  # of the buffer in the source
        self._position = 0  # in the buffer
        self._at_end = False
        self._candidates: list[int] = []  # offsets before `_scanned` at which a record may begin
        self._scanned = 0
        self._first = ""
        self.skipped: int = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            while True:
                frames, error = self._frames()
                yield from self._check_payloads(frames)
                if error is not None and not self._skip_past(error):
                    return
                if error is None and not frames:
                    return
        finally:
            if self.skipped:
                _log.warning("%d parts of %r are skipped; the first: %s", self.skipped, self._name, self._first)

    def _frames(self) -> "tuple[list[_Frame], errors.OpError | _Refused | None]":
        """Return the next records in the buffer, and the error that follows them; None for no error."""
        frames: list[_Frame] = []
        while True:
            try:
                frame = self._frame(wait=not frames)
            except (_Refused, errors.OpError) as error:
                return frames, error
            if frame is None:
                return frames, None
            frames.append(frame)

    def _frame(self, wait: bool) -> "_Frame | None":
        """Return the next record. None at the end, or if it is not complete in the buffer and `wait` is false."""
        if not self._buffer_has(_HEADER.size, wait):
            if wait and self._position < len(self._buffer):
                raise self._corrupt_error(f"{len(self._buffer) - self._position} bytes are not a record")
            return None
        length, crc = _HEADER.unpack_from(self._buffer, self._position)
        begin = self._position + _HEADER.size
        if mask(crc32c(self._buffer[self._position : self._position + 8])) != crc:
            raise self._corrupt_error("the length of a record disagrees with its checksum")
        self._check_length(length)
        if not self._buffer_has(FRAME_BYTES + length, wait):
            if wait:
                raise self._corrupt_error(f"a record of {length} bytes is truncated")
            return None
        begin = self._position + _HEADER.size
        self._position = begin + length + _CRC.size
        return begin, length, _CRC.unpack_from(self._buffer, begin + length)[0]

    def _check_length(self, length: int) -> None:
        left = self._source.left()
        held = len(self._buffer) - self._position - _HEADER.size
        if left is not None and length + _CRC.size > held + left:
            raise self._corrupt_error(f"a record of {length} bytes is truncated, or its length is forged")
        if length > self._options.max_record_bytes:
            longest = self._options.max_record_bytes
            error = errors.ResourceExhaustedError(
                f"a record of {length} bytes {self._where()} is longer than {longest} bytes: "
                "if that is right, allow it by TFRecordOptions(max_record_bytes=)"
            )
            raise _Refused(error, FRAME_BYTES + length)

    def _buffer_has(self, count: int, wait: bool) -> bool:
        """Whether the buffer has `count` more bytes; with `wait` it reads them."""
        held = len(self._buffer) - self._position
        if held >= count or not wait or self._at_end:
            return held >= count
        pieces = [self._buffer[self._position :]]
        self._offset, self._position = self._offset + self._position, 0
        try:
            while held < count and not self._at_end:
                pieces.append(self._source.read(max(CHUNK, min(count - held, 1 << 24))))
                held += len(pieces[-1])
                self._at_end = not pieces[-1]
        finally:
            self._buffer = b"".join(pieces)
        return held >= count

    def _check_payloads(self, frames: "list[_Frame]") -> Iterator[tuple[int, bytes]]:
        """Yield the records whose payloads match their checksums."""
        buffer, offset = self._buffer, self._offset
        for begin, length, crc in frames:
            payload = buffer[begin : begin + length]
            if mask(crc32c(payload)) == crc:
                yield offset + begin - _HEADER.size, payload
            else:
                where = f"in {self._name!r} at offset {offset + begin - _HEADER.size}"
                self._leave_out(errors.DataLossError(f"a record of {length} bytes {where} disagrees with its checksum"))

    # Corrupt data

    def _leave_out(self, error: errors.OpError) -> None:
        """Count a skipped part, or raise the error without `skip_corrupt`."""
        if not self._options.skip_corrupt:
            raise error
        self._first = self._first or error.message
        self.skipped += 1

    def _skip_past(self, error: "errors.OpError | _Refused") -> bool:
        """Skip the corrupt part and continue behind it. Returns False if nothing follows."""
        if isinstance(error, errors.OpError):
            self._leave_out(error)
            return False
        self._leave_out(error.error)
        try:
            self._find_next() if error.length is None else self._skip_bytes(error.length)
        except errors.OpError as worse:
            return self._skip_past(worse)
        return True

    def _where(self) -> str:
        return f"in {self._name!r} at offset {self._offset + self._position}"

    def _corrupt_error(self, what: str) -> "_Refused":
        return _Refused(errors.DataLossError(f"{what}, {self._where()}"))

    def _find_next(self) -> None:
        """Continue at the next bytes that look like a length followed by its checksum."""
        self._position += 1
        while self._buffer_has(_HEADER.size, wait=True):
            here = bisect.bisect_left(self._candidates, self._offset + self._position)
            if here < len(self._candidates):
                self._position = self._candidates[here] - self._offset
                return
            self._position = max(self._position, self._scanned - self._offset)
            self._scan()
        self._position = len(self._buffer)

    def _scan(self) -> None:
        """Find the positions in the buffer of bytes that look like a length followed by its checksum.

        No byte is read twice.
        """
        window = self._buffer[self._position :]
        if len(window) < _HEADER.size:
            return
        stored = np.frombuffer(window, np.uint8).astype(np.uint32)
        crcs = masked_crc32c_windows(window, 8)[: len(window) - 11]
        found = stored[8:-3] | stored[9:-2] << 8 | stored[10:-1] << 16 | stored[11:] << 24
        begin = self._offset + self._position
        self._candidates = (np.flatnonzero(crcs == found) + begin).tolist()
        self._scanned = begin + len(crcs)

    def _skip_bytes(self, length: int) -> None:
        """Skip `length` bytes."""
        held = len(self._buffer) - self._position
        if length <= held:
            self._position += length
            return
        self._offset, self._position, self._buffer = self._offset + self._position + length, 0, b""
        left = length - held
        while left and not self._at_end:
            passed = len(self._source.read(min(left, CHUNK)))
            left -= passed
            self._at_end = not passed


_Frame = tuple[int, int, int]
"""The start of a payload in the buffer, its length, and its checksum."""


class _Refused(Exception):
    """The next bytes are no record; or a record that is refused, which then takes `length` bytes."""

    def __init__(self, error: errors.OpError, length: int | None = None) -> None:
        super().__init__(error)
        self.error: Final = error
        self.length: Final = length


def tf_record_iterator(
    path: Path, options: TFRecordOptions | str | None = None, files: Files = FILES
) -> Iterator[bytes]:
    """Yield the records of a file. It blocks; in a graph, use a `TFRecordReader`, which does not.

    Raises:
        af.errors.DataLossError: the file is corrupt or truncated; the text says where.
        af.errors.ResourceExhaustedError: a record, or the decompressed file, is longer than the options allow.

    Examples:
        >>> with af.io.TFRecordWriter("data.tfrecord") as writer:
        ...     writer.write(b"one")
        ...     writer.write(b"two")
        >>> list(af.io.tf_record_iterator("data.tfrecord"))
        [b'one', b'two']
    """
    name = as_name(path)
    with files.open(name) as file, translate_errors(name):
        for _, record in Records(file, files.size(name), name, TFRecordOptions.of(options)):
            yield record


# Writing


class TFRecordWriter:
    """Writes records to a new file. Its methods block.

    with af.io.TFRecordWriter("digits.tfrecord", "GZIP") as writer:
        writer.write(record)

    Examples:
        >>> with af.io.TFRecordWriter("records") as writer:
        ...     writer.write(b"tea")
        >>> [record async for record in af.data.TFRecordDataset("records")]
        [b'tea']
    """

    def __init__(self, path: Path, options: TFRecordOptions | str | None = None, files: Files = FILES) -> None:
        self._name = as_name(path)
        self._compressor = TFRecordOptions.of(options).compressor()
        self._file: BinaryIO | None = files.open(self._name, "wb")

    def write(self, record: bytes | str) -> None:
        """Append a record."""
        payload = record.encode() if isinstance(record, str) else bytes(record)
        length = len(payload).to_bytes(8, "little")
        checks = [_CRC.pack(mask(crc32c(part))) for part in (length, payload)]
        self._put(b"".join((length, checks[0], payload, checks[1])))

    def _put(self, data: bytes) -> None:
        if self._file is None:
            raise errors.FailedPreconditionError(f"the writer of {self._name!r} is closed")
        with translate_errors(self._name):
            self._file.write(data if self._compressor is None else self._compressor.compress(data))

    def flush(self) -> None:
        """Write all buffered records to the file."""
        if self._file is None:
            raise errors.FailedPreconditionError(f"the writer of {self._name!r} is closed")
        with translate_errors(self._name):
            if self._compressor is not None:
                self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        """Complete the file. Further calls do nothing."""
        file, self._file = self._file, None
        if file is None:
            return
        with translate_errors(self._name), file:
            if self._compressor is not None:
                file.write(self._compressor.flush())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
