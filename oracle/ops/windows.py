"""Convolution, pooling and patches: windows on images."""

from typing import Any

import numpy as np

from oracle.draw import FLOAT, HALF, Call, Draw, call
from oracle.table import compare, differs


def convolved(axes: int, dilated: bool = True) -> Any:
    """Images and filters of so many axes."""

    def drawn(d: Draw) -> Call:
        dtype = d.dtype(*FLOAT, *HALF)
        window, depth, filters = [d.integer(1, 3) for _ in range(axes)], d.integer(1, 2), d.integer(1, 2)
        step = [d.integer(1, 2)] * axes
        spread = [d.integer(1, 2) if dilated and step[0] == 1 else 1] * axes
        sides = [(w - 1) * s + d.integer(1, 4) for w, s in zip(window, spread, strict=True)]
        x = d.array(dtype, (d.integer(0, 2), *sides, depth), -2, 2)
        return call(
            x,
            d.array(dtype, (*window, depth, filters), -2, 2),
            strides=[1, *step, 1],
            padding=d.pick("SAME", "VALID"),
            dilations=[1, *spread, 1],
        )

    return drawn


def explicit(d: Draw) -> Call:
    found = convolved(2)(d)
    pads = [[0, 0], *[[d.integer(0, 2), d.integer(0, 2)] for _ in range(2)], [0, 0]]
    return call(*found.arrays, **found.attrs | {"padding": pads})


NO_IMAGES = differs("TensorFlow leaves the gradient uninitialised", lambda x, *filters, **attrs: not x.size)


def backs(name: str) -> tuple[str, ...]:
    return name, f"{name}_backprop_input", f"{name}_backprop_filter"


compare("nn.conv2d", convolved(2), rtol=128, ops=backs("conv2d"))
compare("nn.conv2d padded", explicit, rtol=128)
compare("nn.conv3d", convolved(3, dilated=False), rtol=128, ops=backs("conv3d"))
compare(
    "nn.depthwise_conv2d",
    convolved(2),
    lambda lib, x, w, strides, padding, dilations: lib.nn.depthwise_conv2d(x, w, strides, padding, dilations[1:3]),
    rtol=128,
    differs=NO_IMAGES,
    ops=backs("depthwise_conv2d_native"),
)


def separable(d: Draw) -> Call:
    found = convolved(2)(d)
    x, w = found.arrays
    pointwise = d.array(str(x.dtype), (1, 1, w.shape[2] * w.shape[3], d.integer(1, 3)), -2, 2)
    return call(x, w, pointwise, strides=found.attrs["strides"], padding=found.attrs["padding"])


compare("nn.separable_conv2d", separable, rtol=256, ops=(), differs=NO_IMAGES)
compare("nn.atrous_conv2d", lambda d: dilated(d), rtol=128, ops=())


def dilated(d: Draw) -> Call:
    found = convolved(2)(d)
    return call(*found.arrays, rate=found.attrs["dilations"][1], padding=found.attrs["padding"])


def transposed(axes: int) -> Any:
    """What a convolution could have given, its filter, and the shape it came from."""

    def drawn(d: Draw) -> Call:
        dtype, padding = d.dtype(*FLOAT), d.pick("SAME", "VALID")
        window, step = [d.integer(1, 3) for _ in range(axes)], [d.integer(1, 2)] * axes
        sides = [w + d.integer(0, 3) for w in window]
        made = [
            -(-s // t) if padding == "SAME" else (s - w) // t + 1 for s, w, t in zip(sides, window, step, strict=True)
        ]
        n, depth, filters = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2)
        return call(
            d.array(dtype, (n, *made, filters), -2, 2),
            d.array(dtype, (*window, depth, filters), -2, 2),
            output_shape=[n, *sides, depth],
            strides=[1, *step, 1],
            padding=padding,
        )

    return drawn


compare("nn.conv2d_transpose", transposed(2), rtol=128, ops=())
compare("nn.conv3d_transpose", transposed(3), rtol=128, ops=())


