"""Loops that wait for a queue: which of them are one coroutine, and that nobody can tell."""

import asyncio
import itertools
import time

import numpy as np
import pytest

import aioflow as af
from aioflow.program import assemble, pieces
from aioflow.program.codegen import compile_region
from aioflow.waiting.handover import KEPT_OF_LOOPS
from aioflow.waiting.tasks import slice_of

ROWS = np.arange(10, dtype=np.float32).reshape(5, 2) / 10
EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def coroutines(monkeypatch):
    """Whether a loop was compiled into a coroutine that waits, for each program."""
    found = []

    def compiled(statements, *rest):
        found.extend(each.node.waits for each in statements if each.node.definition.name == "while_loop")
        return compile_region(statements, *rest)

    monkeypatch.setattr(assemble, "compile_region", compiled)
    return found


def queue(**more):
    return af.FIFOQueue(10, [af.float32], [[2]], name="source", **more)


def total_of(source, taken=lambda source: source.dequeue(), count=3, name="loop"):
    """The sum of what an iteration takes, after some work on it."""
    start = [af.constant(0), af.zeros([2])]
    return af.while_loop(lambda i, _: i < count, lambda i, t: (i + 1, t + af.tanh(taken(source))), start, name=name)[1]


def one_element(source):
    return total_of(source)


def a_batch(source):
    return total_of(source, lambda source: af.reduce_sum(source.dequeue_many(2), 0), 2)


def in_a_loop(source):
    start = [af.constant(0), af.zeros([2])]
    return af.while_loop(lambda i, _: i < 2, lambda i, t: (i + 1, t * 0.5 + total_of(source, count=2)), start)[1]


def in_a_branch(source):
    return af.cond(source.size() > 1, lambda: total_of(source), lambda: af.zeros([2]))


def puts(source):
    other = af.FIFOQueue(9, [af.float32], [[2]])

    def body(i, t):
        with af.control_dependencies([other.enqueue(t)]):
            return i + 1, af.tanh(t) + 0.1

    last = af.while_loop(lambda i, _: i < 4, body, [af.constant(0), af.ones([2])])[1]
    with af.control_dependencies([last]):
        return last + af.reduce_sum(other.dequeue_many(4), 0)


def changes_what_it_counts(source):
    count = af.Variable(0.0)

    def taken(source):
        element = source.dequeue()
        return element + count.assign_add(af.reduce_sum(element))

    return total_of(source, taken)


def gradient(source):
    x = af.constant([0.3, 0.4])
    start = [af.constant(0), x]
    last = af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, af.tanh(y) * source.dequeue()), start)[1]
    return af.gradients(last, x)[0]


COROUTINES = [one_element, a_batch, in_a_loop, in_a_branch, puts, changes_what_it_counts, gradient]


def two_waits(source):
    return total_of(source, lambda source: source.dequeue() - 2.0 * source.dequeue(), 1)


def an_effect_beside_the_wait(source):
    count = af.Variable(0.0)
    return total_of(source, lambda source: source.dequeue() + count.assign_add(1.0))


def in_the_condition(source):
    def more(i, t):
        return source.dequeue()[0] < 0.5

    return af.while_loop(more, lambda i, t: (i + 1, t + 1.0), [af.constant(0), af.zeros([2])])[1]


def of_any_size(source):
    return total_of(source, lambda source: af.reduce_sum(source.dequeue_up_to(2), 0), 2)


def with_a_loop(source):
    def taken(source):
        start = [af.constant(0), source.dequeue()]
        return af.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, af.tanh(y)), start)[1]

    return total_of(source, taken)


def an_effect_in_the_condition(source):
    count = af.Variable(0.0)
    start = [af.constant(0), af.zeros([2])]
    return af.while_loop(lambda i, _: count.assign_add(1.0) < 4.0, lambda i, t: (i + 1, t + source.dequeue()), start)[1]


