"""Monitored sessions: made ready, hooked, and alive after a loss."""

import asyncio
import copy
import logging

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import Gate
from aioflow.train.session_run_hook import MergedRun, merged_options

LOST = errors.UnavailableError("/job:ps/task:0 is gone")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Told(af.train.SessionRunHook):
    """Writes down what it is called for."""

    def __init__(self, fetches=None, fail_at=None):
        self.calls, self.recoveries, self.results = [], [], []
        self._args = None if fetches is None else af.train.SessionRunArgs(fetches)
        self._fail_at = fail_at

    def _tell(self, what):
        self.calls.append(what)
        if what == self._fail_at:
            self._fail_at = None
            raise copy.copy(LOST)

    def begin(self):
        self._tell("begin")

    async def after_create_session(self, session, coord):
        self._tell("create")

    async def before_run(self, run_context):
        self._tell("before")
        return self._args

    async def after_run(self, run_context, run_values):
        self.results.append(run_values.results)
        self._tell("after")

    async def after_recovery(self, session, recovery):
        self.recoveries.append(recovery)

    async def end(self, session):
        self._tell("end")


class Failing:
    """An operation that fails when it is told to."""

    def __init__(self):
        self.runs, self.at, self.error, self.gate = 0, set(), LOST, None
        self.op = af.py_func(self._run, [], af.int32, stateful=True)

    async def _run(self):
        self.runs += 1
        mine = self.runs
        if self.gate is not None:
            await self.gate.wait()
        if mine in self.at:
            raise copy.copy(self.error)
        return np.int32(mine)


def counter():
    """A variable, the global step, and what takes a step unless it fails."""
    step, total, failing = af.train.get_or_create_global_step(), af.Variable(0, name="total"), Failing()
    with af.control_dependencies([failing.op]):
        train = af.group(total.assign_add(2), step.assign_add(1))
    return step, total, failing, train


async def run_on(hooks, fetches):
    async with af.train.MonitoredSession(hooks=hooks) as session:
        while True:
            await session.run(fetches)


async def run_once(session, fetches):
    async with session:
        await asyncio.sleep(1)
        if fetches is not None:
            await session.run(fetches)


# Ready, and hooks


async def test_a_session_is_initialized_hooked_around_each_run_and_closed():
    _, total, _, train = counter()
    hook = Told(fetches={"total": total})
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        assert await session.run(train) is None
        assert await session.run([total, total.op.name + "/read:0"]) == [2, 2]
        assert not session.should_stop()
    assert session.should_stop()
    assert hook.calls == ["begin", "create", "before", "after", "before", "after", "end"]
    assert hook.results == [{"total": 0}, {"total": 2}]
    with pytest.raises(RuntimeError, match="not open"):
        await session.run(total)


async def test_methods_of_a_hook_may_be_ordinary_functions():
    class Doubling(af.train.SessionRunHook):
        def before_run(self, run_context):
            assert run_context.original_args.fetches is x
            return af.train.SessionRunArgs(feeds={y: 2})

        def after_run(self, run_context, run_values):
            run_context.request_stop()

    y = af.placeholder(af.int32, [])
    x = y * 1
    async with af.train.MonitoredSession(hooks=[Doubling()]) as session:
        assert await session.run(x) == 2
        assert session.should_stop()


def test_what_several_ask_of_a_run_is_one_run(graph):
    x = af.placeholder(af.float32, [], name="x")
    y = x + 1.0
    args = af.train.SessionRunArgs
    merged = MergedRun(graph, args([y, "x:0"]), [None, args({"y": y}, {x: 1.0}), args(y.op)])
    assert merged.elements == [y, x, y.op]
    assert merged.split([3.0, 2.0, None]) == [[3.0, 2.0], None, {"y": 3.0}, None]
    assert merged.feeds == {x: 1.0}
    with pytest.raises(ValueError, match="x:0: fed by"):
        MergedRun(graph, args(y, {x: 0.0}), [args(feeds={"x:0": 1.0})])
    with pytest.raises(TypeError, match="a fetch is None"):
        MergedRun(graph, args(), [])


