"""The manifest of a checkpoint: the file that makes a directory a checkpoint and names its files. It is written last.

    {"format": "aioflow checkpoint", "version": 1, "created": 1760000000.0, "facts": {...}, "shards": [...],
     "checksum": 1234567890}

`ShardRecord.to_json` gives the shards. The checksum is the CRC-32 of all bytes before its comma.
"""

import json
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint.header import parse_json
from aioflow.checkpoint.records import Entry, ShardRecord, field, pieces_by_name
from aioflow.checkpoint.storage import Source, Storage

MANIFEST: Final = "manifest.json"
INDEX: Final = "model.safetensors.index.json"
FORMAT: Final = "aioflow checkpoint"
VERSION: Final = 1
_CHECKSUM: Final = b',"checksum":'
LARGEST_JSON: Final = 1 << 28
"""The most bytes of a manifest or an index; a larger one is refused."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of a checkpoint.

    Attributes:
        created: when it was saved, in seconds since 1970.
        facts: information that the caller saved with it, as plain data.
        shards: its files.
    """

    created: float
    facts: Mapping[str, Any]
    shards: tuple[ShardRecord, ...]

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON. InvalidArgumentError if JSON cannot hold the facts."""
        shards = [shard.to_json() for shard in self.shards]
        return seal(FORMAT, VERSION, {"created": float(self.created), "facts": self.facts, "shards": shards})

    @classmethod
    def from_bytes(cls, file: str, text: bytes) -> "Manifest":
        """Return the manifest in `text`. DataLossError if it is damaged, UnimplementedError for another version."""
        data = unseal(FORMAT, VERSION, file, text)
        created = field(data, "created", float)
        if not math.isfinite(created):
            raise errors.DataLossError(f"{file!r} is damaged: its time is {created}")
        shards = tuple(map(ShardRecord.from_json, field(data, "shards", list)))
        check_whole(shards)
        return cls(created, field(data, "facts", dict), shards)


def seal(kind: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """Return the fields as JSON, with their format, its version, and a checksum.

    InvalidArgumentError if JSON cannot hold them.
    """
    stated = {"format": kind, "version": version, **fields}
    try:
        return _with_checksum(json.dumps(stated, allow_nan=False, separators=(",", ":")).encode()[:-1])
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidArgumentError(
            f"JSON cannot hold the facts of the {kind.partition(' ')[2]}: {error}"
        ) from None


def unseal(kind: str, version: int, file: str, text: bytes) -> dict[str, Any]:
    """Return the fields that `seal` wrote.

    DataLossError if they are damaged, UnimplementedError for another version.
    """
    data = parse_json(file, text)
    if data.get("format") != kind:
        raise errors.DataLossError(f"{file!r} is not the manifest of a {kind.partition(' ')[2]}")
    found = data.get("version")
    if type(found) is not int or found != version:
        raise errors.UnimplementedError(
            f"{file!r} has version {found!r}, this aioflow reads version {version}: use the aioflow that wrote it"
        )
    if text != _with_checksum(text[: text.rfind(_CHECKSUM)]):
        raise errors.DataLossError(f"{file!r} is damaged: its checksum does not match")
    return data


def _with_checksum(text: bytes) -> bytes:
    return text + _CHECKSUM + b"%d}" % zlib.crc32(text)


def check_whole(shards: Iterable[ShardRecord]) -> dict[str, list[tuple[str, Entry]]]:
    """Return {tensor: its pieces}. DataLossError if a shard is missing or duplicate, or a tensor incomplete."""
    shards = tuple(shards)
    numbers, counts = sorted(shard.number for shard in shards), {shard.count for shard in shards}
    if counts != {len(shards)} or numbers != [*range(len(shards))] or len({s.file for s in shards}) != len(shards):
        listed = ", ".join(f"{shard.number + 1} of {shard.count}" for shard in shards)
        raise errors.DataLossError(f"a checkpoint needs each of its shards once; it has {listed or 'none'}")
    return pieces_by_name(shards)


def index(shards: Iterable[ShardRecord]) -> bytes:
    """Return the index of the files, in Hugging Face's form. It maps each piece to its file."""
    placed = {entry.key: shard.file for shard in shards for entry in shard.entries}
    total = sum(entry.size for shard in shards for entry in shard.entries)
    return json.dumps({"metadata": {"total_size": total}, "weight_map": placed}, indent=2).encode()


def check_index(found: bytes, shards: Sequence[ShardRecord], files: Collection[str], called: str) -> None:
    """Raise DataLossError if the bytes are not exactly the index of the checkpoint.

    Restoring does not use the index. A save over a checkpoint replaces the index just before the manifest. So an index
    that names other shards, all of them among the `files` beside it, comes from a save that was interrupted between the
    two.
    """
    if found == index(shards):
        return
    named = files_in_index(found)
    if not named or not named <= set(files) or named & {shard.file for shard in shards}:
        raise errors.DataLossError(f"{called + '/' + INDEX!r} is damaged: it is not the index of these shards")


def files_in_index(text: bytes) -> set[str]:
    """Return the files that an index names; empty if it is damaged."""
    try:
        placed = parse_json(INDEX, text).get("weight_map")
    except errors.DataLossError:
        return set()
    return {file for file in placed.values() if isinstance(file, str)} if isinstance(placed, dict) else set()


def read_manifest(storage: Storage, folder: str, called: str) -> Manifest:
    """Return the manifest in that folder; errors call the folder `called`. NotFoundError if there is none."""
    return Manifest.from_bytes(f"{called}/{MANIFEST}", read_json(storage, f"{folder}/{MANIFEST}", called))


def read_json(storage: Storage, name: str, called: str) -> bytes:
    """Return the bytes of a small file; errors call its folder `called`. ResourceExhaustedError if it is too large."""
    source = storage.open(name)
    try:
        return _read(f"{called}/{name.rpartition('/')[2]}", source)
    finally:
        source.close()


def _read(file: str, source: Source) -> bytes:
    if source.size > LARGEST_JSON:
        raise errors.ResourceExhaustedError(f"{file!r} has {source.size} bytes; the limit is {LARGEST_JSON}")
    whole = bytearray(source.size)
    source.read_into(0, memoryview(whole))
    return bytes(whole)
