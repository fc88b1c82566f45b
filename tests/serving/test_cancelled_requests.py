"""Thousands of cancelled requests to one model."""

import asyncio
import random
import weakref

from aioflow.serving import Batching, Models
from aioflow.testing import Gate
from tests.support.saved_models import GATES, Line, rows, turns
from tests.support.scale import amount

COUNT, STAYING, MOST = amount(2_000, 10_000), 100, 64
UNBEGUN = COUNT // 10


async def storm(version, gate):
    """Send all requests, cancel most of them, and check the others. Returns references to the inputs."""
    inputs = [rows(number) for number in range(COUNT + STAYING)]
    asks = [asyncio.ensure_future(version.infer({"x": array})) for array in inputs]
    staying = random.Random(1).sample(range(len(asks)), STAYING)
    doomed = [asks[number] for number in sorted({*range(len(asks))} - {*staying})]
    for ask in doomed[:UNBEGUN]:
        ask.cancel()  # before it has begun
    await gate.arrived(1)
    for ask in doomed[UNBEGUN:]:
        ask.cancel()  # while it waits, or while its batch runs
    await turns()
    gate.open()
    for number in staying:
        assert (await asks[number])["y"] == [[2.0 * number]]
    assert all(ask.cancelled() for ask in doomed)
    return [weakref.ref(array) for array in inputs]


async def test_cancelled_requests_are_not_run_leave_nothing_and_harm_no_other(tmp_path, monkeypatch):
    gate = Gate()
    monkeypatch.setitem(GATES, "held", gate)
    await Line(2.0, gate="held").save(tmp_path, 1)
    async with Models() as models:
        version = await models.add("line", tmp_path, batching=Batching(max_rows=MOST, max_waiting=COUNT + STAYING))
        held = await storm(version, gate)
        batcher = version.runners[0].batcher
        assert (batcher.statistics.cancelled, batcher.waiting_rows, version.is_used) == (COUNT - UNBEGUN, 0, False)
        assert batcher.statistics.rows <= STAYING + 2 * MOST
        assert not [number for number, each in enumerate(held) if each() is not None]
