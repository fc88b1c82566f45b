"""Descriptions of values: the class of a value, its dtypes and its shapes, as TensorFlow's `TypeSpec`s."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import numpy as np

from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, TensorShape, as_dtype, as_shape, spec_of
from aioflow.tensors.recursion import short_repr


@dataclasses.dataclass(frozen=True)
class TypeSpec:
    """The common part of all descriptions of values, which are themselves immutable values. Not created directly.

    Examples:
        >>> isinstance(af.TensorSpec([2]), af.TypeSpec)
        True
    """

    @property
    def value_type(self) -> type:
        """The class of the values."""
        raise NotImplementedError(f"{type(self).__name__} does not say the class of its values")

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether some value fits this description and the other one, or whether a value fits this one."""
        if not isinstance(spec_or_value, TypeSpec):
            try:
                spec_or_value = type_spec_from_value(spec_or_value)
            except (TypeError, ValueError):
                return False
        return self._agrees(spec_or_value, TensorShape.is_compatible_with)

    def is_subtype_of(self, other: Any) -> bool:
        """Whether each value that fits this description fits the other one."""
        return self._agrees(other, _is_within)

    def most_specific_compatible_type(self, other: Any) -> Self:
        """Return the narrowest description that each value of either fits. ValueError if there is none."""
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(f"no description has the values of both {self} and {other}")
        return found

    def most_specific_common_supertype(self, others: Sequence[Any]) -> Self | None:
        """Return the narrowest description that each value of all fits; None if there is none."""
        found = self
        for other in others:
            if not found._agrees(other, lambda one, another: True):
                return None
            found = dataclasses.replace(
                found, **{name: _common(value, getattr(other, name)) for name, value in found._parts().items()}
            )
        return found

    def _parts(self) -> dict[str, Any]:
        """What decides which values fit, by the names of the attributes."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.compare}

    def _agrees(self, other: Any, shapes_agree: Callable[[TensorShape, TensorShape], bool]) -> bool:
        if type(other) is not type(self):
            return False
        pairs = [(value, getattr(other, name)) for name, value in self._parts().items() if name != "name"]
        return all(_part_agrees(one, another, shapes_agree) for one, another in pairs)

    def _convert(self, **parts: Any) -> None:
        """Set the attributes of a new description."""
        for name, value in parts.items():
            object.__setattr__(self, name, value)


def _is_within(shape: TensorShape, other: TensorShape) -> bool:
    return bool(shape.most_specific_compatible_shape(other) == other)


def _part_agrees(one: Any, other: Any, shapes_agree: Callable[[TensorShape, TensorShape], bool]) -> bool:
    if isinstance(one, TensorShape) and isinstance(other, TensorShape):
        return shapes_agree(one, other)
    if isinstance(one, TypeSpec):
        return one._agrees(other, shapes_agree)
    if isinstance(one, (tuple, dict)):
        return type(one) is type(other) and _parts_agree(one, other, shapes_agree)
    return bool(one == other)


def _parts_agree(one: Any, other: Any, shapes_agree: Callable[[TensorShape, TensorShape], bool]) -> bool:
    if len(one) != len(other) or (isinstance(one, dict) and one.keys() != other.keys()):
        return False
    pairs = zip(_items(one), _items(other), strict=True)
    return all(_part_agrees(a, b, shapes_agree) for a, b in pairs)


def _items(structure: Any) -> list[Any]:
    return [structure[key] for key in sorted(structure)] if isinstance(structure, dict) else list(structure)


def _common(one: Any, other: Any) -> Any:
    if isinstance(one, TensorShape):
        return one.most_specific_compatible_shape(other)
    if isinstance(one, TypeSpec):
        return one.most_specific_compatible_type(other)
    if isinstance(one, dict):
        return {key: _common(one[key], other[key]) for key in one}
    if isinstance(one, tuple):
        items = [_common(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)._make(items) if hasattr(one, "_make") else tuple(items)
    return one if one == other else None


@dataclasses.dataclass(frozen=True)
class TensorSpec(TypeSpec):
    """A tensor of a dtype and a shape.

    Args:
        shape: the shape; None if it is unknown.
        dtype: the dtype.
        name: a name for the tensor, which tells nothing of its values.

    Examples:
        >>> spec = af.TensorSpec([None, 2], af.int32)
        >>> spec.is_compatible_with(af.constant([[1, 2]]))
        True
        >>> spec.is_compatible_with(np.zeros(2, np.int32))
        False
    """

    shape: TensorShape
    dtype: DType = dtypes.float32
    name: str | None = None

    def __init__(self, shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> None:
        self._convert(shape=as_shape(shape), dtype=as_dtype(dtype), name=name)

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return Tensor

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> "TensorSpec":
        """Return the description with the shape and dtype of another one."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> "TensorSpec":
        """Return the description of a tensor, with the name of its operation. TypeError for other values."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"from_tensor describes a tensor, not {short_repr(tensor)}")
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)


@dataclasses.dataclass(frozen=True)
class SparseTensorSpec(TypeSpec):
    """A SparseTensor of a dtype and a shape.

    Args:
        shape: the shape of the whole; None if it is unknown.
        dtype: the dtype of the values.

    Examples:
        >>> af.SparseTensorSpec([3], af.int32).is_compatible_with(af.SparseTensor([[0]], [5], [3]))
        True
    """

    shape: TensorShape
    dtype: DType = dtypes.float32

    def __init__(self, shape: ShapeLike = None, dtype: DTypeLike = dtypes.float32) -> None:
        self._convert(shape=as_shape(shape), dtype=as_dtype(dtype))

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return SparseTensor

    @classmethod
    def from_value(cls, value: Any) -> "SparseTensorSpec":
        """Return the description of a SparseTensor or its value. TypeError for other values."""
        if isinstance(value, SparseTensor):
            return cls(value.shape, value.dtype)
        if isinstance(value, SparseTensorValue):
            return cls(list(value.dense_shape), np.asarray(value.values).dtype)
        raise TypeError(f"from_value describes a SparseTensor or its value, not {short_repr(value)}")


@dataclasses.dataclass(frozen=True)
class IndexedSlicesSpec(TypeSpec):
    """IndexedSlices: rows of a tensor, and their numbers.

    Args:
        shape: the shape of the whole; None if it is unknown.
        dtype: the dtype of the rows.
        indices_dtype: the dtype of the numbers.
        dense_shape_dtype: the dtype of the tensor with the shape of the whole; None if there is no such tensor.
        indices_shape: the shape of the numbers.

    Examples:
        >>> af.type_spec_from_value(af.IndexedSlices([[1.0]], [2])).indices_dtype
        af.int32
    """

    shape: TensorShape
    dtype: DType = dtypes.float32
    indices_dtype: DType = dtypes.int64
    dense_shape_dtype: DType | None = None
    indices_shape: TensorShape = TensorShape([None])  # noqa: RUF009

    def __init__(
        self,
        shape: ShapeLike = None,
        dtype: DTypeLike = dtypes.float32,
        indices_dtype: DTypeLike = dtypes.int64,
        dense_shape_dtype: DTypeLike | None = None,
        indices_shape: ShapeLike = None,
    ) -> None:
        self._convert(
            shape=as_shape(shape),
            dtype=as_dtype(dtype),
            indices_dtype=as_dtype(indices_dtype),
            dense_shape_dtype=None if dense_shape_dtype is None else as_dtype(dense_shape_dtype),
            indices_shape=as_shape(indices_shape).with_rank(1),
        )

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return IndexedSlices


@dataclasses.dataclass(frozen=True)
class TensorArraySpec(TypeSpec):
    """A TensorArray of elements of a dtype and a shape.

    Args:
        element_shape: the shape of an element; None if it is unknown.
        dtype: the dtype of an element.
        dynamic_size: whether it grows.
        infer_shape: whether all elements have the shape of the first one.

    Examples:
        >>> af.TensorArraySpec([2]).is_compatible_with(af.TensorArray(af.float32, 3, element_shape=[2]))
        True
    """

    element_shape: TensorShape
    dtype: DType = dtypes.float32
    dynamic_size: bool = False
    infer_shape: bool = True

    def __init__(
        self,
        element_shape: ShapeLike = None,
        dtype: DTypeLike = dtypes.float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        shape, kind = as_shape(element_shape), as_dtype(dtype)
        self._convert(element_shape=shape, dtype=kind, dynamic_size=dynamic_size, infer_shape=infer_shape)

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return TensorArray

    @classmethod
    def from_value(cls, value: Any) -> "TensorArraySpec":
        """Return the description of a TensorArray. TypeError for other values."""
        if not isinstance(value, TensorArray):
            raise TypeError(f"from_value describes a TensorArray, not {short_repr(value)}")
        return cls(value.element_shape, value.dtype)


@dataclasses.dataclass(frozen=True)
class NoneTensorSpec(TypeSpec):
    """The value None, in a structure of values.

    Examples:
        >>> af.type_spec_from_value(None)
        NoneTensorSpec()
    """

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return type(None)


_DESCRIBED: Final[dict[type, Callable[[Any], TypeSpec]]] = {
    Tensor: lambda value: TensorSpec(value.shape, value.dtype),
    Variable: lambda value: TensorSpec(value.shape, value.dtype),
    SparseTensor: SparseTensorSpec.from_value,
    SparseTensorValue: SparseTensorSpec.from_value,
    IndexedSlices: lambda value: IndexedSlicesSpec(
        value.shape,
        value.dtype,
        value.indices.dtype,
        None if value.dense_shape is None else value.dense_shape.dtype,
        value.indices.shape,
    ),
    TensorArray: TensorArraySpec.from_value,
    type(None): lambda value: NoneTensorSpec(),
}


def type_spec_from_value(value: Any) -> TypeSpec:
    """Return the description of a value. TypeError if there is none.

    Args:
        value: a tensor, a variable, a SparseTensor, IndexedSlices, a TensorArray, a dataset, an optional, None, or an
            array-like value.

    Examples:
        >>> af.type_spec_from_value([[1, 2]]).shape.as_list()
        [1, 2]
    """
    for kind, describe in _DESCRIBED.items():
        if isinstance(value, kind):
            return describe(value)
    own: Any = getattr(value, "type_spec", None)
    if isinstance(own, TypeSpec):
        return own
    spec = spec_of(as_array(value))
    return TensorSpec(spec.shape, spec.dtype)
