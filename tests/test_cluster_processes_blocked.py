"""Blocked, stopped and killed processes, the reactions of their peers, and the monitors."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_processes import FIRST, PS, ROOT, SECOND, THREE, Processes, addresses, on_one_loop, soon

import aioflow as af
from aioflow import errors

pytestmark = [pytest.mark.real, pytest.mark.slow]
HELD = 7.0
"""Seconds for which a process is blocked: longer than the heartbeat timeout."""


def monitors(owner):
    """The monitors of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if any(word.endswith("monitor_process.py") for word in words) and str(owner) in words[-2:]:
            found.append(int(path.parent.name))
    return found


@pytest.fixture(scope="module")
def cluster():
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not show which processes are stopped")
    options = ["--py-funcs", "tests.blocking_functions"]
    with Processes(addresses(THREE), options=lambda task: options) as started:
        yield started


@pytest.fixture(autouse=True)
def all_listen(cluster):
    cluster.revive()


def build():
    """A step on all three tasks, a step that waits for ever, and a step that holds the GIL of the second worker."""
    with af.Graph().as_default() as graph:
        with af.device(PS):
            count = af.Variable(0.0, name="count")
            never = af.FIFOQueue(1, af.float32, shapes=[[]]).dequeue()
        with af.device(SECOND):
            seconds = af.placeholder(af.float32, [], name="seconds")
            af.py_func("hold_gil", [seconds], af.float32, stateful=True, name="holds")
            one = af.constant(1.0) * 1.0
            af.multiply(never, 2.0, name="never")
        count.assign_add(one, name="add")
    return graph, count


@on_one_loop
async def test_a_client_that_blocks_its_loop_loses_no_step(cluster):
    graph, count = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(count.initializer)
        under_way = asyncio.ensure_future(session.run("never:0"))
        assert await session.run("add:0") == 1
        await cluster.running(PS, SECOND)
        time.sleep(HELD)  # noqa: ASYNC251 - that is the point
        assert await session.run("add:0") == 2
        assert not under_way.done()
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)


@on_one_loop
async def test_training_continues_after_the_client_has_blocked_its_loop(cluster, tmp_path):
    with af.Graph().as_default():
        with af.device(PS):
            step = af.train.get_or_create_global_step()
        with af.device(SECOND):
            one = af.constant(1, af.int64) * 1
        advance = step.assign_add(one)
        monitored = af.train.MonitoredTrainingSession(
            cluster.target(), save_checkpoint_steps=1000, log_step_count_steps=None
        )
        async with monitored as session:
            found = [int(await session.run(advance)) for _ in range(3)]
            time.sleep(HELD)  # noqa: ASYNC251
            found += [int(await session.run(advance)) for _ in range(3)]
    assert found == [1, 2, 3, 4, 5, 6]


@on_one_loop
async def test_a_worker_whose_gil_is_held_is_waited_for_and_explained(cluster):
    graph, _ = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        assert await session.run("holds:0", {"seconds:0": 0.0}) == 0
        waiting = asyncio.ensure_future(session.run("never:0"))
        step = asyncio.ensure_future(session.run("holds:0", {"seconds:0": HELD}))
        await asyncio.sleep(HELD - 2.0)
        report = await session.explain()
        assert re.search(rf"{SECOND}: it is busy since \d\.\d s with hold_gil", str(report)), str(report)
        with pytest.raises(errors.DeadlineExceededError, match=f"{SECOND}: it is busy since"):
            await session.run("holds:0", {"seconds:0": 0.0}, options=af.RunOptions(timeout=1.0))
        assert await step == HELD
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await cluster.nothing_left()


@on_one_loop
async def test_an_error_names_a_stopped_worker_within_five_seconds_and_a_killed_one_within_one(cluster):
    graph, _ = build()
    for fault, limit in [(cluster.stop, 5.0), (cluster.kill, 1.0)]:
        cluster.revive()
        async with af.Session(cluster.target(), graph=graph) as session:
            step = asyncio.ensure_future(session.run("never:0"))
            await cluster.running(PS, SECOND)
            began = time.monotonic()
            fault(SECOND)
            with pytest.raises(errors.UnavailableError, match=SECOND):
                await step
            print(f"{fault.__name__}: {time.monotonic() - began:.2f} s")
            assert time.monotonic() - began < limit + 1.5  # the machine may be slow


@on_one_loop
async def test_a_monitor_ends_with_its_process_and_with_the_last_connection(cluster):
    graph, count = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(count.initializer)
        assert len(monitors(os.getpid())) == 1
        killed = cluster.pid(SECOND)
        assert len(monitors(killed)) == 1
        cluster.kill(SECOND)

        async def still_there():
            return monitors(killed)

        assert await soon(still_there) < 5.0
    assert monitors(os.getpid()) == []


@on_one_loop
async def test_without_its_killed_monitor_a_process_is_judged_by_frames(cluster):
    graph, count = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(count.initializer)
        for pid in (*monitors(os.getpid()), *monitors(cluster.pid(FIRST)), *monitors(cluster.pid(SECOND))):
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.1)
        assert await session.run("add:0") == 1
        assert await session.run("add:0") == 2
    assert monitors(os.getpid()) == []


CHILD = """
import asyncio, os, sys, time
import aioflow as af

async def main(target):
    with af.Graph().as_default() as graph:
        with af.device("/job:ps/task:0"):
            queue = af.FIFOQueue(1, af.float32, shapes=[[]], name="queue")
            af.multiply(queue.dequeue(), 2.0, name="never")
    async with af.Session(target, graph=graph) as session:
        step = asyncio.ensure_future(session.run("never:0"))
        await asyncio.sleep(0.5)
        if os.fork() == 0:  # it has all sockets of its parent
            time.sleep(30.0)
            os._exit(0)
        print("forked", flush=True)
        await step

asyncio.run(main(sys.argv[1]))
"""


@on_one_loop
async def test_a_killed_client_leaves_nothing_though_a_child_has_its_sockets(cluster):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", CHILD, cluster.target()], env=environment, stdout=subprocess.PIPE, process_group=0
    ) as process:
        try:
            assert await asyncio.to_thread(process.stdout.readline) == b"forked\n"
            await cluster.running(PS)
            process.kill()
            seconds = await cluster.nothing_left()
            print(f"{seconds:.2f} s")
            assert seconds < 3.0
        finally:
            os.killpg(process.pid, signal.SIGKILL)
