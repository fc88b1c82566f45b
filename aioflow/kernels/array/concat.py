"""Many tensors made one and one made many; by this also nested lists that hold tensors are made one tensor."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor, is_constant
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.dynamic_axes import order_with_last, permute
from aioflow.kernels.array.shapes import free, outputs, shape
from aioflow.kernels.families import CPU, GPU
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, Namespace, Spec, TensorShape

Function = Callable[..., Any]
_LARGE: Final = 1 << 20
"""Bytes. Larger results use the memory of earlier values again."""
_WEIGHTS: Final = 1 << 16
"""Elements of a matrix from which products with some of its rows are not slower than one with all."""


def _merged(values: Sequence[Spec]) -> TensorShape:
    whole = values[0].same_dtype(*values[1:]).shape
    for spec in values[1:]:
        whole = whole.merge_with(spec.shape)
    return whole


@op(name="concat")
def _concat(values: Sequence[T], axis: int) -> Spec:
    """The values one after the other along an axis; along all others they have the same sizes."""
    if not values:
        raise ValueError("at least one value is needed")
    rank = next((spec.rank for spec in values if spec.rank is not None), None)
    if rank is None:
        return Spec(values[0].same_dtype(*values[1:]).dtype)
    if rank == 0:
        raise ValueError("values of rank 0 cannot be concatenated; use stack")
    ranks = [spec.rank for spec in values if spec.rank is not None]
    if len(set(ranks)) > 1:
        raise ValueError(f"values of one rank are concatenated, not of ranks {', '.join(map(str, ranks))}")
    place = dtypes.normalise_axis(axis, rank)
    sizes = [known.size_at(spec, place) if spec.rank == rank else None for spec in values]
    rest = _merged([s.with_shape(known.replaced(s.sizes, place, None)) if s.sizes else s for s in values])
    assert rest.sizes is not None
    whole = known.replaced(rest.sizes, place, known.total(sizes))
    return Spec(values[0].dtype, TensorShape(whole), known.joined(values))


@_concat.dynamic("axis")
def _(values: list[Tensor], axis: Tensor) -> Tensor:
    perm = order_with_last(values[0], axis)
    return permute(_concat([permute(value, perm) for value in values], -1), perm, inverse=True)


@_concat.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, ...]:
    axis = op.attrs["axis"]
    if len(op.inputs) == 1:
        return (dy,)
    sizes = [known.size_at(tensor.spec, axis) for tensor in op.inputs]
    if sizes.count(None) > 1:
        return _split_sizes(dy, [shape(tensor)[axis] for tensor in op.inputs], axis, len(sizes))
    if _is_product_by_weights(dy) and dy.spec.axis(axis) == 1 and None not in sizes:
        a, b = dy.op.inputs
        return tuple([OPERATORS["matmul"](a, rows, transpose_b=True) for rows in _split_sizes(b, sizes, 0, len(sizes))])
    return _split_sizes(dy, [-1 if size is None else size for size in sizes], axis, len(sizes))


def _is_product_by_weights(x: Tensor) -> bool:
    """Whether x is a product with a large transposed matrix: then pieces of x are products with rows of the matrix.

    A run computes only the products that it needs. A recurrent cell multiplies its input and its state, side by side,
    by weights, and few runs need the gradient of the input.
    """
    if x.op.type != "matmul" or not x.op.attrs["transpose_b"] or x.op.attrs["transpose_a"] or x.op.attrs["adjoint_a"]:
        return False
    a, b = x.op.inputs
    matrices = a.spec.rank == b.spec.rank == 2 and b.spec.shape.is_fully_defined()
    return matrices and (b.spec.shape.num_elements() or 0) >= _WEIGHTS


_concat.moves = True


@_concat.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    whole = node.output_specs[0]
    nbytes = whole.bytes
    if xp is not np or nbytes is None or nbytes < _LARGE or whole.dtype.np.hasobject:
        return functools.partial(xp.concatenate, axis=node.attrs["axis"])
    shape: Any = whole.sizes

    def into_used_memory(values: Sequence[Array]) -> Array:
        return np.concatenate(values, node.attrs["axis"], out=BUFFERS.empty(shape, whole.dtype.np))

    return into_used_memory


@dispatching
def concat(values: TensorLike, axis: int | TensorLike, name: str | None = None) -> Tensor:
    """The concatenation of the values along an axis; their sizes along all other axes must agree.

    A single tensor counts as a list of one.

    Examples:
        >>> await session.run(af.concat([[1, 2], [3]], axis=0))
        array([1, 2, 3], dtype=int32)
    """
    return _concat(values if isinstance(values, (list, tuple)) else [values], axis, name=name)


@op(name="stack")
def _stack(values: Sequence[T], axis: int = 0) -> Spec:
    """The values, all of one shape, side by side along a new axis, which becomes `axis`."""
    if not values:
        raise ValueError("at least one value is needed")
    each = _merged(values)
    if each.sizes is None:
        return Spec(values[0].dtype)
    place = dtypes.normalise_axis(axis, len(each.sizes) + 1)
    sizes = (*each.sizes[:place], len(values), *each.sizes[place:])
    return Spec(values[0].dtype, TensorShape(sizes), known.joined(values) if not each.sizes else None)


@_stack.gradient
def _(op: Operation, dy: Tensor) -> Any:
    return unstack(dy, len(op.inputs), op.attrs["axis"])


_stack.moves = True


@_stack.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, dtype = node.attrs["axis"], node.output_specs[0].dtype.np
    if axis == 0 and not dtype.hasobject and xp is np:
        return lambda values: np.array(values, dtype)
    if axis < 0 and node.output_specs[0].rank is None:
        return lambda values: xp.stack(values, axis)
    place = dtypes.normalise_axis(axis, node.output_specs[0].rank)
    index = (*[slice(None)] * place, None)
    return lambda values: xp.concatenate([value[index] for value in values], place)


@dispatching
def stack(values: TensorLike, axis: int = 0, name: str | None = None) -> Tensor:
    """The values, all of one shape, side by side along a new axis, which becomes `axis`.

    Along the first axis a list without tensors is a constant: its numbers take one dtype. An array or a tensor counts
    as the list of its rows.

    Examples:
        >>> await session.run(af.stack([[1, 2], [3, 4]], axis=1))
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    given = isinstance(values, (list, tuple))
    if axis == 0 and is_constant(values) and not (given and not values):
        return constant(values, name=name)
    return _stack(values if given else unstack(values), axis, name=name)


