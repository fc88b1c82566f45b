"""Dilation and erosion, poolings and transposed convolutions by rank, windows with holes by blocks, Poisson's loss."""

import numpy as np
import pytest
from scipy import stats

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

random = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def dilated(x, w, stride, rate, padding):
    """One pixel after the other."""
    reach = [(size - 1) * rate + 1 for size in w.shape[:2]]
    if padding == "SAME":
        places = [-(-size // stride) for size in x.shape[1:3]]
        before = [
            max((n - 1) * stride + r - size, 0) // 2 for n, r, size in zip(places, reach, x.shape[1:3], strict=True)
        ]
    else:
        places = [(size - r) // stride + 1 for size, r in zip(x.shape[1:3], reach, strict=True)]
        before = [0, 0]
    y = np.full((len(x), *places, x.shape[3]), -np.inf)
    for i, j, p, q in np.ndindex(*places, *w.shape[:2]):
        row, column = i * stride + p * rate - before[0], j * stride + q * rate - before[1]
        if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
            y[:, i, j] = np.maximum(y[:, i, j], x[:, row, column] + w[p, q])
    return y


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("stride", "rate"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8])
def test_images_are_dilated_and_eroded(dtype, stride, rate, padding):
    x, w = (random.integers(0, 50, shape).astype(dtype) for shape in ((2, 6, 5, 3), (2, 3, 3)))
    for sizes in (x.shape, [None] * 4):
        images = af.placeholder(dtype, sizes)
        y = af.nn.dilation2d(images, w, [1, stride, stride, 1], [1, rate, rate, 1], padding, name="wide")
        assert y.name.startswith("wide")
        value = evaluate(y, {images: x})
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, dilated(x.astype(float), w.astype(float), stride, rate, padding))
    if np.dtype(dtype).kind != "u":
        eroded = evaluate(af.nn.erosion2d(x, w, stride, rate, padding))
        turned = w[::-1, ::-1].astype(float)
        np.testing.assert_array_equal(eroded, -dilated(-x.astype(float), turned, stride, rate, padding))


async def test_dilation_has_gradients_of_both():
    await check_gradients(
        lambda x, w: af.nn.dilation2d(x, w, 1, 1, "SAME"),
        [random.permutation(np.arange(24.0)).reshape(1, 4, 3, 2), random.random((2, 2, 2))],
        compute=evaluate,
    )


def test_structures_that_do_not_fit_are_refused():
    for arguments, text in [
        ((np.ones((1, 4, 4, 2)), np.ones((2, 2, 3)), 1, 1, "SAME"), "2 and 3|not compatible"),
        ((np.ones((1, 4, 4, 2)), np.ones((2, 2, 2)), 1, 1, "FULL"), "'SAME' or 'VALID', not 'FULL'"),
        ((np.ones((4, 4, 2)), np.ones((2, 2, 2)), 1, 1, "SAME"), "rank 4|\\[4, 4, 2\\]"),
        ((np.ones((1, 4, 4, 2)), np.ones((2, 2, 2)), 0, 1, "SAME"), "must be positive"),
    ]:
        with pytest.raises(ValueError, match=text):
            af.nn.dilation2d(*arguments)


def test_poolings_and_transposed_convolutions_go_by_rank():
    for rank, pool, mean in [(3, "max_pool1d", "avg_pool1d"), (4, "max_pool", "avg_pool"),
                             (5, "max_pool3d", "avg_pool3d")]:  # fmt: skip
        x = random.standard_normal((2, *[6] * (rank - 2), 3))
        for ours, theirs in [(af.nn.max_pool_v2, pool), (af.nn.avg_pool_v2, mean)]:
            expected = evaluate(getattr(af.nn, theirs)(x, 2, 2, "VALID"))
            np.testing.assert_array_equal(evaluate(ours(x, 2, 2, "VALID")), expected)
        window = random.standard_normal((*[2] * (rank - 2), 4, 3))
        sizes = [2, *[12] * (rank - 2), 4]
        assert evaluate(af.nn.conv_transpose(x, window, sizes, 2)).shape == tuple(sizes)
    for name in ("max_pool", "avg_pool"):
        np.testing.assert_array_equal(
            *[evaluate(getattr(af.nn, name + end)(np.ones((1, 4, 4, 1)), 2, 2, "SAME")) for end in ("", "2d")]
        )
    with pytest.raises(ValueError, match="filters have rank 3, 4 or 5"):
        af.nn.conv_transpose(np.ones((1, 2)), np.ones((2, 2)), [1, 4], 2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rate", [1, 2, 3])
def test_windows_with_holes_are_windows_of_blocks(rate, padding):
    x, w = random.standard_normal((2, 9, 8, 2)), random.standard_normal((3, 2, 2, 4))
    whole = evaluate(af.nn.conv2d(x, w, 1, padding, dilations=rate))
    for sizes in (x.shape, [None, None, None, 2]):
        images = af.placeholder(af.float64, sizes)
        parts = af.nn.with_space_to_batch(
            images, [rate, rate], padding, lambda x, axes, padding: af.nn.conv2d(x, w, 1, padding), [3, 2]
        )
        np.testing.assert_allclose(evaluate(parts, {images: x}), whole, rtol=1e-12)
    if rate == 2 and padding == "SAME":
        with pytest.raises(ValueError, match="filter_shape is needed"):
            af.nn.with_space_to_batch(x, [2, 2], "SAME", lambda *_: None)


def test_paddings_fill_blocks():
    paddings, crops = evaluate(list(af.required_space_to_batch_paddings([11, 7], [4, 5], [[1, 0], [2, 3]])))
    assert paddings.tolist() == [[1, 0], [2, 6]]
    assert crops.tolist() == [[0, 0], [0, 3]]
    paddings, crops = evaluate(list(af.required_space_to_batch_paddings([8], [3])))
    assert (paddings.tolist(), crops.tolist()) == ([[0, 1]], [[0, 1]])


async def test_the_loss_is_poissons():
    counts, expected = np.array([0.0, 1.0, 4.0, 30.0]), np.array([0.5, 1.5, 4.0, 25.0])
    short = evaluate(af.nn.log_poisson_loss(counts, np.log(expected)))
    np.testing.assert_allclose(short, expected - counts * np.log(expected))
    full = evaluate(af.nn.log_poisson_loss(counts, np.log(expected), compute_full_loss=True))
    np.testing.assert_allclose(full, -stats.poisson.logpmf(counts, expected), atol=0.03)
    await check_gradients(lambda x: af.nn.log_poisson_loss(counts, x), [np.log(expected)], compute=evaluate)
