"""Variables whose values another process lends, or has sent: they are kept without a copy, and never changed."""

import math
import mmap
import os
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.resources.buffers import BUFFERS
from aioflow.resources.containers import VariableState
from aioflow.resources.variable_memory import VECTOR
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Spec, TensorShape
from aioflow.tensors.lent_memory import LentMemory, can_be_kept
from aioflow.tensors.received_memory import made_read_only

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memory that is lent")

LENGTH = 1 << 16
"""Floats."""


def lend():
    """An array over lent memory, and the owner's view of it."""
    file = os.memfd_create("test", os.MFD_CLOEXEC)
    try:
        os.truncate(file, 4 * LENGTH)
        owner = np.frombuffer(mmap.mmap(file, 4 * LENGTH), np.float32)
        owner[:] = np.arange(LENGTH)
        memory = np.frombuffer(LentMemory(file, 4 * LENGTH, mmap.MAP_SHARED, mmap.PROT_READ), np.uint8)
    finally:
        os.close(file)
    return memory.view(np.float32), owner


def receive(shape=(LENGTH,)):
    """An array over received memory, and a view from the time when it was filled."""
    memory = BUFFERS.take(4 * math.prod(shape))
    filled = np.asarray(memory.base.base).view(np.float32)
    filled[:] = np.arange(len(filled))
    return made_read_only(memory.view(np.float32).reshape(shape)), filled


@pytest.fixture(params=[lend, receive])
def made(request):
    """A function that makes an array over such memory, and another view of it."""
    return request.param


@pytest.fixture
def lent(made):
    """(the array over lent or received memory, another view of it)."""
    return made()


def state():
    return VariableState("v", Spec(dtypes.float32, TensorShape([None])))


def test_a_large_value_is_kept_as_it_is(lent):
    variable = state()
    assert variable.assign(lent[0]) is lent[0]
    assert variable.read() is lent[0]


@pytest.mark.parametrize("part", [slice(0, LENGTH // 4), slice(0, LENGTH, 2)])
def test_a_small_part_of_the_memory_is_copied(lent, part):
    variable = state()
    assert not np.shares_memory(variable.assign(lent[0][part]), lent[0])
    np.testing.assert_array_equal(variable.read(), lent[0][part])


def test_memory_that_someone_may_write_to_is_copied(lent):
    for value in (lent[1], np.arange(3, dtype="f4"), np.broadcast_to(np.float32(1), 5), np.float32(2)):
        assert not can_be_kept(value)
    file = lent[1].copy()
    file.flags.writeable = False  # its owner may make it writable again
    assert not can_be_kept(file)
    assert state().assign(file) is not file


def test_received_memory_that_its_user_may_write_to_is_copied():
    value = BUFFERS.take(4 * LENGTH).view(np.float32)
    value.flags.writeable = False  # as the user of a session may do for a while
    assert not can_be_kept(value)
    assert made_read_only(value.copy()).flags.writeable
    assert can_be_kept(made_read_only(value))


def test_received_weights_of_long_rows_are_kept_only_where_products_with_them_are_fast():
    for _ in range(20):
        value = receive((LENGTH // 512, 512))[0]
        is_fast = value.ctypes.data % VECTOR == VECTOR // 2
        variable = VariableState("v", Spec(dtypes.float32, TensorShape([None, 512])))
        assert np.shares_memory(variable.assign(value), value) is is_fast


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_change_is_made_in_a_copy(lent, times):
    variable = state()
    variable.assign(lent[0])
    for _ in range(times):
        variable.begin_change()
        found = variable.writable()
        found += 1.0
        del found
        variable.end_change()
    np.testing.assert_array_equal(variable.read(), np.arange(LENGTH) + times)
    np.testing.assert_array_equal(lent[1], np.arange(LENGTH))


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_drafted_change_never_uses_the_memory(lent, times):
    variable = state()
    variable.assign(lent[0])
    for _ in range(times):
        variable.begin_change()
        room, filled_with = variable.draft(np)
        assert not np.shares_memory(room, lent[1])
        np.add(room if filled_with is None else filled_with, 1.0, out=room)
        del filled_with
        variable.settle(room)
        del room
        variable.end_change()
    np.testing.assert_array_equal(variable.read(), np.arange(LENGTH) + times)
    np.testing.assert_array_equal(lent[1], np.arange(LENGTH))


def test_the_memory_of_an_old_value_is_not_used_again(made):
    value, owner = made()
    variable = state()
    variable.assign(value)
    del value
    for _ in range(3):
        held = variable.read()
        variable.begin_change()
        room, filled_with = variable.draft(np)
        np.add(filled_with, 1.0, out=room)
        del filled_with, held
        variable.settle(room)
        del room
        variable.end_change()
    np.testing.assert_array_equal(variable.read(), np.arange(LENGTH) + 3)
    np.testing.assert_array_equal(owner, np.arange(LENGTH))


def test_the_loan_ends_when_the_value_is_replaced_or_changed(made):
    for replace in (True, False):
        value = made()[0]
        variable, ended = state(), []
        weakref.finalize(value.base, ended.append, True)
        variable.assign(value)
        del value
        assert ended == []
        if replace:
            variable.assign(np.zeros(3, np.float32))
        else:
            variable.begin_change()
            variable.writable()
            variable.end_change()
        assert ended == [True]


async def test_updates_in_a_session(lent):
    with af.Graph().as_default() as graph:
        variable = af.Variable(np.zeros(LENGTH, np.float32))
        x = af.placeholder(af.float32, [LENGTH])
        assigned = variable.assign(x)
        with af.control_dependencies([assigned]):
            added = variable.assign_add(x)
        stepped = af.train.GradientDescentOptimizer(0.5).minimize(af.reduce_sum(variable * 2.0))
    async with af.Session(graph=graph) as session:
        await session.run(variable.initializer)
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(added, {x: lent[0]}), 2.0 * np.arange(LENGTH))
            await session.run(stepped)
            np.testing.assert_array_equal(await session.run(variable), 2.0 * np.arange(LENGTH) - 1.0)
    np.testing.assert_array_equal(lent[1], np.arange(LENGTH))
