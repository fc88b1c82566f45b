"""One graph over several tasks: servers in one process that reach each other in memory, in virtual time."""

import asyncio
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import no_pending_tasks
from aioflow.testing.chaos import describe_frame
from aioflow.testing.simulated_cluster import SimulatedCluster

PS, FIRST, SECOND = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    with no_pending_tasks():
        async with SimulatedCluster({"ps": 1, "worker": 2}, latency=1e-3) as cluster:
            yield cluster
            for server in cluster.servers.values():
                assert not server._worker.step_table.open, f"{server} still has steps"
    gc.collect()


@pytest.fixture
async def session(graph, cluster):
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        yield session


def model():
    """A regression whose weights are on the parameter server, and whose layers are on the workers."""
    x = af.placeholder(af.float32, [None, 3])
    with af.device(PS):
        weights = af.Variable(np.ones((3, 2), np.float32))
    with af.device(FIRST):
        product = af.matmul(x, weights)
    with af.device(SECOND):
        loss = af.reduce_mean(af.square(product))
    return x, weights, loss, af.train.GradientDescentOptimizer(0.1).minimize(loss)


async def settled():
    """Whatever is on its way between tasks has arrived."""
    await asyncio.sleep(0.1)


async def test_a_step_over_three_tasks_gives_what_one_process_gives(session):
    x, weights, loss, train = model()
    await session.run(weights.initializer)
    data, expected = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    for _ in range(3):
        product = data @ expected
        found, _ = await session.run([loss, train], {x: data})
        np.testing.assert_allclose(found, np.mean(product**2), rtol=1e-5)
        expected -= 0.1 * data.T @ (2 * product / product.size)
    np.testing.assert_allclose(await session.run(weights), expected, rtol=1e-4)
    await settled()


async def test_the_devices_are_those_of_all_tasks(session):
    await session.run(af.constant(1.0))
    assert [device.name for device in session.list_devices()] == [
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:1/device:CPU:0",
    ]


async def test_a_graph_that_grows_between_runs_is_extended(session):
    with af.device(SECOND):
        y = af.constant([1.0, 2.0]) + 1.0
    np.testing.assert_array_equal(await session.run(y), [2, 3])
    with af.device(FIRST):
        z = af.reduce_sum(y)
    assert await session.run(z) == 5
    await settled()


@pytest.mark.parametrize("where", [(FIRST, SECOND), (SECOND, FIRST), (PS, SECOND)])
async def test_a_loop_and_a_branch_span_tasks(session, where):
    x, limit = af.placeholder(af.float32, []), af.placeholder(af.int32, [])

    def body(i, y):
        with af.device(where[0]):
            y = y * 2.0
        with af.device(where[1]):
            return i + 1, af.cond(y > 10.0, lambda: y - 10.0, lambda: y + 1.0)

    _, y = af.while_loop(lambda i, y: i < limit, body, [0, x])
    expected = 3.0
    for _ in range(5):
        expected = expected * 2 - 10 if expected * 2 > 10 else expected * 2 + 1
    assert await session.run(y, {x: 3.0, limit: 5}) == expected
    assert await session.run(y, {x: 3.0, limit: 0}) == 3
    await settled()


@pytest.mark.parametrize("by", [1.0, -1.0])
async def test_what_a_branch_did_not_compute_for_the_gradient_can_be_sent(session, by):
    """The gradient's share of the worker asks for `near`, of which there is no value if the other branch ran."""
    given = af.placeholder(af.float32, [])
    with af.device("/job:ps"):
        weights = af.Variable(np.ones(3, np.float32))

    def long():
        with af.device("/job:ps"):
            near = af.tanh(weights)
        with af.device("/job:worker/task:0"):
            return af.reduce_sum(af.tanh(near * near))

    def short():
        with af.device("/job:ps"):
            return given * given

    gradient = af.gradients(af.cond(given > 0, long, short), weights)[0]
    await session.run(weights.initializer)
    found = await session.run(gradient, {given: by})
    assert found.shape == (3,)
    assert (found != 0).all() == (by > 0)


