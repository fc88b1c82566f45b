"""Python values to arrays: one set of rules for constants and for feeds."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioflow import dtypes
from aioflow.dtypes import DType

AnyArray = npt.NDArray[Any]
_DEFAULTS: Final = {"b": dtypes.bool_, "f": dtypes.float32, "c": dtypes.complex128}
_as_bytes: Final = np.frompyfunc(
    lambda item: item.encode() if isinstance(item, str) else bytes(item) if isinstance(item, bytes) else item, 1, 1
)


def as_array(value: Any, dtype: DType | None = None) -> AnyArray:
    """`value` as an array of `dtype`, or of the dtype that Python or NumPy values have by convention.

    Python floats become float32 and integers int32 (int64 if they do not fit); arrays keep their dtype. Nothing is
    copied that fits already.

    Raises:
        TypeError: the value cannot be held by the dtype without loss (a fraction, an integer out of range, text).
        ValueError: the value is ragged.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return _convert_array(np.asarray(value), dtype, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{_short(value)} cannot be made into one array: {error}") from None
    if array.dtype.kind in "USO" or dtype is dtypes.string:
        return _strings(value, dtype)
    return _convert_python(array, dtype, value) if _is_python(value) else _convert_array(array, dtype, value)


def _convert_python(array: AnyArray, dtype: DType | None, value: Any) -> AnyArray:
    if dtype is None:
        return _cast(array, _python_dtype(array), value)
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


def _is_python(value: Any) -> bool:
    """Whether the leaves are Python's own numbers, so that the default dtypes apply."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return not isinstance(value, (np.ndarray, np.generic))


def _convert_array(array: AnyArray, dtype: DType | None, value: Any) -> AnyArray:
    wanted = dtypes.as_dtype(array.dtype) if dtype is None else dtype
    if wanted is dtypes.string:
        return _strings(array, wanted)
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _strings(value: Any, dtype: DType | None) -> AnyArray:
    array = value if isinstance(value, np.ndarray) and value.dtype == object else np.array(value, dtype=object)
    result = np.asarray(_as_bytes(array), dtype=object)
    strays = [item for item in result.flat if type(item) is not bytes]
    if strays:
        stray = next((item for item in strays if not isinstance(item, (int, float, complex))), strays[0])
        if type(stray) is int and abs(stray) >= 1 << 63:
            raise TypeError(f"{_short(stray)} does not fit any integer dtype")
        raise TypeError(f"{_short(stray)} of type {type(stray).__name__} has no dtype; text is str or bytes")
    if dtype not in (None, dtypes.string):
        raise TypeError(f"{_short(value)} is not a value of dtype {dtype.name if dtype else None}")
    return result
