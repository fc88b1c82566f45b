"""Functions of the rows of several steps: one step computes, each has its own rows, and none harms another."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import Gate, cluster
from aioflow.waiting.batching import RowBatches


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Doubled:
    """Twice the rows, by a function that records them, waits at a gate, and fails on a negative number."""

    def __init__(self, **settings):
        self.batches, self.gate = [], Gate()
        self.gate.open()
        self.x = af.placeholder(af.float32, [None])
        self.function = af.batch_function(1, **{"max_batch_size": 4, "batch_timeout_micros": 1_000_000} | settings)
        self.y = self.function(self.body)(self.x)

    def body(self, rows):
        result = af.py_func(self.compute, [rows], af.float32)
        result.set_shape([None])
        return result

    async def compute(self, rows):
        self.batches.append(rows.tolist())
        await self.gate.wait()
        if (rows < 0).any():
            raise ValueError("a negative number")
        return 2 * rows

    def run(self, session, *numbers, **options):
        made = af.RunOptions(**options)
        return asyncio.create_task(session.run(self.y, {self.x: np.array(numbers, np.float32)}, options=made))


def batches_of(session, container=""):
    objects = session._state.resources.container(container).objects()
    return [value for (kind, _), value in objects.items() if kind is RowBatches]


async def results(*tasks):
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    return [end.tolist() if isinstance(end, np.ndarray) else type(end) for end in ends]


async def test_steps_share_a_batch_of_an_allowed_size_and_have_their_own_rows(graph):
    doubled = Doubled(allowed_batch_sizes=[1, 4])
    async with af.Session(graph=graph) as session:
        begin = asyncio.get_running_loop().time()
        assert await results(doubled.run(session, 1, 2), doubled.run(session, 3)) == [[2, 4], [6]]
        assert doubled.batches == [[1, 2, 3, 1]]  # filled up by its first row
        assert asyncio.get_running_loop().time() - begin == pytest.approx(1.0)
        assert await results(doubled.run(session, 1, 2), doubled.run(session, 3, 4)) == [[2, 4], [6, 8]]
        assert asyncio.get_running_loop().time() - begin == pytest.approx(1.0)  # a full batch does not wait
        assert await results(doubled.run(session, 5)) == [[10]]
        assert doubled.batches[1:] == [[1, 2, 3, 4], [5]]
        assert not batches_of(session)[0]._begun


async def test_the_others_go_on_without_a_step_that_fails_is_cancelled_or_is_too_late(graph):
    doubled = Doubled()
    async with af.Session(graph=graph) as session:
        tasks = doubled.run(session, 1), doubled.run(session, -2), doubled.run(session, 3)
        assert await results(*tasks) == [errors.InvalidArgumentError, errors.InvalidArgumentError, [6]]
        assert doubled.batches == [[1, -2, 3], [-2], [3]]
        with pytest.raises(errors.InvalidArgumentError, match=r"(?s)negative number.*body/.*test_batching"):
            await tasks[1]
        doubled.batches.clear()
        doubled.gate = Gate()
        tasks = doubled.run(session, 1, timeout=3), doubled.run(session, 2), doubled.run(session, 3)
        waits = asyncio.create_task(results(*tasks))
        await asyncio.sleep(2)
        assert "find a batch in" in str(await session.explain())
        tasks[2].cancel()
        await asyncio.sleep(2)
        doubled.gate.open()
        assert await waits == [errors.DeadlineExceededError, [4], asyncio.CancelledError]
        assert doubled.batches == [[1, 2, 3], [2]]
        early, late = doubled.run(session, 1), doubled.run(session, 2)
        await asyncio.sleep(0.5)
        early.cancel()
        assert await results(early, late) == [asyncio.CancelledError, [4]]
        assert doubled.batches[2:] == [[2]]  # a batch that has not begun does not have the cancelled rows


async def test_too_many_rows_or_batches_fail_alone_and_a_closed_session_ends_the_waits(graph):
    doubled = Doubled(max_enqueued_batches=1)
    doubled.gate = Gate()
    session = af.Session(graph=graph)
    computes, waits = doubled.run(session, 1, 2, 3, 4), doubled.run(session, 5)
    await asyncio.sleep(0.5)
    assert await results(doubled.run(session, *range(5))) == [errors.InvalidArgumentError]
    assert await results(doubled.run(session, 6, 7, 8, 9)) == [errors.ResourceExhaustedError]
    await session.close()
    assert await results(computes, waits) == [errors.CancelledError] * 2


async def test_sessions_and_calls_of_one_shared_name_share_batches():
    seen, graphs = [], []
    for place in range(2):
        with af.Graph().as_default() as graph, af.container("shared"):
            doubled = Doubled(shared_name="ours")
            doubled.batches = seen
            graphs.append((graph, doubled))
            if place:  # the second call in its graph
                doubled.y = doubled.function(doubled.body)(doubled.x)
    async with af.Session(graph=graphs[0][0]) as one, af.Session(graph=graphs[1][0]) as other:
        assert await results(graphs[0][1].run(one, 1), graphs[1][1].run(other, 2)) == [[2], [4]]
    assert seen == [[1, 2]]
    await af.reset(["shared"])


async def test_clients_of_a_cluster_share_batches_and_go_on_without_one_that_is_cancelled():
    def built():
        with af.Graph().as_default() as graph, af.device("/job:ps/task:0"), af.container("shared"):
            tokens = af.FIFOQueue(9, af.float32, shapes=[[]], shared_name="tokens")
            x = af.placeholder(af.float32, [None])
            function = af.batch_function(1, 8, 1_000_000, shared_name="ours")
            y = function(lambda rows: rows * tokens.dequeue() + af.to_float(af.size(rows)))(x)
            return graph, x, y, tokens.enqueue_many([[10.0, 10.0]])

    def run(session, model, *numbers):
        return asyncio.create_task(session.run(model[2], {model[1]: np.array(numbers, np.float32)}))

    models = built(), built()
    async with (
        cluster({"ps": 1, "worker": 2}) as simulated,
        af.Session(simulated.target("worker", 0), graph=models[0][0]) as one,
        af.Session(simulated.target("worker", 1, "other"), graph=models[1][0]) as other,
    ):
        tasks = run(one, models[0], 1), run(other, models[1], 2), run(other, models[1], 3)
        await asyncio.sleep(0.1)
        await one.run(models[0][3])
        assert await results(*tasks) == [[13], [23], [33]]  # one token was taken, by three rows
        await asyncio.sleep(1)
        first, later = run(one, models[0], 1), run(other, models[1], 2)
        assert await results(first, later) == [[12], [22]]
        first = run(one, models[0], 1)
        await asyncio.sleep(0.5)
        later = run(other, models[1], 2, 3)
        await asyncio.sleep(2)
        first.cancel()
        await asyncio.sleep(2)
        await one.run(models[0][3])
        assert await results(first, later) == [asyncio.CancelledError, [22, 32]]


async def test_a_function_of_several_arguments_returns_a_structure_also_inside_a_branch(graph):
    x, w = af.placeholder(af.float32, [None, 3]), af.placeholder(af.float32, [None])
    weights = af.constant(np.arange(6, dtype=np.float32).reshape(3, 2))

    @af.batch_function(num_batch_threads=2, max_batch_size=8, batch_timeout_micros=1000)
    def model(rows, factors):
        return {"product": af.matmul(rows, weights), "most": [af.reduce_max(rows, 1) * factors]}

    result = af.cond(af.size(w) > 0, lambda: model(x, w), lambda: {"product": x[:, :2], "most": [w]})
    assert model(x, w)["product"].shape.as_list() == [None, 2]
    given = [np.random.default_rng(count).random((count, 3)).astype(np.float32) for count in (1, 2, 0, 3)]
    async with af.Session(graph=graph) as session:
        found = await asyncio.gather(*[session.run(result, {x: rows, w: rows[:, 0]}) for rows in given])
    for rows, each in zip(given, found, strict=True):
        if len(rows):
            np.testing.assert_allclose(each["product"], rows @ np.arange(6).reshape(3, 2), rtol=1e-5)
            np.testing.assert_allclose(each["most"][0], rows.max(1) * rows[:, 0], rtol=1e-6)


async def test_the_gradient_of_a_batch_is_that_of_all_its_rows(graph):
    x, w = af.placeholder(af.float64, [None, 2]), af.Variable([[1.0], [3.0]], dtype=af.float64)
    queue = af.BatchQueue(max_batch_size=4, batch_timeout_micros=1000, allowed_batch_sizes=[4])
    (rows,), index, number = queue.batch([x])
    (y,) = queue.unbatch([af.matmul(rows * rows, w)], index, number)
    (dx,) = af.gradients(y * y, x)
    dw, ddx = af.gradients(y * y, w)[0], af.gradients(af.reduce_sum(dx * dx), x)[0]
    with af.Graph().as_default() as alone:
        x2, w2 = af.placeholder(af.float64, [None, 2]), af.constant([[1.0], [3.0]], af.float64)
        y2 = af.matmul(x2 * x2, w2)
        dx2, dw2 = af.gradients(y2 * y2, [x2, w2])
        wanted = [dx2, dw2, af.gradients(af.reduce_sum(dx2 * dx2), x2)[0]]
    given = [np.array([[1.0, 2.0], [0.5, 1.0]]), np.array([[3.0, -1.0]])]
    async with af.Session(graph=graph) as session, af.Session(graph=alone) as other:
        await session.run(w.initializer)
        found = await asyncio.gather(*[session.run([dx, dw, ddx], {x: each}) for each in given])
        for each, (first, _, second) in zip(given, found, strict=True):
            expected = await other.run(wanted, {x2: each})
            np.testing.assert_allclose(first, expected[0])
            np.testing.assert_allclose(second, expected[2])
        expected = await other.run(dw2, {x2: np.concatenate(given)})
        np.testing.assert_allclose(sum(each[1] for each in found), expected)


async def test_without_results_of_the_step_with_the_rows_the_others_are_aborted(graph):
    x = af.placeholder(af.float32, [None])
    queue = af.BatchQueue(max_batch_size=2, batch_timeout_micros=1000)
    (rows,), index, number = queue.batch([x])
    with af.control_dependencies([af.Assert(af.reduce_all(rows > 0), ["not positive"])]):
        (y,) = queue.unbatch([af.identity(rows)], index, number)
    (few,) = queue.unbatch([rows[:1]], index, number)
    async with af.Session(graph=graph) as session:
        runs = [session.run(y, {x: [value]}) for value in (1.0, -1.0)]
        assert await results(*runs) == [errors.InvalidArgumentError, errors.AbortedError]
        runs = [session.run(fetch, {x: [1.0]}) for fetch in (rows, y)]  # the leader ends without a result
        assert await results(*runs) == [[1, 1], errors.AbortedError]
        runs = [session.run(few, {x: [value]}) for value in (1.0, 2.0)]
        assert await results(*runs) == [errors.InvalidArgumentError, errors.AbortedError]


@pytest.mark.parametrize(
    ("error", "text", "build"),
    [
        (ValueError, "max_batch_size is 0, and must be at least 1", lambda x: af.BatchQueue(0, 1)),
        (ValueError, "batch_timeout_micros is -1", lambda x: af.BatchQueue(1, -1)),
        (ValueError, "increase up to max_batch_size=8, and are .4, 2, 8", lambda x: af.BatchQueue(8, 1, [4, 2, 8])),
        (ValueError, "up to max_batch_size=8, and are .4", lambda x: af.batch_function(1, 8, 1, [4])(abs)(x)),
        (ValueError, "num_batch_threads is 0", lambda x: af.batch_function(0, 8, 1)(lambda rows: rows)(x)),
        (TypeError, "shared_name must be text, not 7", lambda x: af.BatchQueue(8, 1, shared_name=7)),
        (TypeError, "allowed_batch_sizes must be a list, not 4", lambda x: af.batch_function(1, 4, 1, 4)),
        (TypeError, "decorates a function, not 3", lambda x: af.batch_function(1, 4, 1)(3)),
        (TypeError, "max_batch_size is a whole number, not 'a'", lambda x: af.BatchQueue("a", 1)),
        (TypeError, "sizes are whole numbers, not .2.5, 4", lambda x: af.BatchQueue(4, 1, [2.5, 4])),
        (ValueError, "function returns None", lambda x: af.batch_function(1, 4, 1)(lambda rows: None)(x)),
        (TypeError, "tensors must be a list of tensors", lambda x: af.BatchQueue(8, 1).batch(x)),
        (ValueError, "at least one tensor", lambda x: af.BatchQueue(8, 1).batch([])),
        (ValueError, "tensor 1 is a scalar", lambda x: af.BatchQueue(8, 1).batch([x, 1.0])),
        (ValueError, "same number of rows, not 2, 3", lambda x: af.BatchQueue(8, 1).batch([[1, 2], [1, 2, 3]])),
        (ValueError, "function returns a scalar, .*reduce_sum", lambda x: af.batch_function(1, 8, 1)(af.reduce_sum)(x)),
        (TypeError, "index and id are the int64 outputs", lambda x: af.BatchQueue(8, 1).unbatch([x], x, 1)),
    ],
)  # fmt: skip
def test_what_makes_no_batch_is_refused_when_it_is_built(graph, error, text, build):
    x = af.placeholder(af.float32, [None])
    before = graph.version
    with pytest.raises(error, match=text):
        build(x)
    assert graph.version in (before, before + 1)  # at most the handle


async def test_rows_that_differ_in_number_are_refused_in_the_run(graph):
    x, y = af.placeholder(af.float32), af.placeholder(af.float32)
    rows, _, _ = af.BatchQueue(8, 1).batch([x, y])
    async with af.Session(graph=graph) as session:
        for value in ([1.0, 2.0], 3.0):
            with pytest.raises(errors.InvalidArgumentError, match="make no batch: they need rows in axis 0"):
                await session.run(rows, {x: [1.0], y: value})


async def test_rows_of_different_shapes_and_dtypes_are_in_different_batches(graph):
    given = [np.ones((1, 2), np.float32), np.ones((1, 3), np.float32), np.ones((1, 2), np.float64)]
    placeholders = [af.placeholder(value.dtype, [None, None]) for value in given]
    queues = [af.BatchQueue(4, 1000, shared_name="ours").batch([x]) for x in placeholders]
    async with af.Session(graph=graph) as session:
        runs = [
            session.run(rows, {x: value}) for ((rows,), _, _), x, value in zip(queues, placeholders, given, strict=True)
        ]
        for found, value in zip(await asyncio.gather(*runs), given, strict=True):
            assert (found.dtype, found.tolist()) == (value.dtype, value.tolist())


async def test_a_batch_function_without_a_gradient_computes_and_refuses_gradients(graph):
    x = af.placeholder(af.float32, [None])

    @af.nondifferentiable_batch_function(1, max_batch_size=4, batch_timeout_micros=0)
    def parts(rows):
        return {"twice": rows * 2.0, "squared": rows * rows}

    found = parts(x)
    with pytest.raises(LookupError, match="nondifferentiable_batch_function has none"):
        af.gradients(found["squared"], x)
    async with af.Session(graph=graph) as session:
        values = await session.run(found, {x: [3.0]})
        assert {name: value.tolist() for name, value in values.items()} == {"twice": [6.0], "squared": [9.0]}