async def test_variables_outlive_sessions_and_are_shared_by_clients(graph, cluster):
    with af.device(PS):
        count = af.Variable(0, name="count")
    add = count.assign_add(1)
    async with af.Session(cluster.target("worker", 0), graph=graph) as first:
        await first.run(count.initializer)
        async with af.Session(cluster.target("worker", 1, "another"), graph=graph) as second:
            await asyncio.gather(first.run(add), second.run(add))
    async with af.Session(cluster.target("ps", 0), graph=graph) as third:
        assert await third.run(count) == 2
    await settled()


async def test_a_queue_on_one_task_feeds_another(session):
    with af.device(PS):
        queue = af.FIFOQueue(10, af.float32, shapes=[[]])
    put = queue.enqueue(af.constant(2.0))
    with af.device(SECOND):
        doubled = queue.dequeue() * 2.0
    taking = asyncio.ensure_future(session.run(doubled))
    await settled()
    assert not taking.done()
    await session.run(put)
    assert await taking == 4
    await settled()


async def test_an_error_names_the_task_the_op_and_the_users_line_and_ends_the_step_everywhere(session, cluster):
    x = af.placeholder(af.float32, [None])
    with af.device(SECOND):
        checked = af.check_numerics(x, "bad", name="checked")
    with af.device(PS):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(FIRST):
        both = checked + never
    loop = asyncio.get_running_loop()
    for limit in (1.0, 0.012):  # at first the tasks have to meet; a message takes 1 ms
        began = loop.time()
        with pytest.raises(errors.InvalidArgumentError, match=r"bad") as caught:
            await session.run(both, {x: [np.nan]})
        assert loop.time() - began < limit
    assert "checked" in str(caught.value)
    assert "/job:worker/replica:0/task:1" in str(caught.value)
    assert "test_cluster.py" in str(caught.value)
    await settled()


async def test_cancelling_ends_the_step_on_all_tasks_and_leaves_the_session_usable(session, cluster):
    with af.device(PS):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(SECOND):
        y = never + 1.0
    task = asyncio.ensure_future(session.run(y))
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settled()
    assert not any(server._worker.step_table.open for server in cluster.servers.values())
    assert await session.run(af.constant(1.0)) == 1


async def test_a_limit_ends_the_step_on_all_tasks(session, cluster):
    with af.device(PS):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(SECOND):
        y = never + 1.0
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(y, options=af.RunOptions(timeout=0.5))
    await settled()
    assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_a_worker_that_dies_fails_the_step_at_once_and_is_named(session, cluster):
    with af.device(SECOND):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(PS):
        y = never + 1.0
    task = asyncio.ensure_future(session.run(y))
    await settled()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await cluster.crash("worker", 1)
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1"):
        await task
    assert loop.time() - began < 0.1
    assert await session.run(af.constant(1.0) * 2.0) == 2


async def test_a_worker_of_which_nothing_is_heard_fails_the_step_within_five_seconds(session, cluster):
    with af.device(SECOND):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(PS):
        y = never + 1.0
    task = asyncio.ensure_future(session.run(y))
    await settled()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for other in ("ps0", "worker0", "client"):
        cluster.network.part("worker1", other)
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1.*silent"):
        await task
    assert loop.time() - began <= 6.5
    for other in ("ps0", "worker0", "client"):
        cluster.network.heal("worker1", other)
    await asyncio.sleep(10)