def test_of_several_options_the_strictest_hold():
    few, many = af.RunOptions(timeout=3.0), af.RunOptions(timeout=5.0, trace=True, check_numerics=True)
    assert merged_options([]) is None
    assert merged_options([few]) is few
    assert merged_options([few, many]) == af.RunOptions(timeout=3.0, trace=True, check_numerics=True)


async def test_an_error_closes_the_session_and_calls_no_end():
    _, _, failing, train = counter()
    failing.at, failing.error = {2}, ValueError("wrong")
    hook = Told()
    with pytest.raises(errors.InvalidArgumentError, match="wrong"):
        await run_on([hook], train)
    assert "end" not in hook.calls


@pytest.mark.parametrize("error", [errors.OutOfRangeError("over"), StopAsyncIteration()])
async def test_the_end_of_the_input_ends_the_block_in_good_order(error):
    hook = Told()
    async with af.train.MonitoredSession(hooks=[hook]):
        raise error
    assert hook.calls[-1] == "end"


async def test_an_error_of_a_hook_when_the_session_is_made_leaves_nothing_open():
    class Refusing(af.train.SessionRunHook):
        async def after_create_session(self, session, coord):
            coord.create_task(asyncio.sleep(1e9))
            raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        async with af.train.MonitoredSession(hooks=[Refusing()]):
            pass


async def test_a_session_is_entered_once():
    _, _, _, train = counter()
    hook = Told()
    session = af.train.MonitoredSession(hooks=[hook])
    async with session:
        with pytest.raises(RuntimeError, match="entered once"):
            await session.__aenter__()
        await session.run(train)
    with pytest.raises(RuntimeError, match="entered once"):
        await session.__aenter__()
    assert hook.calls == ["begin", "create", "before", "after", "end"]


async def test_cancelling_a_run_leaves_the_session_usable():
    _, _, failing, train = counter()
    async with af.train.MonitoredSession() as session:
        failing.gate = Gate()
        run = asyncio.create_task(session.run(train))
        await failing.gate.arrived()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        failing.gate = None
        await session.run(train)


async def test_a_session_gets_what_init_fn_gives_and_local_variables():
    x = af.Variable(1.0, name="x")
    local = af.Variable(5.0, collections=[af.GraphKeys.LOCAL_VARIABLES])
    value = af.placeholder(af.float32, [])
    assign = x.assign(value)

    async def init(scaffold, session):
        assert scaffold.init_op is not None
        await session.run(assign, {value: 3.0})

    scaffold = af.train.Scaffold(init_fn=init)
    async with af.train.MonitoredSession(af.train.ChiefSessionCreator(scaffold)) as session:
        assert await session.run([x, local]) == [3.0, 5.0]
    assert scaffold.saver is not None


async def test_a_variable_that_nobody_gives_a_value_is_named():
    left_out, given = af.Variable(1.0, name="left_out"), af.Variable(1.0)
    scaffold = af.train.Scaffold(init_op=given.initializer)
    with pytest.raises(RuntimeError, match="left_out: without a value after initializing"):
        async with af.train.MonitoredSession(af.train.ChiefSessionCreator(scaffold)):
            pass
    assert left_out.op.name == "left_out"


async def test_what_is_asked_wrongly_is_refused_early():
    with pytest.raises(TypeError, match="a hook is a SessionRunHook"):
        af.train.MonitoredSession(hooks=[print])
    with pytest.raises(ValueError, match="'all' or 'lost'"):
        af.train.ChiefSessionCreator(restore="some")
    with pytest.raises(ValueError, match="exclude each other"):
        af.train.ChiefSessionCreator(checkpoint_dir="a", checkpoint_filename_with_path="b")
    with pytest.raises(ValueError, match="save_checkpoint_steps or"):
        af.train.MonitoredTrainingSession(save_checkpoint_steps=1, save_checkpoint_secs=1)
    with pytest.raises(TypeError, match="init_fn is a function"):
        af.train.Scaffold(init_fn=3)
    with pytest.raises(RuntimeError, match="StopAtStepHook needs a global step"):
        af.train.MonitoredSession(hooks=[af.train.StopAtStepHook(last_step=1)])


