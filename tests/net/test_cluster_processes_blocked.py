"""Blocked, stopped and killed processes, the reactions of their peers, and the monitors."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import aioflow as af
from aioflow import errors
from tests.support.cluster_processes import (
    FIRST,
    LONGEST,
    PS,
    ROOT,
    SECOND,
    THREE,
    Processes,
    addresses,
    on_one_loop,
    soon,
)

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
HEARTBEAT = 5.0
HELD = 7.0
"""Seconds for which the client is blocked: longer than the heartbeat timeout."""


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


async def monitor_of(owner):
    """The monitor of a process, as soon as its command line can be read: an exec shows it a moment after the start."""

    async def not_yet():
        return "" if monitors(owner) else f"{owner} has no monitor"

    await soon(not_yet)
    (found,) = monitors(owner)
    return found


@pytest.fixture(scope="module")
def cluster():
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not show which processes are stopped")
    options = ["--py-funcs", "tests.support.blocking_functions"]
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
            path = af.placeholder(af.string, [], name="path")
            af.py_func("hold_gil", [path], af.float32, stateful=True, name="holds")
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
        time.sleep(HELD)  # noqa: ASYNC251 - the test blocks the loop
        assert await session.run("add:0") == 2
        assert not under_way.done()
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)


@pytest.mark.long
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
            time.sleep(HELD)  # noqa: ASYNC251 - the test blocks the loop
            found += [int(await session.run(advance)) for _ in range(3)]
    assert found == [1, 2, 3, 4, 5, 6]


@contextlib.contextmanager
def fifo(folder):
    """The path of a FIFO. `hold_gil` holds the GIL until the end of the block."""
    path = folder / "fifo"
    os.mkfifo(path)
    try:
        yield str(path)
    finally:
        release(path)


def release(path):
    """End `hold_gil`, which waits for a writer of that FIFO; do nothing if it does not wait."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


async def busy_for(session, seconds):
    """Return the first report that says for longer than that how long the second worker has been busy."""
    reports = []

    async def not_yet():
        reports.append(str(await session.explain()))
        found = re.search(rf"{SECOND}: it is busy since (\d+\.\d) s with hold_gil", reports[-1])
        return found is None or float(found[1]) <= seconds

    await soon(not_yet)
    return reports[-1]


async def deadline_error(session):
    """The text with which the master ends a step on the second worker whose time limit is over.

    On a slow machine the client's own time limit may be the first to end the step, with another text.
    """
    texts = []

    async def from_client():
        with pytest.raises(errors.DeadlineExceededError) as info:
            await session.run("holds:0", {"path:0": ""}, options=af.RunOptions(timeout=1.0 + len(texts)))
        texts.append(str(info.value))
        return "" if "the time of the step is over" in texts[-1] else texts

    await soon(from_client)
    return texts[-1]


@on_one_loop
async def test_a_worker_whose_gil_is_held_is_waited_for_and_explained(cluster, tmp_path):
    graph, _ = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        assert await session.run("holds:0", {"path:0": ""}) == 1
        waiting = asyncio.ensure_future(session.run("never:0"))
        with fifo(tmp_path) as path:
            step = asyncio.ensure_future(session.run("holds:0", {"path:0": path}))
            report = await busy_for(session, HEARTBEAT)
            assert not step.done(), report
            assert not waiting.done(), report
            assert f"{SECOND}: it is busy since" in await deadline_error(session)
        assert await step == 1
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await cluster.nothing_left()


