"""Lists of tensors at the border of a run: a Python list becomes a `TensorList`, and a fetched one a Python list.

A slot without a tensor is None on both ways.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.kernels.control.unwritten import check_gaps
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array, ListSpec, Spec
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.tensor_list import UNWRITTEN, TensorList, is_gap

_LARGE: Final = 1 << 20
"""Bytes: to convert or copy more would hold the loop too long."""
_MANY: Final = 1000
"""Elements of a list: to copy more would hold the loop too long."""


def as_tensor_list(value: Any, spec: ListSpec) -> TensorList:
    """Return a list of tensors as the Spec describes it: without a copy of elements whose dtype and layout fit.

    Raises:
        TypeError: the value is no list or tuple, or the dtype cannot hold an element.
        ValueError: the number of elements or the shape of one is not that of the Spec.
    """
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"it takes a Python list or tuple of arrays, not {safe_repr(value)}")
    if spec.size not in (None, len(value)):
        raise ValueError(f"it has {spec.size} slots, and {len(value)} elements are given")
    return TensorList.of([_element(index, item, spec.element) for index, item in enumerate(value)])


def _element(index: int, item: Any, spec: Spec) -> Any:
    if item is None:
        return UNWRITTEN
    try:
        if isinstance(spec, ListSpec):
            return as_tensor_list(item, spec)
        array = as_array(item, spec.dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"element {index}: {error}") from None
    if not spec.shape.is_compatible_with(array.shape):
        raise ValueError(f"element {index} has shape {list(array.shape)}, and the elements have shape {spec.shape}")
    return array


def as_python_list(value: TensorList, own: Callable[[Array], Any]) -> list[Any]:
    """Return the elements in a Python list, each made the caller's by `own`; None for a slot without a tensor.

    ResourceExhaustedError if millions of slots have none.
    """
    check_gaps(value)
    return [None if is_gap(item) else own(item) for item in value.elements()]


def is_large(value: Any) -> bool:
    """Whether it takes long to copy the value."""
    if type(value) is TensorList:
        return len(value) > _MANY or value.count_bytes() > _LARGE
    return getattr(value, "nbytes", 0) > _LARGE


def must_cast(items: Sequence[Any], dtype: Any) -> bool:
    """Whether a Python list has so many bytes in arrays of another dtype that it takes long to convert."""
    other = [item.nbytes for item in items if type(item) is np.ndarray and item.dtype is not dtype]
    return sum(other) > _LARGE
