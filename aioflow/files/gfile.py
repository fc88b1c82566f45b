"""Files and folders by TensorFlow's names, for programs that prepare data: local paths, and URLs through fsspec.

All of it blocks: in a coroutine, call it by `asyncio.to_thread`. Failures are raised as OpErrors that name the file.
"""

import contextlib
import glob as patterns
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from aioflow import errors
from aioflow.files.filesystem import Path, as_name, find_filesystem, known_schemes, translate_errors

Entry = tuple[str, list[str], list[str]]
"""A folder, and the names of the folders and files in it."""
_MODES: Final = frozenset({"r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "rb+", "wb+", "ab+", "r+b", "w+b", "a+b"})


class FileStatistics(NamedTuple):
    """What `stat` tells of a file.

    Attributes:
        length: its size in bytes.
        mtime_nsec: when it was changed last, in nanoseconds since 1970; 0 where its file system does not tell.
        is_directory: whether it is a folder.
    """

    length: int
    mtime_nsec: int
    is_directory: bool


class GFile:
    r"""A file that is opened when it is first read or written, and is a context manager and an iterator of lines.

    Args:
        name: its path, or a URL.
        mode: `r`, `w` or `a`, with `b` for bytes instead of text and `+` for both ways.

    Examples:
        >>> with af.gfile.FastGFile("words.txt", "w") as file:
        ...     file.write("a\nb\n")
        >>> with af.gfile.FastGFile("words.txt") as file:
        ...     print([line.strip() for line in file])
        ['a', 'b']
    """

    def __init__(self, name: Path, mode: str = "r") -> None:
        if mode not in _MODES:
            raise errors.InvalidArgumentError(f"mode is one of {', '.join(sorted(_MODES))}, not {mode!r}")
        self.name: Final = as_name(name)
        self.mode: Final = mode
        self._file: Any = None

    def read(self, n: int = -1) -> Any:
        """Return the next n characters or bytes; all that are left if n is negative."""
        return self._call("read", n)

    def readline(self) -> Any:
        """Return the next line with its end; nothing at the end of the file."""
        return self._call("readline")

    def readlines(self) -> list[Any]:
        """Return the lines that are left, with their ends."""
        return list(self)

    def write(self, file_content: Any) -> None:
        """Write text or bytes at the end, or where `seek` has gone."""
        self._call("write", file_content)

    def seek(self, offset: int, whence: int = 0) -> None:
        """Go to a place counted from the start (0), the present place (1) or the end (2)."""
        self._call("seek", offset, whence)

    def tell(self) -> int:
        """Return the present place, in bytes from the start."""
        return int(self._call("tell"))

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return stat(self.name).length

    def seekable(self) -> bool:
        """Whether `seek` works."""
        return bool(self._call("seekable"))

    def flush(self) -> None:
        """Pass what was written on to the operating system."""
        if self._file is not None:
            self._call("flush")

    def close(self) -> None:
        """Write what is left, and close the file. It is opened again if it is used again."""
        file, self._file = self._file, None
        if file is not None:
            with translate_errors(self.name):
                file.close()

    def _call(self, method: str, *args: Any) -> Any:
        with translate_errors(self.name):
            if self._file is None:
                system, place = find_filesystem(self.name)
                self._file = open(place, self.mode) if system is None else system.open(place, self.mode)  # noqa: SIM115
            return getattr(self._file, method)(*args)

    def __iter__(self) -> Iterator[Any]:
        while line := self.readline():
            yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(errors.OpError, AttributeError):  # __init__ may have raised
            self.close()


# What is there


def exists(path: Path) -> bool:
    """Whether there is a file or folder of that name.

    Examples:
        >>> af.gfile.Exists("missing.txt")
        False
    """
    return bool(_run(path, os.path.exists, "exists"))


def isdir(path: Path) -> bool:
    """Whether there is a folder of that name.

    Examples:
        >>> af.gfile.IsDirectory(".")
        True
    """
    return bool(_run(path, os.path.isdir, "isdir"))


def stat(path: Path) -> FileStatistics:
    """Return the size of a file, when it was changed, and whether it is a folder. NotFoundError if it is missing.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("text")
        >>> af.gfile.Stat("a.txt").length
        4
    """
    name = as_name(path)
    with translate_errors(name):
        system, place = find_filesystem(name)
        if system is None:
            found = os.stat(place)
            return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(place))
        told, changed = system.info(place), 0
        with contextlib.suppress(NotImplementedError, AttributeError):
            changed = int(system.modified(place).timestamp() * 1e9)
        return FileStatistics(int(told["size"] or 0), changed, told["type"] == "directory")


def listdir(path: Path) -> list[str]:
    """Return the sorted names of all that is in a folder. NotFoundError if there is no such folder.

    Examples:
        >>> af.gfile.MakeDirs("shelf/books")
        >>> af.gfile.ListDirectory("shelf")
        ['books']
    """
    name = as_name(path)
    if not isdir(name):
        raise errors.NotFoundError(f"no such folder: {name!r}")
    return sorted(os.path.basename(found.rstrip("/")) for found in _run(name, os.listdir, _url_names))


def _url_names(system: Any, place: str) -> list[str]:
    return [str(found) for found in system.ls(place, detail=False)]


def glob(pattern: Path | Sequence[Path]) -> list[str]:
    """Return the sorted names that match a pattern of `*`, `?` and `[...]`, or one of several patterns.

    Examples:
        >>> af.gfile.Glob("missing*")
        []
    """
    if isinstance(pattern, list | tuple):
        return [found for each in pattern for found in glob(each)]
    return sorted(_run(pattern, patterns.glob, _url_matches))  # type: ignore[arg-type]


def _url_matches(system: Any, place: str) -> list[str]:
    return [system.unstrip_protocol(found) for found in system.glob(place)]


def walk(top: Path, topdown: bool = True, onerror: Callable[[errors.OpError], object] | None = None) -> Iterator[Entry]:
    """Yield each folder from `top` on, with the names of its folders and of its files, sorted.

    Args:
        top: a folder.
        topdown: whether a folder comes before those in it.
        onerror: called with the error for a folder that cannot be read, which is left out.

    Examples:
        >>> af.gfile.MakeDirs("models/1")
        >>> [(folder, folders) for folder, folders, files in af.gfile.Walk("models")]
        [('models', ['1']), ('models/1', [])]
    """
    folder = as_name(top)
    try:
        names = listdir(folder)
    except errors.OpError as error:
        if onerror is not None:
            onerror(error)
        return
    folders = [name for name in names if isdir(join(folder, name))]
    entry = folder, folders, sorted({*names} - {*folders})
    yield from [entry] if topdown else []
    for name in folders:
        yield from walk(join(folder, name), topdown, onerror)
    yield from [] if topdown else [entry]


def join(path: Path, *paths: Path) -> str:
    """Return the parts joined to one path.

    Examples:
        >>> af.io.gfile.join("a", "b")
        'a/b'
    """
    return os.path.join(as_name(path), *map(as_name, paths))


def get_registered_schemes() -> list[str]:
    """Return the schemes of URLs that fsspec knows; the empty one of local paths and `file` alone without it.

    Examples:
        >>> "s3" in af.io.gfile.get_registered_schemes()
        True
    """
    return sorted({"", "file", *known_schemes()})


# Changes


def mkdir(path: Path) -> None:
    """Make a folder in one that exists. AlreadyExistsError if it is there.

    Examples:
        >>> af.gfile.MkDir("models")
        >>> af.gfile.IsDirectory("models")
        True
    """
    name = as_name(path)
    if exists(name):
        raise errors.AlreadyExistsError(f"{name!r} exists")
    _run(name, os.mkdir, "mkdir")


def makedirs(path: Path) -> None:
    """Make a folder and those that it is in, as far as they are missing.

    Examples:
        >>> af.gfile.MakeDirs("a/b")
        >>> af.gfile.IsDirectory("a/b")
        True
    """
    _run(path, _make_folders, _make_url_folders)


def _make_folders(place: str) -> None:
    os.makedirs(place, exist_ok=True)


def _make_url_folders(system: Any, place: str) -> None:
    system.makedirs(place, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file. NotFoundError if it is missing.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("text")
        >>> af.gfile.Remove("a.txt")
        >>> af.gfile.Exists("a.txt")
        False
    """
    _run(path, os.remove, "rm_file")


def rmtree(path: Path) -> None:
    """Remove a folder with all that is in it.

    Examples:
        >>> af.gfile.MakeDirs("models/1")
        >>> af.gfile.DeleteRecursively("models")
        >>> af.gfile.Exists("models")
        False
    """
    _run(path, shutil.rmtree, _remove_url_tree)


def _remove_url_tree(system: Any, place: str) -> None:
    system.rm(place, recursive=True)


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy a file, also from one file system to another. AlreadyExistsError for `dst`, unless `overwrite`.

    Examples:
        >>> with af.gfile.FastGFile("a.txt", "w") as file:
        ...     file.write("text")
        >>> af.gfile.Copy("a.txt", "b.txt")
        >>> af.gfile.Exists("b.txt")
        True
    """
    _check_free(dst, overwrite)
    with GFile(src, "rb") as source, GFile(dst, "wb") as copied:
        copied.write(b"")
        while block := source.read(1 << 20):
            copied.write(block)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Give a file or folder another name. AlreadyExistsError for `dst`, unless `overwrite`.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("text")
        >>> af.gfile.Rename("a.txt", "b.txt")
        >>> af.gfile.ListDirectory(".")
        ['b.txt']
    """
    _check_free(dst, overwrite)
    old, new = as_name(src), as_name(dst)
    with translate_errors(old):
        (system, place), (other, to) = find_filesystem(old), find_filesystem(new)
        if type(system) is not type(other):
            raise errors.InvalidArgumentError(f"{old!r} and {new!r} are of different file systems: copy the file")
        if system is None:
            os.replace(place, to)
        else:
            system.mv(place, to, recursive=True)


def _check_free(path: Path, overwrite: bool) -> None:
    if not overwrite and exists(path):
        raise errors.AlreadyExistsError(f"{as_name(path)!r} exists; overwrite=True replaces it")


def _run(path: Path, local: Callable[[str], Any], remote: str | Callable[[Any, str], Any]) -> Any:
    """Return what `local` gives for a local path, or the method or function `remote` for a URL."""
    name = as_name(path)
    with translate_errors(name):
        system, place = find_filesystem(name)
        if system is None:
            return local(place)
        return getattr(system, remote)(place) if isinstance(remote, str) else remote(system, place)
