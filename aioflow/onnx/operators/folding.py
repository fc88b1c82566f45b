"""Columns of patches put together to images again."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import unravel_index
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, floordiv, multiply, subtract
from aioflow.kernels.math.comparison import greater_equal, less, logical_and
from aioflow.kernels.math.cumulative import cumprod
from aioflow.kernels.math.reduction import reduce_all, reduce_prod, reduce_sum
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import length_of, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64


@operator("Col2Im", since=18)
def _(call: Call, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Images in which each element is the sum of all elements of patches that lie on it."""
    axes = length_of(image)
    strides, dilations = (constant(call.integers(name, [1] * axes), int64) for name in ("strides", "dilations"))
    pads = call.integers("pads", [0] * 2 * axes)
    before, around = constant(pads[:axes], int64), constant(pads[:axes], int64) + constant(pads[axes:], int64)
    one = constant(1, int64)
    reach = add(multiply(subtract(block, one), dilations), one)
    counts = add(floordiv(subtract(add(image, around), reach), strides), one)
    elements = multiply(_positions(block), dilations)
    starts = subtract(multiply(_positions(counts), strides), before)
    places = add(expand_dims(elements, 1), expand_dims(starts, 0))
    inside = reduce_all(logical_and(greater_equal(places, constant(0, int64)), less(places, image)), -1)
    flat = reduce_sum(multiply(places, cumprod(image, exclusive=True, reverse=True)), -1)
    numbers = reshape(select(inside, flat, constant(-1, int64)), [-1])
    return _summed(x, numbers, image, block)


def _positions(sizes: Tensor) -> Tensor:
    """The positions of all elements of an array of these sizes, in order: [elements, axes]."""
    return transpose(unravel_index(number_range(reduce_prod(sizes)), sizes))


def _summed(x: Tensor, numbers: Tensor, image: Tensor, block: Tensor) -> Tensor:
    shape, elements = sizes_of(x), reduce_prod(block)
    channels = floordiv(shape[1], elements)
    patches = reshape(x, stack([shape[0], channels, multiply(elements, shape[2])]))
    sums = unsorted_segment_sum(transpose(patches, [2, 0, 1]), numbers, reduce_prod(image))
    return reshape(transpose(sums, [1, 2, 0]), concat([stack([shape[0], channels]), image], 0))
