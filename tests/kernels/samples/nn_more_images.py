"""Images in other sizes, in blocks and in patches."""

import numpy as np

from aioflow.kernels.array import space_to_batch
from aioflow.kernels.image import resize as image
from aioflow.kernels.nn import patches
from tests.kernels.samples import sample
from tests.kernels.samples.nn_more import places
from tests.kernels.samples.nn_windows import first, images, last

rng = np.random.default_rng(8)


def normal(*shape):
    return np.round(rng.normal(size=shape), 2)


# In blocks


def gathered(x, block):
    """Each block of pixels as one, pixel by pixel."""
    return np.concatenate([x[:, i::block, j::block] for i in range(block) for j in range(block)], -1)


def spread(x, block):
    channels = x.shape[-1] // block**2
    y = np.zeros((len(x), x.shape[1] * block, x.shape[2] * block, channels))
    for number in range(block * block):
        part = x[..., number * channels : (number + 1) * channels]
        y[:, number // block :: block, number % block :: block] = part
    return y


even = normal(2, 4, 6, 3)
for name, x, function in [("space_to_depth", even, gathered), ("depth_to_space", gathered(even, 2), spread)]:
    op = getattr(space_to_batch, name)
    sample(name, lambda x, op=op: op(x, 2), x, reference=lambda x, f=function: f(x, 2))
    sample(
        name, lambda x, op=op: op(x, 2, data_format="NCHW"), first(x),
        reference=lambda x, f=function: first(f(last(x), 2)),
    )  # fmt: skip


def parted(x, block, paddings):
    padded = np.pad(x, [(0, 0), *paddings] + [(0, 0)] * (x.ndim - 1 - len(block)))
    places = np.ndindex(*block)
    return np.concatenate([padded[(slice(None), *map(lambda i, b: slice(i, None, b), at, block))] for at in places])


for block, paddings in [((2, 3), ((1, 0), (0, 2))), ((1, 2), ((0, 0), (0, 0))), ((5,), ((2, 3),))]:
    sample(
        "space_to_batch_nd", lambda x, b=block, p=paddings: space_to_batch.space_to_batch_nd(x, b, p), images,
        reference=lambda x, b=block, p=paddings: parted(x, b, p),
    )  # fmt: skip
    sample(
        "batch_to_space_nd", lambda x, b=block, p=paddings: space_to_batch.batch_to_space_nd(x, b, p),
        parted(images, block, paddings), reference=lambda x: images,
    )  # fmt: skip
sample(
    "space_to_batch_nd", space_to_batch.space_to_batch_nd, images, np.array([2, 2], np.int32),
    np.array([[0, 1], [1, 1]], np.int32), reference=parted,
)  # fmt: skip
sample(
    "batch_to_space_nd", space_to_batch.batch_to_space_nd, parted(images, (2, 2), ((0, 1), (1, 1))),
    np.array([2, 2], np.int32), np.array([[0, 1], [1, 1]], np.int32), reference=lambda *_: images,
)  # fmt: skip

# In patches


def patched(x, window, *how):
    *_, (where, _) = places(x.shape[1:3], window, *how)
    y = np.zeros((len(x), where[0] + 1, where[1] + 1, *window, x.shape[3]))
    for (row, column), pairs in places(x.shape[1:3], window, *how):
        for at, index in pairs:
            y[(slice(None), row, column, *index)] = x[(slice(None), *at)]
    return y.reshape(*y.shape[:3], -1)


for window, *how in [((2, 3), (1, 2), "SAME"), ((2, 2), (2, 1), "VALID", (2, 1))]:
    strides, padding, rates = (*how, (1, 1))[:3]
    attrs = {"strides": (1, *strides, 1), "rates": (1, *rates, 1), "padding": padding}
    sample(
        "extract_image_patches", lambda x, w=window, a=attrs: patches.extract_image_patches(x, w, **a), images,
        reference=lambda x, w=window, how=how: patched(x, w, *how),
    )  # fmt: skip
    sample(
        "extract_image_patches_grad",
        lambda dy, w=(1, *window, 1), a=attrs: patches.extract_image_patches_grad(images.shape, dy, w, **a),
        normal(*patched(images, window, *how).shape),
    )  # fmt: skip


# In other sizes


def interpolated(x, size, align, half):
    for axis, output in enumerate(size, start=1):
        before, numbers = x.shape[axis], np.arange(output)
        scale = (before - 1) / (output - 1) if align and output > 1 else before / output
        at = (numbers + 0.5) * scale - 0.5 if half else numbers * scale
        x = np.apply_along_axis(lambda row, at=at: np.interp(at, np.arange(len(row)), row), axis, x)
    return x


def copied(x, size, align, half):
    for axis, output in enumerate(size, start=1):
        before, numbers = x.shape[axis], np.arange(output)
        if align and output > 1:
            at = (2 * numbers * (before - 1) + output - 1) // (2 * (output - 1))
        else:
            at = (2 * numbers + half) * before // (2 * output)
        x = x.take(at, axis)
    return x


def weight(far, a):
    if far <= 1:
        return (a + 2) * far**3 - (a + 3) * far**2 + 1
    return a * far**3 - 5 * a * far**2 + 8 * a * far - 4 * a if far < 2 else 0


def cubic(x, size, align, half):
    for axis, output in enumerate(size, start=1):
        before, parts = x.shape[axis], []
        for number in range(output):
            scale = (before - 1) / (output - 1) if align and output > 1 else before / output
            at = (number + 0.5) * scale - 0.5 if half else number * scale
            around = range(int(np.floor(at)) - 1, int(np.floor(at)) + 3)
            weights = [weight(abs(i - at), -0.5 if half else -0.75) * (not half or 0 <= i < before) for i in around]
            pixels = [x.take(min(max(i, 0), before - 1), axis) for i in around]
            parts.append(sum(w * pixel for w, pixel in zip(weights, pixels, strict=True)) / sum(weights))
        x = np.stack(parts, axis)
    return x


def means(x, size, fine=60):
    """Every pixel cut into so many by so many, of which the mean is taken over what a new pixel covers."""
    for axis, output in enumerate(size, start=1):
        cut = np.moveaxis(x.repeat(fine, axis), axis, 0)
        x = np.moveaxis(cut.reshape(output, -1, *cut.shape[1:]).mean(1), 0, axis)
    return x


for size in [(3, 7), (10, 2), (5, 4), (1, 1)]:
    for align, half in [(False, False), (True, False), (False, True)]:
        for kind, function in [("bilinear", interpolated), ("nearest_neighbor", copied), ("bicubic", cubic)]:
            resize = getattr(image, f"resize_{kind}")
            grad = getattr(image, f"resize_{kind}_grad")
            sample(
                resize.name,
                lambda x, op=resize, s=size, a=align, h=half: op(x, s, a, half_pixel_centers=h), images,
                reference=lambda x, f=function, how=(size, align, half): f(x, *how),
            )  # fmt: skip
            sample(
                grad.name, lambda dy, op=grad, how=(align, half): op(dy, [5, 4], dy.dtype, *how), normal(2, *size, 2),
            )  # fmt: skip
    sample(
        "resize_area", lambda x, size=size: image.resize_area(x, size), images,
        reference=lambda x, size=size: means(x, size, 60 if size != (3, 7) else 21),
    )  # fmt: skip
    sample("resize_area_grad", lambda dy: image.resize_area_grad(dy, [5, 4], dy.dtype), normal(2, *size, 2))
sample("resize_area", lambda x: image.resize_area(x, [2, 3], align_corners=True), normal(2, 1, 1, 2),
       reference=lambda x: np.tile(x, (1, 2, 3, 1)))  # fmt: skip
sample("resize_bilinear", image.resize_bilinear, images, np.array([3, 6], np.int32),
       reference=lambda x, size: interpolated(x, size, False, False))  # fmt: skip
sample("resize_nearest_neighbor", lambda x: image.resize_nearest_neighbor(x, [2, 2]), np.arange(24).reshape(1, 4, 6, 1),
       reference=lambda x: x[:, ::2, ::3])  # fmt: skip