async def test_a_step_ends_whose_small_values_were_lost_on_their_way(graph, cluster):
    """Nobody asks for them, and all other connections are well: it is the sender who notices."""
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        sent = x * 2.0
    with af.device(SECOND):
        received = sent + 1.0
    config = af.Config(device_filters=["/job:worker"])
    async with af.Session(cluster.target("ps", 0), graph=graph, config=config) as session:
        assert await session.run(received, {x: 1.0}) == 3.0
        await settled()
        path, pushed = cluster.network.path("worker0", "worker1"), []
        path.sent = lambda frame: pushed.append(describe_frame(frame).startswith("PushTensors"))
        path.lost = lambda: pushed.pop()  # and all that follows in that channel
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.UnavailableError, match=r"/replica:0/task:1 .*no message arrived for 4\.25 s"):
            await session.run(received, {x: 1.0})
        assert asyncio.get_running_loop().time() - began <= 5.5
        path.lost = lambda: False
        assert await session.run(received, {x: 2.0}) == 5.0
        await settled()


@pytest.mark.parametrize(("tasks", "session", "limit"), [(1.0, 60.0, 1.0), (20.0, 5.0, 20.0)])
async def test_how_long_a_silent_worker_is_borne_with_is_for_its_peers_to_say(graph, tasks, session, limit):
    config = af.Config(heartbeat_timeout=session)
    async with SimulatedCluster(
        {"worker": 2}, latency=1e-3, config=af.Config(heartbeat_timeout=tasks)
    ) as cluster, af.Session(cluster.target("worker", 0), graph=graph, config=config) as session:  # fmt: skip
        with af.device(SECOND):
            never = af.FIFOQueue(1, af.float32).dequeue()
        task = asyncio.ensure_future(session.run(never))
        await settled()
        loop = asyncio.get_running_loop()
        began = loop.time()
        cluster.pause("worker1")
        with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1.*silent") as caught:
            await task
        assert tasks * 0.75 <= loop.time() - began <= limit
        assert f"for {tasks * 0.85:g} s" in str(caught.value)


async def test_how_long_a_silent_master_is_borne_with_is_for_the_session_to_say(graph, cluster):
    config = af.Config(heartbeat_timeout=0.5)
    async with af.Session(cluster.target("worker", 0), graph=graph, config=config) as session:
        task = asyncio.ensure_future(session.run(af.FIFOQueue(1, af.float32).dequeue()))
        await settled()
        loop = asyncio.get_running_loop()
        began = loop.time()
        cluster.pause("worker0")
        with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:0.* silent.* 0\.425 s"):
            await task
        assert loop.time() - began <= 0.5
        cluster.resume("worker0")
        await asyncio.sleep(10)


async def test_a_worker_started_anew_is_used_again_without_what_it_held(session, cluster):
    with af.device(SECOND):
        state = af.Variable(1.0)
    await session.run(state.initializer)
    await cluster.crash("worker", 1)
    with pytest.raises(errors.OpError):
        await session.run(state)
    await cluster.start("worker", 1)
    with pytest.raises(errors.FailedPreconditionError):
        await session.run(state)
    await session.run(state.initializer)
    assert await session.run(state) == 1


async def test_a_restarted_task_that_is_connected_again_gets_the_session_anew(session, cluster):
    """Its neighbour has dialled it in the meantime, for a step of its own."""
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        y = x * 2.0
    assert await session.run(y, {x: 1.0}) == 2.0
    await cluster.crash("worker", 1)
    await cluster.start("worker", 1)
    await asyncio.sleep(0.1)
    await cluster.servers["worker0"]._master._peers.of("/job:worker/replica:0/task:1")
    assert await session.run(y, {x: 3.0}) == 6.0


async def test_what_a_task_held_is_said_to_be_gone_once_if_it_was_started_anew_between_two_steps(session, cluster):
    with af.device(SECOND):
        queue = af.FIFOQueue(2, af.float32, [[]])
        put, size = queue.enqueue(1.0), queue.size()
    await session.run(put)
    for _ in range(2):
        await cluster.crash("worker", 1)
        await cluster.start("worker", 1)
        with pytest.raises(errors.AbortedError, match="task:1 has restarted since the last step"):
            await session.run(size)
        assert await session.run(size) == 0
        await session.run(put)
        assert await session.run(size) == 1