@on_one_loop
async def test_a_first_connection_waits_for_a_worker_whose_gil_is_held(cluster, tmp_path):
    graph, _ = build()
    with af.Graph().as_default() as other, af.device(SECOND):
        af.identity(af.constant(2.0) * 1.0, name="two")
    async with af.Session(cluster.target(), graph=graph) as session:
        assert await session.run("holds:0", {"path:0": ""}) == 1
        with fifo(tmp_path) as path:
            step = asyncio.ensure_future(session.run("holds:0", {"path:0": path}))
            await busy_for(session, 1.0)
            async with af.Session(cluster.target(SECOND), graph=other) as new:
                first = asyncio.ensure_future(new.run("two:0"))

                async def not_yet():
                    assert not first.done()
                    text = str(await new.explain())
                    found = re.search(r" it is busy since (\d+\.\d) s", text)
                    return "" if found is not None and float(found[1]) > HEARTBEAT else text

                await soon(not_yet)
                release(path)
                assert await first == 2
        assert await step == 1
    await cluster.nothing_left()


@on_one_loop
async def test_a_first_connection_names_a_stopped_worker(cluster):
    with af.Graph().as_default() as graph, af.device(SECOND):
        af.identity(af.constant(2.0) * 1.0, name="two")
    cluster.stop(SECOND)
    for task in (SECOND, FIRST):
        began = time.monotonic()
        async with af.Session(cluster.target(task), graph=graph) as session:
            with pytest.raises(errors.UnavailableError, match=r"is silent.*its process is stopped"):
                await session.run("two:0")
        print(f"{time.monotonic() - began:.2f} s")


@on_one_loop
async def test_an_error_names_a_stopped_worker_and_a_killed_one_and_what_has_happened(cluster):
    """`test_net_liveness.py` holds within how many seconds, on a clock that no load delays."""
    graph, _ = build()
    for fault, what in [(cluster.stop, "is silent.*its process is stopped"), (cluster.kill, "is gone")]:
        cluster.revive()
        async with af.Session(cluster.target(), graph=graph) as session:
            step = asyncio.ensure_future(session.run("never:0"))
            await cluster.running(PS, SECOND)
            began = time.monotonic()
            fault(SECOND)
            async with asyncio.timeout(LONGEST):
                with pytest.raises(errors.UnavailableError, match=f"{SECOND}.*{what}"):
                    await step
            print(f"{fault.__name__}: {time.monotonic() - began:.2f} s")


@on_one_loop
async def test_a_monitor_ends_with_its_process_and_with_the_last_connection(cluster):
    graph, count = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(count.initializer)
        killed = cluster.pid(SECOND)
        assert await monitor_of(os.getpid()) != await monitor_of(killed)
        cluster.kill(SECOND)

        async def still_there():
            return monitors(killed)

        await soon(still_there)
    assert monitors(os.getpid()) == []


@on_one_loop
async def test_a_task_that_restarts_at_once_has_a_monitor_while_the_old_one_still_ends(cluster):
    """The old monitor holds the UDP port until it ends, which may take it a while on a busy machine."""
    old = await monitor_of(cluster.pid(SECOND))
    os.kill(old, signal.SIGSTOP)
    try:
        cluster.kill(SECOND)
        cluster.revive()
        await monitor_of(cluster.pid(SECOND))
    finally:
        os.kill(old, signal.SIGCONT)


@on_one_loop
async def test_without_its_killed_monitor_a_process_is_judged_by_frames(cluster):
    graph, count = build()
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(count.initializer)
        for owner in (os.getpid(), cluster.pid(FIRST), cluster.pid(SECOND)):
            os.kill(await monitor_of(owner), signal.SIGKILL)
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


@pytest.mark.long
@on_one_loop
async def test_a_killed_client_leaves_nothing_though_a_child_has_its_sockets(cluster):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(  # noqa: ASYNC220 - a child of asyncio would be awaited, and this one is killed
        [sys.executable, "-c", CHILD, cluster.target()], env=environment, stdout=subprocess.PIPE, process_group=0
    ) as process:
        try:
            assert await asyncio.to_thread(process.stdout.readline) == b"forked\n"
            await cluster.running(PS)
            process.kill()
            seconds = await cluster.nothing_left()
            print(f"{seconds:.2f} s")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
