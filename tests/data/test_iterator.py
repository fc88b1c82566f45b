"""Iterations: how far stages work ahead, what ends with them, what they wait for, how they feed a session."""

import asyncio
import re
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import Dataset
from aioflow.testing import Gate, no_leaks, no_pending_tasks
from tests.data.test_dataset import elements


class Source:
    """Numbers for ever, from an async generator: how many it gave, and an event that it was closed."""

    def __init__(self):
        self.given = 0
        self.closed = asyncio.Event()

    async def numbers(self):
        try:
            while True:
                self.given += 1
                yield self.given - 1
        finally:
            self.closed.set()

    def dataset(self):
        return Dataset.from_generator(self.numbers)


async def doubled(number):
    return number * 2


AHEAD = {  # a pipeline, and how many elements its source has given when the consumer has one
    "nothing": (lambda dataset: dataset, 1),
    "map": (lambda dataset: dataset.map(doubled), 1),
    "batch": (lambda dataset: dataset.batch(3), 3),
    "shuffle": (lambda dataset: dataset.shuffle(5), 5),
    "prefetch": (lambda dataset: dataset.prefetch(4), 1 + 4),
    "prefetch of batches": (lambda dataset: dataset.batch(3).prefetch(2), 3 + 2 * 3),
    "parallel map": (lambda dataset: dataset.map(doubled, num_parallel_calls=3), 1 + 3),
    "several": (lambda dataset: dataset.map(doubled, 2).batch(2).prefetch(1), 2 + 2 + 2),
    "interleave": (lambda dataset: dataset.interleave(lambda n: Dataset.range(n, n + 9), 2), 1),
}


@pytest.mark.parametrize("name", AHEAD)
async def test_a_source_is_as_far_ahead_as_the_buffers_say(name):
    build, expected = AHEAD[name]
    source = Source()
    async with build(source.dataset()).iterate() as iterator:
        await anext(iterator)
        await settled()
        assert source.given == expected
    assert source.closed.is_set()


async def settled():
    """All that can happen without a timer has happened: virtual time goes on only then."""
    await asyncio.sleep(1)


async def test_nothing_runs_before_the_first_element_is_asked_for():
    source = Source()
    dataset = source.dataset().map(doubled, 2).prefetch(2)
    with no_pending_tasks():
        iterator = dataset.iterate()
        await settled()
    assert source.given == 0
    await iterator.aclose()


PARTS = {
    "map": lambda dataset: dataset.map(doubled),
    "parallel map": lambda dataset: dataset.map(doubled, 3),
    "prefetch": lambda dataset: dataset.prefetch(3),
    "shuffle": lambda dataset: dataset.shuffle(3),
    "batch": lambda dataset: dataset.batch(2),
    "zip": lambda dataset: Dataset.zip((dataset, dataset.prefetch(2))),
    "interleave": lambda dataset: dataset.interleave(lambda _: dataset, 2, num_parallel_calls=2),
    "cache": lambda dataset: dataset.cache(),
    "several": lambda dataset: dataset.map(doubled, 2).batch(2).prefetch(2).unbatch().shuffle(3).prefetch(1),
}


@pytest.mark.parametrize("name", PARTS)
async def test_a_break_ends_all_tasks_and_generators(name):
    source = Source()
    with no_leaks():
        async for _ in PARTS[name](source.dataset()):
            break
        await source.closed.wait()
        await settled()


@pytest.mark.parametrize("name", PARTS)
async def test_cancelling_the_consumer_ends_all_tasks_and_generators(name):
    gate, source = Gate(), Source()

    async def held(element):
        await gate.wait()

    with no_leaks():
        consumer = asyncio.create_task(elements(PARTS[name](source.dataset().map(held))))
        await gate.arrived()
        consumer.cancel()
        await asyncio.wait([consumer])
        assert consumer.cancelled()
        assert source.closed.is_set()


@pytest.mark.parametrize("name", PARTS)
async def test_an_error_ends_all_tasks_and_generators(name):
    source = Source()

    def refuse(number):
        if number == 7:
            raise ValueError("seven")
        return number

    with no_leaks():
        with pytest.raises(errors.InvalidArgumentError, match="seven"):
            await elements(PARTS[name](source.dataset().map(refuse)))
        assert source.closed.is_set()


async def test_an_iterator_that_has_ended_stays_ended():
    iterator = Dataset.range(1).iterate()
    assert await elements(iterator) == [0]
    assert await elements(iterator) == []
    assert iterator.explain().ended
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)


