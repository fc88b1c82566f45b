"""Supervisors, and sessions that a chief makes ready and workers wait for."""

import asyncio
import os
from types import SimpleNamespace

import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import cluster, faulty_kernel
from aioflow.train.session_manager import SessionManager

PS = "/job:ps/task:0"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def simulated(tmp_path):
    async with cluster({"ps": 1, "worker": 2}, config=af.Config(file_roots=[tmp_path])) as simulated:
        yield simulated


def step_by_step(device=""):
    with af.device(device):
        step = af.train.get_or_create_global_step()
        return step, step.assign_add(1).op


def saved_in(folder):
    return sorted(int(name.rsplit("-")[-1]) for name in os.listdir(folder) if "-" in name)


async def pause():
    await asyncio.sleep(1)


# Supervisors


async def test_a_supervisor_makes_a_session_ready_and_saves_beside(tmp_path):
    for begins in (0, 6):
        with af.Graph().as_default():
            step, train = step_by_step()
            supervisor = af.train.Supervisor(logdir=tmp_path, save_model_secs=2.25)
            async with supervisor.managed_session() as session:
                assert await session.run(step) == begins
                for _ in range(6):
                    await asyncio.sleep(1)
                    await session.run(train)
            assert session.closed
            assert supervisor.should_stop()
            assert supervisor.save_path == str(tmp_path / "model.ckpt")
    assert saved_in(tmp_path) == [4, 6, 8, 10, 12], "the last five, whoever has saved them"


async def test_a_supervisor_stops_for_an_error_of_whatever_runs_beside():
    _, train = step_by_step()
    supervisor = af.train.Supervisor()
    calls = []

    async def call(text, number):
        calls.append((text, number))
        if len(calls) == 3:
            raise KeyError("beside")

    async def train_on():
        async with supervisor.managed_session() as session:
            supervisor.loop(2.0, call, ("a",), {"number": 1})
            while not supervisor.should_stop():
                await session.run(train)
                await pause()

    with pytest.raises(KeyError, match="beside"):
        await train_on()
    assert calls == [("a", 1)] * 3


async def test_a_supervisor_keeps_its_interval_for_calls_of_any_duration():
    supervisor = af.train.Supervisor()
    now, begun = asyncio.get_running_loop().time, []

    async def call():
        begun.append(now())
        await asyncio.sleep([1.5, 7.0, 0.0, 0.0][len(begun) - 1])

    async with supervisor.managed_session():
        first = now()
        supervisor.loop(2.0, call)
        await asyncio.sleep(12)
        assert [time - first for time in begun] == pytest.approx([0.0, 2.0, 9.0, 11.0])


async def test_the_block_of_a_supervisor_ends_with_its_input_and_raises_its_error():
    step_by_step()
    async with af.train.Supervisor().managed_session():
        raise errors.OutOfRangeError("over")
    with af.Graph().as_default():
        step_by_step()
        with pytest.raises(KeyError, match="mine"):
            async with af.train.Supervisor().managed_session():
                raise KeyError("mine")
    with af.Graph().as_default():
        supervisor = af.train.Supervisor(is_chief=False)
    with pytest.raises(ValueError, match="only the chief"):
        supervisor.start_standard_services(None)
    with pytest.raises(RuntimeError, match="no summary_writer"):
        supervisor.summary_computed(None, b"")


async def test_a_supervisor_goes_on_if_a_checkpoint_cannot_be_written(tmp_path, caplog):
    _, train = step_by_step()
    supervisor = af.train.Supervisor(logdir=tmp_path, save_model_secs=2.25)
    with faulty_kernel("save_shard", at=2, error=errors.ResourceExhaustedError("the disk is full")):
        async with supervisor.managed_session() as session:
            for _ in range(5):
                await asyncio.sleep(1)
                await session.run(train)
    assert "training goes on: the disk is full" in caplog.text
    assert saved_in(tmp_path) == [0, 4, 5]


async def test_a_supervisor_runs_queue_runners_and_writes_summaries(tmp_path):
    step, _ = step_by_step()
    queue = af.FIFOQueue(2, [af.int32], shapes=[[]])
    af.train.add_queue_runner(af.train.QueueRunner(queue, [queue.enqueue(7)]))
    taken, summary = queue.dequeue(), af.summary.scalar("step", step)

    steps = []
    writer = SimpleNamespace(add_summary=lambda summary, step: steps.append(step))
    supervisor = af.train.Supervisor(summary_writer=writer, summary_op=summary, save_summaries_secs=10.0)
    async with supervisor.managed_session() as session:
        assert [await session.run(taken) for _ in range(5)] == [7] * 5
        await asyncio.sleep(25)
    assert steps == [0, 0, 0]


# A chief and its workers


