"""Shapes as values, and ops that give a tensor another shape without touching its elements."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels import known
from aioflow.kernels.families import CPU, GPU, sum_to_operand
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, DTypeLike, Known, Namespace, Sizes, Spec, TensorShape, int32, int64
from aioflow.tensors.object_arrays import ravel_array

Function = Callable[..., Any]


def free(made: Op[Any]) -> Op[Any]:
    """Declare that the op moves no data, so that it costs next to nothing."""
    made.cost(lambda inputs, outputs, attrs: 0.0)
    return made


def outputs(node: NodeView, function: Function) -> Function:
    """`function`, which returns the list of the node's outputs, as a kernel, which returns a single one bare."""
    return function if len(node.output_specs) != 1 else lambda *inputs: function(*inputs)[0]


def _count_dtype(dtype: DType) -> DType:
    if dtype not in (int32, int64):
        raise TypeError(f"out_type is int32 or int64, not {dtype.name}")
    return dtype


@op
def shape(input: Spec, name: str | None = None, out_type: DType = int32) -> Spec:
    """The sizes of the axes of `input`, as a vector.

    Examples:
        >>> await session.run(af.shape([[1, 2, 3], [4, 5, 6]]))
        array([2, 3], dtype=int32)
    """
    return Spec(_count_dtype(out_type), TensorShape((input.rank,)), input.sizes)


@op(name="shape_n")
def _shape_n(input: Sequence[Spec], out_type: DType = int32) -> tuple[Spec, ...]:
    """The shapes of all inputs, one vector each."""
    return tuple([Spec(_count_dtype(out_type), TensorShape((spec.rank,)), spec.sizes) for spec in input])


@op
def size(input: Spec, name: str | None = None, out_type: DType = int32) -> Spec:
    """The number of elements of `input`.

    Examples:
        >>> await session.run(af.size([[1, 2, 3], [4, 5, 6]]))
        np.int32(6)
    """
    sizes = input.sizes or ()
    return Spec(_count_dtype(out_type), dtypes.SCALAR, 0 if 0 in sizes else input.shape.num_elements())


@op
def rank(input: Spec) -> Spec:
    """The number of axes of `input`.

    Examples:
        >>> await session.run(af.rank([[1, 2], [3, 4]]))
        np.int32(2)
    """
    return Spec(int32, dtypes.SCALAR, input.rank)


def _integers(dtype: DType) -> Callable[[int | tuple[int, ...]], Array]:
    """The function that makes an array of sizes."""
    array, kind = np.array, dtype.np

    def make(sizes: int | tuple[int, ...]) -> Array:
        try:
            return array(sizes, kind)
        except OverflowError:
            text = ", ".join(f"{size:,}" for size in (sizes if isinstance(sizes, tuple) else (sizes,)))
            raise ValueError(f"the size {text} does not fit {dtype.name}; pass out_type=af.int64") from None

    return make


@shape.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    make = _integers(node.output_specs[0].dtype)
    return lambda x: make(x.shape)


@_shape_n.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    make = _integers(node.attrs["out_type"])
    return outputs(node, lambda values: [make(value.shape) for value in values])


@size.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    make = _integers(node.output_specs[0].dtype)
    return lambda x: make(x.size)


rank.kernel(CPU, GPU, fresh=True, binds=True)(lambda xp, node: lambda x: np.array(x.ndim, np.int32))


def shape_n(input: Sequence[Any], out_type: DTypeLike = int32, name: str | None = None) -> list[Tensor]:
    """The shapes of all inputs, one vector each.

    Examples:
        >>> await session.run(af.shape_n([af.ones([2, 3]), af.ones([4])]))
        [array([2, 3], dtype=int32), array([4], dtype=int32)]
    """
    return list(_shape_n(input, out_type, name=name))


shape.of(SparseTensor)(lambda x, out_type: OPERATORS["cast"](x.dense_shape, out_type))
size.of(SparseTensor)(lambda x, out_type: OPERATORS["cast"](OPERATORS["reduce_prod"](x.dense_shape), out_type))
rank.of(SparseTensor)(lambda x: size(x.dense_shape))
for _op in (shape, _shape_n, size, rank):
    _op.on_host(outputs=True)
    free(_op).no_gradient("it depends on the shape alone")


