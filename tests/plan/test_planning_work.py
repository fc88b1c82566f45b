"""The planning work of a graph bounds what planning on the loop costs, whatever the graph looks like.

The cost is counted in calls of functions, which no load on the machine changes; 10,000 take about a millisecond.
"""

import sys

import pytest

import aioflow as af
from aioflow.runtime import plan_cache
from aioflow.runtime.plan_cache import LONG_PLAN
from tests.support.scale import some

MOST_CALLS = 60_000


def flat(size, x):
    for _ in range(size):
        x = x + 1.0
    return x


def wide(size, x):
    return af.add_n([x * float(place) for place in range(size)])


def loops(depth, x):
    if depth == 0:
        return x * 1.5
    return af.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, loops(depth - 1, v) + 1.0), (0, x))[1]


def branches(depth, x):
    return x * 2.0 if depth == 0 else af.cond(x > 0, lambda: branches(depth - 1, x + 1.0), lambda: x - 1.0)


def mapped(depth, x):
    return x * 2.0 if depth == 0 else af.reduce_sum(af.map_fn(lambda e: mapped(depth - 1, e), af.stack([x])))


def cases(size, x):
    return af.switch_case(af.cast(x, af.int32), [lambda place=place: x + float(place) for place in range(size + 1)])


def ordered(size, x):
    made = []
    for _ in range(size):
        with af.control_dependencies(made):
            made.append(x + 1.0)
    return made[-1] if made else x


def with_gradient(build):
    def both(size, x):
        y = build(size, x)
        return af.gradients(y, x)[0] + y

    return both


BUILDERS = {build.__name__: build for build in (flat, wide, loops, branches, mapped, cases, ordered)}
BUILDERS |= {f"{name} gradient": with_gradient(BUILDERS[name]) for name in ("flat", "loops", "branches", "mapped")}


def built(build, size):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [], name="x")
        return graph, x, build(size, x)


async def calls_of_first_run(build, size):
    """The number of function calls in the first run of such a graph in a warm process."""
    for warm in (True, False):
        graph, x, y = built(build, size)
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        async with af.Session(graph=graph) as session:
            if not warm:
                sys.setprofile(count)
            try:
                await session.run(y, {x: 1.0})
            finally:
                sys.setprofile(None)
    print(f"size {size}, work {graph.planning_work}: {calls} calls")
    return calls


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
async def test_the_largest_graph_that_is_planned_on_the_loop_costs_few_calls(build):
    size = 1
    while built(build, size + 1)[0].planning_work <= LONG_PLAN:
        size += 1
    assert await calls_of_first_run(build, size) < MOST_CALLS


@pytest.mark.slow
@pytest.mark.parametrize(("name", "build"), some(BUILDERS.items(), 2), ids=some(BUILDERS, 2))
async def test_planning_is_linear_in_the_planning_work(monkeypatch, name, build):
    monkeypatch.setattr(plan_cache, "LONG_PLAN", 1 << 60)
    small = 2 if name.startswith(("loops", "branches", "mapped")) else 100
    costs = [await calls_of_first_run(build, size) for size in (small, 4 * small)]
    work = [built(build, size)[0].planning_work for size in (small, 4 * small)]
    assert costs[1] / costs[0] < 1.5 * work[1] / work[0], (costs, work)
