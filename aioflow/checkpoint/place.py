"""Finds the storage that a user's path leads to."""

import os

from aioflow import errors
from aioflow.checkpoint.remote import FsspecStorage
from aioflow.checkpoint.storage import LocalStorage, Storage
from aioflow.files.filesystem import Files, Path, as_name


def located(path: Path, files: Files) -> tuple[Storage, str]:
    """Return the storage of the folder above the path, and the path's name in it. Follows local links.

    PermissionDeniedError if the path is not below the roots of `files`, UnimplementedError for a URL if fsspec or a
    package that fsspec needs is not installed.
    """
    name = as_name(path)
    if not name.strip("/"):
        raise errors.InvalidArgumentError(f"{name!r} cannot be the path of a checkpoint")
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
    """Return the same text for all paths to one place: a local path without links, or the URL."""
    name = as_name(path).rstrip("/")
    local = name.removeprefix("file://")
    return name if "://" in local else os.path.realpath(local)
