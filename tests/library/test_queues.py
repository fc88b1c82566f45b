"""Queues as users hold them: building, running, closing, cancelling, sharing, in branches and loops."""

import asyncio
import tracemalloc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["regions", "tokens"])
async def session(graph, request):
    async with af.Session(graph=graph, config=af.Config(executor=request.param)) as session:
        yield session


async def begun(*coroutines):
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.sleep(1)
    return tasks


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


def waiting(session, queue):
    statistics = session.queue(queue).statistics()
    return statistics.putting, statistics.taking


# Building


def test_a_queue_tells_what_it_is(graph):
    with af.name_scope("input"):
        queue = af.FIFOQueue(3, [af.float32, af.string], [[2], []], names=["x", "label"], name="pairs")
    assert (queue.name, queue.queue_ref.op.name, queue.graph) == ("pairs", "input/pairs", graph)
    assert (queue.dtypes, queue.names) == ([af.float32, af.string], ["x", "label"])
    assert [shape.as_list() for shape in queue.shapes] == [[2], []]
    assert repr(queue) == "<af.FIFOQueue 'input/pairs' of float32[2], string[]>"
    assert queue.enqueue({"x": [1.0, 2.0], "label": "a"}).name == "pairs_enqueue"
    assert queue.dequeue_many(2, name="batch")["x"].op.name == "batch"
    assert af.FIFOQueue(3, af.int32).shapes[0].rank is None
    assert af.PriorityQueue(3, af.int32, [[]]).dtypes == [af.int64, af.int32]
    assert [shape.as_list() for shape in af.PaddingFIFOQueue(3, af.int32, [[None, 2]]).shapes] == [[None, 2]]
    assert isinstance(queue, af.QueueBase)


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda q: q.enqueue([1.0]), ValueError, "1 components were given, an element has 2: give the components in a"),
        (lambda q: q.enqueue(1.0), ValueError, "1 components were given, an element has 2"),
        (lambda q: q.enqueue(["a", 1]), TypeError, "component 0 is float32: "),
        (lambda q: q.enqueue([1.0, af.constant(1, af.int64)]), TypeError, "has dtype int64, int32 is needed"),
        (lambda q: q.enqueue([[1.0], 2]), ValueError, r"component 0 must have shape \[\], not \[1\]"),
        (lambda q: q.enqueue_many([[1.0], [2, 3]]), ValueError, "dimensions 1 and 2 are not compatible"),
        (lambda q: q.enqueue({"a": 1.0, "b": 2}), ValueError, "have no names: give a list, not a dict"),
        (lambda q: q.dequeue_many(-3), ValueError, "n=-3 elements cannot be taken"),
        (lambda q: q.dequeue_many("a"), TypeError, "n must be made of integers"),
        (lambda q: af.FIFOQueue(3, af.int32).dequeue_many(2), ValueError, "given the shapes of its components"),
        (lambda q: af.FIFOQueue(3, af.int32, [[None]]), ValueError, r"must be fully known, not \[\?\]: use a Padding"),
        (lambda q: af.FIFOQueue(3, [af.int32], [[], []]), ValueError, "2 shapes were given for 1 components"),
        (lambda q: af.FIFOQueue(3, [af.int32, af.int32], [[]], names="a"), ValueError, "1 shapes were given for 2"),
        (lambda q: af.FIFOQueue(3, [af.int32], names=["a", "a"]), ValueError, "1 different names of components"),
        (lambda q: af.FIFOQueue(3, []), ValueError, "at least one component"),
        (lambda q: af.FIFOQueue("3", af.int32), TypeError, "capacity is a number of elements"),
        (lambda q: af.FIFOQueue(3, "no"), TypeError, "'no' is not a dtype"),
        (lambda q: af.FIFOQueue(3, af.int32, name="bad name"), ValueError, "'bad name' is not a valid operation name"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, None), ValueError, r"a list with one shape .* not None"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, []), ValueError, r"a list with one shape .* not \[\]"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, [None]), ValueError, r"a list with one shape .* not \[None\]"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, [None, 2]), ValueError, r"as \[\[None, 3\]\], not \[None, 2\]"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, af.TensorShape([2])), ValueError, "a list with one shape"),
        (lambda q: af.PaddingFIFOQueue(3, af.int32, [af.TensorShape(None)]), ValueError, "the rank of each component"),
        (lambda q: af.PaddingFIFOQueue(3, [af.int32] * 2, [[]]), ValueError, "1 shapes were given for 2 components"),
        (lambda q: af.RandomShuffleQueue(3, 5, af.int32), ValueError, "min_after_dequeue=5 must be less than the"),
        (lambda q: af.QueueBase.from_list(0, [q, af.FIFOQueue(1, af.int32)]), TypeError, "the same dtypes"),
        (lambda q: af.QueueBase.from_list(0, []), TypeError, "a list of queues is expected"),
        (lambda q: af.QueueBase(af.int32, None, None, af.constant(1)), TypeError, "a handle to a queue is needed"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    queue = af.FIFOQueue(3, [af.float32, af.int32], [[], []], name="pair")
    with pytest.raises(kind, match=text):
        build(queue)


def test_what_fails_to_be_built_leaves_the_graph_as_it_was(graph):
    queue = af.FIFOQueue(3, [af.float32, af.int32], [[], []])
    before = graph.version
    for vals in ([1.0, [2]], [1.0, "a"]):
        with pytest.raises((TypeError, ValueError), match=r"fifo_queue_enqueue|component 1 is int32"):
            queue.enqueue(vals)
    assert graph.version == before


def test_names_must_be_those_of_the_components(graph):
    queue = af.FIFOQueue(3, [af.float32, af.int32], names=["a", "b"])
    with pytest.raises(ValueError, match="the components are a, b, not a, c"):
        queue.enqueue({"a": 1.0, "c": 2})
    with pytest.raises(ValueError, match="the components have names: give a dict of a, b"):
        queue.enqueue([1.0, 2])
    with pytest.raises(ValueError, match="have the same names"):
        af.QueueBase.from_list(0, [queue, af.FIFOQueue(3, [af.float32, af.int32])])


# Running


async def test_elements_keep_their_form(graph, session):
    one, two = af.FIFOQueue(3, af.float32), af.FIFOQueue(3, [af.float32, af.string])
    named = af.FIFOQueue(3, [af.float32, af.string], [[], []], names=["x", "y"])
    await session.run(
        [one.enqueue(1.0), two.enqueue((1.0, "a")), named.enqueue_many({"x": [1.0, 2.0], "y": ["a", "b"]})]
    )
    assert await session.run(one.dequeue()) == 1
    assert await session.run(two.dequeue()) == [1, b"a"]
    assert await session.run(named.dequeue()) == {"x": 1, "y": b"a"}
    batch = await session.run(named.dequeue_up_to(1))
    assert {name: value.tolist() for name, value in batch.items()} == {"x": [2], "y": [b"b"]}


async def test_many_who_wait_are_served_in_the_order_they_came(graph, session):
    queue = af.FIFOQueue(100, af.int32, [[]])
    take, put = queue.dequeue(), queue.enqueue_many([list(range(50))])
    tasks = await begun(*[session.run(take) for _ in range(50)])
    assert waiting(session, queue) == (0, 50)
    await session.run(put)
    assert await asyncio.gather(*tasks) == list(range(50))


async def test_what_does_not_depend_on_a_wait_goes_on(graph, session):
    queue, v = af.FIFOQueue(1, af.int32, [[]]), af.Variable(0)
    taken, grown = queue.dequeue(), v.assign_add(1)
    await session.run(v.initializer)
    (task,) = await begun(session.run([taken + 1, grown]))
    assert await session.run(v) == 1
    await session.run(queue.enqueue(5))
    assert await task == [6, 1]


async def test_one_step_may_put_and_take(graph, session):
    queue = af.FIFOQueue(1, af.int32, [[]])
    first, second = queue.enqueue(1), queue.enqueue(2)
    with af.control_dependencies([first]):
        taken = queue.dequeue()
    assert await session.run([taken, first, second]) in ([1, None, None], [2, None, None])
    assert await session.run([queue.size(), queue.is_closed()]) == [1, False]


@pytest.mark.parametrize("how", ["cancel", "timeout", "limit"])
async def test_a_run_that_ends_early_leaves_no_waiter_and_takes_nothing(graph, session, how):
    queue = af.FIFOQueue(3, af.int32, [[]])
    many, full = queue.dequeue_many(5), queue.enqueue_many([[7, 8]])
    await session.run(queue.enqueue_many([[1, 2, 3]]))
    for fetch in (many, [many, af.constant(1) + 1], full):
        if how == "limit":
            with pytest.raises(errors.DeadlineExceededError, match=r"fifo_queue_(dequeue|enqueue)_many"):
                await session.run(fetch, options=af.RunOptions(timeout=1))
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await session.run(fetch)
        else:
            (task,) = await begun(session.run(fetch))
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert "was waiting for 'fifo_queue_" in caught.value.__notes__[0]
        assert waiting(session, queue) == (0, 0)
    assert (await session.run(queue.dequeue_many(3))).tolist() == [1, 2, 3]
    assert await session.run(queue.size()) == 0


async def test_an_error_names_the_operation_and_the_queue(graph, session):
    queue = af.FIFOQueue(3, af.int32, [[]], name="input")
    await session.run(queue.close())
    with pytest.raises(errors.OutOfRangeError, match="queue 'input' is closed and has 0 elements left") as caught:
        await session.run(queue.dequeue(name="next"))
    assert (caught.value.op, caught.value.op_type) == ("next", "queue_dequeue")
    assert "test_queues.py" in caught.value.line
    with pytest.raises(errors.CancelledError, match="queue 'input' is closed") as caught:
        await session.run(queue.enqueue(1))
    assert caught.value.op == "input_enqueue"


async def test_enqueue_many_is_atomic_on_request(graph, session):
    queue = af.FIFOQueue(3, af.int32, [[]])
    await session.run(queue.enqueue(1))
    (task,) = await begun(session.run(queue.enqueue_many([[2, 3, 4]], atomic=True)))
    assert await session.run(queue.size()) == 1
    assert await session.run(queue.dequeue()) == 1
    await task
    assert await session.run(queue.size()) == 3
    with pytest.raises(errors.InvalidArgumentError, match="4 elements at once do not go into"):
        await session.run(queue.enqueue_many([[1, 2, 3, 4]], atomic=True))


async def test_bytes_can_be_the_bound(graph, session):
    queue = af.FIFOQueue(-1, af.float32, [[4]], capacity_bytes=40)
    tasks = await begun(*[session.run(queue.enqueue([[1.0] * 4])) for _ in range(4)])
    assert [task.done() for task in tasks] == [True, True, False, False]
    await session.run(queue.dequeue_many(4))
    await asyncio.gather(*tasks)


async def test_a_queue_chosen_from_a_list(graph, session):
    queues = [af.FIFOQueue(3, af.int32, [[]], names=["n"]) for _ in range(3)]
    index = af.placeholder(af.int32, [])
    chosen = af.QueueBase.from_list(index, queues)
    await session.run(chosen.enqueue({"n": 5}), {index: 2})
    assert await session.run([queue.size() for queue in queues]) == [0, 0, 1]
    assert await session.run(chosen.dequeue(), {index: 2}) == {"n": 5}


async def test_a_queue_in_branches_and_loops(graph, session):
    queue, flag = af.FIFOQueue(10, af.int32, [[]]), af.placeholder(af.bool, [])
    taken = af.cond(flag, lambda: queue.dequeue(), lambda: af.constant(-1))
    total = af.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + queue.dequeue()), [0, 0])[1]
    with af.control_dependencies([queue.enqueue(9)]):
        inside = af.cond(flag, lambda: af.FIFOQueue(5, af.int32, [[]], name="made_inside").size(), lambda: 7)
    assert await session.run(taken, {flag: False}) == -1
    tasks = await begun(session.run(taken, {flag: True}), session.run(total))
    await session.run(queue.enqueue_many([[1, 2, 3, 4]]))
    assert await asyncio.gather(*tasks) == [1, 9]
    assert await session.run(inside, {flag: True}) == 0


