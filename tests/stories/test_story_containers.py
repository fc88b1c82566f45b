"""State that outlives sessions, and whose it is."""

import asyncio

import pytest

import aioflow as af
from aioflow import errors
from tests.stories.witness import FIRST, PS, SECOND, WORKERS


def counter(container=None, start=0.0):
    """A graph with a counter on the parameter server, in that container: its initializer, its update, its value."""
    with af.Graph().as_default() as graph, af.device(PS), graph.container(container or ""):
        count = af.Variable(start, name="count")
        return graph, count.initializer, count.assign_add(1.0).op, count.read_value()


async def test_state_lives_until_its_process_ends_and_not_only_as_long_as_a_session(world):
    """[P15 section 4.7] The default container persists until the process terminates."""
    graph, initializer, add, value = counter()
    async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
        await session.run([initializer])
        await session.run(add)
    async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
        assert await session.run(value) == 1
    await world.crash("ps", 0)
    await world.start("ps", 0)
    async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
        with pytest.raises(errors.FailedPreconditionError, match="count"):
            await session.run(value)


@pytest.mark.parametrize("container", ["", "experiment"])
async def test_disjoint_graphs_of_sessions_of_different_clients_and_masters_share_state(world, container):
    """[P15 section 4.7] Containers share state even across disjoint graphs associated with different Sessions."""
    mine, theirs = counter(container), counter(container)
    first, second = world.target("master", 0), world.target("worker", 1, "another")
    async with (
        af.Session(first, graph=mine[0], config=WORKERS) as one,
        af.Session(second, graph=theirs[0], config=WORKERS) as other,
    ):
        await one.run(mine[1])
        await asyncio.gather(*[session.run(add) for session, add in ((one, mine[2]), (other, theirs[2])) * 10])
        assert await one.run(mine[3]) == await other.run(theirs[3]) == 20


async def test_each_container_has_its_own_state(world):
    """[P15 section 4.7] A named container separates its state from that of the same name elsewhere."""
    graphs = {name: counter(name, start) for name, start in (("", 0.0), ("red", 10.0), ("blue", 20.0))}
    found = {}
    for graph, initializer, add, _ in graphs.values():
        async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
            await session.run(initializer)
            await session.run(add)
    for name, (graph, _, _, value) in graphs.items():
        async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
            found[name] = await session.run(value)
    assert found == {"": 1, "red": 11, "blue": 21}


async def test_a_queue_is_shared_by_those_who_know_its_name(world):
    """[P15 section 4.7] The backing store of any stateful operation is in a container, a queue's too."""

    def made(device, build):
        with af.Graph().as_default() as graph:
            with af.device(PS):
                queue = af.FIFOQueue(5, af.float32, shapes=[[]], shared_name="hand-over")
            with af.device(device):
                return graph, build(queue)

    producer, put = made(FIRST, lambda queue: queue.enqueue(af.constant(4.0)))
    consumer, taken = made(SECOND, lambda queue: queue.dequeue() * 2.0)
    async with af.Session(world.target("worker", 0), graph=consumer, config=WORKERS) as session:
        taking = asyncio.ensure_future(session.run(taken))
        async with af.Session(world.target("worker", 1, "another"), graph=producer, config=WORKERS) as other:
            await other.run(put)
        assert await taking == 8
