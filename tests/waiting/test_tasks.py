"""Tasks that several callers await, and coroutines that are driven in a context of their own."""

import asyncio
import contextvars

import pytest

from aioflow import errors
from aioflow.waiting.tasks import in_context, shared_result

NAME = contextvars.ContextVar("name", default="outside")


def inside():
    context = contextvars.Context()
    context.run(NAME.set, "inside")
    return context


async def test_a_coroutine_in_a_context_sees_its_variables_and_others_do_not():
    seen, gate = [], asyncio.Event()

    async def work():
        seen.append(NAME.get())
        await gate.wait()
        seen.append(NAME.get())
        return NAME.get()

    async def opens():
        seen.append(NAME.get())
        gate.set()

    driven = in_context(inside(), work(), lambda: seen.append("next"), lambda: seen.append("waits"))
    found, _ = await asyncio.gather(driven, opens())
    assert found == "inside"
    assert seen == ["next", "inside", "waits", "outside", "next", "inside"]


async def test_errors_and_cancels_reach_a_coroutine_in_a_context():
    seen = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(NAME.get())
            await asyncio.sleep(0)
            raise ValueError("instead") from None

    async def run():
        await in_context(inside(), work(), int, int)

    task = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(ValueError, match="instead"):
        await task
    assert seen == ["inside"]


def test_a_coroutine_in_a_context_is_closed_with_it():
    seen = []

    async def work():
        try:
            await Yields()
        finally:
            seen.append("closed")

    class Yields:
        def __await__(self):
            yield

    coroutine = in_context(inside(), work(), int, int)
    coroutine.send(None)
    coroutine.close()
    assert seen == ["closed"]


async def test_callers_of_a_shared_task_that_is_cancelled_get_an_error_and_a_cancelled_caller_is_cancelled():
    task = asyncio.create_task(asyncio.sleep(1.0))
    first, second = [asyncio.create_task(shared_result(task, lambda: errors.CancelledError("closed"))) for _ in "12"]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert not task.done()
    task.cancel()
    with pytest.raises(errors.CancelledError, match="closed"):
        await second