async def test_a_loop_that_waits_in_a_queue_can_be_cancelled(graph, session):
    queue = af.FIFOQueue(10, af.int32, [[]])
    total = af.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + queue.dequeue()), [0, 0])[1]
    (task,) = await begun(session.run(total))
    task.cancel()
    await ended(task)
    assert waiting(session, queue) == (0, 0)


# Live


async def test_application_code_and_steps_meet_in_a_queue(graph, session):
    numbers, squares = af.FIFOQueue(2, af.float32, [[]]), af.FIFOQueue(2, af.float32, [[]])
    x = numbers.dequeue()
    step = squares.enqueue(x * x)

    async def feed():
        live = session.queue(numbers)
        for number in range(20):
            await live.put(number)
        await live.close()

    async def steps():
        while True:
            try:
                await session.run(step)
            except errors.OutOfRangeError:
                break
        await session.run(squares.close())

    tasks = [asyncio.create_task(feed()), asyncio.create_task(steps())]
    assert [value async for value in session.queue(squares)] == [n * n for n in range(20)]
    await asyncio.gather(*tasks)


async def test_the_live_queue_is_the_one_of_the_steps(graph, session):
    queue = af.FIFOQueue(3, af.float32, [[2]], name="q")
    live = session.queue(queue)
    assert session.queue(queue.queue_ref) is session.queue("q:0") is live
    await session.run(queue.enqueue([[1.0, 2.0]]))
    assert live.size == 1
    with pytest.raises(ValueError, match=r"component must have shape \[2\], not \[3\]"):
        await live.put([1, 2, 3])
    with pytest.raises(TypeError, match=r"component 0 is float32\[2\]"):
        await live.put("ab")
    for handle, kind in ((af.constant(1), TypeError), (5, TypeError), (queue.enqueue([[1.0, 2.0]]), TypeError)):
        with pytest.raises(kind):
            session.queue(handle)
    with af.Graph().as_default():
        other = af.FIFOQueue(3, af.float32)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        session.queue(other)


