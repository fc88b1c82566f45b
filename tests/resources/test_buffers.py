"""Memory for what arrives: it is used again when nobody holds it, and never before."""

import gc

import numpy as np
import pytest

from aioflow.resources import buffers
from aioflow.resources.buffers import Buffers

SIZE = 1 << 20


@pytest.fixture
def kept():
    return Buffers()


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_nobody_holds_it(kept):
    array = kept.take(SIZE)
    at = place(array)
    del array
    assert place(kept.take(SIZE)) == at


@pytest.mark.parametrize(
    "share",
    [
        lambda array: array,
        lambda array: array[5:6],
        lambda array: array.view(np.float32).reshape(512, 512)[3].T,
        memoryview,
        lambda array: memoryview(array)[7:9],
        lambda array: np.frombuffer(array, np.int16, 4),
        np.ma.asarray,
        lambda array: iter(array),
    ],
)
def test_memory_that_anything_shares_is_nobody_elses(kept, share):
    array = kept.take(SIZE)
    at, held = place(array), share(array)
    del array
    others = [kept.take(SIZE) for _ in range(3)]
    assert at not in map(place, others)
    assert len(set(map(place, others))) == 3
    del held
    gc.collect()
    assert place(kept.take(SIZE)) == at


def test_another_size_is_other_memory(kept):
    at = place(kept.take(SIZE))
    array = kept.take(SIZE + 1)
    assert array.nbytes == SIZE + 1
    assert place(kept.take(SIZE)) == at


@pytest.mark.parametrize("nbytes", [0, 1, 1000, (1 << 28) + 1])
def test_what_is_small_or_huge_is_not_kept(kept, nbytes):
    assert kept.take(nbytes).nbytes == nbytes
    assert not kept._kept


def test_what_is_kept_is_bounded_and_the_oldest_goes(kept):
    for number in range(100):
        kept.take(SIZE + number)
    assert len(kept._kept) == 64
    assert kept._kept[0].nbytes == SIZE + 36
    for number in range(20):
        kept.take((20 << 20) + number)
    assert sum(array.nbytes for array in kept._kept) <= 1 << 28


def test_where_references_are_not_counted_exactly_none_is_used_again(kept, monkeypatch):
    monkeypatch.setattr(buffers, "COUNTS_ARE_EXACT", False)
    kept.take(SIZE)
    assert not kept._kept
