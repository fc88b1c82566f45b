"""Liveness of a peer, judged by its frames and its monitor, and peers whose hosts are blocked or stopped."""

import asyncio
import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.net.peer.handshake import listening_timeout
from aioflow.net.peer.reconnect import Loss
from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.transport.liveness import Liveness, MonitorMessage, State, message_interval
from aioflow.net.wire.control_verbs import bounded_heartbeat
from aioflow.net.wire.identity import Settings
from aioflow.testing.hosts import Hosts, on_host
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.cluster_runs import new_graph
from tests.support.net_peers import WAITING, Service, idle, meeting, outcome

HEARTBEAT = 5.0
BUSY, STOPPED, TURNING = (
    MonitorMessage(State.BUSY, 2.0, "unique"),
    MonitorMessage(State.STOPPED),
    MonitorMessage(State.TURNING),
)


def now():
    return asyncio.get_running_loop().time()


def looks(liveness, until, heard, words=()):
    """The time at which checks on schedule find a peer silent; None if they never do."""
    words, time = dict(words), 0.0
    while time < until:
        due = liveness.due(time, heard)
        for at in sorted(at for at in words if time < at <= due):
            liveness.record(words[at], at)
        time = due
        if liveness.is_silent(time, due, heard):
            return time
    return None


# The rule


@pytest.mark.parametrize("word", [None, STOPPED, TURNING])
def test_a_peer_without_frames_that_is_not_busy_is_silent_after_the_heartbeat_timeout(word):
    words = {} if word is None else {at / 2: word for at in range(1, 100)}
    assert looks(Liveness(HEARTBEAT), 60.0, 0.0, words) == HEARTBEAT


def test_a_busy_peer_is_waited_for_as_long_as_it_is_busy():
    words = {at / 2: BUSY for at in range(1, 120)}
    assert looks(Liveness(HEARTBEAT), 59.0, 0.0, words) is None
    assert looks(Liveness(HEARTBEAT), 100.0, 0.0, words) == 59.5 + HEARTBEAT


def test_a_late_check_restarts_the_silence():
    liveness = Liveness(HEARTBEAT)
    due = liveness.due(0.0, 0.0)
    assert not liveness.is_silent(60.0, due, 0.0)
    assert not liveness.is_silent(64.0, 64.0, 0.0)
    assert liveness.is_silent(65.0, 65.0, 0.0)


def test_a_peer_counts_as_busy_until_its_monitor_reports_otherwise_or_falls_silent():
    liveness = Liveness(HEARTBEAT)
    assert liveness.busy(0.0, 0.0) == ""
    liveness.record(BUSY, 10.0)
    assert liveness.busy(10.0, 7.9) == "busy since 2.0 s with unique"
    assert liveness.busy(13.0, 7.9) == "busy since 5.0 s with unique"
    assert liveness.busy(13.0, 12.0) == ""
    assert liveness.busy(15.1, 7.9) == ""
    liveness.record(BUSY, 16.0)
    liveness.record(TURNING, 16.5)
    assert liveness.busy(16.5, 7.9) == ""


@given(st.lists(st.sampled_from([BUSY, STOPPED, TURNING, None]), max_size=60), st.floats(0.1, 60.0))
def test_a_peer_is_lost_exactly_a_heartbeat_timeout_after_its_last_frame_or_busy_report(said, heartbeat):
    step = message_interval(heartbeat)
    words = {(index + 1) * step: word for index, word in enumerate(said) if word is not None}
    found = looks(Liveness(heartbeat), 1e9, 0.0, words)
    signs = [0.0, *[at for at, word in words.items() if word is BUSY and at < found]]
    assert found == pytest.approx(max(signs) + heartbeat)


async def test_a_time_limit_for_peers_does_not_count_while_this_loop_is_blocked():
    loop, began = asyncio.get_running_loop(), now()
    hosts = Hosts()

    async def wait():
        async with listening_timeout(5.0):
            await loop.create_future()

    with on_host("a"):
        waiting = asyncio.create_task(wait())
    await asyncio.sleep(2.5)
    hosts.pause("a")
    await asyncio.sleep(60.0)
    hosts.resume("a")
    with pytest.raises(TimeoutError):
        await waiting
    assert now() - began == pytest.approx(65.0, abs=1.0)


