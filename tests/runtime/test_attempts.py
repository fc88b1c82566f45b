"""A run that ends by a loss is repeated, and happens once: a process or connection is lost at every message."""

import asyncio
import contextlib
import functools
import itertools
import tempfile

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import VirtualTimeLoop, cluster
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount, some

STEPS = 3
PS = ("/job:ps/task:0", "/job:ps/task:1")
LOSSES = {
    "a task without variables": ("worker", 1),
    "the master": ("worker", 0),
    "a task with variables": ("ps", 1),
    "the connection of the client": None,
}


def model():
    """A step with variables and slots on two tasks, random numbers, a queue, and work on a task without state."""
    af.set_random_seed(3)
    with af.device(PS[0]):
        step = af.train.get_or_create_global_step()
        a = af.Variable(np.zeros(3, np.float32), name="a")
        queue = af.FIFOQueue(100, [af.float32], shapes=[[]], name="numbers")
        fill = queue.enqueue_many([np.arange(1, 21, dtype=np.float32)])
        number = queue.dequeue()
        total = af.Variable(np.float32(0), name="total")
    with af.device(PS[1]):
        b = af.Variable(np.ones(3, np.float32), name="b")
        added = af.Variable(np.float32(0), name="added")
        noise = af.random_uniform([3], seed=5)
    with af.device("/job:worker/task:1"):
        loss = af.reduce_sum(af.square(a * b - noise)) + 0.0 * number
    train = af.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
    with af.device(PS[1]), af.control_dependencies([train]):
        train = af.group(b.assign_add([1.0, 2.0, 3.0]), added.assign_add(1.0), total.assign_add(number))
    return step, [a, b, added, total], train, fill


class Watched:
    """The result of a training.

    Attributes:
        messages: the number of frames on the network in the last run but one.
        values: the values of the variables at the end.
        step: the global step at the end.
        recoveries: the recoveries of the session.
    """

    messages: int
    values: list[np.ndarray]
    step: int
    recoveries: list[af.train.Recovery]


async def train(folder: str, restore: str, place: tuple[str, int] | None, at: int | None) -> Watched:
    """Train; in the second of three runs lose that process, or the client's connection, at that message."""
    found = Watched()
    with af.Graph().as_default():
        step, variables, update, fill = model()
        scaffold = af.train.Scaffold(init_fn=lambda scaffold, session: session.run(fill))
        config, lost = af.Config(file_roots=[folder]), asyncio.Event()
        async with (
            cluster({"ps": 2, "worker": 2}, latency=1e-3, config=config) as simulated,
            af.train.MonitoredTrainingSession(
                simulated.target("worker", 0), scaffold=scaffold, checkpoint_dir=folder, save_checkpoint_steps=2,
                save_checkpoint_secs=None, restore=restore, max_wait_secs=60.0,
            ) as session,
        ):  # fmt: skip
            await session.run(update)
            await asyncio.sleep(1.0)
            counted = count_messages(simulated, at, lost)
            losing = asyncio.create_task(lose(simulated, place, lost))
            await session.run(update)
            found.messages = counted()
            if at is None:
                losing.cancel()
            lost.set()
            await asyncio.wait([losing])
            await session.run(update)
            *found.values, found.step = await session.run([*variables, step])
            found.recoveries = list(session.recoveries)
    return found


def count_messages(simulated: SimulatedCluster, at: int | None, lost: asyncio.Event):
    """Counts frames from now on, and causes the loss at a given number."""
    count, hosts = 0, [*simulated.servers, "client"]

    def sent(frame: object) -> None:
        nonlocal count
        count += 1
        if count == at:
            lost.set()

    for source in hosts:
        for target in hosts:
            simulated.network.path(source, target).sent = sent
    return lambda: count


async def lose(simulated: SimulatedCluster, place: tuple[str, int] | None, lost: asyncio.Event) -> None:
    """Cause the loss: kill the process and restart it later, or cut all connections of the client."""
    await lost.wait()
    if place is None:
        simulated.network.cut("client", "worker0")
    else:
        await simulated.crash(*place)
        await asyncio.sleep(3.0)
        await simulated.start(*place)


def run(restore: str, place: tuple[str, int] | None = None, at: int | None = None) -> Watched:
    folders = tempfile.TemporaryDirectory(prefix="aioflow-")
    with folders as folder, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(train(folder, restore, place, at))


@functools.cache
def undisturbed() -> Watched:
    return run("all")


@functools.cache
def curve() -> dict[int, list[np.ndarray]]:
    """The values of the variables after each step of a training without a loss."""

    async def values():
        with af.Graph().as_default():
            step, variables, update, fill = model()
            init = af.global_variables_initializer()
            async with (
                cluster({"ps": 2, "worker": 2}) as simulated,
                af.Session(simulated.target("worker", 0)) as session,
            ):
                await session.run(init)
                await session.run(fill)
                found = {0: await session.run(variables)}
                for _ in range(STEPS):
                    await session.run(update)
                    found[int(await session.run(step))] = await session.run(variables)
        return found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(values())


def moments(every: int) -> list[int]:
    return list(range(1, undisturbed().messages + 1, every))


def assert_same(values: list[np.ndarray], expected: list[np.ndarray], told: str) -> None:
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted, err_msg=told)


