"""Conditional accumulators: stale gradients dropped, none lost, and sums that do not depend on who came first."""

import asyncio
import itertools
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import aioflow as af
from aioflow import errors
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Spec, TensorShape
from aioflow.waiting.accumulators import DenseAccumulator, SparseAccumulator
from tests.support.machines import PLACES, WaitingMachine
from tests.support.scale import amount

NUMBER = Spec(dtypes.int64, SCALAR)


class Accumulators(WaitingMachine):
    """A sum against a list of what it is of."""

    def __init__(self):
        super().__init__()
        self.parts, self.step, self.number = [], 0, 1

    def make(self):
        return DenseAccumulator("tested", NUMBER, mean=False)

    def served(self, entry):
        if len(self.parts) < entry.required:
            return None
        found, self.parts = self.parts, []
        self.step += 1
        return found

    def given_back(self, entry):
        self.parts = entry.outcome + self.parts
        self.step -= 1

    def same(self, entry, found):
        return int(found) == sum(entry.outcome)

    @rule(behind=st.integers(-1, 2), order=st.integers(-1, 2), cancel=PLACES, turn=st.booleans())
    def apply(self, behind, order, cancel, turn):
        taken = self.live.apply(np.int64(self.number), self.step - behind, order)
        assert taken == (behind <= 0)
        if taken:
            self.parts.append(self.number)
        self.number *= 2  # so that a sum tells what it is of
        self.settle()
        self.cancel_now(cancel)
        if turn:
            self.turn()

    @rule(required=st.integers(1, 3))
    def take(self, required):
        self.join(self.live.take(required), required=required)

    @rule(step=st.integers(0, 5))
    def set_step(self, step):
        self.live.set_global_step(step)
        self.step = step

    @rule()
    def numbers(self):
        assert (self.live.num_accumulated, self.live.global_step) == (len(self.parts), self.step)


def test_an_accumulator_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Accumulators, settings=settings(max_examples=amount(10, 150), stateful_step_count=30, deadline=None)
    )


# In task order


async def test_the_sum_is_the_same_to_the_last_bit_whatever_the_order_of_arrival():
    parts = [np.random.default_rng(task).standard_normal(50).astype(np.float32) * 10.0**task for task in range(4)]
    expected = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    for arrival in itertools.permutations(range(4)):
        accumulator = DenseAccumulator("a", Spec(dtypes.float32, TensorShape([50])), mean=False)
        for task in arrival:
            accumulator.apply(parts[task], order=task)
        assert (await accumulator.take(4)).tobytes() == expected.tobytes()


async def test_rows_too():
    indices = [np.array(each) for each in ([3, 1], [1, 2, 1], [0, 3])]
    values = [np.random.default_rng(task).standard_normal((len(each), 5)) for task, each in enumerate(indices)]
    found = set()
    for arrival in itertools.permutations(range(3)):
        accumulator = SparseAccumulator("a", Spec(dtypes.float64, TensorShape([None, 5])))
        for task in arrival:
            accumulator.apply(indices[task], values[task], order=task)
        rows = await accumulator.take(3)
        found.add((rows.indices.tobytes(), rows.values.tobytes()))
    assert len(found) == 1
    dense, times = np.zeros((4, 5)), np.zeros(4)
    for each, value in zip(indices, values, strict=True):
        np.add.at(dense, each, value)
        times[np.unique(each)] += 1
    np.testing.assert_allclose(rows.values, (dense.T / times).T, rtol=1e-12)


@settings(max_examples=amount(15, 50))
@given(st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=5), st.booleans())
def test_rows_add_up_to_what_dense_gradients_would(gradients, mean):
    accumulator = SparseAccumulator("a", Spec(dtypes.int64, TensorShape([6, 1])), mean=False)
    dense = np.zeros(6, np.int64)
    for number, indices in enumerate(gradients):
        values = np.arange(len(indices), dtype=np.int64)[:, None] + 10 * number
        assert accumulator.apply(np.array(indices, np.int64), values)
        np.add.at(dense, np.array(indices, np.int64), values[:, 0])
    with asyncio.Runner() as runner:
        rows = runner.run(accumulator.take(len(gradients)))
    touched = sorted({index for indices in gradients for index in indices})
    assert rows.indices.tolist() == touched
    assert rows.values[:, 0].tolist() == dense[touched].tolist()
    assert rows.rows == 6


