"""First values: their shapes, dtypes and distributions."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import initializers

TRUNCATED = 0.87962566103423978


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def value(tensor):
    async with af.Session(graph=af.get_default_graph()) as session:
        return await session.run(tensor)


@pytest.mark.parametrize(
    ("made", "dtype", "expected"),
    [
        (initializers.zeros_initializer(), None, np.zeros((2, 3), np.float32)),
        (initializers.zeros_initializer("int32"), None, np.zeros((2, 3), np.int32)),
        (initializers.zeros_initializer(), "bool", np.zeros((2, 3), bool)),
        (initializers.zeros_initializer(), "string", np.full((2, 3), b"", object)),
        (initializers.ones_initializer(), "bfloat16", np.ones((2, 3), af.bfloat16.np)),
        (initializers.ones_initializer(), "bool", np.ones((2, 3), bool)),
        (initializers.constant_initializer(2.5), "float64", np.full((2, 3), 2.5)),
        (initializers.constant_initializer([1, 2], "int64"), None, np.array([[1, 2, 2], [2, 2, 2]])),
        (initializers.identity_initializer(2.0), None, 2 * np.eye(2, 3, dtype=np.float32)),
    ],
)
async def test_constants(made, dtype, expected):
    for shape in ([2, 3], (2, 3), af.TensorShape([2, 3])):
        result = await value(made(shape, dtype))
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype


@pytest.mark.parametrize(
    ("made", "low", "high", "mean", "deviation"),
    [
        (initializers.random_uniform_initializer(-2, 4, seed=1), -2, 4, 1, 12**0.5 / 2),
        (initializers.random_uniform_initializer(seed=1), 0, 1, 0.5, 12**-0.5),
        (initializers.random_normal_initializer(3, 0.5, seed=1), 0, 6, 3, 0.5),
        (initializers.truncated_normal_initializer(3, 0.5, seed=1), 2, 4, 3, 0.5 * TRUNCATED),
    ],
)
async def test_random_values(made, low, high, mean, deviation):
    for dtype in (None, "float64"):
        numbers = await value(made([200, 300], dtype))
        assert numbers.dtype == np.dtype(dtype or "float32")
        assert low <= numbers.min() < numbers.max() <= high
        assert abs(numbers.mean() - mean) < 0.02 * deviation
        assert abs(numbers.std() / deviation - 1) < 0.02


async def test_integers_are_drawn_too():
    numbers = await value(initializers.random_uniform_initializer(3, 6, seed=1, dtype="int32")([100]))
    assert set(numbers.tolist()) == {3, 4, 5}


@pytest.mark.parametrize(
    ("made", "variance"),
    [
        (initializers.glorot_uniform_initializer(seed=1), 2 / 500),
        (initializers.glorot_normal_initializer(seed=1), 2 / 500),
        (initializers.he_uniform(seed=1), 2 / 200),
        (initializers.he_normal(seed=1), 2 / 200),
        (initializers.lecun_uniform(seed=1), 1 / 200),
        (initializers.lecun_normal(seed=1), 1 / 200),
        (initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal", seed=1), 3 / 300),
    ],
)
async def test_the_variance_follows_the_fans(made, variance):
    for shape, places in [([200, 300], 1), ([3, 2, 200, 300], 6)]:
        numbers = await value(made(shape))
        assert abs(numbers.mean()) < 0.02 * variance**0.5
        assert abs(numbers.var() / (variance / places) - 1) < 0.02


@pytest.mark.parametrize(
    ("shape", "dtype"), [([4, 3], None), ([3, 4], "float64"), ([2, 3, 4], None), ([1, 2, 5], None), ([0, 2], None)]
)
async def test_orthogonal_rows_or_columns_have_the_length_of_the_gain(shape, dtype):
    numbers = await value(initializers.orthogonal_initializer(2.0, seed=1)(shape, dtype))
    assert (numbers.shape, numbers.dtype) == (tuple(shape), np.dtype(dtype or "float32"))
    matrix = numbers.reshape(-1, shape[-1])
    product = matrix @ matrix.T if len(matrix) < shape[-1] else matrix.T @ matrix
    expected = 4 * np.eye(len(product)) if matrix.size else np.zeros((0, 0))
    np.testing.assert_allclose(product if matrix.size else expected, expected, atol=1e-5)


async def test_orthogonal_matrices_have_signs_of_all_sorts():
    numbers = await value(initializers.orthogonal(seed=1)([64, 64]))
    assert 16 < (np.diag(numbers) > 0).sum() < 48


@pytest.mark.parametrize(("shape", "limit"), [([3, 100], 2.0), ([2, 6, 100], 1.0), ([100], 12**0.5), ([], 12**0.5)])
async def test_uniform_unit_scaling_goes_by_what_comes_in(shape, limit):
    numbers = await value(initializers.uniform_unit_scaling_initializer(2.0, seed=1)(shape))
    assert np.abs(numbers).max() <= limit
    assert not shape or np.abs(numbers).max() > 0.9 * limit


def test_each_name_of_tensorflows_namespace_is_a_class():
    for name in ("zeros", "ones", "constant", "random_uniform", "glorot_normal", "variance_scaling", "identity"):
        assert getattr(initializers, name) is getattr(initializers, f"{name}_initializer")


async def test_vectors_and_scalars_have_fans_too():
    made = initializers.VarianceScaling(12.0, "fan_avg", "uniform", seed=1)
    for shape, limit in [([], 6.0), ([9], 2.0)]:
        numbers = await value(made(shape))
        assert numbers.shape == tuple(shape)
        assert np.abs(numbers).max() <= limit


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: initializers.VarianceScaling(0.0), "scale must be positive, not 0.0"),
        (lambda: initializers.VarianceScaling(mode="fan"), "mode must be one of fan_in, fan_out, fan_avg, not 'fan'"),
        (lambda: initializers.VarianceScaling(distribution="cauchy"), "distribution is .*, not 'cauchy'"),
        (lambda: initializers.VarianceScaling(dtype="int32"), "floating, not int32"),
        (lambda: initializers.Identity()([3]), "an identity matrix has two axes"),
        (lambda: initializers.Orthogonal()([3]), "an orthogonal matrix has two axes or more"),
        (lambda: initializers.Constant([1, 2, 3], verify_shape=True)([2]), "does not have shape"),
        (lambda: initializers.default_for(af.complex64), "a variable of dtype complex64 needs an initializer"),
    ],
)
def test_what_cannot_work_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "GlorotUniform"), ("int32", "Zeros"), ("bool", "Zeros")])
def test_a_variable_without_initializer_gets_the_usual_one(dtype, kind):
    assert type(initializers.default_for(af.as_dtype(dtype))).__name__ == kind
    assert initializers.default_for(af.as_dtype(dtype))([2, 3]).dtype == dtype


@pytest.mark.parametrize(
    ("made", "config"),
    [
        (initializers.Constant(3), {"value": 3, "dtype": "float32"}),
        (initializers.Ones(af.int32), {"dtype": "int32"}),
        (initializers.RandomUniform(1, 2, 3), {"minval": 1, "maxval": 2, "seed": 3, "dtype": "float32"}),
        (initializers.TruncatedNormal(), {"mean": 0.0, "stddev": 1.0, "seed": None, "dtype": "float32"}),
        (initializers.Orthogonal(2.0, 3), {"gain": 2.0, "seed": 3, "dtype": "float32"}),
        (initializers.GlorotNormal(5), {"seed": 5, "dtype": "float32"}),
        (
            initializers.he_uniform(5),
            {"scale": 2.0, "mode": "fan_in", "distribution": "uniform", "seed": 5, "dtype": "float32"},
        ),
    ],
)
def test_the_configuration_makes_an_equal_initializer(made, config):
    assert made.get_config() == config
    again = type(made).from_config(config)
    assert (type(again), again.get_config()) == (type(made), config)