@op
def reshape(tensor: Spec, shape: Ints) -> Spec:
    """The elements of `tensor`, last axis fastest, as an array of that shape.

    One size may be -1: it follows from the number of elements. ValueError if the sizes do not fit it.

    Examples:
        >>> await session.run(af.reshape([1, 2, 3, 4], [2, -1]))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    wanted = known.vector(shape, "shape")
    if wanted is None:
        return Spec(tensor.dtype)
    sizes = _resolved(wanted, tensor)
    whole = tensor.shape if _surely_same(sizes, wanted, tensor) else TensorShape(sizes)
    return Spec(tensor.dtype, whole, _known_as(tensor.known, sizes))


def _resolved(wanted: Sizes, tensor: Spec) -> Sizes:
    """`wanted` with the sizes that follow from the number of elements filled in; None for the others."""
    if wanted.count(-1) > 1 or any(size is not None and size < -1 for size in wanted):
        raise ValueError(f"only one size may be -1, and no size may be lower: {list(wanted)}")
    total = 0 if 0 in (tensor.sizes or ()) else tensor.shape.num_elements()
    rest = math.prod([size for size in wanted if size is not None and size != -1])
    count = wanted.count(None) + wanted.count(-1)
    if rest == 0 and -1 in wanted:
        raise ValueError(f"-1 is ambiguous for an array without elements: {list(wanted)}")
    if (total is not None and (total % rest if rest else total)) or (count == 0 and total not in (None, rest)):
        raise ValueError(f"{total} elements do not fit shape {list(wanted)}")
    fill = total // rest if count == 1 and rest and total is not None else None
    return tuple([fill if size is None or size == -1 else size for size in wanted])


def _surely_same(sizes: Sizes, wanted: Sizes, tensor: Spec) -> bool:
    """Whether the result has the tensor's shape: one open size follows from the others."""
    return sizes == tensor.sizes and sizes.count(None) <= 1 and (None not in sizes or 0 not in sizes)


def _known_as(value: Known, sizes: Sizes) -> Known:
    """A known scalar or vector as the scalar or vector it is reshaped to."""
    if value is None or len(sizes) > 1:
        return None
    flat = value if isinstance(value, tuple) else (value,)
    return flat if sizes else flat[0]


@reshape.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return reshape_to(dy, op.inputs[0]), None


def reshape_to(tensor: Tensor, like: Tensor) -> Tensor:
    """`tensor` in the shape of `like`, which a run need not keep for it if at most one size of its shape is open."""
    sizes = like.spec.sizes
    if tensor.spec.shape is like.spec.shape:
        return tensor
    if sizes is None or sizes.count(None) > 1 or (None in sizes and 0 in sizes):
        return reshape(tensor, shape(like))
    return reshape(tensor, [-1 if size is None else size for size in sizes])


def shape_of(tensor: Tensor) -> Any:
    """The shape of `tensor` for an op that takes one: a list if it is known, else a tensor."""
    return tensor.shape.as_list() if tensor.shape.is_fully_defined() else shape(tensor)


@reshape.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    sizes = known.constant(node, 1)
    if node.input_specs[0].dtype is dtypes.string:
        return lambda x, shape: ravel_array(x).reshape(_checked(np.asarray(shape).tolist()))
    if sizes is not None:
        return lambda x, _: x.reshape(sizes)
    return lambda x, shape: x.reshape(_checked(shape.tolist()))


def _checked(sizes: list[int]) -> list[int]:
    if sizes and min(sizes) < -1:  # NumPy takes any negative size for -1
        raise ValueError(f"only one size may be -1, and no size may be lower: {sizes}")
    return sizes


@op
def expand_dims(input: Spec, axis: int) -> Spec:
    """`input` with an axis of size 1 put in, which becomes `axis`; a negative one counts from the end of the result.

    Examples:
        >>> await session.run(af.expand_dims([1, 2], axis=1))
        array([[1],
               [2]], dtype=int32)
    """
    if input.rank is None or input.sizes is None:
        return Spec(input.dtype)
    place = dtypes.normalise_axis(axis, input.rank + 1)
    value = (input.known,) if isinstance(input.known, int) else None
    return Spec(input.dtype, TensorShape((*input.sizes[:place], 1, *input.sizes[place:])), value)


