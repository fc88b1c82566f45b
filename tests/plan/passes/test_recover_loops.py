"""Loops that span devices, run by one coroutine on each device: they give what the executor gives, node by node."""

import asyncio

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.plan.passes import recover_loops as passes
from aioflow.program import assemble
from aioflow.rendezvous import LocalRendezvous
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount

DEVICES = 4


def config(**options):
    return af.Config(device_count={"CPU": DEVICES}, **options)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def recovered(monkeypatch):
    """The structured loops that devices run, as they are made."""
    found, recover = [], passes.recover_loops

    def note(flow):
        made = recover(flow)
        found.extend(node for node in made.nodes if passes.spans_devices(node))
        return made

    monkeypatch.setattr(assemble, "recover_loops", note)
    return found


async def both_ways(graph, fetches, feeds, options=None):
    """What a run gives with coroutines and without."""
    found = []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=config(executor=executor)) as session:
            found.append(await session.run(fetches, feeds, options=options))
    return found


def on(device):
    return af.device(f"/device:CPU:{device}")


def mixed(values, homes, places, test_place):
    """A loop whose variables have different homes. Each becomes a mixture of two, made on some device."""
    count = len(homes)

    def test(i, *variables):
        with on(test_place):
            return af.logical_and(i < af.cast(values[0], af.int32), af.reduce_sum(variables[0]) < 1e6)

    def body(i, *variables):
        made = []
        for number in range(count):
            with on(places[number % len(places)]):
                one = variables[number] * 1.25 + variables[(number + 1) % count]
            with on(homes[number]):
                made.append(one - af.cast(i, af.float32))
        with on(homes[0]):
            return [i + 1, *made]

    starts = []
    for number in range(count):
        with on(homes[number]):
            starts.append(values[1] + float(number))
    return af.while_loop(test, body, [af.constant(0), *starts])


PLACES = st.lists(st.integers(0, DEVICES - 1), min_size=1, max_size=5)


@settings(max_examples=amount(12, 200), deadline=None)
@given(PLACES, PLACES, st.integers(0, DEVICES - 1), st.integers(0, 9), st.sampled_from([(), (3,), (2, 2)]))
@example([0], [1], 0, 0, ())
@example([0], [1], 1, 1, ())
@example([0, 1], [2, 3], 3, 9, (3,))
def test_the_values_are_those_of_single_nodes(homes, places, test_place, iterations, shape):
    with af.Graph().as_default() as graph:
        end, start = af.placeholder(af.float32, []), af.placeholder(af.float32, shape)
        results = mixed([end, start], homes, places, test_place)
        feeds = {end: np.float32(iterations), start: np.linspace(-1, 1, int(np.prod(shape)), dtype="f4").reshape(shape)}

    async def run():
        with no_pending_tasks():
            return await both_ways(graph, results, feeds)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        fast, slow = runner.run(run())
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def there_and_back(end, start):
    """x = x / 2 on one device, + 1 on another, which also counts."""

    def body(i, x):
        with on(1):
            half = x * 0.5
        with on(0):
            return i + 1, half + 1.0

    with on(0):
        return af.while_loop(lambda i, x: i < end, body, [0, start], name="there_and_back")


@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 100, 1000])
async def test_both_devices_run_one_coroutine(graph, recovered, iterations):
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    result = there_and_back(end, start)
    fast, slow = await both_ways(graph, result, {end: iterations, start: 3.0})
    assert fast == slow
    assert len(recovered) == 2


@pytest.mark.parametrize("alone", [0, 1])
async def test_a_device_that_runs_node_by_node_gives_and_gets_the_same_values(graph, monkeypatch, alone):
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    result = there_and_back(end, start)
    recover, flows = passes.recover_loops, []

    def sometimes(flow):
        flows.append(flow)
        return flow if len(flows) % 2 == alone else recover(flow)

    monkeypatch.setattr(assemble, "recover_loops", sometimes)
    for iterations in (0, 1, 7):
        fast, slow = await both_ways(graph, result, {end: iterations, start: 3.0})
        assert fast == slow
    assert flows


