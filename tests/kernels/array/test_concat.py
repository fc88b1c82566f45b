"""Gradients of values side by side that are multiplied by weights."""

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.array import concat
from aioflow.testing import check_gradients

DRAW = np.random.default_rng(7)
LEFT, RIGHT, UNITS = 100, 156, 256
X, H = DRAW.standard_normal((3, LEFT), np.float32), DRAW.standard_normal((3, RIGHT), np.float32)
WEIGHT = DRAW.standard_normal((LEFT + RIGHT, UNITS), np.float32)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def gradients(weight=WEIGHT, axis=1, rows=None):
    """The inputs, and the gradients by x and h of the sum of the squares of [x, h] times the weight."""
    x, h = af.placeholder(af.float32, [rows, LEFT]), af.placeholder(af.float32, [rows, RIGHT])
    y = af.matmul(af.concat([x, h], axis), af.constant(weight))
    return x, h, *af.gradients(af.reduce_sum(y * y), [x, h])


@pytest.mark.parametrize("rows", [3, None])
@pytest.mark.parametrize("axis", [1, -1])
async def test_the_gradients_are_products_with_the_rows_of_the_weight_that_belong_to_a_value(axis, rows):
    x, h, dx, dh = gradients(axis=axis, rows=rows)
    assert dx.op.type == dh.op.type == "matmul"
    async with af.Session() as session:
        found = await session.run([dx, dh], {x: X, h: H})
    true = (2 * np.hstack([X, H]).astype(np.float64) @ WEIGHT) @ WEIGHT.T
    np.testing.assert_allclose(np.hstack(found), true, rtol=1e-3, atol=1e-2)


async def test_a_run_computes_only_the_product_that_it_needs():
    x, h, _, dh = gradients()
    metadata = af.RunMetadata()
    async with af.Session() as session:
        await session.run(dh, {x: X, h: H}, options=af.RunOptions(trace=True), metadata=metadata)
    sizes = [stats.output_bytes for stats in metadata.step_stats if stats.op_type == "matmul"]
    assert sizes == [4 * 3 * UNITS, 4 * 3 * RIGHT]


async def test_the_gradient_of_such_a_product_is_right(monkeypatch):
    async def compute(fetches, feeds):
        async with af.Session(graph=fetches[0].graph) as session:
            return await session.run(fetches, feeds)

    def square(x, h, weight):
        return af.matmul(af.concat([x, af.sin(h)], 1), weight) ** 2

    monkeypatch.setattr(concat, "_WEIGHTS", 1)
    values = [X[:1, :2], H[:1, :1], WEIGHT[:3, :2] / 9]
    await check_gradients(square, [value.astype(np.float64) for value in values], compute=compute)


def test_the_gradients_of_a_product_with_a_small_weight_are_pieces():
    *_, dx, dh = gradients(WEIGHT[:, :200])
    assert dx.op is dh.op


def test_the_gradients_of_values_one_below_the_other_are_pieces():
    x, h = af.placeholder(af.float32, [1, 256]), af.placeholder(af.float32, [2, 256])
    dx, dh = af.gradients(af.matmul(af.concat([x, h], 0), af.constant(WEIGHT)), [x, h])
    assert dx.op is dh.op


@pytest.mark.parametrize("sizes", [2, [3, 1]])
def test_the_gradient_of_a_split_is_the_gradient_that_was_split_without_a_copy(sizes):
    with af.Graph().as_default() as graph:
        x, dy = af.placeholder(af.float32, [4, 3]), af.placeholder(af.float32, [4, 3])
        first, second = af.split(x, sizes)
        assert af.gradients(af.concat([first, second], 0), x, dy)[0] is dy
        before = len([each for each in graph.get_operations() if each.type == "concat"])
        (turned,) = af.gradients(af.concat([second, first], 0), x, dy)
        assert turned.op.type == "concat"
        assert len([each for each in graph.get_operations() if each.type == "concat"]) == before + 2
