"""Opens safetensors files of other programs, with or without an index, as a checkpoint."""

from typing import Final

from aioflow import errors
from aioflow.checkpoint.header import parse_json, read_record
from aioflow.checkpoint.manifest import read_json
from aioflow.checkpoint.reading import Checkpoint
from aioflow.checkpoint.records import ShardRecord, check_file_name, field
from aioflow.checkpoint.storage import Storage, locate
from aioflow.files.filesystem import FILES, Files, Path, as_name

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
