"""The hooks that most trainings want."""

import asyncio
import json
import logging
import os
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import Gate, faulty_kernel
from aioflow.train.recovery import Patience, patiently, step_of_checkpoint


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def step_by_step():
    step = af.train.get_or_create_global_step()
    return step, step.assign_add(1).op


async def run_until_stopped(session, train, most=50, pause=0.0):
    """How many runs there were."""
    for number in range(most):
        if session.should_stop():
            return number
        await session.run(train)
        await asyncio.sleep(pause)
    return most


# Plain classes


async def test_a_timer_is_due_at_once_and_then_every_so_often():
    steps, secs = af.train.SecondOrStepTimer(every_steps=3), af.train.SecondOrStepTimer(every_secs=10.0)
    for timer in (steps, secs):
        assert timer.last_triggered_step() is None
        assert timer.should_trigger_for_step(5)
        assert timer.update_last_triggered_step(5) == (None, None)
        assert not timer.should_trigger_for_step(5)
        assert not timer.should_trigger_for_step(7)
    assert steps.should_trigger_for_step(8)
    await asyncio.sleep(10)
    assert secs.should_trigger_for_step(6)
    assert not secs.should_trigger_for_step(5)
    assert secs.update_last_triggered_step(6) == (10.0, 1)
    secs.reset()
    assert secs.should_trigger_for_step(6)
    for wrong in ({}, {"every_secs": 1, "every_steps": 1}, {"every_steps": 0}, {"every_secs": -1.0}):
        with pytest.raises(ValueError, match=r"between two actions|the interval must be"):
            af.train.SecondOrStepTimer(**wrong)


def test_patience_waits_longer_and_longer_and_then_gives_up():
    patience = Patience(seconds=10.0, longest=4.0)
    assert [patience.failed(0.0) for _ in range(9)] == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0]
    assert [patience.failed(now) for now in (2.0, 6.0, 9.0, 9.96)] == [4.0, 2.0, 0.5, pytest.approx(0.04)]
    assert patience.failed(10.0) is None
    patience.succeeded()
    assert patience.failed(100.0) == 0.0
    assert Patience(10.0, 4.0, began=5.0).failed(15.0) is None


@pytest.mark.parametrize("seconds", [1.5, 3.0, 10.0, 100.0])
async def test_who_is_there_shortly_before_the_time_is_over_is_not_given_up(seconds):
    now = asyncio.get_running_loop().time
    began = now()

    def attempt_of(ready):
        async def attempt():
            await asyncio.sleep(0.01)
            if now() - began < ready:
                raise errors.UnavailableError("not yet")
            return "there"

        return attempt

    assert await patiently(attempt_of(seconds - 0.2), "it", seconds, longest=30.0) == "there"
    began = now()
    with pytest.raises(errors.DeadlineExceededError, match=f"it was not ready in {seconds:g} s: not yet"):
        await patiently(attempt_of(1e9), "it", seconds, longest=30.0)
    assert now() - began == pytest.approx(seconds)


async def test_a_time_that_is_over_does_not_hide_who_was_missing():
    found = iter([errors.UnavailableError("the parameter server is gone"), errors.DeadlineExceededError("a run")])

    async def attempt():
        raise next(found)

    with pytest.raises(errors.DeadlineExceededError, match="parameter server is gone; then: a run"):
        await patiently(attempt, "it", 10.0, longest=1.0)


def test_the_step_of_a_checkpoint_is_in_its_name():
    assert step_of_checkpoint("a-b/model.ckpt-00001234/") == 1234
    assert step_of_checkpoint("a-3/model.ckpt") is None


def test_a_recovery_tells_what_was_lost():
    told = af.train.Recovery(errors.UnavailableError("gone"), "c-4", ("a", "b"), ("d",), 7, 4, 10, 1.5)
    assert (told.steps, told.examples) == (3, 30)
    assert str(told) == (
        "recovered in 1.500 s from a loss: gone; 2 variables restored from c-4 and 1 variables initialized anew; "
        "lost: 3 steps, 30 examples"
    )
    unknown = af.train.Recovery(errors.AbortedError("anew"), None, (), (), None, None, 10, 0.0)
    assert (unknown.steps, unknown.examples) == (None, None)
    assert "no variable needed a restore; lost: an unknown number of steps" in str(unknown)


