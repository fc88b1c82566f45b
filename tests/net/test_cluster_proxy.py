"""Tasks as processes, between which the network is slow, breaks, falls silent and changes bytes."""

import asyncio
import random
import socket

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from tests.support.cluster_processes import FIRST, PS, SECOND, Processes, free_ports, on_one_loop
from tests.support.faulty_proxy import proxy
from tests.support.scale import amount

THERE, BEFORE = "127.0.0.1", "127.0.0.2"


def has_second_loopback():
    with socket.socket() as probe:
        try:
            probe.bind((BEFORE, 0))
        except OSError:
            return False
        return True


pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(not has_second_loopback(), reason=f"{BEFORE} is no address of this machine"),
]


@pytest.fixture(scope="module")
def processes():
    """A cluster whose tasks have a long patience, since a busy machine may stop any of them for a while."""
    with started("--heartbeat-timeout", "120") as running:
        yield running


def started(*options):
    """A cluster of which one worker is known to the others by an address at which it does not listen."""
    ps, first, second = free_ports(3)
    cluster = {"ps": [f"{THERE}:{ps}"], "worker": [f"{THERE}:{first}", f"{BEFORE}:{second}"]}
    own = {SECOND: ("--host", THERE)}
    # what goes by shared memory passes no proxy
    return Processes(cluster, options=lambda task: ("--no-shared-memory", *options, *own.get(task, ())))


def in_between(processes):
    """The proxy that listens there."""
    address = processes.address(SECOND)
    return proxy(address, address.replace(BEFORE, THERE))


@pytest.fixture
async def between(processes):
    async with in_between(processes) as between:
        yield between


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph, processes, between):
    async with af.Session(processes.target(FIRST), graph=graph) as session:
        yield session
        between.delay, between.rate, between.spoil = 0.0, float("inf"), 0.0
    await processes.nothing_left()


def there_and_back(x):
    """What is fed, through the worker behind the proxy and back to where it is fetched from."""
    with af.device(SECOND):
        y = x * 2.0
    with af.device(PS):
        z = y + 1.0
    with af.device(SECOND):
        return af.identity(z)


def never():
    with af.device(PS):
        element = af.FIFOQueue(1, af.float32, shapes=[[]]).dequeue()
    with af.device(SECOND):
        return element + 1.0


async def outcome(awaitable):
    return (await asyncio.gather(awaitable, return_exceptions=True))[0]


async def goes_on(session, fetch, feeds, expected):
    """The session works again, once the tasks that are affected have been found."""
    found = await outcome(session.run(fetch, feeds))
    if isinstance(found, Exception):
        assert isinstance(found, (errors.UnavailableError, errors.AbortedError))
        found = await session.run(fetch, feeds)
    np.testing.assert_array_equal(found, expected)


async def test_what_comes_slowly_and_in_pieces_comes_whole(session, between):
    x = af.placeholder(af.float32, [None])
    y = there_and_back(x)
    value = np.arange(200_000, dtype=np.float32)
    between.delay, between.rate = 1e-3, 20e6
    np.testing.assert_array_equal(await session.run(y, {x: value}), value * 2 + 1)
    assert between.carried > 3 * value.nbytes


@pytest.mark.parametrize("how", ["reset", "finish"])
async def test_a_step_continues_over_a_repeatedly_cut_connection(how, session, processes, between):
    x = af.placeholder(af.float32, [None])
    y, value = there_and_back(x), np.ones(10, np.float32)
    with af.device(SECOND):
        count = af.Variable(0)
        add = count.assign_add(1)
    with af.device(PS):
        counted = add + 0
    await session.run(count.initializer)
    await session.run(y, {x: value})
    step = asyncio.ensure_future(session.run(never()))
    await processes.running(PS)
    for turn in range(1, 11):
        getattr(between, how)()
        assert await session.run(counted) == turn
        np.testing.assert_array_equal(await session.run(y, {x: value}), value * 2 + 1)
    assert not step.done()
    step.cancel()
    await asyncio.wait([step])
    await processes.nothing_runs()


@pytest.mark.parametrize("how", ["reset", pytest.param("finish", marks=pytest.mark.long)])
async def test_a_large_value_arrives_whole_over_connections_cut_in_its_middle(how, session, processes, between):
    x = af.placeholder(af.float32, [None])
    y, value = there_and_back(x), np.arange(3_000_000, dtype=np.float32)
    await session.run(y, {x: value[:10]})
    between.rate = 50e6
    step = asyncio.ensure_future(session.run(y, {x: value}))
    for _ in range(4):
        carried = asyncio.ensure_future(between.has_carried(3 << 20))
        await asyncio.wait([step, carried], return_when=asyncio.FIRST_COMPLETED)
        assert not step.done(), step.result()
        getattr(between, how)()
    np.testing.assert_array_equal(await step, value * 2 + 1)
    await processes.nothing_runs()


@on_one_loop
async def test_a_connection_that_stays_open_and_carries_nothing_counts_as_silent(graph):
    x = af.placeholder(af.float32, [None])
    y, value = there_and_back(x), np.ones(10, np.float32)
    with started() as processes:
        async with in_between(processes) as between, af.Session(processes.target(FIRST), graph=graph) as session:
            await session.run(y, {x: value})
            step = asyncio.ensure_future(session.run(never()))
            await processes.running(PS)
            between.hold()
            with pytest.raises(errors.UnavailableError, match=rf"{SECOND}.* silent"):
                await step
            between.let_pass()
            await processes.nothing_runs()
            await goes_on(session, y, {x: value}, value * 2 + 1)


async def test_changed_bytes_end_in_named_errors_and_nothing_hangs(session, processes, between):
    x = af.placeholder(af.float32, [None])
    y, rng = there_and_back(x), random.Random(7)
    value = np.arange(3000, dtype=np.float32)
    await session.run(y, {x: value})
    before = {task: processes.memory(task) for task in (PS, FIRST, SECOND)}
    runs = failed = 0
    while runs < amount(2, 25) or not failed:  # chance decides which runs fail
        between.spoil = rng.choice([0.05, 0.3, 1.0])
        found = await outcome(session.run(y, {x: value}, options=af.RunOptions(timeout=0.5)))
        assert isinstance(found, (errors.OpError, np.ndarray)), found
        runs, failed = runs + 1, failed + isinstance(found, errors.OpError)
    between.spoil = 0.0
    between.reset()
    await processes.nothing_runs()
    await goes_on(session, y, {x: value}, value * 2 + 1)
    for task, nbytes in before.items():
        assert processes.memory(task) - nbytes < 256 << 20, task
