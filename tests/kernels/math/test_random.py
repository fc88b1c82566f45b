"""Random numbers: the bits are pinned, the distributions are tried, and nothing but key, counter and place matters."""

import types

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

from aioflow import errors
from aioflow.graph.convert import constant_value
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import random, random_numbers
from aioflow.kernels.math.random import get_seed, set_random_seed
from aioflow.tensors.dtypes import DeviceKind, as_dtype
from tests.support.evaluate import View
from tests.support.scale import amount

FLOATS = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float32, np.float64]
STANDARD = [random._uniform, random._normal, random._truncated]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def drawn(tensor, run=0, **inputs):
    """The value of a random tensor in the step before which its operation ran `run` times."""
    op = tensor.op
    kernel = op.definition.kernel_for(DeviceKind.CPU, [source.spec for source in op.inputs])
    step = types.SimpleNamespace(times_run=lambda name: {op.name: run}[name])
    values = [constant_value(source) for source in op.inputs]
    values = [
        inputs.get(source.op.name) if value is None else value for source, value in zip(op.inputs, values, strict=True)
    ]
    with np.errstate(all="ignore"):
        return kernel.bind(op.definition, View(op), np)(types.SimpleNamespace(step=step, iteration=()), *values)


def standard(op, count, dtype=np.float32, seeds=(42, 7), run=3):
    return drawn(op([count], as_dtype(dtype), *seeds), run)


# The bits


def philox(counter, key):
    """Philox 4x64 with 10 rounds, on Python's integers."""
    a, b, c, d = counter
    for turn in range(10):
        first, second = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        k, m = [
            (part + turn * bump) % 2**64
            for part, bump in zip(key, (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B), strict=True)
        ]
        a, b, c, d = second >> 64 ^ b ^ k, second % 2**64, first >> 64 ^ d ^ m, first % 2**64
    return a, b, c, d


@pytest.mark.parametrize("seeds", [(0, 0), (42, 7), (2**63 + 5, -1)])
@pytest.mark.parametrize("run", [0, 3, 2**40])
def test_words_are_those_of_philox(seeds, run):
    context = types.SimpleNamespace(step=types.SimpleNamespace(times_run=lambda name: run), iteration=())
    ours = random.words(context, types.SimpleNamespace(name="x"), *seeds, 10)
    key = [seed % 2**64 for seed in seeds]
    assert ours.tolist() == [word for block in (1, 2, 3) for word in philox((block, 0, run, 0), key)][:10]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        (random._uniform, np.float32, ["0x1.0eaba0p-2", "0x1.c55a90p-1", "0x1.85f178p-2", "0x1.5b2fe0p-5",
                                       "0x1.fcbe84p-1"]),
        (random._uniform, np.float64, ["0x1.c55a91d28755dp-1", "0x1.5b2fef0c2f8b0p-5", "0x1.53f8874bfcbe8p-1",
                                       "0x1.a36f29552b902p-1", "0x1.303b793231622p-1"]),
    ],
)  # fmt: skip
def test_uniform_numbers_are_pinned_to_the_bit(op, dtype, expected):
    assert standard(op, 5, dtype).astype(float).tolist() == [float.fromhex(text) for text in expected]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        (random._normal, np.float32, [1.2267462, -1.07528293, 1.34060585, 0.365673155, -0.0581043102]),
        (random._normal, np.float64,
         [0.4758728149443942, 0.129802529618858, 0.38122566742439645, -0.82072936607492, -0.44899570164698666]),
        (random._truncated, np.float32, [-0.597610891, 1.11660433, -0.289165348, -1.52842891, 1.89842927]),
        (random._truncated, np.float64,
         [1.116604368834275, -1.528429007092179, 0.4030470765533074, 0.858469782808818, 0.22733263507553939]),
    ],
)  # fmt: skip
def test_normal_numbers_are_pinned_to_rounding(op, dtype, expected):
    np.testing.assert_allclose(standard(op, 5, dtype), expected, rtol=1e-14 if dtype is np.float64 else 5e-6)


