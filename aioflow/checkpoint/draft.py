"""A checkpoint that is being written, possibly by several tasks in several processes.

Each task writes shards; one task gathers the records and commits. On a local disk a draft is a folder beside the
target, `.model.ckpt-7.TOKEN.draft`, which the commit renames. An object store cannot rename, and a folder of the target
name may exist already. In these cases the shards, with the token in their names, lie beside the older ones, and writing
the manifest, a single file, switches from the old to the new. The old checkpoint stays whole until the new one is.
"""

import contextlib
import dataclasses
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint import directory, header
from aioflow.checkpoint.encoding import Shape, encode_tensor
from aioflow.checkpoint.manifest import INDEX, MANIFEST, Manifest, check_whole, index
from aioflow.checkpoint.records import BLOCK, Entry, ShardRecord, check_keys, checksums
from aioflow.checkpoint.storage import locate
from aioflow.files.byte_count import ByteCount
from aioflow.files.filesystem import FILES, Files, Path, as_name
from aioflow.tensors.dtypes import Array, string

_TOKEN: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a tensor that a task writes: the whole tensor, unless `full_shape` and `start` say otherwise."""

    array: Array
    full_shape: Sequence[int] | None = None
    start: Sequence[int] | None = None


class Draft:
    """A checkpoint that is being written. All methods block, so they are called on threads.

    Args:
        path: the path of the checkpoint.
        token: the same for all writers of this draft, and for no other draft: up to 64 letters, digits, `-` and `_`.
        files: the files that may be written.
        count: counts the written bytes.
    """

    def __init__(self, path: Path, token: str, files: Files = FILES, count: ByteCount | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise errors.InvalidArgumentError(f"a draft's token has 1 to 64 letters, digits, '-' and '_': {token!r}")
        self._path: Final = as_name(path).rstrip("/")
        self._token: Final = token
        self._count: Final = count
        self._storage, self._name = locate(path, files)
        self._folder: Final = directory.draft_name(self._name, token) if self._storage.can_rename else self._name

    def write_shard(self, number: int, count: int, pieces: Mapping[str, Piece | Array]) -> ShardRecord:
        """Write shard `number`, from 0, of `count` to the disk, and return its record.

        Reads the arrays while it runs and does not copy contiguous ones. ResourceExhaustedError if the disk is full;
        then nothing of the shard is left.
        """
        if not 0 <= number < count:
            raise errors.InvalidArgumentError(f"shard {number} of {count} does not exist: numbers start at 0")
        file = directory.shard_name(number, count, None if self._storage.can_rename else self._token)
        entries, data = lay_out(pieces)
        begin = header.header(entries)
        written = _ChecksummedBlocks()
        parts = itertools.chain([memoryview(begin)], written.pass_on(data))
        self._storage.write(f"{self._folder}/{file}", self._counted(parts, len(begin) + sum(map(len, data))))
        placed, offset = [], len(begin)
        for entry, found in zip(entries, written.checksums, strict=True):
            placed.append(dataclasses.replace(entry, offset=offset, checksums=found))
            offset += entry.size
        return ShardRecord(number, count, file, offset, tuple(placed))

    def _counted(self, parts: Iterable[memoryview], size: int) -> Iterable[memoryview]:
        if self._count is None:
            return parts
        self._count.expect(size)
        return self._count.passing(parts)

    def commit(self, records: Iterable[ShardRecord], facts: Mapping[str, Any], created: float | None = None) -> str:
        """Put the checkpoint at its path, durably, in place of an older one; return the path.

        First checks the shards: DataLossError, and an unchanged draft, if a shard is missing or differs from its
        record, or if a tensor is incomplete. AlreadyExistsError if the path is something else than a checkpoint.
        """
        shards = tuple(sorted(records, key=lambda record: record.number))
        check_whole(shards)
        check_keys(entry for shard in shards for entry in shard.entries)
        for shard in shards:
            self._check(shard)
        if not directory.is_free(self._storage, self._name):
            raise errors.AlreadyExistsError(f"{self._path!r} exists and is not a checkpoint: save to another path")
        manifest = Manifest(time.time() if created is None else created, facts, shards)
        if not self._storage.can_rename or not self._publish(manifest):
            self._replace(manifest)
        return self._path

    def discard(self) -> None:
        """Delete the draft. A committed checkpoint stays."""
        directory.sweep_draft(self._storage, self._name, self._token)

    def _check(self, shard: ShardRecord) -> None:
        source = self._storage.open(f"{self._folder}/{shard.file}")
        try:
            if not header.matches_record(shard, source):
                raise errors.DataLossError(f"shard {shard.file!r} of {self._path!r} differs from its record")
        finally:
            source.close()

    def _publish(self, manifest: Manifest) -> bool:
        """Publish the draft by a rename. Returns False if the name is in use."""
        self._write_index_and_manifest(self._folder, manifest)
        return self._storage.move(self._folder, self._name)

    def _replace(self, manifest: Manifest) -> None:
        shards = tuple(self._move_beside(shard) for shard in manifest.shards)
        self._write_index_and_manifest(self._name, dataclasses.replace(manifest, shards=shards))
        with contextlib.suppress(errors.OpError):  # the checkpoint is complete; a later sweep removes the rest
            directory.sweep_shards(self._storage, self._name, {shard.file for shard in shards})
            self._storage.remove(directory.draft_name(self._name, self._token))

    def _move_beside(self, shard: ShardRecord) -> ShardRecord:
        """Move the shard beside those of the older checkpoint, under a name that none of them has."""
        if not self._storage.can_rename:
            return shard
        file = directory.shard_name(shard.number, shard.count, self._token)
        if not self._storage.move(f"{self._folder}/{shard.file}", f"{self._name}/{file}"):
            raise errors.AlreadyExistsError(f"{self._path!r} exists and is not a folder: save to another path")
        return dataclasses.replace(shard, file=file)

    def _write_index_and_manifest(self, folder: str, manifest: Manifest) -> None:
        manifest_bytes = manifest.to_bytes()
        self._storage.write(f"{folder}/{INDEX}", [memoryview(index(manifest.shards))])
        self._storage.write(f"{folder}/{MANIFEST}", [memoryview(manifest_bytes)])


_CHUNK: Final = 4 * BLOCK
"""Bytes passed on at a time. A thread may wait for the interpreter between two writes, so they are few and large."""


class _ChecksummedBlocks:
    """Passes bytes on to a file and collects the checksums of their blocks."""

    def __init__(self) -> None:
        self.checksums: Final[list[tuple[int, ...]]] = []

    def pass_on(self, parts: Iterable[memoryview]) -> Iterator[memoryview]:
        """Yield the same bytes, some blocks at a time. Afterwards `checksums` has those of each part's blocks."""
        for part in parts:
            found: list[int] = []
            for begin in range(0, len(part), _CHUNK):
                blocks = part[begin : begin + _CHUNK]
                found += checksums(blocks)
                yield blocks
            self.checksums.append(tuple(found))