async def test_gradients_come_through(graph):
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    slope = af.gradients(there_and_back(end, start)[1], start)[0]
    fast, slow = await both_ways(graph, slope, {end: 5, start: 3.0})
    assert fast == slow == 0.5**5


async def test_the_test_may_need_values_of_several_devices(graph, recovered):
    start = af.placeholder(af.float32, [])

    def test(x, y):
        with on(1):
            small = x < 100.0
        with on(2):
            few = y < 40.0
        with on(3):
            return af.logical_and(small, few)

    def body(x, y):
        with on(1):
            made = x * 1.5 + y
        with on(2):
            return made, y + 1.0

    with on(1):
        result = af.while_loop(test, body, [start, af.constant(0.0)])
    fast, slow = await both_ways(graph, result, {start: np.float32(1.0)})
    assert fast == slow
    assert len(recovered) >= 3


async def test_an_error_names_the_node_and_the_iteration(graph, recovered):
    table = af.constant([1, 1, 1, 0])

    def body(i, x):
        with on(1):
            step = af.gather(table, i)
        with on(0):
            return i + 1, x // step

    with on(0):
        result = af.while_loop(lambda i, x: i < 9, body, [0, 100], name="divides")
    async with af.Session(graph=graph, config=config()) as session:
        with pytest.raises(af.errors.InvalidArgumentError) as raised:
            await session.run(result)
    assert recovered
    assert "floordiv" in str(raised.value.op_type) or raised.value.node
    assert any("iteration 3 of 'divides'" in note for note in raised.value.__notes__)


async def test_numpy_warns_of_nothing_in_a_loop(graph, recovered):
    start = af.placeholder(af.float32, [2])

    def body(i, x):
        with on(1):
            made = x / (x - x)
        with on(0):
            return i + 1, made * 1e38 * 1e38

    with on(0):
        result = af.while_loop(lambda i, x: i < 3, body, [0, start])[1]
    with np.errstate(all="raise"):
        fast, slow = await both_ways(graph, result, {start: [1.0, 0.0]})
    np.testing.assert_array_equal(fast, slow)
    assert len(recovered) == 2


async def test_a_long_loop_lets_others_run_and_can_be_cancelled(graph, recovered):
    start = af.placeholder(af.float32, [])
    result = there_and_back(10**9, start)
    async with af.Session(graph=graph, config=config()) as session:
        run = asyncio.ensure_future(session.run(result, {start: 1.0}))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not run.done()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await session.run(af.constant(1)) == 1
    assert recovered


@pytest.mark.parametrize(("executor", "times"), [("regions", 1), ("tokens", 2)])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 10, 11])
async def test_a_sender_is_at_most_as_many_iterations_ahead_as_may_run_at_once(
    graph, monkeypatch, executor, times, window
):
    """The first device counts and needs nothing of the second one. Node by node, iterations pass one that waits."""
    held, send = [], LocalRendezvous.send

    def note(rendezvous, key, value):
        send(rendezvous, key, value)
        held.append(sum(not each.edge.is_credit for each in rendezvous._values))

    monkeypatch.setattr(LocalRendezvous, "send", note)
    start = af.placeholder(af.float32, [])

    def body(i, x, y):
        with on(1):
            made = y * 0.5 + x
        with on(0):
            return i + 1, x + 1.0, made

    with on(1):
        second = af.identity(start)
    with on(0):
        result = af.while_loop(lambda i, x, y: i < 57, body, [0, start, second], parallel_iterations=window)[2]
    async with af.Session(graph=graph, config=config(executor=executor)) as session:
        found = await session.run(result, {start: 3.0})
    wanted = np.float32(3.0)
    for iteration in range(57):
        wanted = wanted * np.float32(0.5) + np.float32(3 + iteration)
    assert found == wanted
    transfers = 2  # of an iteration: whether it goes on, and a value
    assert max(held) <= transfers * window * times


def heavy(x):
    return af.matmul(af.ones([600, 600]), af.fill([600, 600], x))[0, 0]


def nested(x):
    def inner(j, y):
        with on(1):
            return j + 1, y + x

    return af.while_loop(lambda j, y: j < 2, inner, [0, x])[1]