@op(name="unstack")
def _unstack(value: Spec, num: int | None = None, axis: int = 0) -> tuple[Spec, ...]:
    """The slices of `value` along an axis, which they lack. `num`, their number, is needed where the size is open."""
    if value.sizes is None:
        return (Spec(value.dtype),) * _count(num, None)
    place = value.axis(axis)
    sizes = known.replaced(value.sizes, place)
    values = known.gaps(value)
    each = TensorShape(sizes)
    count = _count(num, value.sizes[place])
    return tuple([Spec(value.dtype, each, None if values is None else values[i]) for i in range(count)])


def _count(num: int | None, size: int | None) -> int:
    if num is None and size is None:
        raise ValueError("num is needed: the size of the axis is not known")
    count = dtypes.merge_sizes(size, num)
    assert count is not None
    return known.pieces(count)


@_unstack.gradient
def _(op: Operation, *dys: Tensor) -> Tensor:
    return stack(dys, op.attrs["axis"])


@_unstack.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, count = node.attrs["axis"], len(node.output_specs)
    before, after = _around(axis)
    text = (...,) if node.input_specs[0].dtype is dtypes.string and axis >= 0 else ()  # else an element would be bytes
    indexes = [(*before, place, *after, *text) for place in range(count)]

    def pieces(x: Array) -> list[Array]:
        if x.shape[axis] != count:
            raise ValueError(f"axis {axis} has size {x.shape[axis]}, not {count}")
        return [x[index] for index in indexes]

    return outputs(node, pieces)


