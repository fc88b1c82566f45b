"""Converts Python values to arrays. Constants and feeds follow the same rules."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType
from aioflow.tensors.object_arrays import SLICE_ELEMENTS, element_types, map_elements, slices, to_list
from aioflow.tensors.object_arrays import AnyArray as AnyArray
from aioflow.tensors.recursion import short_repr

_DEFAULTS: Final = {"b": dtypes.bool_, "f": dtypes.float32, "c": dtypes.complex128}
_MOST_AXES: Final = 64
"""The most axes of a NumPy array."""
_NUMBERS: Final = (bool, int, float, complex, np.number, np.bool_)


def as_array(value: Any, dtype: DType | None = None, strict: bool = False) -> AnyArray:
    """Return `value` as an array of `dtype`, or of the default dtype of its Python or NumPy type.

    Python floats become float32 and integers int32 (int64 if they do not fit), also lists of them and of NumPy numbers
    that are float64 or int64 together; arrays, and NumPy numbers alone, keep their dtype. A value that
    has the right form already is not copied. `strict` forbids conversions between kinds of Python values: a bool or a
    float is not accepted as an integer, and a number is not accepted as a bool.

    Raises:
        TypeError: the dtype cannot hold the value without loss (a fraction, an integer out of range, text).
        ValueError: the value is ragged, or contains an unknown size.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return _convert_array(np.asarray(value), dtype, value, strict)
    if isinstance(value, dtypes.TensorShape):
        return as_array(_sizes(value) or np.zeros(0, np.int32), dtype, strict)
    leaf, sizes = first_leaf(value)
    if len(sizes) > _MOST_AXES:
        raise ValueError(
            f"{short_repr(value)} is nested too deep, or contains itself: an array has at most {_MOST_AXES} axes"
        )
    texts = _text_array(value, sizes) if math.prod(sizes) > SLICE_ELEMENTS else None
    if texts is not None:
        return _convert_objects(texts, dtype, value, strict)
    try:
        array = _nested_to_array(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{short_repr(value)} cannot be made into one array: {error}") from None
    if array.dtype.kind in "USO" or dtype is dtypes.string:
        return _convert_objects(np.array(value, dtype=object), dtype, value, strict)
    if dtype is None and isinstance(leaf, np.generic) and array.dtype in (np.float64, np.int64):
        return _convert_python(array, None, value, strict)
    return _convert_array(array, dtype, value) if _is_numpy(leaf) else _convert_python(array, dtype, value, strict)


def first_leaf(value: Any) -> tuple[Any, list[int]]:
    """Return the first leaf of nested lists, and the lengths of the lists around it.

    The search stops one level below the most axes of an array.
    """
    sizes: list[int] = []
    while isinstance(value, (list, tuple)) and len(sizes) <= _MOST_AXES:
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return value, sizes


def count_leaves(value: Any) -> int:
    """Return the product of the lengths of the first list on each level; 1 if the nesting is too deep for an array."""
    _, sizes = first_leaf(value)
    return math.prod(sizes) if len(sizes) <= _MOST_AXES else 1


def _text_array(value: Any, shape: Sequence[int]) -> AnyArray | None:
    """Convert nested lists of text to an array of bytes. Returns None for ragged lists and for other values."""
    items: Sequence[Any] = value
    for size in shape[1:]:
        if not all(isinstance(row, (list, tuple)) and len(row) == size for row in items):
            return None
        items = [item for row in items for item in row]
    made = np.empty(len(items), object)
    for part in slices(len(items)):
        texts, kinds = items[part], set(map(type, items[part]))
        if not kinds <= {str, bytes}:
            return None
        made[part] = texts if str not in kinds else [_as_bytes(text) for text in texts]
    return made.reshape(shape)


def _nested_to_array(value: Any) -> AnyArray:
    """Convert nested lists to an array as NumPy does; long lists are converted in slices."""
    leaves = count_leaves(value)
    if leaves > SLICE_ELEMENTS:
        rows = max(1, SLICE_ELEMENTS * len(value) // leaves)
        with contextlib.suppress(ValueError):  # the conversion of the whole list raises the error again
            parts = [
                _nested_to_array(value[at : at + rows] if rows > 1 else value[at]) for at in range(0, len(value), rows)
            ]
            if len({(part.dtype, part.shape[rows > 1 :]) for part in parts}) == 1:
                return np.concatenate(parts) if rows > 1 else np.stack(parts)
    try:
        return np.asarray(value)
    except UnicodeDecodeError:  # NumPy decodes bytes among text as ASCII
        return np.asarray(value, dtype=object)


def _convert_python(array: AnyArray, dtype: DType | None, value: Any, strict: bool) -> AnyArray:
    if dtype is None:
        return _cast(array, _python_dtype(array), value)
    if dtype is dtypes.uint64 and array.dtype == np.float64:
        array = _wide_integers(array, value)
    if not strict and dtype is not dtypes.resource:
        return _cast(array, dtype, value)
    kind = array.dtype.kind
    fits = (
        array.size == 0
        or (dtype.is_bool and kind == "b")
        or (dtype.is_integer and kind in "iu")
        or (dtype.is_floating and kind in "iuf")
        or (dtype.is_complex and kind in "iufc")
    )
    if not fits:
        raise TypeError(f"{short_repr(value)} is not a value of dtype {dtype.name}")
    return _cast(array, dtype, value)


def _wide_integers(array: AnyArray, value: Any) -> AnyArray:
    """Return integers as uint64: NumPy has made floats of those from 2**63 on that lie among smaller ones."""
    items = np.array(value, dtype=object)
    if element_types(items) == {int}:
        with contextlib.suppress(OverflowError):  # a negative one, or one above uint64
            return items.astype(np.uint64)
    return array


def _python_dtype(array: AnyArray) -> DType:
    if array.dtype.kind in _DEFAULTS:
        return _DEFAULTS[array.dtype.kind]
    limits = np.iinfo(np.int32)
    small = array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max)
    return dtypes.int32 if small else dtypes.as_dtype(array.dtype)


def _is_numpy(leaf: Any) -> bool:
    """Whether a leaf has a NumPy dtype, which replaces the default dtypes."""
    return isinstance(leaf, (np.ndarray, np.generic))


def _convert_array(array: AnyArray, dtype: DType | None, value: Any, strict: bool = False) -> AnyArray:
    if array.dtype == object:
        return _convert_objects(array, dtype, value, strict)
    wanted = dtypes.as_dtype(array.dtype) if dtype is None else dtype
    if wanted is dtypes.string:
        return _object_strings(array, wanted, value)
    if wanted is dtypes.resource or dtypes.as_dtype(array.dtype) is dtypes.string:
        raise TypeError(f"an array of {array.dtype} is not a value of dtype {wanted.name}")
    return array if array.dtype == wanted.np else _cast(array, wanted, value)


def _cast(array: AnyArray, dtype: DType, value: Any) -> AnyArray:
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError(f"{short_repr(value)} is complex, and dtype {dtype.name} is not")
    with np.errstate(all="ignore"):
        result = array.astype(dtype.np)
    if not dtype.is_differentiable and array.dtype != dtype.np and not np.array_equal(result, array):
        raise TypeError(f"{short_repr(value)} does not fit dtype {dtype.name} without loss")
    return result


def _convert_objects(array: AnyArray, dtype: DType | None, value: Any, strict: bool) -> AnyArray:
    """Convert an array of objects: text to bytes, Dimensions and other numbers to numbers."""
    kinds = element_types(array)
    if kinds == {bytes} and dtype in (None, dtypes.string):
        return array
    if dtypes.Dimension in kinds:
        return as_array(np.asarray(_size_of(array)).tolist(), dtype, strict)
    if dtype is None or dtype in (dtypes.string, dtypes.resource) or not all(issubclass(k, _NUMBERS) for k in kinds):
        return _object_strings(array, dtype, value)
    numbers = _nested_to_array(to_list(array)).reshape(array.shape)
    return _object_strings(array, dtype, value) if numbers.dtype == object else _cast(numbers, dtype, value)


def _sizes(shape: dtypes.TensorShape) -> list[int]:
    if shape.sizes is None:
        raise ValueError("the rank is not known when the graph is built: take the shape from af.shape(x), not x.shape")
    return [_known_size(size) for size in shape]


def _known_size(item: Any) -> Any:
    """Return the size of a Dimension, and any other item unchanged."""
    if not isinstance(item, dtypes.Dimension):
        return item
    if item.value is None:
        raise ValueError("a size is not known when the graph is built: take it from af.shape(x), not from x.shape")
    return item.value


_size_of: Final = np.frompyfunc(_known_size, 1, 1)


def _object_strings(array: AnyArray, dtype: DType | None, value: Any) -> AnyArray:
    result = map_elements(_as_bytes, object, array)
    if not element_types(result) <= {bytes}:
        raise TypeError(_error_text(array, dtype))
    if dtype not in (None, dtypes.string):
        raise TypeError(f"{short_repr(value)} is not a value of dtype {dtype.name if dtype else None}")
    return result


def _error_text(array: AnyArray, dtype: DType | None) -> str:
    """Return an error text that names the first wrong element and its index."""
    place = next((p for p in np.ndindex(array.shape) if not _may_hold(dtype, array[p])), None)
    wanted = "has no dtype; text is str or bytes" if dtype is None else f"is not a value of dtype {dtype.name}"
    if place is None and dtype is None:  # numbers and text are mixed: name the first element of the other kind
        first = isinstance(array.flat[0], _NUMBERS)
        place = next((p for p in np.ndindex(array.shape) if isinstance(array[p], _NUMBERS) is not first), None)
        wanted = f"stands among {'numbers' if first else 'text'}; a tensor holds either"
    if place is None:
        return f"{short_repr(max(array.flat, key=abs))} does not fit any integer dtype"
    item, where = array[place], f" at {list(place)}" if array.ndim else ""
    return f"{short_repr(item)} of type {type(item).__name__}{where} {wanted}"


def _may_hold(dtype: DType | None, item: Any) -> bool:
    is_text, is_number = isinstance(item, (str, bytes)), isinstance(item, _NUMBERS)
    if dtype is None:
        return is_text or is_number
    return is_text if dtype in (dtypes.string, dtypes.resource) else is_number


def _as_bytes(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else bytes(item) if isinstance(item, bytes) else item
