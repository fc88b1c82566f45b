"""The storage of checkpoints, behind five methods: a local folder, or a URL through fsspec.

Names are relative to the folder, with `/` between their parts. This package makes them and never takes one from a file.
All methods block, so they are called on threads. A change is on the disk when its method returns: the contents are
synced before the name, and the name by syncing its folder.
"""

import contextlib
import errno
import math
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from aioflow import errors
from aioflow.checkpoint.writing import write_all
from aioflow.files.filesystem import Files, Path, as_name, translate_errors
from aioflow.tensors.fixed_memory import map_descriptor

_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_PART: Final = ".part"
"""Suffix of the names of files that are being written."""


class Source(Protocol):
    """A file open for reading, also from several threads at once."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the bytes from `offset` on. DataLossError if the file ends too early."""

    def map(self) -> memoryview | None:
        """Return the bytes of the file as mapped memory, which outlives `close`; None if it cannot be mapped."""

    def close(self) -> None:
        """Close the file."""


class FileStatus(NamedTuple):
    """A file or folder.

    Attributes:
        folder: whether it is a folder.
        changed: time of its last change, in seconds since 1970; infinite if the file system does not tell.
    """

    folder: bool
    changed: float


class Storage(Protocol):
    """The file operations of checkpoints."""

    @property
    def can_rename(self) -> bool:
        """Whether `move` is possible, in one step."""

    @property
    def threads(self) -> int:
        """The number of threads with which reading is fastest."""

    def write(self, name: str, parts: Iterable[memoryview]) -> None:
        """Write the parts to the file, durably. Until it returns, readers see the former file or none."""

    def open(self, name: str) -> Source:
        """Open the file for reading. NotFoundError if there is none, PermissionDeniedError if it is a link."""

    def entries(self, folder: str = "") -> list[str]:
        """Return the names in that folder, sorted; empty if there is no such folder."""

    def status(self, name: str) -> FileStatus | None:
        """Return the file or folder of that name; None if there is none, or if it is a link."""

    def move(self, folder: str, name: str) -> bool:
        """Rename the folder, durably. Returns False, without a change, if the name is in use."""

    def remove(self, name: str) -> None:
        """Delete the file, or the folder and its files, if it exists."""


class LocalStorage:
    """A local folder. The first write creates it.

    Args:
        root: its absolute path, without links.
    """

    can_rename: Final = True

    def __init__(self, root: str) -> None:
        self._root: Final = root
        self.threads: Final = min(4, os.cpu_count() or 1)

    def write(self, name: str, parts: Iterable[memoryview]) -> None:
        """See `Storage.write`."""
        place = self._place(name)
        with translate_errors(place):
            self._make_folder(os.path.dirname(place))
            self._replace(place, parts)

    def open(self, name: str) -> "LocalSource":
        """See `Storage.open`."""
        place = self._place(name)
        with translate_errors(place):
            try:
                return LocalSource(place, os.open(place, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK))
            except NotADirectoryError:
                raise errors.NotFoundError(f"no such file: {place!r}: its parent is not a folder") from None
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise errors.PermissionDeniedError(f"{place!r} is a link; a checkpoint has none") from None
                raise

    def entries(self, folder: str = "") -> list[str]:
        """See `Storage.entries`."""
        place = self._place(folder)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(place))
        return []

    def status(self, name: str) -> FileStatus | None:
        """See `Storage.status`."""
        place = self._place(name)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(place)
            return None if stat.S_ISLNK(status.st_mode) else FileStatus(stat.S_ISDIR(status.st_mode), status.st_ctime)
        return None

    def move(self, folder: str, name: str) -> bool:
        """See `Storage.move`."""
        old, new = self._place(folder), self._place(name)
        with translate_errors(new):
            try:
                os.rename(old, new)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    return False
                raise
            for parent in {os.path.dirname(old), os.path.dirname(new)}:
                _sync(parent)
        return True

    def remove(self, name: str) -> None:
        """See `Storage.remove`."""
        place = self._place(name)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISDIR(os.lstat(place).st_mode):
                for entry in os.listdir(place):
                    os.unlink(os.path.join(place, entry))
                os.rmdir(place)
            else:
                os.unlink(place)
            _sync(os.path.dirname(place))

    def _place(self, name: str) -> str:
        return os.path.join(self._root, name) if name else self._root

    def _make_folder(self, folder: str) -> None:
        """Create the folder and its parents."""
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self._make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        _sync(parent)

    def _replace(self, place: str, parts: Iterable[memoryview]) -> None:
        temporary = f"{place}.{secrets.token_hex(4)}{_PART}"
        try:
            with _open_descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK) as file:
                write_all(temporary, file, parts)
                os.fsync(file)
            os.rename(temporary, place)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync(os.path.dirname(place))


class LocalSource:
    """A local file open for reading. See `Source`."""

    def __init__(self, place: str, file: int) -> None:
        self._place, self._file = place, file
        status = os.fstat(file)
        self.size: Final = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            raise errors.FailedPreconditionError(f"{place!r} is not a file")

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """See `Source.read_into`."""
        while len(buffer):
            with translate_errors(self._place):
                count = os.preadv(self._file, [buffer], offset)
            if not count:
                raise errors.DataLossError(f"{self._place!r} ends too early, after {offset} bytes")
            offset, buffer = offset + count, buffer[count:]

    def map(self) -> memoryview | None:
        """See `Source.map`."""
        with translate_errors(self._place):
            return map_descriptor(self._file) if self.size else None

    def close(self) -> None:
        """See `Source.close`."""
        os.close(self._file)


@contextlib.contextmanager
def _open_descriptor(place: str, flags: int) -> Iterator[int]:
    file = os.open(place, flags, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def _sync(folder: str) -> None:
    with _open_descriptor(folder, os.O_RDONLY) as file:
        os.fsync(file)


class FsspecStorage:
    """A folder at a URL. See `Storage`. A file appears when it is completely written; folders cannot be renamed.

    Args:
        system: a file system of fsspec.
        root: the path of the folder in it.
    """

    can_rename: Final = False
    threads: Final = 8

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
            info = self._system.info(place)
        if info["type"] != "file":
            raise errors.FailedPreconditionError(f"{place!r} is not a file")
        return FsspecSource(self._system, place, int(info["size"]))

    def entries(self, folder: str = "") -> list[str]:
        """See `Storage.entries`."""
        place = self._place(folder)
        self._system.invalidate_cache(place)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = [str(path).rstrip("/").rpartition("/") for path in self._system.ls(place, detail=False)]
            return sorted(name for parent, _, name in found if parent.strip("/") == place.strip("/"))
        return []

    def status(self, name: str) -> FileStatus | None:
        """See `Storage.status`."""
        place = self._place(name)
        with translate_errors(place), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder = self._system.info(place)["type"] == "directory"
            return FileStatus(folder, math.inf if folder else self._change_time(place))
        return None

    def _change_time(self, place: str) -> float:
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

    def map(self) -> memoryview | None:
        """See `Source.map`."""
        return None

    def close(self) -> None:
        """See `Source.close`."""


def locate(path: Path, files: Files) -> tuple[Storage, str]:
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


def resolve_path(path: Path) -> str:
    """Return the same text for all paths to one place: a local path without links, or the URL."""
    name = as_name(path).rstrip("/")
    local = name.removeprefix("file://")
    return name if "://" in local else os.path.realpath(local)
