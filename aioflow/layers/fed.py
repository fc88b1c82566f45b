"""Placeholders for arrays."""

from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import as_dtype


def input_like(array: Any) -> Tensor:
    """A placeholder for batches like this array, or for values of a variable."""
    if isinstance(array, Variable):
        return placeholder(array.dtype, array.shape, name="value")
    return placeholder(as_dtype(array.dtype), [None, *array.shape[1:]], name="input")


def labels_like(array: Any, output: Tensor) -> Tensor:
    """A placeholder for labels. A size is fixed if it is 1, or that of the output; others may differ in each batch."""
    known = output.shape.as_list() if output.shape.ndims is not None else []
    sizes = [size if size == 1 or known[axis : axis + 1] == [size] else None for axis, size in enumerate(array.shape)]
    return placeholder(as_dtype(array.dtype), [None, *sizes[1:]], name="labels")
