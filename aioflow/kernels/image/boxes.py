"""Boxes in images: the best of those that overlap, and pictures of boxes.

A box is [top, left, bottom, right]; of boxes to select, any two opposite corners.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import Ints, T, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import FLOAT, Array, Namespace, Spec, TensorShape, float32, int32

_COLORS: Final = np.array([
    [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
])  # fmt: skip
"""Of boxes that are given no colors, in turn, as red, green, blue and opacity."""
Overlaps = Callable[[int], Array]
"""How much each candidate overlaps one of them, from 0 to 1."""


@op
def select_boxes(
    boxes: T, scores: T, max_output_size: Ints, iou_threshold: T, score_threshold: T, soft_nms_sigma: T
) -> tuple[Spec, Spec]:
    """The positions and scores of the boxes of the highest scores that overlap no better one too much."""
    count = boxes.only(FLOAT).with_rank(2, "boxes").sizes
    if count is not None and count[1] not in (None, 4):
        raise ValueError(f"boxes have 4 coordinates each, not the shape {boxes.shape}")
    return _selected(known.size_at(boxes, 0), scores, max_output_size)


@op
def select_by_overlaps(
    overlaps: T, scores: T, max_output_size: Ints, overlap_threshold: T, score_threshold: T
) -> tuple[Spec, Spec]:
    """The positions and scores of the highest scores that overlap no better one too much; overlaps[i, j] says it."""
    sizes = overlaps.only(FLOAT).with_rank(2, "overlaps").sizes
    if sizes is not None and None not in sizes and sizes[0] != sizes[1]:
        raise ValueError(f"overlaps are a square matrix, not of shape {overlaps.shape}")
    return _selected(known.size_at(overlaps, 0), scores, max_output_size)


def _selected(count: int | None, scores: Spec, max_output_size: Spec) -> tuple[Spec, Spec]:
    given = known.size_at(scores.with_rank(1, "scores"), 0)
    if None not in (count, given) and count != given:
        raise ValueError(f"{count} boxes need as many scores, not {given}")
    known.scalar(max_output_size, "max_output_size")
    return Spec(int32, TensorShape((None,))), Spec(scores.dtype, TensorShape((None,)))


for _op in (select_boxes, select_by_overlaps):
    _op.no_gradient("positions are whole numbers; af.gather by them has a gradient")
    costs(_op, 1000.0)


@select_boxes.kernel(CPU, fresh=True)
def _(
    xp: Namespace, boxes: Array, scores: Array, most: Array, iou: Array, least: Array, sigma: Array
) -> Sequence[Array]:
    return best(overlaps_of(boxes), scores, int(most), float(iou), float(least), float(sigma))


def overlaps_of(boxes: Array) -> Overlaps:
    """How much each of the boxes overlaps one of them: their common area as a share of their union."""
    corners = boxes.astype(np.promote_types(boxes.dtype, np.float32))
    low, high = np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])
    areas = (high - low).prod(1)

    def overlaps(best: int) -> Array:
        common = (np.minimum(high, high[best]) - np.maximum(low, low[best])).clip(0).prod(1)
        union = areas + areas[best] - common
        return np.divide(common, union, out=np.zeros_like(union), where=(areas > 0) & (areas[best] > 0))

    return overlaps


@select_by_overlaps.kernel(CPU, fresh=True)
def _(xp: Namespace, overlaps: Array, scores: Array, most: Array, threshold: Array, least: Array) -> Sequence[Array]:
    return best(lambda best: overlaps[:, best], scores, int(most), float(threshold), float(least), 0.0)


def best(
    overlaps: Overlaps, scores: Array, most: int, threshold: float, least: float, sigma: float
) -> tuple[Array, Array]:
    """The candidates of the highest scores, one after the other: each removes those that it overlaps.

    With a sigma above 0, it lowers their scores instead (Bodla and others, 2017).
    """
    if most < 0:
        raise errors.InvalidArgumentError(f"max_output_size must not be negative, it is {most}")
    left = np.where(scores > least, scores, -np.inf).astype(np.promote_types(scores.dtype, np.float32))
    found: list[int] = []
    kept: list[float] = []
    while len(found) < most and left.size:
        best = int(left.argmax())
        if left[best] <= least or left[best] == -np.inf:
            break
        found.append(best)
        kept.append(left[best])
        shares = overlaps(best)
        if sigma > 0:
            left *= np.exp(-0.5 / sigma * shares * shares)
        else:
            left[shares > threshold] = -np.inf
        left[best] = -np.inf
    return np.array(found, np.int32), np.array(kept, scores.dtype)


@op
def draw_boxes(images: Spec, boxes: Spec, colors: Spec) -> Spec:
    """The images with the outlines of their boxes, in these colors in turn; in 10 of its own where there are none."""
    images.only(frozenset({dtype for dtype in FLOAT if dtype.size <= 4})).with_rank(4, "images")
    sizes = boxes.only(frozenset({float32})).with_rank(3, "boxes").sizes
    if sizes is not None and sizes[2] not in (None, 4):
        raise ValueError(f"boxes have 4 coordinates each, not the shape {boxes.shape}")
    counts = known.size_at(images, 0), known.size_at(boxes, 0)
    if None not in counts and counts[0] != counts[1]:
        raise ValueError(f"{counts[0]} images need as many lists of boxes, not {counts[1]}")
    colors.only(frozenset({float32})).with_rank(2, "colors")
    return Spec(images.dtype, images.shape)


draw_boxes.no_gradient("lines have no derivative by their places")
costs(draw_boxes, 1.0)


@draw_boxes.kernel(CPU, fresh=True)
def _(xp: Namespace, images: Array, boxes: Array, colors: Array) -> Array:
    drawn = images.copy()
    height, width, depth = images.shape[1:]
    palette = np.ones_like(_COLORS) if depth == 1 else _COLORS
    used = (colors if len(colors) else palette)[:, :depth]
    ends = np.array([height - 1, width - 1, height - 1, width - 1], np.float32)
    for image, corners in zip(drawn, np.trunc(boxes * ends), strict=True):
        for place, corner in enumerate(corners):
            if np.isfinite(corner).all():
                _outline(image[..., : used.shape[1]], corner, used[place % len(used)])
    return drawn


def _outline(image: Array, corner: Array, color: Array) -> None:
    """Draw the sides of a box that lie in the image."""
    top, left, bottom, right = [int(number) for number in corner]
    height, width = image.shape[:2]
    if top > bottom or left > right or bottom < 0 or right < 0:
        return
    rows, columns = slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1)
    for row in {top, bottom} & {*range(height)}:
        image[row, columns] = color
    for column in {left, right} & {*range(width)}:
        image[rows, column] = color
