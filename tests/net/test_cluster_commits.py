"""A step takes elements on another task: the client gets each element once, or the element returns to the queue.

Each case cuts a connection or ends a process at moments half a latency apart (a few, or all): before the step begins,
while the element travels to the client, and while the commit travels to the queue.
"""

import asyncio
import contextlib
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.peer.handshake import connect
from aioflow.net.wire.control_verbs import Failure
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.worker_verbs import CancelStep
from aioflow.testing import cluster
from aioflow.testing.chaos import describe_frame
from tests.support.cluster_runs import new_graph
from tests.support.scale import amount, some

LATENCY = 0.01
MOMENTS = [LATENCY * (number + 0.5) / 2 for number in some(range(22), 3)]
IN_DOUBT = amount(2, 6)
"""The most moments at which an element may be lost: those in which the answer to a commit travels."""
PS = "/job:ps/task:0"
CUTS = {
    "half of the client's connection": lambda network: network.part("client", "worker0", one_way=True),
    "half of the master's connection to the client": lambda network: network.part("worker0", "client", one_way=True),
    "the client's connection": lambda network: network.part("client", "worker0"),
    "half of the master's connection to the queue": lambda network: network.part("worker0", "ps0", one_way=True),
    "half of the queue's connection to the master": lambda network: network.part("ps0", "worker0", one_way=True),
    "the master's connection to the queue": lambda network: network.part("worker0", "ps0"),
    "the master": lambda network: network.crash("worker0"),
    "the client": lambda network: network.crash("client", silent=True),
}


def line():
    """A queue on the parameter server."""
    with new_graph() as graph, af.device(PS):
        queue = af.FIFOQueue(4, af.int32, shapes=[[]], shared_name="line")
        put, size = queue.enqueue_many([[1, 2]]), queue.size()
        with af.device("/job:worker/task:0"):
            element = queue.dequeue() * 1
            x = af.placeholder(af.int32, [])
    return SimpleNamespace(graph=graph, queue=queue, put=put, size=size, element=element, x=x, doubled=x * 2)


async def by_step(session, model):
    return int(await session.run(model.element))


async def by_hand(session, model):
    return int((await session.queue(model.queue).take())[0])


async def by_stream(session, model):
    async with contextlib.aclosing(session.stream(model.element, read_ahead=0)) as values:
        return int(await anext(values))


async def by_parts(session, model):
    handle = await session.partial_run_setup([model.element, model.doubled], [model.x])
    return int(await session.partial_run(handle, model.element))


TAKES = {"a step": by_step, "a live queue": by_hand, "a stream": by_stream, "a partial run": by_parts}