def test_gradients_from_many_threads_are_all_counted():
    accumulator = DenseAccumulator("a", Spec(dtypes.int64, TensorShape([1000])), mean=False)

    def work():
        for _ in range(50):
            accumulator.apply(np.ones(1000, np.int64))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accumulator.num_accumulated == 200
    with asyncio.Runner() as runner:
        assert (runner.run(accumulator.take(200)) == 200).all()


async def test_narrow_floats_are_added_as_float32():
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        accumulator = DenseAccumulator("a", Spec(dtypes.as_dtype(dtype), SCALAR))
        for _ in range(3000):
            accumulator.apply(np.ones((), dtype) * 40)
        mean = await accumulator.take(1)
        assert mean.dtype == dtype
        assert float(mean) == 40


async def test_what_was_taken_can_be_given_back():
    accumulator = DenseAccumulator("a", NUMBER, mean=False)
    for number, order in ((1, -1), (2, 0), (4, 1)):
        accumulator.apply(np.int64(number), order=order)
    taken = await accumulator.take_parts(2)
    accumulator.apply(np.int64(8), 1, order=1)
    accumulator.give_back(taken)
    assert (accumulator.num_accumulated, accumulator.global_step) == (4, 0)
    assert await accumulator.take(4) == 15
    assert repr(accumulator) == "<DenseAccumulator 'a' step 1, 0 gradients, 0 taking>"


# Through a session


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def live(session, wanted=DenseAccumulator):
    (found,) = [v for (kind, _), v in session._state.resources.container("").objects().items() if kind is wanted]
    return found


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_training_step_waits_for_all_workers_and_drops_who_is_late(graph, executor):
    accumulator = af.ConditionalAccumulator(af.float32, shape=[2])
    x, step = af.placeholder(af.float32, [2]), af.placeholder(af.int64, [])
    apply = [accumulator.apply_grad(x, step, order=task) for task in range(3)]
    mean = accumulator.take_grad(2)
    assert mean.shape == (2,)
    fed = np.array([1, 2], np.float32)
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        task = asyncio.create_task(session.run(mean))
        await asyncio.sleep(1)
        await session.run(apply[0], {x: fed, step: 0})
        fed[:] = 3
        await session.run(apply[1], {x: fed, step: 0})
        assert (await task).tolist() == [2, 2.5]
        await session.run(apply[2], {x: fed, step: 0})
        assert await session.run(accumulator.num_accumulated()) == 0
        await session.run(accumulator.set_global_step(0))
        await session.run(apply[2], {x: fed, step: 0})
        assert await session.run(accumulator.num_accumulated()) == 1


async def test_cancelling_and_limits_of_time_take_nothing(graph, session):
    accumulator = af.ConditionalAccumulator(af.float32, shape=[])
    take, apply = accumulator.take_grad(2), accumulator.apply_grad(1.0)
    await session.run(apply)
    task = asyncio.create_task(session.run(take))
    await asyncio.sleep(1)
    task.cancel()
    assert isinstance(await ended(task), asyncio.CancelledError)
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(take, options=af.RunOptions(timeout=1))
    assert live(session).waiting == []
    await session.run(apply)
    assert await session.run(take) == 1


async def test_large_gradients_are_added_off_the_loop_and_cancelling_loses_none(graph, session):
    accumulator = af.ConditionalAccumulator(af.float32, shape=[1 << 19], reduction_type="SUM")
    apply = [accumulator.apply_grad(af.ones([1 << 19]), order=task) for task in range(2)]
    take = accumulator.take_grad(2)
    await session.run(apply)
    task = asyncio.create_task(session.run(take))
    for _ in range(2):
        await asyncio.sleep(0)
    task.cancel()
    await ended(task)
    assert (live(session).num_accumulated, live(session).global_step) == (2, 0)
    assert (await session.run(take)).sum() == 1 << 20


