"""The highest element of each window of an image together with where it is, and the gradients that go there."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.math.segments import add_rows, check_range
from aioflow.kernels.nn.activation import Function, same_shape
from aioflow.kernels.nn.pooling import Pool, hits
from aioflow.kernels.nn.windows import per_axis
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, DType, DTypeLike, Namespace, Spec, as_dtype, int32, int64
from aioflow.tensors.recursion import safe_repr


@op(name="max_pool_with_argmax")
def _max_pool_with_argmax(
    input: Spec,
    ksize: Any,
    strides: Any,
    padding: Any,
    Targmax: DType = int64,
    include_batch_in_index: bool = False,
) -> tuple[Spec, Spec]:
    """The highest element of each window, and its index in the flattened image, the first if there are several.

    Element [b, y, x, c] has index (y * width + x) * channels + c, plus b * height * width * channels if
    `include_batch_in_index`.
    """
    if Targmax not in (int32, int64):
        raise TypeError(f"indices are int32 or int64, not {Targmax.name}")
    pooled = _pool(ksize, strides, padding).spec(input.only(FLOAT, INTEGER))
    return pooled, pooled.with_dtype(Targmax)


def _pool(ksize: Any, strides: Any, padding: Any) -> Pool:
    return Pool(2, ksize, strides=strides, padding=padding, data_format="NHWC")


@op
def max_pool_grad_with_argmax(
    input: T, grad: T, argmax: Spec, ksize: Any, strides: Any, padding: Any, include_batch_in_index: bool = False
) -> Spec:
    """`grad` added where `argmax` points in images of the shape of `input`: the gradient of `max_pool_with_argmax`."""
    _pool(ksize, strides, padding).check_spec(input.only(FLOAT, INTEGER).same_dtype(grad), grad)
    same_shape(grad, argmax.only(INTEGER))
    return Spec(input.dtype, input.shape)


@op
def max_pool_grad_grad_with_argmax(
    input: T, grad: T, argmax: Spec, ksize: Any, strides: Any, padding: Any, include_batch_in_index: bool = False
) -> Spec:
    """The elements of `grad`, of the shape of `input`, that `argmax` points to."""
    input.only(FLOAT, INTEGER).same_dtype(grad)
    same_shape(input, grad)
    _pool(ksize, strides, padding).check_spec(input, argmax.only(INTEGER))
    return Spec(input.dtype, argmax.shape)


@_max_pool_with_argmax.gradient
def _(op: Operation, dy: Tensor, _: Any) -> Tensor:
    attrs = {name: value for name, value in op.attrs.items() if name != "Targmax"}
    return max_pool_grad_with_argmax(op.inputs[0], dy, op.outputs[1], **attrs)


@max_pool_grad_with_argmax.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor, None]:
    x, _, argmax = op.inputs
    return None, max_pool_grad_grad_with_argmax(x, dz, argmax, **op.attrs), None


@max_pool_grad_grad_with_argmax.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor, None]:
    x, _, argmax = op.inputs
    return None, max_pool_grad_with_argmax(x, dz, argmax, **op.attrs), None


@_max_pool_with_argmax.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    attrs, dtype = node.attrs, node.output_specs[0].dtype
    pool = _pool(attrs["ksize"], attrs["strides"], attrs["padding"])
    lowest = dtype.np.type(-math.inf if dtype.is_floating else dtype.min)

    def compute(x: Array) -> tuple[Array, Array]:
        pool.sizes(x.shape)  # an error for another rank
        highest = y = pool.fold(xp, xp.maximum, x, lowest)
        indices = xp.zeros(y.shape, attrs["Targmax"].np)
        numbers = xp.arange(math.prod(x.shape[1:]), dtype=indices.dtype).reshape(1, *x.shape[1:])
        if dtype.is_floating and (xp is not np or xp.isnan(y).any()):  # NaN equals nothing, and is the highest
            x, y = [xp.where(xp.isnan(values), dtype.np.type(math.inf), values) for values in (x, y)]
        for place, seen, hit in hits(xp, x, y, pool):
            part = indices[place]
            part[...] = xp.where(hit, numbers[seen], part)
        if attrs["include_batch_in_index"]:
            indices += _firsts(xp, x.shape, indices.dtype)
        return highest, indices

    return compute


def _firsts(xp: Namespace, shape: tuple[int, ...], dtype: Any) -> Array:
    """The number of the first element of each image."""
    first = xp.arange(shape[0], dtype=dtype) * math.prod(shape[1:])
    return first.reshape(-1, *[1] * (len(shape) - 1))


def _places(xp: Namespace, argmax: Array, shape: tuple[int, ...], includes_batch: bool) -> Array:
    """`argmax` as numbers of elements of all images. IndexError if one is out of range."""
    check_range(xp, argmax, math.prod(shape if includes_batch else shape[1:]))
    places = argmax.astype(np.intp)
    return places if includes_batch else places + _firsts(xp, shape, np.intp)


@max_pool_grad_with_argmax.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    includes_batch, dtype = node.attrs["include_batch_in_index"], node.output_specs[0].dtype

    def compute(x: Array, dy: Array, argmax: Array) -> Array:
        places = _places(xp, argmax, x.shape, includes_batch)
        return add_rows(xp, dy.reshape(-1), places.reshape(-1), x.size, dtype).reshape(x.shape)

    return compute


@max_pool_grad_grad_with_argmax.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    includes_batch = node.attrs["include_batch_in_index"]
    return lambda x, dx, argmax: dx.reshape(-1).take(_places(xp, argmax, x.shape, includes_batch))


def max_pool_with_argmax(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    Targmax: DTypeLike | None = None,
    name: str | None = None,
    output_dtype: DTypeLike | None = None,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """The highest element of each window of images, and its index in the flattened image.

    Args:
        input: images [batch, height, width, channels].
        ksize: the size of the window: one number, one for height and width each, or one per axis of `input`.
        strides: by how much the window moves, given as `ksize` is.
        padding: "SAME" or "VALID".
        data_format: "NHWC".
        Targmax: int32 or int64, the default: the dtype of the indices.
        name: the name of the operation.
        output_dtype: another name for `Targmax`.
        include_batch_in_index: whether images are numbered through, or each begins with index 0.

    Examples:
        >>> pooled, places = af.nn.max_pool_with_argmax(af.ones([1, 4, 4, 1]), 2, 2, "VALID")
        >>> pooled.shape
        TensorShape([1, 2, 2, 1])
    """
    if data_format != "NHWC":
        raise ValueError(f"data_format is 'NHWC', not {safe_repr(data_format)}")
    dtype = as_dtype(Targmax or output_dtype or int64)
    window, steps = per_axis(ksize, "NHWC"), per_axis(strides, "NHWC")
    pooled, argmax = _max_pool_with_argmax(input, window, steps, padding, dtype, include_batch_in_index, name=name)
    return pooled, argmax
