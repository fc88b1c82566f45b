"""Tasks of tests that must be waiting."""

import asyncio


async def waits(coroutine):
    """Start a task, and check that it waits."""
    task = asyncio.create_task(coroutine)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task
