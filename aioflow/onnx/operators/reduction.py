"""Sums, means and extremes along axes, which are an attribute or, in newer versions, an input."""

from collections.abc import Callable

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math import reduction
from aioflow.kernels.math.elementwise import abs, log, sqrt, square
from aioflow.kernels.math.reduction import argmax, argmin
from aioflow.library.branches import cond
from aioflow.onnx.call import Call
from aioflow.onnx.operators.shaping import flattened, squeezed
from aioflow.onnx.operators.values import axis_mask, axis_of, known_ints, length_of, rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64

Reduce = Callable[..., Tensor]
Change = Callable[[Tensor], Tensor]


def _declare(type: str, reduce: Reduce, before: Change | None = None, after: Change | None = None) -> None:
    """Declare an operator that changes elements, reduces along axes, and changes the results."""

    @operator(type)
    def _(call: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
        changed = x if before is None else before(x)
        result = _reduced(call, reduce, changed, axes)
        return result if after is None else after(result)


_declare("ReduceSum", reduction.reduce_sum)
_declare("ReduceMean", reduction.reduce_mean)
_declare("ReduceProd", reduction.reduce_prod)
_declare("ReduceLogSumExp", reduction.reduce_logsumexp)
_declare("ReduceLogSum", reduction.reduce_sum, None, log)
_declare("ReduceSumSquare", reduction.reduce_sum, square)
_declare("ReduceL1", reduction.reduce_sum, abs)
_declare("ReduceL2", reduction.reduce_sum, square, lambda x: _root(x))


def _root(x: Tensor) -> Tensor:
    return sqrt(x)


def _extreme(reduce: Reduce, of_bools: Reduce) -> Reduce:
    return lambda x, axis, keepdims: (of_bools if x.dtype.is_bool else reduce)(x, axis, keepdims)


_declare("ReduceMax", _extreme(reduction.reduce_max, reduction.reduce_any))
_declare("ReduceMin", _extreme(reduction.reduce_min, reduction.reduce_all))


def _reduced(call: Call, reduce: Reduce, x: Tensor, axes: Tensor | None) -> Tensor:
    keep = call.flag("keepdims", True)
    given = call.integers("axes", []) if axes is None else known_ints(axes)
    if given is None:
        assert axes is not None
        return _along(reduce, x, axes, keep, call.flag("noop_with_empty_axes"))
    if given:
        return reduce(x, given, keep)
    return x if call.flag("noop_with_empty_axes") else reduce(x, None, keep)


def _along(reduce: Reduce, x: Tensor, axes: Tensor, keep: bool, keep_all: bool) -> Tensor:
    """The reduction along axes that only the run knows: each axis in turn, if it is among them."""
    if not length_of(axes):
        return x if keep_all else reduce(x, None, keep)
    rank = rank_of(x)
    mask = axis_mask(axes, rank)
    for axis in range(rank):
        x = _if(mask[axis], reduce, x, axis)
    return x if keep else squeezed(x, axes)


def _if(wanted: Tensor, reduce: Reduce, x: Tensor, axis: int) -> Tensor:
    result: Tensor = cond(wanted, lambda: reduce(x, [axis], True), lambda: x)
    return result


# Places of extremes


def _declare_place(type: str, find: Reduce) -> None:
    @operator(type)
    def _(call: Call, x: Tensor) -> Tensor:
        axis = axis_of(call.integer("axis", 0), rank_of(x))
        found = _last(find, x, axis) if call.flag("select_last_index") else find(x, axis, output_type=int64)
        return expand_dims(found, axis) if call.flag("keepdims", True) else found


def _last(find: Reduce, x: Tensor, axis: int) -> Tensor:
    place = find(reverse(x, [axis]), axis, output_type=int64)
    size = size_at(x, axis)
    last = size - 1 if isinstance(size, Tensor) else constant(size - 1, int64)
    return last - place


_declare_place("ArgMax", argmax)
_declare_place("ArgMin", argmin)


@operator("Hardmax", since=13)
def _(call: Call, x: Tensor) -> Tensor:
    return _highest(x, axis_of(call.integer("axis", -1), rank_of(x)))


@operator("Hardmax")
def _(call: Call, x: Tensor) -> Tensor:
    rows = flattened(x, axis_of(call.integer("axis", 1), rank_of(x)))
    return reshape(_highest(rows, 1), sizes_of(x))


def _highest(x: Tensor, axis: int) -> Tensor:
    """1 at the highest element along an axis, 0 elsewhere."""
    return one_hot(argmax(x, axis, output_type=int64), size_at(x, axis), axis=axis, dtype=x.dtype)
