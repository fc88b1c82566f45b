"""The best boxes of all classes, in each image of a batch."""

import functools
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.image.boxes import Overlaps, best, overlaps_of
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, float32, int32

_FLOAT32: Final = frozenset({float32})


@op
def select_boxes_of_classes(
    boxes: Spec,
    scores: Spec,
    max_output_size_per_class: Ints,
    max_total_size: Ints,
    iou_threshold: Spec,
    score_threshold: Spec,
    pad_per_class: bool,
    clip_boxes: bool,
) -> tuple[Spec, Spec, Spec, Spec]:
    """The boxes, scores and classes of the highest scores that overlap no better one of their class too much.

    Zeros follow them. The last output is how many they are in each image.
    """
    places, found = boxes.only(_FLOAT32).with_rank(4, "boxes"), scores.only(_FLOAT32).with_rank(3, "scores")
    for threshold, what in ((iou_threshold, "iou_threshold"), (score_threshold, "score_threshold")):
        threshold.only(_FLOAT32).with_rank(0, what)
    given, (images, count, classes) = places.shape.as_list(), found.shape.as_list()
    for size, wanted, what in ((given[0], images, "images"), (given[1], count, "boxes")):
        if None not in (size, wanted) and size != wanted:
            raise ValueError(f"boxes are given for {size} {what}, and scores for {wanted}")
    if given[2] not in (None, 1) and classes is not None and given[2] != classes:
        raise ValueError(f"boxes are for 1 or for all {classes} classes, not for {given[2]}")
    if given[3] not in (None, 4):
        raise ValueError(f"boxes have 4 coordinates each, not the shape {boxes.shape}")
    each = known.scalar(max_output_size_per_class, "max_output_size_per_class")
    total = known.scalar(max_total_size, "max_total_size")
    length = total
    if pad_per_class:
        length = None if each is None or classes is None or total is None else min(each * classes, total)
    rows = images if images is not None else given[0]
    outputs = [TensorShape(sizes) for sizes in ((rows, length, 4), (rows, length), (rows, length))]
    first, second, third = (Spec(float32, shape) for shape in outputs)
    return first, second, third, Spec(int32, TensorShape((rows,)))


@select_boxes_of_classes.check
def _(boxes: Spec | Array, scores: Spec | Array, each: Spec | Array, total: Spec | Array, *rest: object) -> None:
    for value, what in ((each, "max_output_size_per_class"), (total, "max_total_size")):
        number = known.number(value)
        if number is not None and number < 1:
            raise errors.InvalidArgumentError(f"{what} must be at least 1, not {number}")


select_boxes_of_classes.no_gradient("which boxes are the best has no derivative; af.gather of boxes has one")
costs(select_boxes_of_classes, 1000.0)


@select_boxes_of_classes.kernel(CPU, fresh=True)
def _(
    xp: Namespace,
    boxes: Array,
    scores: Array,
    each: Array,
    total: Array,
    iou: Array,
    least: Array,
    *,
    pad_per_class: bool,
    clip_boxes: bool,
) -> list[Array]:
    if not 0 <= float(iou) <= 1:
        raise errors.InvalidArgumentError(f"iou_threshold must lie between 0 and 1, not be {float(iou)}")
    images, classes = len(scores), scores.shape[2]
    length = min(int(each) * classes, int(total)) if pad_per_class else int(total)
    shapes = (images, length, 4), (images, length), (images, length)
    corners, kept, kinds = (np.zeros(shape, np.float32) for shape in shapes)
    counts = np.zeros(images, np.int32)
    for image in range(images):
        rows = _of_image(boxes[image], scores[image], int(each), float(iou), float(least))[:length]
        counts[image] = len(rows)
        for place, (score, kind, corner) in enumerate(rows):
            corners[image, place], kept[image, place], kinds[image, place] = corner, score, kind
    return [corners.clip(0, 1) if clip_boxes else corners, kept, kinds, counts]


def _of_image(boxes: Array, scores: Array, most: int, threshold: float, least: float) -> list[tuple[float, int, Array]]:
    """The score, class and corners of each box that is selected, the highest score first."""
    overlaps = functools.cache(lambda shared: overlaps_of(boxes[:, shared]))
    rows: list[tuple[float, int, Array]] = []
    for kind in range(scores.shape[1]):
        own = kind if boxes.shape[1] > 1 else 0
        measure: Overlaps = overlaps(own)
        places, kept = best(measure, scores[:, kind], most, threshold, least, 0.0)
        rows += [(float(score), kind, boxes[place, own]) for place, score in zip(places, kept, strict=True)]
    return sorted(rows, key=lambda row: -row[0])