def test_integers_orders_and_classes_are_pinned():
    assert drawn(random._uniform_int([5], np.int32(-100), np.int32(100), 42, 7), 3).tolist() == [77, -92, 32, 63, 18]
    assert drawn(random._uniform_int([3], np.int64(-(2**62)), np.int64(2**62), 42, 7), 3).tolist() == [
        3555209776693867557, -4220787935760470170, 1512683714951225701,
    ]  # fmt: skip
    assert drawn(random._shuffle(np.arange(8), 42, 7), 3).tolist() == [1, 6, 4, 2, 5, 7, 3, 0]
    assert drawn(random._multinomial(np.log([[0.2, 0.3, 0.5]]), 6, 42, 7), 3).tolist() == [[2, 0, 2, 2, 2, 2]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", STANDARD)
def test_an_element_depends_on_its_place_alone(op, dtype):
    whole = standard(op, 1001, dtype)
    assert whole.dtype == dtype
    for count in (0, 1, 2, 6, 500):
        np.testing.assert_array_equal(standard(op, count, dtype), whole[:count])
    np.testing.assert_array_equal(drawn(op([7, 11], as_dtype(dtype), 42, 7), 3), whole[:77].reshape(7, 11))
    scalar = drawn(op([], as_dtype(dtype), 42, 7), 3)
    assert (scalar.shape, scalar) == ((), whole[0])


@pytest.mark.parametrize("op", STANDARD)
def test_runs_seeds_and_operations_differ(op):
    streams = [standard(op, 8, seeds=seeds, run=run).tolist() for seeds in [(1, 2), (2, 1), (1, 3)] for run in range(3)]
    assert len({tuple(stream) for stream in streams}) == 9
    assert standard(op, 8).tolist() == standard(op, 8).tolist()


@pytest.mark.parametrize("op", STANDARD)
def test_without_seeds_every_run_differs(op):
    assert standard(op, 8, seeds=(None, None)).tolist() != standard(op, 8, seeds=(None, None)).tolist()


# Distributions


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("op", "law"),
    [(random._uniform, stats.uniform), (random._normal, stats.norm), (random._truncated, stats.truncnorm(-2, 2))],
)
def test_numbers_follow_their_law(op, law, dtype):
    numbers = standard(op, 200_000, dtype).astype(float)
    assert stats.kstest(numbers, law.cdf).pvalue > 0.01
    assert abs(numbers.mean() - law.mean()) < 4 * law.std() / 200_000**0.5
    assert abs(numbers.std() / law.std() - 1) < 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(numbers[0::2] ** 2, numbers[1::2] ** 2)[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_never_reach_1_and_use_all_digits(dtype):
    numbers = standard(random._uniform, 100_000, dtype).astype(float)
    digits = random_numbers.DIGITS[as_dtype(dtype)]
    assert 0 <= numbers.min() < 2.0 ** -min(digits, 12)
    assert 1 - 2.0 ** -min(digits, 12) <= numbers.max() < 1
    steps = numbers * 2.0**digits
    np.testing.assert_array_equal(steps, np.floor(steps))
    assert (steps % 2).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_truncated_numbers_stay_within_two_deviations(dtype):
    numbers = standard(random._truncated, 100_000, dtype).astype(float)
    assert np.abs(numbers).max() <= 2
    assert not np.isnan(numbers).any()


@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_the_quantile_is_that_of_the_normal_distribution(dtype, limit):
    share = np.concatenate([np.linspace(-1 + 2**-24, 1 - 2**-24, 20_000), [1e-9, -1e-9]]).astype(dtype)
    exact = np.sqrt(2) * special.erfinv(share.astype(float) * special.erf(np.sqrt(2)))
    np.testing.assert_allclose(random_numbers._central_quantile(share), exact, rtol=limit)


@pytest.mark.parametrize("span", [1, 3, 10, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**63 + 11, 2**64 - 1])
def test_a_word_is_scaled_by_a_product_of_128_bits(span):
    words = np.random.default_rng(0).integers(0, 2**64, 1000, np.uint64)
    words[:2] = 0, 2**64 - 1
    assert random_numbers._below(words, span).tolist() == [int(word) * span >> 64 for word in words]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_are_uniform_up_to_the_limits_of_the_dtype(dtype):
    kind = as_dtype(dtype)
    dice = drawn(random.random_uniform([60_000], 1, 7, dtype, seed=1))
    assert dice.dtype == kind.np
    assert stats.chisquare(np.bincount(dice)[1:]).pvalue > 0.01
    whole = drawn(random.random_uniform([10_000], kind.min, kind.max, dtype, seed=1)).astype(float)
    assert abs(whole.mean() - (float(kind.max) + float(kind.min)) / 2) < 0.02 * (float(kind.max) - float(kind.min))


def test_a_shuffle_keeps_what_it_orders():
    rows = np.arange(300).reshape(100, 3)
    shuffled = drawn(random.random_shuffle(rows, seed=5))
    assert sorted(shuffled.tolist()) == rows.tolist() != shuffled.tolist()
    assert drawn(random.random_shuffle(np.array([b"x", b"y"], object), seed=5)).tolist() in ([b"x", b"y"], [b"y", b"x"])
    assert drawn(random.random_shuffle(rows[:0], seed=5)).shape == (0, 3)
    orders = [tuple(drawn(random._shuffle(np.arange(3), 1, 2), run).tolist()) for run in range(amount(1200, 6000))]
    assert stats.chisquare([orders.count(order) for order in set(orders)]).pvalue > 0.01
    with pytest.raises(ValueError, match="a scalar has no first axis to shuffle"):
        random.random_shuffle(1)


def test_classes_are_drawn_by_their_probability():
    logits = np.log([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-300]]) + 800
    classes = drawn(random.multinomial(logits, 20_000, seed=1, output_dtype="int32"))
    assert (classes.dtype, classes.shape) == (np.int32, (2, 20_000))
    assert stats.chisquare(np.bincount(classes[0]), [2000, 4000, 14000]).pvalue > 0.01
    assert stats.chisquare(np.bincount(classes[1]), [10000, 10000]).pvalue > 0.01
    assert drawn(random.multinomial([[1, 900]], 3, seed=1)).tolist() == [[1, 1, 1]]
    with pytest.raises(errors.InvalidArgumentError, match="cannot draw 2 of 0 classes"):
        drawn(random.multinomial(np.zeros((1, 0)), 2))
    with pytest.raises(TypeError, match="classes are integers, not float32"):
        random.multinomial(logits, 1, output_dtype="float32")


