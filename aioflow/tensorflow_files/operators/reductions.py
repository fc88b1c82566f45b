"""Reductions along axes, positions of extremes, cumulative sums, and sums of segments."""

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_of
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, rank, reshape, shape, squeeze
from aioflow.kernels.math import reduction
from aioflow.kernels.math.broadcasting import sum_to_shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, logical_not
from aioflow.kernels.math.cumulative import cumprod, cumsum
from aioflow.kernels.math.reduction import reduce_any
from aioflow.library.arrays import where_v2
from aioflow.tensorflow_files.call import Call, is_known, known_integer, known_list
from aioflow.tensorflow_files.registry import Build, operator, same
from aioflow.tensors.dtypes import int32, int64

_REDUCTIONS = {
    "Sum": "reduce_sum", "Mean": "reduce_mean", "Prod": "reduce_prod", "Max": "reduce_max", "Min": "reduce_min",
    "All": "reduce_all", "Any": "reduce_any", "EuclideanNorm": "reduce_euclidean_norm",
}  # fmt: skip

same(
    "SegmentSum=segment_sum SegmentMean=segment_mean SegmentMax=segment_max SegmentMin=segment_min "
    "SegmentProd=segment_prod UnsortedSegmentSum=unsorted_segment_sum UnsortedSegmentMax=unsorted_segment_max "
    "UnsortedSegmentMin=unsorted_segment_min UnsortedSegmentProd=unsorted_segment_prod"
)


def _reduction(name: str) -> Build:
    def build(call: Call, x: Tensor, axes: Tensor) -> Tensor:
        if name == "reduce_sum" and not (_are_all(axes) or is_known(axes)):
            return _summed(x, axes, call.flag("keep_dims", False))
        along = None if _are_all(axes) else known_list(axes, "axes")
        made: Tensor = REGISTRY[name](x, along, call.flag("keep_dims", False), name=call.name)
        return made

    return build


def _summed(x: Tensor, axes: Tensor, keep: bool) -> Tensor:
    """The sum of a tensor along axes that a run finds, as those of a gradient of broadcasting."""
    sizes = shape(x)
    taken = reduce_any(equal(expand_dims(range_of(rank(x)), 1), expand_dims(cast(axes, int32), 0)), 1)
    summed = sum_to_shape(x, where_v2(taken, 1, sizes))
    return summed if keep else reshape(summed, gather(sizes, squeeze(where(logical_not(taken)), [1])))


def _are_all(axes: Tensor) -> bool:
    """Whether these are all axes of a tensor whose rank is unknown: the range up to its rank."""
    return axes.op.type == "range" and axes.op.inputs[1].op.type == "rank"


for _op, _name in _REDUCTIONS.items():
    operator(_op)(_reduction(_name))


@operator("ArgMax")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    output_type = call.dtype("output_type", int64)
    return reduction.argmax(x, known_integer(axis, "axis"), output_type=output_type, name=call.name)


@operator("ArgMin")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    output_type = call.dtype("output_type", int64)
    return reduction.argmin(x, known_integer(axis, "axis"), output_type=output_type, name=call.name)


@operator("Cumsum")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    ways = call.flag("exclusive", False), call.flag("reverse", False)
    return cumsum(x, known_integer(axis, "axis"), *ways, name=call.name)


@operator("Cumprod")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    ways = call.flag("exclusive", False), call.flag("reverse", False)
    return cumprod(x, known_integer(axis, "axis"), *ways, name=call.name)
