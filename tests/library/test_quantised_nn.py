"""Networks on stored images. `oracle/ops/quantisation.py` compares them with TensorFlow."""

import numpy as np
import pytest

import aioflow as af

IMAGE = np.random.default_rng(0).uniform(-1, 4, (2, 5, 5, 3)).astype(np.float32)
FILTER = np.random.default_rng(1).uniform(-0.5, 1, (2, 2, 3, 4)).astype(np.float32)


def stored(value, low, high):
    return af.quantize_v2(value, low, high, af.quint8, "MIN_FIRST")


async def test_stored_images_are_convolved_and_pooled_as_real_ones_to_half_a_step():
    with af.Graph().as_default() as graph:
        x, w = stored(IMAGE, -1.0, 4.0), stored(FILTER, -0.5, 1.0)
        y = af.nn.quantized_conv2d(x[0], w[0], *x[1:], *w[1:], [1, 2, 1, 1], "SAME")
        window = ([1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        others = [af.nn.quantized_max_pool(*x, *window), af.nn.quantized_avg_pool(*x, *window)]
        others.append(af.nn.quantized_relu_x(x[0], 2.0, *x[1:]))
        found = [af.cast(y[0], af.float32) * (y[2] / 2.0**31)]
        found += [af.dequantize(*each, "MIN_FIRST") for each in others]
        real = [
            af.nn.conv2d(IMAGE, FILTER, [1, 2, 1, 1], "SAME"),
            af.nn.max_pool(IMAGE, *window),
            af.nn.avg_pool(IMAGE, *window),
            af.clip_by_value(IMAGE, 0.0, 2.0),
        ]
        async with af.Session(graph=graph) as session:
            for value, expected, within in zip(
                *await session.run([found, real]), (0.1, 0.011, 0.03, 0.011), strict=True
            ):
                np.testing.assert_allclose(value, expected, atol=within)
            low, high = await session.run(y[1:])
            assert -low == high == np.float32(5 / 255 * 1.5 / 255 * 2**31)


def test_other_integers_are_refused():
    with af.Graph().as_default(), pytest.raises(TypeError, match="int32 is not supported; use one of int8, uint8"):
        af.nn.quantized_max_pool(af.ones([1, 1, 1, 1], af.int32), 0.0, 1.0, [1] * 4, [1] * 4, "SAME")
