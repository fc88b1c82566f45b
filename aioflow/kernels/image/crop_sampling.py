"""Random parts of an image that contain enough of what its boxes show."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU
from aioflow.kernels.math.random import words
from aioflow.kernels.math.random_numbers import fractions
from aioflow.tensors.dtypes import Array, Spec, TensorShape, float32, float64

_FLOAT32: Final = frozenset({float32})
_WHOLE: Final = np.array([[0, 0, 1, 1]], np.float32)


@op(counted=True)
def sample_crop(
    image_size: Ints,
    boxes: Spec,
    min_object_covered: Spec,
    seed: int | None,
    seed2: int | None,
    aspect_ratio_range: Sequence[float],
    area_range: Sequence[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
) -> tuple[Spec, Spec, Spec]:
    """The begin and the size of a part of an image, and its box [top, left, bottom, right] as shares of the image."""
    if known.length(image_size, "image_size") not in (None, 3):
        raise ValueError(f"image_size is [height, width, channels], not of the shape {image_size.shape}")
    if boxes.only(_FLOAT32).with_rank(3, "bounding_boxes").shape.as_list()[2] not in (None, 4):
        raise ValueError(f"boxes have 4 coordinates each, not the shape {boxes.shape}")
    min_object_covered.only(_FLOAT32).with_rank(0, "min_object_covered")
    _check_range("aspect_ratio_range", aspect_ratio_range, math.inf)
    _check_range("area_range", area_range, 1.0)
    if max_attempts < 1:
        raise errors.InvalidArgumentError(f"max_attempts must be at least 1, not {max_attempts}")
    place = Spec(image_size.dtype, TensorShape((3,)))
    return place, place, Spec(float32, TensorShape((1, 1, 4)))


def _check_range(what: str, given: Sequence[float], most: float) -> None:
    if len(given) != 2 or not 0 < given[0] <= given[1] <= most:
        limit = "" if most == math.inf else f" and not above {most}"
        raise errors.InvalidArgumentError(f"{what} is two numbers, the lower first, above 0{limit}, not {[*given]}")


sample_crop.no_gradient("places are whole numbers")


@sample_crop.kernel(CPU, fresh=True)
def _(
    ctx: Context,
    image_size: Array,
    boxes: Array,
    min_object_covered: Array,
    *,
    seed: int | None,
    seed2: int | None,
    aspect_ratio_range: Sequence[float],
    area_range: Sequence[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    node: NodeView,
) -> list[Array]:
    height, width = (int(size) for size in image_size[:2])
    if height < 1 or width < 1:
        raise errors.InvalidArgumentError(f"an image of {height} x {width} pixels has no parts")
    least = float(min_object_covered)
    if not least >= 0:
        raise errors.InvalidArgumentError(f"min_object_covered must be at least 0, not {least}")
    shares = fractions(words(ctx, node, seed, seed2, 4 * max_attempts), float64.np, 53).reshape(4, max_attempts)
    crops = _crops(height, width, aspect_ratio_range, area_range, shares)
    covered = _covered(crops, _checked(boxes, use_image_if_no_bounding_boxes) * [height, width, height, width])
    fitting = crops[(covered >= least).any(1) | (least == 0)]
    top, left, bottom, right = fitting[0].tolist() if len(fitting) else (0, 0, height, width)
    made = [[top, left, 0], [bottom - top, right - left, -1]]
    box = np.array([top / height, left / width, bottom / height, right / width], np.float32)
    return [np.array(part).astype(image_size.dtype) for part in made] + [box.reshape(1, 1, 4)]


def _checked(boxes: Array, whole_if_none: bool) -> Array:
    """The boxes [count, 4]. InvalidArgumentError where there is none, or where one does not lie in the image."""
    rows = boxes.reshape(-1, 4)
    if not len(rows):
        if not whole_if_none:
            raise errors.InvalidArgumentError(
                "there are no bounding boxes: set use_image_if_no_bounding_boxes to take the whole image for one"
            )
        return _WHOLE
    wrong = ~((rows >= 0) & (rows <= 1)).all(1) | (rows[:, :2] >= rows[:, 2:]).any(1)
    if wrong.any():
        raise errors.InvalidArgumentError(
            "a bounding box is top, left, bottom and right, from 0 to 1, top above bottom and left before right, "
            f"not {rows[wrong][0].tolist()}"
        )
    return rows


def _crops(height: int, width: int, ratios: Sequence[float], areas: Sequence[float], shares: Array) -> Array:
    """For each attempt that finds one, a part of the image: top, left, bottom and right, in pixels.

    Ratios of width to height are as likely as one another, so are the heights with which the area fits, and the places.
    """
    whole = height * width
    ratio = ratios[0] + (ratios[1] - ratios[0]) * shares[0]
    low = np.maximum(np.ceil(np.sqrt(areas[0] * whole / ratio) - 0.5), 1)
    high = np.minimum.reduce([
        np.floor(np.sqrt(areas[1] * whole / ratio) + 0.5), np.floor((width + 0.5) / ratio), np.full_like(low, height)
    ])  # fmt: skip
    tall = low + np.floor((high - low + 1) * shares[1])
    wide = np.floor(tall * ratio + 0.5)
    area = tall * wide
    fits = (low <= high) & (wide >= 1) & (wide <= width) & (tall <= height)
    fits &= (area >= areas[0] * whole) & (area <= areas[1] * whole)
    top, left = np.floor((height - tall + 1) * shares[2]), np.floor((width - wide + 1) * shares[3])
    return np.stack([top, left, top + tall, left + wide], 1)[fits].astype(np.int64)


def _covered(crops: Array, boxes: Array) -> Array:
    """The share of each box, in pixels, that lies in each part: [parts, boxes]."""
    part, box = crops[:, None], boxes[None]
    common = (np.minimum(part[..., 2:], box[..., 2:]) - np.maximum(part[..., :2], box[..., :2])).clip(0).prod(2)
    return common / (box[..., 2:] - box[..., :2]).prod(2)
