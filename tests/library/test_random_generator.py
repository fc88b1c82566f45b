"""Generators of random numbers: library/random_generator.py. oracle/test_generators.py compares the numbers."""

import asyncio

import numpy as np
import pytest
from scipy import stats

import aioflow as af
from aioflow import errors

Generator = af.random.Generator


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


async def begun(session, generator):
    await session.run(generator.state.initializer)
    return generator


async def test_a_seed_decides_all_numbers(session):
    generator = await begun(session, Generator.from_seed(1234))
    numbers = generator.normal([2, 3])
    first, second = await session.run(numbers), await session.run(numbers)
    expected = [[0.9356609, 1.0854305, -0.93788373], [-0.5061547, 1.3169702, 0.7137579]]  # of TensorFlow's docstring
    np.testing.assert_allclose(first, expected, atol=2e-6)
    assert (first != second).all()
    await session.run(generator.reset_from_seed(1234))
    np.testing.assert_array_equal(await session.run(numbers), first)


async def test_each_draw_moves_the_state_by_what_it_draws(session):
    generator = await begun(session, Generator.from_key_counter(7, [-1, 2], "philox"))
    draws = {
        "normal": (generator.normal([2, 3]), 6),
        "truncated": (generator.truncated_normal([5], dtype=af.float64), 5),
        "uniform": (generator.uniform([], -1.0, 1.0), 1),
        "integers": (generator.uniform([4], 0, 9, af.int64), 4),
        "full": (generator.uniform_full_int([0]), 0),
        "binomial": (generator.binomial([2, 3], [10, 20, 30], 0.5), 6),
        "seeds": (generator.make_seeds(4), 4),
        "skip": (generator.skip(10), 10),
    }
    counter = 2**64 * 3 - 1
    for name, (draw, count) in draws.items():
        await session.run(draw)
        counter += 256 * count
        found = (await session.run(generator.state)).tolist()
        assert found == [counter % 2**64 - 2**64 * (counter % 2**64 >= 2**63), counter >> 64, 7], name
    assert await session.run(generator.key) == 7


async def test_steps_at_the_same_time_draw_different_numbers(session):
    generator = await begun(session, Generator.from_seed(1))
    numbers = generator.uniform_full_int([2])
    found = await asyncio.gather(*[session.run(numbers) for _ in range(20)])
    assert len({tuple(pair.tolist()) for pair in found}) == 20


async def test_draws_in_a_loop_differ(session):
    generator = await begun(session, Generator.from_seed(1))
    turns = af.while_loop(
        lambda i, total: i < 5,
        lambda i, total: (i + 1, af.concat([total, generator.uniform_full_int([1])], 0)),
        [0, af.constant([], af.uint64)],
        [af.TensorShape([]), af.TensorShape([None])],
    )[1]
    assert len(set((await session.run(turns)).tolist())) == 5


async def test_generators_split_off_and_copies_go_their_own_way(session):
    generator = Generator.from_seed(5)
    parts = [generator, *generator.split(2), Generator(copy_from=generator)]
    await session.run(af.global_variables_initializer())
    first, *rest = await session.run([part.uniform_full_int([4]) for part in parts])
    np.testing.assert_array_equal(rest.pop(), first)
    assert len({row.tobytes() for row in (first, *rest)}) == 3


async def test_a_variable_is_taken_as_the_state(session):
    state = af.Variable(np.array([1, 2, 3]), trainable=False)
    generator = Generator.from_state(state, "philox")
    assert generator.state is state
    assert (generator.algorithm, generator.state.trainable) == (af.random.Algorithm.PHILOX.value, False)
    await session.run(state.initializer)
    assert (await session.run(generator.reset_from_key_counter(9, [7, 8]))).tolist() == [7, 8, 9]
    assert (await session.run(generator.reset([4, 5, 6]))).tolist() == [4, 5, 6]