# Sharing


def shared(shared_name, **options):
    with af.Graph().as_default() as graph, af.container("c"):
        queue = af.FIFOQueue(3, af.int32, [[]], shared_name=shared_name, **options)
        return graph, queue, queue.enqueue(1), queue.dequeue()


async def test_sessions_share_a_queue_of_a_named_container():
    (g1, q1, put, _), (g2, q2, _, take) = shared("s"), shared("s", name="other")
    async with af.Session(graph=g1) as first, af.Session(graph=g2) as second:
        (task,) = await begun(second.run(take))
        await first.run(put)
        assert await task == 1
        assert first.queue(q1) is second.queue(q2)
        await first.run(put)
    g3, _, _, take = shared("s")
    async with af.Session(graph=g3) as third:
        assert await third.run(take) == 1
    await af.reset(["c"])


async def test_a_reset_of_the_container_releases_who_waits():
    graph, queue, _, take = shared("s")
    session = af.Session(graph=graph)
    (run,) = await begun(session.run(take))
    live = session.queue(queue)
    (application,) = await begun(live.take())
    await af.reset(["c"])
    assert isinstance(await ended(run), errors.CancelledError)
    assert isinstance(await ended(application), errors.CancelledError)
    with pytest.raises(errors.CancelledError, match="queue 's' is gone"):
        await live.put(1)


