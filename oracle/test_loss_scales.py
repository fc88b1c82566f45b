"""Loss scales and variables follow the gradients of steps as TensorFlow's do."""

import asyncio
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
DRAW = np.random.default_rng(4)
FACTORS = [DRAW.choice([1.0, -0.5, np.inf, np.nan], 25, p=[0.5, 0.3, 0.1, 0.1]).tolist() for _ in range(2)]
SCALES = [(8, 2, 2.0), (3.0, 1, 1.5), (64, 4, 4.0), (2.0, 3, 10.0)]
OPTIMIZERS = [("GradientDescentOptimizer", (0.5,)), ("AdamOptimizer", (0.1,)), ("MomentumOptimizer", (0.1, 0.9))]


def built(lib: Any, train: Any, scale: tuple[float, int, float], optimizer: tuple[str, tuple[float, ...]]) -> Any:
    """The placeholder of a factor of the loss, a step, and what it changes."""
    scales = train.experimental
    name, numbers = optimizer
    x, weight = lib.placeholder(lib.float32, []), lib.Variable([1.0, 2.0])
    step = lib.Variable(0, trainable=False)
    outer = scales.MixedPrecisionLossScaleOptimizer(getattr(train, name)(*numbers), scales.DynamicLossScale(*scale))
    done = outer.minimize(lib.reduce_sum(lib.square(weight)) * x, step, [weight])
    return x, done, [weight, step, *outer.variables()[-2:]]


def by_tensorflow(factors: list[float], *given: Any) -> list[Any]:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x, done, changed = built(v1, v1.train, *given)
        session.run(v1.global_variables_initializer())
        return [session.run(done, {x: factor}) or session.run(changed) for factor in factors]


async def by_aioflow(factors: list[float], *given: Any) -> list[Any]:
    with af.Graph().as_default() as graph:
        x, done, changed = built(af, af.train, *given)
        begin = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(begin)
        return [await session.run(done, {x: factor}) or await session.run(changed) for factor in factors]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_tensorflows(scale: Any, optimizer: Any) -> None:
    for factors in FACTORS:
        mine, theirs = asyncio.run(by_aioflow(factors, scale, optimizer)), by_tensorflow(factors, scale, optimizer)
        for number, (found, wanted) in enumerate(zip(mine, theirs, strict=True)):
            for value, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(value, other, rtol=2e-5, err_msg=f"step {number}")
