"""Batches of rows of several steps, against a simple model in virtual time."""

import asyncio
import random

import numpy as np
import pytest

from aioflow import errors
from aioflow.waiting.batching import Limits, RowBatches
from tests.support.scale import amount

LIMITS = Limits(rows=4, delay=1.0, waiting=3, computing=1)


def rows_of(*numbers):
    return [np.array(numbers, np.int64)]


async def lead(live, rows, names=("twice",)):
    """Give the results of a batch: twice each number."""
    numbers = np.concatenate([values[0] for values in live.take(rows.batch)])
    for name in names:
        live.give(rows.batch, name, rows.batch.divided([2 * numbers]))
    return numbers.tolist()


async def call(live, *numbers, seconds=0.0, batches=None, key=None):
    """What a step does: the results of its rows."""
    rows = await live.join(rows_of(*numbers), len(numbers), key)
    try:
        if rows.leads:
            await asyncio.sleep(seconds)
            batch = await lead(live, rows)
            if batches is not None:
                batches.append((asyncio.get_running_loop().time(), batch))
        (own,) = await live.results(rows, "twice")
        return own.tolist()
    except BaseException:
        live.leave(rows)
        raise


def idle(live):
    """Whether no call waits or computes. The rows of a failed call live as long as its error."""
    return not live.waiting and not live._waiting and not live._computing


async def test_a_batch_begins_when_it_is_full_or_its_oldest_rows_have_waited_long_enough():
    live, batches = RowBatches("rows", LIMITS, held=True), []
    full = [asyncio.create_task(call(live, *numbers, batches=batches)) for numbers in ((1, 2), (3, 4), (5,))]
    assert await asyncio.gather(*full) == [[2, 4], [6, 8], [10]]
    assert batches == [(0.0, [1, 2, 3, 4]), (1.0, [5])]
    assert idle(live)
    assert not live._begun


async def test_rows_that_do_not_fit_or_differ_in_key_are_in_other_batches():
    live, batches = RowBatches("rows", LIMITS, held=True), []
    given = [((1, 2, 3), "a"), ((4, 5), "a"), ((6,), "b"), ((), "a")]
    answers = await asyncio.gather(*[call(live, *numbers, batches=batches, key=key) for numbers, key in given])
    assert answers == [[2, 4, 6], [8, 10], [12], []]
    assert sorted(batch for _, batch in batches) == [[1, 2, 3], [4, 5], [6]]


