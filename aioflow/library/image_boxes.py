"""Boxes in images: the best of those that overlap (non-maximum suppression), and pictures of boxes."""

import math
from typing import Any, NamedTuple

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import size
from aioflow.kernels.image.boxes import draw_boxes, select_boxes, select_by_overlaps
from aioflow.kernels.image.combined_boxes import select_boxes_of_classes
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import float32, int32


def _selected(boxes: NumberLike, scores: NumberLike, most: NumberLike, *limits: Any) -> tuple[Tensor, Tensor]:
    """The positions and scores; `limits` are numbers of the dtype of the boxes."""
    corners = convert_to_tensor(boxes, preferred_dtype=float32)
    given = [convert_to_tensor(limit, corners.dtype) for limit in (scores, *limits)]
    places, kept = select_boxes(corners, given[0], most, *given[1:])
    return places, kept


@transactional
def non_max_suppression(
    boxes: NumberLike,
    scores: NumberLike,
    max_output_size: NumberLike,
    iou_threshold: NumberLike = 0.5,
    score_threshold: NumberLike = -math.inf,
    name: str | None = None,
) -> Tensor:
    """The positions of the boxes of the highest scores, at most `max_output_size`, int32, the best first.

    Args:
        boxes: [count, 4], two opposite corners of each.
        scores: one for each box.
        max_output_size: the most positions.
        iou_threshold: a box is left out if its common area with a better one is more than this share of their union.
        score_threshold: a box is left out if its score is not higher.
        name: the name of the scope.

    Examples:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [0.0, 2.0, 1.0, 3.0]]
        >>> (await session.run(af.image.non_max_suppression(boxes, [0.8, 0.9, 0.5], 3))).tolist()
        [1, 2]
    """
    with name_scope(name, "non_max_suppression", [boxes, scores]):
        return _selected(boxes, scores, max_output_size, iou_threshold, score_threshold, 0.0)[0]


@transactional
def non_max_suppression_with_scores(
    boxes: NumberLike,
    scores: NumberLike,
    max_output_size: NumberLike,
    iou_threshold: NumberLike = 0.5,
    score_threshold: NumberLike = -math.inf,
    soft_nms_sigma: NumberLike = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The positions as `non_max_suppression` selects them, and their scores.

    With a `soft_nms_sigma` above 0 no box is left out for its overlap: its score is multiplied by
    exp(-overlap^2 / (2 sigma)) for each better box.

    Examples:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.5]]
        >>> places, scores = af.image.non_max_suppression_with_scores(boxes, [0.9, 0.8], 2, soft_nms_sigma=0.5)
        >>> (await session.run(scores)).round(2).tolist()
        [0.8999999761581421, 0.6200000047683716]
    """
    with name_scope(name, "non_max_suppression_with_scores", [boxes, scores]):
        return _selected(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)


@transactional
def non_max_suppression_overlaps(
    overlaps: NumberLike,
    scores: NumberLike,
    max_output_size: NumberLike,
    overlap_threshold: NumberLike = 0.5,
    score_threshold: NumberLike = -math.inf,
    name: str | None = None,
) -> Tensor:
    """The positions of the highest scores, at most `max_output_size`, that overlap no better one too much.

    `overlaps` is [count, count]: how much each overlaps each other, in any measure.

    Examples:
        >>> overlaps = [[1.0, 0.7, 0.0], [0.7, 1.0, 0.2], [0.0, 0.2, 1.0]]
        >>> (await session.run(af.image.non_max_suppression_overlaps(overlaps, [0.8, 0.9, 0.5], 3))).tolist()
        [1, 2]
    """
    with name_scope(name, "non_max_suppression_overlaps", [overlaps, scores]):
        matrix = convert_to_tensor(overlaps, preferred_dtype=float32)
        given = [convert_to_tensor(value, matrix.dtype) for value in (scores, overlap_threshold, score_threshold)]
        return select_by_overlaps(matrix, given[0], max_output_size, *given[1:])[0]


@transactional
def non_max_suppression_padded(
    boxes: NumberLike,
    scores: NumberLike,
    max_output_size: NumberLike,
    iou_threshold: NumberLike = 0.5,
    score_threshold: NumberLike = -math.inf,
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The positions as `non_max_suppression` selects them, and how many they are.

    With `pad_to_max_output_size`, zeros follow them: there are `max_output_size` in all.

    Examples:
        >>> places, count = af.image.non_max_suppression_padded(
        ...     [[0.0, 0.0, 1.0, 1.0]], [0.9], 3, pad_to_max_output_size=True)
        >>> [value.tolist() for value in await session.run([places, count])]
        [[0, 0, 0], 1]
    """
    with name_scope(name, "non_max_suppression_padded", [boxes, scores]):
        places = _selected(boxes, scores, max_output_size, iou_threshold, score_threshold, 0.0)[0]
        count = size(places)
        if pad_to_max_output_size:
            places = pad(places, [[0, convert_to_tensor(max_output_size, int32) - count]])
            if isinstance(max_output_size, (int, np.integer)):
                places.set_shape([int(max_output_size)])
        return places, count


