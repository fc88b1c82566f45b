"""Reductions along axes, positions of extremes, cumulative sums, and sums of segments."""

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.math import reduction
from aioflow.kernels.math.cumulative import cumprod, cumsum
from aioflow.tensorflow_files.call import Call, known_integer, known_list
from aioflow.tensorflow_files.registry import Build, operator, same
from aioflow.tensors.dtypes import int64

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
        along = None if _are_all(axes) else known_list(axes, "axes")
        made: Tensor = REGISTRY[name](x, along, call.flag("keep_dims", False), name=call.name)
        return made

    return build


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
