"""What can be seen of a session of a cluster, and done in it beside plain runs: partial runs, live queues, traces."""

import asyncio
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.wire.identity import Settings
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.worker_verbs import Trace
from aioflow.net.worker.introspection import unpack_trace
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.net.test_cluster import FIRST, PS, SECOND, cluster, graph, model, session, settled  # noqa: F401 - fixtures
from tests.support.scale import amount

pytestmark = pytest.mark.usefixtures("graph")


# Partial runs


def sum_of_two():
    """x doubled on one task, y on another, their sum on a third."""
    x, y = af.placeholder(af.float32, [2]), af.placeholder(af.float32, [2])
    with af.device(PS):
        twice = x * 2.0
    with af.device(SECOND):
        more = y * 3.0
    with af.device(FIRST):
        return x, y, twice, more, twice + more


async def test_a_partial_run_over_tasks_is_fed_and_fetched_from_call_by_call(session, cluster):  # noqa: F811
    x, y, twice, more, total = sum_of_two()
    handle = await session.partial_run_setup([twice, more, total], [x, y])
    np.testing.assert_array_equal(await session.partial_run(handle, twice, {x: [1, 2]}), [2, 4])
    found = await session.partial_run(handle, {"more": more, "total": total}, {y: [1, 1]})
    np.testing.assert_array_equal(found["more"], [3, 3])
    np.testing.assert_array_equal(found["total"], [5, 7])
    with pytest.raises(errors.InvalidArgumentError, match="must run partial_run_setup again"):
        await session.partial_run(handle, total)
    await settled()
    assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_a_partial_run_over_tasks_refuses_what_one_of_one_process_does(session):  # noqa: F811
    x, y, twice, more, total = sum_of_two()
    handle = await session.partial_run_setup([twice, total], [x, y])
    with pytest.raises(errors.InvalidArgumentError, match="depends on"):
        await session.partial_run(handle, total, {x: [1, 2]})
    with pytest.raises(errors.InvalidArgumentError, match="not among the fetches"):
        await session.partial_run(handle, more, {x: [1, 2]})
    with pytest.raises(errors.InvalidArgumentError, match="only tensors can be fetched"):
        await session.partial_run(handle, total.op, {x: [1, 2]})
    async with af.Session() as other:
        with pytest.raises(errors.InvalidArgumentError, match="not a partial run of this session"):
            await other.partial_run(handle, twice, {x: [1, 2]})
    await handle.stop()


async def test_a_partial_run_over_tasks_has_loops_made_by_hand(session):  # noqa: F811
    x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    with af.device(PS):
        start = af.enter(x, "doubling")
        value = af.merge([start, start])[0]
        going = af.switch(value, af.loop_cond(value < 100.0))
        value.op.update_input(1, af.next_iteration(going[1] * 2.0))
        doubled = af.exit(going[0])
    with af.device(SECOND):
        total = doubled + y
    handle = await session.partial_run_setup([doubled, total], [x, y])
    assert await session.partial_run(handle, doubled, {x: 3.0}) == 192.0
    assert await session.partial_run(handle, total, {y: 1.0}) == 193.0


async def test_what_fails_on_another_task_fails_the_partial_run(session):  # noqa: F811
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        checked = af.check_numerics(x, "broken")
    handle = await session.partial_run_setup(checked, [x])
    with pytest.raises(errors.InvalidArgumentError, match="broken") as caught:
        await session.partial_run(handle, checked, {x: np.nan})
    assert caught.value.task == "/job:worker/replica:0/task:1"
    assert await session.run(checked, {x: 1.0}) == 1.0


