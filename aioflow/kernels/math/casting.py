"""One dtype to another."""

from collections.abc import Callable
from typing import overload

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.families import CPU, GPU, fitting
from aioflow.kernels.math.narrow import cast_narrow
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    FLOAT,
    INTEGER,
    NARROW,
    NUMERIC,
    Array,
    DType,
    DTypeLike,
    Known,
    Namespace,
    Spec,
    as_dtype,
)

_CASTABLE = NUMERIC | dtypes.BOOL


@op(name="cast")
def _cast(x: Spec, dtype: DType) -> Spec:
    """`x` in another dtype: fractions are cut off towards 0, imaginary parts dropped; true is 1, all but 0 is true."""
    for each in (x, Spec(dtype)):
        each.only(_CASTABLE)
    return Spec(dtype, x.shape, _known(x.known, dtype) if x.dtype.is_integer and dtype.is_integer else None)


def _known(value: Known, dtype: DType) -> Known:
    if isinstance(value, tuple):
        return tuple([fitting(item, dtype) for item in value])
    return fitting(value, dtype)


@_cast.gradient
def _(op: Operation, dy: Tensor) -> Tensor | None:
    x, y = op.inputs[0], op.outputs[0]
    return cast(dy, x.dtype) if x.dtype.is_differentiable and y.dtype.is_differentiable else None


@_cast.kernel(CPU, GPU, fresh=True, binds=True, scalar="{type}({0})")
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    source, target = node.input_specs[0].dtype, node.output_specs[0].dtype
    dtype = target.np
    if source.is_complex and not (target.is_complex or target.is_bool):
        return lambda x: x.real.astype(dtype)
    return lambda x: x.astype(dtype)


@overload
def cast(x: NumberLike, dtype: DTypeLike, name: str | None = None) -> Tensor: ...
@overload
def cast(x: SparseTensor, dtype: DTypeLike, name: str | None = None) -> SparseTensor: ...
@transactional
@dispatching
def cast(x: NumberLike | SparseTensor, dtype: DTypeLike, name: str | None = None) -> Tensor | SparseTensor:
    """`x` with that dtype, itself if it has it already; of a SparseTensor, with its values of that dtype.

    Floats become integers by cutting off the fraction; outside the range of the dtype the result is undefined. Complex
    numbers become real by dropping the imaginary part. True becomes 1. Every number but 0 becomes true, also NaN and
    denormal numbers, which TensorFlow treats as 0 in float32.

    Examples:
        >>> await session.run(af.cast([1.7, -1.7], af.int32))
        array([ 1, -1], dtype=int32)
    """
    wanted = as_dtype(dtype)
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, wanted, name), x.dense_shape)
    tensor = convert_to_tensor(x)
    if tensor.dtype is wanted:
        return tensor
    return (cast_narrow if {tensor.dtype, wanted} & NARROW else _cast)(tensor, wanted, name=name)


def to_float(x: NumberLike, name: str | None = "ToFloat") -> Tensor:
    """`x` as float32.

    Examples:
        >>> await session.run(af.to_float([1, 2]))
        array([1., 2.], dtype=float32)
    """
    return cast(x, dtypes.float32, name)


def to_double(x: NumberLike, name: str | None = "ToDouble") -> Tensor:
    """`x` as float64.

    Examples:
        >>> await session.run(af.to_double([1, 2]))
        array([1., 2.])
    """
    return cast(x, dtypes.float64, name)


def to_int32(x: NumberLike, name: str | None = "ToInt32") -> Tensor:
    """`x` as int32, fractions cut off.

    Examples:
        >>> await session.run(af.to_int32([1.7]))
        array([1], dtype=int32)
    """
    return cast(x, dtypes.int32, name)


def to_int64(x: NumberLike, name: str | None = "ToInt64") -> Tensor:
    """`x` as int64, fractions cut off.

    Examples:
        >>> await session.run(af.to_int64([1.7]))
        array([1])
    """
    return cast(x, dtypes.int64, name)


