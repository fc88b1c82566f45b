"""Converts the values that users pass for a tensor."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NewType, Protocol, TypeAlias, TypeVar

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype
from aioflow.tensors.recursion import check_depth
from aioflow.tensors.shape import Dimension, TensorShape

if TYPE_CHECKING:
    from aioflow.graph.indexed_slices import IndexedSlices
    from aioflow.library.ragged.tensor import RaggedTensor
    from aioflow.library.variables import Variable

T_co = TypeVar("T_co", covariant=True)


class SupportsArray(Protocol):
    """An object that NumPy makes an array of."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class Nested(Protocol[T_co]):
    """A list, a tuple or a range of items, but not text, which contains only text."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...
    def __contains__(self, item: object, /) -> bool: ...


# `help` shows the names alone: at run time each alias is a NewType, which prints as its name.
if TYPE_CHECKING:
    InGraph: TypeAlias = Tensor | Variable | IndexedSlices | RaggedTensor
    Values: TypeAlias = InGraph | SupportsArray | np.generic
    NumberLike: TypeAlias = Values | complex | Dimension | TensorShape | Nested["NumberLike"]
    TextLike: TypeAlias = Values | str | bytes | Nested["TextLike"]
    TensorLike: TypeAlias = Values | complex | Dimension | TensorShape | str | bytes | Nested["TensorLike"]
else:
    NumberLike = NewType("NumberLike", object)
    TextLike = NewType("TextLike", object)
    TensorLike = NewType("TensorLike", object)
"""An argument of `convert_to_tensor`: a tensor, a variable, an array, numbers, text, or nested lists of these."""

Converter: TypeAlias = Callable[[Any, DType | None], Tensor]
"""(value, dtype or None) -> tensor of that dtype."""

CONVERTERS: Final[dict[type, Converter]] = {}
"""{class: converter}; holds for subclasses too. `list` stands for nested lists that hold tensors or such values."""


def convert_to_tensor(
    value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, preferred_dtype: DTypeLike | None = None
) -> Tensor:
    """Return a tensor with that value: a tensor itself, a read of a variable, else a constant in the default graph.

    Args:
        value: a tensor, a variable, an array, a number, text, or nested lists of these.
        dtype: the dtype that the tensor must have.
        name: the name of a constant.
        preferred_dtype: the dtype of a Python literal that fits it, if `dtype` is None.

    Raises:
        TypeError: the value has another dtype, or does not fit the dtype.
        ValueError: the value cannot be converted to one array.

    Examples:
        >>> af.convert_to_tensor([1.5, 2.0])
        <af.Tensor 'constant:0' float32[2]>
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        return _checked(value, wanted)
    converter = _converter(value)
    if converter is not None:
        return _checked(converter(value, wanted), wanted)
    constant = OPERATORS["constant"]
    if wanted is None and preferred_dtype is not None and not isinstance(value, (np.ndarray, np.generic)):
        try:
            return constant(value, as_dtype(preferred_dtype), name=name)
        except TypeError:
            return constant(value, None, name=name)
    return constant(value, wanted, name=name)


def is_constant(value: TensorLike) -> bool:
    """Whether `convert_to_tensor` makes a constant of `value`, which neither is nor holds a tensor or a variable."""
    return not isinstance(value, Tensor) and _converter(value) is None


def _checked(tensor: Tensor, dtype: DType | None) -> Tensor:
    if dtype is not None and tensor.dtype is not dtype:
        raise TypeError(f"{tensor!r} has dtype {tensor.dtype.name}, {dtype.name} is needed; use af.cast")
    return tensor


def _converter(value: Any) -> Converter | None:
    """Return the converter of `value`; None if it becomes a constant."""
    if isinstance(value, (list, tuple)) and _of_class(type(value)) is None:
        check_depth(value)
        return CONVERTERS[list] if _holds_tensor(value) else None
    return _of_class(type(value))


def _of_class(kind: type) -> Converter | None:
    found = next((base for base in kind.__mro__ if base in CONVERTERS), object)
    return None if found in (list, tuple, object) else CONVERTERS[found]


def _holds_tensor(items: Iterable[Any]) -> bool:
    kinds = set(map(type, items))
    if any(issubclass(kind, Tensor) or _of_class(kind) is not None for kind in kinds):
        return True
    nested = any(issubclass(kind, (list, tuple)) for kind in kinds)
    return nested and any(_holds_tensor(item) for item in items if isinstance(item, (list, tuple)))


def constant_value(tensor: Tensor) -> Any:
    """Return the value of a tensor as an array if it is known when the graph is built, else None."""
    if tensor.op.type == "constant":
        return tensor.op.attrs["value"]
    known = tensor.spec.known
    if known is None or (isinstance(known, tuple) and None in known):
        return None
    return np.asarray(known, tensor.dtype.np)