def sent_unasked():
    """What the parameter server gets of the second worker, and has after ten seconds; and what begins these."""
    with af.device(SECOND):
        sent = af.placeholder(af.float32, []) * 2.0
    with af.device(PS):
        queue = af.FIFOQueue(1, af.float32, [[]])
        received = sent + queue.dequeue()
        put = queue.enqueue(1.0)
    return received, sent.op.inputs[0], put


async def after_ten_seconds(session, received, x, put):
    """The value of a step that lasts so long."""
    task = asyncio.create_task(session.run(received, {x: 1.0}))
    await asyncio.sleep(10.0)
    await session.run(put)
    return await task


async def test_the_end_of_a_process_that_died_without_a_word_ends_no_step_of_the_one_in_its_place(graph, cluster):
    """The parameter server had dialled the process that died, and would find it silent during the step."""
    received, x, put = sent_unasked()
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(put)
        assert await session.run(received, {x: 1.0}) == 3.0
    await cluster.crash("worker", 1, silent=True)
    await cluster.start("worker", 1)
    async with af.Session(cluster.target("worker", 1), graph=graph) as session:
        assert await after_ten_seconds(session, received, x, put) == 3.0


async def test_a_step_goes_on_in_which_a_task_hears_of_a_process_that_was_started_anew(graph, cluster):
    """Another master begins the step, so that the new process dials the parameter server only in it."""
    received, x, put = sent_unasked()
    workers = af.Config(device_filters=["/job:worker"])
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(put)
        assert await session.run(received, {x: 1.0}) == 3.0
        await cluster.crash("worker", 1, silent=True)
        await cluster.start("worker", 1)
        async with af.Session(cluster.target("worker", 1), graph=graph, config=workers) as other:
            assert await other.run(af.constant(1.0)) == 1.0
        assert await after_ten_seconds(session, received, x, put) == 3.0


async def test_a_client_that_dies_leaves_no_step_on_any_task(graph, cluster):
    with af.device(PS):
        never = af.FIFOQueue(1, af.float32).dequeue()
    with af.device(SECOND):
        y = never + 1.0
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        task = asyncio.ensure_future(session.run(y))
        await settled()
        cluster.network.crash("client")
        with pytest.raises(errors.UnavailableError):
            await task
        await asyncio.sleep(6)  # it could have come back for so long
        for server in cluster.servers.values():
            assert not server._worker.step_table.open
            assert not server._worker._sessions
            assert not server._master._sessions


async def test_a_task_that_is_absent_is_named_when_the_time_for_opening_a_session_is_over(graph):
    async with SimulatedCluster({"worker": 3}, latency=1e-3) as cluster:
        cluster.network.part("worker0", "worker2")
        config = af.Config(operation_timeout=2.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with af.Session(cluster.target("worker", 0), graph=graph, config=config) as session:
            with pytest.raises(errors.DeadlineExceededError, match=r"/job:worker/replica:0/task:2"):
                await session.run(af.constant(1.0))
        assert loop.time() - began < 2.5
        cluster.network.heal("worker0", "worker2")


async def test_many_steps_at_a_time_and_failing_kernels_do_not_mix(session):
    x = af.placeholder(af.float32, [])
    with af.device(PS):
        y = x + 1.0
    with af.device(SECOND):
        z = af.sqrt(y, name="root")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(session.run(z, {x: float(n * n - 1)})) for n in range(50)]
    assert [task.result() for task in tasks] == list(range(50))
    with pytest.raises(errors.InvalidArgumentError, match=r"root:0 is not finite"):
        await session.run(z, {x: -3.0}, options=af.RunOptions(check_numerics=True))
    assert await session.run(z, {x: 3.0}) == 2
    await settled()