# Seeds


def test_seeds_follow_the_rules_of_tensorflow(graph):
    assert get_seed(None) == (None, None)
    assert get_seed(5) == (random.DEFAULT_GRAPH_SEED, 5)
    set_random_seed(17)
    assert get_seed(5) == (17, 5)
    assert get_seed(None) == (17, 0)
    constant(1)
    assert get_seed(None) == (17, 1)
    set_random_seed(0)
    assert get_seed(0) == (0, 2**31 - 1)


def test_a_graph_with_a_seed_is_repeated_by_one_built_alike():
    def numbers(seed):
        with Graph().as_default():
            set_random_seed(seed)
            return [drawn(random.random_normal([3])).tolist() for _ in range(2)]

    assert numbers(1) == numbers(1) != numbers(2)
    first, second = numbers(1)
    assert first != second


# What users call


def test_bounds_and_moments_are_applied():
    for tensor, low, high in [
        (random.random_uniform([5000], -3, 4, seed=1, name="u"), -3, 4),
        (random.random_normal([5000], constant(10.0), 0.5, seed=1, name="n"), 8, 12),
        (random.truncated_normal([5000], 10, 0.5, seed=1, name="t"), 9, 11),
    ]:
        shifted, scaled = tensor.op, tensor.op.inputs[0].op
        numbers = drawn(scaled.inputs[0]) * constant_value(scaled.inputs[1]) + constant_value(shifted.inputs[1])
        assert tensor.name == shifted.name + ":0" in ("u:0", "n:0", "t:0")
        assert low <= numbers.min() < low + 0.5
        assert high - 0.5 < numbers.max() <= high
    plain = random.random_uniform([2], name="plain")
    assert (plain.op.type, plain.op.name) == ("random_uniform", "plain")


def test_shapes_are_as_known_as_they_can_be():
    size = placeholder("int32", [])
    for draw in (random.random_uniform, random.random_normal, random.truncated_normal):
        assert draw([2, 3]).shape == [2, 3]
        assert draw([]).shape == []
        assert draw([size, 3]).shape.as_list() == [None, 3]
        assert draw(placeholder("int32", [2])).shape.as_list() == [None, None]
        assert draw(placeholder("int32", [None])).shape.ndims is None
        with pytest.raises(ValueError, match=r"shape cannot have a negative size: \[-1\]"):
            draw([-1])
    with pytest.raises(ValueError, match=r"shape \[2, -1\] has a negative size"):
        drawn(random.random_uniform(placeholder("int32", [2], name="shape")), shape=np.array([2, -1]))


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="maxval must be given for the integer dtype int32"):
        random.random_uniform([2], dtype="int32")
    with pytest.raises(TypeError, match="dtype int32 is not floating"):
        random.random_normal([2], dtype="int32")
    with pytest.raises(ValueError, match="rank 0 is needed"):
        random.random_uniform([2], [1, 2], 5, "int32")
    with pytest.raises(ValueError, match="minval 5 must be below maxval 5"):
        random.random_uniform([2], 5, 5, "int32")
    low = placeholder("int32", [], name="low")
    with pytest.raises(ValueError, match="minval 7 must be below maxval 5"):
        drawn(random.random_uniform([2], low, 5, "int32"), low=np.int32(7))
