"""On a Dask cluster of this machine."""

import asyncio
import functools
import re
import signal
import subprocess
import sys
from pathlib import Path

import distributed
import pytest

import aioflow as af
from aioflow import launch
from engines.contract import EngineTests, children, gone

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[1]
LAUNCHING = """
import asyncio, sys
import distributed
from aioflow import launch

async def main():
    async with distributed.Client(sys.argv[1], asynchronous=True) as client, launch.dask(client, workers=2):
        print("launched", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def scheduler():
    async with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, asynchronous=True
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
async def client(scheduler):
    async with distributed.Client(scheduler, asynchronous=True) as client:
        yield client


@pytest.fixture
def start(client):
    return functools.partial(launch.dask, client)


class TestDask(EngineTests):
    """What holds on every engine, on Dask."""

    async def test_tasks_are_spread_over_the_workers(self, client):
        async with launch.dask(client, workers=3) as cluster:
            held = await client.has_what()
            assert [len(keys) for keys in held.values()] == [1, 1, 1]
            assert cluster.spec.num_tasks("worker") == 3

    async def test_the_tasks_of_a_client_that_is_killed_end(self, scheduler):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LAUNCHING, scheduler, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert await program.stdout.readline() == b"launched\n"
        assert len(children()) == 2
        program.send_signal(signal.SIGKILL)
        await program.wait()
        await gone()

    async def test_dask_is_used_by_an_asynchronous_client_only(self, client, scheduler):
        with pytest.raises(TypeError, match=r"distributed\.Client, not 'tcp"):
            launch.dask(scheduler)
        other = await asyncio.to_thread(distributed.Client, scheduler)
        with other, pytest.raises(ValueError, match="asynchronous=True"):
            launch.dask(other)

    async def test_workers_of_one_process_do_too(self):
        async with (
            distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, asynchronous=True) as local,
            distributed.Client(local, asynchronous=True) as client,
            launch.dask(client, workers=2) as cluster,
        ):
            assert len(children()) == 2
            assert cluster.spec.task_address("worker", 0).startswith("127.0.0.1:")
        assert children() == []


def test_the_example_trains_on_the_workers_of_dask():
    done = subprocess.run(
        [sys.executable, "examples/dask_digits.py", "--epochs", "5"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    accuracy = re.fullmatch(r"test accuracy of 2 workers (\d\.\d{3})\n", done.stdout)
    assert float(accuracy[1]) >= 0.9
    assert children() == []


def test_without_ray_that_is_said():
    with pytest.raises(af.errors.UnimplementedError, match=r"pip install aioflow-engine\[ray\]"):
        launch.ray()
