"""`af.resource_loader`: files beside the module that asks for them. These functions block."""

import os
import sys
from pathlib import Path

from aioflow.lazy import Face


def get_data_files_path() -> str:
    """Return the folder of the module that calls this.

    Examples:
        >>> type(af.resource_loader.get_data_files_path())
        <class 'str'>
    """
    return _folder_of_caller()


def get_root_dir_with_all_resources() -> str:
    """Return the folder of the module that calls this.

    Examples:
        >>> type(af.resource_loader.get_root_dir_with_all_resources())
        <class 'str'>
    """
    return _folder_of_caller()


def get_path_to_datafile(path: str | os.PathLike[str]) -> str:
    """Return the path of a file that is given relative to the folder of the module that calls this.

    Examples:
        >>> path = af.resource_loader.get_path_to_datafile("words.txt")
        >>> path.endswith("words.txt")
        True
    """
    return os.path.join(_folder_of_caller(), path)


def load_resource(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that is given relative to the folder of the module that calls this.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("words.txt").write_text("a b")
        >>> af.resource_loader.load_resource("words.txt")
        b'a b'
    """
    return Path(_folder_of_caller(), path).read_bytes()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return `path`: the system itself reads ahead.

    Examples:
        >>> af.resource_loader.readahead_file_path("words.txt")
        'words.txt'
    """
    return path


def _folder_of_caller() -> str:
    return os.path.dirname(os.path.abspath(sys._getframe(2).f_code.co_filename))


__all__ = [
    "get_data_files_path", "get_path_to_datafile", "get_root_dir_with_all_resources", "load_resource",
    "readahead_file_path",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
