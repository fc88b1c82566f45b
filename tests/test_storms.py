"""Cancellation storms over all waiting operations: no element is lost or doubled, and each producer's come in order.

This is a sample; `make soak` runs ten thousand cancellations over each operation. STORM_SEED=7 replays the run of a
seed.
"""

import asyncio
import contextlib
import itertools
import os
import random

import pytest

import aioflow as af
from aioflow.testing import cluster
from tests.support.cluster_processes import addresses
from tests.support.scale import some
from tests.support.storm_traffic import FORMS, OTHERS, QUEUES, Place, queue
from tests.support.storms import RandomSlice, single_puts, storm

SEED = int(os.environ.get("STORM_SEED", "1"))
CUTS = int(os.environ.get("STORM_CUTS", "12"))
"""The calls that are cut short in each storm."""
CONSUMERS = (1, 3)
WAYS = (*FORMS, "live", "stream")
PUT_FORMS = ("alone", "beside", "live")
STORMS = {
    **{
        " ".join(kind): (lambda place, kind=kind: queue(place, *kind))
        for kind in itertools.product(QUEUES, ("one", "many"), ("one", "many", "up_to"), WAYS)
    },
    **{f"{name} {form}": (lambda place, n=name, f=form: OTHERS[n](place, f)) for name in OTHERS for form in FORMS},
}
PUTS = [f"{kind} {width} one {form}" for kind in QUEUES for width in ("one", "many") for form in PUT_FORMS]
PUTS += [f"{kind} {form}" for kind in ("staging", "map staging", "barrier") for form in ("alone", "beside")]


@contextlib.asynccontextmanager
async def devices(seed, count):
    graph = af.Graph()
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": count})) as session:
        session._state.slice = RandomSlice(random.Random(seed))
        yield Place(session, graph, "/cpu:0", f"/cpu:{count - 1}")


@contextlib.asynccontextmanager
async def tasks(seed, latency):
    graph = af.Graph()
    async with cluster({"ps": 1, "worker": 2}, latency=latency) as simulated:
        async with af.Session(simulated.target("worker", 0), graph=graph) as session:
            yield Place(session, graph, "/job:ps/task:0", "/job:worker/task:1", remote=True)
        await asyncio.sleep(5)
        assert not simulated.held()


@contextlib.asynccontextmanager
async def sockets():
    graph, spec = af.Graph(), addresses({"ps": 1, "worker": 2})
    async with contextlib.AsyncExitStack() as stack:
        for job, hosts in spec.items():
            for index in range(len(hosts)):
                await stack.enter_async_context(af.train.Server(spec, job, index))
        session = await stack.enter_async_context(af.Session(f"ws://{spec['worker'][0]}", graph=graph))
        yield Place(session, graph, "/job:ps/task:0", "/job:worker/task:1", remote=True)


PLACES = {
    "one device": lambda seed: devices(seed, 1),
    "four devices": lambda seed: devices(seed, 4),
    "a cluster": lambda seed: tasks(seed, 0.0),
    "a slow cluster": lambda seed: tasks(seed, 3e-4),
}


def part(names, number, among):
    """A part of the names, which depends on the seed."""
    return [name for place, name in enumerate(names) if (place + SEED) % among == number % among]


async def rage(where, name, consumers, seed=SEED, cuts=CUTS):
    async with PLACES[where](seed) as place:
        return await storm(STORMS[name](place), seed, cuts, consumers)


@pytest.mark.parametrize("where", ["one device", "four devices"])
@pytest.mark.parametrize("name", some(STORMS, 10))
async def test_no_element_is_lost_or_doubled(where, name):
    for consumers in CONSUMERS:
        await rage(where, name, consumers)


@pytest.mark.parametrize("where", ["a cluster", "a slow cluster"])
@pytest.mark.parametrize("name", some(part(STORMS, 0, 5), 6))
async def test_no_element_is_lost_or_doubled_between_tasks(where, name):
    for consumers in CONSUMERS:
        await rage(where, name, consumers)


