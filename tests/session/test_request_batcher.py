"""Batched calls: when batches begin, whose rows are in them, what callers get, and what errors and cancels leave."""

import asyncio
import gc
import weakref
from collections import Counter

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate, no_leaks
from tests.support.doubles import gated, light, waiting

SECOND = 1.0


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


class Net:
    """A graph that doubles its rows, and notes the rows of each batch; each batch may wait at a gate."""

    def __init__(self, shape=(None, 2), gate=None):
        self.x = af.placeholder(af.float32, shape)
        self.batches = []
        noted = light(self.x, self.note)
        self.y = 2.0 * (noted if gate is None else gated(noted, gate))

    def note(self, rows):
        self.batches.append(rows.tolist())
        return rows

    @property
    def sizes(self):
        return [len(batch) for batch in self.batches]


def row(*values):
    return np.array([values], np.float32)


def rows(count, start=0):
    return np.arange(2 * start, 2 * (start + count), dtype=np.float32).reshape(count, 2)


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


class TestBatches:
    async def test_calls_of_one_turn_share_a_batch_and_each_gets_its_own_rows(self, session):
        net = Net()
        double = session.batched(net.y, [net.x])
        given = [rows(count, start) for start, count in enumerate([1, 3, 1, 2])]
        found = await asyncio.gather(*map(double, given))
        assert net.sizes == [7]
        for mine, theirs in zip(given, found, strict=True):
            np.testing.assert_array_equal(theirs, 2 * mine)
        assert double.statistics.batches == {"idle": 1}
        assert (double.statistics.calls, double.statistics.rows) == (4, 7)

    async def test_a_large_batch_answers_few_calls_in_one_turn_of_the_loop(self, session):
        net = Net()
        double, answered, turn = session.batched(net.y, [net.x], max_rows=400), [], 0

        async def call(place):
            np.testing.assert_array_equal(await double(rows(1, place)), 2 * rows(1, place))
            answered.append(turn)

        calls = [asyncio.create_task(call(place)) for place in range(200)]
        while not all(each.done() for each in calls):
            await asyncio.sleep(0)
            turn += 1
        assert net.sizes == [200]
        assert sorted(Counter(answered).values()) == [8] + 6 * [32]

    async def test_a_call_that_stays_alone_runs_in_its_own_task_after_one_turn(self, session):
        net = Net()
        double = session.batched(net.y, [net.x])
        tasks = []
        net.note = lambda value: tasks.append(asyncio.current_task()) or value
        noted = light(net.x, net.note)
        double = session.batched(2.0 * noted, [net.x])
        for count in (1, 2):
            np.testing.assert_array_equal(await double(rows(count)), 2 * rows(count))
        assert tasks == [asyncio.current_task()] * 2

    async def test_one_call_a_turn_runs_at_once_and_the_others_of_that_turn_share_a_batch(self, session):
        net = Net()
        double = session.batched([net.y], [net.x])
        await double(rows(1))
        for _ in range(3):
            await turns()
            await asyncio.gather(*[double(rows(1, start)) for start in range(5)])
        assert net.sizes == [1] + [1, 4] + [5] * 2

    async def test_while_a_batch_runs_calls_gather_and_begin_when_it_ends(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_delay=1000 * SECOND)
        first = asyncio.create_task(double(rows(1)))
        await gate.arrived()
        others = []
        for start in range(1, 6):
            others.append(asyncio.create_task(double(rows(1, start))))
            await turns()
        assert net.sizes == [1]
        gate.open()
        await asyncio.gather(first, *others)
        assert net.sizes == [1, 5]

    async def test_calls_that_follow_an_answer_at_once_are_in_the_next_batch(self, session):
        net = Net()
        double = session.batched(net.y, [net.x])

        async def client():
            for turn in range(4):
                assert (await double(rows(1, turn))).tolist() == (2 * rows(1, turn)).tolist()

        await asyncio.gather(*[client() for _ in range(8)])
        assert net.sizes == [8] * 4

    async def test_a_full_batch_begins_beside_one_that_runs_and_a_third_waits(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_rows=4, max_delay=1000 * SECOND)
        runs = [asyncio.create_task(double(rows(1)))]
        await gate.arrived()
        runs += [asyncio.create_task(double(rows(1, start))) for start in range(11)]
        await gate.arrived(2)
        await turns()
        assert net.sizes == [1, 4]
        gate.open()
        await asyncio.gather(*runs)
        assert net.sizes == [1, 4, 4, 3]
        assert double.statistics.batches == {"idle": 2, "full": 2}

    async def test_the_oldest_call_waits_for_the_delay_and_no_longer(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_delay=5 * SECOND)
        loop = asyncio.get_running_loop()
        runs = [asyncio.create_task(double(rows(1)))]
        await gate.arrived()
        begin = loop.time()
        runs.append(asyncio.create_task(double(rows(1, 1))))
        await asyncio.sleep(3 * SECOND)
        runs.append(asyncio.create_task(double(rows(1, 2))))
        await gate.arrived(2)
        assert loop.time() - begin == pytest.approx(5 * SECOND)
        assert net.sizes == [1, 2]
        gate.open()
        await asyncio.gather(*runs)
        assert double.statistics.batches == {"idle": 1, "delay": 1}

    @pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 23])
    async def test_the_rows_of_one_call_are_divided_over_batches_and_come_back_in_order(self, session, count):
        net = Net()
        double = session.batched([net.y, {"x": net.x}], [net.x], max_rows=4)
        y, fed = await double(rows(count))
        np.testing.assert_array_equal(y, 2 * rows(count))
        np.testing.assert_array_equal(fed["x"], rows(count))
        assert sum(net.sizes) == count
        assert max(net.sizes) <= 4

    async def test_calls_of_many_sizes_fill_batches_whole(self, session):
        net = Net()
        double = session.batched(net.y, [net.x], max_rows=8)
        sizes = [3, 9, 1, 20, 0, 2, 5]
        given = [rows(count, 100 * start) for start, count in enumerate(sizes)]
        for mine, theirs in zip(given, await asyncio.gather(*map(double, given)), strict=True):
            np.testing.assert_array_equal(theirs, 2 * mine)
        assert net.sizes == [8] * 5

    async def test_rows_of_different_shapes_are_in_different_batches(self, session):
        net = Net((None, None))
        double = session.batched(net.y, [net.x])
        given = [np.ones((2, width), np.float32) for width in (1, 3, 1, 3, 2)]
        for mine, theirs in zip(given, await asyncio.gather(*map(double, given)), strict=True):
            np.testing.assert_array_equal(theirs, 2 * mine)
        assert sorted(net.sizes) == [2, 4, 4]

    async def test_rows_are_padded_to_the_next_bucket_and_results_are_cut_again(self, session):
        net = Net((None, None))
        total = af.reduce_sum(net.x, 1)
        double = session.batched([net.y, total], [net.x], buckets=[8, 2, 4])
        given = [np.full((2, width), width, np.float32) for width in (1, 2, 3, 4, 7, 8)]
        for mine, (theirs, sums) in zip(given, await asyncio.gather(*map(double, given)), strict=True):
            np.testing.assert_array_equal(theirs, 2 * mine)
            np.testing.assert_array_equal(sums, mine.sum(1))
        assert sorted(np.shape(batch) for batch in net.batches) == [(4, 2), (4, 4), (4, 8)]
        with pytest.raises(ValueError, match=r"size 9, and the largest bucket is 8"):
            await double(np.ones((1, 9), np.float32))

    async def test_strings_are_padded_with_empty_ones(self, session):
        words = af.placeholder(af.string, [None, None])
        joined = af.strings.reduce_join(words, 1)
        join = session.batched(joined, [words], buckets=[4])
        found = await asyncio.gather(join([["a", "b"]]), join([["c", "d", "e"]]))
        assert [value.tolist() for value in found] == [[b"ab"], [b"cde"]]

    async def test_a_graph_with_a_fixed_number_of_rows_gets_that_many(self, session):
        net = Net((4, 2))
        double = session.batched(net.y, [net.x], max_rows=100)
        given = [rows(count, count) for count in (1, 6, 0, 3)]
        for mine, theirs in zip(given, await asyncio.gather(*map(double, given)), strict=True):
            np.testing.assert_array_equal(theirs, 2 * mine)
        assert net.sizes == [4, 4, 4]
        assert (await double(rows(0))).shape == (0, 2)
        assert net.sizes == [4] * 4

    async def test_several_feeds_stay_in_step(self, session):
        x, y = af.placeholder(af.float32, [None, 2]), af.placeholder(af.int32, [None])
        add = session.batched(x + af.cast(y, af.float32)[:, None], feeds=[y, x])
        found = await asyncio.gather(*[add([k, k + 1], rows(2, k)) for k in range(5)])
        for k, mine in enumerate(found):
            np.testing.assert_array_equal(mine, rows(2, k) + np.array([[k], [k + 1]], np.float32))
        with pytest.raises(ValueError, match="different numbers of rows"):
            await add([1], rows(2))

    async def test_the_urgent_are_served_first_and_the_rest_in_order(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_rows=2, max_delay=1000 * SECOND, priorities=3)
        runs = [asyncio.create_task(double(rows(2)))]
        await gate.arrived()
        runs.append(asyncio.create_task(double(rows(2))))
        await gate.arrived(2)
        for start, priority in enumerate([2, 1, 0, 2, 1, 0]):
            runs.append(asyncio.create_task(double(row(start, priority), priority=priority)))
        await turns()
        gate.open()
        await asyncio.gather(*runs)
        assert [[level for _, level in batch] for batch in net.batches[2:]] == [[0, 0], [1, 1], [2, 2]]
        assert [number for batch in net.batches[2:] for number, _ in batch] == [2, 5, 1, 4, 0, 3]

    async def test_a_full_batch_of_one_shape_does_not_overtake_older_calls_of_another(self, session):
        net = Net((None, None))

        async def wait(value):
            await asyncio.sleep(SECOND)
            return value

        same = session.batched(waiting(net.y, wait), [net.x], max_rows=2)
        left = 20

        async def client():
            nonlocal left
            while left:
                left -= 1
                await same(rows(2))

        clients = [asyncio.create_task(client()) for _ in range(4)]
        await asyncio.sleep(SECOND / 2)
        async with asyncio.timeout(5 * SECOND):
            assert (await same(np.ones((1, 3)))).tolist() == [[2, 2, 2]]
        assert left
        await asyncio.gather(*clients)

    async def test_a_call_left_by_full_batches_of_its_turn_waits_for_them(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_rows=4, priorities=2)
        runs = [asyncio.create_task(double(rows(1), priority=1)), asyncio.create_task(double(rows(8)))]
        await gate.arrived(2)
        await turns()
        assert net.sizes == [4, 4]
        gate.open()
        await asyncio.gather(*runs)
        assert net.sizes == [4, 4, 1]

    async def test_values_of_any_rank_are_padded(self, session):
        x = af.placeholder(af.float32)
        double = session.batched(2.0 * x, [x], buckets=[4])
        for shape in ((2,), (2, 3), (1, 3, 2), (1, 4)):
            np.testing.assert_array_equal(await double(np.ones(shape)), np.full(shape, 2.0))

    async def test_large_values_are_put_together_by_a_thread(self, session):
        x = af.placeholder(af.float32, [None, 400_000])
        first = session.batched(x[:, :2], [x])
        given = [np.full((1, 400_000), k, np.float32) for k in range(4)]
        found = await asyncio.gather(*map(first, given))
        assert [value[0, 0] for value in found] == [0, 1, 2, 3]
        assert first.statistics.batches == {"idle": 1}

    async def test_rows_are_the_callers_own_and_keep_no_large_batch_in_memory(self, session):
        net = Net((None, 5000))
        double = session.batched(net.y, [net.x])
        given = np.ones((1, 5000), np.float32)
        one, other = await asyncio.gather(double(given), double(given))
        one[:] = 7
        assert (other == 2).all()
        assert one.base is None


