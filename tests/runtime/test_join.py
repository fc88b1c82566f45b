import asyncio
import gc
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate, no_leaks, no_pending_tasks
from tests.support.doubles import gated, heavy, light, waiting

HERE, THERE = "/cpu:0", "/cpu:1"


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 3})) as session:
        yield session
        assert session._state.steps == {}
        assert session.detached_kernels == []


def on(device, op, x, *given, **named):
    with af.device(device):
        return op(x, *given, **named)


def fail(value):
    raise ValueError("lost")


def tasks():
    """How many tasks there are besides the test's own."""
    return len(asyncio.all_tasks()) - 1


async def test_parts_that_find_what_they_receive_need_no_task(session, monkeypatch):
    monkeypatch.setattr("aioflow.waiting.tasks.SLICE", 60.0)  # a slow machine would have the first one pause
    seen = []

    def look(value):
        seen.append(tasks())
        return value

    x = on(HERE, light, 1.0, look)
    y = on(THERE, light, x, look)
    assert await session.run([x, y]) == [1.0, 1.0]
    assert seen == [0, 0]


@pytest.mark.parametrize("places", [(HERE, THERE), (THERE, HERE)])
async def test_values_go_there_and_back_whoever_begins(session, places):
    first, second = places
    x = on(first, light, 1.0)
    y = on(second, heavy, x, lambda value: value + 1)
    z = on(first, light, y, lambda value: value * 10)
    assert await session.run([z, y, x]) == [20.0, 2.0, 1.0]


@pytest.mark.parametrize("op", [light, heavy])
@pytest.mark.parametrize("place", [HERE, THERE])
async def test_the_first_error_ends_the_other_parts_and_is_gone_with_who_caught_it(session, place, op):
    other = THERE if place == HERE else HERE
    cancelled = []

    async def wait(value):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    fetches = [on(other, waiting, 1.0, wait), on(place, op, 2.0, fail, name="culprit")]
    gc.collect()
    gc.disable()
    try:
        with no_leaks():
            try:
                await session.run(fetches)
            except af.errors.InvalidArgumentError as error:
                text, found = str(error), weakref.ref(error)
            assert tasks() == 0
        assert found() is None
        assert text.startswith("lost\n  op: 'culprit'")
    finally:
        gc.enable()
    assert cancelled in ([1.0], [])  # the other part may not have begun


@pytest.mark.parametrize("turns", range(4))
async def test_cancelling_ends_all_parts_at_any_time(session, turns):
    gates = [Gate(), Gate()]
    values = [on(device, gated, 1.0, gate) for device, gate in zip((HERE, THERE), gates, strict=True)]
    run = asyncio.create_task(session.run(values))
    for _ in range(turns):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert tasks() == 0
    for gate in gates:
        gate.open()
    np.testing.assert_array_equal(await session.run(values), [1.0, 1.0])


async def test_a_task_that_is_cancelled_before_its_first_turn_ends_its_part_in_order(session):
    """As a runner does that cancels every task there is."""
    ended = []

    async def wait(value):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ended.append(value)
            raise

    fetches = [on(device, waiting, float(n), wait) for n, device in enumerate((HERE, THERE))]
    run = asyncio.create_task(session.run(fetches))
    asyncio.get_running_loop().call_soon(lambda: [task.cancel() for task in asyncio.all_tasks() - {me}])
    me = asyncio.current_task()
    with pytest.raises(asyncio.CancelledError), no_pending_tasks():
        await run
    assert ended == [0.0, 1.0]
