"""Ops on queues: what shape rules tell and refuse, what a handle stands for, and that values stay what they were."""

import asyncio
import random

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.state import queues as ops
from aioflow.kernels.state.resource_handles import (
    QueueSpec,
    fifo_queue,
    padding_fifo_queue,
    priority_queue,
    queue_from_list,
    random_shuffle_queue,
)
from aioflow.queues import Queue
from aioflow.tensors import dtypes


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def pair():
    return fifo_queue([af.float32, af.string], [[2], []])


# Shape rules


def test_shapes_are_as_exact_as_can_be(graph):
    x = af.placeholder(af.int32, [])
    assert [str(t.spec) for t in ops.queue_dequeue(pair())] == ["float32[2]", "string[]"]
    assert [str(t.spec) for t in ops.queue_dequeue_many(pair(), 3)] == ["float32[3, 2]", "string[3]"]
    assert [str(t.spec) for t in ops.queue_dequeue_many(pair(), x)] == ["float32[?, 2]", "string[?]"]
    assert [str(t.spec) for t in ops.queue_dequeue_up_to(pair(), 3)] == ["float32[?, 2]", "string[?]"]
    padded = padding_fifo_queue([af.float32], [[None, 3]])
    assert str(ops.queue_dequeue(padded)[0].spec) == "float32[?, 3]"
    assert str(ops.queue_dequeue_many(padded, 4)[0].spec) == "float32[4, ?, 3]"
    assert str(ops.queue_dequeue(fifo_queue([af.int64]))[0].spec) == "int64"
    assert str(ops.queue_dequeue(priority_queue([af.string], [[]]))[0].spec) == "int64[]"
    assert (str(ops.queue_size(padded).spec), str(ops.queue_is_closed(padded).spec)) == ("int32[]", "bool[]")
    assert str(pair().spec) == "resource(float32[2], string[])"


