"""Memory that another process of this host lends: it changes nothing there while an array of this process uses it."""

import mmap

import numpy as np

from aioflow.tensors.dtypes import Array
from aioflow.tensors.fixed_memory import is_fixed
from aioflow.tensors.received_memory import ReceivedMemory


class LentMemory(mmap.mmap):
    """A mapped segment of the other process. It is lent as long as arrays over it live."""


def is_mapped(array: Array) -> bool:
    """Whether the array is in mapped memory: a file, or memory that processes of this host share."""
    return isinstance(_owner(array), mmap.mmap)


def is_plain(array: Array) -> bool:
    """Whether counts of references tell who uses the memory of the array: it is neither mapped nor received."""
    return not isinstance(_owner(array), (mmap.mmap, ReceivedMemory))


def can_be_kept(array: Array) -> bool:
    """Whether a copy of the array is not needed to keep its value.

    It is fixed, or takes most of some lent memory, or of received memory that nobody changes any more. It can be kept
    only as it is, since nobody can write to it.
    """
    if is_fixed(array):
        return True
    if not isinstance(array, np.ndarray) or array.flags.writeable or not array.flags.c_contiguous:
        return False
    whole = array.base
    if not isinstance(whole, np.ndarray) or whole.flags.writeable:
        return False
    return isinstance(_owner(array), (LentMemory, ReceivedMemory)) and 2 * array.nbytes >= whole.nbytes


def _owner(array: Array) -> object:
    """The owner of the memory of an array, or of the array of which it is a view; None if that is the array."""
    if not isinstance(array, np.ndarray):
        return None
    whole = array.base if isinstance(array.base, np.ndarray) else array
    return whole.base.obj if isinstance(whole.base, memoryview) else whole.base