# Losses


async def test_a_run_that_loses_a_peer_is_begun_anew_from_the_newest_checkpoint(tmp_path, caplog):
    step, total, failing, train = counter()
    hook = Told()
    async with af.train.MonitoredTrainingSession(
        checkpoint_dir=tmp_path, save_checkpoint_steps=2, save_checkpoint_secs=None, hooks=[hook], examples_per_step=32
    ) as session:
        for _ in range(5):
            await session.run(train)
            await asyncio.sleep(1)  # what is saved is written
        failing.at = {failing.runs + 1}
        with caplog.at_level(logging.WARNING):
            await session.run(train)
        assert await session.run([step, total]) == [5, 10]
        (found,) = session.recoveries
    assert hook.recoveries == [found]
    assert found.checkpoint == str(tmp_path / "model.ckpt-4")
    assert set(found.restored) == {"global_step", "total"}
    assert (found.step_before, found.step_after, found.steps, found.examples) == (5, 4, 1, 32)
    assert "is gone" in found.error.message
    assert "2 variables restored from" in caplog.text
    assert "lost: 1 steps, 32 examples" in caplog.text
    assert hook.calls.count("create") == 2


async def test_without_a_checkpoint_everything_begins_anew():
    step, total, failing, train = counter()
    async with af.train.MonitoredSession() as session:
        await session.run(train)
        failing.at = {2}
        await session.run(train)
        assert await session.run([step, total]) == [1, 2]
        assert set(session.recoveries[0].initialized) == {"global_step", "total"}
        assert session.recoveries[0].steps == 1


async def test_runs_that_fail_together_recover_once():
    step, _, failing, train = counter()
    async with af.train.MonitoredSession() as session:
        failing.gate = Gate()
        runs = [asyncio.create_task(session.run(train)) for _ in range(4)]
        await failing.gate.arrived(4)
        failing.at = {1, 3}
        failing.gate.open()
        await asyncio.gather(*runs)
        (found,) = session.recoveries
        assert found.steps == 2, "of four runs two succeeded before"
        assert await session.run(step) == 2


async def test_a_run_that_hangs_when_another_loses_a_peer_is_begun_anew():
    _, _, failing, train = counter()
    async with af.train.MonitoredSession() as session:
        stuck = failing.gate = Gate()
        hanging = asyncio.create_task(session.run(train))
        await failing.gate.arrived()
        failing.gate, failing.at = None, {2}
        await session.run(train)
        await hanging
        assert not stuck._opened.is_set()
        assert len(session.recoveries) == 1


@pytest.mark.parametrize("place", ["create", "before", "after", "end"])
async def test_what_is_lost_in_a_hook_is_recovered_too(place):
    hook = Told(fail_at=place)
    step, _, _, train = counter()
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        await session.run(train)
        assert await session.run(step) == 1
    assert len(session.recoveries) == (place != "end")
    assert hook.calls[-1] == "end"


async def test_a_loss_of_values_at_the_end_is_an_error():
    _, _, _, train = counter()

    class Forgetting(af.train.ChiefSessionCreator):
        async def is_ready(self, session):
            return False

    hook = Told(fail_at="end")
    with pytest.raises(errors.FailedPreconditionError, match="lost before the training could end"):
        await run_once(af.train.MonitoredSession(Forgetting(), [hook]), train)


async def test_a_loss_that_comes_back_again_and_again_is_given_up_in_time():
    _, _, failing, train = counter()
    failing.at = range(1, 10**6)
    now = asyncio.get_running_loop().time
    creator = af.train.ChiefSessionCreator(max_wait_secs=30)
    async with af.train.MonitoredSession(creator) as session:
        with pytest.raises(errors.DeadlineExceededError, match="for 30 s runs have failed again"):
            await session.run(train)
        assert 29 <= now() <= 30
        assert failing.runs < 60
        failing.at = ()


