"""Segments of a peer: what this process may do with them, and how it lends them on."""

import mmap
import os

import numpy as np
import pytest

from aioflow.net.transport.mapped_segments import Mapped
from aioflow.net.transport.segments import MANY, Segment, SegmentPool, SharedMemoryError, copied_at_once, pool

pytestmark = [pytest.mark.skipif(pool() is None, reason="the system has no sealed memory"), pytest.mark.sockets]
MIB = 1 << 20


def test_a_task_reads_and_never_writes_and_a_client_writes_for_itself():
    one = Segment(MIB)
    one.memory[:] = 7
    reader, writer = (Mapped(os.dup(one.fileno()), private, list).view(0, MIB, list) for private in (False, True))
    with pytest.raises(ValueError, match="read-only"):
        reader[0] = 1
    writer[0] = 1
    assert one.memory[0] == reader[0] == 7
    with pytest.raises(OSError, match="permitted"):
        mmap.mmap(one.fileno(), MIB)
    with pytest.raises(OSError, match="permitted"):
        os.ftruncate(one.fileno(), 10)


@pytest.mark.parametrize("start", [0, 64, 5000, MIB - 4000])
def test_each_view_of_a_client_has_the_bytes_of_the_owner_whatever_it_wrote_to_other_views(start):
    one, ended, count = Segment(MIB), [], MIB - start
    mapped = Mapped(os.dup(one.fileno()), True, list)
    for number in range(1, 7):  # from some number on, views are copied
        one.memory[:] = number
        views = [mapped.view(start, count, lambda: ended.append(1)) for _ in range(number)]
        for at, view in enumerate(views):
            assert view.tobytes() == bytes([number]) * count
            view[at::99] = 100 + at
        del view
        assert [view[at] for at, view in enumerate(views)] == [100 + at for at in range(number)]
        part = views[0][::99][1:]
        views.clear()
        assert mapped.view(0, MIB, list).tobytes() == bytes([number]) * MIB
        assert part.tolist() == [100] * len(part)
        del part
    assert len(ended) == 21
    assert one.memory.tobytes() == bytes([6]) * MIB


def test_a_view_of_a_client_beside_others_is_mapped_and_not_copied():
    one = Segment(MIB)
    mapped = Mapped(os.dup(one.fileno()), True, list)
    views = [mapped.view(0, MIB, list) for _ in range(3)]
    one.memory[:] = 5  # as no owner may
    assert [view[0] for view in views] == [5, 5, 5]


def test_the_loan_ends_with_the_last_array():
    one, ended = Segment(MIB), []
    mapped = Mapped(os.dup(one.fileno()), False, list)
    view = mapped.view(0, 1000, lambda: ended.append(1))
    part = view[100:200].view(np.float32).reshape(5, 5)[1:]
    del view, mapped
    assert not ended
    assert part.sum() == 0
    del part
    assert ended == [1]


@pytest.mark.parametrize("kind", ["plain file", "unsealed", "pipe"])
def test_memory_that_its_owner_could_shrink_is_refused(kind, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    if kind == "plain file":
        (tmp_path / "file").write_bytes(bytes(MIB))
        file = os.open(tmp_path / "file", os.O_RDWR)
    elif kind == "unsealed":
        file = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(file, MIB)
    else:
        file, other = os.pipe()
        os.close(other)
    with pytest.raises(SharedMemoryError):
        Mapped(file, False, list)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("start", [0, 4096])
def test_a_value_of_a_peer_is_lent_on_without_a_copy_and_given_back_after_the_last_loan(start):
    one, few, ended = Segment(MIB), SegmentPool(10 * MIB), []
    one.memory[start : start + 1000] = 7
    mapped = Mapped(os.dup(one.fileno()), False, list)
    few.add_foreign(mapped)
    value = mapped.view(start, 1000, lambda: ended.append(1)).view(np.float32)
    pieces = [copied_at_once(few, [[value.view(np.uint8).data]]) for _ in range(2)]
    assert [(piece.segment, piece.start, few.nbytes) for piece in pieces] == [(mapped, start, 0)] * 2
    third = Mapped(os.dup(pieces[0].segment.fileno()), False, list)
    assert third.view(pieces[0].start, pieces[0].nbytes, list).tobytes() == b"\7" * 1000
    del value
    for piece in pieces:
        assert not ended
        piece.release()
    assert ended == [1]


def test_a_segment_that_its_owner_has_dropped_is_lent_on_no_more():
    one, few, dropped = Segment(MIB), SegmentPool(10 * MIB), []
    mapped = Mapped(os.dup(one.fileno()), False, list)
    few.add_foreign(mapped)
    user = User(dropped)
    mapped.users.add(user)
    value = mapped.view(0, MIB, list)
    mapped.drop()
    assert dropped == [mapped]
    del mapped
    dropped.clear()
    assert few.lend(value[:].data) is None


def test_a_process_lends_on_only_so_many_segments_at_a_time_and_copies_other_values():
    few, owned = SegmentPool(100 * MIB), [Segment(1 << 16) for _ in range(MANY + 1)]
    lent_on = [Mapped(os.dup(one.fileno()), False, list) for one in owned]
    values = [mapped.view(0, 1 << 16, list) for mapped in lent_on]
    for mapped in lent_on:
        few.add_foreign(mapped)
    pieces = [copied_at_once(few, [[value[:].data]]) for value in values]
    assert pieces.pop() is None
    assert [piece.segment for piece in pieces] == lent_on[:MANY]
    again = few.lend(values[0][:].data)
    assert again.segment is lent_on[0]
    again.release()
    pieces[0].release()
    assert few.lend(values[MANY][:].data).segment is lent_on[MANY]
    assert few.lend(values[0][:].data) is None
    lent_on[1].discard(few)  # the process that had it is lost
    assert few.lend(values[0][:].data).segment is lent_on[0]


class User:
    def __init__(self, dropped):
        self.dropped = dropped.append