# Hooks


async def test_training_stops_at_a_step():
    step, train = step_by_step()
    async with af.train.MonitoredSession(hooks=[af.train.StopAtStepHook(num_steps=4)]) as session:
        assert await run_until_stopped(session, train) == 4
    with af.Graph().as_default():
        step, train = step_by_step()
        creator = af.train.ChiefSessionCreator(af.train.Scaffold(init_op=step.assign(7).op))
        async with af.train.MonitoredSession(creator, [af.train.StopAtStepHook(last_step=9)]) as session:
            assert await run_until_stopped(session, train) == 2
    with af.Graph().as_default():
        step, train = step_by_step()
        creator = af.train.ChiefSessionCreator(af.train.Scaffold(init_op=step.assign(9).op))
        async with af.train.MonitoredSession(creator, [af.train.StopAtStepHook(last_step=9)]) as session:
            assert await run_until_stopped(session, train) == 0, "there is nothing left to do"
    with pytest.raises(ValueError, match="either num_steps or last_step"):
        af.train.StopAtStepHook()


async def test_a_loss_that_is_nan_ends_training():
    for fails in (True, False):
        with af.Graph().as_default():
            loss = af.placeholder(af.float32, [])
            hook = af.train.NanTensorHook(loss, fail_on_nan_loss=fails)
            async with af.train.MonitoredSession(hooks=[hook]) as session:
                await session.run(loss, {loss: 1.0})
                if fails:
                    with pytest.raises(af.train.NanLossDuringTrainingError, match="NaN loss"):
                        await session.run(loss, {loss: np.nan})
                else:
                    await session.run(loss, {loss: np.nan})
                    assert session.should_stop()


async def test_values_are_logged_every_so_often_and_at_the_end(caplog):
    _, train = step_by_step()
    value = af.Variable(3.0, name="value")
    often = af.train.LoggingTensorHook({"v": value}, every_n_iter=2)
    secs = af.train.LoggingTensorHook([value], every_n_secs=10.0, formatter=lambda values: f"secs {values}")
    last = af.train.LoggingTensorHook([value], at_end=True, formatter=lambda values: "the end")
    with caplog.at_level(logging.INFO, "aioflow.train"):
        async with af.train.MonitoredSession(hooks=[often, secs, last]) as session:
            await run_until_stopped(session, train, most=5, pause=4.0)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "v = 3.0"
    assert lines.count("v = 3.0 (8.000 sec)") == 2
    assert sum(line.startswith("secs") for line in lines) == 2
    assert lines[-1] == "the end"


async def test_a_worker_waits_until_others_have_come_to_a_step():
    step, train = step_by_step()
    mine = af.Variable(0, name="mine")
    async with af.train.SingularMonitoredSession(hooks=[af.train.GlobalStepWaiterHook(3)]) as session:
        waiting = asyncio.create_task(session.run(mine))
        await asyncio.sleep(10)
        assert not waiting.done()
        for _ in range(3):
            await session.raw_session().run(train)
        await waiting
        assert await session.run(step) == 3


async def test_final_operations_run_at_the_end():
    step, train = step_by_step()
    x = af.placeholder(af.int64, [])
    hook = af.train.FinalOpsHook({"sum": step + x}, {x: 10})
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        await run_until_stopped(session, train, most=2)
        assert hook.final_ops_values is None
    assert hook.final_ops_values == {"sum": 12}
    with pytest.raises(RuntimeError, match="the graph is finalized"):
        af.train.FinalOpsHook(step + 1)


async def test_a_function_feeds_each_run():
    x = af.placeholder(af.int32, [])
    numbers = iter(range(3))

    async def feed():
        return {x: next(numbers)}

    async with af.train.MonitoredSession(hooks=[af.train.FeedFnHook(feed)]) as session:
        assert [await session.run(x) for _ in range(3)] == [0, 1, 2]


