"""Numbers of Philox 4x32: kernels/math/philox.py."""

import numpy as np
import pytest
from scipy import stats

from aioflow.kernels.math import philox
from aioflow.tensors.dtypes import as_dtype

STATE = (1234, 0)
ONES = 2**64 - 1


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**128 - 1, ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x0370734413198A2E85A308D3243F6A88, 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_blocks_are_those_that_the_authors_of_philox_publish(counter, key, words):
    assert [f"{word:08x}" for word in philox.blocks((counter, key), np.zeros(1, np.uint64))[0]] == words.split()


def test_the_counter_carries_to_its_high_half_and_wraps_around():
    for low, high, after in [(-2, 5, [254, 6]), (-2, -1, [254, 0]), (0, 0, [256, 0])]:
        state = np.array([low, high, 9])
        assert philox.advanced(state, 1).tolist() == [*after, 9]
        counter, key = philox.state_of(state)
        ahead = philox.blocks((counter, key), np.arange(5, dtype=np.uint64))
        later = philox.blocks(((counter + 3) % 2**128, key), np.arange(2, dtype=np.uint64))
        np.testing.assert_array_equal(ahead[3:], later)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("draw", [philox.uniforms, philox.normals, philox.central_normals])
def test_a_number_depends_on_its_place_alone(draw, dtype):
    kind = as_dtype(dtype)
    whole = draw(STATE, np.array([1001]), kind)
    assert whole.dtype == kind.np
    for count in (0, 1, 2, 6, 500):
        np.testing.assert_array_equal(draw(STATE, np.array([count]), kind), whole[:count])
    np.testing.assert_array_equal(draw(STATE, np.array([7, 11]), kind), whole[:77].reshape(7, 11))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("draw", "law"),
    [(philox.uniforms, stats.uniform), (philox.normals, stats.norm), (philox.central_normals, stats.truncnorm(-2, 2))],
)
def test_numbers_follow_their_law(draw, law, dtype):
    numbers = draw(STATE, np.array([100_000]), as_dtype(dtype)).astype(float)
    assert stats.kstest(numbers, law.cdf).pvalue > 0.01


def test_a_group_that_needs_more_blocks_has_the_first_numbers_of_them(monkeypatch):
    whole = philox.central_normals(STATE, np.array([4000]), as_dtype("float32"))
    monkeypatch.setattr(philox, "_FIRST_BLOCKS", 1)
    np.testing.assert_array_equal(philox.central_normals(STATE, np.array([4000]), as_dtype("float32")), whole)


def test_rounds_continue_one_another():
    rounds = philox.rounds(STATE, 6)
    found = np.concatenate([next(rounds), next(rounds)])
    np.testing.assert_array_equal(found, philox.integers(STATE, 12, 8))


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match=r"shape \[-1\] has a negative size"):
        philox.uniforms(STATE, np.array([-1]), as_dtype("float32"))