async def test_a_session_with_a_time_limit_waits_for_a_master_that_is_not_there_yet(graph):
    async with SimulatedCluster({"worker": 1}) as cluster:
        await cluster.crash("worker", 0)
        one = af.constant(1.0)
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            with pytest.raises(errors.UnavailableError, match="worker0"):
                await session.run(one)
        async with af.Session(
            cluster.target("worker", 0), graph=graph, config=af.Config(operation_timeout=10.0)
        ) as session:
            running = asyncio.ensure_future(session.run(one))
            await asyncio.sleep(3.0)
            await cluster.start("worker", 0)
            assert await running == 1.0


async def test_a_master_that_does_not_come_is_named_when_the_time_is_over(graph):
    async with SimulatedCluster({"worker": 1}) as cluster:
        await cluster.crash("worker", 0)
        config = af.Config(operation_timeout=2.0)
        async with af.Session(cluster.target("worker", 0), graph=graph, config=config) as session:
            began = asyncio.get_running_loop().time()
            with pytest.raises(errors.DeadlineExceededError) as caught:
                await session.run(af.constant(1.0, name="one"))
            text = "the call of one:0 did not begin in the session of the cluster whose master is at worker0 within 2 s"
            assert caught.value.message.startswith(f"{text}; the last answer: ")
            assert "pass a larger limit as RunOptions(timeout=) or Config(operation_timeout=)" in caught.value.message
            assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)


async def test_a_run_whose_time_is_over_does_not_end_others_that_open_the_session_with_it(graph):
    async with SimulatedCluster({"worker": 1}) as cluster:
        await cluster.crash("worker", 0)
        one, many = af.constant(1.0), [af.RunOptions(timeout=seconds) for seconds in (0.3, 0.7, 10.0)]
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            first, second, third = [asyncio.ensure_future(session.run(one, options=options)) for options in many]
            for task, seconds in ((first, 0.3), (second, 0.7)):
                with pytest.raises(errors.DeadlineExceededError, match=r"the last answer: .*worker0"):
                    await task
                assert asyncio.get_running_loop().time() == pytest.approx(seconds)
            await cluster.start("worker", 0)
            assert await third == 1.0


async def test_who_waits_for_nobody_does_not_share_the_end_of_one_that_waited_too_short(graph):
    async with SimulatedCluster({"worker": 1}, latency=0.1) as cluster:
        one = af.constant(1.0)
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            short = asyncio.ensure_future(session.run(one, options=af.RunOptions(timeout=0.3)))
            await asyncio.sleep(0.1)
            assert await session.run(one) == 1.0
            with pytest.raises(errors.DeadlineExceededError):
                await short


async def test_an_opening_goes_on_to_its_limit_and_then_says_who_is_absent_and_why(graph):
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        await cluster.crash("worker", 1)
        limit, loop = af.RunOptions(timeout=10.0), asyncio.get_running_loop()
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            one, began = af.constant(1.0), loop.time()
            with pytest.raises(errors.UnavailableError, match="task:1 at worker1: no server listens") as caught:
                await session.run(one, options=limit)
            assert caught.value.task == "/job:worker/replica:0/task:1"
            assert loop.time() - began > 9.4
            running = asyncio.ensure_future(session.run(one, options=limit))
            await asyncio.sleep(9.35)
            report = await session.explain()
            assert "opening a session at worker0 for 9.3" in str(report)
            await cluster.start("worker", 1)
            assert await running == 1.0


@pytest.mark.parametrize("seconds", [float("inf"), 1e20])
async def test_an_endless_time_limit_is_none(graph, cluster, seconds):
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        y = x + 1.0
    limit = af.RunOptions(timeout=seconds)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(y, {x: 1.0}, options=limit) == 2.0
    config = af.Config(operation_timeout=seconds)
    async with af.Session(cluster.target("worker", 0, "another"), graph=graph, config=config) as session:
        handle = await session.partial_run_setup([y], [x])
        assert await session.partial_run(handle, y, {x: 1.0}) == 2.0
        assert await session.run(y, {x: 1.0}) == 2.0
        assert "no step is running" in str(await session.explain())
    await settled()