@pytest.mark.parametrize("how", ["stopped", "cancelled", "forgotten", "session closed", "client dies"])
async def test_a_partial_run_that_is_given_up_leaves_nothing_on_any_task(graph, cluster, how):  # noqa: F811
    x, y, twice, _, total = sum_of_two()
    with af.device(SECOND):
        waiting = total + af.FIFOQueue(1, af.float32, [[2]]).dequeue()
    address = cluster.target("worker", 0, "mortal")
    session = af.Session(address, graph=graph)  # noqa: F811
    handle = await session.partial_run_setup([twice, waiting], [x, y])
    await session.partial_run(handle, twice, {x: [1, 2]})
    await settled()
    assert any(server._worker.step_table.open for server in cluster.servers.values())
    if how == "stopped":
        await handle.stop()
    elif how == "cancelled":
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await session.partial_run(handle, waiting, {y: [1, 1]})
    elif how == "forgotten":
        del handle
        gc.collect()
    elif how == "client dies":
        cluster.network.crash("mortal")
        await asyncio.sleep(5.0)
    if how == "session closed":
        await session.close()
    await settled()
    assert not any(server._worker.step_table.open for server in cluster.servers.values())
    await session.close()


async def test_partial_runs_and_plain_ones_go_on_with_a_task_that_was_started_anew(session, cluster):  # noqa: F811
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        more = x + 1.0
    with af.device(PS):
        twice = more * 2.0

    async def taken():
        return await session.partial_run(await session.partial_run_setup(twice, [x]), twice, {x: 1.0})

    assert await taken() == 4.0
    under_way = await session.partial_run_setup(twice, [x])
    await cluster.crash("worker", 1)
    with pytest.raises(errors.UnavailableError, match="/job:worker/replica:0/task:1"):
        await session.partial_run(under_way, twice, {x: 1.0})
    with pytest.raises(errors.UnavailableError, match="/job:worker/replica:0/task:1"):
        await taken()
    await cluster.start("worker", 1)
    assert await taken() == 4.0
    assert await session.run(twice, {x: 1.0}) == 4.0
    await cluster.crash("worker", 1)
    await cluster.start("worker", 1)
    assert await taken() == 4.0
    assert await session.run(twice, {x: 1.0}) == 4.0


# Looking inside


async def test_a_report_names_the_task_the_operation_what_it_waits_for_and_the_line(session, cluster):  # noqa: F811
    with af.device(SECOND):
        queue = af.FIFOQueue(1, af.float32, [[]], name="inputs")
        taken = queue.dequeue(name="taken")
    with af.device(PS):
        doubled = af.multiply(taken, 2.0, name="doubled")
    waiting = asyncio.ensure_future(session.run(doubled))
    await asyncio.sleep(3.0)
    report = await session.explain()
    by_task = {wait.task: wait for wait in report.waits}
    taking = by_task["/job:worker/replica:0/task:1"]
    assert (taking.operation, taking.op_type, taking.step) == ("taken", "queue_dequeue", 1)
    assert "inputs" in taking.what
    assert taking.seconds == pytest.approx(3.0, abs=0.1)
    assert "test_cluster_inside.py" in taking.line
    receiving = by_task["/job:ps/replica:0/task:0"]
    assert "from /job:worker/replica:0/task:1/device:CPU:0" in receiving.what
    assert "on /job:worker/replica:0/task:1" in str(report)
    await session.queue(queue).put(1.0)
    assert await waiting == 2.0
    assert (await session.explain()).waits == ()


async def test_a_report_says_which_tasks_do_not_answer(session, cluster):  # noqa: F811
    await session.run(af.constant(1.0))
    await cluster.crash("worker", 1)
    report = await session.explain()
    assert len(report.absent) == 1
    assert report.absent[0].startswith("/job:worker/replica:0/task:1: ")


async def test_a_step_that_is_late_says_who_was_stuck_and_who_waited_for_it(session):  # noqa: F811
    with af.device(SECOND):
        taken = af.FIFOQueue(1, af.float32, [[]], name="inputs").dequeue(name="taken")
    with af.device(PS):
        doubled = af.multiply(taken, 2.0, name="doubled")
    with pytest.raises(errors.DeadlineExceededError) as caught:
        await session.run(doubled, options=af.RunOptions(timeout=2.0))
    text = caught.value.message
    assert caught.value.task is not None
    assert "on /job:worker/replica:0/task:1: 'taken' (queue_dequeue) waits to take an element of" in text
    assert "test_cluster_inside.py" in text


