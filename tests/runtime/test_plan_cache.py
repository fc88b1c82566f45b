"""Where plans are made: those of large graphs on a thread, whatever the run is told, for they would hold the loop."""

import threading

import pytest

import aioflow as af
from aioflow.runtime import call, plan_cache


async def run(session, y, x, **options):
    assert await session.run(y, {x: 1.0}, af.RunOptions(**options)) == 32.0


async def traced(session, y, x):
    await run(session, y, x, trace=True)


async def checked(session, y, x):
    await run(session, y, x, check_numerics=True)


async def called(session, y, x):
    assert await session.make_callable(y, [x])(1.0) == 32.0


async def in_parts(session, y, x):
    handle = await session.partial_run_setup(y, [x])
    assert await session.partial_run(handle, y, {x: 1.0}) == 32.0


@pytest.mark.real
@pytest.mark.parametrize("executor", ["regions", "tokens"])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("first", [run, traced, checked, called, in_parts])
@pytest.mark.parametrize("long", [False, True])
async def test_only_short_plans_are_made_on_the_loop(monkeypatch, long, first, devices, executor):
    where = {}
    for module, name in ((plan_cache, "make_plan"), (plan_cache, "assemble"), (call, "_finishers")):
        made = getattr(module, name)

        def noted(*args, name=name, made=made, **options):
            where.setdefault(name, set()).add(threading.current_thread() is threading.main_thread())
            return made(*args, **options)

        monkeypatch.setattr(module, name, noted)
    monkeypatch.setattr(plan_cache, "LONG_PLAN", 2 if long else 2000)
    with af.Graph().as_default() as graph:
        y = x = af.placeholder(af.float32, [], name="x")
        for place in range(5):
            with af.device(f"/cpu:{place % devices}"):
                y = y + y
    config = af.Config(device_count={"CPU": devices}, executor=executor)
    async with af.Session(graph=graph, config=config) as session:
        await first(session, y, x)
        for again in (run, traced, checked, called, in_parts):
            await again(session, y, x)
    assert where == {"make_plan": {not long}, "assemble": {not long}, "_finishers": {not long}}
