"""What holds of a launch on every engine. A class of tests per engine inherits it."""

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import aioflow as af

MODULE = "aioflow.launch.child"
MARK = f"STARTED_BY_TESTS_{os.getpid()}"
os.environ[MARK] = "1"  # all that is started from here on inherits it
READABLE = ("cmdline", "environ")


class EngineTests:
    """The fixture `start` gives a function from the counts of tasks, and more, to a launch."""

    async def test_a_session_runs_on_all_tasks_and_leaving_the_block_stops_them(self, start):
        async with start(workers=2, ps=1) as cluster:
            assert {job: cluster.spec.num_tasks(job) for job in cluster.spec.jobs} == {"ps": 1, "worker": 2}
            assert len(children()) == 3
            assert await computed(cluster) == 64.0
            assert cluster.lost == {}
        assert children() == []

    async def test_a_block_that_raises_stops_them_too(self, start):
        with pytest.raises(ZeroDivisionError):
            async with start(workers=2):
                raise ZeroDivisionError
        assert children() == []

    async def test_a_block_that_is_cancelled_stops_them_too(self, start):
        async def body():
            async with start(workers=2):
                inside.set()
                await asyncio.Event().wait()

        inside = asyncio.Event()
        running = asyncio.create_task(body())
        await inside.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert children() == []

    async def test_a_launch_that_is_cancelled_while_it_begins_leaves_nothing(self, start):
        async def body():
            async with start(workers=2):
                pytest.fail("it was not cancelled")

        running = asyncio.create_task(body())
        while not children():
            assert not running.done()
            await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await gone()

    async def test_what_tasks_are_told_goes_to_them(self, start):
        async with start(workers=1, config=af.Config(device_count={"CPU": 3})) as cluster:
            assert await computed(cluster, "/job:worker/task:0/cpu:2") == 64.0

    async def test_tasks_have_the_functions_of_the_module_that_they_are_told_of(self, start):
        async with start(workers=1, py_funcs="math") as cluster:
            with af.Graph().as_default() as built:
                af.py_func("sqrt", [16.0], af.float64, name="root")
            async with af.Session(cluster.target, graph=built) as session:
                assert await session.run("root:0", options=af.RunOptions(timeout=30)) == 4.0

    async def test_a_task_that_is_killed_is_named_and_the_others_are_stopped(self, start):
        async with start(workers=2, ps=1, restarts=0) as cluster:
            await computed(cluster)
            os.kill(of_task(cluster, "worker", 1), signal.SIGKILL)
            with pytest.raises(af.errors.UnavailableError, match=r"/job:worker/replica:0/task:1: .*SIGKILL") as lost:
                await cluster.watch()
            assert lost.value.task == "/job:worker/replica:0/task:1"
            assert [*cluster.lost] == ["/job:worker/replica:0/task:1"]
            with pytest.raises(af.errors.UnavailableError, match="/job:worker/replica:0/task:1"):
                await computed(cluster)
        assert children() == []

    async def test_a_worker_of_the_engine_that_is_killed_takes_its_task_with_it_and_that_is_named(self, start):
        async with start(workers=2, restarts=0) as cluster:
            child = of_task(cluster, "worker", 1)
            os.kill(parent(child), signal.SIGKILL)
            with pytest.raises(af.errors.UnavailableError, match="/job:worker/replica:0/task:1"):
                await cluster.watch()
            await gone(child)
            assert "/job:worker/replica:0/task:0" not in cluster.lost
        await gone()

    async def test_a_task_that_is_killed_is_started_again_and_sessions_reach_it(self, start):
        async with start(workers=2, ps=1) as cluster:
            for job, index in (("ps", 0), ("worker", 1), ("worker", 0)):
                os.kill(of_task(cluster, job, index), signal.SIGKILL)
                await cluster.restarted(f"/job:{job}/replica:0/task:{index}")
                assert await computed(cluster) == 64.0
            assert cluster.lost == {}
        assert children() == []

    async def test_a_task_whose_worker_of_the_engine_is_killed_is_started_on_another(self, start):
        async with start(workers=2) as cluster:
            os.kill(parent(of_task(cluster, "worker", 1)), signal.SIGKILL)
            await cluster.restarted("/job:worker/replica:0/task:1")
            assert await computed(cluster) == 64.0
            assert cluster.lost == {}
        await gone()

    async def test_the_token_is_shown_to_nobody(self, start, caplog, capfd):
        caplog.set_level(logging.DEBUG)
        running = start(workers=2)
        async with running as cluster:
            await computed(cluster)
            plain = f"ws://{cluster.spec.task_address('worker', 0)}"
            with pytest.raises(af.errors.UnauthenticatedError):
                async with af.Session(plain, graph=graph("/job:worker/task:0")) as session:
                    await session.run("total:0")
            shown = [repr(running), repr(cluster), repr(cluster.target)]
            shown += [(Path("/proc") / str(child) / name).read_text() for child in children() for name in READABLE]
        shown += [caplog.text, *capfd.readouterr()]
        assert not any(running._secret in text for text in shown)


def graph(*devices):
    """Its tensor `total` is 64, computed on all these devices."""
    with af.Graph().as_default() as built:
        value = af.constant(np.full([4], 1.0))
        for device in devices:
            with af.device(device):
                value = af.identity(value * 4 / 4)
        with af.device(devices[-1]):
            af.reduce_sum(value * 16, name="total")
    return built


async def computed(cluster, *devices):
    """What a session computes on these devices, or else on all tasks."""
    devices = devices or [name for name, _ in cluster.spec]
    async with af.Session(cluster.target, graph=graph(*devices)) as session:
        return await session.run("total:0", options=af.RunOptions(timeout=30))


def children():
    """The processes of tasks that these tests have started, by way of whomever."""
    tasks = [entry for entry in Path("/proc").glob("[0-9]*") if MODULE in read(entry / "cmdline").split("\0")]
    return [int(entry.name) for entry in tasks if MARK in read(entry / "environ")]


async def gone(*processes):
    """Return when these processes have ended, or all of tasks. They notice by themselves, which takes a moment."""
    limit = time.monotonic() + 20
    while left := [child for child in children() if not processes or child in processes]:
        assert time.monotonic() < limit, f"{left} run on"
        await asyncio.sleep(0.05)


def of_task(cluster, job, index):
    """The process that listens where that task does."""
    port = int(cluster.spec.task_address(job, index).rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = [line[9] for line in lines if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == port]
    (found,) = [child for child in children() if f"socket:[{inode}]" in sockets(child)]
    return found


def sockets(process):
    return [os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]


def parent(process):
    return int(read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()[1])


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""
