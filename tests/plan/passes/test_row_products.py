"""Products of one row in loops are marked where their matrices exceed a cache, and nowhere else."""

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune
from aioflow.plan.passes.row_products import CACHE, LEAST
from aioflow.tensors.dtypes import float32

WIDTH = 512
assert LEAST < WIDTH * WIDTH < CACHE < 3 * WIDTH * WIDTH


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def loop(rows=1, count=3, body=lambda x, w: af.matmul(x, w)):
    """The result of a loop with products by `count` matrices, and the feeds."""
    start, weights = af.placeholder(float32, [rows, WIDTH]), af.placeholder(float32, [count, WIDTH, WIDTH])
    matrices = af.unstack(weights)

    def step(i, x):
        for matrix in matrices:
            x = body(x, matrix)
        return i + 1, x

    y = af.while_loop(lambda i, x: i < 2, step, [0, start], back_prop=False)[1]
    draw = np.random.default_rng(1)
    feeds = {start: draw.standard_normal((rows, WIDTH)), weights: draw.standard_normal((count, WIDTH, WIDTH)) / WIDTH}
    return y, {tensor: value.astype(np.float32) for tensor, value in feeds.items()}


def marked(*fetches):
    """The numbers of products of one row and of other products in the optimised flow."""
    flow = verify(optimise(prune((), fetches, ())))
    names = [inner.definition.name for node in flow.nodes for inner in node.everything()]
    return names.count("row_product"), names.count("matmul")


def test_products_of_one_row_by_more_than_a_cache_holds_are_marked():
    assert marked(loop()[0]) == (3, 0)


def test_not_several_rows_nor_what_a_cache_holds_nor_outside_of_loops():
    assert marked(loop(rows=2)[0]) == (0, 3)
    assert marked(loop(count=1)[0]) == (0, 1)
    x, matrices = af.placeholder(float32, [1, WIDTH]), [af.placeholder(float32, [WIDTH, WIDTH]) for _ in range(3)]
    assert marked(*[af.matmul(x, matrix) for matrix in matrices]) == (0, 3)


def test_not_small_matrices_nor_transposed_ones():
    def with_small(x, matrix):
        return af.pad(af.matmul(x[:, :8], matrix[:8]), [[0, 0], [0, 0]]) + af.matmul(x, matrix)

    assert marked(loop(body=with_small)[0]) == (3, 3)
    assert marked(loop(body=lambda x, matrix: af.matmul(x, matrix, transpose_b=True))[0]) == (0, 3)


async def test_marked_products_have_the_same_bits_however_the_loop_is_run():
    y, feeds = loop()
    x, weights = [value.astype(np.float64) for value in feeds.values()]
    for _ in range(2):
        for matrix in weights:
            x = x @ matrix
    async with af.Session() as session:
        compiled = await session.run(y, feeds)
        traced = await session.run(y, feeds, af.RunOptions(trace=True), af.RunMetadata())
    np.testing.assert_array_equal(compiled, traced)
    np.testing.assert_allclose(compiled, x, rtol=1e-3, atol=1e-5)