async def test_a_trace_has_what_ran_on_every_task_and_what_went_between_them(session):  # noqa: F811
    x, weights, loss, _ = model()
    await session.run(weights.initializer)
    metadata = af.RunMetadata()
    await session.run(loss, {x: np.ones((4, 3))}, af.RunOptions(trace=True), metadata)
    ran = {stats.device: stats for stats in metadata.step_stats}
    tasks = ["ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1"]
    names = [f"/job:{task}/device:CPU:0" for task in tasks]
    assert set(names) <= set(ran)
    sent = [(transfer.source, transfer.target) for transfer in metadata.transfers]
    assert (names[0], names[1]) in sent
    assert all(transfer.sent is not None for transfer in metadata.transfers)
    assert metadata.chrome_trace()["traceEvents"]
    assert metadata.step_id == 2


async def test_what_the_steps_of_a_task_do_for_a_while_can_be_written_down(session, cluster):  # noqa: F811
    with af.device(SECOND):
        doubled = af.multiply(af.placeholder(af.float32, [], name="x"), 2.0, name="doubled")
    peer = await cluster.servers["worker0"]._master._peers.of("/job:worker/replica:0/task:1")
    traced = asyncio.ensure_future(peer.request(Trace(1.0)))
    await settled()
    assert await session.run(doubled, {"x:0": 1.0}) == 2.0
    metadata = af.RunMetadata()
    unpack_trace((await traced).events, metadata, peer.clock_offset)
    assert "doubled" in [stats.name for stats in metadata.step_stats]


async def test_the_memory_and_placement_of_a_cluster_are_those_of_its_tasks(graph):  # noqa: F811
    async with SimulatedCluster({"ps": 1, "worker": 1}, config=af.Config(track_memory=True)) as cluster:  # noqa: F811
        with af.device(PS):
            weights = af.Variable(np.ones([10, 10]), name="weights")
        with af.device(FIRST):
            total = af.reduce_sum(weights, name="total")
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            await session.run(weights.initializer)
            memory = await session.memory()
            assert set(memory) == {device.name for device in session.list_devices()}
            placement = await session.placement(total)
            assert placement.devices["total"] == "/job:worker/replica:0/task:0/device:CPU:0"
            assert placement.devices["weights"] == "/job:ps/replica:0/task:0/device:CPU:0"
            await session.replan()
            assert await session.run(total) == 100.0


async def test_what_lossy_forms_save_between_workers_is_counted(graph, cluster):  # noqa: F811
    with af.device(PS):
        weights = af.Variable(np.ones([1000], np.float32), name="weights")
        read = weights.read_value()
    with af.device(FIRST):
        total = af.reduce_sum(read * 2.0)
    config = af.Config(compression={"workers": "bfloat16"})
    async with af.Session(cluster.target("worker", 0), graph=graph, config=config) as session:  # noqa: F811
        await session.run(weights.initializer)
        assert await session.run(total) == 2000.0
        (saving,) = (await session.savings()).values()
        assert (saving.times, saving.sent, saving.saved) == (1, 2000, 2000)


# Live queues


@pytest.fixture
def queue():
    with af.device(SECOND):
        return af.FIFOQueue(10, [af.float32, af.string], [[2], []], name="live")


