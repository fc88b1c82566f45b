"""A tensor whose rows differ in length: the values of all rows in one tensor, and the splits between rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never

from aioflow.graph.composed import Composed, Rule
from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor
from aioflow.graph.default_session import current_session
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.operators import Operand
from aioflow.kernels.array.constants import constant
from aioflow.lazy import Registry
from aioflow.library.control import name_scope
from aioflow.library.ragged.factories import Factories
from aioflow.library.ragged.partitions import RowPartition, same_splits_dtype, splits_dtype
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.name_hints import refuse
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, TensorShape

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph
    from aioflow.graph.sparse_tensor import SparseTensor


class RaggedTensor(Factories, Operand, Composed):
    """Rows of different lengths: row i has the `values` from `row_splits[i]` on, and before `row_splits[i + 1]`.

    `values` is a tensor, or a RaggedTensor of rows of rows. A fetch gives a `RaggedTensorValue`, which may also be fed.
    Operators and functions of elements work on the values; `+` and others take a number, a RaggedTensor of the same
    rows, or a tensor that is broadcast. A class method such as `from_row_splits` makes one.

    Args:
        values: a tensor, or a RaggedTensor.
        row_partition: the rows.
        internal: true in the class methods that make one.

    Raises:
        ValueError: `internal` is false.

    Examples:
        >>> ragged = af.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 2, 2, 5])
        >>> (await session.run(ragged * 2)).to_list()
        [[6, 2], [], [8, 2, 10]]
        >>> await session.run(af.reduce_sum(ragged, axis=1))
        array([ 4,  0, 10], dtype=int32)
    """

    __slots__ = ("__weakref__", "_partition", "_values")
    rules: ClassVar[Registry[Rule]] = Registry("aioflow.library.ragged")

    def __init__(self, values: Any, row_partition: Any, internal: bool = False) -> None:
        if not internal or not isinstance(row_partition, RowPartition):
            raise ValueError("a RaggedTensor is made by a class method such as RaggedTensor.from_row_splits")
        if isinstance(values, RaggedTensor):
            same_splits_dtype(values.row_splits.dtype, row_partition.row_splits.dtype)
        elif not isinstance(values, Tensor):
            raise TypeError(f"values are a tensor or a RaggedTensor, not {type(values).__name__}")
        self._values: Final = values
        self._partition: Final = row_partition

    # Parts

    @property
    def values(self) -> Any:
        """The values of all rows: a tensor, or a RaggedTensor of rows of rows."""
        return self._values

    @property
    def row_splits(self) -> Tensor:
        """The place of the first value of each row, and the number of values: a vector [rows + 1]."""
        return self._partition.row_splits

    @property
    def row_partition(self) -> RowPartition:
        """The division of the values into rows."""
        return self._partition

    @property
    def uniform_row_length(self) -> Tensor | None:
        """The length of all rows, a scalar; None unless it was made of rows of one length."""
        return self._partition.uniform_row_length

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        found: Tensor = self._values.flat_values if isinstance(self._values, RaggedTensor) else self._values
        return found

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The splits of all ragged axes, outermost first."""
        return tuple([part.row_splits for part in self.partitions])

    @property
    def partitions(self) -> tuple[RowPartition, ...]:
        """The divisions of all ragged axes, outermost first."""
        return self._partition, *(self._values.partitions if isinstance(self._values, RaggedTensor) else ())

    @property
    def ragged_rank(self) -> int:
        """The number of axes whose rows have splits."""
        return len(self.partitions)

    @property
    def dtype(self) -> DType:
        """The dtype of the innermost values."""
        return self.flat_values.dtype

    @property
    def shape(self) -> TensorShape:
        """The number of rows, their length if it is one, else None, and the sizes of a value."""
        rows = TensorShape([self._partition.static_rows, self._partition.static_row_length])
        return rows.concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """The shape, as far as it is known before a run."""
        return self.shape

    @property
    def name(self) -> str:
        """The name of the innermost values."""
        return self.flat_values.name

    @property
    def op(self) -> Operation:
        """The operation that computes the innermost values."""
        return self.flat_values.op

    @property
    def graph(self) -> "Graph":
        """The graph of the tensors."""
        return self.flat_values.graph

    @property
    def type_spec(self) -> Any:
        """The `RaggedTensorSpec` that describes it."""
        from aioflow.library.ragged.spec import RaggedTensorSpec

        return RaggedTensorSpec.from_value(self)

    def consumers(self) -> list[Operation]:
        """Return the operations that have its values or splits as an input."""
        tensors = [self.flat_values, *self.nested_row_splits]
        return list(dict.fromkeys(found for tensor in tensors for found in tensor.consumers()))

    async def eval(self, feeds: Mapping[Any, Any] | None = None, **wrong: Never) -> Any:
        """Return its value, computed by the default session. ValueError if there is no default session."""
        if wrong:
            refuse("eval", wrong)
        return await current_session().run(self, feeds)

    # Rows

    def nrows(self, out_type: DTypeLike | None = None, name: str | None = None) -> Tensor:
        """Return the number of rows, a scalar of `out_type`, by default the dtype of the splits."""
        with name_scope(name, "RaggedNRows", [self.row_splits]):
            return self._partition.nrows(None if out_type is None else splits_dtype(out_type))

    def row_starts(self, name: str | None = None) -> Tensor:
        """Return the place of the first value of each row, a vector."""
        with name_scope(name, "RaggedRowStarts", [self.row_splits]):
            return self.row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Tensor:
        """Return the place behind the last value of each row, a vector."""
        with name_scope(name, "RaggedRowLimits", [self.row_splits]):
            return self.row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the lengths of rows along an axis: a tensor, or for an inner axis a RaggedTensor.

        ValueError unless `axis` is from 1 to the ragged rank, or the next with a size for each value.
        """
        from aioflow.library.ragged.shapes import row_lengths

        with name_scope(name, "RaggedRowLengths", [self.row_splits]):
            return row_lengths(self, axis)

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the lengths of rows along all ragged axes, outermost first, as vectors."""
        with name_scope(name, "RaggedNestedRowLengths", [self.row_splits]):
            return tuple([part.lengths() for part in self.partitions])

    def value_rowids(self, name: str | None = None) -> Tensor:
        """Return the row of each value, a vector."""
        with name_scope(name, "RaggedValueRowIds", [self.row_splits]):
            return self._partition.value_rowids()

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the row of each value along all ragged axes, outermost first, as vectors."""
        with name_scope(name, "RaggedNestedValueRowIds", [self.row_splits]):
            return tuple([part.value_rowids() for part in self.partitions])

    def bounding_shape(
        self, axis: TensorLike | None = None, name: str | None = None, out_type: DTypeLike | None = None
    ) -> Tensor:
        """Return the sizes of the smallest tensor that contains all rows, or those of one axis or several axes."""
        from aioflow.library.ragged.shapes import bounding_shape

        with name_scope(name, "RaggedBoundingBox", [self.row_splits]):
            return bounding_shape(self, axis, self.row_splits.dtype if out_type is None else splits_dtype(out_type))

    # Other values, other splits

    def with_values(self, new_values: Any) -> "RaggedTensor":
        """Return a RaggedTensor of the same rows with other values. ValueError if their number differs."""
        values = as_ragged(new_values, self.row_splits.dtype)
        values.shape.with_rank_at_least(1)
        values.shape[:1].assert_is_compatible_with(self._values.shape[:1])
        return RaggedTensor(values, self._partition, True)

    def with_flat_values(self, new_values: Any) -> "RaggedTensor":
        """Return a RaggedTensor of the same rows with other innermost values. ValueError if their number differs."""
        inner = self._values
        return self.with_values(inner.with_flat_values(new_values) if isinstance(inner, RaggedTensor) else new_values)

    def with_row_splits_dtype(self, dtype: DTypeLike) -> "RaggedTensor":
        """Return a RaggedTensor with splits of that dtype, int32 or int64."""
        wanted, inner = splits_dtype(dtype), self._values
        if self.row_splits.dtype is wanted:
            return self
        values = inner.with_row_splits_dtype(wanted) if isinstance(inner, RaggedTensor) else inner
        return RaggedTensor(values, self._partition.with_dtype(wanted), True)

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Return it with the axes from `outer_axis` to `inner_axis` made one: a tensor if no ragged axis is left."""
        from aioflow.library.ragged.shapes import merge_dims

        return merge_dims(self, outer_axis, inner_axis)

    # Conversion

    def to_tensor(
        self, default_value: TensorLike | None = None, name: str | None = None, shape: ShapeLike = None
    ) -> Tensor:
        """Return the rows as one tensor, short ones filled with `default_value`, by default 0 or an empty string.

        `shape` gives sizes: longer rows are cut off. An axis of unknown size gets that of `bounding_shape`.
        """
        from aioflow.library.ragged.conversion import to_tensor

        with name_scope(name, "RaggedToTensor", [self.row_splits]):
            return to_tensor(self, default_value, shape)

    def to_sparse(self, name: str | None = None) -> "SparseTensor":
        """Return the SparseTensor with each value at its place."""
        from aioflow.library.ragged.conversion import to_sparse

        with name_scope(name, "RaggedToSparse", [self.row_splits]):
            return to_sparse(self)

    def __getitem__(self, key: Any) -> Any:
        """Return rows and parts of rows, as of nested lists: an integer takes a row, a slice a part of each."""
        from aioflow.library.ragged.indexing import getitem

        return getitem(self, key)

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self!r} is known only in a run: use af.cond, af.where or af.logical_and")

    if not TYPE_CHECKING:  # a checker takes what is not there for an error, as it is

        def __iter__(self) -> Any:
            raise TypeError(f"{self!r} cannot be iterated while the graph is built: take its rows by ragged[i]")

        def __len__(self) -> int:
            raise TypeError(f"{self!r} has no len(): use its .shape, or its nrows() for the value in a run")

    def _as_graph_element(self) -> Tensor:
        return self.flat_values

    def __repr__(self) -> str:
        return f"<af.RaggedTensor {self.name!r} {self.dtype.name}{self.shape}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.composed import composed_html

        splits = {f"row_splits {axis}": part for axis, part in enumerate(self.nested_row_splits, 1)}
        parts = {"values": self.flat_values, **splits}
        return composed_html("RaggedTensor", self.name, self.dtype, self.shape, parts, describe_line(self.op))