# Peers


@pytest.fixture
def network():
    return MemoryNetwork(0.001)


async def test_a_peer_that_has_ended_is_lost_within_a_second_though_its_connections_stay(network):
    async with meeting(network.at("a"), network.at("b"), "b", Service()) as (peer, other):
        task = asyncio.create_task(peer.request(WAITING))
        await asyncio.sleep(1.0)
        began = now()
        network.monitors.crash("b", silent=False)  # for example, a forked child holds its sockets
        assert isinstance(await outcome(task), errors.UnavailableError)
        assert now() - began < 1.0
        assert peer.end.loss is Loss.ENDED
        assert "is gone: its process has ended" in str(task.exception())
        assert other.end is None
        assert idle(peer)


async def test_a_client_may_be_silent_for_as_long_as_its_own_heartbeat_timeout_says(network):
    for mine, borne in [(60.0, 60.0), (0.5, 4.25)]:
        near, service = network.at("a"), Service()
        async with meeting(near, network.at("b"), "b", service, mine=Settings(silence=mine), me="") as (_, other):
            network.part("a", "b")
            await asyncio.sleep(borne * 0.9)
            assert other.end is None
            await asyncio.sleep(borne * 0.2)
            assert other.end.loss is Loss.SILENT
            network.heal("a", "b")


async def test_an_extreme_heartbeat_timeout_is_sent_within_bounds(network):
    endless = Settings(silence=1e9)
    async with meeting(network.at("a"), network.at("b"), "b", Service(), endless, endless, me="") as (peer, _):
        assert peer.end is None
    assert [bounded_heartbeat(seconds) for seconds in (1e-9, 2.0, 1e9)] == [0.001, 2.0, 86_400.0]


# Clusters


def waiting_and_not():
    with new_graph() as graph, af.device("/job:worker/task:1"):
        x = af.placeholder(af.float32, [], name="x")
        af.add(x, 1.0, name="there")
        queue = af.FIFOQueue(1, af.float32, shapes=[[]], name="queue")
        element, put = queue.dequeue(), queue.enqueue(7.0)
    return graph, element, put


@contextlib.asynccontextmanager
async def a_session(graph):
    """A cluster of two workers, and a session that has run a step on the second."""
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        assert await session.run("there:0", {"x:0": 1.0}) == 2
        yield cluster, session


@pytest.mark.parametrize(
    "hosts", [["client"], ["worker0"], ["worker1"], ["client", "worker0", "worker1"]], ids=" ".join
)
async def test_a_host_that_is_blocked_for_a_minute_fails_no_step(hosts):
    graph, element, put = waiting_and_not()
    async with a_session(graph) as (cluster, session):
        taken = asyncio.ensure_future(session.run(element))
        for host in hosts:
            cluster.block(host)
        step = asyncio.ensure_future(session.run("there:0", {"x:0": 2.0}))
        await asyncio.sleep(60.0)
        assert not taken.done()
        for host in hosts:
            cluster.resume(host)
        assert await step == 3
        await session.run(put)
        assert await taken == 7


async def test_a_step_on_a_blocked_task_ends_by_its_limit_and_the_error_reports_the_busy_task():
    graph, _, _ = waiting_and_not()
    async with a_session(graph) as (cluster, session):
        cluster.block("worker1")
        began = now()
        with pytest.raises(errors.DeadlineExceededError, match=r"/job:worker/replica:0/task:1.* busy since 1\d\.\d s"):
            await session.run("there:0", {"x:0": 1.0}, options=af.RunOptions(timeout=12.0))
        assert now() - began < 13.0


@pytest.mark.parametrize("task", [0, 1], ids=["the master", "a worker"])
async def test_explain_reports_a_busy_task_without_waiting_for_it(task):
    graph, _, _ = waiting_and_not()
    async with a_session(graph) as (cluster, session):
        cluster.block(f"worker{task}")
        await asyncio.sleep(12.0)
        began = now()
        report = await session.explain()
        assert now() - began < 1.0
        (absent,) = report.absent
        assert f"/job:worker/replica:0/task:{task}" in absent
        assert "busy since 12" in absent
        cluster.resume(f"worker{task}")
        await asyncio.sleep(1.0)
        assert (await session.explain()).absent == ()


