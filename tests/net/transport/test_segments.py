"""Segments of shared memory: when they are used again, and what a peer may do with them."""

import asyncio
import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from aioflow.net.transport.mapped_segments import Mapped
from aioflow.net.transport.segments import SegmentPool, copied, pool

pytestmark = [pytest.mark.skipif(pool() is None, reason="the system has no sealed memory"), pytest.mark.sockets]
KIB, MIB = 1 << 10, 1 << 20


class User:
    def __init__(self):
        self.dropped_ones = []

    def dropped(self, segment):
        self.dropped_ones.append(segment)


def test_a_segment_is_used_again_only_when_no_peer_and_no_array_has_it():
    few = SegmentPool(10 * MIB)
    first = few.create(MIB)
    assert few.reuse(MIB) is None
    view = first.memory[5:10].view(np.uint8).reshape(5, 1)
    few.give_back(first)
    assert few.reuse(MIB) is None
    kept = view.data
    del view
    assert few.reuse(MIB) is None
    del kept
    assert few.reuse(MIB) is first
    assert few.reuse(MIB) is None
    assert first.loans == 1


def test_a_segment_serves_values_of_similar_size():
    few = SegmentPool(100 * MIB)
    for nbytes in (1, 100_000, MIB, 10 * MIB + 1):
        one = few.create(nbytes)
        assert nbytes <= one.memory.nbytes <= nbytes * 1.125 + 64 * KIB
        few.give_back(one)
        assert few.reuse(nbytes) is one
        few.give_back(one)


def test_free_segments_make_room_for_others_and_their_users_hear_of_it():
    few, user = SegmentPool(4 * MIB), User()
    ones = [few.create(MIB) for _ in range(4)]
    ones[1].users.add(user)
    assert few.create(64 * KIB) is None
    few.give_back(ones[1])
    assert few.create(512 * KIB) is not None
    assert few.nbytes == 3 * MIB + 512 * KIB
    assert user.dropped_ones == [ones[1]]
    assert ones[1].is_dropped


def test_no_more_free_memory_is_kept_than_allowed():
    few = SegmentPool(100 * MIB, kept=2 * MIB)
    for one in [few.create(MIB) for _ in range(10)]:
        few.give_back(one)
    assert few.nbytes == 2 * MIB


def test_a_pool_has_a_bounded_number_of_segments():
    few = SegmentPool(1 << 40)
    ones = []
    while (one := few.create(1)) is not None:
        ones.append(one)
    assert len(ones) == 64
    few.give_back(ones[7])
    assert few.create(MIB) is not None


def test_a_discarded_segment_is_never_used_again():
    few = SegmentPool(10 * MIB)
    one = few.create(MIB)
    few.discard(one)
    few.give_back(one)
    assert few.nbytes == 0
    assert few.reuse(MIB) is None


def test_threads_get_different_segments():
    few, found = SegmentPool(1 << 30), []
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(50):
            one = few.reuse(1) or few.create(1)
            assert one.loans == 1
            found.append(one)
            few.give_back(one)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 400
    assert few.nbytes <= 8 * 64 * KIB


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_nothing_of_a_dropped_segment_is_left():
    mapped, before, few = mappings(), descriptors(), SegmentPool(10 * MIB, kept=0)
    for _ in range(20):
        one = few.create(MIB)
        assert descriptors() > before
        few.give_back(one)
        del one
    assert descriptors() == before
    assert mappings() == mapped


def mappings():
    """The number of mapped segments of this process."""
    gc.collect()
    return Path("/proc/self/maps").read_text().count("memfd:aioflow")


async def test_values_are_copied_one_after_the_other_each_at_a_multiple_of_64_bytes():
    few = SegmentPool(100 * MIB)
    values = [[b"abc", b"de"], [b""], [memoryview(bytes(range(100)))], [b"x"]]
    piece = await copied(few, values)
    assert [bytes(view) for view in piece.views()] == [b"abcde", b"", bytes(range(100)), b"x"]
    assert piece.segment.memory[64:164].tobytes() == bytes(range(100))
    assert piece.nbytes == 193


async def test_many_bytes_are_copied_beside_the_loop_and_a_cancelled_copy_is_given_back():
    few, value = SegmentPool(1 << 30), np.arange(2 * MIB, dtype=np.int64)
    copying = asyncio.ensure_future(copied(few, [[value.view(np.uint8).data]]))
    await asyncio.sleep(0)
    assert not copying.done()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await asyncio.get_running_loop().shutdown_default_executor()
    await asyncio.sleep(0)
    one = few.reuse(16 * MIB)
    assert one is not None
    assert few.nbytes == one.memory.nbytes


async def test_a_value_at_the_start_of_a_segment_is_lent_without_a_copy():
    few = SegmentPool(10 * MIB)
    array = few.take(MIB)
    array[:] = 7
    found = [await copied(few, [[memoryview(array.view(np.float32).reshape(512, 512)).cast("B")]]) for _ in range(2)]
    assert few.nbytes == MIB
    assert {piece.segment.loans for piece in found} == {2}
    assert [bytes(view[:2]) for piece in found for view in piece.views()] == [b"\7\7"] * 2
    segment = found[0].segment
    del array
    for piece in found:
        assert not segment.is_free
        piece.release()
    assert segment.is_free


@pytest.mark.parametrize("start", [64, 4096])
async def test_a_value_elsewhere_in_a_segment_is_lent_there(start):
    few = SegmentPool(10 * MIB)
    array = few.take(MIB)
    array[start : start + 100] = range(100)
    piece = await copied(few, [[memoryview(array[start : start + 100])]])
    assert (piece.start, piece.nbytes, few.nbytes) == (start, 100, MIB)
    assert bytes(piece.views()[0]) == bytes(range(100))
    mapped = Mapped(os.dup(piece.segment.fileno()), False, list)
    assert bytes(mapped.view(piece.start, piece.nbytes, piece.release)) == bytes(range(100))
    assert not piece.segment.loans


def test_memory_to_compute_in_is_bounded_as_other_memory():
    few = SegmentPool(MIB)
    array = few.take(MIB)
    assert few.take(1) is None
    del array
    assert few.take(MIB).nbytes == MIB


async def test_without_memory_nothing_is_copied():
    assert await copied(SegmentPool(MIB), [[bytes(2 * MIB)]]) is None
