"""An open checkpoint. Opening checks the headers and the index, reading checks the bytes of the tensors.

Opens safetensors files of other programs, with or without an index, as a checkpoint.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.checkpoint.encoding import Shape, bytes_of, texts
from aioflow.checkpoint.header import matches_record, parse_json, read_record
from aioflow.checkpoint.manifest import INDEX, MANIFEST, check_index, check_whole, read_json, read_manifest
from aioflow.checkpoint.records import BLOCK, Entry, ShardRecord, check_file_name, checksums, field
from aioflow.checkpoint.storage import Source, Storage, locate
from aioflow.files.byte_count import ByteCount
from aioflow.files.filesystem import FILES, Files, Path, as_name
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, ShapeLike, as_shape, string


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a checkpoint.

    Attributes:
        dtype: its dtype.
        shape: its shape.
        pieces: (file, entry) of each piece, in the order in which the pieces begin in the tensor.
    """

    dtype: DType
    shape: Shape
    pieces: tuple[tuple[str, Entry], ...]


class Checkpoint:
    """A complete checkpoint. Its methods block; call them on threads, several at once if you like.

    No file stays open between calls, so there is nothing to close.

    Attributes:
        path: the path as the caller gave it.
        tensors: {name: description} of its tensors.
        facts: the information that was saved with it.
        created: when it was saved, in seconds since 1970.
        count: counts the bytes that `read` reads; None at first.
    """

    def __init__(
        self,
        path: str,
        storage: Storage,
        folder: str,
        shards: Sequence[ShardRecord],
        facts: Mapping[str, Any],
        created: float,
        has_manifest: bool = True,
    ) -> None:
        self.path: Final = path
        self.facts: Final = facts
        self.created: Final = created
        self.tensors: Final[Mapping[str, StoredTensor]] = {
            name: StoredTensor(pieces[0][1].dtype, pieces[0][1].full_shape, tuple(pieces))
            for name, pieces in check_whole(shards).items()
        }
        self._storage, self._folder, self._shards = storage, folder, tuple(shards)
        self._has_manifest: Final = has_manifest
        self.count: ByteCount | None = None

    @classmethod
    def open(cls, path: Path, files: Files = FILES) -> "Checkpoint":
        """Open the checkpoint at the path, after checking its manifest, its index, and the sizes and headers of files.

        The bytes of a tensor are checked when it is read. NotFoundError if there is no checkpoint, DataLossError if it
        is damaged, UnimplementedError for another version of the format, PermissionDeniedError if the manifest names
        files elsewhere or links. Where TensorFlow has written a checkpoint, of which the path names the files without
        their ends, it opens that.
        """
        from aioflow.checkpoint import bundle  # it makes a Checkpoint

        given = as_name(path).rstrip("/")
        storage, name = locate(given, files)
        if bundle.has_bundle(storage, name):
            return bundle.open_bundle(storage, name, given)
        try:
            manifest = read_manifest(storage, name, given)
        except errors.NotFoundError:
            raise errors.NotFoundError(f"there is no checkpoint {given!r}: {MANIFEST} is missing") from None
        found = cls(given, storage, f"{name}/", manifest.shards, manifest.facts, manifest.created)
        found._check_files()
        return found

    def read(
        self,
        name: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        """Return the tensor, or the slice of it at `start` with that shape, joined from its pieces.

        With `out`, reads into `out` and returns it. Besides the result, at most a part of one piece is in memory.
        NotFoundError if there is no such tensor, InvalidArgumentError for a slice or an `out` that does not fit,
        DataLossError if a checksum does not match.
        """
        stored = self.tensors.get(name)
        if stored is None:
            raise errors.NotFoundError(f"checkpoint {self.path!r} has no tensor {name!r}")
        box = _box(name, stored, start, shape)
        if stored.dtype is string:
            whole = self._read_strings(name, stored)[_slices(box, (0,) * len(stored.shape))]
            return whole.copy() if out is None else _fill(_check_out(name, stored, box[1], out), whole)
        out = np.empty(box[1], stored.dtype.np) if out is None else _check_out(name, stored, box[1], out)
        for file, piece in stored.pieces:
            self._read_piece(file, piece, box, out)
        return out

    def map(self, names: Iterable[str]) -> dict[str, AnyArray]:
        """Return tensors as they lie in mapped files, which takes no memory of its own, and check their bytes.

        A file may be replaced or deleted afterwards, but not written to. Strings, tensors in several pieces, and those
        at a URL are read instead. Raises as `read` does.
        """
        maps: dict[str, memoryview | None] = {}
        return {name: self._mapped(name, maps) for name in names}

    def _mapped(self, name: str, maps: dict[str, memoryview | None]) -> AnyArray:
        stored = self.tensors.get(name)
        if stored is None or stored.dtype is string or len(stored.pieces) > 1 or not stored.pieces[0][1].size:
            return self.read(name)
        file, piece = stored.pieces[0]
        if file not in maps:
            maps[file] = self._map(file)
        whole = maps[file]
        if whole is None or piece.offset % stored.dtype.np.alignment:
            return self.read(name)
        data = whole[piece.offset : piece.offset + piece.size]
        if piece.checksums and tuple(checksums(data)) != piece.checksums:
            raise errors.DataLossError(f"{name!r} is damaged: a checksum in {file!r} of {self.path!r} does not match")
        return np.frombuffer(data, stored.dtype.np).reshape(stored.shape)

    def _map(self, file: str) -> memoryview | None:
        source = self._open(file)
        try:
            return source.map()
        finally:
            source.close()

    def renamed(self, names: Mapping[str, str]) -> "Checkpoint":
        """Return the checkpoint with only those tensors, by other names: {new name: name}."""
        new = {name: other for other, name in names.items()}
        shards = []
        for shard in self._shards:
            kept = [replace(each, name=new[each.name]) for each in shard.entries if each.name in new]
            shards.append(replace(shard, entries=tuple(kept)))
        return Checkpoint(self.path, self._storage, self._folder, shards, self.facts, self.created, self._has_manifest)

    def verify(self) -> None:
        """Read all bytes and check their checksums. DataLossError with the names of all damaged tensors."""
        if self._has_manifest:
            self._check_files()
        damaged = [name for name, stored in self.tensors.items() if not all(map(self._is_sound, stored.pieces))]
        if damaged:
            raise errors.DataLossError(f"checkpoint {self.path!r} has damaged tensors: {', '.join(map(repr, damaged))}")

    def _is_sound(self, placed: tuple[str, Entry]) -> bool:
        file, piece = placed
        buffer = memoryview(bytearray(min(_BUFFER_SIZE, piece.size)))
        try:
            for begin in range(0, piece.size, _BUFFER_SIZE):
                self._read_bytes(file, piece, begin, buffer[: piece.size - begin])
        except errors.DataLossError:
            return False
        return True

    def _read_strings(self, name: str, stored: StoredTensor) -> AnyArray:
        file, piece = stored.pieces[0]
        data = memoryview(bytearray(piece.size))
        self._read_bytes(file, piece, 0, data)
        return texts(name, stored.shape, data)

    def _read_piece(self, file: str, piece: Entry, box: "_Box", out: AnyArray) -> None:
        """Copy the common elements of piece and box to `out`, without an extra copy if both have whole rows."""
        low = [max(a, b) for a, b in zip(piece.start, box[0], strict=True)]
        high = [min(a + m, b + n) for a, m, b, n in zip(piece.start, piece.shape, *box, strict=True)]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            return
        common = (tuple(low), tuple(b - a for a, b in zip(low, high, strict=True)))
        into = out[_slices(common, box[0])]
        if common[1][1:] == piece.shape[1:] and into.flags.c_contiguous and into.flags.writeable:
            first = low[0] - piece.start[0] if low else 0
            row = piece.dtype.size * math.prod(piece.shape[1:])
            self._read_bytes(file, piece, first * row, bytes_of(into))
        else:
            self._read_rows(file, piece, common, into)

    def _read_rows(self, file: str, piece: Entry, common: "_Box", into: AnyArray) -> None:
        """Do the same by way of a buffer of some rows."""
        first, count = common[0][0] - piece.start[0], common[1][0]
        row = piece.dtype.size * math.prod(piece.shape[1:])
        together = max(1, _BUFFER_SIZE // row)
        for begin in range(0, count, together):
            rows = np.empty((min(together, count - begin), *piece.shape[1:]), piece.dtype.np)
            self._read_bytes(file, piece, (first + begin) * row, bytes_of(rows))
            inner = (slice(None), *_slices(common, piece.start)[1:])
            into[begin : begin + len(rows)] = rows[inner]

    def _read_bytes(self, file: str, piece: Entry, begin: int, buffer: memoryview) -> None:
        source = self._open(file)
        try:
            _read_range(source, piece, begin, buffer, self._storage.threads, self.count)
        finally:
            source.close()

    def _open(self, file: str) -> Source:
        try:
            return self._storage.open(self._folder + file)
        except errors.NotFoundError:
            raise errors.DataLossError(
                f"checkpoint {self.path!r} has no file {file!r}; another process may have replaced or deleted it"
            ) from None

    def _check_files(self) -> None:
        for shard in self._shards:
            self._check_shard(shard)
        try:
            found = read_json(self._storage, self._folder + INDEX, self.path)
        except errors.NotFoundError:
            raise errors.DataLossError(f"checkpoint {self.path!r} has no file {INDEX!r}") from None
        check_index(found, self._shards, self._storage.entries(self._folder.rstrip("/")), self.path)

    def _check_shard(self, shard: ShardRecord) -> None:
        source = self._open(shard.file)
        try:
            sound = matches_record(shard, source)
        finally:
            source.close()
        if source.size != shard.size:
            raise errors.DataLossError(
                f"{shard.file!r} of checkpoint {self.path!r} has {source.size} bytes instead of {shard.size}"
            )
        if not sound:
            raise errors.DataLossError(f"{shard.file!r} of checkpoint {self.path!r} has a damaged header")


_Box = tuple[Shape, Shape]
"""The start and the shape of a slice."""
_BUFFER_SIZE: Final = 1 << 24
"""About the most bytes that wait in a buffer at a time."""


def _box(name: str, stored: StoredTensor, start: Sequence[int] | None, shape: Sequence[int] | None) -> _Box:
    begin = (0,) * len(stored.shape) if start is None else tuple(map(int, start))
    if len(begin) == len(stored.shape) and shape is None:
        shape = [n - a for a, n in zip(begin, stored.shape, strict=True)]
    sizes = tuple(map(int, shape or ()))
    fits = len(begin) == len(sizes) == len(stored.shape) and all(
        a >= 0 and n >= 0 and a + n <= m for a, n, m in zip(begin, sizes, stored.shape, strict=True)
    )
    if not fits:
        raise errors.InvalidArgumentError(
            f"a slice {[*sizes]} at {[*begin]} is not within {name!r}, which is {[*stored.shape]}"
        )
    return begin, sizes


def _check_out(name: str, stored: StoredTensor, shape: Shape, out: AnyArray) -> AnyArray:
    if out.shape != shape or out.dtype != stored.dtype.np or not out.flags.writeable:
        raise errors.InvalidArgumentError(
            f"{name!r} is {stored.dtype.name}{[*shape]} and cannot be read into {out.dtype}{[*out.shape]}"
            + ("" if out.flags.writeable else ", which is read-only")
        )
    return out


def _fill(out: AnyArray, values: AnyArray) -> AnyArray:
    out[...] = values
    return out


def _slices(box: _Box, origin: Iterable[int]) -> tuple[Any, ...]:
    """Return the index of the box in an array that begins at `origin`. The `...` makes it a view without axes too."""
    return (*(slice(a - zero, a - zero + n) for a, n, zero in zip(*box, origin, strict=True)), ...)


def _read_range(
    source: Source, entry: Entry, begin: int, buffer: memoryview, threads: int, count: ByteCount | None
) -> None:
    """Fill the buffer with the bytes of the piece from `begin` on, and check every block that it touches.

    Reads with up to `threads` threads, which have ended when it returns. DataLossError if a checksum does not match.
    """
    end = begin + len(buffer)
    bounds = [begin, *range((begin // BLOCK + 1) * BLOCK, end, BLOCK), end]
    spans = [(low, high) for low, high in itertools.pairwise(bounds) if low < high]

    def read(span: tuple[int, int]) -> None:
        low, high = span
        _read_in_block(source, entry, low, buffer[low - begin : high - begin])
        if count is not None:
            count.add(high - low)

    if len(spans) < 2 or threads < 2:
        for span in spans:
            read(span)
        return
    with ThreadPoolExecutor(min(threads, len(spans)), "aioflow-restore") as helpers:
        for _ in helpers.map(read, spans):
            pass


def _read_in_block(source: Source, entry: Entry, low: int, into: memoryview) -> None:
    """Fill `into` with bytes of one block. Reads the whole block, since its checksum needs all its bytes."""
    if not entry.checksums:
        source.read_into(entry.offset + low, into)
        return
    begin = low - low % BLOCK
    size = min(BLOCK, entry.size - begin)
    block = into if len(into) == size else memoryview(bytearray(size))
    source.read_into(entry.offset + begin, block)
    if checksums(block) != [entry.checksums[begin // BLOCK]]:
        raise errors.DataLossError(
            f"{entry.name!r} is damaged: the checksum of {size} bytes from {entry.offset + begin} on of its file "
            "does not match; restore another checkpoint"
        )
    if block is not into:
        into[:] = block[low - begin : low - begin + len(into)]


# Comparison with a graph


def differences(checkpoint: Checkpoint, wanted: Mapping[str, tuple[DType, ShapeLike]]) -> list[str]:
    """Return a sentence for each tensor that is missing, has another dtype or shape, or is not wanted."""
    return [*_differences(checkpoint.tensors, wanted)]


def _differences(present: Mapping[str, Any], wanted: Mapping[str, tuple[DType, ShapeLike]]) -> Iterator[str]:
    for name, (dtype, shape) in sorted(wanted.items()):
        found = present.get(name)
        if found is None:
            yield f"{name!r} is missing"
        elif found.dtype is not dtype:
            yield f"{name!r} is {found.dtype.name} in the checkpoint, {dtype.name} is expected"
        elif not as_shape(shape).is_compatible_with(found.shape):
            there, needed = _format_shape(found.shape), _format_shape(shape)
            yield f"{name!r} has the shape {there} in the checkpoint, {needed} is expected"
    for name in sorted(present.keys() - wanted.keys()):
        yield f"{name!r} is in the checkpoint, but no variable uses it"


def _format_shape(shape: ShapeLike) -> str:
    sizes: Sequence[int | None] | None = as_shape(shape).sizes
    return "unknown" if sizes is None else str(["?" if size is None else size for size in sizes]).replace("'", "")


_INDEX: Final = ".safetensors.index.json"


def import_safetensors(path: Path, files: Files = FILES) -> Checkpoint:
    """Open a safetensors file, or a folder with several and their index in Hugging Face's form, or with just one.

    The files have no checksums, so reading does not detect damaged tensors. NotFoundError if there is no such file,
    DataLossError if a header or the index is damaged, UnimplementedError for a dtype that aioflow does not have,
    PermissionDeniedError if the index names a file elsewhere or a link.
    """
    given = as_name(path).rstrip("/")
    storage, name = locate(given, files)
    entries = storage.entries(name)
    if not entries:
        return _checkpoint(given, storage, "", [name])
    index = _index(given, storage, name, entries)
    found = _checkpoint(given, storage, f"{name}/", sorted(set(index.values())) or [_single_file(given, entries)])
    for tensor, file in index.items():
        stored = found.tensors.get(tensor)
        if stored is None or stored.pieces[0][0] != file:
            raise errors.DataLossError(f"{tensor!r} is not in {file!r}, although the index of {given!r} says so")
    return found


def _checkpoint(given: str, storage: Storage, folder: str, names: list[str]) -> Checkpoint:
    shards = [_shard(storage, folder, name, number, len(names)) for number, name in enumerate(names)]
    return Checkpoint(given, storage, folder, shards, {}, 0.0, has_manifest=False)


def _shard(storage: Storage, folder: str, name: str, number: int, count: int) -> ShardRecord:
    source = storage.open(f"{folder}{name}")
    try:
        return read_record(name, source, number, count)
    finally:
        source.close()


def _index(given: str, storage: Storage, name: str, entries: list[str]) -> dict[str, str]:
    """Return {tensor: file} from the index of a folder; empty if there is no index."""
    indices = [entry for entry in entries if entry.endswith(_INDEX)]
    if not indices:
        return {}
    if len(indices) > 1:
        raise errors.NotFoundError(f"{given!r} has more than one index: {indices}")
    text = read_json(storage, f"{name}/{indices[0]}", given)
    weight_map = field(parse_json(f"{given}/{indices[0]}", text), "weight_map", dict)
    return {tensor: check_file_name(field(weight_map, tensor, str)) for tensor in weight_map}


def _single_file(given: str, entries: list[str]) -> str:
    files = [entry for entry in entries if entry.endswith(".safetensors")]
    if len(files) != 1:
        listed = ", ".join(files) or "none"
        raise errors.NotFoundError(f"{given!r} has no index, so it needs exactly one safetensors file; found: {listed}")
    return files[0]
