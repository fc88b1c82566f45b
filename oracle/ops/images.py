"""Images."""

from typing import Any

import numpy as np

from oracle.draw import FLOAT, FLOATS, INTS, Call, Draw, call
from oracle.table import compare, differs


def resized(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        return call(
            d.array(d.dtype(*dtypes), (d.integer(0, 2), d.integer(1, 5), d.integer(1, 5), d.integer(1, 2)), 0, 9),
            size=[d.integer(1, 7), d.integer(1, 7)],
            how=d.pick({}, {"align_corners": True}, {"half_pixel_centers": True}),
        )

    return drawn


RAW = {
    "nearest_neighbor": "ResizeNearestNeighbor",
    "bilinear": "ResizeBilinear",
    "bicubic": "ResizeBicubic",
    "area": "ResizeArea",
}


def theirs(name: str) -> Any:
    return lambda lib, x, size, how: getattr(lib.raw_ops, RAW[name])(images=x, size=size, **how)


def mine(name: str) -> Any:
    from aioflow.kernels.image import resize

    return lambda lib, x, size, how: getattr(resize, f"resize_{name}")(x, size, **how)


for name in RAW:
    kinds = ("float32", "uint8", "int32") if name != "nearest_neighbor" else (*FLOATS, "uint8", "int32")
    compare(
        f"image.resize_{name}",
        resized(*kinds),
        mine(name),
        theirs=theirs(name),
        rtol=256 if name != "bicubic" else 2**15,  # TensorFlow looks its cubics up in a table
        ops=(f"resize_{name}", f"resize_{name}_grad"),
    )


def picture(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        return call(d.array(d.dtype(*dtypes), d.shape(3, 4, (1, 4)), 0, 5))

    return drawn


for name in ("flip_left_right", "flip_up_down", "rot90", "transpose_image"):
    compare(f"image.{name}", picture(*FLOATS, *INTS), ops=())
compare(
    "image.per_image_standardization",
    picture("float32", "uint8"),
    ops=(),
    rtol=256,
    differs=differs(
        "TensorFlow takes the root of 0 where all pixels are alike",
        lambda x: np.ptp(x) < 1e-6 or np.prod(x.shape[-3:]) == 1,
    ),
)


def cropped(d: Draw) -> Call:
    found = picture(*FLOAT, "uint8")(d)
    h, w = found.arrays[0].shape[-3:-1]
    top, left = d.integer(0, h - 1), d.integer(0, w - 1)
    return call(
        *found.arrays,
        offset_height=top,
        offset_width=left,
        target_height=d.integer(1, h - top),
        target_width=d.integer(1, w - left),
    )


compare("image.crop_to_bounding_box", cropped, ops=())


def sized(d: Draw) -> Call:
    return call(*picture(*FLOAT, "uint8")(d).arrays, target_height=d.integer(1, 6), target_width=d.integer(1, 6))


compare("image.resize_image_with_crop_or_pad", sized, ops=())


def colours(d: Draw) -> Call:
    return call(d.array(d.dtype("float32", "uint8"), (*d.shape(2, 3, (1, 3)), 3), 0, 1))


compare("image.rgb_to_grayscale", colours, ops=(), rtol=64)


def converted(d: Draw) -> Call:
    source = d.pick("uint8", "int16", "int32", *FLOAT)
    high = 1 if source in FLOATS else 100
    return call(
        d.array(source, d.shape(3, 3, (1, 3)), 0, high),
        dtype=d.pick("uint8", "int16", "int32", *FLOATS),
        saturate=d.pick(False, True),
    )


compare("image.convert_image_dtype", converted, ops=())


def boxed(d: Draw) -> Call:
    count = d.integer(0, 3)
    images = d.array("float32", (d.integer(1, 2), d.integer(1, 5), d.integer(1, 5), d.integer(1, 2)), 0, 5)
    return call(
        images,
        d.array("float32", (count, 4), -0.2, 1.2),
        d.array("int32", (count,), 0, len(images) - 1),
        crop_size=[d.integer(1, 4), d.integer(1, 4)],
        method=d.pick("bilinear", "nearest"),
    )


compare(
    "image.crop_and_resize",
    boxed,
    lambda lib, x, boxes, which, crop_size, method: lib.image.crop_and_resize(x, boxes, which, crop_size, method),
    ops=("ensure_index",),
    rtol=1024,
    differs=differs(
        "the nearest pixel does not move with the box", lambda *arrays, method, **attrs: method == "nearest"
    ),
)
