"""Memory that peers of this host can map: which variables move there, and that nobody reads memory that changes."""

import threading

import numpy as np
import pytest

from aioflow.net.transport.segments import SegmentPool, copied_at_once, pool
from aioflow.resources import containers, lendable
from aioflow.resources.containers import Container, VariableState
from aioflow.resources.journal import Journal
from aioflow.resources.lendable import MOVED, LendableMemory
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Spec, TensorShape

pytestmark = pytest.mark.skipif(pool() is None, reason="the system has no sealed memory")

FLOATS = MOVED // 4


@pytest.fixture
def few(monkeypatch):
    """A pool of its own that provides the memory of variables."""
    memory, few = LendableMemory(), SegmentPool(64 * MOVED)
    memory.provide(few)
    monkeypatch.setattr(containers, "LENDABLE", memory)
    monkeypatch.setattr("aioflow.net.transport.segments.LENDABLE", memory)
    return few


def variable(floats=FLOATS, value=1.0):
    made = VariableState("v", Spec(dtypes.float32, TensorShape([None])))
    made.assign(np.full(floats, value, np.float32))
    return made


def send(few, array):
    """Send a value to a peer, which has it until `release`. Returns the peer's loan."""
    values = [[memoryview(array.reshape(-1).view(np.uint8))]]
    found = copied_at_once(few, values)
    if found is None:  # there is no free segment yet
        few.give_back(few.create(array.nbytes))
        found = copied_at_once(few, values)
    return found


def content(piece):
    return set(np.frombuffer(piece.views()[0], np.float32).tolist())


def add(state, how):
    """Add 1 to the value by one of the ways in which kernels change a variable."""
    if how == "change":
        state.change(lambda present: np.add(present, 1, out=present))
    elif how == "compute":
        state.compute(lambda present, room: np.add(present, 1, out=room), np)
    elif how == "assign":
        state.assign(state.read() + np.float32(1))
    else:
        state.begin_change()
        room, filled_with = state.draft(np)
        np.add(room if filled_with is None else filled_with, 1, out=room)
        state.settle(room)
        state.end_change()


WAYS = pytest.mark.parametrize("how", ["change", "compute", "assign", "draft"])


def test_a_large_variable_moves_when_it_is_sent_and_is_sent_again_without_a_copy(few):
    state = variable()
    before = state.read()
    first = send(few, before)
    value = state.read()
    assert value is not before
    assert few.has(value)
    np.testing.assert_array_equal(value, before)
    second = send(few, value)
    assert second.segment is first.segment
    assert second.segment.loans == 2
    assert few.nbytes == MOVED


@WAYS
def test_a_value_that_a_peer_has_never_changes(few, how):
    state = variable()
    loans = [send(few, state.read())]
    for number in range(4):
        add(state, how)
        assert few.has(state.read())
        loans.append(send(few, state.read()))
        assert [content(piece) for piece in loans] == [{1.0 + place} for place in range(number + 2)]
    assert len({piece.segment for piece in loans}) == 5
    for piece in loans[:-1]:
        piece.release()
        assert piece.segment.is_free


@WAYS
def test_the_memory_is_used_again_when_the_peers_have_given_it_back(few, how):
    state = variable()
    for _ in range(5):
        send(few, state.read()).release()
        add(state, how)
    assert set(state.read().tolist()) == {6.0}
    assert few.nbytes <= 2 * MOVED


def test_a_computation_that_fails_leaves_the_value_that_a_peer_has(few):
    state = variable()
    loan = send(few, state.read())
    value = state.read()

    def fail(present, room):
        room[:] = 7
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        state.compute(fail, np)
    assert state.read() is value
    assert content(loan) == {1.0}
    add(state, "compute")
    assert set(state.read().tolist()) == {2.0}


@pytest.mark.parametrize("how", ["change", "compute", "draft"])
@pytest.mark.parametrize("hold", [lambda value: value[5:7], lambda value: memoryview(value), lambda value: value])
def test_a_value_that_is_held_in_this_process_never_changes(few, how, hold):
    state = variable()
    send(few, state.read()).release()
    held = hold(state.read())
    add(state, how)
    assert np.asarray(held)[0] == 1.0
    assert state.read()[0] == 2.0
    place = state.read().ctypes.data
    add(state, how)  # nothing holds the new value
    assert state.read().ctypes.data == place
    assert np.asarray(held)[0] == 1.0


@WAYS
def test_the_memory_that_a_lost_peer_had_is_never_written_to_again(few, how):
    state = variable()
    lost = send(few, state.read())
    few.discard(lost.segment)
    for _ in range(3):
        add(state, how)
    assert content(lost) == {1.0}
    assert set(state.read().tolist()) == {4.0}


