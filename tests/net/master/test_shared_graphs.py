"""Sessions of a cluster that sent the same operations have one graph, plan once and compile once, and share no more."""

import asyncio
import functools
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.devices.cpu import Threads
from aioflow.net.master import registered_plans, shared_graphs
from aioflow.net.master.shared_graphs import Addition, GraphState, SharedGraph, SharedGraphs
from aioflow.net.wire.graph_updates import addition
from aioflow.runtime import plan_cache
from aioflow.testing.simulated_cluster import SimulatedCluster

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture
def graphs():
    return SharedGraphs(Threads("reading", 1))


def grown(*sizes, value=lambda size: np.ones(size, np.float32), count=1):
    """The additions of a client whose graph has a constant for each size, or `count` of them."""
    graph, found, version = af.Graph(), [], 0
    for size in sizes:
        with graph.as_default():
            for _ in range(count):
                af.constant(value(size))
        found.append(Addition(*addition(graph, version, graph.version)))
        version = graph.version
    return found


def of_strings(*sizes):
    """The additions of a client whose graph has a constant of strings of 100 bytes for each size."""
    return grown(*sizes, value=lambda size: [b"%0100d" % number for number in range(size)])


async def sent(graphs, additions, state=None):
    state = state or GraphState(SharedGraph(), 0)
    for each in additions:
        state = await graphs.extended(state, each)
    return state


async def test_clients_that_send_the_same_operations_have_one_graph(graphs):
    first, second = await sent(graphs, grown(2, 3)), await sent(graphs, grown(2, 3))
    assert first == second
    assert first.version == first.graph.version == 2


async def test_clients_that_send_the_same_strings_have_one_graph(graphs):
    first, second = await sent(graphs, of_strings(9000)), await sent(graphs, of_strings(9000))
    assert first == second
    assert await sent(graphs, of_strings(9001)) != first


@pytest.mark.parametrize("make", [functools.partial(grown, count=200), of_strings])
async def test_clients_that_send_the_same_operations_at_the_same_time_have_one_graph(graphs, make):
    begin, *rest = make(20_000, 30_000, 40_000)
    first, *others = await asyncio.gather(*[sent(graphs, [begin]) for _ in range(4)])
    assert others == [first] * 3
    grew, *others = await asyncio.gather(*[sent(graphs, rest, state) for state in (first, *others)])
    assert others == [grew] * 3
    assert grew.shared is first.shared


async def test_operations_that_are_not_built_for_the_first_of_several_clients_are_built_for_the_next(
    graphs, monkeypatch
):
    began, extend, failures = [], shared_graphs.extend, [errors.InvalidArgumentError("the first one fails")]

    def failing(*parts):
        began.append(parts)
        if failures:
            raise failures.pop()
        extend(*parts)

    monkeypatch.setattr(shared_graphs, "extend", failing)
    additions = grown(2, count=200)
    first, *others = await asyncio.gather(*[sent(graphs, additions) for _ in range(3)], return_exceptions=True)
    assert isinstance(first, errors.InvalidArgumentError)
    assert others == [others[0]] * 2
    assert len(began) == 2
    assert not graphs._extending


async def test_a_graph_that_grows_stays_the_graph_of_sessions_that_know_less_of_it(graphs):
    first, second = await sent(graphs, grown(2)), await sent(graphs, grown(2))
    first = await sent(graphs, grown(2, 3)[1:], first)
    assert first.graph is second.graph
    assert (first.version, second.version) == (2, 1)
    assert await sent(graphs, grown(2, 3)[1:], second) == first


async def test_a_client_that_sends_other_operations_has_a_graph_of_its_own(graphs):
    first, second = await sent(graphs, grown(2, 3)), await sent(graphs, grown(2))
    second = await sent(graphs, grown(2, 4)[1:], second)
    assert first.graph is not second.graph
    shapes = [[op.output.shape.as_list() for op in each.graph.get_operations()] for each in (first, second)]
    assert shapes == [[[2], [3]], [[2], [4]]]


async def test_operations_that_cannot_be_built_leave_the_graph_as_it_is(graphs):
    state = await sent(graphs, grown(2))
    with pytest.raises(errors.InvalidArgumentError):
        await graphs.extended(state, Addition(b"\x91", {}))
    assert state.version == state.graph.version == 1
    assert (await sent(graphs, grown(2, 3)[1:], state)).version == 2


class EndlessThreads:
    """Threads that call a function, and report its end to no one."""

    async def run(self, function, label):
        function()
        await asyncio.get_running_loop().create_future()


