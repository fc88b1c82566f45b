"""What users pass for a tensor, made one."""

from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from aioflow.dtypes import DType, as_dtype
from aioflow.node import Tensor

TensorLike: TypeAlias = Any
"""What `convert_to_tensor` takes: a tensor, a variable, an array, numbers, text, or nested lists of these."""


class Converter(Protocol):
    """Makes a tensor of a value."""

    def __call__(self, value: Any, dtype: DType | None) -> Tensor: ...


CONVERTERS: Final[dict[type, Converter]] = {}
"""How a class is made a tensor; subclasses too. `object` is the default, which makes a constant."""


def convert_to_tensor(
    value: TensorLike, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> Tensor:
    """A tensor with that value: itself if it is one, a read of a variable, else a constant in the default graph.

    Args:
        value: a tensor, a variable, an array, a number, text, or nested lists of these.
        dtype: the dtype it must have.
        name: the name of a constant.
        preferred_dtype: the dtype a Python literal takes if it can, when `dtype` is None.

    Raises:
        TypeError: it has another dtype, or cannot be held by the dtype.
        ValueError: it cannot be made into one array.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        return _checked(value, wanted)
    converter = next((CONVERTERS[c] for c in type(value).__mro__ if c in CONVERTERS and c is not object), None)
    if converter is not None:
        return _checked(converter(value, wanted), wanted)
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return _checked(CONVERTERS[list](value, wanted), wanted)
    if wanted is None and preferred_dtype is not None and not isinstance(value, (np.ndarray, np.generic)):
        try:
            return CONVERTERS[object](value, as_dtype(preferred_dtype))
        except TypeError:
            return CONVERTERS[object](value, None)
    return CONVERTERS[object](value, wanted)


def _checked(tensor: Tensor, dtype: DType | None) -> Tensor:
    if dtype is not None and tensor.dtype is not dtype:
        raise TypeError(f"{tensor!r} has dtype {tensor.dtype.name}, {dtype.name} is needed; use af.cast")
    return tensor


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(item) for item in value)
    return type(value) is Tensor or type(value) in CONVERTERS


def constant_value(tensor: Tensor) -> Any:
    """The value of a tensor as an array, if the graph holds it or implies it; else None."""
    if tensor.op.type == "constant":
        return tensor.op.attrs["value"]
    known = tensor.spec.known
    if known is None or (isinstance(known, tuple) and None in known):
        return None
    return np.asarray(known, tensor.dtype.np)