class TestErrors:
    async def test_a_bad_value_fails_its_own_call_alone(self, session):
        net = Net()
        double = session.batched(net.y, [net.x])
        bad = [double(rows(1)[:, :1]), double([["a", "b"]]), double(), double(1.0), double(rows(1), priority=1)]
        found = await asyncio.gather(double(rows(1)), *bad, double(rows(2)), return_exceptions=True)
        assert [type(each) for each in found[1:-1]] == [ValueError, TypeError, TypeError, ValueError, ValueError]
        np.testing.assert_array_equal(found[0], 2 * rows(1))
        np.testing.assert_array_equal(found[-1], 2 * rows(2))
        assert net.sizes == [3]

    @pytest.mark.parametrize("priority", [0.5, "0", None])
    async def test_a_priority_that_is_no_whole_number_fails_its_own_call_alone(self, session, priority):
        net = Net((None, None))
        double = session.batched(net.y, [net.x], max_rows=4)
        with pytest.raises(TypeError, match="priority is a whole number"):
            await double(np.ones((1, 3)), priority=priority)
        async with asyncio.timeout(10 * SECOND):
            found = await asyncio.gather(*[double(rows(3)) for _ in range(4)])
        np.testing.assert_array_equal(found, [2 * rows(3)] * 4)

    async def test_the_error_of_a_kernel_is_that_of_all_calls_of_its_batch_and_of_no_other(self, session):
        net = Net()
        positive = af.check_numerics(1.0 / net.x, "a zero")
        invert = session.batched(positive, [net.x], max_rows=2)
        found = await asyncio.gather(*[invert(row(k, 1)) for k in (1, 0, 2, 4)], return_exceptions=True)
        assert [isinstance(each, af.errors.InvalidArgumentError) for each in found] == [True, True, False, False]
        assert found[0] is not found[1]
        assert "a zero" in str(found[0])
        assert (await invert(row(4, 1))).tolist() == [[0.25, 1]]

    async def test_isolated_the_calls_of_a_failed_batch_run_again_one_by_one(self, session):
        x = af.placeholder(af.float32, [None, 2])
        invert = session.batched(af.check_numerics(1.0 / x, "a zero"), [x], max_rows=3, isolate_errors=True)
        given = [row(1, 1), row(0, 1), row(2, 2), np.array([[4, 4], [0, 4]], np.float32), row(8, 8)]
        found = await asyncio.gather(*map(invert, given), return_exceptions=True)
        assert invert.statistics.batches == {"full": 2}
        failed = [isinstance(each, af.errors.InvalidArgumentError) for each in found]
        assert failed == [False, True, False, True, False]
        np.testing.assert_array_equal(found[0], [[1, 1]])
        np.testing.assert_array_equal(found[4], [[0.125, 0.125]])

    async def test_isolated_a_call_that_was_cancelled_is_not_run_again(self, session):
        given, gates = [], [Gate(), Gate()]

        async def check(value):
            given.append(value[:, 0].tolist())
            await gates[min(len(given), 2) - 1].wait()
            if value.min() < 0:
                raise af.errors.InvalidArgumentError("a negative number")
            return value

        x = af.placeholder(af.float32, [None, 2])
        same = session.batched(waiting(x, check), [x], isolate_errors=True)
        runs = [asyncio.create_task(same(row(number, 1))) for number in (1, -1, 2)]
        await gates[0].arrived()
        gates[0].open()
        await gates[1].arrived()
        runs[1].cancel()
        gates[1].open()
        await asyncio.wait(runs)
        assert given == [[1, -1, 2], [1], [2]]

    async def test_a_divided_call_whose_rows_do_not_fit_together_fails_alone(self, session):
        x = af.placeholder(af.float32, [None, 3])
        cut = session.batched(x[:, : af.cast(af.reduce_max(x), af.int32)], [x], max_rows=2)
        divided = np.array([[1, 1, 1], [1, 1, 1], [2, 2, 2]])
        bad, good = await asyncio.gather(cut(divided), cut([[2, 2, 2]]), return_exceptions=True)
        assert isinstance(bad, af.errors.InvalidArgumentError)
        assert "[[2, 1], [1, 2]]" in str(bad)
        assert good.tolist() == [[2, 2]]

    async def test_what_exceeds_the_room_is_refused_at_once(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_rows=2, max_waiting=5)
        runs = [asyncio.create_task(double(rows(2))) for _ in range(4)]
        await gate.arrived(2)
        assert double.has_room
        runs.append(asyncio.create_task(double(rows(1))))
        await turns()
        assert not double.has_room
        with pytest.raises(af.errors.ResourceExhaustedError, match="5 rows wait, and 1 more"):
            await double(rows(1))
        gate.open()
        await asyncio.gather(*runs)
        assert double.statistics.refused == 1
        np.testing.assert_array_equal(await double(rows(1)), 2 * rows(1))

    async def test_a_result_without_a_row_for_each_row_is_an_error(self, session):
        x = af.placeholder(af.float32, [None, 2])
        distinct = session.batched(af.boolean_mask(x, x[:, 0] > 0), [x])
        with pytest.raises(af.errors.InvalidArgumentError, match=r"has shape \[1, 2\] for a batch of 2 rows"):
            await distinct(rows(2))

    async def test_what_cannot_be_batched_is_refused_when_it_is_built(self, session):
        net = Net()
        scalar = af.placeholder(af.float32, [])
        fixed = af.placeholder(af.float32, [3, 2])
        v, empty = af.Variable(1.0), af.placeholder(af.float32, [0, 2])
        sparse = af.SparseTensor(af.where(net.x > 0), af.boolean_mask(net.x, net.x > 0), [2, 2])
        for fetches, feeds in [
            (af.reduce_sum(net.y), [net.x]), (net.y, [scalar]), (net.y, []), ([net.y, v.initializer], [net.x]),
            (net.y, [net.x, fixed]), ([], [net.x]), (empty, [empty]), ([net.y, af.constant([[1.0, 2]])], [net.x]),
            (fixed[:2], [fixed]), (sparse, [net.x]),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=r"row|feeds one tensor"):
                session.batched(fetches, feeds)
        numbers = {"max_rows": 0}, {"max_delay": -1.0}, {"max_waiting": 0}, {"priorities": 0}
        for wrong in (*numbers, {"buckets": [0]}, {"buckets": [2.5]}, {"buckets": [4, "8"]}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                session.batched(net.y, [net.x], **wrong)
        for wrong in ({"max_rows": None}, {"max_delay": "0"}, {"buckets": 4}):
            with pytest.raises(TypeError, match=next(iter(wrong))):
                session.batched(net.y, [net.x], **wrong)

    async def test_after_the_session_nothing_runs(self, graph):
        gate = Gate()
        net = Net(gate=gate)
        async with af.Session(graph=graph) as session:
            double = session.batched(net.y, [net.x], max_rows=1)
            runs = [asyncio.create_task(double(rows(1))) for _ in range(5)]
            await gate.arrived(2)
        found = await asyncio.gather(*runs, return_exceptions=True)
        assert [type(each) for each in found] == [af.errors.CancelledError] * 2 + [RuntimeError] * 3
        with pytest.raises(RuntimeError, match="closed"):
            await double(rows(1))


class TestCancelling:
    @pytest.mark.parametrize("steps", range(8))
    async def test_at_each_await_the_others_get_their_rows(self, session, steps):
        net = Net()
        double = session.batched(net.y, [net.x])
        runs = [asyncio.create_task(double(rows(1, start))) for start in range(3)]
        await turns(steps)
        runs[0].cancel()
        found = await asyncio.gather(*runs, return_exceptions=True)
        for start in (1, 2):
            np.testing.assert_array_equal(found[start], 2 * rows(1, start))
        np.testing.assert_array_equal(await double(rows(1)), 2 * rows(1))

    async def test_a_call_that_is_cancelled_before_its_batch_is_never_run(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_delay=1000 * SECOND)
        first = asyncio.create_task(double(rows(1)))
        await gate.arrived()
        second = asyncio.create_task(double(rows(1, 1)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SECOND):
                await double(rows(1, 2))
        gate.open()
        await asyncio.gather(first, second)
        assert net.batches == [rows(1).tolist(), rows(1, 1).tolist()]
        assert double.statistics.cancelled == 1

    async def test_a_call_that_runs_in_its_own_task_is_cancelled_with_it(self, session):
        gates = [Gate(), Gate(), Gate()]
        gates[0].open()
        gates[2].open()
        coming = iter(gates)

        async def wait(value):
            await next(coming).wait()
            return value

        x = af.placeholder(af.float32, [None, 2])
        same = session.batched(waiting(x, wait), [x])
        await same(rows(1))
        await turns()
        run = asyncio.create_task(same(rows(1)))
        await gates[1].arrived()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not (await session.explain()).waits
        assert same.statistics.cancelled == 1
        np.testing.assert_array_equal(await same(rows(1)), rows(1))

    async def test_a_batch_without_callers_is_cancelled(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_delay=1000 * SECOND)
        runs = [asyncio.create_task(double(rows(1, start))) for start in range(2)]
        await gate.arrived()
        for run in runs:
            run.cancel()
            await turns()
        assert not (await session.explain()).waits
        gate.open()
        np.testing.assert_array_equal(await double(rows(1)), 2 * rows(1))

    @pytest.mark.parametrize("steps", range(2, 6))
    async def test_a_batch_that_others_cancel_ends_its_calls(self, session, steps):
        double = session.batched(gated(af.placeholder(af.float32, [None, 2], "x"), Gate()), ["x:0"])
        before = asyncio.all_tasks()
        runs = {asyncio.create_task(double(rows(1))) for _ in range(2)}
        await turns(steps)
        for task in asyncio.all_tasks() - before - runs:
            task.cancel()
        done, _ = await asyncio.wait(runs, timeout=SECOND)
        assert done == runs
        assert all(run.cancelled() for run in runs)

    async def test_a_cancelled_call_does_not_hold_its_batcher_for_the_delay(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_delay=1000 * SECOND)
        first = asyncio.create_task(double(rows(1)))
        await gate.arrived()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SECOND):
                await double(rows(1, 1))
        gate.open()
        await first
        await turns()
        held = weakref.ref(double)
        del double
        gc.collect()
        assert held() is None

    async def test_a_divided_call_leaves_nothing_behind(self, session):
        gate = Gate()
        net = Net(gate=gate)
        double = session.batched(net.y, [net.x], max_rows=2, max_delay=1000 * SECOND)
        run = asyncio.create_task(double(rows(9)))
        await gate.arrived(2)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await turns()
        gate.open()
        np.testing.assert_array_equal(await double(rows(1)), 2 * rows(1))
        assert net.sizes == [2, 2, 1]

    async def test_ten_thousand_cancelled_calls_leave_nothing(self, graph):
        net = Net()
        with no_leaks():
            async with af.Session(graph=graph) as session:
                double = session.batched(net.y, [net.x], max_waiting=20_000)
                runs = [asyncio.create_task(double(rows(1))) for _ in range(10_000)]
                await asyncio.sleep(0)
                for run in runs[1:]:
                    run.cancel()
                found = await asyncio.gather(*runs, return_exceptions=True)
                np.testing.assert_array_equal(found[0], 2 * rows(1))
                assert double.statistics.cancelled == 9_999
                del runs, found
        gc.collect()


async def test_after_an_abort_batches_go_on_calls_that_wait_fail_and_later_ones_are_refused(session):
    gate, lost = Gate(), af.errors.UnavailableError("the task is lost")
    net = Net(gate=gate)
    double = session.batched(net.y, [net.x], max_rows=2)
    running = [asyncio.create_task(double(rows(2, start))) for start in range(2)]
    await gate.arrived(2)
    waits = asyncio.create_task(double(rows(1)))
    await turns()
    double.abort(lost)
    with pytest.raises(af.errors.UnavailableError, match="the task is lost") as refused:
        await double(rows(1))
    with pytest.raises(af.errors.UnavailableError, match="the task is lost") as unbegun:
        await waits
    assert (refused.value.begun, unbegun.value.begun, lost.begun) == (False, False, True)
    gate.open()
    for start, call in enumerate(running):
        np.testing.assert_array_equal(await call, 2 * rows(2, start))


async def test_a_call_of_which_some_rows_have_begun_has_begun(session):
    gate = Gate()
    net = Net(gate=gate)
    double = session.batched(net.y, [net.x], max_rows=2)
    call = asyncio.create_task(double(rows(6)))  # two of its three batches run
    await gate.arrived(2)
    double.abort(af.errors.UnavailableError("the task is lost"))
    with pytest.raises(af.errors.UnavailableError, match="the task is lost") as failed:
        await call
    assert failed.value.begun
    gate.open()
    await turns(20)
