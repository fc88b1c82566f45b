"""A tensor stored as some of its rows, such as the gradient of a look-up in a large table."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor
from aioflow.graph.numpy_functions import Symbolic
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.operators import OPERATORS
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, TensorShape

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph


class IndexedSlices(Symbolic):
    """The tensor whose row `indices[i]` is `values[i]`; other rows are zero, and rows with the same index are added.

    `values` has shape [n, ...] and `indices` [n]; `dense_shape`, a vector, is the shape of the whole tensor, if known.
    An op that needs a tensor gets the dense form. A fetch gives an `IndexedSlicesValue`.

    Raises:
        TypeError: the indices are not integers.
        ValueError: the shapes of values and indices do not fit together.

    Examples:
        >>> table = af.Variable(af.ones([1000, 2]))
        >>> (slopes,) = af.gradients(af.gather(table, [3, 7]), table)
        >>> type(slopes).__name__, await session.run(slopes.indices)
        ('IndexedSlices', array([3, 7], dtype=int32))
    """

    __slots__ = ("__weakref__", "dense_shape", "indices", "values")

    def __init__(self, values: TensorLike, indices: TensorLike, dense_shape: TensorLike | None = None) -> None:
        self.values: Final[Tensor] = convert_to_tensor(values)
        self.indices: Final[Tensor] = convert_to_tensor(indices, preferred_dtype=dtypes.int32)
        self.dense_shape: Final[Tensor | None] = (
            None if dense_shape is None else convert_to_tensor(dense_shape, preferred_dtype=dtypes.int32)
        )
        self._check()

    def _check(self) -> None:
        if not self.indices.dtype.is_integer:
            raise TypeError(f"indices must be integers, not {self.indices.dtype.name}")
        rows, given = self.values.shape[:1], self.indices.shape
        if not given.is_compatible_with(rows) or rows == ():
            raise ValueError(f"values of shape {self.values.shape} need one index per row, not indices of {given}")

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known before a run."""
        rest = self.values.shape[1:]
        shape = TensorShape.vector(None).concatenate(rest)
        known = None if self.dense_shape is None else self.dense_shape.spec.known
        return shape.merge_with(known) if isinstance(known, tuple) else shape

    def get_shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known before a run."""
        return self.shape

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def op(self) -> Operation:
        """The operation that computes the values."""
        return self.values.op

    @property
    def graph(self) -> "Graph":
        """The graph of the tensors."""
        return self.values.graph

    @property
    def device(self) -> str:
        """The requested device, possibly partial, or an empty string."""
        return self.values.device

    def _as_graph_element(self) -> Tensor:
        return self.values

    def __repr__(self) -> str:
        return f"<af.IndexedSlices {self.name!r} {self.dtype.name}{self.shape}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.composed import composed_html

        parts = {"values": self.values, "indices": self.indices, "shape": self.dense_shape}
        return composed_html("IndexedSlices", self.name, self.dtype, self.shape, parts, describe_line(self.op))


class IndexedSlicesValue(NamedTuple):
    """The fetched value of an `IndexedSlices`, which may also be fed for one.

    Examples:
        >>> table = af.Variable(af.ones([9, 1]))
        >>> (slopes,) = af.gradients(af.gather(table, [3]), table)
        >>> (await session.run(slopes)).indices
        array([3], dtype=int32)
    """

    values: Array
    indices: Array
    dense_shape: Array | None = None


def dense(value: Tensor | IndexedSlices, like: Tensor | None = None) -> Tensor:
    """Return `value` as one dense tensor, of the shape of `like` if that is given.

    Raises:
        ValueError: neither `value` nor `like` gives the number of rows.
    """
    if isinstance(value, Tensor):
        return value
    result = OPERATORS["unsorted_segment_sum"](value.values, value.indices, _rows(value, like))
    result.set_shape(value.shape)
    return result


def _rows(value: IndexedSlices, like: Tensor | None) -> Any:
    for shape in (value.shape, None if like is None else like.shape):
        if shape and shape[0].value is not None:
            return shape[0].value
    sizes = value.dense_shape
    if sizes is None and like is not None:
        sizes = OPERATORS["shape"](like)
    if sizes is None:
        raise ValueError(f"{value!r} cannot be made one dense tensor: its dense_shape is not known")
    return OPERATORS["getitem"](sizes, 0)


def _convert(value: IndexedSlices, dtype: DType | None) -> Tensor:
    if dtype is not None and dtype is not value.dtype:
        raise TypeError(f"{value!r} has dtype {value.dtype.name}, {dtype.name} is needed; use af.cast")
    return dense(value)


def _tensors(slices: IndexedSlices) -> list[Tensor]:
    parts = [slices.values, slices.indices]
    return parts if slices.dense_shape is None else [*parts, slices.dense_shape]


CONVERTERS[IndexedSlices] = _convert
COMPOSITES[IndexedSlices] = Composite(
    tensors=_tensors,
    join=lambda slices, values: IndexedSlicesValue(*values),
    split=lambda slices, value: tuple(value)[: len(_tensors(slices))],
)
