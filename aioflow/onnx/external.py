"""Weights in files beside a model: mapped into memory, and only from the model's own folder.

Where the model's path is a link, as in caches of downloads, its own folders are that of the link and that of the file.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aioflow import errors
from aioflow.files.filesystem import translate_errors
from aioflow.tensors.fixed_memory import map_file

_LONGEST: Final = 255
"""The most bytes of the path of a file from the model's folder."""


class ExternalData:
    """The files that may hold weights of the model at a path; None for a model from bytes, which has no folder."""

    def __init__(self, model: Path | None) -> None:
        self._folder = None if model is None else model.parent.resolve()
        self._roots = [] if model is None else [model.parent.resolve(), model.resolve().parent]
        self._maps: dict[Path, memoryview] = {}

    def read(self, tensor: str, entries: Mapping[str, str], size: int) -> memoryview:
        """`size` bytes of the file that `entries` name, mapped into memory.

        Raises:
            PermissionDeniedError: the file lies outside of the model's folder, or there is no folder.
            NotFoundError: there is no such file.
            FailedPreconditionError: it is a folder, a pipe or a device.
            DataLossError: the file is too short, another length is stated, or no file has such a name.
        """
        path = self._path(tensor, entries.get("location", ""))
        offset, length = _number(tensor, entries, "offset", 0), _number(tensor, entries, "length", size)
        if length != size:
            raise errors.DataLossError(f"tensor {tensor!r} needs {size} bytes, its external data states {length}")
        if path not in self._maps:
            with translate_errors(str(path)):
                self._maps[path] = map_file(path)
        whole = self._maps[path]
        if len(whole) < offset + size:
            raise errors.DataLossError(
                f"tensor {tensor!r} needs {size} bytes from byte {offset} of {path.name!r}, which has {len(whole)}"
            )
        return whole[offset : offset + size]

    def _path(self, tensor: str, location: str) -> Path:
        if self._folder is None:
            raise errors.PermissionDeniedError(
                f"tensor {tensor!r} is in the file {location!r}, and bytes have no folder: load the model by its path"
            )
        if "\0" in location or len(location.encode()) > _LONGEST:
            raise errors.DataLossError(
                f"tensor {tensor!r} is in the file {location[:40]!r}, which is no name of a file"
            )
        path = Path(os.path.realpath(self._folder / location))
        if not location or not any(map(path.is_relative_to, self._roots)):
            raise errors.PermissionDeniedError(
                f"tensor {tensor!r} is in the file {location!r}, outside of the model's folder"
            )
        if not path.exists():
            raise errors.NotFoundError(f"tensor {tensor!r} is in the file {location!r}, which does not exist")
        return path


def _number(tensor: str, entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise errors.DataLossError(f"the external data of tensor {tensor!r} has the {key} {text[:40]!r}")
    return int(text)
