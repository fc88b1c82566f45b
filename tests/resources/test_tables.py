"""Live lookup tables: their rows against a dict, and attempts that are taken back."""

import numpy as np
import pytest

from aioflow import errors
from aioflow.resources.journal import Journal
from aioflow.resources.tables import Table
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Spec, TensorShape


def table(is_static=False):
    return Table("t", Spec(dtypes.int64, SCALAR), Spec(dtypes.float32, TensorShape([2])), {}, is_static)


def pairs(live):
    keys, values = live.contents()
    return {key: tuple(value) for key, value in zip(keys.tolist(), values.tolist(), strict=True)}


def test_random_changes_leave_what_a_dict_holds():
    live, model, random = table(), {}, np.random.default_rng(3)
    for _ in range(200):
        keys = random.integers(0, 30, random.integers(0, 6))
        if random.random() < 0.6:
            values = random.random((len(keys), 2)).astype(np.float32)
            live.insert(keys, values, None)
            model.update(zip(keys.tolist(), map(tuple, values.tolist()), strict=True))
        else:
            live.remove(keys, None)
            model = {key: value for key, value in model.items() if key not in keys}
        assert pairs(live) == model
        assert live.size() == len(model)
    found = live.find(np.arange(30), np.array([-1, -2], np.float32))
    assert [tuple(row) for row in found.tolist()] == [model.get(key, (-1, -2)) for key in range(30)]


def test_a_failed_attempt_is_taken_back_whole():
    live, journal = table(), Journal()
    live.insert(np.array([1, 2]), np.ones((2, 2)), None)
    before = pairs(live)
    live.insert(np.array([2, 3, 3]), np.full((3, 2), 5), journal)
    live.remove(np.array([1, 7]), journal)
    live.insert(np.array([1]), np.full((1, 2), 8), journal)
    assert pairs(live) == {2: (5, 5), 3: (5, 5), 1: (8, 8)}
    journal.close()
    assert journal.take_back() == ()
    assert pairs(live) == before
    with pytest.raises(errors.AbortedError):
        live.insert(np.array([4]), np.ones((1, 2)), journal)
    assert pairs(live) == before


def test_an_initialization_is_taken_back_and_may_be_repeated():
    live, journal = table(is_static=True), Journal()
    live.initialize(np.array([1]), np.ones((1, 2)), journal)
    journal.close()
    assert journal.take_back() == ()
    with pytest.raises(errors.FailedPreconditionError):
        live.size()
    live.initialize(np.array([2]), np.ones((1, 2)), None)
    assert pairs(live) == {2: (1, 1)}


def test_a_change_by_another_attempt_stays_and_is_reported():
    live, first, second = table(), Journal(), Journal()
    live.insert(np.array([1]), np.ones((1, 2)), first)
    live.insert(np.array([2]), np.ones((1, 2)), second)
    first.close()
    assert first.take_back() == ("t",)
    assert pairs(live) == {1: (1, 1), 2: (1, 1)}
