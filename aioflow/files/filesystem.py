"""Reads and writes files: local paths, and URLs through fsspec.

The methods block, so they are called on threads. Failures are raised as OpErrors.
"""

import contextlib
import errno
import glob
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from aioflow import errors
from aioflow.tensors.recursion import safe_repr

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""A local path, or a URL such as `s3://bucket/name`."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+(?=://)")  # a single letter is a drive
_MAGIC: Final = re.compile(r"[*?[]")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EFBIG}


class Files:
    """Files by name. Safe to use from any thread.

    A name with a scheme, such as `s3://` or `memory://`, is a URL. It needs fsspec (`pip install
    aioflow-engine[storage]`) and the package that fsspec uses for the scheme. `file://` needs neither.

    Args:
        roots: the folders or URLs below which files may be used; None for no restriction. Other files raise
            PermissionDeniedError, also if `..` or a link leads to them.
    """

    def __init__(self, roots: Iterable[Path] | None = None) -> None:
        self._roots: Final = None if roots is None else [_root_prefix(as_name(root)) for root in roots]

    def open(self, path: Path, mode: str = "rb") -> BinaryIO:
        """Open the file for reading (`rb`) or for writing a new one (`wb`), as bytes."""
        name = as_name(path)
        with translate_errors(name):
            system, place = find_filesystem(self._check_allowed(name))
            if system is not None:
                opened: BinaryIO = system.open(place, mode)
                return opened
            return open(place, mode)  # type: ignore[return-value]

    def size(self, path: Path) -> int | None:
        """Return the size of the file in bytes; None if its file system does not tell."""
        name = as_name(path)
        with translate_errors(name):
            system, place = find_filesystem(self._check_allowed(name))
            if system is None:
                status = os.stat(place)
                return status.st_size if os.path.isfile(place) else None
            size = system.size(place)
            return None if size is None else int(size)

    def read(self, path: Path) -> bytes:
        """Return the contents of the file."""
        with self.open(path) as file, translate_errors(as_name(path)):
            return file.read()

    def write(self, path: Path, contents: bytes) -> None:
        """Write the contents. Readers see the old file or the complete new one. Missing folders are created."""
        name = as_name(path)
        with translate_errors(name):
            system, place = find_filesystem(self._check_allowed(name))
            if system is None:
                _replace(place, contents)
                return
            system.makedirs(system._parent(place), exist_ok=True)
            with system.open(place, "wb") as file:
                file.write(contents)

    def matching(self, pattern: Path) -> list[str]:
        """Return the sorted names that match a pattern of `*`, `?` and `[...]`; a name without these if it exists.

        Targets of links outside the roots do not match.
        """
        name = as_name(pattern)
        with translate_errors(name):
            if self._roots is not None:
                self._check_allowed(_fixed_folder(name))
            system, place = find_filesystem(name)
            if system is None:
                return sorted(filter(self._allows, glob.glob(place, include_hidden=True)))
            return sorted(system.unstrip_protocol(found) for found in system.glob(place))

    def exists(self, path: Path) -> bool:
        """Whether a file or folder of that name exists."""
        name = as_name(path)
        with translate_errors(name):
            system, place = find_filesystem(self._check_allowed(name))
            return os.path.lexists(place) if system is None else bool(system.exists(place))

    def _check_allowed(self, name: str) -> str:
        """Return the name to open.

        With roots, a local name is resolved to one without links; PermissionDeniedError outside them.
        """
        if self._roots is None:
            return name
        place = _real_name(name)
        if not any(f"{place}{os.sep}".startswith(root) for root in self._roots):
            raise errors.PermissionDeniedError(
                f"{name!r} may not be used: it is not below a root that Config(file_roots=) or --file-root allows"
            )
        return place

    def _allows(self, name: str) -> bool:
        try:
            return bool(self._check_allowed(name))
        except errors.PermissionDeniedError:
            return False


def _root_prefix(name: str) -> str:
    """Return the common prefix of all names below a root."""
    place = _real_name(name)
    separator = "/" if _is_url(place) else os.sep
    return place.rstrip(separator) + separator


def _real_name(name: str) -> str:
    """Return a local name without links and `..`, or a URL unchanged.

    PermissionDeniedError for a URL with `..`, `::` or `%`.
    """
    if not _is_url(name):
        return os.path.realpath(find_filesystem(name)[1])
    if ".." in re.split(r"[/\\]", name) or "::" in name or "%" in name:
        raise errors.PermissionDeniedError(
            f"{name!r} may not be used: below file roots a URL has no '..', '::' nor '%'"
        )
    return name


def _is_url(name: str) -> bool:
    scheme = _SCHEME.match(name)
    return scheme is not None and scheme.group() != "file"


def _fixed_folder(pattern: str) -> str:
    """Return the folder that contains all matches of a pattern. PermissionDeniedError if `..` follows a wildcard."""
    magic = _MAGIC.search(pattern)
    if magic is None:
        return pattern
    folder, separator, _ = pattern[: magic.start()].rpartition("/")
    if ".." in pattern[magic.start() :].split("/"):
        raise errors.PermissionDeniedError(f"{pattern!r} may not be used: '..' follows a wildcard")
    return folder + separator or "."


def as_name(path: Path) -> str:
    """Return the path as text. TypeError for other types."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a path must be text or a Path, not {safe_repr(path)}")
    return os.fsdecode(path)


def find_filesystem(name: str) -> tuple[Any, str]:
    """Return fsspec's file system for a name, None for the local one, and the name in it."""
    scheme = _SCHEME.match(name)
    if scheme is None:
        return None, name
    if scheme.group() == "file":
        return None, name.removeprefix("file://")
    try:
        import fsspec
    except ImportError:
        raise errors.UnimplementedError(
            f"{name!r} is a URL, which needs fsspec: pip install aioflow-engine[storage]"
        ) from None
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(name)
    except ImportError as error:
        raise errors.UnimplementedError(f"{name!r} needs another package: {error}") from error
    return found


def known_schemes() -> list[str]:
    """Return the schemes of URLs that fsspec knows, none if it is not installed."""
    try:
        import fsspec
    except ImportError:
        return []
    return list(fsspec.available_protocols())


def _replace(place: str, contents: bytes) -> None:
    """Write a new file and rename it to `place`; a pipe or device is written directly."""
    place = os.path.realpath(place)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.exists(place) and not os.path.isfile(place):
        with open(place, "wb") as special:
            special.write(contents)
        return
    temporary = os.path.join(os.path.dirname(place), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(contents)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(place).st_mode & 0o7777)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system inside the block into OpErrors that name the file."""
    try:
        yield
    except IsADirectoryError as error:
        raise errors.FailedPreconditionError(f"{name!r} is a folder, not a file") from error
    except NotADirectoryError as error:
        raise errors.FailedPreconditionError(f"{name!r}: its parent is a file, not a folder") from error
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"no such file: {name!r}") from error
    except PermissionError as error:
        raise errors.PermissionDeniedError(f"{name!r} may not be used: {error.strerror or error}") from error
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{name!r} is not a valid file name: {error}") from error
    except OSError as error:
        kind = errors.ResourceExhaustedError if error.errno in _FULL else type(errors.from_exception(error))
        raise kind(f"{name!r}: {error.strerror or error}") from error


FILES: Final = Files()
"""The default files of sessions."""