def as_ragged(value: Any, dtype: DType | None = None) -> Any:
    """Return a RaggedTensor for one or its value, and a tensor for anything else.

    ValueError if its splits have another dtype than the given one.
    """
    if isinstance(value, RaggedTensorValue):
        value = RaggedTensor.from_row_splits(as_ragged(value.values), value.row_splits, validate=False)
    if not isinstance(value, RaggedTensor):
        return convert_to_tensor(value)
    same_splits_dtype(*([value.row_splits.dtype] if dtype is None else [dtype, value.row_splits.dtype]))
    return value


def with_partitions(values: Any, partitions: Sequence[RowPartition]) -> Any:
    """Return values with these divisions around them, outermost first."""
    for part in reversed(partitions):
        values = RaggedTensor(values, part, True)
    return values


def tensors_of(ragged: RaggedTensor) -> list[Tensor]:
    """Return its innermost values, and the splits of all ragged axes, outermost first."""
    return [ragged.flat_values, *ragged.nested_row_splits]


def rebuilt(ragged: RaggedTensor, tensors: Sequence[Tensor]) -> RaggedTensor:
    """Return a RaggedTensor like another one, of the tensors of `tensors_of`."""
    values, *splits = tensors
    lengths = [part.static_row_length for part in ragged.partitions]
    parts = [
        RowPartition(each, None if length is None else constant(length, each.dtype))
        for each, length in zip(splits, lengths, strict=True)
    ]
    return with_partitions(values, parts)  # type: ignore[no-any-return]