def test_two_elements_of_open_size_need_not_be_equal(graph):
    queue = padding_fifo_queue([af.float32], [[None]])
    first, second = ops.queue_dequeue(queue)[0], ops.queue_dequeue(queue)[0]
    assert first.shape is not second.shape


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda: ops.queue_enqueue(pair(), [[1.0, 2.0]]), ValueError, "1 components were given, an element has 2"),
        (lambda: ops.queue_enqueue(pair(), [[1, 2], "a"]), TypeError, "component 0 is int32, the queue holds float32"),
        (lambda: ops.queue_enqueue(pair(), [[1.0], "a"]), ValueError, r"component 0 must have shape \[2\], not \[1\]"),
        (
            lambda: ops.queue_enqueue_many(pair(), [[[1.0]], ["a"]]),
            ValueError,
            r"rows of component 0 must have shape \[2\], not \[1\]",
        ),
        (lambda: ops.queue_enqueue_many(pair(), [[[1.0, 2.0]], "a"]), ValueError, "component 1 of a batch has a first"),
        (
            lambda: ops.queue_enqueue_many(pair(), [[[1.0, 2.0]], ["a", "b"]]),
            ValueError,
            "dimensions 1 and 2 are not compatible",
        ),
        (lambda: ops.queue_dequeue_many(fifo_queue([af.int32]), 2), ValueError, "given the shapes of its components"),
        (lambda: ops.queue_dequeue_up_to(fifo_queue([af.int32]), 2), ValueError, "given the shapes of its components"),
        (lambda: ops.queue_dequeue_many(pair(), -1), ValueError, "n=-1 elements cannot be taken"),
        (lambda: ops.queue_dequeue_many(pair(), 1.5), TypeError, "n must be made of integers"),
        (lambda: ops.queue_dequeue(af.constant(1)), TypeError, r"a handle to a queue is needed, not int32\[\]"),
        (lambda: ops.queue_size(af.Variable(1).handle), TypeError, "a handle to a queue is needed"),
        (lambda: fifo_queue([]), ValueError, "at least one component"),
        (lambda: fifo_queue([af.int32], [[], []]), ValueError, "2 shapes were given for 1 components"),
        (lambda: fifo_queue([af.int32], capacity=1.5), TypeError, "capacity is a number of elements, not 1.5"),
        (lambda: fifo_queue([af.int32], capacity_bytes=0), ValueError, "a positive number of bytes, not 0"),
        (lambda: fifo_queue([dtypes.resource]), TypeError, "holds tensors, not resources"),
        (lambda: padding_fifo_queue([af.int32]), ValueError, "the rank of each component"),
        (lambda: random_shuffle_queue([af.int32], capacity=3, min_after_dequeue=3), ValueError, "less than the capac"),
        (lambda: random_shuffle_queue([af.int32], min_after_dequeue=-1), ValueError, "min_after_dequeue is a number"),
        (lambda: queue_from_list(0, []), ValueError, "needs at least one queue"),
        (lambda: queue_from_list(0, [pair(), fifo_queue([af.int32])]), TypeError, "elements of the same dtypes"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    with pytest.raises(kind, match=text):
        build()


def test_gradients_end_at_a_queue(graph):
    x = af.constant(2.0)
    queue = fifo_queue([af.float32], [[]])
    with af.control_dependencies([ops.queue_enqueue(queue, [x * x])]):
        (y,) = ops.queue_dequeue(queue)
    assert af.gradients(y, [x]) == [None]


# What a handle stands for


DIFFERENT = [
    (lambda **name: fifo_queue([af.int64], [[]], 3, **name), r"component_types=\(int32\), not \(int64\)"),
    (lambda **name: fifo_queue([af.int32], [[1]], 3, **name), r"shapes=\(\(\),\), not \(\(1,\),\)"),
    (lambda **name: fifo_queue([af.int32], [[]], 4, **name), "capacity=3, not 4"),
    (lambda **name: fifo_queue([af.int32], [[]], 3, capacity_bytes=8, **name), "capacity_bytes=None, not 8"),
    (lambda **name: padding_fifo_queue([af.int32], [[]], 3, **name), "kind=fifo_queue, not padding_fifo_queue"),
]


@pytest.mark.parametrize(("make", "text"), DIFFERENT)
async def test_a_shared_queue_is_not_opened_with_other_attributes(graph, session, make, text):
    first, other = fifo_queue([af.int32], [[]], 3, shared_name="s"), make(shared_name="s", name="mine")
    await session.run(ops.queue_enqueue(first, [1]))
    with pytest.raises(errors.InvalidArgumentError, match=f"queue 's' is shared with {text}") as caught:
        await session.run(ops.queue_size(other))
    assert caught.value.op == "mine"
    with pytest.raises(errors.InvalidArgumentError, match="is shared with"):
        session.queue(other)


async def test_seeds_of_zero_fit_a_shared_queue_of_any_seeds(graph, session):
    def queue(seed, seed2, least=1):
        return random_shuffle_queue([af.int32], [[]], -1, least, seed, seed2, shared_name="s")

    await session.run(ops.queue_enqueue(queue(1, 2), [1]))
    assert await session.run(ops.queue_size(queue(0, 0))) == 1
    with pytest.raises(errors.InvalidArgumentError, match=r"seeds=\(1, 2\), not \(1, 3\)"):
        await session.run(ops.queue_size(queue(1, 3)))
    with pytest.raises(errors.InvalidArgumentError, match="min_after_dequeue=1, not 2"):
        await session.run(ops.queue_size(queue(1, 2, 2)))


async def test_negative_capacities_are_the_same(graph, session):
    queues = [fifo_queue([af.int32], [[]], capacity, shared_name="s") for capacity in (-1, -7)]
    await session.run(ops.queue_enqueue(queues[0], [1]))
    assert await session.run(ops.queue_size(queues[1])) == 1


async def test_a_queue_chosen_in_a_run(graph, session):
    queues = [fifo_queue([af.int32], [[2]]), fifo_queue([af.int32], [[3]])]
    index = af.placeholder(af.int32, [])
    chosen = queue_from_list(index, queues)
    assert str(QueueSpec.check(chosen.spec).items[0]) == "int32[?]"
    (taken,) = ops.queue_dequeue(chosen)
    await session.run([ops.queue_enqueue(queues[0], [[1, 2]]), ops.queue_enqueue(queues[1], [[3, 4, 5]])])
    assert (await session.run(taken, {index: 1})).tolist() == [3, 4, 5]
    assert (await session.run(taken, {index: 0})).tolist() == [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="index 2 is out of range for 2 queues"):
        await session.run(taken, {index: 2})
    with pytest.raises(TypeError, match="is chosen in a run"):
        session.queue(chosen)


def test_a_graph_with_queues_goes_to_plain_data_and_back(graph):
    queues = [
        fifo_queue([af.int32, af.string], [[2], []], 3, "c", "s", capacity_bytes=9),
        padding_fifo_queue([af.float32], [[None, 2]]),
        random_shuffle_queue([af.int32], (), 9, 2, 3, 4),
        priority_queue([af.int32], [[]]),
    ]
    for queue in queues:
        ops.queue_enqueue(queue, [af.zeros([2] * (t.shape.rank or 0), t.dtype) for t in ops.queue_dequeue(queue)])
        ops.queue_close(queue, True)
        ops.queue_size(queue)
    ops.queue_dequeue_many(queues[1], 2)
    sent = af.GraphDef.from_json(graph.as_graph_def().to_json())
    with af.Graph().as_default() as copy:
        af.import_graph_def(sent, name="")
    assert copy.as_graph_def() == graph.as_graph_def()
    found = [copy.get_tensor_by_name(queue.name).spec for queue in queues]
    assert [str(spec) for spec in found] == [str(queue.spec) for queue in queues]
    assert [spec.padded for spec in found] == [False, True, False, False]


# Values


async def test_what_is_enqueued_stays_what_it_was(graph, session):
    v = af.Variable([1.0, 2.0])
    x = af.placeholder(af.float32, [2])
    queue = fifo_queue([af.float32], [[2]])
    read, fed = ops.queue_enqueue(queue, [v.value()]), ops.queue_enqueue(queue, [x])
    many = ops.queue_enqueue_many(queue, [af.reshape(v.value(), [1, 2])])
    (taken,) = ops.queue_dequeue(queue)
    await session.run(v.initializer)
    given = np.array([3, 4], np.float32)
    for operation in (read, many):
        await session.run(operation)
    await session.run(fed, {x: given})
    given[:] = 0
    for _ in range(3):
        await session.run(v.assign_add([10.0, 10.0]))
    assert [(await session.run(taken)).tolist() for _ in range(3)] == [[1, 2], [1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", sorted(dtypes.ANY, key=lambda dtype: dtype.name), ids=lambda dtype: dtype.name)
async def test_all_dtypes_go_through(graph, session, dtype):
    values = [["a", b"\xff"], ["", "c"]] if dtype is af.string else [[0, 1], [1, 0]]
    given = af.constant(values, dtype) if dtype is not af.bool else af.constant([[False, True], [True, False]])
    vectors, scalars = fifo_queue([dtype], [[2]]), fifo_queue([dtype], [[]])
    padded = padding_fifo_queue([dtype], [[None]])
    puts = [ops.queue_enqueue_many(vectors, [given]), ops.queue_enqueue_many(scalars, [given[0]])]
    pads = [ops.queue_enqueue(padded, [given[0]]), ops.queue_enqueue(padded, [given[0, :1]])]
    await session.run(puts)
    for operation in pads:
        await session.run(operation)
    expected = await session.run(given)
    batch = await session.run(ops.queue_dequeue_many(vectors, 2)[0])
    assert (batch.dtype, bits(batch)) == (expected.dtype, bits(expected))
    both = [(await session.run(ops.queue_dequeue(scalars)[0])) for _ in range(2)]
    assert bits(np.array(both, expected.dtype)) == bits(expected[0])
    filled = await session.run(ops.queue_dequeue_many(padded, 2)[0])
    nothing = b"" if dtype is af.string else expected.dtype.type(0)
    padding = np.array([expected[0, 0], nothing], expected.dtype)
    assert (filled.dtype, bits(filled[1])) == (expected.dtype, bits(padding))


def bits(array):
    """What tells arrays apart: of strings their elements, else the bytes, since a dtype without 0 makes NaN of it."""
    return array.tolist() if array.dtype == object else array.tobytes()


async def test_padding_fills_up_to_the_largest_of_a_batch_in_each_dimension(graph, session):
    queue = session.queue(padding_fifo_queue([af.int32], [[None, 2, None]]))
    for shape in ((1, 2, 3), (2, 2, 1), (0, 2, 5)):
        await queue.put(np.ones(shape, np.int32))
    (batch,) = await queue.take_batch(3)
    assert batch.shape == (3, 2, 2, 5)
    assert batch.sum() == 10
    assert batch[1, :, :, 0].tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"must have shape \[\?, 2, \?\], not \[1, 3, 1\]"):
        await queue.put(np.ones((1, 3, 1), np.int32))


async def test_shapes_that_are_open_are_checked_in_the_run(graph, session):
    x = af.placeholder(af.float32)
    queue = fifo_queue([af.float32], [[2]])
    for operation in (ops.queue_enqueue(queue, [x]), ops.queue_enqueue_many(queue, [x])):
        with pytest.raises(errors.InvalidArgumentError, match=r"must have shape \[2\], not \[3\]"):
            await session.run(operation, {x: np.ones([3] if operation.type == "queue_enqueue" else [2, 3])})
    with pytest.raises(errors.InvalidArgumentError, match="of a batch has a first dimension"):
        await session.run(ops.queue_enqueue_many(queue, [x]), {x: 1.0})
    n = af.placeholder(af.int32, [])
    with pytest.raises(errors.InvalidArgumentError, match="-2 elements cannot be taken"):
        await session.run(ops.queue_dequeue_many(queue, n), {n: -2})
    assert await session.run(ops.queue_size(queue)) == 0


async def test_large_elements_are_copied_on_threads_and_nothing_is_lost(graph):
    big = 1 << 19
    x = af.placeholder(af.float32, [None, big])
    queue = fifo_queue([af.float32], [[big]])
    many, one = ops.queue_enqueue_many(queue, [x]), ops.queue_enqueue(queue, [x[0]])
    (batch,) = ops.queue_dequeue_many(queue, 2)
    async with af.Session(graph=graph) as session:
        given = np.arange(2 * big, dtype=np.float32).reshape(2, big)
        await session.run(many, {x: given})
        np.testing.assert_array_equal(await session.run(batch), given)
        await session.run(one, {x: given})
        task = asyncio.create_task(session.run(batch))
        await asyncio.sleep(1)
        await session.run(one, {x: given[::-1]})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert session.queue(queue).statistics().size == 2 or not task.cancelled()


def test_a_seeded_shuffle_is_the_same_in_every_session():
    def drawn(seed):
        async def main():
            with af.Graph().as_default() as graph:
                queue = random_shuffle_queue([af.int32], [[]], seed=seed, seed2=1 if seed else 0)
                put, take = ops.queue_enqueue_many(queue, [list(range(40))]), ops.queue_dequeue_many(queue, 40)[0]
            async with af.Session(graph=graph) as session:
                await session.run(put)
                return (await session.run(take)).tolist()

        return asyncio.run(main())

    assert drawn(5) == drawn(5) != drawn(6)
    assert drawn(0) != drawn(0)
    assert sorted(drawn(5)) == list(range(40))
    assert random.Random(1).random() == random.Random(1).random()


async def test_the_one_who_waits_is_named(graph, session):
    queue = fifo_queue([af.int32], [[]], name="input")
    task = asyncio.create_task(session.run(ops.queue_dequeue(queue, name="next")))
    await asyncio.sleep(1)
    (attempt,) = session.queue(queue).waiting
    assert (attempt.who.name, attempt.what, attempt.since) == ("next", "take an element of", 0)
    assert type(session.queue(queue)) is Queue
    await session.queue(queue).put(1)
    assert await task == (1,)
