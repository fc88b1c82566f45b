"""`af.resource_loader`: files beside the module that asks for them. These functions block."""

import os
import sys
from pathlib import Path

from aioflow.lazy import Face


def get_data_files_path() -> str:
    """Return the folder of the module that calls this."""
    return _folder_of_caller()


def get_root_dir_with_all_resources() -> str:
    """Return the folder of the module that calls this."""
    return _folder_of_caller()


def get_path_to_datafile(path: str | os.PathLike[str]) -> str:
    """Return the path of a file that is given relative to the folder of the module that calls this."""
    return os.path.join(_folder_of_caller(), path)


def load_resource(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that is given relative to the folder of the module that calls this."""
    return Path(_folder_of_caller(), path).read_bytes()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return `path`: the system itself reads ahead."""
    return path


def _folder_of_caller() -> str:
    return os.path.dirname(os.path.abspath(sys._getframe(2).f_code.co_filename))


__all__ = [
    "get_data_files_path", "get_path_to_datafile", "get_root_dir_with_all_resources", "load_resource",
    "readahead_file_path",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