async def test_a_session_sends_operations_again_whose_reading_was_cancelled(graphs):
    one, other = await sent(graphs, grown(2)), await sent(graphs, grown(2))
    threads, graphs._threads = graphs._threads, EndlessThreads()
    more = grown(2, 3, count=200)[1:]
    cancelled = asyncio.create_task(sent(graphs, more, one))
    await asyncio.sleep(0)
    cancelled.cancel()
    graphs._threads = threads
    assert await sent(graphs, more, one) == await sent(graphs, more, other)


async def test_the_last_small_graphs_stay_after_their_sessions(graphs):
    small = [id((await sent(graphs, additions)).graph) for additions in (grown(2), of_strings(9000))]
    large = [(await sent(graphs, additions)).shared.digests[0] for additions in (grown(2 << 20), of_strings(30_000))]
    gc.collect()
    assert [id((await sent(graphs, additions)).graph) for additions in (grown(2), of_strings(9000))] == small
    assert not any(digest in graphs._by_digest for digest in large)
    for size in range(3, 11):
        await sent(graphs, grown(size))
    gc.collect()
    assert len(graphs._by_digest) == 8


@pytest.fixture
async def cluster():
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        yield cluster


@pytest.fixture
def made(monkeypatch):
    """The numbers of plans and programs that are made."""
    counts = {"make_plan": 0, "assemble": 0}
    for module, name in ((registered_plans, "make_plan"), (plan_cache, "assemble")):
        function = getattr(module, name)

        def counted(*args, name=name, function=function, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counted)
    return counts


def program(factor=2.0):
    """A variable of one task, to which a value of the other one is added."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [], name="x")
        with af.device(OTHER), af.container("own" if factor == 2.0 else "others"):
            total = af.Variable(0.0, name="total")
        with af.device(MASTER):
            y = x * factor
        with af.device(OTHER):
            total.assign_add(y, name="added")
        return graph


async def run(session, value=1.0):
    return await session.run("added:0", {"x:0": value})


async def initialize(session):
    await session.run(session.graph.get_collection("variables")[0].initializer)


def opened(cluster, graph=None, **settings):
    return af.Session(cluster.target("worker", 0), graph=graph or program(), config=af.Config(**settings))


async def test_a_second_session_plans_and_compiles_nothing_for_either_client(cluster, made):
    graph = program()
    async with opened(cluster, graph) as first:
        await initialize(first)
        assert await run(first) == 2.0
        before = dict(made)
        async with opened(cluster, graph) as same, opened(cluster) as other:
            await asyncio.gather(initialize(same), initialize(other))
            assert sorted(await asyncio.gather(run(same), run(other))) == [2.0, 4.0]
            assert await run(first) == 6.0
    async with opened(cluster) as later:
        await initialize(later)
        assert await run(later) == 2.0
    assert made == before
    assert made["make_plan"] == 2


@pytest.mark.parametrize(
    "settings",
    [{"optimize": False}, {"order_for_memory": False}, {"compression": "int8"}, {"swap_to_host": True}],
    ids=str,
)
async def test_a_session_with_other_settings_plans_for_itself(cluster, made, settings):
    for each, plans in (({}, 2), (settings, 4)):
        async with opened(cluster, **each) as session:
            await initialize(session)
            assert await run(session) == 2.0
        assert made["make_plan"] == plans


async def test_a_session_with_another_graph_plans_for_itself(cluster, made):
    for factor, plans in ((2.0, 2), (3.0, 4)):
        async with opened(cluster, program(factor)) as session:
            await initialize(session)
            assert await run(session) == factor
        assert made["make_plan"] == plans


async def test_a_session_that_plans_anew_after_it_has_measured_shares_its_plan_with_none(cluster, made):
    async with opened(cluster) as one, opened(cluster) as other:
        await asyncio.gather(initialize(one), initialize(other))
        await run(one)
        await one.run("added:0", {"x:0": 1.0}, af.RunOptions(trace=True))
        await one.replan()
        await run(one)
        assert made["make_plan"] == 3
        await run(other)
    assert made["make_plan"] == 3


async def test_a_session_whose_graph_grew_in_another_way_runs_its_own_operations(cluster):
    graphs = program(), program()
    async with opened(cluster, graphs[0]) as one, opened(cluster, graphs[1]) as other:
        await initialize(one)
        found = []
        for session, graph, factor in ((one, graphs[0], 10.0), (other, graphs[1], 100.0)):
            ready = session.make_callable("added:0", ["x:0"])
            await ready(0.0)
            with graph.as_default(), af.device(MASTER):
                grown = af.multiply(graph.get_tensor_by_name("x:0"), factor, name="grown")
            found.append([await session.run(grown, {"x:0": 1.0}), await session.run("grown:0", {"x:0": 2.0})])
            assert await ready(0.0) == 0.0
    assert found == [[10.0, 20.0], [100.0, 200.0]]
