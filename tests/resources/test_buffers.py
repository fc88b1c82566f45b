"""Memory for large values: it is used again when nothing holds it, and never before."""

import gc
import threading

import numpy as np
import pytest

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


def test_a_value_gets_the_free_memory_that_fits_it_best(kept):
    values = [kept.take(SIZE + more) for more in (0, 1000, 2000)]
    places = [place(value) for value in values]
    del values
    fitting = kept.take(SIZE + 500)
    assert (place(fitting), fitting.nbytes) == (places[1], SIZE + 500)
    assert place(kept.take(2 * SIZE)) not in places
    assert place(kept.take(SIZE // 2)) not in places


def test_of_blocks_of_one_size_the_last_freed_is_used_first(kept):
    first, second = kept.take(SIZE), kept.take(SIZE)
    at = place(first), place(second)
    del second
    del first
    assert (place(held := kept.take(SIZE)), place(kept.take(SIZE))) == at
    assert place(held) == at[0]


def test_an_array_of_any_dtype_is_in_such_memory(kept):
    at = place(kept.take(SIZE))
    array = kept.empty((64, SIZE // 256), np.dtype(np.float32))
    assert (place(array), array.shape, array.dtype) == (at, (64, SIZE // 256), np.float32)
    assert array.flags.c_contiguous
    assert array.flags.writeable


@pytest.mark.parametrize("nbytes", [0, 1, 1000, (1 << 29) + 1])
def test_small_or_huge_memory_is_not_kept(kept, nbytes):
    assert kept.take(nbytes).nbytes == nbytes
    assert not kept._free


def test_free_memory_is_bounded_and_the_oldest_goes(kept):
    held = [kept.take(SIZE + number) for number in range(100)]
    while held:
        del held[0]
    assert [block.nbytes for block in kept._free.values()] == [SIZE + number for number in range(36, 100)]
    held = [kept.take((20 << 20) + number) for number in range(30)]
    held.clear()
    assert (490 << 20) < sum(block.nbytes for block in kept._free.values()) <= 1 << 29


def test_threads_and_the_garbage_collector_never_share_memory(kept):
    wrong = []

    def use(number):
        for _ in range(50):
            array = kept.take(SIZE)
            array[::4096] = number
            cycle = [array]
            cycle.append(cycle)
            wrong.extend(array[::4096][array[::4096] != number])
            del array, cycle
            gc.collect(0)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
