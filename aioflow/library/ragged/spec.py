"""Descriptions of RaggedTensors."""

import dataclasses
from typing import Any

from aioflow.library.ragged.partitions import splits_dtype
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.library.type_specs import TensorSpec, TypeSpec
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, TensorShape, as_dtype, as_shape
from aioflow.tensors.recursion import short_repr


@dataclasses.dataclass(frozen=True)
class RaggedTensorSpec(TypeSpec):
    """A RaggedTensor of a dtype, a shape and a ragged rank.

    Args:
        shape: the shape, with None for ragged axes; None if it is unknown.
        dtype: the dtype of the innermost values.
        ragged_rank: the number of ragged axes; by default all of the shape but the first.
        row_splits_dtype: the dtype of the splits, int32 or int64.
        flat_values_spec: the description of the innermost values, if they are not a tensor of that dtype.

    Raises:
        ValueError: the ragged rank is unknown, or not below the rank of the shape.

    Examples:
        >>> spec = af.RaggedTensorSpec([2, None], af.int32)
        >>> spec.is_compatible_with(af.ragged.constant([[1, 2], []]))
        True
    """

    shape: TensorShape
    dtype: DType = dtypes.float32
    ragged_rank: int = 1
    row_splits_dtype: DType = dtypes.int64
    flat_values_spec: Any = None

    def __init__(
        self,
        shape: ShapeLike = None,
        dtype: DTypeLike = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = dtypes.int64,
        flat_values_spec: Any = None,
    ) -> None:
        sizes = as_shape(shape)
        if ragged_rank is None and sizes.ndims is None:
            raise ValueError("a RaggedTensorSpec needs a shape of known rank, or ragged_rank")
        rank = max(sizes.ndims - 1, 0) if ragged_rank is None else ragged_rank  # type: ignore[operator]
        if sizes.ndims is not None and rank >= max(sizes.ndims, 1):
            raise ValueError(f"ragged_rank is {rank}, and must be below the rank of the shape, {sizes.ndims}")
        kind = as_dtype(dtype)
        if flat_values_spec is not None and flat_values_spec.dtype != kind:
            raise ValueError(f"dtype is {kind.name}, and that of flat_values_spec {flat_values_spec.dtype.name}")
        self._convert(
            shape=sizes,
            dtype=kind,
            ragged_rank=rank,
            row_splits_dtype=splits_dtype(row_splits_dtype),
            flat_values_spec=flat_values_spec,
        )

    @property
    def value_type(self) -> type:
        """The class of the values; of ragged rank 0 that of tensors."""
        return RaggedTensor if self.ragged_rank else TensorSpec(self.shape, self.dtype).value_type

    @classmethod
    def from_value(cls, value: Any) -> "RaggedTensorSpec":
        """Return the description of a RaggedTensor or its value. TypeError for other values."""
        if not isinstance(value, (RaggedTensor, RaggedTensorValue)):
            raise TypeError(f"from_value describes a RaggedTensor or its value, not {short_repr(value)}")
        kind = value.nested_row_splits[0].dtype
        return cls(TensorShape(value.shape), value.dtype, value.ragged_rank, kind)