def chosen(x):
    def negative():
        with on(1):
            return -x

    return af.cond(x > 2.0, negative, lambda: x)


def waiting(x):
    return af.py_func(lambda value: value, [x], af.float32)


@pytest.mark.parametrize("work", [nested, chosen])
async def test_branches_and_loops_of_one_device_are_part_of_its_coroutine(graph, recovered, work):
    start = af.placeholder(af.float32, [])

    def body(i, x):
        with on(1):
            made = work(x)
        with on(0):
            return i + 1, made * 0.5

    with on(0):
        result = af.while_loop(lambda i, x: i < 3, body, [0, start])
    fast, slow = await both_ways(graph, result, {start: 3.0})
    assert fast == slow
    assert len(recovered) == 2


async def test_a_loop_whose_nodes_are_all_on_one_device_exchanges_nothing(graph, recovered):
    """It asks for another device than its body, so it is lowered as one that spans devices."""
    start = af.placeholder(af.float32, [])

    def here(i, values):
        with on(0):
            one = af.constant(1)
        return i + one, values.write(i, near)

    def there_too(i, x):
        with on(1):
            made = x * 0.5
        with on(0):
            return i + 1, made + 1.0

    def test(i, x):
        with on(0):
            return i < 3

    with on(0):
        near = start * 1.0
    with af.device(lambda operation: "/device:CPU:3" if operation.type == "while_loop" else ""):
        values = af.while_loop(test, here, [0, af.TensorArray(af.float32, size=3)])[1]
    with on(0):
        result = af.reduce_sum(values.stack()) + af.while_loop(test, there_too, [0, start])[1]
    fast, slow = await both_ways(graph, result, {start: 3.0})
    assert fast == slow == 9.0 + 3.0 / 8 + 1.75
    assert len(recovered) == 2


@pytest.mark.parametrize(("work", "coroutines"), [(heavy, 2), (waiting, 0)])
async def test_devices_whose_nodes_wait_run_their_loop_node_by_node(graph, recovered, work, coroutines):
    start = af.placeholder(af.float32, [])

    def body(i, x):
        with on(1):
            made = work(x)
        with on(0):
            made.set_shape([])
            return i + 1, made * 0.5

    with on(0):
        result = af.while_loop(lambda i, x: i < 3, body, [0, start])
    fast, slow = await both_ways(graph, result, {start: 3.0})
    assert fast == slow
    assert len(recovered) == coroutines


async def test_a_sender_that_waits_for_its_receiver_is_in_no_deadlock(graph):
    start = af.placeholder(af.float32, [])
    places = "/job:worker/task:0", "/job:worker/task:1"

    def body(i, x, y):
        with af.device(places[1]):
            made = y * 0.5 + x
        with af.device(places[0]):
            return i + 1, x + 1.0, made

    with af.device(places[1]):
        second = af.identity(start)
    with af.device(places[0]):
        result = af.while_loop(lambda i, x, y: i < 10**9, body, [0, start, second])[2]
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        run, texts = asyncio.ensure_future(session.run(result, {start: 3.0})), []
        for _ in range(20):
            await asyncio.sleep(0.0013)
            texts.append(str(await session.explain()))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert any("~" in text for text in texts), "it has not waited"
    assert not any("deadlock:" in text for text in texts)


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_loop_between_two_tasks_is_in_no_deadlock_while_a_value_is_on_its_way(graph, executor):
    start = af.placeholder(af.float32, [])
    places = "/job:worker/task:0", "/job:worker/task:1"

    def body(i, x):
        with af.device(places[1]):
            half = x * 0.5
        with af.device(places[0]):
            return i + 1, half + 1.0

    with af.device(places[0]):
        result = af.while_loop(lambda i, x: i < 10**9, body, [0, start])
    settings = af.Config(executor=executor)
    async with (
        SimulatedCluster({"worker": 2}, config=settings, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        run, texts = asyncio.ensure_future(session.run(result, {start: 3.0})), []
        for _ in range(20):
            await asyncio.sleep(0.0013)
            texts.append(str(await session.explain()))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert any("waits to receive" in text for text in texts)
    assert not any("deadlock:" in text for text in texts)