class CombinedNonMaxSuppression(NamedTuple):
    """The best boxes of all classes in each image; see `combined_non_max_suppression`."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


@transactional
def combined_non_max_suppression(
    boxes: NumberLike,
    scores: NumberLike,
    max_output_size_per_class: NumberLike,
    max_total_size: NumberLike,
    iou_threshold: NumberLike = 0.5,
    score_threshold: NumberLike = -math.inf,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """The boxes of the highest scores in each image, of all classes, each of which suppresses those of its own class.

    Args:
        boxes: [images, boxes, classes, 4], or [images, boxes, 1, 4] if all classes have the same; opposite corners.
        scores: [images, boxes, classes].
        max_output_size_per_class: the most boxes of a class.
        max_total_size: the most boxes of an image; zeros follow them up to this number.
        iou_threshold: a box is left out if its common area with a better one is more than this share of their union.
        score_threshold: a box is left out if its score is not higher.
        pad_per_class: whether the results are no longer than all classes can fill.
        clip_boxes: whether coordinates are limited to those from 0 to 1.
        name: the name of the operation.

    Returns:
        The boxes [images, most, 4], their scores and their classes, float32, and how many they are in each image.

    Raises:
        InvalidArgumentError: a size is below 1, or in the run, if the `iou_threshold` lies outside [0, 1].

    Examples:
        >>> boxes = [[[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.9]]]]
        >>> found = af.image.combined_non_max_suppression(boxes, [[[0.8, 0.1], [0.9, 0.3]]], 2, 3)
        >>> [part.tolist() for part in await session.run([found.nmsed_classes, found.valid_detections])]
        [[[0.0, 1.0, 0.0]], [2]]
    """
    given = [convert_to_tensor(value, float32) for value in (boxes, scores, iou_threshold, score_threshold)]
    sizes = [convert_to_tensor(size, int32) for size in (max_output_size_per_class, max_total_size)]
    label = name or "combined_non_max_suppression"
    found = select_boxes_of_classes(*given[:2], *sizes, *given[2:], bool(pad_per_class), bool(clip_boxes), name=label)
    return CombinedNonMaxSuppression(*found)


@transactional
def draw_bounding_boxes(
    images: NumberLike, boxes: NumberLike, name: str | None = None, colors: NumberLike | None = None
) -> Tensor:
    """The images with the outlines of boxes, one pixel wide.

    Args:
        images: [images, height, width, channels], floating.
        boxes: [images, boxes, 4]: top, left, bottom and right, as shares of the height and the width less one pixel.
        name: the name of the operation.
        colors: [colors, channels], which the boxes of an image have in turn; 10 different ones by default.

    Examples:
        >>> picture = await session.run(af.image.draw_bounding_boxes(af.zeros([1, 3, 3, 1]), [[[0.0, 0.0, 1.0, 1.0]]]))
        >>> picture[0, :, :, 0].tolist()
        [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    with name_scope(name, "draw_bounding_boxes", [images, boxes]) as scope:
        shades = np.zeros([0, 4], np.float32) if colors is None else convert_to_tensor(colors, float32)
        return draw_boxes(images, convert_to_tensor(boxes, float32), shades, name=scope)
