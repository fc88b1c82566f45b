"""Checkpoints at URLs, such as object stores, through fsspec, which is imported when a URL is first used."""

import contextlib
import math
from collections.abc import Iterable
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint.storage import Seen
from aioflow.files.filesystem import translate_errors


class FsspecStorage:
    """A folder at a URL. See `Storage`. A file appears when it is completely written; folders cannot be renamed.

    Args:
        system: a file system of fsspec.
        root: the path of the folder in it.
    """

    renames: Final = False
    lanes: Final = 8

    def __init__(self, system: Any, root: str) -> None:
        self._system: Final = system
        self._root: Final = root.rstrip("/")

    @classmethod
    def at(cls, url: str) -> tuple["FsspecStorage", str]:
        """Return the storage of the folder above the URL, and the URL's name in it.

        UnimplementedError, with the packages to install, if a package is missing.
        """
        try:
            import fsspec

            with translate_errors(url):
                system, place = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise errors.UnimplementedError(
                f"{url!r} needs one more package: {error}. fsspec itself: pip install aioflow-engine[storage]"
            ) from None
        root, _, name = str(place).rstrip("/").rpartition("/")
        return cls(system, root), name

    def write(self, name: str, parts: Iterable[memoryview]) -> None:
        """See `Storage.write`. A list of parts is written by one request."""
        place = self._place(name)
        with translate_errors(place):
            self._system.makedirs(place.rpartition("/")[0], exist_ok=True)
            if isinstance(parts, list):
                self._system.pipe_file(place, b"".join(parts))
            else:
                self._stream(place, parts)

    def _stream(self, place: str, parts: Iterable[memoryview]) -> None:
        try:
            with self._system.open(place, "wb") as file:
                for part in parts:
                    file.write(part)
        except BaseException:
            with contextlib.suppress(OSError):
                self._system.rm_file(place)
            raise

    def open(self, name: str) -> "FsspecSource":
        """See `Storage.open`."""
        place = self._place(name)
        with translate_errors(place):
            told = self._system.info(place)
        if told["type"] != "file":
            raise errors.FailedPreconditionError(f"{place!r} is not a file")
        return FsspecSource(self._system, place, int(told["size"]))

    def entries(self, folder: str = "") -> list[str]:
        """See `Storage.entries`."""
        place = self._place(folder)
        self._system.invalidate_cache(place)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = [str(path).rstrip("/").rpartition("/") for path in self._system.ls(place, detail=False)]
            return sorted(name for parent, _, name in found if parent.strip("/") == place.strip("/"))
        return []

    def seen(self, name: str) -> Seen | None:
        """See `Storage.seen`."""
        place = self._place(name)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder = self._system.info(place)["type"] == "directory"
            return Seen(folder, math.inf if folder else self._changed(place))
        return None

    def _changed(self, place: str) -> float:
        try:
            return float(self._system.modified(place).timestamp())
        except NotImplementedError:
            return math.inf

    def move(self, folder: str, name: str) -> bool:
        """See `Storage.move`. Always False, since a folder of an object store cannot be renamed in one step."""
        return False

    def remove(self, name: str) -> None:
        """See `Storage.remove`."""
        place = self._place(name)
        with translate_errors(place), contextlib.suppress(FileNotFoundError):
            self._system.rm(place, recursive=True)

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


class FsspecSource:
    """A file at a URL. See `Source`; each read is a request."""

    def __init__(self, system: Any, place: str, size: int) -> None:
        self._system, self._place = system, place
        self.size: Final = size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """See `Source.read_into`."""
        with translate_errors(self._place):
            found = self._system.cat_file(self._place, offset, offset + len(buffer)) if len(buffer) else b""
        if len(found) != len(buffer):
            raise errors.DataLossError(f"{self._place!r} ends too early")
        buffer[:] = found

    def close(self) -> None:
        """See `Source.close`."""
