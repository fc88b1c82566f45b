"""Memory that another process of this host lends: it changes nothing there while an array of this process uses it."""

import mmap

import numpy as np

from aioflow.tensors.dtypes import Array
from aioflow.tensors.fixed_memory import is_fixed


class LentMemory(mmap.mmap):
    """A mapped segment of the other process. It is lent as long as arrays over it live."""


def is_mapped(array: Array) -> bool:
    """Whether the array is in mapped memory: a file, or memory that processes of this host share."""
    if not isinstance(array, np.ndarray) or array.base is None:
        return False
    whole = array.base if isinstance(array.base, np.ndarray) else array
    return isinstance(whole.base, memoryview) and isinstance(whole.base.obj, mmap.mmap)


def can_be_kept(array: Array) -> bool:
    """Whether a copy of the array is not needed to keep its value: it is fixed, or takes most of some lent memory.

    It can be kept only as it is, since nobody can write to it.
    """
    if is_fixed(array):
        return True
    if not isinstance(array, np.ndarray) or array.flags.writeable or not array.flags.c_contiguous:
        return False
    whole = array.base
    if not isinstance(whole, np.ndarray) or not isinstance(whole.base, memoryview):
        return False
    return isinstance(whole.base.obj, LentMemory) and 2 * array.nbytes >= whole.nbytes