async def outcome(take, lose, moment):
    """What a client was given that lost something at that moment, and what the queue has in the end."""
    model, given = line(), []
    async with cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated:
        config = af.Config(operation_timeout=3.0)
        async with af.Session(simulated.target("worker", 0), graph=model.graph, config=config) as session:
            await session.run(model.put)
            given.append(await take(session, model))  # the plan is made, and connections are there
            await asyncio.sleep(1)
            running = asyncio.create_task(take(session, model))
            await asyncio.sleep(moment)
            lose(simulated.network)
            (found,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(found, int | errors.OpError), found
            given += [found] if isinstance(found, int) else []
        for hosts in (("client", "worker0"), ("worker0", "ps0")):
            simulated.network.heal(*hosts)
        await asyncio.sleep(12)  # by now the loss is noticed everywhere
        rest = af.Config(device_filters=["/job:ps", "/job:worker/task:1"])
        async with af.Session(simulated.target("worker", 1, "other"), graph=model.graph, config=rest) as other:
            left = int(await other.run(model.size))
    return given, left


@pytest.mark.slow
@pytest.mark.parametrize(("take", "lose"), some(itertools.product(TAKES.values(), CUTS.values()), 4))
async def test_an_element_that_was_given_is_not_given_back_whatever_is_lost(take, lose):
    lost = 0
    for moment in MOMENTS:
        given, left = await outcome(take, lose, moment)
        assert given == [1, 2][: len(given)]
        assert len(given) + left <= 2, f"{given} were given, and {left} are left: {moment:.4f} s"
        lost += len(given) + left < 2
    assert lost <= IN_DOUBT, f"at {lost} of {len(MOMENTS)} moments the element is lost"


async def test_only_the_master_ends_a_step_that_has_run_and_taken_something():
    """A task that has sent something to the step may have lost the connection since."""
    model, failure = line(), Failure("unavailable", "the queue is gone")
    async with (
        cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated,
        af.Session(simulated.target("worker", 0), graph=model.graph) as session,
    ):
        await session.run(model.put)
        async with contextlib.aclosing(session.stream(model.element, read_ahead=1)) as values:
            given = [int(await anext(values))]
            await asyncio.sleep(1)
            (step,) = simulated.servers["ps0"].worker.step_table.open
            other = await connect(simulated.network.at("worker1"), "ps0", Identity())
            await other.request(CancelStep(step, failure))
            assert await session.run(model.size) == 0
            given.append(int(await anext(values)))
        await other.close()
        assert given == [1, 2]
        assert await session.run(model.size) == 0


async def test_what_a_step_has_put_stays_if_the_word_is_lost_that_the_client_knows():
    model = line()
    async with cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated:
        async with af.Session(simulated.target("worker", 0), graph=model.graph) as session:
            await session.run(model.size)
            simulated.network.path("worker0", "ps0").lost = lambda: acknowledged
            acknowledged = False
            await session.run(model.put)
            acknowledged = True
            await asyncio.sleep(30)
            acknowledged = False
        async with af.Session(simulated.target("worker", 1, "other"), graph=model.graph) as other:
            assert await other.run(model.size) == 2


async def test_a_step_that_only_puts_or_takes_nothing_is_not_committed():
    model, sent = line(), []
    async with (
        cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated,
        af.Session(simulated.target("worker", 0), graph=model.graph) as session,
    ):
        simulated.network.path("client", "worker0").sent = lambda frame: sent.append(describe_frame(bytes(frame)))
        await session.run(model.put)
        await session.run(model.size)
        assert not commits(sent)
        await session.run(model.element)
        assert len(commits(sent)) == 1


def commits(sent):
    """The verbs with which a client commits a step."""
    return [verb for verb in sent if verb.startswith("CommitStep")]


@contextlib.asynccontextmanager
async def filled():
    """A session of a cluster whose queue has two elements, and its model."""
    model = line()
    async with (
        cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated,
        af.Session(simulated.target("worker", 0), graph=model.graph) as session,
    ):
        await session.run(model.put)
        yield session, model


@pytest.mark.parametrize(("fetched", "left"), [((), 2), (("element",), 1), (("element", "doubled"), 1)])
async def test_a_partial_run_that_is_given_up_gives_back_only_what_no_call_returned(fetched, left):
    async with filled() as (session, model):
        handle = await session.partial_run_setup([model.element, model.doubled], [model.x])
        for name in fetched:
            await session.partial_run(handle, getattr(model, name), {model.x: 1} if name == "doubled" else {})
        await asyncio.sleep(1)
        await handle.stop()
        assert await session.run(model.size) == left


async def test_a_partial_run_of_which_all_is_fed_keeps_what_it_took_for_the_call_that_fetches_it():
    async with filled() as (session, model):
        for number, element in ((1, None), (2, 1)):
            handle = await session.partial_run_setup([model.element, model.doubled], [model.x])
            assert await session.partial_run(handle, model.doubled, {model.x: number}) == 2 * number
            await asyncio.sleep(1)
            if element is not None:
                assert await session.partial_run(handle, model.element) == element
            await handle.stop()
            assert await session.run(model.size) == (2 if element is None else 1)


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
async def test_a_take_that_is_cancelled_at_any_moment_removes_nothing(take):
    async with filled() as (session, model):
        left = 2
        for moment in MOMENTS:
            taken = await cut(take(session, model), moment)
            left -= taken is not None
            assert await session.run(model.size) == left, moment


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
async def test_a_take_in_a_session_that_is_closed_at_any_moment_leaves_no_step_and_removes_nothing(take):
    for moment in [LATENCY / 4, *MOMENTS]:
        model = line()
        async with cluster({"ps": 1, "worker": 2}, latency=LATENCY) as simulated:
            async with af.Session(simulated.target("worker", 0), graph=model.graph) as session:
                await session.run(model.put)
                await take(session, model)
                running = asyncio.create_task(take(session, model))
                await asyncio.sleep(moment)
                await session.close()
                (found,) = await asyncio.gather(running, return_exceptions=True)
            await asyncio.sleep(1)
            assert not any(server._worker.step_table.open for server in simulated.servers.values()), moment
            async with af.Session(simulated.target("worker", 1), graph=model.graph) as other:
                assert await other.run(model.size) == (0 if isinstance(found, int) else 1), moment


async def put_by_step(session, model):
    await session.run(model.put)


async def put_by_hand(session, model):
    await session.queue(model.queue).put_many([[1], [2]])


async def put_batch_by_hand(session, model):
    await session.queue(model.queue).put_batch(np.array([1, 2], np.int32))


@pytest.mark.parametrize("put", [put_by_step, put_by_hand, put_batch_by_hand])
async def test_a_put_that_is_cancelled_at_any_moment_adds_nothing(put):
    async with filled() as (session, model):
        for moment in MOMENTS:
            is_in = await cut(put(session, model), moment, True)
            assert await session.run(model.size) == (4 if is_in else 2), moment
            if is_in:
                await session.queue(model.queue).take_many(2)


async def cut(work, moment, returned=None):
    """What that returns, or `returned` instead, if it ends before it is cancelled at that moment; else None."""
    running = asyncio.create_task(work)
    await asyncio.sleep(moment)
    running.cancel()
    (found,) = await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(1)  # all messages have arrived
    return None if isinstance(found, asyncio.CancelledError) else returned or found


@pytest.mark.slow
async def test_a_call_of_a_partial_run_that_is_cancelled_at_any_moment_gives_back():
    for moment in MOMENTS:
        async with filled() as (session, model):
            handle = await session.partial_run_setup([model.element, model.doubled], [model.x])
            call = asyncio.create_task(session.partial_run(handle, model.element))
            await asyncio.sleep(moment)
            call.cancel()
            (found,) = await asyncio.gather(call, return_exceptions=True)
            await asyncio.sleep(1)
            assert await session.run(model.size) == (1 if isinstance(found, np.generic) else 2), moment
