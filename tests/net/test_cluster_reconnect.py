"""Programs on a cluster with repeatedly cut connections: every step gives its value, and happens once."""

import asyncio
import contextlib

import numpy as np

import aioflow as af
from aioflow.testing import Chaos
from tests.net.test_cluster_faults import PS, SECOND, counter, line_of_numbers, spanning
from tests.support.cluster_runs import every_seed, new_graph, survives, together

CALM = Chaos(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@contextlib.asynccontextmanager
async def cuts(run, longest=0.01):
    """Inside the block, cut one or all channels between two hosts, after random pauses of up to `longest` s."""

    async def cut():
        while True:
            await run.at_random(longest)
            network = run.cluster.network
            channels = [channel for channel in network._channels if channel.open]
            if channels:
                chosen = run.random.choice(channels)
                if run.random.random() < 0.3:
                    network.cut(*chosen.hosts)
                else:
                    chosen.lose()

    cutting = asyncio.create_task(cut(), name="cuts")
    try:
        yield
    finally:
        cutting.cancel()
        await asyncio.wait([cutting])


async def adds(run):
    """Steps from two clients that update one variable."""
    model = counter()
    async with run.session(model.graph) as one, run.session(model.graph, "worker", 1) as other:
        await one.run(model.count.initializer)
        for session in (one, other):
            await session.run(model.add, {model.by: 0})
        async with cuts(run):
            sums = []
            for _ in range(6):
                sums += await together(*[session.run(model.add, {model.by: 1}) for session in (one, other, one)])
                await run.at_random(0.02)
        assert len(set(map(int, sums))) == len(sums) == 18
        assert await one.run(model.count) == 18


@every_seed
def test_an_adding_step_happens_once_over_repeatedly_cut_connections(seeds):
    survives(seeds, adds, chaos=CALM)


async def passes_on(run):
    """A producer and a consumer of another client, and live queues at both ends."""
    model = line_of_numbers()
    async with run.session(model.graph) as near, run.session(model.graph, "worker", 1) as far:
        await near.run(model.put, {model.number: 0})
        taken = [int(await far.run(model.taken))]

        async def produce():
            for number in range(1, 13):
                await near.run(model.put, {model.number: number})
                await run.at_random(0.02)

        async def consume():
            for _ in range(12):
                taken.append(int(await far.run(model.taken)))
                await run.at_random(0.02)

        async with cuts(run):
            await together(produce(), consume())
        assert taken == list(range(13))
        assert await near.run(model.size) == 0


@every_seed
def test_a_queue_gives_each_element_once_over_repeatedly_cut_connections(seeds):
    survives(seeds, passes_on, chaos=CALM)


async def loops(run):
    """A loop and a branch over two tasks, which send all values from one task to the other."""
    model = spanning()
    async with run.session(model.graph) as session:
        expected = await session.run(model.found, {model.x: 2.0, model.limit: 5})
        async with cuts(run):
            for _ in range(4):
                assert await session.run(model.found, {model.x: 2.0, model.limit: 5}) == expected


@every_seed
def test_a_loop_over_two_tasks_gives_its_value_over_repeatedly_cut_connections(seeds):
    survives(seeds, loops, chaos=CALM)


def arrays():
    with new_graph() as graph:
        x = af.placeholder(af.float32, [None])
        with af.device(PS):
            there = x * 2.0
        with af.device(SECOND):
            back = there + 1.0
    return graph, x, back


async def carries(run):
    """Large arrays in both directions, each carried by several connections in turn."""
    graph, x, back = arrays()
    value = np.arange(60_000, dtype=np.float32)
    async with run.session(graph) as session:
        await session.run(back, {x: value[:3]})
        async with cuts(run, 0.02):
            for found in await together(*[session.run(back, {x: value + step}) for step in range(5)]):
                np.testing.assert_array_equal(found - found[0], value * 2)


@every_seed
def test_large_arrays_arrive_whole_over_repeatedly_cut_connections(seeds):
    survives(seeds, carries, chaos=CALM, bandwidth=2e7)


def test_steps_go_on_while_their_session_is_made_anew_for_a_lost_task():
    """With this seed a task gets the request of a step after its session was made anew, and has not lost the graph."""
    survives([2205205773], carries, chaos=CALM, bandwidth=2e7)