async def test_a_long_search_lets_the_loop_turn():
    search = asyncio.create_task(elements(Dataset.range(1 << 60).skip(1 << 59)))
    for _ in range(3):
        await asyncio.sleep(0)  # which would take as long as the search
    search.cancel()
    await asyncio.wait([search])
    assert search.cancelled()


async def test_explain_says_which_stage_waits_for_what():
    gate = Gate()

    async def held(number):
        if number == 4:
            await gate.wait()
        return number

    iterator = Dataset.range(9).map(held, num_parallel_calls=2).batch(4).prefetch(1).iterate()
    await anext(iterator)
    waiting = asyncio.create_task(anext(iterator))
    await gate.arrived()
    await settled()
    prefetch, batch, mapped, numbers = iterator.explain().stages
    assert (prefetch.name, prefetch.given, prefetch.waits_for, prefetch.buffered) == ("prefetch", 1, "batch", 0)
    assert (batch.name, batch.waits_for) == ("batch", "map")
    assert (mapped.name, mapped.given, mapped.waits_for) == ("map", 4, "1 calls of its function")
    assert (mapped.buffered, mapped.capacity) == (2, 2)
    assert (numbers.name, numbers.given, numbers.waits_for) == ("range", 7, "")
    assert "map: 4 elements given, 2 of 2 in its buffer; waits for 1 calls of its function" in str(iterator.explain())
    assert "test_iterator.py" in mapped.line
    gate.open()
    assert (await waiting).tolist() == [4, 5, 6, 7]
    await iterator.aclose()


async def test_a_dataset_feeds_a_queue_with_back_pressure():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(2, [af.float32, af.string], shapes=[[2], []])
        total, text = queue.dequeue()
        fetched = [af.reduce_sum(total), text]
    source = Source()
    rows = source.dataset().map(lambda n: {"b": str(n), "a": np.full(2, n, np.float32)})
    async with af.Session(graph=graph) as session:
        async with rows.feed_into(session, queue):
            assert await session.run(fetched) == [0, b"0"]
            assert await session.run(fetched) == [2, b"1"]
            await settled()
            assert source.given == 2 + 2 + 2  # taken, in the queue, and read ahead by its feed
        assert source.closed.is_set()


async def test_a_queue_that_was_fed_a_whole_dataset_ends_the_stream():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(2, [af.int64], shapes=[[]])
        value = queue.dequeue() * 2
    async with af.Session(graph=graph) as session, Dataset.range(4).feed_into(session, queue):
        assert [int(each) async for each in session.stream(value)] == [0, 2, 4, 6]


async def test_a_callable_of_a_session_is_a_function_of_elements():
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [])
        y = x * x
    async with af.Session(graph=graph) as session:
        square = session.make_callable(y, feeds=[x])
        dataset = Dataset.from_tensor_slices([1.0, 2.0, 3.0]).map(square, num_parallel_calls=2)
        assert await elements(dataset) == [1, 4, 9]


@pytest.mark.real
async def test_functions_and_generators_run_on_threads():
    loop_thread = threading.get_ident()
    seen = []

    def generate():
        seen.append(threading.get_ident())
        yield from range(3)

    def note(number):
        seen.append(threading.get_ident())
        return number

    dataset = Dataset.from_generator(generate).map(note).filter(lambda n: note(n) >= 0).map(note, 2).prefetch(1)
    assert await elements(dataset) == [0, 1, 2]
    assert len(seen) == 10
    assert loop_thread not in seen


@pytest.mark.real
async def test_closing_waits_for_a_call_on_a_thread_and_then_closes_the_generator():
    entered, release, closed = threading.Event(), threading.Event(), threading.Event()

    def generate():
        try:
            yield 0
            entered.set()
            release.wait()
            yield 1
        finally:
            closed.set()

    consumer = asyncio.create_task(elements(Dataset.from_generator(generate)))
    await asyncio.to_thread(entered.wait)
    consumer.cancel()
    release.set()
    await asyncio.wait([consumer])
    assert consumer.cancelled()
    assert closed.is_set()


async def test_explain_of_a_session_names_the_stage_that_its_queue_waits_for():
    gate = Gate()

    async def slow(number):
        await gate.wait()
        return number

    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(2, [af.int64], shapes=[[]], name="numbers")
        value = queue.dequeue()
    rows = Dataset.range(4).map(slow).prefetch(2)
    async with af.Session(graph=graph) as session, rows.feed_into(session, queue):
        run = asyncio.create_task(session.run(value))
        await gate.arrived()
        report = await session.explain()
        gate.open()
        assert await run == 0
    (wait,) = report.waits
    assert re.search(
        r"'numbers'.*, which is fed by map at .*test_iterator.py:\d+.*, which waits for its function", wait.what
    )
