"""Python values to arrays: one set of rules for constants and for feeds."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType
from aioflow.tensors.object_arrays import SLICE_ELEMENTS, element_types, map_elements, slices, to_list
from aioflow.tensors.object_arrays import AnyArray as AnyArray
from aioflow.tensors.recursion import shown

_DEFAULTS: Final = {"b": dtypes.bool_, "f": dtypes.float32, "c": dtypes.complex128}
_MOST_AXES: Final = 64
"""The most axes of a NumPy array."""
_NUMBERS: Final = (bool, int, float, complex, np.number, np.bool_)


def as_array(value: Any, dtype: DType | None = None, strict: bool = False) -> AnyArray:
    """`value` as an array of `dtype`, or of the dtype that Python or NumPy values have by convention.

    Python floats become float32 and integers int32 (int64 if they do not fit); arrays keep their dtype. Nothing is
    copied that fits already. With `strict` Python's values must be of the dtype's own kind: no bool or float is an
    integer then, and no number a bool.

    Raises:
        TypeError: the value cannot be held by the dtype without loss (a fraction, an integer out of range, text).
        ValueError: the value is ragged, or has a size that is not known.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return _convert_array(np.asarray(value), dtype, value, strict)
    if isinstance(value, dtypes.TensorShape):
        return as_array(_sizes(value) or np.zeros(0, np.int32), dtype, strict)
    leaf, sizes = first_leaf(value)
    if len(sizes) > _MOST_AXES:
        raise ValueError(
            f"{_short(value)} is nested too deep, or contains itself: an array has at most {_MOST_AXES} axes"
        )
    texts = _texts(value, sizes) if math.prod(sizes) > SLICE_ELEMENTS else None
    if texts is not None:
        return _convert_objects(texts, dtype, value, strict)
    try:
        array = _joined(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{_short(value)} cannot be made into one array: {error}") from None
    if array.dtype.kind in "USO" or dtype is dtypes.string:
        return _convert_objects(np.array(value, dtype=object), dtype, value, strict)
    return _convert_array(array, dtype, value) if _is_numpy(leaf) else _convert_python(array, dtype, value, strict)


def first_leaf(value: Any) -> tuple[Any, list[int]]:
    """The first leaf of nested lists, and the lengths of the lists around it.

    The search ends one level below the most axes of an array.
    """
    sizes: list[int] = []
    while isinstance(value, (list, tuple)) and len(sizes) <= _MOST_AXES:
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return value, sizes


def leaves_of(value: Any) -> int:
    """The number of leaves of nested lists, counted by their first items; 1 if they are too deep for an array."""
    _, sizes = first_leaf(value)
    return math.prod(sizes) if len(sizes) <= _MOST_AXES else 1


def _texts(value: Any, shape: Sequence[int]) -> AnyArray | None:
    """Nested lists of text as an array of bytes; None if they are ragged, or hold other values."""
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


def _joined(value: Any) -> AnyArray:
    """The array that NumPy makes of nested lists; long lists are converted in slices."""
    leaves = leaves_of(value)
    if leaves > SLICE_ELEMENTS:
        rows = max(1, SLICE_ELEMENTS * len(value) // leaves)
        with contextlib.suppress(ValueError):  # a slice's error is dropped: the conversion of the whole raises its own
            parts = [_joined(value[at : at + rows] if rows > 1 else value[at]) for at in range(0, len(value), rows)]
            if len({(part.dtype, part.shape[rows > 1 :]) for part in parts}) == 1:
                return np.concatenate(parts) if rows > 1 else np.stack(parts)
    try:
        return np.asarray(value)
    except UnicodeDecodeError:  # NumPy takes bytes beside text for ASCII
        return np.asarray(value, dtype=object)


def _convert_python(array: AnyArray, dtype: DType | None, value: Any, strict: bool) -> AnyArray:
    if dtype is None:
        return _cast(array, _python_dtype(array), value)
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
        raise TypeError(f"{_short(value)} is not a value of dtype {dtype.name}")
    return _cast(array, dtype, value)


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
        return _strings(array, wanted, value)
    if wanted is dtypes.resource or dtypes.as_dtype(array.dtype) is dtypes.string:
        raise TypeError(f"an array of {array.dtype} is not a value of dtype {wanted.name}")
    return array if array.dtype == wanted.np else _cast(array, wanted, value)


def _cast(array: AnyArray, dtype: DType, value: Any) -> AnyArray:
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError(f"{_short(value)} is complex, and dtype {dtype.name} is not")
    with np.errstate(all="ignore"):
        result = array.astype(dtype.np)
    if not dtype.is_differentiable and array.dtype != dtype.np and not np.array_equal(result, array):
        raise TypeError(f"{_short(value)} does not fit dtype {dtype.name} without loss")
    return result


def _convert_objects(array: AnyArray, dtype: DType | None, value: Any, strict: bool) -> AnyArray:
    """Text as bytes; sizes of shapes as numbers, and so numbers for a dtype that holds numbers."""
    kinds = element_types(array)
    if kinds == {bytes} and dtype in (None, dtypes.string):
        return array
    if dtypes.Dimension in kinds:
        return as_array(np.asarray(_size_of(array)).tolist(), dtype, strict)
    if dtype is None or dtype in (dtypes.string, dtypes.resource) or not all(issubclass(k, _NUMBERS) for k in kinds):
        return _strings(array, dtype, value)
    numbers = _joined(to_list(array)).reshape(array.shape)
    return _strings(array, dtype, value) if numbers.dtype == object else _cast(numbers, dtype, value)


def _sizes(shape: dtypes.TensorShape) -> list[int]:
    if shape.sizes is None:
        raise ValueError("a rank is not known when the graph is built: take the shape from af.shape(x), not x.shape")
    return [_known_size(size) for size in shape]


def _known_size(item: Any) -> Any:
    """The number for a Dimension; anything else as it is."""
    if not isinstance(item, dtypes.Dimension):
        return item
    if item.value is None:
        raise ValueError("a size is not known when the graph is built: take it from af.shape(x), not from x.shape")
    return item.value


_size_of: Final = np.frompyfunc(_known_size, 1, 1)


def _short(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _strings(array: AnyArray, dtype: DType | None, value: Any) -> AnyArray:
    result = map_elements(_as_bytes, object, array)
    if not element_types(result) <= {bytes}:
        raise TypeError(_complaint(array, dtype))
    if dtype not in (None, dtypes.string):
        raise TypeError(f"{_short(value)} is not a value of dtype {dtype.name if dtype else None}")
    return result


def _complaint(array: AnyArray, dtype: DType | None) -> str:
    """The text of an error that names the wrong element and its place."""
    place = next((p for p in np.ndindex(array.shape) if not _may_hold(dtype, array[p])), None)
    wanted = "has no dtype; text is str or bytes" if dtype is None else f"is not a value of dtype {dtype.name}"
    if place is None and dtype is None:  # numbers and text are mixed: name the first element unlike the first one
        first = isinstance(array.flat[0], _NUMBERS)
        place = next((p for p in np.ndindex(array.shape) if isinstance(array[p], _NUMBERS) is not first), None)
        wanted = f"stands among {'numbers' if first else 'text'}; a tensor holds either"
    if place is None:
        return f"{_short(max(array.flat, key=abs))} does not fit any integer dtype"
    item, where = array[place], f" at {list(place)}" if array.ndim else ""
    return f"{_short(item)} of type {type(item).__name__}{where} {wanted}"


def _may_hold(dtype: DType | None, item: Any) -> bool:
    is_text, is_number = isinstance(item, (str, bytes)), isinstance(item, _NUMBERS)
    if dtype is None:
        return is_text or is_number
    return is_text if dtype in (dtypes.string, dtypes.resource) else is_number


def _as_bytes(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else bytes(item) if isinstance(item, bytes) else item