async def test_gradients_of_a_look_up_go_through_a_sparse_accumulator(graph, session):
    table = af.Variable(np.arange(10.0).reshape(5, 2), dtype=af.float64)
    looked_up = af.gather(table, [1, 3, 1])
    (gradient,) = af.gradients(af.reduce_sum(looked_up * looked_up), [table])
    accumulator = af.SparseConditionalAccumulator(af.float64, shape=[5, 2])
    apply, taken = accumulator.apply_indexed_slices_grad(gradient), accumulator.take_indexed_slices_grad(2)
    await session.run(table.initializer)
    await session.run(apply)
    await session.run(apply)
    value = await session.run(taken)
    assert value.indices.tolist() == [1, 3]
    assert value.values.tolist() == [[8, 12], [12, 14]]
    assert value.dense_shape.tolist() == [5, 2]


async def test_what_a_run_gives_is_checked(graph, session):
    dense = af.ConditionalAccumulator(af.float32, name="dense")
    rows = af.SparseConditionalAccumulator(af.float32, shape=[5, None], name="rows")
    x, at = af.placeholder(af.float32), af.placeholder(af.int64)
    put, put_rows = dense.apply_grad(x), rows.apply_grad(at, x)
    known = rows.apply_grad(at, x, grad_shape=[4, 2])
    await session.run([put, put_rows], {x: [[1, 2]], at: [0]})
    for fetch, feeds, text in [
        (put, {x: [1, 2]}, r"'dense' of float32 cannot take a gradient of shape \[2\] after one of \[1, 2\]"),
        (put_rows, {x: [[1]], at: [1]}, r"'rows' .* a gradient of shape \[5, 1\] after some of \[5, 2\]"),
        (put_rows, {x: [[1, 2]], at: [1, 2]}, r"values of shape \[1, 2\] with indices of \[2\]"),
        (put_rows, {x: [[1, 2]], at: [5]}, "cannot take row 5 of 5"),
        (put_rows, {x: [[1, 2]], at: [-1]}, "cannot take row -1 of 5"),
        (known, {x: [[1, 2]], at: [1]}, r"cannot take rows of a gradient of float32\[4, 2\]"),
        (known, {x: [[1, 2, 3]], at: [1]}, r"cannot take rows of shape \[3\] for a tensor of shape \[4, 2\]"),
        (dense.take_grad(0), {}, "0 gradients asked of accumulator 'dense'; at least 1"),
        (rows.take_grad(-1), {}, "-1 gradients asked of accumulator 'rows'"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            await session.run(fetch, feeds)
    assert await session.run([dense.num_accumulated(), rows.num_accumulated()]) == [1, 1]


async def test_sessions_that_share_a_container_share_the_accumulator():
    sessions, applies, takes = [], [], []
    for worker in range(2):
        with af.Graph().as_default() as graph, af.container("accumulators"):
            accumulator = af.ConditionalAccumulator(af.float32, shape=[], shared_name="ours")
            applies.append(accumulator.apply_grad(float(worker), order=worker))
            takes.append(accumulator.take_grad(2))
        sessions.append(af.Session(graph=graph))
    async with sessions[0], sessions[1]:
        task = asyncio.create_task(sessions[0].run(takes[0]))
        await asyncio.sleep(1)
        await asyncio.gather(*[session.run(apply) for session, apply in zip(sessions, applies, strict=True)])
        assert await task == 0.5
        waiting = asyncio.create_task(sessions[0].run(takes[0]))
        await asyncio.sleep(1)
        await af.reset(["accumulators"])
        assert isinstance(await ended(waiting), errors.CancelledError)


async def test_reopening_with_another_signature_is_refused(graph, session):
    first = af.ConditionalAccumulator(af.float32, shape=[2], shared_name="ours")
    other = af.ConditionalAccumulator(af.float64, shape=[2], shared_name="ours", reduction_type="SUM")
    await session.run(first.num_accumulated())
    text = "'ours' is shared with dtype=float32, not float64; reduction_type=MEAN, not SUM"
    with pytest.raises(errors.InvalidArgumentError, match=text):
        await session.run(other.num_accumulated())


async def test_closing_the_session_ends_those_who_wait(graph):
    dense, rows = af.ConditionalAccumulator(af.float32), af.SparseConditionalAccumulator(af.float32)
    session = af.Session(graph=graph)
    tasks = [asyncio.create_task(session.run(fetch)) for fetch in (dense.take_grad(1), rows.take_grad(1))]
    await asyncio.sleep(1)
    found = live(session)
    await session.close()
    assert {type(await ended(task)) for task in tasks} == {errors.CancelledError}
    with pytest.raises(errors.CancelledError, match="is gone"):
        found.apply(np.float32(1))


# Building


def test_what_does_not_fit_is_refused_when_it_is_built(graph):
    dense = af.ConditionalAccumulator(af.float32, shape=[2])
    rows = af.SparseConditionalAccumulator(af.float32, shape=[5, 2])
    x, one = af.placeholder(af.float32, [3]), af.constant(1)
    before = graph.version
    for error, text, build in [
        (ValueError, r"the gradient must have shape \[2\], not \[3\]", lambda: dense.apply_grad(x)),
        (TypeError, "has dtype int32, float32 is needed", lambda: dense.apply_grad(one)),
        (ValueError, "order is the place of a task among others", lambda: dense.apply_grad([1.0, 2.0], order=-2)),
        (TypeError, "local_step must be made of integers", lambda: dense.apply_grad([1.0, 2.0], local_step=0.5)),
        (TypeError, "num_required must be made of integers", lambda: dense.take_grad(1.5)),
        (ValueError, "not compatible", lambda: rows.apply_grad([1, 2], [[1.0, 2.0]])),
        (ValueError, r"must have shape \[5, 2\], not \[\?, 3\]", lambda: rows.apply_grad([1], [[1.0, 2.0, 3.0]])),
        (ValueError, "not rank 0", lambda: rows.apply_grad([1], 1.0)),
        (ValueError, "'MEAN' or 'SUM', not 'MAX'", lambda: af.ConditionalAccumulator(af.float32, reduction_type="MAX")),
        (TypeError, "int32 has no mean: use reduction_type='SUM'", lambda: af.ConditionalAccumulator(af.int32)),
        (TypeError, "dtype string is not supported", lambda: af.ConditionalAccumulator(af.string)),
    ]:
        with pytest.raises(error, match=text):
            build()
        assert graph.version == before
    assert repr(dense) == "<af.ConditionalAccumulator 'conditional_accumulator'>"
    assert (dense.name, dense.dtype, dense.shape) == ("conditional_accumulator", af.float32, (2,))
    assert rows.accumulator_ref.op.type == "sparse_conditional_accumulator"


async def test_a_graph_that_was_written_and_read_does_the_same(graph):
    accumulator = af.SparseConditionalAccumulator(af.float32, shape=[None, 1], reduction_type="SUM")
    accumulator.apply_grad([1], [[2.0]], order=3, name="apply")
    accumulator.take_grad(1, name="take")
    with af.Graph().as_default() as copy:
        af.import_graph_def(af.GraphDef.from_json(graph.as_graph_def().to_json()), name="")
        async with af.Session(graph=copy) as session:
            await session.run("apply")
            assert [value.tolist() for value in await session.run(["take:0", "take:1", "take:2"])] == [
                [1],
                [[2]],
                [-1, 1],
            ]


async def test_a_sparse_accumulator_of_shape_nothing_takes_rows_of_any_shape():
    with af.Graph().as_default() as graph:
        accumulator = af.SparseConditionalAccumulator(af.float32, shape=())
        add = accumulator.apply_grad([1], [[2.0, 4.0]])
        average = accumulator.take_indexed_slices_grad(1)
    async with af.Session(graph=graph) as session:
        await session.run(add)
        indices, values = await session.run([average.indices, average.values])
    assert (indices.tolist(), values.tolist()) == ([1], [[2, 4]])
