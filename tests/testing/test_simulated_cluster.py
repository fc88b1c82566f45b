"""A simulated cluster: its faults, and that a seed repeats them all."""

import asyncio
import hashlib
import itertools
import os
import secrets
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import simulated_cluster
from aioflow.testing.chaos import Chaos, draw_mishaps
from aioflow.testing.hosts import Hosts, current_host, ids_drawn_from, on_host, tasks_in_order
from aioflow.testing.loop import VirtualTimeLoop
from aioflow.testing.simulated_cluster import cluster
from tests.support.scale import amount

JOBS = {"ps": 1, "worker": 2}
MUCH = Chaos(5.0, drop=0.002, duplicate=0.05, resets=2.0, half_open=2.0, partitions=2.0, pauses=2.0, crashes=2.0)


def now():
    return asyncio.get_running_loop().time()


def in_virtual_time(work):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def counter():
    with af.Graph().as_default() as graph:
        with af.device("/job:ps/task:0"):
            count = af.Variable(0)
        with af.device("/job:worker/task:1"):
            one = af.constant(1) * 1
        return graph, count, count.assign_add(one)


# Seeds


async def counting(seed):
    """What a job goes through, frame by frame, and what its steps come to."""
    graph, count, add = counter()
    outcomes = []
    async with cluster(JOBS, seed, chaos=MUCH, latency=1e-3, bandwidth=1e6, verbose=True) as simulated:
        async with af.Session(simulated.target("worker", 0), graph=graph) as session:
            for operation in [count.initializer, *[add] * 6]:
                try:
                    outcomes.append(str(await session.run(operation, options=af.RunOptions(timeout=1.0))))
                except errors.OpError as error:
                    outcomes.append(f"{type(error).__name__}: {error.message}")
        await simulated.calm()
        return [*outcomes, *simulated.story]


def digests(seeds):
    return [hashlib.sha256("\n".join(in_virtual_time(counting(seed))).encode()).hexdigest() for seed in seeds]


def test_a_seed_repeats_every_frame_in_order_and_to_the_microsecond():
    stories = [in_virtual_time(counting(seed)) for seed in (3, 3, 4)]
    assert stories[0] == stories[1] != stories[2]
    assert len(stories[0]) > 100


def test_a_seed_repeats_every_frame_on_a_machine_that_takes_a_second_for_each_piece_of_work(monkeypatch):
    usual = digests((2, 3))
    monkeypatch.setattr(
        "aioflow.waiting.tasks.time", SimpleNamespace(perf_counter=map(float, itertools.count()).__next__)
    )
    assert digests((2, 3)) == usual


@pytest.mark.slow
@pytest.mark.real
def test_a_seed_repeats_every_frame_in_another_process_whose_sets_are_in_another_order():
    seeds = range(amount(1, 6))
    code = f"import tests.testing.test_simulated_cluster as test; print(*test.digests({seeds}))"
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == digests(seeds)


def test_what_befalls_hosts_is_drawn_before_anything_runs_and_spares_whom_it_is_told_to():
    found = [mishap for seed in range(50) for mishap in draw_mishaps(seed, MUCH, ["ps0", "worker0"], ["client"])]
    assert {mishap.kind for mishap in found} == {
        "reset", "half-open", "partition", "one-way partition", "pause", "block", "crash", "power failure",
    }  # fmt: skip
    assert all(0 <= mishap.at <= mishap.at + mishap.seconds <= 5.0 for mishap in found)
    assert not any("client" in mishap.hosts for mishap in found if mishap.kind in ("crash", "power failure"))
    spared = Chaos(5.0, pauses=5.0, crashes=5.0, spared=["ps0", "client"])
    struck = [mishap for seed in range(50) for mishap in draw_mishaps(seed, spared, ["ps0", "worker0"], ["client"])]
    befallen = ("pause", "block", "crash", "power failure")
    assert {mishap.hosts for mishap in struck if mishap.kind in befallen} == {("worker0",)}
    assert draw_mishaps(1, Chaos(5.0, 0, 0, 0, 0, 0, 0, 0, 0, 0), ["ps0", "worker0"], ["client"]) == ()


async def test_the_error_of_a_job_has_a_note_with_its_seed_and_with_what_went_wrong():
    simulated = cluster(JOBS, 5, chaos=MUCH)

    async def job():
        async with simulated:
            await simulated.calm()
            raise ValueError("the job's own")

    with pytest.raises(ValueError, match="the job's own") as caught:
        await job()
    (note,) = caught.value.__notes__
    assert note.splitlines()[0] == "in a simulated cluster, seed 5:"
    assert len(note.splitlines()) > len(simulated.mishaps) > 5


async def test_without_a_seed_nothing_goes_wrong():
    graph, count, add = counter()
    async with (
        cluster(JOBS, latency=1e-3) as simulated, af.Session(simulated.target("ps", 0), graph=graph) as session,
    ):  # fmt: skip
        await simulated.calm()
        await session.run(count.initializer)
        assert [await session.run(add) for _ in range(3)] == [1, 2, 3]
        assert simulated.story == []


