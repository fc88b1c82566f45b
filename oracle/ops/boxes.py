"""Boxes in images, and images that are alike."""

from typing import Any

from oracle.draw import Call, Draw, call
from oracle.table import compare


def boxed(d: Draw) -> Call:
    count = d.integer(1, 8)
    low, extent = d.array("float32", (count, 2), 0, 2), d.array("float32", (count, 2), 0.1, 2)
    return call(
        low,
        extent,
        d.array("float32", (count,), 0, 1),
        most=d.integer(0, 6),
        iou_threshold=d.pick(0.5, 0.2, 0.9),
        score_threshold=d.pick(0.3, -1.0),
    )


def selected(name: str) -> Any:
    def run(lib: Any, low: Any, extent: Any, scores: Any, most: int, **limits: float) -> Any:
        return getattr(lib.image, name)(lib.concat([low, low + extent], 1), scores, most, **limits)

    return run


compare(
    "image.non_max_suppression",
    boxed,
    selected("non_max_suppression"),
    ops="select_boxes",
    gradient="positions are whole numbers",
)


def overlapping(d: Draw) -> Call:
    count = d.integer(1, 8)
    return call(
        d.array("float32", (count, count), 0, 1),
        d.array("float32", (count,), 0, 1),
        max_output_size=d.integer(0, 6),
        overlap_threshold=d.pick(0.5, 0.9),
    )


compare(
    "image.non_max_suppression_overlaps",
    overlapping,
    lambda lib, x, scores, **limits: lib.image.non_max_suppression_overlaps(x, scores, **limits),
    ops="select_by_overlaps",
    gradient="positions are whole numbers",
)


def outlined(d: Draw) -> Call:
    images, count = d.integer(1, 2), d.integer(0, 12)
    return call(
        d.array("float32", (images, d.integer(2, 7), d.integer(2, 7), d.pick(1, 3, 4))),
        d.array("float32", (images, count, 4), -0.5, 1.5),
    )


compare("image.draw_bounding_boxes", outlined, ops="draw_boxes", gradient="lines have no derivative by their places")


def pictures(d: Draw) -> Call:
    shape = (d.integer(1, 2), d.integer(8, 12), d.integer(8, 12), d.integer(1, 3))
    return call(d.array("float32", shape, 0, 1), d.array("float32", shape, 0, 1), filter_size=d.integer(2, 5))


compare("image.ssim", pictures, lambda lib, x, y, **size: lib.image.ssim(x, y, 1.0, **size), ops=(), rtol=2**12)
compare(
    "image.ssim_multiscale",
    pictures,
    lambda lib, x, y, filter_size: lib.image.ssim_multiscale(x, y, 1.0, (0.4, 0.6), filter_size=min(filter_size, 4)),
    ops=(),
    rtol=2**12,
    gradient="TensorFlow's is NaN where a likeness of a scale is below 0, which counts as 0; ours is 0",
)
