"""What a program can ask of tensors and values while it builds a graph."""

from typing import Any

import numpy as np

from aioflow.graph.composed import Composed
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DTypeLike, as_dtype


def get_static_value(tensor: TensorLike, partial: bool = False) -> AnyArray | None:
    """Return the value of a tensor, as an array, if the graph knows it before a run; else None.

    With `partial`, a vector of which only some elements are known is an array of objects with None for the others.

    Examples:
        >>> af.get_static_value(af.constant([1, 2]))
        array([1, 2], dtype=int32)
        >>> af.get_static_value(af.placeholder(af.int32)) is None
        True
    """
    made = convert_to_tensor(tensor)
    value: AnyArray | None = constant_value(made)
    known = made.spec.known
    if value is None and partial and isinstance(known, tuple):
        return np.array(known, object)
    return value


def is_symbolic_tensor(tensor: object) -> bool:
    """Whether it is a tensor of a graph, or consists of such: a Tensor, SparseTensor, RaggedTensor or IndexedSlices.

    Examples:
        >>> af.is_symbolic_tensor(af.constant(1))
        True
        >>> af.is_symbolic_tensor(np.array(1))
        False
    """
    return isinstance(tensor, (Tensor, Composed, IndexedSlices))


def convert_to_tensor_or_indexed_slices(
    value: TensorLike | IndexedSlices, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor | IndexedSlices:
    """Return IndexedSlices as they are, and anything else as `convert_to_tensor` does.

    Raises:
        ValueError: the slices have another dtype.

    Examples:
        >>> slices = af.IndexedSlices(af.constant([[1.0, 2.0]]), af.constant([3]))
        >>> af.convert_to_tensor_or_indexed_slices(slices) is slices
        True
        >>> af.convert_to_tensor_or_indexed_slices([1, 2]).dtype
        af.int32
    """
    if not isinstance(value, IndexedSlices):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and value.dtype is not as_dtype(dtype):
        raise ValueError(f"the slices are of dtype {value.dtype.name}, not {as_dtype(dtype).name}")
    return value


def assert_proper_iterable(values: Any) -> None:
    """Raise TypeError unless `values` can be iterated over and is no single value: a tensor, an array or text.

    Examples:
        >>> af.assert_proper_iterable([af.constant(1), af.constant(2)])
        >>> try:
        ...     af.assert_proper_iterable(af.constant([1, 2]))
        ... except TypeError:
        ...     print("a tensor is no list of tensors")
        a tensor is no list of tensors
    """
    single = isinstance(values, (Tensor, Composed, str, bytes)) or hasattr(values, "__array__")
    if single or not hasattr(values, "__iter__"):
        raise TypeError(f"an iterable such as a list is needed, not one {type(values).__name__}")
