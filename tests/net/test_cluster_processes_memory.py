"""Large values that go from process to process in shared memory, without a copy, as each process lends it on."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.transport.segments import MANY
from tests.support.cluster_processes import LONGEST, Processes, addresses, on_one_loop
from tests.support.scale import amount

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
MASTER, *OTHERS = (f"/job:worker/replica:0/task:{number}" for number in range(4))
SIZE = 1 << 18


@pytest.fixture(scope="module")
def processes():
    with Processes(addresses({"worker": 4})) as started:
        yield started


def mapped(processes, task):
    """How many segments a process maps: its own and those of others."""
    return Path(f"/proc/{processes.pid(task)}/maps").read_text().count("memfd:aioflow")


@on_one_loop
async def test_a_value_that_goes_to_and_fro_in_a_loop_takes_no_more_memory_with_each_iteration(processes):
    def there_and_back(i, x):
        with af.device(OTHERS[0]):
            there = af.reshape(x, [256, 1024])
        with af.device(MASTER):
            return i + 1, af.reshape(there, [SIZE])

    with af.Graph().as_default() as graph, af.device(MASTER):
        x = af.placeholder(af.float32, [SIZE])
        _, result = af.while_loop(lambda i, x: i < 1000, there_and_back, [0, x + 1.0])
    value = np.arange(SIZE, dtype=np.float32)
    async with af.Session(processes.target(MASTER), graph=graph) as session:
        assert np.array_equal(await session.run(result, {x: value}), value + 1.0)
        for task in (MASTER, OTHERS[0]):
            assert mapped(processes, task) <= 4 * MANY  # twice as many of each other, their own, and the client's


@on_one_loop
async def test_fetching_a_small_part_of_a_large_feed_keeps_no_memory_of_the_feed(processes):
    with af.Graph().as_default() as graph, af.device(MASTER):
        x = af.placeholder(af.float32, [SIZE])
        part = x[:1]
    value = np.ones(SIZE, np.float32)
    async with af.Session(processes.target(MASTER), graph=graph) as session:
        await session.run(part, {x: value})
        before = mapped(processes, MASTER)
        for _ in range(2 * MANY):
            assert await session.run(part, {x: value}) == 1.0
        assert mapped(processes, MASTER) < before + MANY // 2


def passed_round():
    """A number, and the least and largest elements of a value of it on each task that lends it on to the next."""
    with af.Graph().as_default() as graph:
        number, ends = af.placeholder(af.float32, []), []
        with af.device(OTHERS[0]):
            value = af.zeros([SIZE]) + number
        for place in range(6):
            with af.device(OTHERS[place % 3]):
                value = af.reshape(value, [256, SIZE // 256] if place % 2 else [SIZE])
                ends += [af.reduce_min(value), af.reduce_max(value)]
    return graph, number, ends


@pytest.mark.parametrize("part", range(amount(1, 4)))  # 200 moments in all
@on_one_loop
async def test_a_process_that_is_killed_while_memory_is_lent_on_spoils_no_value_and_leaves_nothing(processes, part):
    graph, number, ends = passed_round()
    chance = np.random.default_rng(part)

    async def run(value):
        assert {*map(float, await session.run(ends, {number: value}))} == {value}

    async def run_again():
        async with asyncio.timeout(LONGEST):
            while True:
                try:
                    return await run(-1.0)
                except errors.OpError:
                    await asyncio.sleep(0.02)

    async with af.Session(processes.target(MASTER), graph=graph) as session:
        await run_again()
        for _ in range(amount(3, 50)):
            running = [asyncio.create_task(run(float(value))) for value in range(8)]
            await asyncio.sleep(chance.uniform(0, 0.1))
            lost = OTHERS[chance.integers(3)]
            processes.kill(lost)
            found = await asyncio.gather(*running, return_exceptions=True)
            assert all(each is None or isinstance(each, errors.OpError) for each in found), found
            await processes.start(lost)
            await run_again()
        await processes.nothing_runs()
        for task in (MASTER, *OTHERS):
            assert mapped(processes, task) <= 32
    await processes.nothing_left()
