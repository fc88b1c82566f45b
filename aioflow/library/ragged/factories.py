"""The class methods that make a RaggedTensor of values and the places of its rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_equal, assert_non_negative
from aioflow.kernels.math.arithmetic import maximum
from aioflow.library.control import name_scope
from aioflow.library.ragged import partitions as parts
from aioflow.library.ragged.partitions import RowPartition
from aioflow.tensors.dtypes import DType, DTypeLike, int64

if TYPE_CHECKING:
    from aioflow.graph.sparse_tensor import SparseTensor
    from aioflow.library.ragged.tensor import RaggedTensor


class Factories:
    """Base class of RaggedTensor, with the class methods that make one."""

    __slots__ = ()

    @classmethod
    @transactional
    def from_row_splits(
        cls, values: Any, row_splits: TensorLike, name: str | None = None, validate: bool = True
    ) -> "RaggedTensor":
        """Return rows with the values from `row_splits[i]` on, and before `row_splits[i + 1]`.

        Args:
            values: a tensor, or a RaggedTensor, with one value after the other along its first axis.
            row_splits: a vector [rows + 1] that begins with 0, does not fall, and ends with the number of values.
            name: the name scope.
            validate: whether the run, or now the graph if it knows the splits, checks that; else splits that do not
                fit the values give errors or wrong rows later.

        Raises:
            InvalidArgumentError: the splits do not fit the values.
            ValueError: the splits are no vector, or are empty; the values are a scalar.

        Examples:
            >>> (await session.run(af.RaggedTensor.from_row_splits([3, 1, 4], [0, 2, 2, 3]))).to_list()
            [[3, 1], [], [4]]
        """
        with name_scope(name, "RaggedFromRowSplits"):
            found, like = _values(values)
            splits = parts.integers(row_splits, "row_splits", like=like)
            if splits.shape[0].value == 0:
                raise ValueError("row_splits is empty: it has one element more than rows")
            if validate:
                splits = parts.checked_splits(splits, _count(found, splits.dtype))
            return _ragged(found, RowPartition(splits))

    @classmethod
    @transactional
    def from_row_lengths(
        cls, values: Any, row_lengths: TensorLike, name: str | None = None, validate: bool = True
    ) -> "RaggedTensor":
        """Return rows of these lengths, a vector whose sum is the number of values: see `from_row_splits`."""
        with name_scope(name, "RaggedFromRowLengths"):
            found, like = _values(values)
            lengths = parts.integers(row_lengths, "row_lengths", like=like)
            splits = _static_splits(lengths)
            if validate:
                splits = parts.checked_splits(splits, _count(found, splits.dtype))
            return _ragged(found, RowPartition(splits))

    @classmethod
    @transactional
    def from_row_starts(
        cls, values: Any, row_starts: TensorLike, name: str | None = None, validate: bool = True
    ) -> "RaggedTensor":
        """Return rows that begin at these places, a vector that begins with 0 and does not fall."""
        with name_scope(name, "RaggedFromRowStarts"):
            found, like = _values(values)
            starts = parts.integers(row_starts, "row_starts", like=like)
            count = _count(found, starts.dtype)
            splits = concat([starts, [count]], 0)
            return _ragged(found, RowPartition(parts.checked_splits(splits, count) if validate else splits))

    @classmethod
    @transactional
    def from_row_limits(
        cls, values: Any, row_limits: TensorLike, name: str | None = None, validate: bool = True
    ) -> "RaggedTensor":
        """Return rows that end before these places, a vector that does not fall and ends with the number of values."""
        with name_scope(name, "RaggedFromRowLimits"):
            found, like = _values(values)
            limits = parts.integers(row_limits, "row_limits", like=like)
            splits = concat([constant([0], limits.dtype), limits], 0)
            if validate:
                splits = parts.checked_splits(splits, _count(found, splits.dtype))
            return _ragged(found, RowPartition(splits))

    @classmethod
    @transactional
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: TensorLike,
        nrows: TensorLike | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> "RaggedTensor":
        """Return `nrows` rows, by default one more than the last of `value_rowids`, the row of each value, rising."""
        with name_scope(name, "RaggedFromValueRowIds"):
            found, like = _values(values)
            ids = parts.integers(value_rowids, "value_rowids", like=like)
            _check_rows(ids, nrows)
            rows = parts.row_count(ids, nrows)
            if validate:
                ids = parts.checked_rowids(ids, _count(found, ids.dtype), rows)
            return _ragged(found, RowPartition(parts.splits_of_ids(ids, rows), rowids=ids))

    @classmethod
    @transactional
    def from_uniform_row_length(
        cls,
        values: Any,
        uniform_row_length: TensorLike,
        nrows: TensorLike | None = None,
        validate: bool = True,
        name: str | None = None,
    ) -> "RaggedTensor":
        """Return rows of one length, which `shape` and `uniform_row_length` then tell.

        `nrows` is needed only for rows of length 0, which are otherwise none. InvalidArgumentError if the number of
        values is another.
        """
        with name_scope(name, "RaggedFromUniformRowLength"):
            found, like = _values(values)
            length = parts.integers(uniform_row_length, "uniform_row_length", rank=0, like=like)
            known = constant_value(length)
            if known is not None and known < 0:
                raise ValueError(f"uniform_row_length is {int(known)}, and must not be negative")
            count = _count(found, length.dtype)
            rows = _uniform_rows(count, length, nrows)
            splits = range_(rows + 1, dtype=length.dtype) * length
            if validate:
                message = "the values must be as many as uniform_row_length times nrows"
                splits = parts.checked(
                    splits,
                    [
                        (assert_equal, (rows * length, count), message),
                        (assert_non_negative, (length,), "uniform_row_length must not be negative"),
                    ],
                )
            return _ragged(found, RowPartition(splits, length))

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[TensorLike], name: str | None = None, validate: bool = True
    ) -> Any:
        """Return rows of rows, with the splits of each axis, outermost first; `flat_values` if there are none."""
        with name_scope(name, "RaggedFromNestedRowSplits"):
            for splits in reversed(_listed(nested_row_splits, "nested_row_splits")):
                flat_values = cls.from_row_splits(flat_values, splits, validate=validate)
            return flat_values

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[TensorLike], name: str | None = None, validate: bool = True
    ) -> Any:
        """Return rows of rows, with the row lengths of each axis, outermost first; `flat_values` if there are none."""
        with name_scope(name, "RaggedFromNestedRowlengths"):
            for lengths in reversed(_listed(nested_row_lengths, "nested_row_lengths")):
                flat_values = cls.from_row_lengths(flat_values, lengths, validate=validate)
            return flat_values

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[TensorLike],
        nested_nrows: Sequence[TensorLike] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Return rows of rows, with the row of each value and the number of rows of each axis, outermost first.

        ValueError if `nested_nrows` has another length.
        """
        ids = _listed(nested_value_rowids, "nested_value_rowids")
        rows = [None] * len(ids) if nested_nrows is None else _listed(nested_nrows, "nested_nrows")
        if len(rows) != len(ids):
            raise ValueError(f"nested_nrows has {len(rows)} numbers, nested_value_rowids {len(ids)} vectors")
        with name_scope(name, "RaggedFromNestedValueRowIds"):
            for each, count in zip(reversed(ids), reversed(rows), strict=True):
                flat_values = cls.from_value_rowids(flat_values, each, count, validate=validate)
            return flat_values

    @classmethod
    @transactional
    def from_tensor(
        cls,
        tensor: TensorLike,
        lengths: Any = None,
        padding: TensorLike | None = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: DTypeLike = int64,
    ) -> "RaggedTensor":
        """Return the rows of a tensor: whole, or their first `lengths` elements, or without `padding` at their ends.

        Args:
            tensor: a tensor of a rank above `ragged_rank`.
            lengths: the length of each row, a vector; or for rows of rows a list of vectors, outermost first.
            padding: a value of the shape of an element; those at the ends of rows are left out.
            ragged_rank: the number of axes, after the first, that become ragged.
            name: the name scope.
            row_splits_dtype: int32 or int64.

        Raises:
            ValueError: both `lengths` and `padding` are given, or the rank is too low.

        Examples:
            >>> dense = [[5, 7, 0], [0, 3, 0], [6, 0, 0]]
            >>> (await session.run(af.RaggedTensor.from_tensor(dense, padding=0))).to_list()
            [[5, 7], [0, 3], [6]]
        """
        from aioflow.library.ragged.conversion import from_tensor

        with name_scope(name, "RaggedFromTensor"):
            return from_tensor(tensor, lengths, padding, ragged_rank, parts.splits_dtype(row_splits_dtype))

    @classmethod
    @transactional
    def from_sparse(
        cls, st_input: "SparseTensor", name: str | None = None, row_splits_dtype: DTypeLike = int64
    ) -> "RaggedTensor":
        """Return the rows of a sparse matrix, whose elements lie at the beginnings of rows.

        Raises:
            InvalidArgumentError: in the run: there is a gap before an element.
            ValueError: its rank is not 2.
            TypeError: it is no SparseTensor.
        """
        from aioflow.library.ragged.conversion import from_sparse

        with name_scope(name, "RaggedFromSparse"):
            return from_sparse(st_input, parts.splits_dtype(row_splits_dtype))