def to_bfloat16(x: NumberLike, name: str | None = "ToBFloat16") -> Tensor:
    """`x` as bfloat16.

    Examples:
        >>> await session.run(af.to_bfloat16([1.0]))
        array([1], dtype=bfloat16)
    """
    return cast(x, dtypes.bfloat16, name)


# Bits


@op
def bitcast(input: Spec, type: DType) -> Spec:
    """The same bytes, read as another dtype.

    A wider dtype takes up the last axis, which must be as long as it is wider; a narrower one adds such an axis.

    Examples:
        >>> await session.run(af.bitcast(af.constant(1.0), af.int32))
        np.int32(1065353216)
    """
    for each in (input, Spec(type)):
        each.only(NUMERIC)
    old, new = input.dtype.size, type.size
    if old == new or input.sizes is None:
        return input.with_dtype(type) if old == new else Spec(type)
    if old > new:
        return Spec(type, input.shape.concatenate((old // new,)))
    if not input.sizes or input.sizes[-1] not in (None, new // old):
        raise ValueError(f"the last axis must have size {new // old} to become {type.name}, the shape is {input.shape}")
    return Spec(type, input.shape[:-1])


bitcast.no_gradient("bits do not vary smoothly")


@bitcast.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype, old = node.output_specs[0].dtype.np, node.input_specs[0].dtype.size
    if dtype.itemsize == old:
        return lambda x: x.view(dtype)
    if dtype.itemsize < old:
        return lambda x: xp.ascontiguousarray(x).view(dtype).reshape((*x.shape, old // dtype.itemsize))

    def joined(x: Array) -> Array:
        if not x.ndim or x.shape[-1] * old != dtype.itemsize:
            raise ValueError(f"the last axis of {list(x.shape)} must have size {dtype.itemsize // old}")
        return xp.ascontiguousarray(x).view(dtype).reshape(x.shape[:-1])

    return joined


# Saturation


@op(name="saturate_to_integer")
def _saturate_to_integer(x: Spec, dtype: DType) -> Spec:
    """Floats as integers of `dtype`, cut off towards 0; beyond its limits the nearest limit, 0 for NaN."""
    if dtype not in INTEGER:
        raise TypeError(f"{dtype.name} is not an integer dtype")
    return x.only(FLOAT).with_dtype(dtype)


_saturate_to_integer.no_gradient("an integer does not vary smoothly")


@_saturate_to_integer.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype: DType = node.output_specs[0].dtype
    # 2 ** n is a float, the highest integer below it need not be.
    low, beyond = float(dtype.min), float(dtype.max + 1)

    def saturated(x: Array) -> Array:
        wide = x.astype(xp.float64)
        inside = (wide >= low) & (wide < beyond)
        result = xp.where(inside, wide, 0).astype(dtype.np)
        result = xp.where(wide >= beyond, dtype.np.type(dtype.max), result)
        return xp.where(wide < low, dtype.np.type(dtype.min), result)

    return saturated


@transactional
@dispatching
def saturate_cast(value: NumberLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """`value` cast to that dtype; elements beyond its limits become the nearest limit instead of wrapping around.

    Examples:
        >>> await session.run(af.saturate_cast([300.0, -5.0], af.uint8))
        array([255,   0], dtype=uint8)
    """
    tensor, wanted = convert_to_tensor(value), as_dtype(dtype)
    for each in (tensor.dtype, wanted):
        Spec(each).only(FLOAT, INTEGER)
    if tensor.dtype.is_floating and wanted.is_integer:
        return _saturate_to_integer(tensor, wanted, name=name)
    if float(wanted.max) < float(tensor.dtype.max):
        tensor = OPERATORS["minimum"](tensor, tensor.dtype.np.type(wanted.max))
    if float(wanted.min) > float(tensor.dtype.min):
        tensor = OPERATORS["maximum"](tensor, tensor.dtype.np.type(wanted.min))
    return cast(tensor, wanted, name)


OPERATORS.update(cast=cast, bitcast=bitcast)
