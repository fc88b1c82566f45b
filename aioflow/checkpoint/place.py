"""From the path that a user gives to the storage it lies in, and its name there."""

import os

from aioflow import errors
from aioflow.checkpoint.remote import FsspecStorage
from aioflow.checkpoint.storage import LocalStorage, Storage
from aioflow.files.filesystem import Files, Path, as_name


def located(path: Path, files: Files) -> tuple[Storage, str]:
    """The storage of the folder above that path, and the path's name in it.

    A link of this machine's is followed. PermissionDeniedError if the path does not lie below the roots of `files`,
    UnimplementedError for a URL if fsspec, or what it needs for it, is not installed.
    """
    name = as_name(path)
    if not name.strip("/"):
        raise errors.InvalidArgumentError(f"{name!r} is no place for a checkpoint")
    local = name.removeprefix("file://")
    if "://" in local:
        files.exists(name)
        storage: Storage
        storage, base = FsspecStorage.at(name)
    else:
        place = os.path.realpath(local)
        files.exists(place)
        root, base = os.path.split(place)
        storage = LocalStorage(root)
    return storage, base


def resolved(path: Path) -> str:
    """The same for all paths that lead to the same place: of this machine's without links."""
    name = as_name(path).rstrip("/")
    local = name.removeprefix("file://")
    return name if "://" in local else os.path.realpath(local)
