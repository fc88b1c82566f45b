"""Reads the directory of a saved model, and checks everything in it. All functions block; call them on threads.

A directory is read from this machine or a URL. Nothing outside of it is read, whatever its manifest says.
"""

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Final

from aioflow import errors
from aioflow.checkpoint import Checkpoint, Storage, locate, read_json
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.graph.graphdef import GraphDef
from aioflow.saved_model.manifest import ASSETS, GRAPH, MANIFEST, VARIABLES, WARMUP, Manifest
from aioflow.saved_model.tables import stored_names, with_files
from aioflow.saved_model.warmup import WarmUpRequest
from aioflow.tensors.dtypes import Array

_CHUNK: Final = 1 << 22


@dataclasses.dataclass(frozen=True, slots=True)
class StoredModel:
    """The content of a directory, read and checked.

    Attributes:
        path: the directory.
        manifest: its manifest.
        graph_def: its operations.
        variables: the value of each variable, and the keys and values of tables that steps change: pages of the mapped
            file where the system can map it.
        warmup: its warm-up requests.
        assets: the path of each asset.
    """

    path: str
    manifest: Manifest
    graph_def: GraphDef
    variables: Mapping[str, Array]
    warmup: tuple[WarmUpRequest, ...]
    assets: Mapping[str, str]


def read(directory: Path) -> StoredModel:
    """Return what a directory holds.

    Raises:
        NotFoundError: there is no such directory.
        DataLossError: it is damaged, or was written only in part.
        UnimplementedError: it is of another version of the format.
        PermissionDeniedError: it names files elsewhere, or has links in the place of files.
    """
    path = as_name(directory).rstrip("/")
    storage, name = locate(path, FILES)
    manifest = _read_manifest(storage, name, path)
    contents = {file: _read_file(storage, name, path, file, *facts) for file, facts in manifest.files.items()}
    stored = {text for table in manifest.tables for text in stored_names(table)}
    values = _read_checkpoint(storage, name, path, VARIABLES, {*manifest.variables, *stored})
    assets = {file.removeprefix(f"{ASSETS}/"): f"{path}/{file}" for file in manifest.files if file != GRAPH}
    vocabularies = {constant: _asset(path, assets, asset) for constant, asset in manifest.vocabularies.items()}
    graph_def = with_files(_graph_def(contents[GRAPH], f"{path}/{GRAPH}"), vocabularies)
    return StoredModel(path, manifest, graph_def, values, _read_warmup(storage, name, path, manifest), assets)


def _asset(path: str, assets: Mapping[str, str], name: str) -> str:
    if name not in assets:
        raise errors.DataLossError(f"saved model {path!r} has no asset {name!r}, which a table of it reads")
    return assets[name]


def is_complete(directory: Path) -> bool:
    """Whether there is a directory that has a manifest, and so was written to its end."""
    storage, name = locate(as_name(directory).rstrip("/"), FILES)
    return MANIFEST in storage.entries(name)


def _read_manifest(storage: Storage, name: str, path: str) -> Manifest:
    try:
        text = read_json(storage, f"{name}/{MANIFEST}", path)
    except errors.NotFoundError:
        entries = storage.entries(name)
        if entries:
            listed = ", ".join(entries[:10])
            raise errors.DataLossError(
                f"{path!r} is no complete saved model: it has no {MANIFEST}, which is written last, only {listed}"
            ) from None
        raise errors.NotFoundError(f"there is no saved model {path!r}") from None
    return Manifest.from_bytes(f"{path}/{MANIFEST}", text)


def _read_file(storage: Storage, name: str, path: str, file: str, size: int, checksum: int) -> bytes:
    """Check a file. Returns the bytes of the graph, and nothing of assets, which callers open themselves."""
    _check_folder(storage, name, path, file.rpartition("/")[0])
    try:
        source = storage.open(f"{name}/{file}")
    except errors.NotFoundError:
        raise errors.DataLossError(f"saved model {path!r} has no file {file!r}") from None
    found, whole = 0, bytearray()
    try:
        if source.size != size:
            raise errors.DataLossError(f"{file!r} of saved model {path!r} has {source.size} bytes instead of {size}")
        for begin in range(0, size, _CHUNK):
            part = bytearray(min(_CHUNK, size - begin))
            source.read_into(begin, memoryview(part))
            found = zlib.crc32(part, found)
            whole += part if file == GRAPH else b""
    finally:
        source.close()
    if found != checksum:
        raise errors.DataLossError(f"{file!r} of saved model {path!r} is damaged: its checksum does not match")
    return bytes(whole)


def _check_folder(storage: Storage, name: str, path: str, folder: str) -> None:
    """Raise PermissionDeniedError if a folder is a link: it could lead out of the directory."""
    if folder and folder in storage.entries(name) and storage.status(f"{name}/{folder}") is None:
        raise errors.PermissionDeniedError(f"{folder!r} of saved model {path!r} is a link; a saved model has none")


def _read_checkpoint(storage: Storage, name: str, path: str, folder: str, wanted: set[str]) -> dict[str, Array]:
    """Return the tensors of a checkpoint in the directory, which must be exactly the wanted ones."""
    _check_folder(storage, name, path, folder)
    try:
        found = Checkpoint.open(f"{path}/{folder}")
    except errors.NotFoundError as error:
        raise errors.DataLossError(f"saved model {path!r} has no complete folder {folder!r}: {error}") from None
    differing = sorted(found.tensors.keys() ^ wanted)
    if differing:
        raise errors.DataLossError(
            f"{folder!r} of saved model {path!r} does not hold what its manifest says; different: {differing[:10]}"
        )
    return found.map(sorted(wanted))


def _read_warmup(storage: Storage, name: str, path: str, manifest: Manifest) -> tuple[WarmUpRequest, ...]:
    if not manifest.warmup:
        return ()
    placed = [request.tensors(number) for number, request in enumerate(manifest.warmup)]
    values = _read_checkpoint(storage, name, path, WARMUP, {tensor for names in placed for tensor in names.values()})
    return tuple(
        WarmUpRequest({name: values[tensor] for name, tensor in names.items()}, request.signature)
        for request, names in zip(manifest.warmup, placed, strict=True)
    )


def _graph_def(data: bytes, file: str) -> GraphDef:
    try:
        return GraphDef.from_msgpack(data)
    except ValueError as error:
        raise errors.DataLossError(f"{file!r} is damaged: {error}") from None