def shapes_of_parts(shape: TensorShape, ragged_rank: int) -> list[TensorShape]:
    """Return the shapes of the tensors of `tensors_of` for a RaggedTensor of that shape, whose values may be any."""
    if shape.ndims is None:
        return [TensorShape(None), *[TensorShape([None])] * ragged_rank]
    rows = shape.with_rank_at_least(ragged_rank + 1)[0].value
    splits = [TensorShape([None if rows is None else rows + 1]), *[TensorShape([None])] * (ragged_rank - 1)]
    return [TensorShape([None]).concatenate(shape[ragged_rank + 1 :]), *splits]


def _joined(ragged: RaggedTensor, values: Sequence[Any]) -> RaggedTensorValue:
    made, *splits = values
    for each in reversed(splits):
        made = RaggedTensorValue(made, each)
    return made  # type: ignore[no-any-return]


def _parted(ragged: RaggedTensor, value: Any) -> list[Any]:
    """The arrays to feed. ValueError if the value has another ragged rank."""
    splits: list[Any] = []
    while isinstance(value, RaggedTensorValue) or (type(value) is tuple and len(value) == 2):
        value, each = value
        splits.append(each)
    if len(splits) != ragged.ragged_rank:
        raise ValueError(
            f"a RaggedTensor of ragged rank {ragged.ragged_rank} is fed a RaggedTensorValue of the same ragged rank, "
            f"not {'a value that is none' if not splits else f'of {len(splits)}'}; af.ragged.constant_value makes one"
        )
    return [value, *splits]


def _convert(value: RaggedTensor, dtype: DType | None) -> Tensor:
    raise TypeError(f"{value!r} is not converted to a dense tensor automatically: use its to_tensor()")


CONVERTERS[RaggedTensor] = _convert
COMPOSITES[RaggedTensor] = Composite(tensors=tensors_of, join=_joined, split=_parted)