@pytest.mark.real
@pytest.mark.parametrize("name", some(part(STORMS, 3, 9), 5))
async def test_no_element_is_lost_or_doubled_on_a_real_loop(name):
    for where in ("one device", "four devices"):
        await rage(where, name, 3)


@pytest.mark.sockets
@pytest.mark.parametrize("name", ["fifo one one elsewhere", "shuffle many up_to live", "sparse beside", "reader alone"])
async def test_no_element_is_lost_or_doubled_over_sockets(name):
    async with sockets() as place:
        await storm(STORMS[name](place), SEED, CUTS, 3)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", some(part(PUTS, 0, 2), 4))
async def test_a_put_that_is_cut_short_puts_nothing_if_nobody_takes(where, name):
    async with PLACES[where](SEED) as place:
        await single_puts(STORMS[name](place), SEED, 2 * CUTS)


@pytest.mark.parametrize("where", ["one device", "a cluster"])
async def test_a_cancelled_run_leaves_its_critical_section(where):
    rng = random.Random(SEED)
    async with PLACES[where](SEED) as place:
        with place.graph.as_default(), af.device(place.here):
            count = af.Variable(0, name="count")
            section = af.CriticalSection(name="section")
            added = section.execute(lambda: count.assign_add(1))
        await place.session.run(count.initializer)
        returned = cut = 0
        while cut < CUTS:
            tasks = [asyncio.create_task(place.session.run(added)) for _ in range(4)]
            for task in rng.sample(tasks, 3):
                for _ in range(rng.randrange(20)):
                    await asyncio.sleep(0)
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            cut += sum(isinstance(found, asyncio.CancelledError) for found in ended)
            returned += sum(not isinstance(found, asyncio.CancelledError) for found in ended)
        assert returned < await place.session.run(added) <= returned + cut + 1


async def cancelled_after_put(call, live, turns):
    """Put an element for a waiting call, and cancel the call some turns of the loop later. Whether it was cancelled."""
    task = asyncio.create_task(call)
    await asyncio.sleep(1)
    live.put_nowait(7)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    (found,) = await asyncio.gather(task, return_exceptions=True)
    return isinstance(found, asyncio.CancelledError)


async def test_a_cancelled_partial_run_puts_back_elements_that_no_call_returned():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(3, [af.int32], shapes=[[]])
        x = af.placeholder(af.int32, [])
        element, doubled = queue.dequeue(), x * 2
    async with af.Session(graph=graph) as session:
        session._state.slice = RandomSlice(random.Random(SEED))
        live = session.queue(queue)
        for turns, first in itertools.product(range(20), [False, True]):
            handle = await session.partial_run_setup([element, doubled], [x])
            if first:
                assert await session.partial_run(handle, doubled, {x: 2}) == 4
            is_cancelled = await cancelled_after_put(session.partial_run(handle, element), live, turns)
            await handle.stop()
            assert live.size == is_cancelled
            live.take_nowait()


@pytest.mark.parametrize("operation_timeout", [None, 100.0])
async def test_a_cancel_at_the_arrival_of_the_element_loses_nothing(operation_timeout):
    """In one turn of the loop the slice ends, the element arrives and the consumer is cancelled."""
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(3, [af.int32], shapes=[[]])
        element = queue.dequeue()
    async with af.Session(graph=graph, config=af.Config(operation_timeout=operation_timeout)) as session:
        session._state.slice = RandomSlice(random.Random(1))
        live = session.queue(queue)
        for options, turns in itertools.product([None, af.RunOptions(timeout=50.0)], range(6)):
            if await cancelled_after_put(session.run(element, options=options), live, turns):
                assert live.take_nowait() == (7,)
            assert live.size == 0


