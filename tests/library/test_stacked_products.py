"""Gradients of weights of loops as one product of the factors of all iterations."""

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients

ROWS, WIDTH = 2, 8
DRAW = np.random.default_rng(5)
WEIGHT = DRAW.standard_normal((WIDTH, WIDTH), np.float32) / 3
START = DRAW.standard_normal((ROWS, WIDTH), np.float32)


def unrolled(x, w, count):
    """The variable after as many iterations, without a loop."""
    for _ in range(count):
        x = af.tanh(af.matmul(x, w))
    return x


def looped(x, w, count, multiply=af.matmul, **options):
    """The same by a loop."""
    return af.while_loop(
        lambda i, v: i < count, lambda i, v: (i + 1, af.tanh(multiply(v, w))), [0, x], **options
    )[1]  # fmt: skip


def slope(y, w):
    """The gradient of the sum of the squares of y."""
    return af.gradients(af.reduce_sum(af.square(y)), [w])[0]


async def run(fetches, feeds, **settings):
    async with af.Session(config=af.Config(**settings)) as session:
        return await session.run(fetches, feeds)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def inputs(rows=ROWS):
    return af.placeholder(af.float32, [rows, WIDTH]), af.placeholder(af.float32, [WIDTH, WIDTH])


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
async def test_the_sum_of_products_is_one_product_after_the_loop(count, flipped):
    x, w = inputs()
    right = af.matrix_transpose(w) if flipped else w
    found = slope(looped(x, w, count, lambda v, w: af.matmul(v, w, transpose_b=flipped)), w)
    assert found.op.type == "matmul"
    expected = slope(unrolled(x, right, count), w) if count else af.zeros_like(w)
    ours, theirs = await run([found, expected], {x: START, w: WEIGHT})
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{"executor": "tokens"}, {"recompute": True}], ids=str)
async def test_the_bits_do_not_depend_on_the_executor(settings):
    x, w = inputs()
    found, feeds = slope(looped(x, w, 7), w), {x: START, w: WEIGHT}
    assert np.array_equal(await run(found, feeds), await run(found, feeds, **settings))


async def test_a_variable_that_a_body_reads_is_such_a_weight():
    x, _ = inputs()
    w = af.Variable(WEIGHT)
    found = slope(looped(x, w, 4), w)
    assert found.op.type == "matmul"
    async with af.Session() as session:
        await session.run(w.initializer)
        ours, theirs = await session.run([found, slope(unrolled(x, w, 4), w)], {x: START})
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


async def test_gradients_are_right_to_third_order():
    async def compute(fetches, feeds):
        async with af.Session(graph=fetches[0].graph) as session:
            return await session.run(fetches, feeds)

    values = [START[:1, :3].astype(np.float64), WEIGHT[:3, :3].astype(np.float64)]
    await check_gradients(lambda x, w: looped(x, w, 3), values, 3, compute=compute, rtol=1e-3, atol=1e-4)


def wide(x, w):
    """A product with as many rows as columns."""
    return looped(af.tile(x, [WIDTH, 1]), w, 3)


def unknown(x, w):
    """A product whose number of rows is not known."""
    return looped(af.placeholder_with_default(x, [None, WIDTH]), w, 3)


def swapped(x, w):
    """A loop whose values may have to move to host memory."""
    return looped(x, w, 3, swap_memory=True)


def twice(x, w):
    """Two products in an iteration, of which one fits into the memory that the forward loop takes."""
    return looped(x, w, 3, lambda v, w: af.matmul(af.matmul(v, w), w))


@pytest.mark.parametrize("build", [wide, unknown, swapped, twice], ids=lambda build: build.__name__)
async def test_other_sums_stay_in_the_loop(build):
    x, w = inputs()
    found = slope(build(x, w), w)
    assert found.op.type == "while_loop"
    assert np.abs(await run(found, {x: START, w: WEIGHT})).max() > 0


async def test_factors_take_no_more_memory_than_the_values_that_the_forward_loop_lists():
    x = af.placeholder(af.float32, [ROWS, WIDTH])
    weights = [af.placeholder(af.float32, [WIDTH, WIDTH]) for _ in range(3)]
    y = looped(x, weights, 3, lambda v, ws: af.add_n([af.tanh(af.matmul(v, w)) for w in ws]))
    found = af.gradients(af.reduce_sum(af.square(y)), weights)  # the loop lists v, 3 tanh, and the last one
    assert [each.op.type for each in found].count("matmul") == 2