@pytest.mark.parametrize("host", ["worker0", "worker1"])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.42, 0.8, 0.849, 1.7])
async def test_a_stopped_task_is_named_half_a_second_before_the_heartbeat_timeout(host, phase):
    graph, element, _ = waiting_and_not()
    async with a_session(graph) as (cluster, session):
        taken = asyncio.ensure_future(session.run(element))
        assert await session.run("there:0", {"x:0": 2.0}) == 3
        await asyncio.sleep(phase)
        began = now()
        cluster.pause(host)
        task = f"task:{host[-1]}"
        with pytest.raises(errors.UnavailableError, match=rf"{task}.*silent.*for 4\.25 s: its process is stopped"):
            await taken
        assert now() - began <= HEARTBEAT - 0.5
        cluster.resume(host)


@pytest.mark.parametrize("host", ["client", "worker0", "worker1"])
async def test_a_busy_host_whose_connections_are_lost_is_waited_for(host):
    graph, element, put = waiting_and_not()
    async with a_session(graph) as (cluster, session):
        taken = asyncio.ensure_future(session.run(element))
        await asyncio.sleep(1.0)
        cluster.block(host)
        await asyncio.sleep(2.0)
        for pair in (("client", "worker0"), ("worker0", "worker1")):
            if host in pair:
                cluster.network.cut(*pair)
        await asyncio.sleep(60.0)
        assert not taken.done()
        cluster.resume(host)
        await session.run(put)
        assert await taken == 7


# First connections


@pytest.mark.parametrize(("host", "task"), [("worker0", "at worker0"), ("worker1", "replica:0/task:1")])
async def test_a_first_connection_waits_for_a_task_that_is_blocked_for_a_minute_and_names_it(host, task):
    graph, _, _ = waiting_and_not()
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        cluster.block(host)
        began = now()
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            step = asyncio.ensure_future(session.run("there:0", {"x:0": 2.0}))
            for seconds in (12, 60):
                await asyncio.sleep(seconds - now() + began)
                assert not step.done()
                assert re.search(f"{task}.* busy since {seconds}", str(await session.explain()), re.DOTALL)
            async with af.Session(cluster.target("worker", 0), graph=graph) as other:
                with pytest.raises(errors.DeadlineExceededError, match=rf"{task}.* busy since 6\d\.\d s"):
                    await other.run("there:0", {"x:0": 1.0}, options=af.RunOptions(timeout=4.0))
            cluster.resume(host)
            assert await step == 3


async def test_explain_reports_a_busy_master_that_no_run_has_dialled():
    graph, _, _ = waiting_and_not()
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        cluster.block("worker0")
        await asyncio.sleep(12.0)
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            began = now()
            assert "the master at worker0: it is busy since 12." in str(await session.explain())
            assert now() - began < 1.0
        cluster.resume("worker0")


@pytest.mark.parametrize("host", ["worker0", "worker1"])
async def test_a_first_connection_names_a_stopped_task_within_the_heartbeat_timeout(host):
    graph, _, _ = waiting_and_not()
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        cluster.pause(host)
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            began = now()
            with pytest.raises(errors.UnavailableError, match="its process is stopped"):
                await session.run("there:0", {"x:0": 2.0})
            assert now() - began <= HEARTBEAT - 0.5
        cluster.resume(host)


async def test_a_first_connection_names_a_silent_task_whose_busy_reports_end():
    graph, _, _ = waiting_and_not()
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        cluster.block("worker0")
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            step = asyncio.ensure_future(session.run("there:0", {"x:0": 2.0}))
            await asyncio.sleep(30.0)
            assert not step.done()
            began = now()
            cluster.network.part("client", "worker0")
            with pytest.raises(errors.UnavailableError, match="is silent"):
                await step
            assert now() - began <= HEARTBEAT - 0.5
            cluster.network.heal("client", "worker0")
        cluster.resume("worker0")
