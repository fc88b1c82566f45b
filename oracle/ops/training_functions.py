"""Functions that training loops call: average losses, dropout of given numbers, gradients of convolutions, maps."""

from typing import Any

from oracle.draw import FLOAT, Call, Draw, call
from oracle.table import compare


def averaged(d: Draw) -> Call:
    losses = d.array("float32", d.shape(1, 3), -2, 2)  # TensorFlow weighs all others as float32
    lacks = d.pick((), (1,), None)
    shape = losses.shape[:-1] if lacks is None else losses.shape + lacks
    return call(losses, d.array("float32", shape, 0, 2), size=d.pick(None, 0, 1, 5))


compare(
    "nn.compute_average_loss",
    averaged,
    lambda lib, x, weights, size: lib.nn.compute_average_loss(x, weights, size),
    ops=(),
    rtol=256,
)


def dropped(d: Draw) -> Call:
    shape = d.shape(1, 3)
    noise = d.pick(shape, tuple(d.pick(1, size) for size in shape))
    return call(
        d.array(d.dtype(*FLOAT), shape, -2, 2), d.array("float32", noise, 0, 0.999), rate=d.pick(0.0, 0.25, 0.5, 0.9)
    )


def general(lib: Any, x: Any, noise: Any, rate: float) -> Any:
    sampler = lambda shape, dtype: lib.cast(lib.reshape(noise, shape), dtype)  # noqa: E731
    return lib.nn.experimental.general_dropout(x, rate, sampler, noise.shape.as_list())


compare("nn.experimental.general_dropout", dropped, general, ops=(), rtol=64)


def convolved(d: Draw) -> Call:
    """Images, filters and the gradient of their convolution."""
    images, filters = [d.integer(1, 2), d.integer(2, 5), d.integer(2, 5), d.integer(1, 2)], d.integer(1, 2)
    window, step = [d.integer(1, 2), d.integer(1, 2)], d.integer(1, 2)
    padding = d.pick("SAME", "VALID")
    fit = [-(-(size - (w - 1) * (padding == "VALID")) // step) for size, w in zip(images[1:3], window, strict=True)]
    dtype = d.dtype(*FLOAT)
    return call(
        d.array(dtype, tuple(images), -2, 2),
        d.array(dtype, (*window, images[3], filters), -2, 2),
        d.array(dtype, (images[0], *fit, filters), -2, 2),
        strides=[1, step, step, 1],
        padding=padding,
    )


def back_to_images(lib: Any, x: Any, w: Any, dy: Any, **options: Any) -> Any:
    sizes = x.shape.as_list()
    given = sizes if sizes[0] == 1 else sizes[1:3]
    return lib.nn.conv2d_backprop_input(given, w, dy, use_cudnn_on_gpu=False, **options)


def back_to_filters(lib: Any, x: Any, w: Any, dy: Any, **options: Any) -> Any:
    return lib.nn.conv2d_backprop_filter(x, w.shape.as_list(), dy, use_cudnn_on_gpu=False, **options)


compare("nn.conv2d_backprop_input", convolved, back_to_images, rtol=128)
compare("nn.conv2d_backprop_filter", convolved, back_to_filters, rtol=128)

FUNCTIONS: dict[str, Any] = {
    "sums": lambda lib, x, y: lib.reduce_sum(x) + y,
    "parts": lambda lib, x, y: lib.concat([x[:1] * y, lib.reverse(x, [0])], 0),
    "products": lambda lib, x, y: lib.tensordot(x, x, 0) * y,
    "choices": lambda lib, x, y: lib.where(x > 0, x, -2 * x),
    "places": lambda lib, x, y: lib.gather(x, lib.argmax(x)) + lib.zeros([2], x.dtype),
    "softmax": lambda lib, x, y: lib.nn.softmax(x) * y,
    "constant": lambda lib, x, y: lib.constant([1.0, 2.0], x.dtype),
}


def mapped(d: Draw) -> Call:
    rows = d.integer(1, 4)
    dtype = d.dtype(*FLOAT)
    return call(
        d.array(dtype, (rows, d.integer(1, 4)), -2, 2),
        d.array(dtype, (d.pick(1, rows),), -2, 2),
        what=d.pick(*FUNCTIONS),
    )


compare(
    "vectorized_map",
    mapped,
    lambda lib, x, y, what: lib.vectorized_map(lambda pair: FUNCTIONS[what](lib, *pair), (x, y)),
    ops=(),
    rtol=128,
    gradient="map_fn is compared",
)