def test_the_example_of_the_documentation_learns_whatever_happens():
    lines = simulated_cluster.__doc__.splitlines()
    example = "\n".join([line[4:] for line in lines if line.startswith("    ") or not line])
    assert "training(seed)" in example
    exec(compile(example, "the example", "exec"), {})


# Hosts


async def test_a_paused_host_runs_nothing_and_does_it_late_but_in_order():
    done, hosts = [], Hosts()

    async def work(name):
        for number in range(3):
            done.append((name, number, now()))
            await asyncio.sleep(1.0)

    with on_host("a"):
        mine = asyncio.create_task(work("a"))
    others = asyncio.create_task(work("b"))
    await asyncio.sleep(0.5)
    hosts.pause("a")
    hosts.pause("a")
    await asyncio.sleep(9.5)
    assert hosts.paused == ("a",)
    assert others.done()
    hosts.resume("a")
    hosts.resume("a")
    await mine
    assert [each for each in done if each[0] == "a"] == [("a", 0, 0.0), ("a", 1, 10.0), ("a", 2, 11.0)]
    assert [each for each in done if each[0] == "b"] == [("b", 0, 0.0), ("b", 1, 1.0), ("b", 2, 2.0)]


async def test_what_a_host_starts_belongs_to_it():
    async def inner():
        return current_host()

    async def outer():
        return await asyncio.create_task(inner())

    with on_host("a"):
        task = asyncio.create_task(outer())
    assert (await task, current_host()) == ("a", "")


@pytest.mark.real
async def test_on_a_real_loop_a_host_cannot_be_paused():
    with pytest.raises(RuntimeError, match="VirtualTimeLoop"):
        Hosts().pause("a")


async def test_sets_of_tasks_are_in_the_order_in_which_tasks_were_made():
    async def number(which):
        return which

    factory = asyncio.get_running_loop().get_task_factory()
    with tasks_in_order():
        tasks = {asyncio.create_task(number(which)) for which in range(20)}
    assert [await task for task in tasks] == list(range(20))
    assert asyncio.get_running_loop().get_task_factory() is factory


def test_ids_are_drawn_from_a_seed_and_secret_otherwise():
    def ids(seed):
        with ids_drawn_from(seed):
            return secrets.randbits(64), secrets.token_hex(16)

    secret = secrets.randbits, secrets.token_hex
    assert ids(1) == ids(1) != ids(2)
    assert len(ids(1)[1]) == 32
    assert (secrets.randbits, secrets.token_hex) == secret


# Faults that a test causes by itself


@pytest.fixture
async def simulated():
    functions = {"incarnation": lambda: np.int32(simulated.starts(current_host()))}
    async with cluster(JOBS, latency=1e-3, py_funcs=functions) as simulated:
        yield simulated


@pytest.fixture
async def asked(simulated):
    """Runs a step that says how often the worker that it is on has been started."""
    with af.Graph().as_default() as graph, af.device("/job:worker/task:1"):
        incarnation = af.py_func("incarnation", [], af.int32)
    async with af.Session(simulated.target("worker", 0), graph=graph) as session:

        async def ask():
            return await session.run(incarnation)

        assert await ask() == 1
        yield ask


async def test_a_paused_server_answers_when_it_goes_on(simulated, asked):
    simulated.pause("worker1")
    asking = asyncio.create_task(asked())
    await asyncio.sleep(4.0)
    assert not asking.done()
    simulated.resume("worker1")
    assert await asking == 1


async def test_a_server_that_is_paused_for_long_is_silent(simulated, asked):
    simulated.pause("worker1")
    began = now()
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1.*silent"):
        await asked()
    assert now() - began <= 6.0
    simulated.resume("worker1")
    assert await asked() == 1


@pytest.mark.parametrize(("silent", "longest"), [(False, 0.1), (True, 6.0)])
async def test_a_server_that_crashes_is_another_when_it_is_started_anew(simulated, asked, silent, longest):
    asking = asyncio.create_task(asked())
    simulated.pause("worker1")
    await asyncio.sleep(0.01)
    began = now()
    await simulated.crash("worker", 1, silent=silent)
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1"):
        await asking
    assert now() - began <= longest
    await simulated.start("worker", 1)
    assert await asked() == 2


async def test_servers_hold_sessions_while_they_are_open_and_nothing_afterwards(simulated):
    with af.Graph().as_default() as graph:
        x = af.constant(1.0)
    async with af.Session(simulated.target("worker", 0), graph=graph) as session:
        await session.run(x)
        assert len(simulated.held()) == 4
    await asyncio.sleep(0.1)
    assert simulated.held() == []


def test_a_spec_has_numbers_of_tasks_or_names_of_hosts():
    assert cluster(JOBS).spec.as_dict() == {"ps": ["ps0"], "worker": ["worker0", "worker1"]}
    named = {"ps": ["first"], "worker": {1: "second"}}
    assert cluster(named).spec == cluster(af.train.ClusterSpec(named)).spec == af.train.ClusterSpec(named)
