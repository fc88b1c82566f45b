"""Planning of large graphs on threads: how the interpreter is set meanwhile, and what the loop notices."""

import asyncio
import gc
import sys
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.runtime import call_cache, planning_thread
from aioflow.runtime.planning_thread import plan_beside, plan_on
from tests.support.scale import amount

INTERVAL = sys.getswitchinterval()


def state():
    return gc.isenabled(), sys.getswitchinterval()


@pytest.fixture(autouse=True)
def usual():
    assert state() == (True, INTERVAL)
    yield
    assert state() == (True, INTERVAL)


@pytest.mark.real
async def test_no_collection_begins_while_work_goes_on_that_may_overlap_with_other_work():
    begun, end = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def work(number):
        begun[number].set()
        end[number].wait()
        return state()

    loop = asyncio.get_running_loop()
    first, second = (asyncio.ensure_future(plan_beside(lambda number=number: work(number))) for number in range(2))
    for event in begun:
        await loop.run_in_executor(None, event.wait)
    assert not gc.isenabled()
    end[1].set()
    assert not (await second)[0]
    assert not gc.isenabled()
    end[0].set()
    assert not (await first)[0]
    assert state() == (True, INTERVAL)


async def test_threads_take_turns_more_often_before_the_work_begins():
    class Threads:
        async def run(self, work, what):
            found.append(state())
            return work()

    found = []
    assert await plan_on(Threads(), state) == found[0]
    assert not found[0][0]
    assert found[0][1] < INTERVAL


@pytest.mark.real
async def test_after_an_error_all_is_as_before():
    def work():
        raise KeyError(state()[0])

    with pytest.raises(KeyError, match="False"):
        await plan_beside(work)


@pytest.fixture
def nothing_frozen(monkeypatch):
    """No object is frozen, and no planning has found any."""
    monkeypatch.setattr(planning_thread, "_UNNOTICED", planning_thread._Unnoticed())
    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    gc.collect()
    yield
    (gc.freeze if was_frozen else gc.unfreeze)()


def some_thousands():
    return [[] for _ in range(5_000)]


@pytest.mark.real
async def test_what_was_made_is_old_and_what_the_application_has_frozen_stays_frozen(nothing_frozen):
    made = await plan_beside(some_thousands)
    assert len(gc.get_objects(generation=0)) < 4_000
    assert gc.get_freeze_count() < 1000
    gc.freeze()
    more = await plan_beside(some_thousands)
    assert gc.get_freeze_count() >= len(made)
    assert len(gc.get_objects(generation=0)) > len(more)


@pytest.mark.real
async def test_what_the_application_has_frozen_is_counted_once(nothing_frozen, monkeypatch):
    gc.freeze()
    counted, count = [], gc.get_freeze_count
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(count()) or counted[-1])
    kept = [await plan_beside(some_thousands) for _ in range(3)]
    assert len(counted) == 1 < len(kept)


@pytest.mark.real
async def test_an_application_without_automatic_collection_stays_without():
    gc.disable()
    try:
        await plan_beside(list)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("large", [False, True])
async def test_what_a_call_changes_is_found_out_for_graphs_of_any_size(large, monkeypatch):
    monkeypatch.setattr(call_cache, "_LARGE", -1 if large else 1 << 30)
    with af.Graph().as_default() as graph:
        v = af.Variable(0.0)
        grown, init, x = v.assign_add(1.0), af.global_variables_initializer(), af.placeholder(af.float32, [])
        y = x * 2.0
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await asyncio.gather(*[session.run(grown) for _ in range(20)])
        assert await session.run([v, y], {x: 3.0}) == [20.0, 6.0]
        async with session.boundary.between(frozenset([v.handle.op]), 10.0) as reached:
            assert reached
            growing = asyncio.ensure_future(session.run(grown))
            for _ in range(20):
                await asyncio.sleep(0)
            assert await session.run(v) == 20.0
        await growing
        assert await session.run(v) == 21.0


@pytest.mark.slow
@pytest.mark.real
async def test_a_large_graph_gives_the_same_in_many_regions():
    with af.Graph().as_default() as graph:
        x = y = af.placeholder(af.float32, [3])
        for number in range(amount(1200, 4000)):
            y = af.tanh(y) if number % 3 == 0 else y * 1.01 + 0.01
    data, found = np.array([0.1, -2.0, 0.5], np.float32), []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append(await session.run(y, {x: data}))
    assert np.array_equal(*found)