def check_once(what: str, restore: str, at: int) -> int:
    """The number of recoveries from a loss at that message. Checks that the variables are as without a loss."""
    found = run(restore, LOSSES[what], at)
    told = f"{what} was lost at message {at}: {list(map(str, found.recoveries))}"
    assert found.step == STEPS, told
    assert_same(found.values, curve()[STEPS], told)
    assert all(not (each.restored or each.initialized or each.repeated) for each in found.recoveries), told
    assert all(each.steps == 0 for each in found.recoveries), told
    assert len(found.recoveries) <= 1, told
    return len(found.recoveries)


def check_told(restore: str, at: int) -> int:
    """Check the loss of a task with variables: they go back to a checkpoint, which the recovery reports."""
    found = run(restore, LOSSES["a task with variables"], at)
    told = f"it was lost at message {at}: {list(map(str, found.recoveries))}"
    assert len(found.recoveries) <= 1, told
    steps = sum(each.steps for each in found.recoveries)
    twice = {name for each in found.recoveries for name in each.repeated}
    assert all(twice <= set(each.restored) for each in found.recoveries), told
    if restore == "all":
        assert found.step == STEPS - steps + ("global_step" in twice), told
        if all(each.step_after == 0 for each in found.recoveries):  # random numbers begin anew with the session, too
            assert_same(found.values[:3], curve()[found.step][:3], told)
    else:
        assert found.step == STEPS, told
        assert found.values[2] == STEPS - steps + ("added" in twice), told
    return len(found.recoveries)


LOSES_NONE = [what for what in LOSSES if what != "a task with variables"]


@pytest.mark.parametrize(
    ("what", "restore"),
    [*itertools.product(LOSES_NONE, ["all"]), *some(itertools.product(LOSES_NONE, ["lost"]), 1)],
)
def test_a_run_that_loses_no_variable_happens_once(what, restore):
    recoveries = sum(check_once(what, restore, at) for at in moments(amount(166, 11)))
    assert recoveries or what == "the connection of the client", "a connection is made again, and the run goes on"


@pytest.mark.long
@pytest.mark.parametrize("restore", ["all", "lost"])
@pytest.mark.parametrize("what", LOSES_NONE)
def test_a_run_that_loses_no_variable_happens_once_for_a_loss_at_any_message(what, restore):
    recoveries = sum(check_once(what, restore, at) for at in moments(1))
    assert recoveries or what == "the connection of the client"


@pytest.mark.parametrize("restore", ["all", "lost"])
def test_a_run_that_loses_variables_happens_once_and_restored_values_are_reported(restore):
    assert sum(check_told(restore, at) for at in moments(amount(122, 11)))


@pytest.mark.long
@pytest.mark.parametrize("restore", ["all", "lost"])
def test_a_run_that_loses_variables_happens_once_and_restored_values_are_reported_for_a_loss_at_any_message(restore):
    assert sum(check_told(restore, at) for at in moments(1))


# Changes by another session


async def test_a_later_change_by_another_session_stays_and_is_reported():
    """A run has added to two variables and waits on a task that is killed; another session adds to one of them."""
    with af.Graph().as_default():
        with af.device(PS[0]):
            shared, own = af.Variable(0, name="shared"), af.Variable(0, name="own")
        with af.device("/job:worker/task:1"):
            queue = af.FIFOQueue(1, [af.int32], shapes=[[]], name="tokens")
            put = queue.enqueue(1)
        added = af.group(shared.assign_add(1), own.assign_add(1))
        with af.control_dependencies([added]):
            train = queue.dequeue(name="taken")
        more = shared.assign_add(10)
        async with cluster({"ps": 1, "worker": 2}, latency=1e-3) as simulated:
            target = simulated.target("worker", 0)
            async with (
                af.train.MonitoredTrainingSession(target, restore="lost", max_wait_secs=60.0) as session,
                af.Session(target) as other,
            ):
                running = asyncio.create_task(session.run(train))
                await asyncio.sleep(1.0)
                assert await other.run([shared, own]) == [1, 1]
                await other.run(more)
                await simulated.crash("worker", 1)
                await asyncio.sleep(5.0)
                assert not session.recoveries, "the task is waited for"
                await simulated.start("worker", 1)
                await asyncio.sleep(2.0)
                with contextlib.suppress(errors.AbortedError):  # which tells that the queue is a new one
                    await other.run(put)
                await other.run(put)
                assert await running == 1
                assert await other.run([shared, own]) == [12, 1]
                (found,) = session.recoveries
                assert found.repeated == ("shared",), "nothing is left of the queue, and the other is undone"
                assert str(found).endswith("may have happened twice: shared")


async def test_runs_of_one_session_that_fail_one_after_the_other_happen_once_each():
    with af.Graph().as_default():
        with af.device(PS[0]):
            counts = [af.Variable(0, name=f"count{index}") for index in range(4)]
        runs = []
        for count in counts:
            grown = count.assign_add(1)
            with af.device("/job:worker/task:1"):
                runs.append(grown * 2)
        async with cluster({"ps": 1, "worker": 2}, latency=1e-3) as simulated:
            target = simulated.target("worker", 0)
            async with af.train.MonitoredTrainingSession(target, restore="lost", max_wait_secs=60.0) as session:
                running = []
                for run in runs:
                    running.append(asyncio.create_task(session.run(run)))
                    await asyncio.sleep(0.0015)
                await simulated.crash("worker", 1)
                await asyncio.sleep(1.0)
                await simulated.start("worker", 1)
                assert await asyncio.gather(*running) == [2, 2, 2, 2]
                assert await session.run(counts) == [1, 1, 1, 1]
                assert len(session.recoveries) == 1
                assert not session.recoveries[0].repeated