def unstack(value: TensorLike, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Tensor]:
    """The slices of `value` along an axis, which they lack. `num`, their number, is needed where the size is open.

    Examples:
        >>> await session.run(af.unstack([[1, 2], [3, 4]]))
        [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    return list(_unstack(value, num, axis, name=name))


@op(name="split")
def _split_even(value: Spec, num: int, axis: int = 0) -> tuple[Spec, ...]:
    """`num` pieces of `value` of equal size along an axis. ValueError if the size is not a multiple of `num`."""
    if num < 1:
        raise ValueError(f"at least one piece is needed, not {num}")
    if value.sizes is None:
        return tuple([Spec(value.dtype) for _ in range(known.pieces(num))])
    place = value.axis(axis)
    size = value.sizes[place]
    if size is not None and size % num:
        raise ValueError(f"axis {axis} of size {size} cannot be split into {num} equal pieces")
    each = TensorShape(known.replaced(value.sizes, place, None if size is None else size // num))
    return tuple([Spec(value.dtype, each) for _ in range(known.pieces(num))])


@op(name="split_v")
def _split_sizes(value: Spec, size_splits: Ints, axis: int, num: int) -> tuple[Spec, ...]:
    """Pieces of `value` of the given sizes along an axis; one may be -1: the rest of the axis."""
    count = known.length(size_splits, "sizes")
    if count not in (None, num):
        raise ValueError(f"{count} sizes are given for {num} pieces")
    wanted = known.vector(size_splits, "sizes") or (None,) * known.pieces(num)
    if value.sizes is None:
        return tuple([Spec(value.dtype) for _ in range(num)])
    place = value.axis(axis)
    whole = value.sizes[place]
    sizes = wanted if None in wanted else _filled(wanted, whole)
    pieces = [known.replaced(value.sizes, place, None if size == -1 else size) for size in sizes]
    return tuple([Spec(value.dtype, TensorShape(piece)) for piece in pieces])


def _filled(sizes: Sequence[Any], whole: int | None) -> tuple[Any, ...]:
    """`sizes` with -1 replaced, if their sum `whole` is known."""
    rest = sum(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        raise ValueError(f"only one size may be -1, and no size may be lower: {list(sizes)}")
    if whole is not None and (rest > whole if -1 in sizes else rest != whole):
        raise ValueError(f"sizes {list(sizes)} do not add up to {whole}")
    return tuple(sizes) if whole is None else tuple([whole - rest if size == -1 else size for size in sizes])


@_split_even.dynamic("axis")
def _(value: Tensor, num: int, axis: Tensor) -> tuple[Tensor, ...]:
    perm = order_with_last(value, axis)
    return tuple([permute(piece, perm, inverse=True) for piece in _split_even(permute(value, perm), num, -1)])


@_split_sizes.dynamic("axis")
def _(value: Tensor, size_splits: Tensor, axis: Tensor, num: int) -> tuple[Tensor, ...]:
    perm = order_with_last(value, axis)
    pieces = _split_sizes(permute(value, perm), size_splits, -1, num)
    return tuple([permute(piece, perm, inverse=True) for piece in pieces])


def _split(x: Array, sizes: Sequence[int], before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Array]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(x[(*before, slice(start, start + size), *after)])
        start += size
    return pieces


def _around(axis: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The index entries before and after an axis, which may count from the end."""
    return ((slice(None),) * axis, ()) if axis >= 0 else ((...,), (slice(None),) * (-axis - 1))


