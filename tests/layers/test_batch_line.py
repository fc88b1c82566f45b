"""The line of batches that workers take."""

import asyncio

import numpy as np
import pytest

from aioflow.layers.batch_line import BatchLine
from aioflow.layers.blocks import Block
from aioflow.layers.fed import Batch


def line(sizes, number=0, pause_every=None, is_over=lambda: False, wait=0.0):
    """A line of blocks. `sizes` are their numbers of batches of one element, `number` that of the first batch."""
    ends = np.cumsum(sizes)
    made = [Block(Batch([np.arange(end - size, end)]), 1) for size, end in zip(sizes, ends, strict=True)]

    async def others():
        for block in made[1:]:
            await asyncio.sleep(wait)
            yield block

    def next_pause(batch):
        return None if pause_every is None else max(1, -(-batch // pause_every)) * pause_every

    return BatchLine(others(), made[0], number, next_pause, is_over)


async def all_of(line, most=None):
    """The numbers and elements of the blocks until the line ends or pauses."""
    found = []
    while (taken := await line.take(most)) is not None:
        number, block = taken
        found.append((number, block.elements.inputs[0].tolist()))
    return found


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (None, [(4, [0, 1, 2]), (7, [3]), (8, [4, 5])]),
        (2, [(4, [0, 1]), (6, [2]), (7, [3]), (8, [4, 5])]),
        (1, [(4, [0]), (5, [1]), (6, [2]), (7, [3]), (8, [4]), (9, [5])]),
    ],
)
async def test_batches_are_taken_in_their_order_at_most_as_many_as_asked_for(most, expected):
    batches = line([3, 1, 2], 4)
    assert await all_of(batches, most) == expected
    assert (batches.ended, batches.number) == (True, 10)


async def test_workers_pause_within_a_block_until_they_are_resumed():
    batches, found = line([3, 4], 1, pause_every=2), []
    while not batches.ended:
        found.append(await all_of(batches))
        batches.resume()
    assert found == [[(1, [0])], [(2, [1, 2])], [(4, [3, 4])], [(6, [5, 6])]]


async def test_a_line_that_begins_at_a_pause_does_not_pause_there():
    batches = line([3], 2, pause_every=2)
    assert await all_of(batches) == [(2, [0, 1])]
    assert not batches.ended


async def test_the_rest_of_a_block_is_not_taken_when_no_more_batches_are_wanted():
    is_over = False
    batches = line([3, 2], is_over=lambda: is_over)
    assert await batches.take(1)
    is_over = True
    assert await batches.take(1) is None
    assert batches.ended


async def test_the_first_batch_is_taken_even_if_no_more_are_wanted():
    assert await all_of(line([3, 2], is_over=lambda: True), 1) == [(0, [0])]


async def test_several_workers_take_each_batch_once():
    batches = line([2, 1, 3], wait=1.0)
    found = await asyncio.gather(*[all_of(batches, 1) for _ in range(3)])
    assert sorted(each for worker in found for each in worker) == [(number, [number]) for number in range(6)]
