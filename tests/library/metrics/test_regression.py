"""Mean errors of predicted numbers."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import over_batches

ERRORS = {
    "mean_absolute_error": lambda a, b: np.abs(a - b),
    "mean_squared_error": lambda a, b: (a - b) ** 2,
}


def batches(weights):
    random = np.random.default_rng(3)
    return [
        (
            *random.standard_normal((2, 4, 3)).astype(np.float32),
            random.choice([0.0, 0.5, 2], weights).astype(np.float32),
        )
        for _ in range(2)
    ]


def mean(errors, given):
    weights = [np.broadcast_to(batch[-1], error.shape) for batch, error in zip(given, errors, strict=True)]
    total = sum((each * error).sum() for each, error in zip(weights, errors, strict=True))
    count = sum(each.sum() for each in weights)
    return total / count if count else 0


@pytest.mark.parametrize("weights", [(), (1, 1), (4, 1), (1, 3), (4, 3)])
async def test_errors_are_averaged_with_their_weights(weights):
    given = batches(weights)
    for name, error in ERRORS.items():
        updates, values = await over_batches(getattr(af.metrics, name), *given)
        np.testing.assert_allclose(updates[-1], mean([error(*batch[:2]) for batch in given], given), rtol=1e-5)
        assert values == [0, *updates]
    updates, values = await over_batches(af.metrics.root_mean_squared_error, *given)
    squares = [ERRORS["mean_squared_error"](*batch[:2]) for batch in given]
    np.testing.assert_allclose(updates[-1], np.sqrt(mean(squares, given)), rtol=1e-5)
    assert values == [0, *updates]


async def test_relative_errors_are_0_where_the_normalizer_is():
    updates, _ = await over_batches(
        lambda *given: af.metrics.mean_relative_error(*given),
        ([1.0, 2.0, 4.0, 8.0], [2.0, 4.0, 2.0, 8.0], [1.0, 0, 8, 2]),
    )
    assert updates == [np.float32((1 + 0 + 0.25 + 0) / 4)]


@pytest.mark.parametrize("known", ["sizes", "ranks", "nothing"])
async def test_a_normalizer_may_have_a_last_axis_of_size_1(known):
    given = np.float32([[1.0], [3.0]]), np.float32([3.0, 3.0]), np.float32([[2.0], [5.0]])
    updates, _ = await over_batches(af.metrics.mean_relative_error, given, known=known)
    assert updates == [0.5]


async def test_the_cosine_distance_of_unit_vectors():
    labels, predictions = np.float32([[1, 0], [0, 1], [0, 1]]), np.float32([[1, 0], [1, 0], [0, -1]])
    updates, values = await over_batches(
        lambda a, b, w: af.metrics.mean_cosine_distance(a, b, 1, weights=w),
        (labels, predictions, np.float32([[1], [1], [2]])),
    )
    assert updates == [1.25]
    assert values == [1, 1.25]


async def test_python_numbers_take_the_dtype_of_the_predictions():
    updates, _ = await over_batches(lambda x: af.metrics.mean_squared_error([1, 2], x), (np.float64([1.5, 2.0]),))
    assert updates == [0.125]


def test_shapes_that_do_not_fit_are_refused():
    with af.Graph().as_default():
        for metric in (
            af.metrics.mean_absolute_error,
            af.metrics.mean_squared_error,
            af.metrics.root_mean_squared_error,
            lambda a, b: af.metrics.mean_cosine_distance(a, b, 0),
        ):
            with pytest.raises(ValueError, match=r"labels have shape \[2\], predictions \[3\]; they must be equal"):
                metric([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r"labels have shape \[2\], normalizer \[3\]; they must be equal"):
            af.metrics.mean_relative_error([1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0])
