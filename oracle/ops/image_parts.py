"""Parts of images and volumes, and the best boxes of classes."""

from typing import Any

import numpy as np

from oracle.draw import FLOATS, INTS, Call, Draw, call
from oracle.table import compare


def glimpsed(d: Draw) -> Call:
    batch = d.integer(1, 3)
    normalized = d.pick(True, False)
    reach = 1.5 if normalized else 9.0
    sizes = batch, d.integer(1, 6), d.integer(2, 6), d.integer(1, 2)
    return call(
        np.arange(1, np.prod(sizes) + 1, dtype=np.float32).reshape(sizes),
        np.array([d.integer(1, 7), d.integer(1, 7)], np.int32),
        d.array("float32", (batch, 2), -reach, reach),
        centered=d.pick(True, False),
        normalized=normalized,
    )


def mine(lib: Any, images: Any, size: Any, offsets: Any, **flags: bool) -> Any:
    """The windows, with zeros in place of the noise, which is no whole number as the pixels are."""
    found = lib.image.extract_glimpse(images, size, offsets, **flags)
    return lib.where(lib.equal(lib.floor(found), found), found, lib.zeros_like(found))


def theirs(lib: Any, images: Any, size: Any, offsets: Any, **flags: bool) -> Any:
    return lib.raw_ops.ExtractGlimpse(
        input=images, size=size, offsets=offsets, **flags, noise="zero", uniform_noise=False
    )


compare("image.extract_glimpse", glimpsed, mine, theirs=theirs, ops=(), gradient="TensorFlow has none")


def volumes(d: Draw) -> Call:
    sizes = [d.integer(1, 4) for _ in range(3)]
    return call(
        d.array(d.dtype(*FLOATS, *INTS), (d.integer(1, 2), *[d.integer(size, 5) for size in sizes], d.integer(1, 2))),
        ksizes=[1, *sizes, 1],
        strides=[1, *[d.integer(1, 3) for _ in range(3)], 1],
        padding=d.pick("SAME", "VALID"),
    )


compare("extract_volume_patches", volumes, ops=())


def of_classes(d: Draw) -> Call:
    images, count, classes = d.integer(1, 2), d.integer(1, 6), d.integer(1, 3)
    shape = (images, count, d.pick(1, classes), 2)
    return call(
        d.array("float32", shape, -0.2, 1),
        d.array("float32", shape, 0.1, 1),
        d.array("float32", (images, count, classes), 0, 1),
        most=d.integer(1, 4),
        total=d.integer(1, 9),
        iou_threshold=d.pick(0.5, 0.2, 0.9),
        score_threshold=d.pick(0.3, -1.0),
        pad_per_class=d.pick(True, False),
        clip_boxes=d.pick(True, False),
    )


def combined(lib: Any, low: Any, extent: Any, scores: Any, most: int, total: int, **options: Any) -> Any:
    boxes = lib.concat([low, low + extent], 3)
    return list(lib.image.combined_non_max_suppression(boxes, scores, most, total, **options))


compare(
    "image.combined_non_max_suppression",
    of_classes,
    combined,
    ops="select_boxes_of_classes",
    gradient="positions are whole numbers",
)