def filled_after_the_last_count(source):
    other = af.FIFOQueue(5, [af.float32], [[2]])
    start = [af.constant(0), af.zeros([2])]
    last, total = af.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + other.dequeue()), start)
    with af.control_dependencies([other.enqueue_many(ROWS[:3] * af.cast(last, af.float32))]):
        return af.identity(total)


def filled_with_a_gradient_without_the_wait(source):
    other, x = af.FIFOQueue(5, [af.float32], [[2]]), af.constant([0.3, 0.4])
    start = [af.constant(0), x, af.zeros([2])]
    _, last, total = af.while_loop(lambda i, *_: i < 3, lambda i, y, t: (i + 1, af.tanh(y), t + other.dequeue()), start)
    with af.control_dependencies([other.enqueue_many(ROWS[:3] * af.gradients(last, x)[0])]):
        return af.identity(total)


def _putting_before(given_from):
    """A loop that puts elements, of which what it is given needs one."""
    other = af.FIFOQueue(5, [af.float32], [[2]])
    start, factor = given_from(other)

    def body(i, t):
        with af.control_dependencies([other.enqueue(af.ones([2]))]):
            return i + 1, af.tanh(t) * factor

    return af.while_loop(lambda i, _: i < 3, body, [af.constant(0), start])[1]


def a_start_that_waits(source):
    return _putting_before(lambda other: (other.dequeue(), 1.0))


def a_capture_that_waits(source):
    return _putting_before(lambda other: (af.ones([2]), other.dequeue()))


def in_a_branch_with_a_capture_that_waits(source):
    return af.cond(source.size() > 1, lambda: a_capture_that_waits(source), lambda: af.zeros([2]))


def in_a_loop_before_another_wait(source):
    other = af.FIFOQueue(5, [af.float32], [[2]])

    def body(i, t):
        with af.control_dependencies([other.enqueue(af.ones([2]))]):
            return i + 1, af.tanh(t)

    def outer(i, t):
        last, made = af.while_loop(lambda i, _: i < 2, body, [af.constant(0), t])
        return i + 1, made + af.cast(last, af.float32) * other.dequeue()

    return af.while_loop(lambda i, _: i < 2, outer, [af.constant(0), af.zeros([2])])[1]


