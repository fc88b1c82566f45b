"""Plain writing and reading of files, the baseline of checkpoints. All functions block."""

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from aioflow.tensors.as_array import AnyArray

CHUNK = 1 << 24


def write_seconds(path: Path, arrays: Iterable[AnyArray]) -> float:
    """Return the time to write these bytes to a new file and sync it."""
    begin = time.perf_counter()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for array in arrays:
            write_all(file, array.reshape(-1).view(np.uint8).data)
        os.fsync(file)
    finally:
        os.close(file)
    return time.perf_counter() - begin


def write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data[:CHUNK]) :]


def clear(folder: Path) -> None:
    """Empty the folder and sync it, so that the next write does not wait for that."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    os.sync()


def read_seconds(paths: Sequence[Path], into: memoryview) -> float:
    """Return the time to read the bytes of these files, one after the other, into memory that is already mapped."""
    begin = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(into[:CHUNK]):
                into = into[count:]
    return time.perf_counter() - begin


def read_new_seconds(paths: Sequence[Path]) -> float:
    """Return the same with new memory."""
    begin = time.perf_counter()
    found = [np.fromfile(path, np.uint8) for path in paths]
    seconds = time.perf_counter() - begin
    found.clear()
    return seconds


def drop_from_memory(paths: Iterable[Path]) -> None:
    """Drop these files from the page cache, so that the next read goes to the disk."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