def lay_out(pieces: Mapping[str, Piece | Array]) -> tuple[list[Entry], list[memoryview]]:
    """Return the tensors and their bytes in the order of the file: by falling element size, strings last."""
    found = [_entry(name, value if isinstance(value, Piece) else Piece(value)) for name, value in pieces.items()]
    found.sort(key=lambda one: (one[0].dtype is string, -one[0].dtype.size, one[0].key))
    check_keys(entry for entry, _ in found)
    return [entry for entry, _ in found], [data for _, data in found]


def _entry(name: str, piece: Piece) -> tuple[Entry, memoryview]:
    dtype, shape, data = encode_tensor(name, piece.array)
    full = shape if piece.full_shape is None else tuple(map(int, piece.full_shape))
    start = (0,) * len(full) if piece.start is None else tuple(map(int, piece.start))
    _check_piece(name, full, start, shape)
    key = name if shape == full else f"{name}[{_span(start, shape)}]"
    return Entry(name, key, dtype, full, start, shape, 0, len(data), ()), data


def _check_piece(name: str, full: Shape, start: Shape, shape: Shape) -> None:
    fits = len(full) == len(start) == len(shape)
    if not fits or any(a < 0 or a + n > m for a, n, m in zip(start, shape, full, strict=True)):
        raise errors.InvalidArgumentError(f"a piece {[*shape]} of {name!r} at {[*start]} is not within {[*full]}")


def _span(start: Shape, shape: Shape) -> str:
    return ",".join(f"{begin}:{begin + count}" for begin, count in zip(start, shape, strict=True))
