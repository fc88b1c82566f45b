"""Memory whose content nobody changes: files mapped for reading, and frozen copies. Values in it need no copy.

A mapped file takes no memory of its own: the system reads its pages when they are first used, and may drop them again.
The file must not be shortened or written to while arrays over it live. A new file in its place does no harm.
"""

import mmap
import os
import stat
from pathlib import Path

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Array


class FixedMemory(mmap.mmap):
    """Mapped memory whose content nobody changes."""


def map_file(path: Path) -> memoryview:
    """The bytes of a file, mapped. FailedPreconditionError for a folder, a pipe or a device, which may have no end."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # to open a pipe would wait for its writer
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise errors.FailedPreconditionError(f"{str(path)!r} is no regular file: it is not read")
        return map_descriptor(file) if status.st_size else memoryview(b"")
    finally:
        os.close(file)


def map_descriptor(file: int) -> memoryview:
    """The bytes of an open file, mapped. It may be closed afterwards. ValueError if it has none."""
    return memoryview(FixedMemory(file, 0, access=mmap.ACCESS_READ))


def frozen_copy(data: memoryview) -> memoryview:
    """A copy of these bytes that nobody changes; its address is a multiple of the size of a page."""
    memory = FixedMemory(-1, data.nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)  # one page fault for 2 MiB in place of 512
    memory[:] = data
    return memoryview(memory).toreadonly()


def is_fixed(array: Array) -> bool:
    """Whether nobody changes the array, as long as anyone holds it."""
    if not isinstance(array, np.ndarray) or array.flags.writeable or not array.flags.c_contiguous:
        return False
    whole = array.base if isinstance(array.base, np.ndarray) else array
    return isinstance(whole.base, memoryview) and isinstance(whole.base.obj, FixedMemory)
