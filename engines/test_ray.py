"""On a Ray cluster of this machine."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import ray

import aioflow as af
from aioflow import launch
from engines.contract import EngineTests, children, gone

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[1]
LAUNCHING = """
import asyncio, sys
import ray
from aioflow import launch

async def main():
    ray.init(address=sys.argv[1], log_to_driver=False)
    async with launch.ray(workers=2):
        print("launched", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module", autouse=True)
def address():
    yield ray.init(num_cpus=4, include_dashboard=False).address_info["address"]
    ray.shutdown()


@pytest.fixture
def start():
    return launch.ray


class TestRay(EngineTests):
    """What holds on every engine, on Ray."""

    async def test_the_tasks_of_a_program_that_is_killed_end(self, address):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LAUNCHING, address, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert await program.stdout.readline() == b"launched\n"
        assert len(children()) == 2
        program.send_signal(signal.SIGKILL)
        await program.wait()
        await gone()


def test_without_dask_that_is_said():
    with pytest.raises(af.errors.UnimplementedError, match=r"pip install aioflow-engine\[dask\]"):
        launch.dask(None)


def test_without_a_connection_that_is_said(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(RuntimeError, match=r"ray.init\(\)"):
        launch.ray()
