"""Writes the directory of a saved model: whole or not at all. All functions block, so they are called on threads.

On a local disk the files are written to a folder beside the target, `.3.TOKEN.saving`, which is renamed. An object
store cannot rename: there the manifest, which is written last, makes the directory a saved model.
"""

import contextlib
import dataclasses
import fcntl
import os
import re
import secrets
import shutil
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from aioflow import errors
from aioflow.checkpoint import Draft, Storage, locate, resolve_path
from aioflow.files.filesystem import FILES, Path, translate_errors
from aioflow.saved_model.manifest import ASSETS, GRAPH, MANIFEST, VARIABLES, WARMUP, Manifest
from aioflow.tensors.dtypes import Array

_CHUNK: Final = 1 << 22
_SUFFIX: Final = ".saving"
_DRAFT: Final = re.compile(rf"\..+\.[0-9a-f]{{16}}{re.escape(_SUFFIX)}")
"""The names of folders that saves write to."""


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """The content of a saved model.

    Attributes:
        manifest: its manifest, without files.
        graph: its operations, in msgpack.
        variables: the value of each variable.
        warmup: the tensors of warm-up requests.
        assets: the file of each asset.
    """

    manifest: Manifest
    graph: bytes
    variables: Mapping[str, Array]
    warmup: Mapping[str, Array]
    assets: Mapping[str, Path]


def write(path: str, content: Content, given_up: threading.Event) -> None:
    """Write a saved model to that path, durably. Nothing is there if it fails, or is given up before its last moment.

    AlreadyExistsError if there is something, ResourceExhaustedError if the disk is full, CancelledError if given up.
    """
    storage, name = locate(path, FILES)
    check_free(path)
    token = secrets.token_hex(8)
    if not storage.can_rename:
        _fill(path, storage, name, token, content, given_up)
        return
    root, draft = os.path.dirname(resolve_path(path)), f".{name}.{token}{_SUFFIX}"
    sweep(root)
    folder = os.path.join(root, draft)
    try:
        with translate_errors(path), _locked(folder):
            _fill(folder, storage, draft, token, content, given_up)
            if not storage.move(draft, name):
                raise _occupied(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def check_free(path: str) -> None:
    """Raise AlreadyExistsError if there is something at that path."""
    storage, name = locate(path, FILES)
    if storage.entries(name) or storage.status(name) is not None:
        raise _occupied(path)


def _occupied(path: str) -> errors.AlreadyExistsError:
    return errors.AlreadyExistsError(f"{path!r} exists, and a saved model is never changed: save under another version")


def _fill(path: str, storage: Storage, folder: str, token: str, content: Content, given_up: threading.Event) -> None:
    """Write all files to the folder, the manifest last."""
    _write_checkpoint(f"{path}/{VARIABLES}", token, content.variables)
    if content.warmup:
        _write_checkpoint(f"{path}/{WARMUP}", token, content.warmup)
    files: dict[str, tuple[int, int]] = {}
    for name, parts in _files(content):
        _check_going(given_up)
        files[name] = _write_file(storage, f"{folder}/{name}", parts)
    _check_going(given_up)
    manifest = dataclasses.replace(content.manifest, files=files)
    storage.write(f"{folder}/{MANIFEST}", [memoryview(manifest.to_bytes())])
    _check_going(given_up)


def _check_going(given_up: threading.Event) -> None:
    if given_up.is_set():
        raise errors.CancelledError("the save was given up")


def _write_checkpoint(path: str, token: str, tensors: Mapping[str, Array]) -> None:
    draft = Draft(path, token)
    draft.commit([draft.write_shard(0, 1, tensors)], {})


def _files(content: Content) -> Iterator[tuple[str, Iterator[bytes]]]:
    yield GRAPH, iter([content.graph])
    for name, path in content.assets.items():
        yield f"{ASSETS}/{name}", _chunks(path)


def _chunks(path: Path) -> Iterator[bytes]:
    with FILES.open(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _write_file(storage: Storage, name: str, parts: Iterator[bytes]) -> tuple[int, int]:
    """Write a file. Returns its size and checksum."""
    size = checksum = 0

    def passed_on() -> Iterator[memoryview]:
        nonlocal size, checksum
        for part in parts:
            size, checksum = size + len(part), zlib.crc32(part, checksum)
            yield memoryview(part)

    storage.write(name, passed_on())
    return size, checksum


# Remains of processes that died


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Make a folder that `sweep` of other processes leaves alone as long as this process lives in the block."""
    file = _made_and_locked(folder)
    try:
        yield
    finally:
        os.close(file)


def _made_and_locked(folder: str) -> int:
    """Make a folder and lock it. A sweep may come between the two, and delete it: then it is made once more."""
    while True:
        os.makedirs(folder)
        with contextlib.suppress(FileNotFoundError):
            file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.path.exists(folder):
                return file
            os.close(file)


def sweep(root: str) -> None:
    """Delete what processes that died have left of their saves in a folder on this machine. Blocks."""
    with contextlib.suppress(OSError):  # it is not there yet, or may not be read
        for entry in os.listdir(root):
            if _DRAFT.fullmatch(entry):
                _delete_abandoned(os.path.join(root, entry))


def _delete_abandoned(folder: str) -> None:
    """Delete a folder, unless a process writes to it. It is locked meanwhile, so that no process begins to."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(file)