async def test_closing_a_session_releases_who_waits_in_its_own_queues(graph):
    queue = af.FIFOQueue(3, af.int32, [[]])
    session = af.Session(graph=graph)
    tasks = await begun(session.run(queue.dequeue()), session.queue(queue).take(), session.run(queue.dequeue_many(3)))
    await session.close()
    assert {type(await ended(task)) for task in tasks} == {errors.CancelledError}
    with pytest.raises(RuntimeError, match="the session is closed"):
        session.queue(queue)


async def test_each_session_has_queues_of_its_own_by_default(graph):
    queue = af.FIFOQueue(3, af.int32, [[]], shared_name="s")
    async with af.Session(graph=graph) as first, af.Session(graph=graph) as second:
        await first.run(queue.enqueue(1))
        assert [await session.run(queue.size()) for session in (first, second)] == [1, 0]


# Kinds


async def test_seeds_decide_the_order_of_a_shuffle_queue():
    async def drawn(seed, graph_seed=None, shared_name=None, before=0):
        with af.Graph().as_default() as graph:
            if graph_seed is not None:
                af.set_random_seed(graph_seed)
            for _ in range(before):
                af.no_op()
            queue = af.RandomShuffleQueue(-1, 0, af.int32, [[]], seed=seed, shared_name=shared_name)
            put, take = queue.enqueue_many([list(range(30))]), queue.dequeue_many(30)
        async with af.Session(graph=graph) as session:
            await session.run(put)
            return (await session.run(take)).tolist()

    assert await drawn(1) == await drawn(1) != await drawn(2)
    assert await drawn(None, 5) == await drawn(None, 5) != await drawn(None, 5, before=3)
    assert await drawn(None, 5, "s") == await drawn(None, 5, "s", before=3)
    assert await drawn(None) != await drawn(None)
    assert await drawn(0, 0) == await drawn(0, 0)


