"""Values and answers that are not what they are taken for: no kernel sees them, and no connection is lost for them."""

import asyncio
import secrets

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.peer.handshake import connect
from aioflow.net.wire.graph_updates import addition
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.master_verbs import CreateSession, RunStep
from aioflow.net.wire.worker_verbs import GetStatus, PushTensors, RecvTensor
from aioflow.net.worker import step_table
from aioflow.net.worker.remote_rendezvous import numbers_of
from aioflow.tensors.tensor_list import TensorList
from aioflow.testing import SimulatedCluster, no_pending_tasks
from tests.support.scale import amount

FIRST, SECOND = "/job:worker/task:0", "/job:worker/task:1"
DEVICES = [f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(2)]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    with no_pending_tasks():
        async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
            yield cluster


@pytest.fixture
async def stranger(cluster):
    peer = await connect(cluster.network.at("stranger"), "worker0", Identity())
    yield peer
    await peer.close()


@pytest.mark.parametrize(
    "value", [np.ones((600, 600), np.uint8), np.ones(3, np.float32), np.float32(1), b"text"], ids=str
)
async def test_a_feed_that_is_not_of_its_tensors_dtype_and_shape_is_refused(graph, stranger, value):
    x = af.placeholder(af.float32, [600, 600], name="x")
    y = af.matmul(x, x)
    made = await stranger.request(CreateSession({}, *addition(graph, 0, graph.version)))
    with pytest.raises(errors.InvalidArgumentError, match="feed 'x:0' is float32 of shape"):
        await stranger.request(RunStep(made.session, {"x:0": value}, (y.name,)))
    right = np.ones((600, 600), np.float32)
    answer = await stranger.request(RunStep(made.session, {"x:0": right}, (y.name,)))
    np.testing.assert_array_equal(answer.values[0], right * 600)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(2, np.float32), "feed 'x:0' is resource of shape"),
        (TensorList.of([np.float32(1), np.ones(2, np.float32)]), r"element 1 of feed 'x:0' is float32 of shape \[\]"),
        (TensorList.of([np.float64(1)]), "element 0 of feed 'x:0' is float32"),
        (TensorList.of([TensorList.of([])]), "element 0 of feed 'x:0' is float32"),
    ],
    ids=["array", "shape", "dtype", "nested"],
)
async def test_a_fed_list_whose_elements_do_not_fit_is_refused(graph, stranger, value, text):
    x = af.TensorArray.placeholder(af.float32, [], name="x")
    y = x.stack()
    made = await stranger.request(CreateSession({}, *addition(graph, 0, graph.version)))
    with pytest.raises(errors.InvalidArgumentError, match=text):
        await stranger.request(RunStep(made.session, {"x:0": value}, (y.name,)))
    right = TensorList.of([np.float32(1), np.float32(2)])
    answer = await stranger.request(RunStep(made.session, {"x:0": right}, (y.name,)))
    np.testing.assert_array_equal(answer.values[0], [1, 2])


async def test_a_value_that_is_not_what_the_receiver_waits_for_fails_its_step_alone(graph, cluster, stranger):
    with af.device(FIRST):
        waiting = af.FIFOQueue(1, af.float32, shapes=[[]]).dequeue()
    with af.device(SECOND):
        received = waiting + 1.0
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        running = asyncio.ensure_future(session.run(received))
        await asyncio.sleep(0.1)
        worker = cluster.servers["worker1"]._worker
        ((step, meeting),) = worker.step_table.open.items()
        (place,) = meeting.rendezvous.waiting
        peer = await connect(cluster.network.at("stranger"), "worker1", Identity())
        peer.notify(PushTensors(step, place.key.edge.incarnation, (numbers_of(place.key),), (np.ones(3, np.uint8),)))
        with pytest.raises(errors.InvalidArgumentError, match=r"the received value is float32 of shape"):
            await running
        await peer.close()
        assert await session.run(af.constant(1.0)) == 1.0


async def test_thousands_of_values_are_fetched_at_a_time(graph, cluster):
    x = af.placeholder(af.float32, [])
    sums = [x + float(index) for index in range(amount(1000, 4000))]
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(sums, {x: 1.0}) == [index + 1.0 for index in range(len(sums))]