async def test_a_random_state_differs_at_each_initialization(session):
    af.set_random_seed(1)
    generator = Generator.from_non_deterministic_state()
    states = []
    for _ in range(2):
        await begun(session, generator)
        states.append((await session.run(generator.state)).tolist())
    assert states[0] != states[1]


async def test_numbers_of_the_binomial_distribution_follow_it(session):
    generator = await begun(session, Generator.from_seed(3))
    found = await session.run(generator.binomial([20_000], 8, 0.3, af.int64))
    expected = stats.binom(8, 0.3).pmf(range(9)) * len(found)
    assert (
        stats.chisquare(np.bincount(found, minlength=9)[:7], expected[:7] * sum(found < 7) / sum(expected[:7])).pvalue
        > 0.01
    )


async def test_gradients_flow_to_mean_and_deviation(session):
    generator = await begun(session, Generator.from_seed(3))
    mean, deviation = af.constant(2.0), af.constant(0.5)
    found = generator.normal([4], mean, deviation)
    numbers, (to_mean, to_deviation) = await session.run([found, af.gradients(found, [mean, deviation])])
    assert to_mean == 4
    np.testing.assert_allclose(to_deviation, ((numbers - 2) / 0.5).sum(), rtol=1e-5)


async def test_each_graph_has_one_global_generator(session, graph):
    generator = af.random.get_global_generator()
    assert af.random.experimental.get_global_generator() is generator
    with af.Graph().as_default():
        assert af.random.get_global_generator() is not generator
    own = Generator.from_seed(5)
    af.random.set_global_generator(own)
    assert af.random.get_global_generator() is own
    with pytest.raises(TypeError, match=r"the global generator is an af\.random\.Generator, not 5"):
        af.random.set_global_generator(5)


def test_states_are_made_of_seeds():
    for seed, state in [(-5, [-5, -1, -1]), (2**64 + 3, [3, 1, 0]), ([5], [0, 0, 5]), ([1, 2, 3, 4], [1, 2, 3])]:
        assert af.random.create_rng_state(seed, af.random.Algorithm.AUTO_SELECT).tolist() == state


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda g: Generator(), ValueError, "needs copy_from, or both state and alg"),
        (lambda g: Generator(state=[1, 2, 3]), ValueError, "needs copy_from, or both state and alg"),
        (lambda g: Generator.from_seed(1, "threefry"), ValueError, "the algorithm 'philox'.*not 'threefry'"),
        (lambda g: Generator.from_state([1, 2], "philox"), ValueError, r"has the shape \[3\], not"),
        (lambda g: Generator.from_state([1.0, 2.0, 3.0], 1), TypeError, "made of integers, not float32"),
        (lambda g: Generator.from_key_counter([5], [1, 2], 1), ValueError, r"a counter the shape \[2\], not"),
        (lambda g: Generator.from_seed(1.5), TypeError, r"integers in a sequence, not 1\.5"),
        (lambda g: g.reset([1, 2, 3, 4]), ValueError, r"has the shape \[3\], not"),
        (lambda g: g.uniform([2], dtype=af.int32), ValueError, "minval is 0 and maxval None"),
        (lambda g: g.uniform([2], None, None), ValueError, "float32 give minval and maxval"),
        (lambda g: g.uniform([2], 5, 5, af.int32), ValueError, "minval 5 must be below maxval 5"),
        (lambda g: g.uniform_full_int([2], af.int8), TypeError, "int32, int64, uint32, uint64, not int8"),
        (lambda g: g.normal([2], dtype=af.int32), TypeError, "dtype int32 is not floating"),
        (lambda g: g.normal([-1]), ValueError, "shape cannot have a negative size"),
    ],
)
def test_bad_input_is_refused(build, error, message):
    with pytest.raises(error, match=message):
        build(Generator.from_seed(1))


async def test_a_state_must_be_initialized(session):
    with pytest.raises(errors.FailedPreconditionError, match="StateVar"):
        await session.run(Generator.from_seed(1).normal([1]))
