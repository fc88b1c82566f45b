"""Safetensors files that others wrote, with an index or without, opened as a checkpoint is."""

from typing import Final

from aioflow import errors
from aioflow.checkpoint.header import described, parsed
from aioflow.checkpoint.manifest import read_json
from aioflow.checkpoint.place import located
from aioflow.checkpoint.reading import Checkpoint
from aioflow.checkpoint.records import ShardRecord, checked_file, field
from aioflow.checkpoint.storage import Storage
from aioflow.files.filesystem import FILES, Files, Path, as_name

_INDEX: Final = ".safetensors.index.json"


def import_safetensors(path: Path, files: Files = FILES) -> Checkpoint:
    """What a safetensors file holds, or a folder of them that has an index in Hugging Face's form, or one file alone.

    There are no checksums: what is read is believed. NotFoundError if there is nothing, DataLossError if it is damaged,
    UnimplementedError for a dtype that aioflow has not, PermissionDeniedError if an index names files elsewhere, or
    links.
    """
    given = as_name(path).rstrip("/")
    storage, name = located(given, files)
    entries = storage.entries(name)
    if not entries:
        return _checkpoint(given, storage, "", [name])
    index = _index(given, storage, name, entries)
    found = _checkpoint(given, storage, f"{name}/", sorted(set(index.values())) or [_alone(given, entries)])
    for tensor, file in index.items():
        stored = found.tensors.get(tensor)
        if stored is None or stored.pieces[0][0] != file:
            raise errors.DataLossError(f"{tensor!r} is not in {file!r}, as the index of {given!r} has it")
    return found


def _checkpoint(given: str, storage: Storage, folder: str, names: list[str]) -> Checkpoint:
    shards = [_shard(storage, folder, name, number, len(names)) for number, name in enumerate(names)]
    return Checkpoint(given, storage, folder, shards, {}, 0.0, has_manifest=False)


def _shard(storage: Storage, folder: str, name: str, number: int, count: int) -> ShardRecord:
    source = storage.open(f"{folder}{name}")
    try:
        return described(name, source, number, count)
    finally:
        source.close()


def _index(given: str, storage: Storage, name: str, entries: list[str]) -> dict[str, str]:
    """By tensor, the file that it is in, as the index of a folder has it; nothing if there is no index."""
    indices = [entry for entry in entries if entry.endswith(_INDEX)]
    if not indices:
        return {}
    if len(indices) > 1:
        raise errors.NotFoundError(f"{given!r} has more than one index, and which is meant is not known: {indices}")
    text = read_json(storage, f"{name}/{indices[0]}", given)
    told = field(parsed(f"{given}/{indices[0]}", text), "weight_map", dict)
    return {tensor: checked_file(field(told, tensor, str)) for tensor in told}


def _alone(given: str, entries: list[str]) -> str:
    there = [entry for entry in entries if entry.endswith(".safetensors")]
    if len(there) != 1:
        told = ", ".join(there) or "none"
        raise errors.NotFoundError(f"{given!r} has no index, and not one safetensors file: {told}")
    return there[0]
