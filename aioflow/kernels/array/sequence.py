"""Ops on sequences: reverse, roll, edit distance, search, unique and set difference."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.params import renamed
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import unstack
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.dynamic_axes import order_with_last, permute
from aioflow.kernels.array.shapes import size
from aioflow.kernels.array.sorting import unique
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.sparse.sparse_parts import rows_of
from aioflow.kernels.sparse.sparse_tensors import positions
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    ANY,
    FLOAT,
    INTEGER,
    Array,
    DType,
    DTypeLike,
    Namespace,
    Spec,
    TensorShape,
    float32,
    int32,
    int64,
)
from aioflow.tensors.object_arrays import distinct_elements, make_array, take_elements, to_list

Function = Callable[..., Any]

# Turned round


@op(name="reverse_sequence")
def _reverse_sequence(input: Spec, seq_lengths: Indices, seq_axis: int, batch_axis: int) -> Spec:
    """`input` with the first `seq_lengths[b]` elements along `seq_axis` in the opposite order, for each b in the batch.

    InvalidArgumentError if a length is negative or above the size of the axis.
    """
    known.integers(seq_lengths, "seq_lengths").with_rank(1, "seq_lengths")
    seq, batch = input.axis(seq_axis), input.axis(batch_axis)
    if seq == batch:
        raise ValueError(f"seq_axis and batch_axis are both {seq}")
    size = known.size_at(input, batch)
    if not seq_lengths.shape.is_compatible_with([size]):
        raise ValueError(f"a batch of {size} needs as many lengths, not {seq_lengths.shape}")
    lengths = seq_lengths.shape.sizes
    if size is not None or lengths is None or lengths[0] is None or input.sizes is None:
        return Spec(input.dtype, input.shape)
    return Spec(input.dtype, TensorShape([lengths[0] if i == batch else each for i, each in enumerate(input.sizes)]))


@_reverse_sequence.check
def _(input: Spec | Array, seq_lengths: Spec | Array, seq_axis: int, batch_axis: int) -> None:
    sizes = known.sizes_of(input)
    if sizes is not None and not isinstance(seq_lengths, Spec):
        _check_lengths(seq_lengths, sizes[seq_axis])


def _check_lengths(lengths: Array, size: int | None) -> None:
    if lengths.size and size is not None and not 0 <= lengths.min() <= lengths.max() <= size:
        raise ValueError(f"lengths {lengths.tolist()[:20]} must be from 0 to {size}")


@_reverse_sequence.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return _reverse_sequence(dy, op.inputs[1], op.attrs["seq_axis"], op.attrs["batch_axis"]), None


_reverse_sequence.moves = True


@_reverse_sequence.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    seq_axis, batch_axis = node.attrs["seq_axis"], node.attrs["batch_axis"]

    def turned(x: Array, lengths: Array) -> Array:
        seq, batch = dtypes.normalise_axis(seq_axis, x.ndim), dtypes.normalise_axis(batch_axis, x.ndim)
        size = x.shape[seq]
        if lengths.shape != (x.shape[batch],):
            raise ValueError(f"a batch of {x.shape[batch]} needs as many lengths, not {lengths.size}")
        if xp is np:
            _check_lengths(lengths, size)
        each = lengths.astype(np.intp)[:, None]
        places = xp.arange(size)
        places = xp.where(places < each, each - 1 - places, places)  # [batch, sequence]
        order = [1] * x.ndim
        order[batch], order[seq] = x.shape[batch], size
        return xp.take_along_axis(x, (places if batch < seq else places.T).reshape(order), seq)

    return turned


@transactional
def reverse_sequence(
    input: TensorLike,
    seq_lengths: NumberLike,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """`input` with the first `seq_lengths[b]` elements along `seq_axis` reversed, for each b along `batch_axis`.

    Raises:
        ValueError: `seq_axis` is out of range, or equals `batch_axis`.

    Examples:
        >>> await session.run(af.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1))
        array([[2, 1, 3],
               [6, 5, 4]], dtype=int32)
    """
    seq = renamed("seq_axis", seq_axis, seq_dim)
    if seq is None:
        raise ValueError("reverse_sequence needs a seq_axis")
    batch = renamed("batch_axis", batch_axis, batch_dim)
    return _reverse_sequence(input, seq_lengths, seq, batch or 0, name=name)


@op
def roll(input: Spec, shift: Ints, axis: int | Sequence[int]) -> Spec:
    """`input` with the elements moved `shift` places along an axis, those pushed out at the end coming in at the begin.

    Several axes go with several shifts; of an axis named twice the shifts add up.

    Examples:
        >>> await session.run(af.roll([1, 2, 3, 4], shift=1, axis=0))
        array([4, 1, 2, 3], dtype=int32)
    """
    axes = _axes(axis)
    for each in axes:
        input.axis(each)
    known.integers(shift, "shift")
    if not shift.shape.is_compatible_with([] if isinstance(axis, int) else [len(axes)]):
        raise ValueError(f"shifts of shape {shift.shape} do not fit axis {axis}")
    return Spec(input.dtype, input.shape)


def _axes(axis: int | Sequence[int]) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else tuple(axis)


@roll.dynamic("axis")
def _(input: Tensor, shift: Tensor, axis: Tensor) -> Tensor:
    result = input
    for by, each in [(shift, axis)] if axis.spec.rank == 0 else zip(unstack(shift), unstack(axis), strict=True):
        perm = order_with_last(result, each)
        result = permute(roll(permute(result, perm), by, -1), perm, inverse=True)
    result.set_shape(input.shape)
    return result


@roll.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return roll(dy, -op.inputs[1], op.attrs["axis"]), None


roll.moves = True


@roll.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axes, shifts = _axes(node.attrs["axis"]), known.constant(node, 1)
    if shifts is not None:
        fixed = shifts if isinstance(shifts, tuple) else (shifts,)
        return lambda x, _: xp.roll(x, fixed, axes)
    return lambda x, shift: xp.roll(x, tuple(np.ravel(shift).tolist()), axes)


# Compared


@op(name="edit_distance")
def _edit_distance(
    hypothesis_indices: Ints,
    hypothesis_values: Spec,
    hypothesis_shape: Ints,
    truth_indices: Ints,
    truth_values: Spec,
    truth_shape: Ints,
    normalize: bool = True,
) -> Spec:
    """The Levenshtein distance of the sequences along the last axis of two sparse tensors: float32, without that axis.

    With `normalize` it is divided by the length of the truth: infinite if that is 0 and the hypothesis is not empty.
    """
    hypothesis_values.only(ANY).same_dtype(truth_values)
    wholes = [
        positions(hypothesis_indices, hypothesis_shape, hypothesis_values),
        positions(truth_indices, truth_shape, truth_values),
    ]
    rank = next((whole.ndims for whole in wholes if whole.ndims is not None), None)
    if rank is None:
        return Spec(float32)
    if not rank:
        raise ValueError("rank 1 or more is needed, the shape is []")
    pairs = zip(*[(whole.with_rank(rank).sizes or ())[:-1] for whole in wholes], strict=True)
    return Spec(float32, TensorShape([None if None in pair else max(pair) for pair in pairs]))


_edit_distance.no_gradient("the number of edits is an integer")


@_edit_distance.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    normalize = node.attrs["normalize"]

    def distances(*parts: Array) -> Array:
        shape = np.maximum(parts[2], parts[5])[:-1]
        hypotheses, truths = rows_of(*parts[:3]), rows_of(*parts[3:])
        result = np.zeros(shape.tolist(), np.float32)
        nothing = np.empty(0, parts[1].dtype)
        for row in hypotheses.keys() | truths.keys():
            mine, theirs = hypotheses.get(row, nothing), truths.get(row, nothing)
            count = levenshtein(mine, theirs)
            result[row] = count if not normalize else count / len(theirs) if len(theirs) else np.inf
        return result

    return distances


def levenshtein(a: Array, b: Array) -> int:
    """The least number of elements to insert, delete or replace that makes a vector another, row by row."""
    steps = np.arange(len(b) + 1)
    row = steps
    for place in range(len(a)):
        other = np.minimum(row[1:] + 1, row[:-1] + (b != a[place : place + 1]))  # NumPy cuts zeros off a lone text
        best = np.concatenate([[place + 1], other]) - steps
        row = np.minimum.accumulate(best) + steps
    return int(row[-1])


@transactional
def edit_distance(
    hypothesis: SparseTensor, truth: SparseTensor, normalize: bool = True, name: str = "edit_distance"
) -> Tensor:
    """The Levenshtein distance of each sequence of `hypothesis` to that of `truth`, both along the last axis.

    A dense float32 tensor without that axis. With `normalize` each is divided by the length of the truth: it is
    infinite where that is empty and the hypothesis is not.

    Examples:
        >>> a, b = [af.SparseTensor([[0, 0], [0, 1]], word, [1, 2]) for word in (["a", "b"], ["a", "c"])]
        >>> await session.run(af.edit_distance(a, b))
        array([0.5], dtype=float32)
    """
    first, second = SparseTensor.from_value(hypothesis), SparseTensor.from_value(truth)
    return _edit_distance(
        first.indices, first.values, first.dense_shape, second.indices, second.values, second.dense_shape, normalize,
        name=name,
    )  # fmt: skip


# Found


class ListDiff(NamedTuple):
    """The result of `setdiff1d`: the elements, and their indices."""

    out: Tensor
    idx: Tensor


@op(name="setdiff1d")
def _setdiff1d(x: T, y: T, index_dtype: DType = int32) -> tuple[Spec, Spec]:
    """The elements of the vector x that are not in the vector y, in x's order, and their places in x."""
    if index_dtype not in (int32, int64):
        raise TypeError(f"index_dtype is int32 or int64, not {index_dtype.name}")
    x.with_rank(1, "x").same_dtype(y.with_rank(1, "y"))
    shape = TensorShape.vector(None)
    return Spec(x.dtype, shape), Spec(index_dtype, shape)