OTHERS = [
    two_waits, an_effect_beside_the_wait, in_the_condition, of_any_size, with_a_loop, an_effect_in_the_condition,
    filled_after_the_last_count, filled_with_a_gradient_without_the_wait, a_start_that_waits, a_capture_that_waits,
    in_a_branch_with_a_capture_that_waits, in_a_loop_before_another_wait,
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("program", [*COROUTINES, *OTHERS], ids=lambda program: program.__name__)
async def test_a_loop_is_a_coroutine_if_it_holds_up_nothing_by_waiting(graph, coroutines, program):
    source, found = queue(), []
    result, init, put = program(source), af.global_variables_initializer(), source.enqueue_many(ROWS)
    for executor in ("tokens", "regions"):
        coroutines.clear()
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            await session.run([init, put])
            found.append(await session.run(result, options=af.RunOptions(timeout=60)))
            found.append(session.queue(source).statistics().size)
    np.testing.assert_array_equal(found[0], found[2], strict=True)
    assert found[1] == found[3]
    assert any(coroutines) == (program in COROUTINES)


@EXECUTORS
@pytest.mark.parametrize("given", range(4))
async def test_a_cancelled_loop_has_taken_nothing(graph, executor, given):
    source = queue()
    result, put, rest = total_of(source, count=4), source.enqueue_many(ROWS[:given]), source.dequeue_many(given)
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        running = asyncio.create_task(session.run(result))
        await asyncio.sleep(1)
        if given:
            await session.run(put)
        await asyncio.sleep(1)
        assert session.queue(source).statistics().size == 0
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        np.testing.assert_array_equal(await session.run(rest), ROWS[:given])


@EXECUTORS
@pytest.mark.parametrize("longest", [2.0, pieces.LONGEST])
async def test_a_cancelled_loop_gives_back_no_more_than_it_keeps(graph, monkeypatch, executor, longest):
    monkeypatch.setattr(pieces, "LONGEST", longest)
    count = KEPT_OF_LOOPS + 9
    source = af.FIFOQueue(count, [af.float32], [[2]])
    result, put = total_of(source, count=count + 1), source.enqueue_many(np.ones((count, 2), np.float32))
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        await session.run(put)
        running = asyncio.create_task(session.run(result))
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert session.queue(source).statistics().size == KEPT_OF_LOOPS


async def test_a_closed_queue_ends_the_loop_with_an_error_that_names_the_operation_and_the_iteration(graph):
    source = queue()
    result, put, close = total_of(source), source.enqueue_many(ROWS[:2]), source.close()
    async with af.Session(graph=graph) as session:
        await session.run(put)
        running = asyncio.create_task(session.run(result))
        await asyncio.sleep(1)
        await session.run(close)
        with pytest.raises(af.errors.OutOfRangeError) as caught:
            await running
    assert caught.value.op == "loop/body/source_dequeue"
    assert __file__ in caught.value.line
    assert any("in iteration 2 of 'loop'" in note for note in caught.value.__notes__)


@EXECUTORS
async def test_a_waiting_loop_is_explained_and_may_be_in_a_deadlock(graph, executor):
    source, other = queue(), af.FIFOQueue(1, [af.float32], [[2]], name="other")
    with af.control_dependencies([total_of(source)]):
        one = other.enqueue([[1.0, 2.0]], name="put_other")
    with af.control_dependencies([total_of(other, count=1, name="second")]):
        two = source.enqueue([[1.0, 2.0]], name="put_source")
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        tasks = [asyncio.create_task(session.run(each)) for each in (one, two)]
        await asyncio.sleep(1)
        report = await session.explain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(report.cycles) == 1
    operations = {edge.operation for edge in report.cycles[0].edges}
    assert operations == {"loop/body/source_dequeue", "second/body/other_dequeue"}
    assert "which needs 'put_other'" in str(report)


async def test_a_loop_that_waits_for_the_application_is_explained_and_goes_on(graph):
    source = queue()
    result = total_of(source)
    async with af.Session(graph=graph) as session:
        running = asyncio.create_task(session.run(result))
        await asyncio.sleep(1)
        report = await session.explain()
        assert not report.cycles
        assert "in iteration 0 of 'loop'" in str(report)
        for row in ROWS[:3]:
            await session.queue(source).put(row)
        np.testing.assert_allclose(await running, np.tanh(ROWS[:3]).sum(0), rtol=1e-6)


async def test_other_work_of_the_step_goes_on_while_a_loop_waits(graph):
    source, other = queue(), af.FIFOQueue(3, [af.float32], [[]])
    fetches = [total_of(source), other.enqueue(1.0)]
    async with af.Session(graph=graph) as session:
        running = asyncio.create_task(session.run(fetches))
        assert await session.queue(other).take() == (1.0,)
        assert not running.done()
        for row in ROWS[:3]:
            await session.queue(source).put(row)
        await running


async def test_a_time_limit_names_the_wait(graph):
    result = total_of(queue())
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.DeadlineExceededError, match="loop/body/source_dequeue"):
            await session.run(result, options=af.RunOptions(timeout=5))


async def test_a_loop_that_finds_its_elements_does_not_give_way_before_its_slice_of_time_ends(graph):
    source = af.FIFOQueue(2000, [af.float32], [[2]])
    put, result = source.enqueue_many(np.zeros((2000, 2), np.float32)), total_of(source, count=2000)
    async with af.Session(graph=graph) as session:
        for _ in range(2):
            await session.run(put)
            slice_of(asyncio.get_running_loop()).clock = lambda: time.perf_counter() + 3600  # no slice ends
            turns = await turns_of_the_loop(session.run(result))
    assert turns < 10


async def turns_of_the_loop(work):
    """How often the event loop turns until the work is done."""
    loop, turns = asyncio.get_running_loop(), itertools.count()

    def count():
        next(turns)
        if not done:
            loop.call_soon(count)

    done = []
    count()
    await work
    done.append(True)
    return next(turns)
