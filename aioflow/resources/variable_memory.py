"""Memory for the values of variables, where products by oneDNN are fast.

dnnl_sgemm packs a matrix of long rows, and then multiplies up to twice as fast, if the matrix begins between two
multiples of the bytes of a vector. Without a request, where memory begins is chance. The weights of a layer have a good
place from the start, so that no product needs a copy of them.
"""

import ctypes
from typing import Any, Final

import numpy as np

from aioflow.tensors import object_arrays
from aioflow.tensors.dtypes import Array
from aioflow.tensors.lent_memory import can_be_kept, is_mapped

VECTOR: Final = 32
"""The bytes of a vector without AVX-512."""
LONG: Final = 512
"""The numbers in a long row, or a part of them: the numbers of a column fall on few lines of the cache."""


def can_stay(value: Array) -> bool:
    """Whether a variable holds `value` itself and no copy: it never changes, and was not received in a bad place."""
    if not can_be_kept(value):
        return False
    return is_mapped(value) or not _has_long_rows(value) or value.ctypes.data % VECTOR == VECTOR // 2


def empty_like(xp: Any, value: Array) -> Array:
    """An array of any content, of the shape and dtype of `value`."""
    return _between_vectors(value) if _has_long_rows(value) else xp.empty_like(value)


def copy(value: Array) -> Array:
    """A copy of `value`."""
    if not _has_long_rows(value):
        return object_arrays.copy_array(value)
    made = _between_vectors(value)
    np.copyto(made, value)
    return made


def _has_long_rows(value: Array) -> bool:
    """Whether it is a matrix of float32 in the memory of a CPU with such rows."""
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype != np.float32:
        return False
    return value.size > 0 and value.shape[1] % LONG == 0


def _between_vectors(value: Array) -> Array:
    """An array of that shape. Its base is no array: so views of it hold it, as `VariableState` counts on."""
    memory: Any = np.empty(value.nbytes + VECTOR, np.uint8)
    begin = (VECTOR // 2 - memory.ctypes.data) % VECTOR
    base: Any = (ctypes.c_char * memory.nbytes).from_buffer(memory)
    return np.ndarray(value.shape, np.float32, base, begin)