async def test_runs_are_traced_every_so_often(tmp_path):
    _, train = step_by_step()
    hook = af.train.ProfilerHook(save_steps=3, output_dir=tmp_path / "traces")
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        await run_until_stopped(session, train, most=5)
    assert sorted(os.listdir(tmp_path / "traces")) == ["timeline-1.json", "timeline-4.json"]
    assert json.loads((tmp_path / "traces" / "timeline-1.json").read_text())["traceEvents"]


async def test_the_speed_is_logged_and_written(caplog):
    _, train = step_by_step()

    told = []
    writer = SimpleNamespace(add_summary=lambda *args: told.append(args))
    hook = af.train.StepCounterHook(every_n_steps=3, summary_writer=writer)
    with caplog.at_level(logging.INFO, "aioflow.train"):
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            await run_until_stopped(session, train, most=7, pause=2.0)
    assert [record.getMessage() for record in caplog.records] == ["global_step/sec: 0.75", "global_step/sec: 0.5"]
    assert [step for _, step in told] == [3, 6]
    assert all(b"global_step/sec" in summary for summary, _ in told)


# Checkpoints


def saved_in(folder):
    return sorted(int(name.rsplit("-")[-1]) for name in os.listdir(folder) if "-" in name)


async def test_checkpoints_are_saved_at_first_every_so_often_and_at_the_end(tmp_path):
    _, train = step_by_step()
    told = []

    class Listener(af.train.CheckpointSaverListener):
        def begin(self):
            told.append("begin")

        async def before_save(self, session, global_step_value):
            told.append(("before", global_step_value))

        def after_save(self, session, global_step_value):
            told.append(("after", global_step_value))
            return global_step_value == 6

        async def end(self, session, global_step_value):
            told.append(("end", global_step_value))

    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=3, saver=af.train.Saver(), listeners=[Listener()])
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        assert await run_until_stopped(session, train, pause=1.0) == 7, "a listener has asked for a stop"
    assert saved_in(tmp_path) == [0, 3, 6, 7]
    pairs = [(what, step) for step in (0, 3, 6, 7) for what in ("before", "after")]
    assert told == ["begin", *pairs, ("end", 7)]
    with pytest.raises(ValueError, match="either a saver"):
        af.train.CheckpointSaverHook(tmp_path, save_steps=1)


@pytest.mark.parametrize("in_flight", [1, 2])
async def test_a_run_waits_while_as_many_checkpoints_are_written_as_the_saver_allows(tmp_path, in_flight):
    step, train = step_by_step()
    saver, gate = af.train.Saver(max_in_flight=in_flight, max_to_keep=None), Gate()
    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=1, saver=saver)
    with faulty_kernel("save_shard", gate=gate):
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            running = asyncio.create_task(run_until_stopped(session, train, most=6))
            await gate.arrived(in_flight)
            await asyncio.sleep(1000)
            assert not running.done()
            assert gate.entered == in_flight
            assert await session.run_step_fn(lambda context: context.session.run(step)) == in_flight
            gate.open()
            await running
    assert saved_in(tmp_path) == list(range(7)), "every step has its checkpoint"


async def test_a_checkpoint_is_skipped_only_by_name_and_with_a_warning(tmp_path, caplog):
    _, train = step_by_step()
    saver, gate = af.train.Saver(), Gate()
    with pytest.raises(ValueError, match="'wait' or 'skip', not 'no'"):
        af.train.CheckpointSaverHook(tmp_path, save_steps=1, saver=saver, while_saving="no")
    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=1, saver=saver, while_saving="skip")
    with faulty_kernel("save_shard", gate=gate), caplog.at_level(logging.WARNING, "aioflow.train"):
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            await run_until_stopped(session, train, most=5)
            gate.open()
            await asyncio.sleep(1)
            told = [record.getMessage() for record in caplog.records]
            await session.run(train)
    assert told == ["the checkpoint of step 1 is skipped: an earlier one is still being written"]
    assert saved_in(tmp_path) == [0, 6]


