"""A tensor stored as its elements that are not zero, each with its position."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Never

from aioflow.graph.composed import Composed, Rule
from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor
from aioflow.graph.default_session import current_session
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.operators import OPERATORS
from aioflow.lazy import Registry
from aioflow.name_hints import refuse
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, TensorShape

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph


class SparseTensor(Composed):
    """The tensor of shape `dense_shape` whose element at position `indices[i]` is `values[i]`; all others are zero.

    `indices` is an int64 matrix [n, rank], `values` a vector [n] and `dense_shape` an int64 vector [rank]. By
    convention the rows of `indices` rise lexicographically and differ; `sparse_reorder` sorts them. A fetch gives a
    `SparseTensorValue`, which may also be fed.

    Raises:
        TypeError: indices or shape are not integers.
        ValueError: the shapes of the three do not fit together.

    Examples:
        >>> sparse = af.SparseTensor(indices=[[0, 1], [1, 0]], values=[5, 6], dense_shape=[2, 3])
        >>> await session.run(af.sparse_tensor_to_dense(sparse))
        array([[0, 5, 0],
               [6, 0, 0]], dtype=int32)
    """

    __slots__ = ("__weakref__", "dense_shape", "indices", "values")
    rules: ClassVar[Registry[Rule]] = Registry()

    def __init__(self, indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> None:
        self.indices: Final[Tensor] = _integers(indices, "indices")
        self.values: Final[Tensor] = convert_to_tensor(values)
        self.dense_shape: Final[Tensor] = _integers(dense_shape, "dense_shape")
        self._check()

    def _check(self) -> None:
        count, rank = self.indices.shape.with_rank(2)
        if not self.values.shape.is_compatible_with([count]):
            raise ValueError(f"{count.value} positions need as many values, not values of shape {self.values.shape}")
        if not self.dense_shape.shape.is_compatible_with([rank]):
            raise ValueError(
                f"positions of {rank.value} numbers do not fit a dense_shape of shape {self.dense_shape.shape}"
            )

    @classmethod
    def from_value(cls, sparse_tensor_value: "SparseTensor | SparseTensorValue") -> "SparseTensor":
        """Return a SparseTensor itself, or a constant SparseTensor with that value. TypeError for other types."""
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        if not isinstance(sparse_tensor_value, SparseTensorValue):
            raise TypeError(f"neither a SparseTensor nor a SparseTensorValue: {sparse_tensor_value!r}")
        return cls(*sparse_tensor_value)

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known before a run."""
        known = self.dense_shape.spec.known
        if isinstance(known, tuple):
            return TensorShape(known)
        rank = self.indices.shape[1].value
        rank = self.dense_shape.shape[0].value if rank is None else rank
        return TensorShape(None if rank is None else (None,) * rank)

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

    def consumers(self) -> list[Operation]:
        """Return the operations that have its values as an input."""
        return self.values.consumers()

    async def eval(self, feeds: Mapping[Any, Any] | None = None, **wrong: Never) -> Any:
        """Return its value, computed by the default session. ValueError if there is no default session."""
        if wrong:
            refuse("eval", wrong)
        return await current_session().run(self, feeds)

    def _as_graph_element(self) -> Tensor:
        return self.values

    def __mul__(self, dense: TensorLike) -> "SparseTensor":
        return OPERATORS["sparse_dense_multiply"](self, dense)  # type: ignore[return-value]

    def __truediv__(self, dense: TensorLike) -> "SparseTensor":
        return OPERATORS["sparse_dense_divide"](self, dense)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<af.SparseTensor {self.name!r} {self.dtype.name}{self.shape}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.composed import composed_html

        parts = {"values": self.values, "indices": self.indices, "shape": self.dense_shape}
        return composed_html("SparseTensor", self.name, self.dtype, self.shape, parts, describe_line(self.op))


class SparseTensorValue(NamedTuple):
    """The fetched value of a `SparseTensor`, which may also be fed for one.

    Examples:
        >>> await session.run(af.SparseTensor([[0]], [5], [2]))
        SparseTensorValue(indices=array([[0]]), values=array([5], dtype=int32), dense_shape=array([2]))
    """

    indices: Array
    values: Array
    dense_shape: Array


def _integers(value: TensorLike, what: str) -> Tensor:
    """Return `value` as an int64 tensor. TypeError if it does not hold integers."""
    tensor = convert_to_tensor(value, preferred_dtype=dtypes.int64)
    if not tensor.dtype.is_integer:
        raise TypeError(f"{what} must be integers, not {tensor.dtype.name}")
    return tensor if tensor.dtype is dtypes.int64 else OPERATORS["cast"](tensor, dtypes.int64)


def _convert(value: SparseTensor, dtype: DType | None) -> Tensor:
    raise TypeError(f"{value!r} is not converted to a dense tensor automatically: use af.sparse_tensor_to_dense")


CONVERTERS[SparseTensor] = _convert
COMPOSITES[SparseTensor] = Composite(
    tensors=lambda sparse: (sparse.indices, sparse.values, sparse.dense_shape),
    join=lambda sparse, values: SparseTensorValue(*values),
    split=lambda sparse, value: tuple(value),
)
