"""The bytes of the state of a training."""

import math

import ml_dtypes
import numpy as np
import pytest

from aioflow.layers.training_state import decode, encode


def test_plain_data_and_arrays_come_back_from_their_bytes():
    arrays = [
        np.arange(6.0).reshape(2, 3).T, np.zeros((0, 4), np.int8), np.array(3), np.float32(2.5),
        np.ones(3, ml_dtypes.bfloat16), np.array([True, False]), np.arange(8)[::-2],
    ]  # fmt: skip
    plain = {"best": -math.inf, "names": ["é\n", None], "weights": arrays, "empty": {}}
    found = decode(encode(plain))
    assert {**found, "weights": None} == {**plain, "weights": None}
    for one, other in zip(found["weights"], arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_state_of_other_objects_is_refused():
    for given in (object(), np.array(["a"]), {1}):
        with pytest.raises(
            TypeError, match=r"`backup_state` of a callback .* is plain data and arrays of numbers, not"
        ):
            encode({"state": given})