async def test_thousands_that_wait_for_steps_that_never_begin_keep_nobody_out(graph, cluster, stranger):
    incarnation = cluster.servers["worker0"]._worker.devices[0].incarnation
    keys = ((1,),)
    asked = [
        asyncio.ensure_future(stranger.request(RecvTensor(secrets.randbits(64), incarnation, keys)))
        for _ in range(5000)
    ]
    await asyncio.sleep(0.5)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(af.constant(1.0)) == 1.0
    assert (await stranger.request(GetStatus())).counters["meetings"] == 5000
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await asyncio.sleep(0.1)
    assert (await stranger.request(GetStatus())).counters["meetings"] == 0


async def test_what_is_sent_to_steps_that_never_begin_is_kept_up_to_a_bound(graph, cluster, stranger, monkeypatch):
    monkeypatch.setattr(step_table, "_EARLY", 64 << 20)
    worker = cluster.servers["worker0"]._worker
    large = np.zeros(16_000, np.uint8)
    for step in range(6000):
        stranger.notify(PushTensors(step, 1, ((1,),), (large,)))
        if step % 100 == 0:
            await stranger.request(GetStatus())  # so that not all is on its way at a time
    meetings = (await stranger.request(GetStatus())).counters["meetings"]
    assert 4000 <= meetings < 4200
    assert worker.step_table._early <= 64 << 20
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(af.constant(1.0)) == 1.0
    await stranger.close()
    await asyncio.sleep(0.1)
    assert not worker.step_table.open
    assert worker.step_table._early == 0


def pushed_and_awaited(nbytes):
    """A value that the first task pushes to the second one, which also waits for an element; and how to put one."""
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        made = af.fill([nbytes // 4], x)
    with af.device(SECOND):
        queue = af.FIFOQueue(1, af.float32, shapes=[[]])
        return x, queue.enqueue(1.0), af.reduce_sum(made) + queue.dequeue()


async def test_a_pushed_value_without_room_fails_its_step_alone(graph):
    settings = Settings(limits=Limits(held=256 << 10))
    x, put, large = pushed_and_awaited(1 << 19)
    with af.device(SECOND):
        small = x + 1.0
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3, settings=settings) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        await session.run(put)
        peers = dict(cluster.servers["worker0"]._worker._peers._peers)
        with pytest.raises(errors.ResourceExhaustedError, match="no room for the 524288 bytes of PushTensors"):
            await session.run(large, {x: 1.0})
        assert await session.run(small, {x: 1.0}) == 2.0
        assert cluster.servers["worker0"]._worker._peers._peers == peers
        await asyncio.sleep(0.1)
        assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_values_that_a_begun_step_does_not_receive_are_kept_up_to_a_bound(graph, cluster, monkeypatch):
    monkeypatch.setattr(step_table, "_AHEAD", 1 << 20)
    x, put, result = pushed_and_awaited(4096)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(put)
        assert await session.run(result, {x: 1.0}) == 1025.0
        running = asyncio.ensure_future(session.run(result, {x: 1.0}))
        await asyncio.sleep(0.1)
        ((step, _),) = cluster.servers["worker1"]._worker.step_table.open.items()
        peer = await connect(cluster.network.at("stranger"), "worker1", Identity())
        for number in range(100):
            peer.notify(PushTensors(step, 1, ((1, number),), (np.zeros(16_000, np.uint8),)))
        with pytest.raises(errors.ResourceExhaustedError, match="keeps no more values that other tasks push to a step"):
            await running
        await peer.close()
        assert await session.run(x, {x: 1.0}) == 1.0


async def test_received_values_do_not_count_against_the_bound_of_a_begun_step(graph, cluster, monkeypatch):
    monkeypatch.setattr(step_table, "_AHEAD", 20_000)
    x = af.placeholder(af.float32, [])

    def body(i, y):
        with af.device(FIRST):
            added = y + 1.0
        with af.device(SECOND):
            return i + 1, added * 1.0

    with af.device(SECOND):
        _, result = af.while_loop(lambda i, y: i < 200, body, [af.constant(0), x])
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(result, {x: 0.0}) == 200.0


async def test_values_pushed_in_one_turn_keep_to_a_small_agreed_size_of_messages(graph):
    settings = Settings(limits=Limits(message=1 << 15))
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        made = [af.fill([4000], x + float(number)) for number in range(8)]
    with af.device(FIRST):
        total = af.add_n([af.reduce_sum(each) for each in made])
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3, settings=settings) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        assert await session.run(total, {x: 1.0}) == 4000.0 * 36.0