def _ragged(values: Any, partition: RowPartition) -> "RaggedTensor":
    from aioflow.library.ragged.tensor import RaggedTensor

    return RaggedTensor(values, partition, True)


def _values(value: Any) -> tuple[Any, DType | None]:
    """Return values as a tensor or RaggedTensor, and the dtype of its splits. ValueError for a scalar."""
    from aioflow.library.ragged.tensor import RaggedTensor, as_ragged

    found = as_ragged(value)
    if found.shape.ndims == 0:
        raise ValueError("values must have rank 1 at least, and are a scalar")
    return found, found.row_splits.dtype if isinstance(found, RaggedTensor) else None


def _count(values: Any, dtype: DType) -> Tensor:
    """Return the number of values, a scalar of that dtype."""
    if not isinstance(values, Tensor):
        return values.nrows(dtype)  # type: ignore[no-any-return]
    known = values.shape[0].value if values.shape.ndims is not None else None
    return shape(values, out_type=dtype)[0] if known is None else constant(known, dtype)


def _static_splits(lengths: Tensor) -> Tensor:
    """Return the splits of rows of these lengths, as a constant if the graph knows them."""
    known = constant_value(lengths)
    if known is None:
        return parts.splits_of(lengths)
    return constant([0, *known.cumsum().tolist()], lengths.dtype)


def _check_rows(ids: Tensor, nrows: TensorLike | None) -> None:
    if isinstance(nrows, int) and nrows < 0:
        raise ValueError(f"nrows is {nrows}, and must not be negative")
    known = constant_value(ids)
    if isinstance(nrows, int) and known is not None and known.size and known.max() >= nrows:
        raise ValueError(f"value_rowids has row {int(known.max())}, and nrows is {nrows}")


def _uniform_rows(count: Tensor, length: Tensor, nrows: TensorLike | None) -> Tensor:
    if nrows is not None:
        return parts.integers(nrows, "nrows", rank=0, like=length.dtype)
    values, each = constant_value(count), constant_value(length)
    if values is not None and each is not None:
        return constant(int(values) // max(int(each), 1), length.dtype)
    return count // maximum(length, 1)


def _listed(value: Any, what: str) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [*value]
    raise TypeError(f"{what} must be a list of vectors, not {type(value).__name__}")
