"""The numbers that a caller gets from a batch do not depend on the calls that share it."""

import asyncio

import numpy as np

import aioflow as af

WIDTH = 33
ROWS = (1, 2, 1, 5, 3, 1, 17, 1)


def drawn(random):
    """The values of some calls, of very different sizes."""
    return [
        (random.standard_normal((count, WIDTH)) * 10.0 ** (at % 5 - 2)).astype(np.float32)
        for at, count in enumerate(ROWS)
    ]


async def alone_and_shared(fetches, x, given):
    """What each call gets that runs alone, and what it gets in one batch with all others."""
    async with af.Session(graph=x.graph) as session:
        batched = session.batched(fetches, [x], max_rows=sum(ROWS))
        alone = [await batched(value) for value in given]
        before = dict(batched.statistics.batches)
        shared = await asyncio.gather(*map(batched, given))
        assert sum(batched.statistics.batches.values()) - sum(before.values()) <= 2
    return alone, shared


async def test_kernels_that_compute_rows_apart_give_the_same_bits():
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [None, WIDTH])
        fetches = {
            "arithmetic": (2.0 * x + 1.0) / (x * x + 0.5), "exp": af.exp(x), "tanh": af.tanh(x),
            "sigmoid": af.sigmoid(x), "relu": af.nn.relu(x),
            "sum": af.reduce_sum(x, 1), "max": af.reduce_max(x, 1), "cumsum": af.cumsum(x, 1), "sorted": af.sort(x, 1),
            "rows": af.gather(x, [3, 0, 3], axis=1), "cast": af.cast(x, af.float16),
        }  # fmt: skip
        alone, shared = await alone_and_shared(fetches, x, drawn(np.random.default_rng(1)))
    for mine, ours in zip(alone, shared, strict=True):
        differ = [name for name in fetches if mine[name].tobytes() != ours[name].tobytes()]
        assert not differ, differ


async def test_softmax_and_products_of_matrices_differ_by_no_more_than_rounding():
    random = np.random.default_rng(2)
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [None, WIDTH])
        weights = random.standard_normal((WIDTH, 65)).astype(np.float32)
        given = drawn(random)
        alone, shared = await alone_and_shared([af.matmul(x, weights), af.nn.softmax(x)], x, given)
    for value, mine, ours in zip(given, alone, shared, strict=True):
        magnitudes = np.abs(value) @ np.abs(weights)  # products may cancel each other
        for one, other, most in zip(mine, ours, (magnitudes, 1.0), strict=True):
            assert (np.abs(one - other) <= WIDTH * np.finfo(np.float32).eps * most).all()