async def test_application_code_feeds_steps_and_is_fed_by_them(session, queue):  # noqa: F811
    number, text = queue.dequeue()
    live = session.queue(queue)
    await live.put([1, 2], "one")
    await live.put_many([([3, 4], "two"), ([5, 6], "three")])
    found = await session.run([number, text])
    np.testing.assert_array_equal(found[0], [1, 2])
    assert found[1] == b"one"
    item = await live.take()
    np.testing.assert_array_equal(item[0], [3, 4])
    assert item[1] == b"two"
    statistics = await live.statistics()
    assert (statistics.size, statistics.put, statistics.closed) == (1, 3, False)
    await live.put_batch(np.zeros([2, 2]), ["a", "b"])
    columns = await live.take_batch(3)
    assert columns[0].shape == (3, 2)
    await live.close()
    with pytest.raises(errors.CancelledError, match="closed"):
        await live.put([1, 2], "late")
    assert [item async for item in live] == []


async def test_what_a_queue_cannot_hold_is_refused_here(session, queue):  # noqa: F811
    live = session.queue(queue)
    with pytest.raises(ValueError, match="shape"):
        await live.put([1, 2, 3], "one")
    with pytest.raises(ValueError, match="2"):
        await live.put([1, 2])
    with pytest.raises(TypeError, match="a handle to a queue is needed"):
        session.queue(af.constant(1.0))


