"""Files written and read plainly: what checkpoints are compared with. All of it blocks."""

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from aioflow.tensors.as_array import AnyArray

CHUNK = 1 << 24


def write_seconds(path: Path, arrays: Iterable[AnyArray]) -> float:
    """The time in which a new file holds these bytes, and is on the disk."""
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
    """The folder is empty, and the disk has heard of it: what is written next does not wait for that."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    os.sync()


def read_seconds(paths: Sequence[Path], into: memoryview) -> float:
    """The time in which the bytes of these files, one after the other, are in memory that is there already."""
    begin = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(into[:CHUNK]):
                into = into[count:]
    return time.perf_counter() - begin


def read_new_seconds(paths: Sequence[Path]) -> float:
    """The same with memory that is not there yet."""
    begin = time.perf_counter()
    found = [np.fromfile(path, np.uint8) for path in paths]
    seconds = time.perf_counter() - begin
    found.clear()
    return seconds


def drop_from_memory(paths: Iterable[Path]) -> None:
    """What these files hold is read from the disk when it is next wanted."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
