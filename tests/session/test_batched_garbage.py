"""Batched calls form no cycles of references: memory is free at once, and the garbage collector has nothing to do."""

import asyncio
import gc
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.session.waiting_calls import Batch, BatchedCall
from tests.support.doubles import light


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living():
    """The calls and batches that exist, also those of a test that failed before, whose frames pytest keeps."""
    return {id(each) for each in gc.get_objects() if isinstance(each, (Batch, BatchedCall))}


def fail_for_negative(values):
    if values.min() < 0:
        raise af.errors.InvalidArgumentError("a negative number")
    return values


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(("isolate_errors", "max_rows"), [(False, 4), (True, 16)])
async def test_values_and_errors_are_free_when_their_calls_have_ended(isolate_errors, max_rows):
    before = living()
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2])
        y = light(x, fail_for_negative)
    async with af.Session(graph=graph) as session:
        same = session.batched(y, [x], max_rows=max_rows, isolate_errors=isolate_errors)

        async def ended(*numbers, cancels=False):
            """Weak references to the values, and to the errors, of calls that share batches."""
            values = [np.full((3, 2), number, np.float32) for number in numbers]
            calls = [asyncio.create_task(same(value)) for value in values]
            await asyncio.sleep(0)
            for call in calls if cancels else ():
                call.cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            failed = [each for each in found if isinstance(each, BaseException)]
            return [weakref.ref(each) for each in (*values, *failed)]

        for numbers, cancels, failures in [((1, 2, 3), False, 0), ((-1, -2, -3), False, 3), ((1, 2, 3), True, 3)]:
            left = await ended(*numbers, cancels=cancels)
            await asyncio.sleep(0)  # the tasks of the batches end
            assert len(left) == len(numbers) + failures
            assert [held() is None for held in left] == [True] * len(left)
    assert living() <= before