async def test_who_is_cancelled_while_it_takes_has_taken_nothing(session, queue):  # noqa: F811
    live = session.queue(queue)
    await live.put([0, 0], "first")
    for turns in (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.003):  # one way takes a millisecond
        taking = asyncio.ensure_future(live.take())
        await asyncio.sleep(turns)
        taking.cancel()
        (outcome,) = await asyncio.gather(taking, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        await settled()
        assert (await live.statistics()).size == 1
    await live.put([1, 1], "second")
    assert [item[1] for item in await live.take_many(2)] == [b"first", b"second"]


async def test_a_source_feeds_a_queue_of_the_cluster(session, queue):  # noqa: F811
    number, _ = queue.dequeue()
    total = af.reduce_sum(number)

    async def source():
        for index in range(20):
            yield np.full(2, index, np.float32), str(index)

    async with session.queue(queue).feed(source(), workers=3):
        found = [value async for value in session.stream(total)]
    assert found == [2.0 * index for index in range(20)]


async def test_a_source_that_fails_fails_who_takes(session, queue):  # noqa: F811
    number, _ = queue.dequeue()
    taken_again, _ = queue.dequeue()

    async def source():
        yield [1, 1], "one"
        raise ValueError("no more")

    feed = session.queue(queue).feed(source())
    await feed.__aenter__()
    with pytest.raises(errors.AbortedError, match="no more"):
        await session.run([number, taken_again])
    with pytest.raises(ValueError, match="no more"):
        await feed.__aexit__(None, None, None)


# Containers


async def test_a_reset_drops_state_on_all_tasks_and_ends_sessions(graph, cluster):  # noqa: F811
    with af.container("kept"), af.device(PS):
        kept = af.Variable(1.0, name="kept")
    with af.container("dropped"), af.device(SECOND):
        dropped = af.Variable(2.0, name="dropped")
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:  # noqa: F811
        await session.run([kept.initializer, dropped.initializer])
        await af.reset(["dropped"], target=cluster.target("ps", 0))
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(kept) == 1.0
        with pytest.raises(errors.FailedPreconditionError, match="not initialized"):
            await session.run(dropped)


async def test_after_a_reset_the_sessions_of_other_masters_use_what_is_there_then(graph, cluster):  # noqa: F811
    with af.device(PS):
        count = af.Variable(1, name="count")
        queue = af.FIFOQueue(3, [af.float32], [[]], name="waiting")
    add, put, size = count.assign_add(1), queue.enqueue(2.0), queue.size()
    async with (
        af.Session(cluster.target("worker", 1), graph=graph) as known,
        af.Session(cluster.target("worker", 1), graph=graph) as other,
    ):
        live = known.queue(queue)
        await known.run([count.initializer, put])
        assert await known.run([add, size]) == [2, 1]
        assert (await live.statistics()).size == 1
        await af.reset(target=cluster.target("worker", 0, "another"))
        with pytest.raises(errors.FailedPreconditionError, match="not initialized"):
            await known.run(add)
        await known.run([count.initializer, put])
        await known.run(add)
        assert await known.run([count, size]) == await other.run([count, size]) == [2, 1]
        assert (await live.statistics()).size == 1
        assert await live.take() == (2.0,)


# What is large


async def test_large_constants_and_graphs_get_there(session):  # noqa: F811
    values = np.arange(1 << 18, dtype=np.float64)
    with af.device(SECOND):
        total = af.reduce_sum(af.constant(values) + 1.0)
    assert await session.run(total) == values.sum() + len(values)
    x = af.placeholder(af.float32, [])
    y = x
    size = amount(800, 3000)
    for _ in range(size):
        y = y + 1.0
    assert await session.run(y, {x: 1.0}) == size + 1.0


async def test_a_constant_or_feed_that_the_master_does_not_accept_is_named(graph):  # noqa: F811
    settings = Settings(limits=Limits(tensor=1 << 20, message=3 << 19))
    x, y = [af.placeholder(af.float32, [None], name=name) for name in ("little", "much")]
    both, half = x[0] + y[0], np.ones(200_000, np.float32)
    async with (
        SimulatedCluster({"worker": 1}, settings=settings) as cluster,  # noqa: F811
        af.Session(cluster.target("worker", 0), graph=graph) as session,  # noqa: F811
    ):
        for options in (None, af.RunOptions(trace=True)):
            for feed, text in (
                ({x: [1.0], y: np.ones(1 << 19)}, "'much:0' has a value of 2097152 bytes, more than the 1048576"),
                ({x: half, y: np.ones(250_000)}, "2 values of 1800000 bytes, of which 'much:0' has 1000000"),
            ):
                with pytest.raises(errors.ResourceExhaustedError, match=text):
                    await session.run(both, feed, options=options)
            assert await session.run(both, {x: half, y: [2.0]}, options=options) == 3.0
        large = af.constant(np.ones(1 << 19, np.float32), name="large")
        with pytest.raises(errors.ResourceExhaustedError, match="'large' has a value of 2097152 bytes"):
            await session.run(large[0])


# Settings, calls, and the log of a task


@pytest.mark.parametrize("setting", [{"track_memory": True}, {"memory_limit": {"CPU:0": 1}}, {"executor": "tokens"}])
async def test_a_session_refuses_settings_that_only_a_task_can_have(graph, cluster, setting):  # noqa: F811
    (name,) = setting
    with pytest.raises(
        ValueError, match=rf"Config\({name}=\) has no effect in a session of a cluster: give it to the Server"
    ):
        af.Session(cluster.target("worker", 0), graph=graph, config=af.Config(**setting))


async def test_a_call_that_nobody_has_any_more_is_forgotten_by_the_master(session, cluster):  # noqa: F811
    x = af.placeholder(af.float32, [])
    call = session.make_callable(x + 1.0, [x])
    assert await call(1.0) == 2.0
    (made,) = cluster.servers["worker0"]._master._sessions.values()
    assert len(made.callables) == 1
    session._calls.clear()
    del call
    gc.collect()
    await settled()
    assert not made.callables


async def test_a_task_whose_steps_do_not_go_on_says_so_in_its_log(graph, caplog):  # noqa: F811
    config = af.Config(stall_report=30.0)
    async with SimulatedCluster({"ps": 1, "worker": 1}, config=config) as cluster:  # noqa: F811
        with af.device(PS):
            element = af.FIFOQueue(2, [af.float32], shapes=[[]], name="letters").dequeue(name="letter")
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            task = asyncio.create_task(session.run(element))
            await asyncio.sleep(100)
            texts = [record.getMessage() for record in caplog.records if record.name == "aioflow.session"]
            assert any(
                "no operation has ended for 30 s" in text and "'letter' (queue_dequeue)" in text for text in texts
            )
            task.cancel()
            await asyncio.wait([task])
