"""Batches of the rows of several steps: aioflow's steps get what those of TensorFlow get, which run on threads."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import aioflow as af
from aioflow.kernels.state.batching import batch, row_batches, unbatch, unbatch_grad

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
GIVEN = [np.array(values, np.float32) for values in ([1.0, 2.0], [3.0])]
SIZES = [2, 4]
LONG = 500_000
"""Microseconds for which rows wait: long enough for two threads to begin."""
Step = Sequence[Any]
"""The rows of the batch, the places in it, the number of the step's rows, its own results, and gradients."""


def by_tensorflow() -> list[Step]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, ThreadPoolExecutor(len(GIVEN)) as pool:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        (rows,), index, number = tf.raw_ops.Batch(
            in_tensors=[x], num_batch_threads=1, max_batch_size=SIZES[-1], batch_timeout_micros=LONG,
            grad_timeout_micros=LONG, allowed_batch_sizes=SIZES,
        )  # fmt: skip
        y = tf.raw_ops.Unbatch(batched_tensor=rows * rows, batch_index=index, id=number, timeout_micros=10 * LONG)
        gradient = tf.raw_ops.UnbatchGrad(original_input=rows, batch_index=index, grad=2 * y, id=number)
        return list(pool.map(lambda value: session.run([rows, index, number, y, gradient], {x: value}), GIVEN))


async def by_aioflow() -> list[Step]:
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None])
        handle = row_batches(1, SIZES[-1], LONG, SIZES)
        rows, index, number = batch(handle, [x])
        y = each(unbatch(handle, index, number, [rows * rows]))
        gradient = each(unbatch_grad(handle, index, number, [rows], [2 * y]))
    async with af.Session(graph=graph) as session:
        steps = [session.run([rows, index, number, y, gradient], {x: value}) for value in GIVEN]
        return list(await asyncio.gather(*steps))


def each(made: Any) -> Any:
    return made if isinstance(made, af.Tensor) else made[0]


def in_order(step: Step) -> tuple[list[float], list[float]]:
    """The rows of a batch, and their gradients, without those that fill it up, in the order of the steps."""
    rows, index, _, _, gradient = step
    places = sorted(range(len(index)), key=lambda place: float(rows[index[place][1]]))
    spans = [slice(*index[place][1:]) for place in places]
    return [each for span in spans for each in rows[span]], [each for span in spans for each in gradient[span]]


def test_one_step_gets_all_rows_and_each_step_its_own_results() -> None:
    theirs, ours = by_tensorflow(), asyncio.run(by_aioflow())
    for steps in (theirs, ours):
        (leader,) = [step for step in steps if len(step[0])]
        (other,) = [step for step in steps if not len(step[0])]
        assert sorted(row[0] for row in leader[1]) == sorted(step[2] for step in steps)
        assert len(leader[0]) == SIZES[-1]
        assert leader[0][-1] == leader[0][0]  # its first row fills it up
        assert (other[1].shape, other[4].shape) == ((0, 3), (0,))
        assert in_order(leader) == ([1, 2, 3], [2, 8, 18])
        for step, values in zip(steps, GIVEN, strict=True):
            np.testing.assert_array_equal(step[3], values * values)