async def test_workers_wait_for_the_chief(simulated):
    step, train = step_by_step(PS)
    scaffold = af.train.Scaffold()
    chief = af.train.ChiefSessionCreator(scaffold, simulated.target("worker", 0))
    worker = af.train.WorkerSessionCreator(scaffold, simulated.target("worker", 1))
    begun = asyncio.Event()

    async def work():
        async with af.train.MonitoredSession(worker) as session:
            begun.set()
            await session.run(train)

    working = asyncio.create_task(work())
    await asyncio.sleep(20)
    assert not begun.is_set()
    async with af.train.MonitoredSession(chief) as session:
        await working
        assert await session.run(step) == 1


async def test_a_worker_waits_for_its_chief_so_long_and_names_what_is_missing(simulated):
    step_by_step(PS)
    creator = af.train.WorkerSessionCreator(None, simulated.target("worker", 1), max_wait_secs=30)
    with pytest.raises(errors.DeadlineExceededError, match="not initialized by the chief: global_step"):
        async with af.train.MonitoredSession(creator):
            pass
    assert 25 < asyncio.get_running_loop().time() <= 31


async def test_a_supervisor_waits_for_its_chief_as_long_as_it_is_told_to(simulated):
    step_by_step(PS)
    supervisor = af.train.Supervisor(is_chief=False)
    with pytest.raises(errors.DeadlineExceededError, match="not initialized by the chief: global_step"):
        async with supervisor.managed_session(simulated.target("worker", 1), max_wait_secs=30):
            pass
    assert 25 < asyncio.get_running_loop().time() <= 31


async def test_a_session_is_waited_for_whoever_starts_first(simulated):
    step, _ = step_by_step(PS)
    await simulated.crash("ps", 0)
    manager = SessionManager(ready_op=af.report_uninitialized_variables())
    init = af.global_variables_initializer()
    with pytest.raises(errors.DeadlineExceededError, match="/job:ps"):
        await manager.prepare_session(simulated.target("worker", 0), init, max_wait_secs=20)
    assert 15 < asyncio.get_running_loop().time() <= 25
    preparing = asyncio.create_task(manager.prepare_session(simulated.target("worker", 0), init))
    await asyncio.sleep(60)
    await simulated.start("ps", 0)
    async with await preparing as session:
        assert await session.run(step) == 0
        other, ready = await manager.recover_session(simulated.target("worker", 1))
        await other.close()
        assert ready


async def test_only_what_is_lost_is_restored_if_that_is_asked_for(simulated, tmp_path):
    with af.device("/job:worker/task:1"):
        kept = af.Variable(0, name="kept")
        more = kept.assign_add(1).op
    step, _ = step_by_step(PS)
    with af.device(PS):
        fresh = af.Variable(5, name="fresh")
        local = af.Variable(8, name="local", collections=[af.GraphKeys.LOCAL_VARIABLES])
    train = af.group(more, step.assign_add(1), fresh.assign_add(1))
    scaffold = af.train.Scaffold(saver=af.train.Saver([kept, step]))
    hook = af.train.CheckpointSaverHook(tmp_path, save_steps=2, scaffold=scaffold)
    creator = af.train.ChiefSessionCreator(
        scaffold, simulated.target("worker", 0), checkpoint_dir=tmp_path, restore="lost"
    )
    async with af.train.MonitoredSession(creator, [hook], examples_per_step=2) as session:
        for _ in range(5):
            await session.run(train)
            await asyncio.sleep(1)
        await simulated.crash("ps", 0)
        await simulated.start("ps", 0)
        assert await session.run([kept, step, fresh, local]) == [5, 4, 5, 8]
        (found,) = session.recoveries
        assert found.restored == ("global_step",)
        assert set(found.initialized) == {"fresh", "local"}
        assert (found.step_before, found.step_after, found.examples) == (5, 4, 2)
        await session.run(train)
        assert await session.run([kept, step]) == [6, 5]


async def test_a_loss_that_concerns_no_variable_restores_none(simulated, tmp_path):
    step, train = step_by_step(PS)
    with af.device("/job:worker/task:1"):
        far = step + 1
    creator = af.train.ChiefSessionCreator(
        None, simulated.target("worker", 0), checkpoint_dir=tmp_path, restore="lost", max_wait_secs=40
    )
    async with af.train.MonitoredSession(creator) as session:
        await session.run(train)
        await simulated.crash("worker", 1)
        await session.run(train)
        assert not session.recoveries, "nobody needs it"
        with pytest.raises(errors.DeadlineExceededError, match="/job:worker/replica:0/task:1"):
            await session.run(far)
        assert not session.recoveries, "it has not come back"
        running = asyncio.create_task(session.run(far))
        await asyncio.sleep(10)
        await simulated.start("worker", 1)
        assert await running == 3
        (found,) = session.recoveries
        assert (found.steps, found.restored, found.repeated) == (0, (), ())
        assert await session.run(step) == 2


def test_a_supervisor_has_tensorflows_older_names_too():
    af.Variable(1.0)
    supervisor = af.train.Supervisor()
    assert not supervisor.ShouldStop()
    supervisor.RequestStop()
    assert supervisor.should_stop()
