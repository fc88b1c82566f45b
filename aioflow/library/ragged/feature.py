"""Features of examples that become RaggedTensors."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import boolean_mask, where
from aioflow.kernels.array.shapes import reshape, shape, size
from aioflow.kernels.control.assertions import assert_equal, assert_non_negative
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.math.unsorted_segments import unsorted_segment_max
from aioflow.library.ragged.partitions import RowPartition, checked, splits_dtype, splits_of
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import DType, int32, int64
from aioflow.tensors.recursion import safe_repr


@dataclasses.dataclass(frozen=True)
class RaggedFeature:
    """A feature with any number of values, divided into rows by other features: a RaggedTensor.

    Without partitions it is a vector of one example, and a RaggedTensor with a row for each of several examples.

    Attributes:
        dtype: the dtype of the values: int64, float32 or string.
        value_key: the feature that holds the values; by default the key of this feature.
        partitions: what divides the values into rows, outermost first: `RaggedFeature.RowSplits(key)`, `RowLengths`,
            `RowStarts`, `RowLimits`, `ValueRowIds`, or `UniformRowLength(length)`.
        row_splits_dtype: the dtype of the splits, int32 or int64.
        validate: whether the run checks that the rows fit the values.

    Raises:
        TypeError: a partition is none of these.
        ValueError: the dtype is another.

    Examples:
        >>> lengths = af.io.RaggedFeature.RowLengths("lengths")
        >>> words = {"words": af.io.RaggedFeature(af.int64, partitions=[lengths])}
        >>> example = af.io.make_example({"words": [3, 1, 4], "lengths": [2, 0, 1]})
        >>> (await session.run(af.parse_single_example(example, words)["words"])).to_list()
        [[3, 1], [], [4]]
    """

    dtype: Any
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: Any = int32
    validate: bool = False

    class RowSplits(NamedTuple):
        """The feature `key` has the splits of rows."""

        key: str

    class RowLengths(NamedTuple):
        """The feature `key` has the lengths of rows."""

        key: str

    class RowStarts(NamedTuple):
        """The feature `key` has the places at which rows begin."""

        key: str

    class RowLimits(NamedTuple):
        """The feature `key` has the places before which rows end."""

        key: str

    class ValueRowIds(NamedTuple):
        """The feature `key` has the row of each value."""

        key: str

    class UniformRowLength(NamedTuple):
        """All rows have this length."""

        length: int

    def __post_init__(self) -> None:
        splits_dtype(self.row_splits_dtype)
        for part in self.partitions:
            if not isinstance(part, (*_BY_KEY, RaggedFeature.UniformRowLength)):
                raise TypeError(f"a partition is one of RaggedFeature.RowSplits(key) and others, not {safe_repr(part)}")
            if isinstance(part, RaggedFeature.UniformRowLength) and part.length < 1:
                raise ValueError(f"UniformRowLength is of 1 or more, not {part.length}")

    def keys(self, key: str) -> Iterator[tuple[str, DType]]:
        """Yield the features that are parsed for it, and their dtypes."""
        yield self.value_key or key, self.dtype
        for part in self.partitions:
            if isinstance(part, _BY_KEY):
                yield part.key, int64


_BY_KEY = (
    RaggedFeature.RowSplits,
    RaggedFeature.RowLengths,
    RaggedFeature.RowStarts,
    RaggedFeature.RowLimits,
    RaggedFeature.ValueRowIds,
)


def ragged_result(key: str, feature: RaggedFeature, parsed: Mapping[str, SparseTensor]) -> Any:
    """Return the value of a feature, given the parsed features with the values and the rows."""
    values = parsed[feature.value_key or key]
    is_batch = values.shape.ndims != 1
    dtype = splits_dtype(feature.row_splits_dtype)
    made = _by_example(values, dtype)
    inner = True
    for part in reversed(feature.partitions):
        uniform = isinstance(part, RaggedFeature.UniformRowLength)
        inner = inner and uniform
        made = _in_equal_rows(made, part.length, inner) if uniform else _in_rows(made, part, parsed, feature, dtype)
    return made if is_batch else made.values


def _by_example(sparse: SparseTensor, dtype: DType) -> RaggedTensor:
    """Return a row for each example, or for one example one row."""
    if sparse.shape.ndims == 1:
        count = size(sparse.values, out_type=int64)
        made = RaggedTensor.from_row_lengths(sparse.values, reshape(count, [1]), validate=False)
    else:
        rows, count = sparse.indices[:, 0], sparse.dense_shape[0]
        made = RaggedTensor.from_value_rowids(sparse.values, rows, count, validate=False)
    return made.with_row_splits_dtype(dtype)


def _in_equal_rows(made: RaggedTensor, length: int, inner: bool) -> RaggedTensor:
    """Return the values of each example in rows of one length."""
    examples = RowPartition(made.row_splits // length)
    if not inner:
        return RaggedTensor(RaggedTensor.from_uniform_row_length(made.values, length), examples, True)
    values = made.values
    rows = reshape(values, concat([[-1, length], shape(values)[1:]], 0))
    return RaggedTensor(rows, examples, True)


def _in_rows(
    made: RaggedTensor, part: Any, parsed: Mapping[str, SparseTensor], feature: RaggedFeature, dtype: DType
) -> RaggedTensor:
    """Return the values of each example in rows, as another feature of the example says."""
    given = _by_example(parsed[part.key], dtype)
    lengths = _lengths(part, given.with_values(cast(given.values, dtype)), made)
    if feature.validate:
        message = f"feature {part.key!r} does not fit the values of each example"
        sums = unsorted_segment_sum(lengths.values, lengths.value_rowids(), lengths.nrows())
        flat = checked(
            lengths.values,
            [
                (assert_non_negative, (lengths.values,), message),
                (assert_equal, (sums, made.row_lengths()), message),
            ],
        )
        lengths = lengths.with_values(flat)
    rows = RaggedTensor(made.values, RowPartition(splits_of(lengths.values)), True)
    return RaggedTensor(rows, lengths.row_partition, True)


def _lengths(part: Any, given: RaggedTensor, made: RaggedTensor) -> RaggedTensor:
    """Return the lengths of the rows of each example."""
    values = given.values
    match part:
        case RaggedFeature.RowLengths():
            return given
        case RaggedFeature.ValueRowIds():
            return _counted(given)
        case RaggedFeature.RowSplits():
            return RaggedTensor(_differences(given), RowPartition(splits_of(maximum(given.row_lengths() - 1, 0))), True)
        case RaggedFeature.RowLimits():
            firsts = _is_first(given)
            before = concat([constant([0], values.dtype), values], 0)[:-1]
            return given.with_values(values - where(firsts, before * 0, before))
        case _:
            lasts = concat([_is_first(given)[1:], ones_like(values[:1], "bool")], 0)
            counts = gather(made.row_lengths(), given.value_rowids())
            after = concat([values, constant([0], values.dtype)], 0)[1:]
            return given.with_values(where(lasts, counts, after) - values)


def _is_first(given: RaggedTensor) -> Tensor:
    """Whether each value is the first of its row."""
    rows = given.value_rowids()
    return concat([ones_like(rows[:1], "bool"), not_equal(rows[1:], rows[:-1])], 0)


def _differences(given: RaggedTensor) -> Tensor:
    """Return the differences between the splits of each example, one less than splits."""
    values = given.values
    before = concat([constant([0], values.dtype), values], 0)[:-1]
    return boolean_mask(values - before, ~_is_first(given))


def _counted(given: RaggedTensor) -> RaggedTensor:
    """Return the lengths of rows from the row of each value, in each example."""
    highest = unsorted_segment_max(given.values, given.value_rowids(), given.nrows())
    counts = maximum(highest, -1) + 1
    splits = splits_of(counts)
    rows = given.values + gather(splits, given.value_rowids())
    lengths = unsorted_segment_sum(ones_like(rows), rows, splits[-1])
    return RaggedTensor(lengths, RowPartition(splits), True)