async def test_a_deadline_is_no_loss():
    _, _, failing, train = counter()
    failing.gate = Gate()
    async with af.train.MonitoredSession() as session:
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(train, options=af.RunOptions(timeout=3.0))
        assert not session.recoveries
        failing.gate = None


async def test_who_is_cancelled_while_recovering_leaves_it_to_the_next_run(tmp_path):
    step, _, failing, train = counter()
    entered, gate = [], Gate()

    class Slow(af.train.SessionRunHook):
        async def after_create_session(self, session, coord):
            entered.append(session)
            if len(entered) == 2:
                await gate.wait()

    async with af.train.MonitoredSession(hooks=[Slow()]) as session:
        await session.run(train)
        failing.at = {2}
        run = asyncio.create_task(session.run(train))
        await gate.arrived()
        run.cancel()
        await asyncio.wait([run])
        await session.run(train)
        assert await session.run(step) == 1
        assert len(entered) == 3
        assert entered[0].closed
        assert entered[1] is entered[2], "the second time nothing was lost"


async def test_a_step_function_is_called_anew_after_a_loss():
    step, _, failing, train = counter()
    seen = []

    async def take(context):
        seen.append(int(await context.session.run(step)))
        await context.run_with_hooks(train)
        if seen[-1] == 2:
            context.request_stop()
        return seen[-1]

    hook = Told()
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        failing.at = {2}
        while not session.should_stop():
            await session.run_step_fn(take)
    assert seen == [0, 1, 0, 1, 2]
    assert hook.calls.count("after") == 4


async def test_a_singular_session_does_not_recover():
    _, _, failing, train = counter()
    failing.at = {1}
    session = af.train.SingularMonitoredSession()
    with pytest.raises(RuntimeError, match="not open"):
        session.raw_session()
    with pytest.raises(errors.UnavailableError, match="is gone"):
        await run_once(session, train)
    assert not session.recoveries


# Tasks beside


def fed_by_runner(failing):
    queue = af.FIFOQueue(4, [af.int32], shapes=[[]])
    with af.control_dependencies([failing.op]):
        enqueue = queue.enqueue(af.constant(7))
    af.train.add_queue_runner(af.train.QueueRunner(queue, [enqueue]))
    return queue.dequeue()


async def test_queue_runners_run_and_what_stops_them_is_the_error_of_who_waits():
    failing = Failing()
    taken = fed_by_runner(failing)
    failing.at, failing.error = {3}, errors.DataLossError("a bit has flipped")
    with pytest.raises(errors.DataLossError, match="flipped"):
        await run_on([], taken)


async def test_queue_runners_run_again_after_a_loss():
    failing = Failing()
    taken = fed_by_runner(failing)
    failing.at = {3, 5}
    async with af.train.MonitoredSession() as session:
        for _ in range(20):
            assert await session.run(taken) == 7
    assert 1 <= len(session.recoveries) <= 2


async def test_a_task_of_a_hook_that_fails_ends_runs_and_is_the_error():
    _, _, failing, train = counter()
    failing.gate = Gate()

    class Beside(af.train.SessionRunHook):
        async def after_create_session(self, session, coord):
            coord.create_task(self._fail())

        async def _fail(self):
            await asyncio.sleep(5)
            raise KeyError("beside")

    with pytest.raises(KeyError, match="beside"):
        async with af.train.MonitoredSession(hooks=[Beside()]) as session:
            await session.run(train)
    assert asyncio.get_running_loop().time() == 5


async def test_leaving_in_good_order_raises_what_failed_beside():
    class Beside(af.train.SessionRunHook):
        async def after_create_session(self, session, coord):
            coord.create_task(self._fail())

        async def _fail(self):
            raise KeyError("beside")

    told = Told()
    with pytest.raises(KeyError, match="beside"):
        await run_once(af.train.MonitoredSession(hooks=[Beside(), told]), None)
    assert "end" not in told.calls
