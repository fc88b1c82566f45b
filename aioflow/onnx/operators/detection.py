"""Boxes around objects: those that overlap a better one are dropped."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, zeros
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.select import select, where
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, divide, floordiv, floormod, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, less, logical_or
from aioflow.kernels.math.reduction import argmax, reduce_max
from aioflow.library.loops import while_loop
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import scalar, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import bool_, float32, int32, int64


@operator("NonMaxSuppression", since=10)
def _(
    call: Call, boxes: Tensor, scores: Tensor, most: Tensor | None = None, overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The boxes that are kept, best first: [kept, (batch, class, box)]."""
    if most is None:
        return zeros([0, 3], int64)
    shape = sizes_of(scores)
    classes, count = shape[1], shape[2]
    corners = [_per_class(edge, shape) for edge in _edges(boxes, call.flag("center_point_box"))]
    rows = reshape(scores, stack([constant(-1, int64), count]))
    limit = minimum(cast(scalar(most), int64), count)
    bounds = [constant(0.0) if overlap is None else scalar(overlap), None if least is None else scalar(least)]
    places, kept = _picked(rows, corners, limit, bounds)
    hits = where(transpose(kept))
    row, step = hits[:, 0], hits[:, 1]
    box = gather(reshape(transpose(places), [-1]), add(multiply(row, limit), step))
    return stack([floordiv(row, classes), floormod(row, classes), box], 1)


def _edges(boxes: Tensor, centred: bool) -> list[Tensor]:
    """The lowest and highest rows, then columns, of boxes: [batch, box] each."""
    a, b, c, d = [boxes[..., index] for index in range(4)]
    if centred:
        return [subtract(b, c_half := d * 0.5), add(b, c_half), subtract(a, r_half := c * 0.5), add(a, r_half)]
    return [minimum(a, c), maximum(a, c), minimum(b, d), maximum(b, d)]


def _per_class(edge: Tensor, shape: Tensor) -> Tensor:
    """An edge of the boxes, for each batch and class: [batch * class, box]."""
    return reshape(add(expand_dims(edge, 1), zeros(shape, float32)), stack([constant(-1, int64), shape[2]]))


def _picked(
    rows: Tensor, corners: Sequence[Tensor], limit: Tensor, bounds: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor]:
    """In each step the best box that is left in each row, and whether it is kept: [step, row]."""
    overlap, least = bounds
    lowest = constant(float32.min)

    def step(i: Tensor, left: Tensor, places: TensorArray, kept: TensorArray) -> tuple[Any, ...]:
        best, top = argmax(left, 1), reduce_max(left, 1)
        alive = greater(top, lowest if least is None else maximum(least, lowest))
        dropped = logical_or(greater(_shared(corners, best), overlap), _is(best, left))
        rest = select(dropped, lowest, left)
        at = cast(i, int32)
        return add(i, constant(1, int64)), rest, places.write(at, best), kept.write(at, alive)

    arrays = [TensorArray(dtype, 0, dynamic_size=True) for dtype in (int64, bool_)]
    _, _, places, kept = while_loop(lambda i, *_: less(i, limit), step, (constant(0, int64), rows, *arrays))
    return places.stack(), kept.stack()


def _is(best: Tensor, left: Tensor) -> Tensor:
    return cast(one_hot(best, sizes_of(left)[1]), bool_)


def _shared(corners: Sequence[Tensor], best: Tensor) -> Tensor:
    """The share of the common area of each box and the best one of its row in what they cover together."""
    chosen = [gather(edge, expand_dims(best, 1), axis=1, batch_dims=1) for edge in corners]
    sides = [
        maximum(subtract(minimum(high, other_high), maximum(low, other_low)), 0.0)
        for low, high, other_low, other_high in (
            (*corners[:2], *chosen[:2]),
            (*corners[2:], *chosen[2:]),
        )
    ]
    common = multiply(*sides)
    whole = subtract(add(_area(corners), _area(chosen)), common)
    return select(greater(whole, 0.0), divide(common, maximum(whole, 1e-30)), multiply(common, 0.0))


def _area(corners: Sequence[Tensor]) -> Tensor:
    return multiply(subtract(corners[1], corners[0]), subtract(corners[3], corners[2]))
