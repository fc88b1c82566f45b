"""Tensors of BYTES: their strings come back, bytes that do not add up are refused, and the event loop goes on."""

import asyncio
import struct

import numpy as np
import pytest

from aioflow.serving.string_tensors import STRINGS_AT_ONCE, read_strings, write_strings

COUNT = 3 * STRINGS_AT_ONCE + 1
TEXTS = [b"%d" % index * (index % 3) for index in range(COUNT)]
DATA = b"".join([struct.pack("<I", len(text)) + text for text in TEXTS])


async def turns_during(awaitable):
    """The result, and how often another task has run meanwhile."""
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(count())
    try:
        return await awaitable, turns
    finally:
        task.cancel()


async def test_the_event_loop_has_turns_while_many_strings_are_read_and_written():
    found, turns = await turns_during(read_strings(memoryview(DATA), COUNT))
    assert (found.tolist(), turns) == (TEXTS, 3)
    parts, turns = await turns_during(write_strings(found.reshape(1, -1)))
    assert (b"".join(parts), turns) == (DATA, 3)
    assert (await read_strings(memoryview(b""), 0)).shape == (0,)
    assert await write_strings(np.empty((0, 2), object)) == []


@pytest.mark.parametrize(
    ("data", "count", "text"),
    [
        (DATA[:-1], COUNT, f"element {COUNT - 1} of BYTES goes on behind the end"),
        (DATA + b"1", COUNT, "1 bytes follow the last element"),
        (DATA, 2**40, f"{2**40} elements of BYTES need {2**42} bytes or more"),
        (b"\xff\xff\xff\xff", 1, "element 0 of BYTES goes on"),
    ],
)
async def test_bytes_that_do_not_add_up_are_refused(data, count, text):
    with pytest.raises(ValueError, match=text):
        await read_strings(memoryview(data), count)
