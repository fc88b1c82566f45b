"""Moments between the steps of a session, at which a Saver takes what variables hold."""

import asyncio
import logging

import numpy as np
import pytest

import aioflow as af
from aioflow.checkpoint import Checkpoint
from aioflow.kernels.state.run_state import cut_variable, mark_variable
from aioflow.plan.pipeline import Signature
from aioflow.runtime.update_gate import Boundary, changed_by, effects_of
from aioflow.testing import Gate


class Pair:
    """Two variables that a step makes one larger, the second some time after the first."""

    def __init__(self, between=None):
        async def wait():
            await (asyncio.sleep(0.3) if between is None else between())
            return np.int32(0)

        with af.Graph().as_default() as self.graph:
            self.one, self.other = af.Variable(0, name="one"), af.Variable(0, name="other")
            with af.control_dependencies([self.one.assign_add(1)]):
                waited = af.py_func(wait, [], af.int32, stateful=True)
            with af.control_dependencies([waited]):
                self.step = af.group(self.other.assign_add(1))
            self.read = af.add(self.one, self.other)
            self.init = af.global_variables_initializer()
            self.saver = af.train.Saver(max_to_keep=None)


def saved(path):
    checkpoint = Checkpoint.open(path)
    return [int(checkpoint.read("one")), int(checkpoint.read("other")), checkpoint.facts["step_boundary"]]


async def test_a_checkpoint_beside_steps_is_of_a_moment_between_two_of_them(tmp_path):
    pair = Pair()

    async def steps(session, count):
        for _ in range(count):
            await session.run(pair.step)

    async with af.Session(graph=pair.graph) as session:
        await session.run(pair.init)
        training = [asyncio.create_task(steps(session, 10)) for _ in range(3)]
        for number in range(5):
            await asyncio.sleep(0.2)
            path = await pair.saver.save(session, tmp_path / "model", pair.one)
            one, other, reached = saved(path)
            assert (one, reached) == (other, True), number
            assert path.endswith(f"-{one}")
        await asyncio.gather(*training)
        assert await session.run([pair.one, pair.other]) == [30, 30]


async def test_steps_that_only_read_are_kept_from_nothing(tmp_path):
    pair = Pair()
    async with af.Session(graph=pair.graph) as session:
        await session.run(pair.init)
        step = asyncio.create_task(session.run(pair.step))
        await asyncio.sleep(0.1)
        saving = asyncio.create_task(pair.saver.save(session, tmp_path / "model"))
        await asyncio.sleep(0.1)
        assert await session.run(pair.read) == 1
        assert not step.done()
        assert saved(await saving) == [1, 1, True]
        await step


async def test_a_step_that_does_not_end_is_waited_for_ten_seconds_or_until_the_time_is_over(tmp_path, caplog):
    gate = Gate()
    pair = Pair(gate.wait)
    async with af.Session(graph=pair.graph) as session:
        await session.run(pair.init)
        step = asyncio.create_task(session.run(pair.step))
        await gate.arrived()
        with pytest.raises(af.errors.DeadlineExceededError, match=r"not taken in 0\.5 s"):
            await pair.saver.save(session, tmp_path / "late", options=af.RunOptions(timeout=0.5))
        with caplog.at_level(logging.WARNING, "aioflow.train"):
            assert saved(await pair.saver.save(session, tmp_path / "amid")) == [1, 0, False]
        assert "amid" in caplog.text
        gate.open()
        await step
        assert saved(await pair.saver.save(session, tmp_path / "model")) == [1, 1, True]


async def test_one_block_does_not_let_go_what_another_keeps():
    boundary, handles = Boundary(), frozenset(["a variable"])
    under_way = []

    async def change():
        under_way.append(None)
        await asyncio.sleep(0.1)
        under_way.pop()

    async def between(seconds):
        async with boundary.between(handles, 10.0) as reached:
            assert reached
            for _ in range(5):
                assert not under_way
                await asyncio.sleep(seconds)

    blocks = [asyncio.create_task(between(seconds)) for seconds in (0.1, 0.3)]
    await asyncio.sleep(0.05)
    runs = [asyncio.create_task(boundary.run(handles, change)) for _ in range(3)]
    await asyncio.gather(*blocks, *runs)


async def test_who_gives_up_waiting_leaves_nothing():
    boundary, over = Boundary(), asyncio.Event()
    handles = frozenset(["a variable"])
    under_way = asyncio.create_task(boundary.run(handles, over.wait))
    await asyncio.sleep(0)

    async def between():
        async with boundary.between(handles, 10.0):
            raise AssertionError("a run is under way")

    waiting = asyncio.create_task(between())
    await asyncio.sleep(0.1)
    kept = asyncio.create_task(boundary.run(handles, over.wait))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.wait([waiting])
    kept.cancel()
    await asyncio.wait([kept])
    over.set()
    await under_way
    async with boundary.between(handles, 0.0) as reached:
        assert reached
        begun = asyncio.create_task(boundary.run(handles, over.wait))
        await asyncio.sleep(1.0)
        assert not begun.done()
    assert await begun


def test_what_a_run_changes_is_known_from_its_operations():
    with af.Graph().as_default():
        one, other, third = af.Variable(1.0), af.Variable(2.0), af.Variable(3.0)
        x = af.placeholder(af.float32, [])
        loss = af.square(one * x - other)
        train = af.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[one])
        branch = af.cond(x > 0.0, lambda: third.assign_add(1.0), lambda: third.read_value())
        behind = other.assign_add(1.0)
        with af.control_dependencies([behind]):
            after = af.identity(x)
    assert changed_by([loss.op], [x]) == frozenset()
    assert changed_by([train], [x]) == {one.handle.op}
    assert changed_by([branch.op], []) == {third.handle.op}
    assert changed_by([after.op], []) == {other.handle.op}
    assert changed_by([af.square(after).op], [after]) == frozenset()


def test_the_marks_of_a_checkpoint_change_no_variable():
    with af.Graph().as_default():
        v = af.Variable(1.0)
        marked, cut = mark_variable(v.handle), cut_variable(v.handle)
    assert changed_by([marked, cut.op], []) == frozenset()
    assert effects_of(Signature((), (cut,), (marked,))) == set()


def test_the_effects_of_a_run_name_what_loops_and_queues_change_and_of_one_that_reads_nothing():
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [])
        count = af.Variable(0.0, name="count")
        queue = af.FIFOQueue(2, af.float32, shapes=[[]])

        def body(i):
            with af.control_dependencies([count.assign_add(1.0)]):
                return i + 1.0

        loop = af.while_loop(lambda i: i < 3.0, body, [x])
        taken = queue.dequeue()
        read = af.cond(x > 0.0, lambda: x + count, lambda: count * 1.0)
    found = [effects_of(Signature((x,), (fetch,), ())) for fetch in (loop, taken, read)]
    assert found == [{"count"}, {taken.op.name}, set()]