def _even(size: int, num: int) -> list[int]:
    if size % num:
        raise ValueError(f"an axis of size {size} cannot be split into {num} equal pieces")
    return [size // num] * num


@_split_even.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, num = node.attrs["axis"], node.attrs["num"]
    before, after = _around(axis)
    size = known.size_at(node.input_specs[0], axis)
    if size is None:
        return outputs(node, lambda x: _split(x, _even(x.shape[axis], num), before, after))
    step = size // num
    indexes = [(*before, slice(start * step, (start + 1) * step), *after) for start in range(num)]
    return outputs(node, lambda x: [x[index] for index in indexes])


@_split_sizes.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, sizes = node.attrs["axis"], known.constant(node, 1)
    before, after = _around(axis)
    if sizes is not None:
        return outputs(node, lambda x, _: _split(x, _filled(sizes, x.shape[axis]), before, after))
    return outputs(node, lambda x, sizes: _split(x, _filled(sizes.tolist(), x.shape[axis]), before, after))


@_split_even.gradient
def _(op: Operation, *dys: Tensor) -> Tensor:
    return _joined(dys, op.attrs["axis"])


@_split_sizes.gradient
def _(op: Operation, *dys: Tensor) -> tuple[Tensor, None]:
    return _joined(dys, op.attrs["axis"]), None


def _joined(pieces: Sequence[Tensor], axis: int) -> Tensor:
    """The concatenation of the pieces. If they are those of a split tensor, that tensor, which needs no copy."""
    made = pieces[0].op
    whole = made.type in ("split", "split_v") and made.attrs["axis"] == axis and len(made.outputs) == len(pieces)
    if whole and all(piece is output for piece, output in zip(pieces, made.outputs, strict=True)):
        return made.inputs[0]
    return concat(pieces, axis)


@transactional
@dispatching
def split(
    value: TensorLike, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str | None = None
) -> list[Tensor]:
    """Pieces of `value` along an axis: a number of equal pieces, or one for each size in a list.

    A size of -1 is the rest of the axis. `num` is needed where the sizes are a tensor of unknown length.

    Raises:
        ValueError: the sizes do not match the axis.

    Examples:
        >>> await session.run(af.split([1, 2, 3, 4], 2))
        [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    if isinstance(num_or_size_splits, int) or getattr(num_or_size_splits, "shape", None) == ():
        return list(_split_even(value, num_or_size_splits, axis, name=name))
    sizes = convert_to_tensor(num_or_size_splits, preferred_dtype=dtypes.int32)
    count = num if num is not None else known.size_at(sizes.spec, 0)
    if count is None:
        raise ValueError(f"split: num is needed: the length of {sizes!r} is not known")
    return list(_split_sizes(value, sizes, axis, count, name=name))


@transactional
def _pack(value: Any, dtype: DType | None) -> Tensor:
    """Nested lists as one tensor: those that hold tensors as their stack, of the dtype of the tensors."""
    value = _numbered(value)
    wanted = dtype or _dtype_within(value)
    if wanted is None or not _has_tensor(value):
        return constant(value, wanted)
    return stack([_packed(item, wanted) for item in value])


def _numbered(value: Any) -> Any:
    """`value` with numbers for Dimensions and shapes. ValueError for a size that is not known."""
    if isinstance(value, dtypes.TensorShape):
        value = list(value)
    if isinstance(value, (list, tuple)):
        return [_numbered(item) for item in value]
    if isinstance(value, dtypes.Dimension):
        if value.value is None:
            raise ValueError("a size is not known when the graph is built: take it from af.shape(x), not from x.shape")
        return value.value
    return value


def _packed(item: Any, dtype: DType) -> Tensor:
    return _pack(item, dtype) if isinstance(item, list) else convert_to_tensor(item, dtype)


def _has_tensor(value: Any) -> bool:
    return any(map(_has_tensor, value)) if isinstance(value, list) else _dtype_within(value) is not None


def _dtype_within(value: Any) -> DType | None:
    """The dtype of the first tensor in nested lists; None without a tensor."""
    if isinstance(value, list):
        return next((found for item in value if (found := _dtype_within(item)) is not None), None)
    found = getattr(value, "dtype", None)
    return found if isinstance(found, DType) else None


CONVERTERS[list] = CONVERTERS[tuple] = _pack
for _op in (_unstack, _split_even, _split_sizes):
    free(_op)
OPERATORS.update(concat=concat, stack=stack)
