"""Launching on an engine: what is started is watched and stopped, whatever the engine does."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import re
import signal
import socket
import ssl
from pathlib import Path

import pytest

import aioflow as af
from aioflow import errors, launch
from aioflow.config import Config
from aioflow.launch import Launch
from aioflow.launch.agent import Agent, Order
from aioflow.launch.launcher import Restarts
from aioflow.net.peer.statuses import AddressBook
from aioflow.net.transport.authority import init
from aioflow.net.transport.segments import pool
from tests.support.scale import some


class FakePlace:
    """A place whose agent does what the test says."""

    def __init__(self, engine, number):
        self.engine = engine
        self.number = number
        self.name = f"host {number}"
        self.host = "127.0.0.1"
        self.ended = asyncio.Event()
        self.cause = "it ended"
        self.exit_status = -9
        self.book = None
        self.order = None
        self.released = False

    async def ask(self, method, *arguments):
        self.engine.asked.append((self.number, method))
        if (self.number, method) in self.engine.faults:
            return await self.engine.faults[self.number, method](self)
        return await getattr(self, method)(*arguments)

    async def reserve(self, host, port=0):
        self.ended.clear()
        return f"{host}:{1000 + self.number + self.engine.shift}"

    async def start(self, order):
        self.order = order
        return "serving"

    async def move(self, cluster, version):
        self.book = cluster, version
        return ""

    async def status(self):
        return str(self.exit_status)

    async def watch(self):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self.ended.wait()
                return self.cause
        return ""

    async def stop(self):
        self.ended.set()
        return ""

    def release(self):
        self.released = True


class FakeEngine:
    """An engine with a place for each task."""

    def __init__(self, **faults):
        self.faults = {(int(name[-1]), name[:-1]): fault for name, fault in faults.items()}
        self.asked = []
        self.places = []
        self.shift = 0

    async def place(self, count):
        first = len(self.places)
        self.places += [FakePlace(self, number) for number in range(first, first + count)]
        return self.places[first:]

    @property
    def left(self):
        return [place.number for place in self.places if not place.released]

    def launch(self, config=None, py_funcs=None, restarts=0):
        return Launch(self, {"ps": 1, "worker": 2}, config, py_funcs, restarts)


async def lost(place):
    raise ConnectionError("the worker is gone")


async def hang(place):
    await asyncio.Event().wait()


async def test_each_task_is_told_what_it_is_and_the_token_is_the_same_for_all():
    engine = FakeEngine()
    async with engine.launch(Config(device_count={"CPU": 2})) as cluster:
        orders = [place.order for place in engine.places]
        assert [(order.job, order.index) for order in orders] == [("ps", 0), ("worker", 0), ("worker", 1)]
        assert all(order.cluster == cluster.spec.as_dict() for order in orders)
        assert all(order.settings == {"device_count": {"CPU": 2}} for order in orders)
        assert len({order.token for order in orders}) == 1
        assert cluster.target.address == "127.0.0.1:1001"
        assert cluster.target.network_of(Config()).token.matches(f"Bearer {orders[0].token}")
        assert repr(cluster) == "<af.launch.Cluster of 3 tasks, 0 lost>"
        assert orders[0].token not in f"{orders[0]} {cluster.target!r}"
    assert engine.left == []


async def test_a_session_may_set_how_it_connects_to_the_tasks(tmp_path):
    (tmp_path / "token").write_text("a-token-of-the-session")
    (tmp_path / "token").chmod(0o600)
    async with FakeEngine().launch(Config(busy_poll=False)) as cluster:
        of_launch = cluster.target.network_of(Config())
        own = cluster.target_of("worker", 1).network_of(Config(shared_memory=False, token_file=tmp_path / "token"))
        assert (of_launch._options.pool is None, of_launch._options.busy_poll) == (pool() is None, False)
        assert (own._options.pool, own._options.busy_poll) == (None, False)
        assert own.token.matches("Bearer a-token-of-the-session")
        assert not own.token.matches(of_launch.token.header())
        with pytest.raises(ValueError, match="ssl is for a target"):
            cluster.target.network_of(Config(ssl=tmp_path))


async def test_each_task_is_told_of_functions_certificates_and_files_by_their_names(tmp_path):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    init(tmp_path / "ca")
    engine = FakeEngine()
    config = Config(ssl=tmp_path / "ca", file_roots=(tmp_path, "s3://data"))
    async with engine.launch(config, "helpers") as cluster:
        order = engine.places[0].order
        assert order.py_funcs == "helpers"
        assert order.settings == {"ssl": str(tmp_path / "ca"), "file_roots": (str(tmp_path), "s3://data")}
        assert json.loads(json.dumps(dataclasses.asdict(order)))["job"] == "ps"
        assert cluster.target.network_of(Config()).token.matches(f"Bearer {order.token}")


def test_functions_are_told_by_the_name_of_their_module():
    with pytest.raises(TypeError, match=r"py_funcs must be the name of a module, which each task imports, not \{'f'"):
        FakeEngine().launch(py_funcs={"f": min})


async def test_every_launch_has_a_token_of_its_own_unless_there_is_a_file(tmp_path):
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("one that the user has\n".replace(" ", "-"))
    tokens = []
    for config in (None, None, Config(token_file=tmp_path / "token")):
        engine = FakeEngine()
        async with engine.launch(config):
            tokens.append(engine.places[0].order.token)
            assert engine.places[0].order.settings == {}
    assert len(set(tokens)) == 3
    assert len(tokens[0]) >= 32
    assert tokens[2] == "one-that-the-user-has"


@pytest.mark.parametrize("method", ["reserve", "start"])
@pytest.mark.parametrize("fault", [lost, "answers"])
async def test_a_task_that_does_not_come_up_is_named_and_all_are_stopped(method, fault):
    async def refuse(place):
        return "!OSError: no room"

    engine = FakeEngine(**{f"{method}1": refuse if fault == "answers" else fault})
    cause = "OSError: no room" if fault == "answers" else "ConnectionError: the worker is gone"
    who = "/job:worker/replica:0/task:0" if method == "start" else "a task"
    with pytest.raises(errors.UnavailableError, match=f"{who} did not start on host 1: {cause}"):
        async with engine.launch():
            pytest.fail("it came up")
    assert engine.left == []
    assert [number for number, asked in engine.asked if asked == "stop"] == [0, 1, 2]


async def test_tasks_that_are_lost_are_named_as_long_as_the_block_lasts(caplog):
    engine = FakeEngine(watch2=lost)
    async with engine.launch() as cluster:
        with pytest.raises(errors.UnavailableError, match=r"task:1: ConnectionError: .* on host 2") as caught:
            await cluster.watch()
        assert caught.value.task == "/job:worker/replica:0/task:1"
        await asyncio.sleep(3600)
        engine.places[0].ended.set()
        await asyncio.sleep(1)
        assert cluster.lost == {
            "/job:worker/replica:0/task:1": "ConnectionError: the worker is gone, on host 2",
            "/job:ps/replica:0/task:0": "it ended, on host 0",
        }
        with pytest.raises(errors.UnavailableError, match=r"task:1: .*; /job:ps/replica:0/task:0: it ended"):
            await cluster.watch()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert engine.left == []


WORKER = "/job:worker/replica:0/task:0"


async def test_a_dead_task_restarts_and_the_others_get_its_address(caplog):
    engine = FakeEngine()
    async with engine.launch(restarts=5) as cluster:
        target = cluster.target
        engine.shift = 100
        engine.places[1].ended.set()
        await asyncio.sleep(10)
        assert cluster.lost == {}
        assert cluster.restarts == {WORKER: 1}
        assert cluster.spec.task_address("worker", 0) == target.address == "127.0.0.1:1101"
        assert [place.book for place in engine.places] == [(cluster.spec.as_dict(), 1)] * 3
        assert engine.places[1].order.version == 0
        assert repr(cluster) == "<af.launch.Cluster of 3 tasks, 0 lost, 1 restarts>"
    assert engine.left == []
    assert [record.message for record in caplog.records] == [
        f"{WORKER} died: it ended, on host 1; it restarts in 0.5 s",
        f"{WORKER} is back at 127.0.0.1:1101",
    ]


async def test_a_task_whose_worker_is_lost_restarts_on_another_one(caplog):
    engine = FakeEngine(watch1=lost, reserve1=first_time)
    async with engine.launch(restarts=5) as cluster:
        await asyncio.sleep(10)
        assert cluster.restarts == {WORKER: 1}
        assert cluster.spec.task_address("worker", 0) == "127.0.0.1:1003"
        assert engine.left == [0, 2, 3]
        engine.places[2].ended.set()
        await asyncio.sleep(10)
        assert cluster.restarts == {WORKER: 1, "/job:worker/replica:0/task:1": 1}
        assert {place.book[1] for place in engine.places if not place.released} == {2}
    assert engine.left == []


async def first_time(place):
    """A worker that is lost after its task has started."""
    if place.order is None:
        return f"127.0.0.1:{1000 + place.number}"
    raise ConnectionError("the worker is gone")


async def test_a_task_that_dies_too_often_is_lost():
    engine = FakeEngine()
    async with engine.launch(restarts=3) as cluster:
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            engine.places[1].ended.set()
            await asyncio.sleep(5)
            assert cluster.lost == {}
        engine.places[1].ended.set()
        with pytest.raises(errors.UnavailableError, match=f"{WORKER}: it ended, on host 1"):
            await cluster.watch()
        assert cluster.statuses == {WORKER: -9}
        assert asyncio.get_running_loop().time() - began < 20
    assert engine.left == []


async def test_a_task_that_was_asked_to_stop_does_not_restart():
    engine = FakeEngine()
    async with engine.launch(restarts=3) as cluster:
        engine.places[1].exit_status = 0
        engine.places[1].ended.set()
        with pytest.raises(errors.UnavailableError, match=WORKER):
            await cluster.watch()
        assert cluster.statuses == {WORKER: 0}
        assert cluster.restarts == {}


@pytest.mark.parametrize("method", ["reserve", "start"])
async def test_leaving_the_block_during_a_restart_leaves_nothing(method):
    engine = FakeEngine()
    async with engine.launch(restarts=3):
        engine.faults[1, method] = hang
        engine.places[1].ended.set()
        await asyncio.sleep(1)
        assert (1, method) in engine.asked[-3:]
    assert engine.left == []


def test_restarts_wait_twice_as_long_each_time_and_old_deaths_do_not_count():
    restarts = Restarts(5)
    assert [restarts.delay(n) for n in range(5)] == [0.5, 1, 2, 4, 8]
    assert restarts.delay(599) is None
    assert restarts.delay(600.5) == 8
    assert restarts.delay(5000) == 0.5
    assert Restarts(0).delay(0) is None
    assert max(filter(None, map(Restarts(50).delay, range(50)))) == 30


def test_an_address_book_accepts_only_newer_versions_of_the_same_tasks():
    book = AddressBook({"a": "x:1", "b": "x:2"})
    assert book.update({"a": "y:1", "b": "x:2"}, 2)
    assert not book.update({"a": "z:1", "b": "x:2"}, 1)
    assert not book.update({"a": "z:1", "b": "x:2"}, 2)
    assert (dict(book), book.version) == ({"a": "y:1", "b": "x:2"}, 2)
    with pytest.raises(ValueError, match="they differ in b, c"):
        book.update({"a": "y:1", "c": "x:2"}, 3)
    with pytest.raises(errors.InvalidArgumentError, match="is not an address"):
        book.update({"a": "y:1", "b": "nohost"}, 3)
    assert (dict(book), book.version) == ({"a": "y:1", "b": "x:2"}, 2)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
async def test_a_killed_process_is_replaced_and_sessions_reach_the_replacement():
    with af.Graph().as_default() as graph:
        parts = []
        for task in range(2):
            with af.device(f"/job:worker/task:{task}"):
                parts.append(af.reduce_sum(af.constant([1.0, 2.0]) * float(task + 1)))
        total = parts[0] + parts[1]
    async with launch.local(workers=2) as cluster:
        for task in some((0, 1), 1):
            os.kill(process_of(cluster, task), signal.SIGKILL)
            await cluster.restarted(f"/job:worker/replica:0/task:{task}")
            async with af.Session(cluster.target, graph=graph, config=af.Config(operation_timeout=60)) as session:
                assert await session.run(total) == 9.0
        assert cluster.lost == {}


def process_of(cluster, task):
    """The process of a worker, found by its port."""
    port = int(cluster.spec.task_address("worker", task).rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = [line[9] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "0A"]
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry) == f"socket:[{inode}]":
                return int(entry.parts[2])
    raise AssertionError(f"nobody listens at {port}")


@pytest.mark.parametrize("fault", [lost, hang])
async def test_a_worker_that_does_not_answer_keeps_nobody_from_leaving(fault):
    engine = FakeEngine(stop1=fault)
    async with engine.launch():
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before <= 20
    assert engine.left == []


@pytest.mark.parametrize("method", ["reserve", "start"])
async def test_a_launch_that_is_cancelled_leaves_nothing(method):
    engine = FakeEngine(**{f"{method}2": hang})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), engine.launch():
            pytest.fail("it came up")
    assert engine.left == []
    assert [number for number, asked in engine.asked if asked == "stop"] == [0, 1, 2]


async def test_a_launch_is_entered_once():
    launched = FakeEngine().launch()
    async with launched:
        with pytest.raises(RuntimeError, match="entered only once"):
            await launched.__aenter__()


@pytest.mark.parametrize(
    ("jobs", "config", "error", "text"),
    [
        ({"worker": 0}, None, ValueError, "0 tasks of the job 'worker'"),
        ({"ps": -1, "worker": 1}, None, ValueError, "-1 tasks of the job 'ps'"),
        ({"worker": 1}, Config(ssl="certificates"), errors.FailedPreconditionError, "certificates in certificates"),
        ({"worker": 1}, Config(token_file="nowhere"), errors.NotFoundError, "token file nowhere cannot be read"),
        ({"worker": 1}, Config(ssl=ssl.create_default_context()), TypeError, "ssl cannot be sent"),
        ({"worker": 1}, Config(cost_model=af.CostModel()), TypeError, "cost_model cannot be sent"),
    ],
)
def test_what_cannot_be_launched_is_refused_at_once(jobs, config, error, text):
    with pytest.raises(error, match=text):
        Launch(FakeEngine(), jobs, config)


# Real processes


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.real
@pytest.mark.slow
async def test_an_agent_has_a_task_that_ends_when_it_is_told_or_killed(monkeypatch):
    monkeypatch.setattr("aioflow.launch.agent.STOPPING", 600)
    agent = Agent()
    address = await agent.reserve("127.0.0.1")
    assert await agent.start(Order({"worker": [address]}, "worker", 0, {}, "0123456789abcdef")) == "serving"
    assert await agent.stop() == ""
    assert await agent.watch() == "its process ended with status 0"
    assert await agent.stop() == ""


@pytest.mark.real
@pytest.mark.slow
async def test_an_agent_stops_a_process_that_was_too_slow_before_it_starts_another(monkeypatch):
    monkeypatch.setattr("aioflow.launch.agent.STARTING", 0)
    agent = Agent()
    assert await agent.reserve("127.0.0.1") == "!it did not answer within 0 s"
    slow = agent._process
    assert slow.returncode is None
    monkeypatch.undo()
    assert re.fullmatch(r"127\.0\.0\.1:\d+", await agent.reserve("127.0.0.1"))
    assert slow.returncode is not None
    assert await agent.stop() == ""


@pytest.mark.real
@pytest.mark.slow
async def test_a_stop_that_is_cancelled_kills_the_process():
    agent = Agent()
    await agent.reserve("127.0.0.1")
    os.kill(agent._process.pid, signal.SIGSTOP)
    stopping = asyncio.create_task(agent.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    assert stopping.cancelled()
    assert await agent._process.wait() == -signal.SIGKILL


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
async def test_a_task_listens_at_an_address_of_ipv6_as_at_any_other():
    agent = Agent()
    address = await agent.reserve("::1")
    assert re.fullmatch(r"\[::1\]:\d+", address)
    order = Order({"worker": [address]}, "worker", 0, {}, "0123456789abcdef")
    assert await agent.start(order) == "serving"
    assert await agent.stop() == ""


@pytest.mark.real
@pytest.mark.slow
async def test_a_task_that_may_not_be_says_so_in_one_line(capfd):
    agent = Agent()
    address = await agent.reserve("127.0.0.1")
    order = Order({"worker": [address]}, "worker", 0, {}, "0123456789abcdef", "..x")
    assert "'..x' is not a module name" in await agent.start(order)
    assert await end_of(agent) == "its process ended with status 1"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("aioflow: '..x' is not a module name")


async def end_of(agent):
    """How the task of an agent has ended, as a launcher asks: the agent answers after some seconds in any case."""
    while not (end := await agent.watch()):
        pass
    return end


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
async def test_an_agent_says_why_a_task_does_not_come_up(capfd):
    agent = Agent()
    assert (await agent.reserve("192.0.2.123")).startswith("!OSError: ")
    assert await end_of(agent) == "its process ended with status 1"
    assert await agent.stop() == ""
    address = await agent.reserve("127.0.0.1")
    refused = await agent.start(Order({"worker": [address]}, "ps", 0, {}, "0123456789abcdef"))
    assert "'ps'" in refused
    assert refused.startswith("!")
    assert await end_of(agent) == "its process ended with status 1"
    assert "0123456789abcdef" not in "".join(capfd.readouterr())


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
async def test_processes_of_this_machine_are_a_cluster_for_the_time_of_a_block():
    with af.Graph().as_default() as graph, af.device("/job:worker/task:1"):
        total = af.reduce_sum(af.constant([1.0, 2.0]))
    async with launch.local(workers=2) as cluster, af.Session(cluster.target, graph=graph) as session:
        assert await session.run(total) == 3.0
        assert cluster.lost == {}