def test_a_value_from_before_a_failed_attempt_is_not_changed(few):
    state, journal = variable(), Journal()
    send(few, state.read()).release()
    state.change(lambda present: np.add(present, 1, out=present), journal)
    assert state.read()[0] == 2.0
    journal.take_back()
    assert set(state.read().tolist()) == {1.0}


def test_a_large_variable_moves_when_a_part_of_it_is_sent_and_parts_are_sent_again_without_a_copy(few):
    state = variable(3 * FLOATS)
    state.change(lambda present: np.copyto(present, np.arange(3 * FLOATS)))
    before = state.read()
    copied = send(few, before[FLOATS:])
    assert not copied.start
    assert few.has(state.read())
    np.testing.assert_array_equal(state.read(), before)
    parts = [send(few, part) for part in np.split(state.read(), 3)]
    assert [part.start for part in parts] == [0, MOVED, 2 * MOVED]
    assert len({part.segment for part in parts}) == 1
    add(state, "change")  # the peers have the old value
    for number, part in enumerate(parts):
        found = np.frombuffer(part.views()[0], np.float32)
        np.testing.assert_array_equal(found, before[number * FLOATS : (number + 1) * FLOATS])
        part.release()
    del found
    assert parts[0].segment.is_free


def test_small_variables_large_ones_of_which_a_part_is_sent_in_the_loop_and_changed_ones_do_not_move(few):
    small, large, changing = variable(FLOATS - 1), variable(9 * FLOATS), variable()
    send(few, small.read())
    send(few, large.read()[FLOATS : 2 * FLOATS])  # to copy the whole would take long
    value = changing.read()
    changing.assign(np.zeros(FLOATS, np.float32))
    send(few, value)
    changing.move(value, value.copy())  # it has changed since the sender looked
    assert not changing.read().any()
    assert not any(few.has(state.read()) for state in (small, large, changing))
    changing.begin_change()
    holder = threading.Thread(target=lambda: send(few, changing._value))
    holder.start()
    holder.join()  # it does not wait for the end of the change
    changing.end_change()
    assert not few.has(changing.read())


@pytest.mark.parametrize(("shape", "looked_at"), [([FLOATS - 1], 0), ([], 0), ([FLOATS], 1), ([None], 1), (None, 1)])
def test_a_sent_value_is_compared_with_the_variables_that_can_be_large(few, monkeypatch, shape, looked_at):
    state, looks = VariableState("v", Spec(dtypes.float32, TensorShape(shape))), []
    monkeypatch.setattr(VariableState, "present", lambda state: looks.append(state))
    send(few, np.zeros(FLOATS, np.float32))
    assert looks == [state] * looked_at


@pytest.mark.parametrize(("limit", "value"), [("_MOST_MOVED", 3), ("_MOVED_PART", 20)])
def test_variables_take_a_bounded_part_of_the_memory(few, monkeypatch, limit, value):
    monkeypatch.setattr(lendable, limit, value)
    many = [variable() for _ in range(5)]
    for state in many:
        send(few, state.read()).release()
    assert [few.has(state.read()) for state in many] == [True] * 3 + [False] * 2
    del many[0], state
    send(few, many[-1].read()).release()
    assert few.has(many[-1].read())


def test_variables_that_end_leave_no_more_memory_than_a_pool_keeps(few):
    keeping = SegmentPool(64 * MOVED, 2 * MOVED)
    containers.LENDABLE.provide(keeping)
    container = Container()
    for name in "abcd":
        state = container.lookup_or_create(VariableState, name, variable)
        send(keeping, state.read()).release()
    lent = send(keeping, state.read())
    assert keeping.nbytes == 4 * MOVED
    container.clear()
    assert keeping.nbytes == 3 * MOVED  # that of the peer, too
    lent.release()
    assert keeping.nbytes == 2 * MOVED


def test_without_such_memory_a_variable_is_changed_elsewhere(few):
    state = variable(4 * FLOATS)
    loans = [send(few, state.read())]
    assert few.has(state.read())
    while (taken := few.take(4 * MOVED)) is not None:
        loans.append(taken)
    for number in range(3):
        add(state, "draft")
        assert not few.has(state.read())
        assert state.read()[0] == 2.0 + number
    assert content(loans[0]) == {1.0}


def test_a_large_array_is_in_such_memory_if_there_is_some(few):
    memory, shape, dtype = LendableMemory(), (3, 1 << 18), np.dtype(np.float32)
    assert memory.empty(shape, dtype).shape == shape
    memory.provide(few)
    found = [memory.empty(shape, dtype), memory.empty((5,), dtype)]
    assert [(array.shape, array.dtype) for array in found] == [(shape, dtype), ((5,), dtype)]
    assert [few.has(array) for array in found] == [True, False]
    memory.provide(SegmentPool(0))
    assert memory.take(shape, dtype) is None
    assert memory.empty(shape, dtype).shape == shape
