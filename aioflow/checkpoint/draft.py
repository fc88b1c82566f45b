"""A checkpoint that is being written, by several tasks if need be, each perhaps another process.

Each task writes shards; one of them gathers the records and commits. On this machine's disks a draft is a folder beside
the target, `.model.ckpt-7.TOKEN.draft`, which is renamed. Where that cannot be done at once, as in object stores, and
where there is a checkpoint of that name already, shards lie beside those of the older one, their names with the token
in them, and writing the manifest, which is one file, replaces the one by the other. Whatever happens on the way, the
older one is whole until the new one is.
"""

import contextlib
import dataclasses
import itertools
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint import directory, header
from aioflow.checkpoint.blocks import Written
from aioflow.checkpoint.encoding import Shape, encoded
from aioflow.checkpoint.manifest import INDEX, MANIFEST, Manifest, check_whole, index
from aioflow.checkpoint.place import located
from aioflow.checkpoint.records import Entry, ShardRecord, check_keys
from aioflow.files.filesystem import FILES, Files, Path, as_name
from aioflow.tensors.dtypes import Array, string

_TOKEN: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")


@dataclass(frozen=True, slots=True)
class Piece:
    """What of a tensor a task writes: all, unless it is said of which shape the whole is, and where this begins."""

    array: Array
    full_shape: Sequence[int] | None = None
    start: Sequence[int] | None = None


class Draft:
    """A checkpoint that is being written. All methods block, so they are called on threads.

    Args:
        path: where it will be.
        token: what all who write it, and no other draft, give: up to 64 letters, digits, `-` and `_`.
        files: what may be written where.
    """

    def __init__(self, path: Path, token: str, files: Files = FILES) -> None:
        if not _TOKEN.fullmatch(token):
            raise errors.InvalidArgumentError(f"a draft's token has 1 to 64 letters, digits, '-' and '_': {token!r}")
        self._path: Final = as_name(path).rstrip("/")
        self._token: Final = token
        self._storage, self._name = located(path, files)
        self._folder: Final = directory.draft_name(self._name, token) if self._storage.renames else self._name

    def write_shard(self, number: int, count: int, pieces: Mapping[str, Piece | Array]) -> ShardRecord:
        """The shard of that number, from 0, of so many, is on the disk, and the record says what it holds.

        Arrays are read while it runs, and not copied if they are contiguous. ResourceExhaustedError if the disk is
        full; nothing of the shard is left then.
        """
        if not 0 <= number < count:
            raise errors.InvalidArgumentError(f"there is no shard {number} of {count}: they count from 0")
        file = directory.shard_name(number, count, None if self._storage.renames else self._token)
        entries, data = _laid_out(pieces)
        begin = header.header(entries)
        written = Written()
        parts = itertools.chain([memoryview(begin)], written.passing(data))
        self._storage.write(f"{self._folder}/{file}", parts)
        placed, offset = [], len(begin)
        for entry, found in zip(entries, written.checksums, strict=True):
            placed.append(dataclasses.replace(entry, offset=offset, checksums=found))
            offset += entry.size
        return ShardRecord(number, count, file, offset, tuple(placed))

    def commit(self, records: Iterable[ShardRecord], facts: Mapping[str, Any], created: float | None = None) -> str:
        """The checkpoint is at its path, durably, in the place of an older one; its path is returned.

        Shards are first looked at: DataLossError if one is missing, or not what its record says, or if tensors are not
        whole; the draft is as it was then. AlreadyExistsError if at the path there is what is no checkpoint.
        """
        shards = tuple(sorted(records, key=lambda record: record.number))
        check_whole(shards)
        check_keys(entry for shard in shards for entry in shard.entries)
        for shard in shards:
            self._check(shard)
        if not directory.is_free(self._storage, self._name):
            raise errors.AlreadyExistsError(f"{self._path!r} is there, and is no checkpoint: save to another path")
        manifest = Manifest(time.time() if created is None else created, facts, shards)
        if not self._storage.renames or not self._published(manifest):
            self._replace(manifest)
        return self._path

    def discard(self) -> None:
        """Nothing of the draft is left; what was committed stays."""
        directory.sweep_draft(self._storage, self._name, self._token)

    def _check(self, shard: ShardRecord) -> None:
        source = self._storage.open(f"{self._folder}/{shard.file}")
        try:
            if not header.matches(shard, source):
                raise errors.DataLossError(f"shard {shard.file!r} of {self._path!r} is not what its record says")
        finally:
            source.close()

    def _published(self, manifest: Manifest) -> bool:
        """Whether the draft could become the checkpoint by a rename; not if there is something of that name."""
        self._describe(self._folder, manifest)
        return self._storage.move(self._folder, self._name)

    def _replace(self, manifest: Manifest) -> None:
        shards = tuple(self._beside(shard) for shard in manifest.shards)
        self._describe(self._name, dataclasses.replace(manifest, shards=shards))
        with contextlib.suppress(errors.OpError):  # the checkpoint is there; a later sweep does what cannot be done now
            directory.sweep_shards(self._storage, self._name, {shard.file for shard in shards})
            self._storage.remove(directory.draft_name(self._name, self._token))

    def _beside(self, shard: ShardRecord) -> ShardRecord:
        """The shard under a name that no older one has."""
        if not self._storage.renames:
            return shard
        file = directory.shard_name(shard.number, shard.count, self._token)
        if not self._storage.move(f"{self._folder}/{shard.file}", f"{self._name}/{file}"):
            raise errors.AlreadyExistsError(f"{self._path!r} is there, and is no folder: save to another path")
        return dataclasses.replace(shard, file=file)

    def _describe(self, folder: str, manifest: Manifest) -> None:
        told = manifest.to_bytes()
        self._storage.write(f"{folder}/{INDEX}", [memoryview(index(manifest.shards))])
        self._storage.write(f"{folder}/{MANIFEST}", [memoryview(told)])


def _laid_out(pieces: Mapping[str, Piece | Array]) -> tuple[list[Entry], list[memoryview]]:
    """The tensors in the order in which they lie in the file, those of the largest elements first, and their bytes."""
    found = [_entry(name, value if isinstance(value, Piece) else Piece(value)) for name, value in pieces.items()]
    found.sort(key=lambda one: (one[0].dtype is string, -one[0].dtype.size, one[0].key))
    check_keys(entry for entry, _ in found)
    return [entry for entry, _ in found], [data for _, data in found]


def _entry(name: str, piece: Piece) -> tuple[Entry, memoryview]:
    dtype, shape, data = encoded(name, piece.array)
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