def conv1d(lib: Any, x: Any, w: Any, strides: Any, padding: Any, dilations: Any) -> Any:
    return lib.nn.conv1d(x, w, strides[1], padding, dilations=dilations[1])


compare("nn.conv1d", convolved(1), conv1d, rtol=128, ops=())


def pooled(axes: int) -> Any:
    """Images and a window on so many axes. Elements differ, so that one of each window is the largest."""

    def drawn(d: Draw) -> Call:
        dtype = d.dtype(*FLOAT, *HALF)
        window, step = [d.integer(1, 3) for _ in range(axes)], [d.integer(1, 3) for _ in range(axes)]
        shape = (d.integer(0, 2), *[w + d.integer(0, 3) for w in window], d.integer(1, 2))
        values = d.rng().permutation(int(np.prod(shape))).reshape(shape) / 8 - 3
        return call(values.astype(dtype), ksize=[1, *window, 1], strides=[1, *step, 1], padding=d.pick("SAME", "VALID"))

    return drawn


compare("nn.max_pool", pooled(2), ops=("max_pool", "max_pool_grad", "max_pool_grad_grad"))
compare("nn.avg_pool", pooled(2), rtol=64, ops=("avg_pool", "avg_pool_grad"))
compare("nn.max_pool3d", pooled(3), ops=("max_pool3d", "max_pool3d_grad", "max_pool3d_grad_grad"))
compare("nn.avg_pool3d", pooled(3), rtol=64, ops=("avg_pool3d", "avg_pool3d_grad"))


def with_places(d: Draw) -> Call:
    found = pooled(2)(d)
    return call(*found.arrays, **found.attrs, include_batch_in_index=d.pick(False, True))


compare(
    "nn.max_pool_with_argmax",
    with_places,
    ops=("max_pool_with_argmax", "max_pool_grad_with_argmax", "max_pool_grad_grad_with_argmax"),
    differs=differs("no images have no pixels; TensorFlow refuses", lambda x, **attrs: not x.size),
)


def patches(d: Draw) -> Call:
    dtype = d.dtype(*FLOAT, "int32", "uint8")
    window, rate, step = ([d.integer(1, high) for _ in range(2)] for high in (3, 2, 3))
    sides = [(w - 1) * r + d.integer(1, 4) for w, r in zip(window, rate, strict=True)]
    return call(
        d.array(dtype, (d.integer(0, 2), *sides, d.integer(1, 2))),
        ksizes=[1, *window, 1],
        strides=[1, *step, 1],
        rates=[1, *rate, 1],
        padding=d.pick("SAME", "VALID"),
    )


compare(
    "extract_image_patches",
    patches,
    ops=("extract_image_patches", "extract_image_patches_grad"),
    rtol=64,
    differs=differs("no images have no patches; TensorFlow's gradient refuses", lambda x, **attrs: not x.size),
)


def any_convolution(d: Draw) -> Call:
    axes, batch_dims = d.pick(2, 3), d.pick(1, 2)
    channels = d.integer(1, 2)
    window = [d.integer(1, 2) for _ in range(axes)]
    padding = d.pick("SAME", "VALID", "EXPLICIT") if axes == 2 else d.pick("SAME", "VALID")
    pads = [d.integer(0, 2) for _ in range(2 * axes)]
    return call(
        d.array(
            d.dtype(*FLOAT),
            (*[d.integer(1, 2) for _ in range(batch_dims)], *[d.integer(2, 5) for _ in window], channels),
            -2,
            2,
        ),
        d.array("float64", (*window, channels, d.integer(1, 2)), -2, 2),
        strides=[1, *[d.integer(1, 2) for _ in window], 1],
        padding=padding,
        explicit_paddings=[0, 0, *pads, 0, 0] if padding == "EXPLICIT" else [],
        batch_dims=batch_dims,
    )


compare(
    "conv", any_convolution, lambda lib, x, w, **options: lib.conv(x, lib.cast(w, x.dtype), **options), ops=(), rtol=64
)
