"""Generators draw TensorFlow's numbers, and have TensorFlow's states before and after."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.context import eager_mode

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
STATES = ([1234, 0, 0], [-3, -1, 3 * 2**40 + 77], [-(2**62), -1, -1])
SEEDS = (1, -5, 2**64 - 1, 2**64 + 3, 2**200, [5], [1, 2], [-1, 2, 3, 4])
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "int32": lambda lib, g: g.uniform([4001], -3, 100, lib.int32),
    "int32, wide": lambda lib, g: g.uniform([4001], -(2**31), 2**31 - 1, lib.int32),
    "int64": lambda lib, g: g.uniform([4001], -(2**63), 2**63 - 1, lib.int64),
    "full int": lambda lib, g: g.uniform([7], None, None, lib.int32),
    "seeds": lambda lib, g: g.make_seeds(5),
    "empty": lambda lib, g: g.normal([0, 3]),
    "scalar": lambda lib, g: g.uniform([]),
    "skip": lambda lib, g: g.skip(2**40),
    "key": lambda lib, g: g.key,
    "bounds": lambda lib, g: g.uniform([5, 2], [1.0, 2.0], [3.0, 50.0]),
} | {f"full {name}": lambda lib, g, name=name: g.uniform_full_int([33, 3], getattr(lib, name))
     for name in ("int32", "int64", "uint32", "uint64")}  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32", "float64")


def in_tensorflow(build: Callable[[], list[Any]]) -> list[Any]:
    """The values of the tensors that `build` makes, one after the other."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = [tf.convert_to_tensor(tensor) for tensor in build()]
        session.run(v1.global_variables_initializer())
        return [session.run(tensor) for tensor in tensors]


def drawn_by_tensorflow(state: list[int], draw: Callable[..., Any]) -> list[Any]:
    def build() -> list[Any]:
        generator = tf.random.Generator.from_state(state, "philox")
        numbers = draw(tf, generator)
        return [numbers, generator.state]

    return in_tensorflow(build)


def drawn(state: list[int], draw: Callable[..., Any]) -> tuple[Any, Any]:
    async def run() -> tuple[Any, Any]:
        with af.Graph().as_default() as graph:
            generator = af.random.Generator.from_state(state, "philox")
            numbers = draw(af, generator)
        async with af.Session(graph=graph) as session:
            await session.run(generator.state.initializer)
            return await session.run(numbers), await session.run(generator.state)

    return asyncio.run(run())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", DRAWS)
def test_integers_and_states_are_tensorflows(state: list[int], name: str) -> None:
    for mine, theirs in zip(drawn(state, DRAWS[name]), drawn_by_tensorflow(state, DRAWS[name]), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("law", ["uniform", "normal", "truncated_normal"])
def test_floats_are_tensorflows_to_rounding(state: list[int], dtype: str, law: str) -> None:
    def draw(lib: Any, generator: Any) -> Any:
        return getattr(generator, law)([20_001], dtype=getattr(lib, dtype))

    (mine, after), (theirs, wanted) = drawn(state, draw), drawn_by_tensorflow(state, draw)
    assert mine.dtype == theirs.dtype
    assert after.tolist() == wanted.tolist()
    step = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 4e-6, "float64": 2e-15}[dtype]
    np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=0, atol=0 if law == "uniform" else step)


async def split_states() -> list[Any]:
    with af.Graph().as_default() as graph:
        generator = af.random.Generator.from_seed(77)
        states = [part.state for part in (generator, *generator.split(3))]
        begin = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(begin)
        return [(await session.run(state)).tolist() for state in states]


def test_generators_split_off_are_tensorflows() -> None:
    with eager_mode():  # TensorFlow splits no generator in a graph
        generator = tf.random.Generator.from_seed(77)
        wanted = [each.state.numpy().tolist() for each in (generator, *generator.split(3))]
        wanted[0] = generator.state.numpy().tolist()
    assert asyncio.run(split_states()) == wanted


def test_states_of_seeds_are_tensorflows() -> None:
    for seed in SEEDS:
        assert (
            af.random.create_rng_state(seed, "philox").tolist()
            == in_tensorflow(lambda seed=seed: [tf.random.create_rng_state(seed, "philox")])[0].tolist()
        )
