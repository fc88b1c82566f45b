"""A run that goes on just where another was: queues, readers, random numbers."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.state.run_state import pack_contents, unpack_contents
from aioflow.testing import Gate, cluster, faulty_kernel
from aioflow.waiting.stores import Contents


def items(contents):
    return [tuple(np.asarray(component).tolist() for component in item) for item in contents.items]


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [(b"text", np.zeros((2, 3), np.float32))],
        [(b"", np.ones((0, 3), np.float32)), (b"other", np.arange(3, dtype=np.float32))],
    ],
    ids=len,
)
@pytest.mark.parametrize("generator", [None, (3, (1, 2), None)], ids=["none", "some"])
def test_what_a_queue_holds_is_told_and_read_again(elements, generator):
    text, *parts = pack_contents(Contents(elements, True, generator), [np.dtype(object), np.dtype(np.float32)])
    found = unpack_contents(text[()], parts)
    assert items(found) == items(Contents(elements, True))
    assert (found.closed, found.generator) == (True, generator)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"closed": true}', b'{"closed": 1, "count": 9, "generator": null}'])
def test_what_tells_of_no_queue_is_refused(text):
    with pytest.raises(errors.DataLossError):
        unpack_contents(text, [np.zeros(1), np.array([1, 1])])


QUEUES = {
    "fifo": lambda: af.FIFOQueue(20, [af.int32], shapes=[[]], name="queue"),
    "padding": lambda: af.PaddingFIFOQueue(20, [af.int32], shapes=[[]], name="queue"),
    "shuffled": lambda: af.RandomShuffleQueue(20, 0, [af.int32], shapes=[[]], seed=3, name="queue"),
    "priority": lambda: af.PriorityQueue(20, [af.int32], shapes=[[]], name="queue"),
}


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("mode", ["consistent", "uncoordinated"])
async def test_a_restored_queue_gives_what_the_other_would_have_given(tmp_path, kind, mode):
    with af.Graph().as_default() as graph:
        queue = QUEUES[kind]()
        step = af.train.create_global_step()
        numbers = np.arange(12, dtype=np.int32)
        put = queue.enqueue_many([-(numbers // 3).astype(np.int64), numbers] if kind == "priority" else [numbers])
        taken, close = queue.dequeue(), queue.close()
        saver = af.train.Saver(state=True, mode=mode)
        plain = af.train.Saver(name="plain")
    async with af.Session(graph=graph) as session:
        await session.run([put, step.initializer])
        for _ in range(3):
            await session.run(taken)
        path = await saver.save(session, tmp_path / "model")
        await session.run(close)
        closed = await saver.save(session, tmp_path / "closed")
        expected = [await session.run(taken) for _ in range(9)]
        with pytest.raises(errors.OutOfRangeError):
            await session.run(taken)
    for place in (path, closed):
        async with af.Session(graph=graph) as session:
            await saver.restore(session, place)
            assert [await session.run(taken) for _ in range(9)] == expected
            if place == closed:
                with pytest.raises(errors.OutOfRangeError):
                    await session.run(taken)
            await plain.restore(session, place)


async def test_what_waits_for_room_is_saved_as_if_it_were_in_the_queue(tmp_path):
    with af.Graph().as_default() as graph:
        queue = af.FIFOQueue(2, [af.int32], shapes=[[]])
        step, number = af.train.create_global_step(), af.placeholder(af.int32, [])
        put, several = queue.enqueue(number), queue.enqueue_many([[3, 4]])
        taken, size = queue.dequeue(), queue.size()
        saver = af.train.Saver(state=True)
    async with af.Session(graph=graph) as session:
        await session.run(step.initializer)
        for value in (0, 1):
            await session.run(put, {number: value})
        waiting = [asyncio.create_task(session.run(put, {number: 2})), asyncio.create_task(session.run(several))]
        for _ in range(20):
            await asyncio.sleep(0)
        assert session.queue(queue).statistics().putting == 2
        path = await saver.save(session, tmp_path / "model")
        assert [await session.run(taken) for _ in range(5)] == [0, 1, 2, 3, 4]
        await asyncio.gather(*waiting)
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        assert await session.run(size) == 5
        assert [await session.run(taken) for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_elements_are_saved_as_they_were_when_saving_began(tmp_path):
    with af.Graph().as_default() as graph:
        queue = af.FIFOQueue(9, [af.float32], shapes=[[3]])
        step = af.train.create_global_step()
        put, taken = queue.enqueue(np.ones(3, np.float32)), queue.dequeue()
        negated = -taken
        saver = af.train.Saver(state=True)
    gate = Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with af.Session(graph=graph) as session:
            await session.run([step.initializer, put])
            writing = await saver.save_async(session, tmp_path / "model")
            await gate.arrived()
            assert (await session.run(negated)).tolist() == [-1.0] * 3
            gate.open()
            path = await writing
            await saver.restore(session, path)
            assert (await session.run(taken)).tolist() == [1.0] * 3


def pipeline(folder):
    """Lines of files in random order, and random numbers, of which a loss is made in each step."""
    names = [str(folder / f"{number}.txt") for number in range(3)]
    for number, name in enumerate(names):
        with open(name, "w") as file:
            file.write("".join(f"{number}{line}\n" for line in range(4)))
    with af.Graph().as_default() as graph:
        af.set_random_seed(7)
        files = af.FIFOQueue(9, [af.string], shapes=[[]])
        _, line = af.TextLineReader().read(files)
        numbers = af.RandomShuffleQueue(6, 2, [af.int32], shapes=[[]], seed=5)
        total = af.Variable(0.0)
        loss = total.assign_add(af.cast(numbers.dequeue(), af.float32) + af.random_uniform([]))
        fill = numbers.enqueue(af.string_to_number(line, af.int32))
        begin = af.group(total.initializer, files.enqueue_many([names + names]))
        return graph, begin, fill, loss, af.train.Saver(state=True)


@pytest.mark.parametrize("steps", range(7))
async def test_a_restored_run_goes_on_just_where_the_other_was(tmp_path, steps):
    graph, begin, fill, loss, saver = pipeline(tmp_path)

    async def advance(session, count):
        found = []
        for _ in range(count):
            await session.run(fill)
            found.append(float(await session.run(loss)))
        return found

    async with af.Session(graph=graph) as session:
        await session.run(begin)
        for _ in range(4):
            await session.run(fill)
        await advance(session, steps)
        path = await saver.save(session, tmp_path / "model")
        expected = await advance(session, 8)
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        assert await advance(session, 8) == expected


async def test_random_numbers_go_on_where_they_were(tmp_path):
    with af.Graph().as_default() as graph:
        af.set_random_seed(7)
        step, noise = af.train.create_global_step(), af.random_uniform([])
        looped = af.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + af.random_normal([])), [0, 0.0])[1]
        saver = af.train.Saver(state=True)
    async with af.Session(graph=graph) as session:
        await session.run(step.initializer)
        first = [await session.run([noise, looped]) for _ in range(2)]
        path = await saver.save(session, tmp_path / "model")
        expected = [await session.run([noise, looped]) for _ in range(3)]
        await saver.restore(session, path)
        again = [await session.run([noise, looped]) for _ in range(3)]
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        anew = [await session.run([noise, looped]) for _ in range(3)]
    assert expected == again == anew
    assert first != expected[:2]


def test_the_log_says_whose_state_checkpoints_do_not_have(caplog):
    with af.Graph().as_default():
        af.train.create_global_step()
        af.FIFOQueue(9, [af.int32], shapes=[[]])
        af.train.Saver(state=True)
        assert not caplog.messages
        af.ConditionalAccumulator(af.float32, shape=[], shared_name="sums")
        af.train.Saver()
        assert not caplog.messages
        af.train.Saver(state=True)
    (message,) = caplog.messages
    assert "conditional_accumulator" in message
    assert "queue" not in message


async def test_state_on_several_tasks_is_restored_there_by_another_session(tmp_path):
    with af.Graph().as_default() as graph:
        af.set_random_seed(7)
        with af.device("/job:ps/task:0"):
            step = af.train.create_global_step()
            queue = af.FIFOQueue(9, [af.int32], shapes=[[]])
            near = af.random_uniform([])
        with af.device("/job:worker/task:0"):
            far = af.random_uniform([])
        put, taken = queue.enqueue_many([[1, 2, 3]]), queue.dequeue()
        saver = af.train.Saver(state=True)
    spec, config = {"ps": 1, "worker": 1}, af.Config(file_roots=[tmp_path])
    async with cluster(spec, 0, config=config) as hosts, af.Session(hosts.target("worker", 0), graph=graph) as session:
        await session.run([step.initializer, put])
        for _ in range(2):
            await session.run([near, far])
        await session.run(taken)
        path = await saver.save(session, tmp_path / "model")
        expected = await session.run([near, far, taken])
    async with cluster(spec, 1, config=config) as hosts, af.Session(hosts.target("worker", 0), graph=graph) as session:
        await saver.restore(session, path)
        assert await session.run([near, far, taken]) == expected
