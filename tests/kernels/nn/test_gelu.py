import numpy as np
import pytest

import aioflow as af
from aioflow.devices import onednn
from aioflow.graph.graph import Graph
from aioflow.kernels.nn import gelu
from tests.kernels.samples.gelu import by_tanh, tanh_slope
from tests.support.evaluate import evaluate

X = np.linspace(-8, 8, 1 << 14, dtype=np.float32)
DY = np.linspace(1, 2, X.size, dtype=np.float32)


def by_formula(op, *inputs):
    with Graph().as_default():
        return evaluate(op(*[value.astype(np.float64) for value in inputs]))


def test_floats_are_as_exact_as_the_formulas():
    with Graph().as_default():
        for made, expected in (
            (gelu.gelu_tanh(X), by_tanh(X.astype(np.float64))),
            (gelu.gelu_tanh_grad(DY, X), tanh_slope(DY.astype(np.float64), X.astype(np.float64))),
            (gelu.gelu_erf(X), by_formula(gelu.gelu_erf, X)),
            (gelu.gelu_erf_grad(DY, X), by_formula(gelu.gelu_erf_grad, DY, X)),
        ):
            np.testing.assert_allclose(evaluate(made), expected, rtol=0, atol=4e-6)


@pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed")
def test_blocks_have_the_bits_of_the_whole_array():
    many = np.resize(X, 1 << 18)
    with Graph().as_default():
        for op, inputs in ((gelu.gelu_tanh, [many]), (gelu.gelu_erf_grad, [many + 1, many])):
            whole = evaluate(op(*inputs))
            cuts = [1, 8, 3000, 1 << 17]
            parts = [evaluate(op(*part)) for part in zip(*[np.split(value, cuts) for value in inputs], strict=True)]
            np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", [gelu.gelu_tanh, gelu.gelu_erf])
@pytest.mark.parametrize("repeats", [1, 1 << 14])
def test_gradients_are_0_and_1_however_far_the_input(form, dtype, repeats):
    far = np.array([np.finfo(dtype).max, np.inf, 100, 3000, 3e4], dtype)
    far = np.repeat(far, repeats)
    with Graph().as_default():
        x = af.placeholder(dtype, [2 * len(far)])
        first = af.gradients(form(x), x)[0]
        slopes, bends = evaluate([first, af.gradients(first, x)[0]], {x: np.concatenate([far, -far])})
    np.testing.assert_array_equal(slopes, [1] * len(far) + [0] * len(far))
    np.testing.assert_array_equal(bends, np.zeros(2 * len(far)))


@pytest.mark.parametrize("repeats", [1, 1 << 14])
@pytest.mark.parametrize("form", [gelu.gelu_tanh, gelu.gelu_erf])
def test_values_are_0_and_the_input_however_far_it_is(form, repeats):
    far = np.repeat(
        np.array([np.inf, np.finfo(np.float32).max, 101, -101, np.finfo(np.float32).min], np.float32), repeats
    )
    with Graph().as_default():
        np.testing.assert_array_equal(evaluate(form(far)), np.where(far > 0, far, 0))
        assert np.isnan(evaluate(form(np.repeat(np.float32([np.nan, -np.inf]), repeats)))).all()


async def test_chains_compute_what_single_kernels_do():
    with Graph().as_default() as graph:
        x = af.placeholder(af.float32, [1 << 19])
        alone = af.nn.gelu(x)
        chained = af.nn.gelu(x + 0.0) * 1.0
    async with af.Session(graph=graph) as session:
        one, other = await session.run([alone, chained], {x: np.resize(X, 1 << 19)})
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("approximate", [False, True])
async def test_one_number_for_each_row_has_the_bits_of_the_token_executor_in_a_chain(approximate):
    with Graph().as_default() as graph:
        x = af.placeholder(af.float32, [1 << 15, 32])
        y = af.nn.gelu(af.reduce_mean(x, -1, keepdims=True) * 3.0, approximate) * x
        outputs = [y, *af.gradients(y, [x])]
    found = []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append(await session.run(outputs, {x: np.resize(X, (1 << 15, 32)) + np.float32(0.25)}))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
