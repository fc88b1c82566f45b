"""Clusters of processes on this machine."""

import asyncio
import dataclasses
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.launch import local_processes
from aioflow.net.transport.authority import init

pytestmark = [pytest.mark.real, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
SECRET = "correct-horse-battery"


def graph():
    with af.Graph().as_default() as built:
        with af.device("/job:ps"):
            x = af.constant(np.ones(4))
        with af.device("/job:worker/task:1"):
            af.reduce_sum(x * 2.0, name="total")
    return built


async def total(target, config=None):
    async with af.Session(target, graph=graph(), config=config) as session:
        return await session.run("total:0")


def pids(launch):
    return [place._agent._process.pid for place in launch._places]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_session_runs_on_all_tasks_and_leaving_the_block_ends_them():
    launch = af.launch.local(workers=2, ps=1)
    async with launch as cluster:
        assert await total(cluster.target) == 8
        started = pids(launch)
        assert len(started) == 3
    assert not any(map(alive, started))


async def test_a_task_that_is_killed_is_named_and_the_others_go_on():
    launch = af.launch.local(workers=2, restarts=0)
    async with launch as cluster:
        os.kill(pids(launch)[0], signal.SIGKILL)
        with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:0: .* SIGKILL, on this machine"):
            await cluster.watch()
        assert list(cluster.lost) == ["/job:worker/replica:0/task:0"]
        assert alive(pids(launch)[1])


@pytest.mark.long
async def test_the_token_is_the_users_if_there_is_one(tmp_path):
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(SECRET)
    token = af.Config(token_file=tmp_path / "token")
    config = dataclasses.replace(token, file_roots=[str(tmp_path)])
    with af.Graph().as_default() as built:
        af.read_file(str(tmp_path / "token"), name="read")
    async with af.launch.local(config=config) as cluster:
        target = f"ws://{cluster.spec.task_address('worker', 0)}"
        with pytest.raises(errors.UnauthenticatedError):
            await total(target)
        async with af.Session(target, graph=built, config=token) as session:
            assert await session.run("read:0") == SECRET.encode()


@pytest.mark.long
async def test_tasks_have_the_functions_certificates_and_files_that_they_are_told_of(tmp_path, monkeypatch):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    init(tmp_path / "ca")
    (tmp_path / "helpers.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "data").write_text("text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with af.Graph().as_default() as built, af.device("/job:worker/task:1"):
        fetches = [af.py_func("double", [2.0], af.float32), af.read_file(str(tmp_path / "data"))]
    config = af.Config(ssl=tmp_path / "ca", file_roots=[tmp_path])
    async with af.launch.local(workers=2, config=config, py_funcs="helpers") as cluster:
        async with af.Session(cluster.target, graph=built) as session:
            assert await session.run(fetches) == [4, b"text"]
        with pytest.raises(errors.OpError):
            await total(f"ws://{cluster.spec.task_address('worker', 0)}")
        with pytest.raises(errors.UnauthenticatedError):
            await total(f"wss://{cluster.spec.task_address('worker', 0)}", af.Config(ssl=tmp_path / "ca"))


async def test_a_module_of_functions_that_is_not_there_is_named(capfd):
    with pytest.raises(errors.UnavailableError, match=r"task:0 did not start on this machine: .*nonesuch"):
        async with af.launch.local(py_funcs="nonesuch"):
            pytest.fail("it came up")
    assert "nonesuch" in capfd.readouterr().err


@pytest.mark.long
async def test_a_block_that_is_cancelled_leaves_nothing():
    async def body():
        async with launch:
            inside.set()
            await asyncio.Event().wait()

    launch, inside = af.launch.local(), asyncio.Event()
    running = asyncio.create_task(body())
    await inside.wait()
    started = pids(launch)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not any(map(alive, started))


async def test_tasks_of_one_machine_share_its_cores_unless_a_variable_says_otherwise(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    for place in await local_processes._LocalEngine().place(4):
        found = place._agent._environment
        assert (found["OMP_NUM_THREADS"], found["OPENBLAS_NUM_THREADS"]) == ("7", "2")