async def test_the_last_checkpoint_is_written_though_an_earlier_one_of_several_in_flight_failed(tmp_path, caplog):
    _, train = step_by_step()
    saver = af.train.Saver(max_in_flight=3)
    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=1, saver=saver)
    full = errors.ResourceExhaustedError("the disk is full")
    with faulty_kernel("save_shard", at=3, error=full):
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            await run_until_stopped(session, train, most=4)
    assert saved_in(tmp_path) == [0, 1, 3, 4]
    assert "model.ckpt-2: the disk is full" in caplog.text


async def test_a_checkpoint_that_cannot_be_written_does_not_stop_training(tmp_path, caplog):
    _, train = step_by_step()
    scaffold = af.train.Scaffold()
    hook = af.train.CheckpointSaverHook(tmp_path, save_secs=2.0, scaffold=scaffold)
    full = errors.ResourceExhaustedError("the disk is full")
    with faulty_kernel("save_shard", at=2, error=full), caplog.at_level(logging.ERROR):
        async with af.train.MonitoredSession(af.train.ChiefSessionCreator(scaffold), [hook]) as session:
            for _ in range(6):
                await session.run(train)
                await asyncio.sleep(1)
            assert "training goes on" in caplog.text
            assert "the disk is full" in caplog.text
            assert not session.recoveries
    assert saved_in(tmp_path) == [0, 5, 6]


async def test_the_last_checkpoint_has_to_be_written(tmp_path):
    _, train = step_by_step()
    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=100, saver=af.train.Saver())
    full = errors.ResourceExhaustedError("the disk is full")

    async def train_on():
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            await run_until_stopped(session, train, most=2)

    with faulty_kernel("save_shard", at=2, error=full), pytest.raises(errors.ResourceExhaustedError, match="is full"):
        await train_on()
    assert saved_in(tmp_path) == [0]


async def test_if_the_last_checkpoint_cannot_be_written_earlier_failures_are_told_and_listeners_end(tmp_path, caplog):
    _, train = step_by_step()
    ended = []

    class Listener(af.train.CheckpointSaverListener):
        def end(self, session, global_step_value):
            ended.append(global_step_value)

    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=2, saver=af.train.Saver(), listeners=[Listener()])
    full = errors.ResourceExhaustedError("the disk is full")

    async def train_on():
        async with af.train.MonitoredSession(hooks=[hook]) as session:
            await run_until_stopped(session, train, most=2, pause=1.0)
            caplog.clear()

    with faulty_kernel("save_shard", error=full), pytest.raises(errors.ResourceExhaustedError, match="is full"):
        await train_on()
    assert ended == [2]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    for step, line in zip((0, 2), told, strict=True):
        assert line.startswith("a checkpoint was not saved")
        assert f"model.ckpt-{step}: the disk is full" in line


async def test_another_process_goes_on_from_the_newest_checkpoint(tmp_path):
    for expected in (3, 6):
        with af.Graph().as_default():
            step, train = step_by_step()
            async with af.train.MonitoredTrainingSession(checkpoint_dir=tmp_path) as session:
                assert await session.run(step) == expected - 3
                await run_until_stopped(session, train, most=3)
    assert saved_in(tmp_path) == [0, 3, 6]


@pytest.mark.real
async def test_summaries_are_written_every_so_often(tmp_path):
    reader = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(reader, reason="tensorboard is not installed").EventAccumulator
    step, train = step_by_step()
    af.summary.scalar("twice", step * 2)
    async with af.train.MonitoredTrainingSession(
        checkpoint_dir=tmp_path / "model", summary_dir=tmp_path / "events", save_summaries_steps=2,
        log_step_count_steps=3,
    ) as session:  # fmt: skip
        await run_until_stopped(session, train, most=6)
    found = accumulator(str(tmp_path / "events"))
    found.Reload()
    assert [event.step for event in found.Scalars("twice")] == [1, 3, 5]
