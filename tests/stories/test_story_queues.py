"""Queues between workers, input read where it is used, and waiting that costs no thread."""

import asyncio
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from tests.stories.witness import FIRST, PS, SECOND, WORKERS, World, marked, settled


def fifo(capacity, shape=()):
    """A queue on the parameter server."""
    with af.device(PS):
        return af.FIFOQueue(capacity, af.float32, shapes=[shape])


async def test_a_worker_that_puts_waits_for_room_until_another_takes(session):
    """[P15 section 4.6] Enqueue waits until there is room in the queue."""
    queue = fifo(2)
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        put = queue.enqueue(x * 1.0)
    with af.device(SECOND):
        taken = queue.dequeue() + 0.0
    puts = [asyncio.ensure_future(session.run(put, {x: n})) for n in range(5)]
    await asyncio.sleep(60)
    assert [done.done() for done in puts] == [True, True, False, False, False]
    assert await session.run(taken) == 0
    await settled()
    assert sum(done.done() for done in puts) == 3
    assert [await session.run(taken) for _ in range(4)] == [1, 2, 3, 4]
    await asyncio.gather(*puts)


async def test_a_worker_that_takes_several_waits_until_so_many_are_there(session):
    """[P15 section 4.6] Dequeue waits until a minimum number of elements is there."""
    queue = fifo(10)
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        put = queue.enqueue(x * 1.0)
    with af.device(SECOND):
        batch = queue.dequeue_many(3) * 1.0
    taking = asyncio.ensure_future(session.run(batch))
    for n in range(3):
        await settled()
        assert not taking.done()
        await session.run(put, {x: n})
    np.testing.assert_array_equal(await taking, [0, 1, 2])


async def test_input_is_fetched_ahead_while_the_batch_before_is_computed(session, world):
    """[P15 section 4.6] Portions of a graph run at their own pace, and hand data on by queues."""
    queue = fifo(4)
    with af.device(FIRST):
        fill = queue.enqueue(marked(1.0))
    with af.device(SECOND):
        used = marked(queue.dequeue())
    runner = af.train.QueueRunner(queue, [fill])
    async with af.train.Coordinator() as coordinator:
        runner.create_tasks(session, coordinator)
        await settled()
        assert world.ran == {"worker0": 5}  # four are there, and one waits for room
        for done in range(1, 4):
            await session.run(used)
            await settled()
            assert world.ran == {"worker0": 5 + done, "worker1": done}
        coordinator.request_stop()


async def test_a_shuffling_queue_mixes_what_several_workers_put(session):
    """[P15 section 4.6] A shuffling queue shuffles its elements within a buffer in memory."""
    with af.device(PS):
        queue = af.RandomShuffleQueue(100, 50, af.int32, shapes=[[]], seed=7)
    x = af.placeholder(af.int32, [None])
    puts = []
    for device in (FIRST, SECOND):
        with af.device(device):
            puts.append(queue.enqueue_many(af.identity(x)))
    with af.device(SECOND):
        batch = af.identity(queue.dequeue_many(50))
    await asyncio.gather(*[session.run(put, {x: np.arange(50) + 50 * n}) for n, put in enumerate(puts)])
    found = await session.run(batch)
    assert len(set(found)) == 50
    assert set(found) <= set(range(100))
    assert list(found) != sorted(found)
    assert any(found < 50)
    assert any(found >= 50)


async def test_gradients_of_several_batches_are_collected_in_a_queue_and_applied_as_one(session):
    """[P15 section 4.6] Another use of queues: to accumulate many gradients into that of a larger batch."""
    with af.device(PS):
        weights = af.Variable([1.0, 2.0])
    queue = fifo(8, (2,))
    x = af.placeholder(af.float32, [2])
    puts = []
    for device in (FIRST, SECOND):
        with af.device(device):
            [gradient] = af.gradients(af.reduce_sum(x * weights), [weights])
            puts.append(queue.enqueue(gradient))
    apply = weights.assign_sub(af.reduce_mean(queue.dequeue_many(4), 0)).op
    await session.run(weights.initializer)
    applying = asyncio.ensure_future(session.run(apply))
    for n in range(4):
        np.testing.assert_array_equal(await session.run(weights), [1, 2])
        await session.run(puts[n % 2], {x: [n, 0.5]})
    await applying
    np.testing.assert_array_equal(await session.run(weights), [1 - 1.5, 2 - 0.5])


async def test_a_queue_that_is_closed_ends_producers_and_consumers_on_other_workers(session):
    """[P16 section 3.1] Queues coordinate: they hold back who is ahead, and tell both sides when it is over."""
    queue = fifo(1)
    with af.device(FIRST):
        put = queue.enqueue(marked(1.0))
    with af.device(SECOND):
        taken = marked(queue.dequeue())
    await session.run(put)
    await session.run(queue.close())
    with pytest.raises(errors.CancelledError):
        await session.run(put)
    assert await session.run(taken) == 1
    with pytest.raises(errors.OutOfRangeError):
        await session.run(taken)


async def test_waiting_holds_no_thread_on_any_task(session, world):
    """[P15 section 5.3] Receive, Enqueue and Dequeue are asynchronous: no thread waits in them."""
    queue = fifo(1)
    with af.device(SECOND):
        taken = marked(queue.dequeue())
    with af.device(FIRST):
        put = queue.enqueue(marked(1.0))
    before = threading.active_count()
    waiting = [asyncio.ensure_future(session.run(taken)) for _ in range(200)]
    await asyncio.sleep(10)
    waits = (await session.explain()).waits
    assert len([wait for wait in waits if wait.op_type == "queue_dequeue"]) == 200
    assert threading.active_count() == before
    await asyncio.gather(*[session.run(put) for _ in range(200)])
    await asyncio.gather(*waiting)
    assert world.ran == {"worker0": 200, "worker1": 200}


async def test_workers_read_their_input_themselves(graph, tmp_path):
    """[P15 section 4.5] Input operations spare the way of the data from its storage over the client to the worker."""
    data = bytes(range(256)) * 1024
    path = tmp_path / "examples"
    path.write_bytes(data)
    name = af.placeholder(af.string, [])
    with af.device(FIRST):
        contents = af.read_file(name)
        total = af.reduce_sum(af.cast(af.decode_raw(contents, af.uint8), af.int64))
    async with (
        World(config=af.Config(file_roots=[tmp_path])) as world,
        af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session,
    ):
        assert await session.run(total, {name: str(path)}) == sum(range(256)) * 1024
        assert world.witness.values() < 1000
        await settled()


async def test_producers_and_consumers_on_many_steps_conserve_elements(session, world):
    """[P16 section 3.2] Concurrent steps coordinate by queues: each element is taken by one step, once."""
    queue = fifo(3)
    x = af.placeholder(af.float32, [])
    puts, takes = [], []
    for device in (FIRST, SECOND):
        with af.device(device):
            puts.append(queue.enqueue(marked(x)))
            takes.append(marked(queue.dequeue()))
    taking = [asyncio.ensure_future(session.run(takes[n % 2])) for n in range(60)]
    await asyncio.gather(*[session.run(puts[n // 3 % 2], {x: n}) for n in range(60)])
    assert sorted(await asyncio.gather(*taking)) == list(range(60))
    assert world.ran == {"worker0": 60, "worker1": 60}
