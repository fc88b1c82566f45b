"""A gradient of 0 stays 0 through the gradient of an op, also where the op has a pole, or is undefined."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.indexed_slices import dense
from aioflow.kernels.array.constants import placeholder
from aioflow.tensors.dtypes import as_dtype
from tests.support.evaluate import evaluate
from tests.support.every_op import build, every_op, is_differentiable
from tests.support.scale import some

POLES = np.array([0.0, 1.0, -1.0, -0.0, 0.5, 2.0, -2.0, 3.0, -3.0])
NOT_FINITE = {
    "batch_norm_with_global_normalization": "of a negative variance every output is NaN",
    "fused_batch_norm": "of a negative variance every output is NaN",
    "fused_batch_norm_grad": "of a negative variance every output is NaN",
    "igamma_derivative": "the third derivative by a negative parameter",
    "layer_norm_grad": "of a negative variance every output is NaN",
    "weighted_moments": "the mean is NaN where the weights add up to 0, and the variance is a product with it",
}


def fillings(inputs):
    """The inputs with their floats replaced by one special value, for each value, and by all of them in turn."""
    arrays = [np.asarray(value) for value in inputs]
    for start, value in enumerate(POLES):
        yield [np.full_like(a, value) if a.dtype.kind in "fc" else a for a in arrays]
        yield [
            POLES[(start + 3 * number + np.arange(a.size)) % len(POLES)].reshape(a.shape).astype(a.dtype)
            if a.dtype.kind in "fc"
            else a
            for number, a in enumerate(arrays)
        ]


def backwards(ys, xs):
    """Placeholders for the gradients of `ys`, and the resulting gradients of `xs`."""
    arriving = [placeholder(y.dtype, y.shape) for y in ys]
    return arriving, [dense(dx) for dx in gradients(ys, xs, arriving, unconnected_gradients="zero")]


@every_op(lambda name, sample: is_differentiable(name, sample) and name not in NOT_FINITE, most=2)
def test_a_zero_gradient_stays_zero_through_every_op_to_second_order(name, sample):
    graph, outputs, feeds = build(sample)
    with graph.as_default():
        ys = [output for output in outputs if output.dtype.is_differentiable]
        xs = [tensor for tensor in feeds if tensor.dtype.is_differentiable]
        dys, first = backwards(ys, xs)
        ddys, second = backwards(first, xs)
    for arrays in some(fillings(sample.inputs), 3):
        fed = dict(zip(feeds, arrays, strict=True))
        try:
            fed |= dict(zip(dys, map(np.zeros_like, evaluate(ys, fed)), strict=True))
            found = evaluate(first, fed)
            fed |= dict(zip(ddys, map(np.zeros_like, found), strict=True))
            found += evaluate(second, fed)
        except errors.InvalidArgumentError:  # the op refuses the value
            continue
        for value in found:
            assert not np.any(value), f"{value} of {arrays}"


NARROWED = [
    ("sqrt", af.sqrt, [0.0, -1.0]),
    ("rsqrt", af.rsqrt, [0.0, -1.0]),
    ("reciprocal", af.reciprocal, [0.0, -0.0]),
    ("log", af.log, [0.0, -1.0]),
    ("log1p", af.log1p, [-1.0, -2.0]),
    ("exp", af.exp, [1000.0, 1e4]),
    ("expm1", af.expm1, [1000.0, 1e4]),
    ("cosh", af.cosh, [1000.0, -1e4]),
    ("asin", af.asin, [1.0, -2.0]),
    ("acosh", af.acosh, [1.0, 0.0]),
    ("atanh", af.atanh, [1.0, -2.0]),
    ("lgamma", af.lgamma, [0.0, -1.0]),
    ("erfinv", af.erfinv, [1.0, -2.0]),
    ("divide", lambda x: 3 / x, [0.0, -0.0]),
    ("pow -1", lambda x: x**-1, [0.0, -0.0]),
    ("pow 1/2", lambda x: x**0.5, [0.0, -1.0]),
    ("pow 3", lambda x: x**3, [3e4, -6e4]),
    ("pow of a tensor", lambda x: x ** af.constant([0.5, 0.5, -0.5], x.dtype), [0.0, -1.0]),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("function", "beyond"), [case[1:] for case in NARROWED], ids=[case[0] for case in NARROWED])
async def test_a_mask_after_an_op_keeps_its_poles_out_of_the_gradient(function, beyond, dtype):
    """Also in a session, where kernels overwrite their inputs: where(kept, f(x), 0) at the poles of f."""
    inside = {"acosh": 2.0}.get(getattr(function, "__name__", ""), 0.5)
    with af.Graph().as_default() as graph:
        x = af.placeholder(dtype, [3])
        y = af.where(af.placeholder(af.bool, [3], name="kept"), function(x), af.zeros([3], dtype))
        dx = af.gradients(y * y, x)[0]
        alone = af.gradients(function(x) * function(x), x)[0]
    point = np.array([*beyond, inside], as_dtype(dtype).np)
    async with af.Session(graph=graph) as session:
        masked, free = await session.run([dx, alone], {x: point, "kept:0": [False, False, True]})
    np.testing.assert_array_equal(masked[:2].astype(float), 0)
    assert np.isfinite(masked[2].astype(float))
    assert masked[2] == free[2]


async def test_products_keep_zeros_in_blocks_and_over_their_inputs():
    """Kernels process large arrays in blocks, in buffers that they overwrite."""
    size = 1 << 19
    x = np.linspace(-1, 1, size)
    with af.Graph().as_default() as graph:
        given = af.placeholder(af.float64, [size])
        y = af.where(given > 0, af.log(af.sqrt(given)), af.zeros([size], af.float64))
        dx = af.gradients(y, given)[0]
    async with af.Session(graph=graph) as session:
        found = await session.run(dx, {given: x})
    np.testing.assert_allclose(found, np.where(x > 0, 0.5 / np.where(x > 0, x, 1), 0), rtol=1e-12)


async def test_the_slope_at_a_pole_itself_is_infinite():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float64, [2])
        slopes = [af.gradients(function(x), x)[0] for function in (af.sqrt, af.reciprocal, af.log)]
    async with af.Session(graph=graph) as session:
        root, inverse, logarithm = await session.run(slopes, {x: [0.0, 4.0]})
    np.testing.assert_array_equal(root, [np.inf, 0.25])
    np.testing.assert_array_equal(inverse, [-np.inf, -1 / 16])
    np.testing.assert_array_equal(logarithm, [np.inf, 0.25])