async def test_the_first_run_of_a_signature_loses_nothing():
    for seed in range(40):
        graph = af.Graph()
        with graph.as_default():
            queue = af.FIFOQueue(3, [af.int32], shapes=[[]])
            element = queue.dequeue()
        async with af.Session(graph=graph) as session:
            session._state.slice = RandomSlice(random.Random(seed))
            live = session.queue(queue)
            task = asyncio.create_task(session.run(element))
            for _ in range(seed % 10):
                await asyncio.sleep(0)
            live.put_nowait(7)
            task.cancel()
            (found,) = await asyncio.gather(task, return_exceptions=True)
            assert (live.size == 1) == isinstance(found, asyncio.CancelledError)


async def test_unacknowledged_elements_of_a_lost_client_are_put_back():
    graph = af.Graph()
    with graph.as_default(), af.device("/job:ps/task:0"):
        queue = af.FIFOQueue(5, [af.int32], shapes=[[]], shared_name="shared")
        fill, element, size = queue.enqueue_many([[1, 2, 3]]), queue.dequeue(), queue.size()
    async with (
        cluster({"ps": 1, "worker": 1}, latency=0.01) as simulated,
        af.Session(simulated.target("worker", 0), graph=graph) as session,
    ):
        await session.run(fill)
        async with af.Session(simulated.target("worker", 0, client="other"), graph=graph) as lost:
            assert await lost.run(element) == 1
            await asyncio.sleep(1)
            runs = [asyncio.create_task(run) for run in (lost.run(element), lost.queue(queue).take())]
            await asyncio.sleep(0.025)  # both have taken, and their values are on the way
            simulated.network.crash("other", silent=True)
            assert await session.run(size) == 0
            await asyncio.gather(*runs, return_exceptions=True)
        await asyncio.sleep(30)
        assert [await session.run(element) for _ in range(2)] == [2, 3]


async def test_an_element_on_which_a_kernel_fails_is_not_put_back():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(3, [af.int32], shapes=[[]])
        with af.control_dependencies([af.Assert(queue.dequeue() > 0, ["not positive"])]):
            checked = af.no_op()
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        await live.put_many([[-1], [5]])
        with pytest.raises(af.errors.InvalidArgumentError):
            await session.run(checked)
        assert await live.take() == (5,)


async def test_leaving_a_stream_puts_back_the_elements_read_ahead():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(9, [af.int32], shapes=[[]])
        element = queue.dequeue()
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        await live.put_many([[value] for value in range(6)])
        async with contextlib.aclosing(session.stream(element, read_ahead=3)) as values:
            async for value in values:
                await asyncio.sleep(1)
                if value == 1:
                    break
        assert [int((await live.take())[0]) for _ in range(4)] == [2, 3, 4, 5]


async def test_the_puts_of_a_cancelled_step_are_removed_unless_taken():
    graph = af.Graph()
    with graph.as_default():
        source, target, never = [af.FIFOQueue(9, [af.int32], shapes=[[]]) for _ in range(3)]
        moved = target.enqueue(source.dequeue())
        with af.control_dependencies([moved]):
            waits = never.dequeue()
    async with af.Session(graph=graph) as session:
        first, second = session.queue(source), session.queue(target)
        for taken in (False, True):
            await first.put(7)
            task = asyncio.create_task(session.run(waits))
            await asyncio.sleep(1)
            assert (first.size, second.size) == (0, 1)
            if taken:
                assert await second.take() == (7,)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (first.size, second.size) == ((0, 0) if taken else (1, 0))
            first.take_nowait()


async def test_a_cancelled_loop_puts_back_its_last_elements():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(1000, [af.int32], shapes=[[]])
        total = af.while_loop(lambda i: i < 1_000_000, lambda i: i + queue.dequeue(), [0])
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        await live.put_many([[0]] * 600)
        task = asyncio.create_task(session.run(total))
        await asyncio.sleep(1)
        assert live.size == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert live.size == 256