_setdiff1d.no_gradient("which elements are kept jumps with their values")


@_setdiff1d.kernel(CPU, fresh=True)
def _(xp: Namespace, x: Array, y: Array, *, index_dtype: DType) -> tuple[Array, Array]:
    if x.dtype.hasobject:
        others = distinct_elements(y)
        kept = [place for place, item in enumerate(to_list(x)) if item not in others]
        places = make_array(kept, dtype=index_dtype.np)
        return take_elements(x, places), places
    places = xp.nonzero(~xp.isin(x, y))[0].astype(index_dtype.np)
    return x[places], places


def setdiff1d(x: TensorLike, y: TensorLike, index_dtype: DTypeLike = int32, name: str | None = None) -> ListDiff:
    """The elements of the vector x that are not in y, in x's order and as often as there, and their places in x.

    Examples:
        >>> await session.run(af.listdiff([1, 2, 3, 4], [2, 4]))
        ListDiff(out=array([1, 3], dtype=int32), idx=array([0, 2], dtype=int32))
    """
    return ListDiff(*_setdiff1d(x, y, index_dtype, name=name))


listdiff = setdiff1d


class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`: the distinct elements, the index of each element there, and their counts."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]


@transactional
def unique_with_counts(x: TensorLike, out_idx: DTypeLike = int32, name: str | None = None) -> UniqueWithCounts:
    """The distinct elements of a vector in the order of their first occurrence, the place of each there, their numbers.

    `y[idx[i]] == x[i]`, and `y[j]` occurs `count[j]` times in x.

    Examples:
        >>> values, _, counts = af.unique_with_counts([7, 7, 5, 7])
        >>> await session.run([values, counts])
        [array([7, 5], dtype=int32), array([3, 1], dtype=int32)]
    """
    y, idx = unique(x, out_idx, name=name)
    return UniqueWithCounts(y, idx, unsorted_segment_sum(ones_like(idx), idx, size(y)))


@op(name="searchsorted")
def _searchsorted(sorted_sequence: T, values: T, side: str = "left", out_type: DType = int32) -> Spec:
    """For each of `values` its insertion index in the last axis of `sorted_sequence`, which must be in rising order.

    On the left of equal elements, or on the right. The axes before the last are a batch, the same for both.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    if out_type not in (int32, int64):
        raise TypeError(f"out_type is int32 or int64, not {out_type.name}")
    sorted_sequence.only(INTEGER, FLOAT).same_dtype(values)
    if 0 in (sorted_sequence.rank, values.rank):
        raise ValueError("rank 1 or more is needed, the shape is []")
    if sorted_sequence.sizes is not None and values.sizes is not None:
        TensorShape(sorted_sequence.sizes[:-1]).merge_with(values.sizes[:-1])
    return Spec(out_type, values.shape)


_searchsorted.no_gradient("places do not vary smoothly")


@_searchsorted.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    side, dtype = node.attrs["side"], node.output_specs[0].dtype.np

    def found(rows: Array, values: Array) -> Array:
        if rows.shape[:-1] != values.shape[:-1]:
            raise ValueError(f"the batches of shapes {list(rows.shape)} and {list(values.shape)} differ")
        if rows.ndim == 1:
            return rows.searchsorted(values, side).astype(dtype)
        result = xp.empty(values.shape, dtype)
        for place in np.ndindex(rows.shape[:-1]):
            result[place] = rows[place].searchsorted(values[place], side)
        return result

    return found


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = int32,
    name: str | None = None,
) -> Tensor:
    """For each of `values` the place in the rising last axis of `sorted_sequence` where it could be put in.

    Examples:
        >>> await session.run(af.searchsorted([1, 3, 5], [0, 3, 4]))
        array([0, 1, 2], dtype=int32)
    """
    return _searchsorted(sorted_sequence, values, side, out_type, name=name)


_FEW: Final = 5.0
for _op in (_reverse_sequence, roll):
    costs(_op, _FEW)