@expand_dims.dynamic("axis")
def _(input: Tensor, axis: Tensor) -> Tensor:
    return OPERATORS["last_axis_to"](expand_dims(input, -1), axis)


@expand_dims.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]
    every = slice(None)
    index = (*[every] * axis, None) if axis >= 0 else (..., None, *[every] * (-axis - 1))
    return lambda x: x[index]


@op
def squeeze(input: Spec, axis: int | Sequence[int] | None = None) -> Spec:
    """`input` without its axes of size 1, or without those named. ValueError if one named has another size.

    Examples:
        >>> await session.run(af.squeeze([[[1], [2]]]))
        array([1, 2], dtype=int32)
    """
    axes = squeezed_axes(axis)
    sizes = input.sizes
    if sizes is None or (not axes and None in sizes):
        return Spec(input.dtype)
    dropped = {input.axis(item) for item in axes} if axes else {i for i, size in enumerate(sizes) if size == 1}
    for place in dropped:
        if sizes[place] not in (None, 1):
            raise ValueError(f"axis {place} has size {sizes[place]}, and only axes of size 1 can be squeezed")
    left = tuple([size for place, size in enumerate(sizes) if place not in dropped])
    return Spec(input.dtype, TensorShape(left) if dropped else input.shape, _known_as(input.known, left))


def squeezed_axes(axis: Any) -> tuple[int, ...] | None:
    """The axes named, None if all of size 1 are meant."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    return axes or None


@squeeze.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axes = squeezed_axes(node.attrs["axis"])
    return lambda x: x.squeeze(axes)


for _op in (expand_dims, squeeze):

    @_op.gradient
    def _(op: Operation, dy: Tensor) -> Tensor:
        return reshape_to(dy, op.inputs[0])


@op
def broadcast_to(input: Spec, shape: Ints) -> Spec:
    """`input` repeated along axes of size 1, and along new axes in front, to have that shape.

    Examples:
        >>> await session.run(af.broadcast_to([1, 2], [2, 2]))
        array([[1, 2],
               [1, 2]], dtype=int32)
    """
    whole = known.shape(shape)
    if whole.sizes is None or input.sizes is None:
        return Spec(input.dtype, whole)
    missing = len(whole.sizes) - len(input.sizes)
    if missing < 0:
        raise ValueError(f"shape {input.shape} cannot be broadcast to {whole}, which has fewer axes")
    padded = (1,) * missing + input.sizes
    sizes = [_stretched(size, to) for size, to in zip(padded, whole.sizes, strict=True)]
    if -1 in sizes:
        raise ValueError(f"shape {input.shape} cannot be broadcast to {whole}")
    return Spec(input.dtype, input.shape if None not in sizes and tuple(sizes) == input.sizes else TensorShape(sizes))


def _stretched(size: int | None, to: int | None) -> int | None:
    if size in (None, 1):
        return to
    return size if to in (None, size) else -1


@broadcast_to.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, None]:
    return sum_to_operand(op.inputs[0], dy), None


@broadcast_to.kernel(GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    sizes = known.constant(node, 1)
    if sizes is not None:
        return lambda x, _: xp.broadcast_to(x, sizes)
    return lambda x, shape: xp.broadcast_to(x, shape.tolist())


@broadcast_to.kernel(CPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    sizes, dtype = known.constant(node, 1), node.input_specs[0].dtype.np
    if node.input_specs[0].rank != 0 or dtype.hasobject:
        return lambda x, shape: np.broadcast_to(x, shape.tolist() if sizes is None else sizes)
    if sizes is None:
        return lambda x, shape: np.ndarray(shape.tolist(), dtype, x, 0, (0,) * shape.size)
    still = (0,) * len(sizes)
    return lambda x, _: np.ndarray(sizes, dtype, x, 0, still)  # seven times as fast as NumPy's general function


for _op in (reshape, expand_dims, squeeze, broadcast_to):
    free(_op)
OPERATORS.update(
    shape=shape, size=size, rank=rank, reshape=reshape, expand_dims=expand_dims, squeeze=squeeze,
    broadcast_to=broadcast_to,
)  # fmt: skip