async def test_too_many_rows_and_too_many_batches_are_refused_with_figures():
    live = RowBatches("rows", LIMITS, held=True)
    with pytest.raises(errors.InvalidArgumentError, match="5 rows were given at once, and a batch has at most 4"):
        await live.join(rows_of(1, 2, 3, 4, 5), 5, None)
    tasks = [asyncio.create_task(call(live, *range(4), seconds=9)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(errors.ResourceExhaustedError, match="3 batches wait to begin"):
        await live.join(rows_of(1), 1, None)
    assert await asyncio.gather(*tasks) == [[0, 2, 4, 6]] * 4
    assert asyncio.get_running_loop().time() == 36.0  # one is computed at a time
    assert idle(live)


async def test_cancelled_rows_leave_a_batch_that_has_not_begun():
    live, batches = RowBatches("rows", LIMITS, held=True), []
    first, second, third = [asyncio.create_task(call(live, number, batches=batches)) for number in (1, 2, 3)]
    await asyncio.sleep(0.5)
    first.cancel()
    assert await asyncio.gather(second, third) == [[4], [6]]
    assert batches == [(1.0, [2, 3])]
    assert idle(live)


@pytest.mark.parametrize("end", [asyncio.CancelledError, ValueError])
async def test_the_others_of_a_held_batch_go_on_alone_without_a_step_that_leads_it(end):
    live, batches = RowBatches("rows", LIMITS, held=True), []

    async def fails():
        rows = await live.join(rows_of(1), 1, None)
        live.leave(rows)
        raise end

    ends = await asyncio.gather(
        fails(), call(live, 2, batches=batches), call(live, 3, 4, batches=batches), return_exceptions=True
    )
    assert isinstance(ends[0], end)
    assert ends[1:] == [[4], [6, 8]]
    assert [batch for _, batch in batches] == [[2], [3, 4]]
    assert idle(live)


async def test_a_cancelled_step_that_does_not_lead_harms_no_other():
    live, batches = RowBatches("rows", LIMITS, held=True), []
    tasks = [asyncio.create_task(call(live, number, seconds=5, batches=batches)) for number in (1, 2, 3)]
    await asyncio.sleep(2)
    tasks[1].cancel()
    assert (await asyncio.gather(*tasks, return_exceptions=True))[::2] == [[2], [6]]
    assert batches == [(6.0, [1, 2, 3])]
    assert idle(live)


async def test_without_hold_all_learn_at_once_and_the_others_fail_with_the_leader():
    live = RowBatches("rows", LIMITS, held=False)
    first, second = await asyncio.gather(live.join(rows_of(1), 1, None), live.join(rows_of(2), 1, None))
    assert (first.leads, second.leads) == (True, False)
    waits = asyncio.create_task(live.results(second, "twice"))
    await asyncio.sleep(1)
    live.leave(first)
    with pytest.raises(errors.AbortedError, match=r"'rows'.*has failed, or ended without these results"):
        await waits


async def test_a_step_that_ends_without_its_part_is_not_waited_for():
    live = RowBatches("rows", LIMITS, held=False)
    first, second = await asyncio.gather(live.join(rows_of(1), 1, None), live.join(rows_of(2), 1, None))
    live.take(first.batch)
    waits = asyncio.create_task(live.results(second, "twice"))
    await asyncio.sleep(1)
    del first
    with pytest.raises(errors.AbortedError, match="ended without these results"):
        await waits
    leader, other = await asyncio.gather(live.join(rows_of(1), 1, None), live.join(rows_of(2), 1, None))
    live.take(leader.batch)
    live.share(leader, "gradient", rows_of(7))
    shares = asyncio.create_task(live.shares(leader.batch, "gradient"))
    await asyncio.sleep(1)
    del other
    assert list(await shares) == [leader.id]


async def test_the_leader_waits_for_the_shares_of_all_that_have_not_failed():
    live = RowBatches("rows", LIMITS, held=False)
    leader, other, lost = await asyncio.gather(*[live.join(rows_of(number), 1, None) for number in (1, 2, 3)])
    live.share(leader, "gradient", rows_of(7))
    waits = asyncio.create_task(live.shares(leader.batch, "gradient"))
    await asyncio.sleep(1)
    live.share(other, "gradient", rows_of(8))
    await asyncio.sleep(1)
    assert not waits.done()
    live.leave(lost)
    assert {number: values[0].tolist() for number, values in (await waits).items()} == {leader.id: [7], other.id: [8]}


async def test_results_with_too_few_rows_and_unknown_numbers_are_refused():
    live = RowBatches("rows", LIMITS, held=True)
    rows = await live.join(rows_of(1, 2), 2, None)
    with pytest.raises(errors.InvalidArgumentError, match=r"shape \[1\] cannot be divided: its batch has 2 rows"):
        rows.batch.divided([np.zeros(1)])
    with pytest.raises(errors.InvalidArgumentError, match="no step has rows of number 0"):
        live.part(0)


async def test_release_ends_all_waits():
    live = RowBatches("rows", LIMITS, held=True)
    tasks = [asyncio.create_task(call(live, number, seconds=5)) for number in (1, 2, 3, 4, 5)]
    await asyncio.sleep(0.5)
    live.release()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert ends[0] == [2]  # its step computes
    assert all(isinstance(end, errors.CancelledError) for end in ends[1:])
    with pytest.raises(errors.CancelledError, match="is gone"):
        await call(live, 1)
    assert idle(live)


@pytest.mark.real
async def test_steps_on_several_loops_share_a_batch():
    live, batches = RowBatches("rows", Limits(rows=3, delay=600, waiting=3, computing=1), held=True), []
    others = [
        asyncio.create_task(asyncio.to_thread(lambda n=number: asyncio.run(call(live, n, batches=batches))))
        for number in (2, 3)
    ]
    assert await call(live, 1, batches=batches) == [2]
    assert await asyncio.gather(*others) == [[4], [6]]
    assert [sorted(batch) for _, batch in batches] == [[1, 2, 3]]
    assert idle(live)


@pytest.mark.parametrize("held", [True, False])
async def test_each_call_gets_its_own_rows_whatever_fails_and_is_cancelled(held):
    for seed in range(amount(40, 400)):
        draw = random.Random(seed)
        live = RowBatches("rows", Limits(draw.randint(1, 6), draw.choice([0, 1, 3]), 99, draw.randint(1, 2)), held)
        await storm(live, draw, held)
        assert idle(live), seed


async def storm(live, draw, held):
    """Calls at random times, some of which fail or are cancelled; the model says that an answer is twice the rows."""
    loop, batches, tasks, begins = asyncio.get_running_loop(), [], [], {}

    async def later(numbers, after, seconds):
        await asyncio.sleep(after)
        begins[tuple(numbers)] = loop.time()
        return await call(live, *numbers, seconds=seconds, batches=batches, key=draw.randint(0, 1))

    for number in range(12):
        numbers = [100 * number + row for row in range(draw.randint(1, live.limits.rows))]
        task = asyncio.create_task(later(numbers, draw.choice([0, 1, 2]), draw.choice([0, 1])))
        tasks.append((numbers, task))
        if draw.random() < 0.3:
            loop.call_later(draw.choice([0.5, 1, 1.5, 2, 3]), task.cancel)
    for numbers, task in tasks:
        (end,) = await asyncio.gather(task, return_exceptions=True)
        lost = (asyncio.CancelledError,) if held else (asyncio.CancelledError, errors.AbortedError)
        assert isinstance(end, lost) or end == [2 * number for number in numbers]
    assert all(len(batch) <= live.limits.rows for _, batch in batches)
    computed = [number for _, batch in batches for number in batch]
    assert len(computed) == len(set(computed))