async def test_a_priority_queue_gives_the_most_urgent(graph, session):
    queue = af.PriorityQueue(10, [af.string], [[]], names=["when", "what"])
    await session.run(queue.enqueue_many({"when": af.constant([5, 1, 5, 1], af.int64), "what": ["a", "b", "c", "d"]}))
    batch = await session.run(queue.dequeue_many(4))
    assert batch["what"].tolist() == [b"b", b"d", b"a", b"c"]
    assert batch["when"].dtype == np.int64


async def test_a_padding_queue_pads_to_the_largest(graph, session):
    queue = af.PaddingFIFOQueue(10, [af.int32, af.string], [[None], [None]])
    for numbers, texts in (([1], ["a", "b"]), ([1, 2, 3], [])):
        await session.run(queue.enqueue([numbers, af.constant(texts, af.string)]))
    numbers, texts = await session.run(queue.dequeue_many(2))
    assert numbers.tolist() == [[1, 0, 0], [1, 2, 3]]
    assert texts.tolist() == [[b"a", b"b"], [b"", b""]]


# What waiting costs


async def test_a_time_limit_of_the_session_ends_a_run_that_waits(graph):
    queue = af.FIFOQueue(1, af.int32, [[]])
    async with af.Session(graph=graph, config=af.Config(operation_timeout=2)) as session:
        with pytest.raises(errors.DeadlineExceededError, match=r"longer than 2 s.*fifo_queue_dequeue"):
            await session.run(queue.dequeue())
        assert waiting(session, queue) == (0, 0)


async def test_a_run_that_waits_costs_at_most_4_kilobytes(graph):
    queue, count = af.FIFOQueue(-1, af.float32, [[]]), 500
    take = queue.dequeue()
    async with af.Session(graph=graph) as session:
        await session.queue(queue).put(1)
        await session.run(take)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tasks = [asyncio.create_task(session.run(take)) for _ in range(count)]
            await asyncio.sleep(1)
            each = (tracemalloc.get_traced_memory()[0] - before) / count
        finally:
            tracemalloc.stop()
        assert waiting(session, queue) == (0, count)
        assert each < 4096
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert waiting(session, queue) == (0, 0)


async def test_what_was_taken_is_given_back_to_a_full_and_to_a_closed_queue(graph, session):
    queue = af.FIFOQueue(2, [af.int32, af.string], [[], []])
    puts, taken = queue.enqueue_many(([1, 2], ["a", "b"])), queue.dequeue()
    one, more = queue.give_back((3, "c")), queue.give_back_many(([4, 5], ["d", "e"]))
    close, size = queue.close(), queue.size()
    await session.run(puts)
    await session.run(one)
    await session.run(close)
    await session.run(more)
    assert await session.run(size) == 5
    assert [tuple(await session.run(taken)) for _ in range(5)] == list(enumerate([b"a", b"b", b"c", b"d", b"e"], 1))
    with pytest.raises(af.errors.OutOfRangeError):
        await session.run(taken)
    with pytest.raises(ValueError, match="1 components were given"):
        queue.give_back((3,))
