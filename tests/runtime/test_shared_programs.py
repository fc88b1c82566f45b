"""Sessions of a graph share its plans and programs, and nothing else."""

import asyncio
import contextlib
import gc
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.state.variables import read_variable
from aioflow.program import assemble as assembling
from aioflow.runtime import plan_cache
from aioflow.testing import faulty_kernel
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.doubles import heavy, light


@pytest.fixture
def made(monkeypatch):
    """The numbers of plans and programs that are made."""
    counts = {"make_plan": 0, "assemble": 0}
    for name in counts:
        function = getattr(plan_cache, name)

        def counted(*args, name=name, function=function, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(plan_cache, name, counted)
    return counts


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


TWO = {"CPU": 2}
SHARING = [
    {}, {"executor": "tokens"}, {"device_count": TWO}, {"device_count": TWO, "executor": "tokens"},
    {"track_memory": True}, {"track_memory": True, "executor": "tokens"}, {"memory_limit": {"CPU:0": 1 << 30}},
    {"device_count": TWO, "memory_limit": {"CPU:1": 1 << 30}}, {"recompute": True}, {"swap_to_host": True},
    {"device_count": TWO, "compression": "bfloat16"},
]  # fmt: skip
"""Settings with which sessions share plans and programs."""


def sums(config=None):
    """A variable to which x is added, and a branch, a deep nest and a loop (on the last device) that read it."""
    far = None if config is None or not config.device_count else "/cpu:1"
    x, total = af.placeholder(af.float32, []), af.Variable(0.0)
    added = total.assign_add(x)
    with af.control_dependencies([added]):
        read = total.read_value()
        chosen = af.cond(read > 2.0, lambda: total.read_value() * 10.0, lambda: -total.read_value())
        deep = total.read_value()
        for _ in range(17):  # deeper than the blocks of one coroutine
            deep = af.while_loop(lambda i, v: i < 1, lambda i, v, deep=deep: (i + 1, v + 0.0 * deep), [0, deep])[1]
        grows = total.read_value() * 1.0
        with af.device(far):
            looped = af.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v + grows), [0, read])[1]
    return x, total, [added, chosen, deep, looped]


async def added_up(session, x, total, fetches, **options):
    await session.run(total.initializer)
    return [await session.run(fetches, {x: value}, af.RunOptions(**options)) for value in (1.0, 2.0)]


@pytest.mark.whole
@pytest.mark.parametrize("settings", SHARING, ids=str)
@pytest.mark.parametrize("options", [{}, {"trace": True}, {"check_numerics": True}], ids=str)
async def test_a_second_session_makes_nothing_and_has_variables_of_its_own(graph, made, settings, options):
    config = af.Config(**settings)
    parts = sums(config)
    async with af.Session(graph=graph, config=config) as first:
        found = await added_up(first, *parts, **options)
        before = dict(made)
        async with af.Session(graph=graph, config=config) as second:
            assert await added_up(second, *parts, **options) == found == [[1.0, -1.0, 1.0, 4.0], [3.0, 30.0, 3.0, 12.0]]
            assert await first.run(parts[2], {parts[0]: 1.0}) == [4.0, 40.0, 4.0, 16.0]
            assert await second.run(parts[2], {parts[0]: 2.0}) == [5.0, 50.0, 5.0, 20.0]
    if not options:
        assert made == before
    assert made["make_plan"] >= 2


async def test_a_partial_run_of_a_second_session_shares_the_program(graph, made):
    x, total, fetches = sums()
    for _ in range(2):
        before = dict(made)
        async with af.Session(graph=graph) as session:
            await session.run(total.initializer)
            handle = await session.partial_run_setup(fetches, [x])
            assert await session.partial_run(handle, fetches, {x: 3.0}) == [3.0, 30.0, 3.0, 12.0]
    assert made == before


@pytest.mark.real
async def test_what_runs_on_a_thread_is_compiled_once_for_all_sessions(graph, monkeypatch):
    compiled, compile_for_threads = [], assembling.compile_for_threads
    monkeypatch.setattr(
        assembling, "compile_for_threads", lambda *parts: compiled.append(parts) or compile_for_threads(*parts)
    )
    total = af.Variable(0.0)
    y = heavy(total.assign_add(1.0), lambda value: value * 2.0)
    for _ in range(2):
        async with af.Session(graph=graph) as session:
            await session.run(total.initializer)
            assert [await session.run(y) for _ in range(2)] == [2.0, 4.0]
    assert len(compiled) == 1


async def test_sessions_that_wait_at_the_same_time_have_queues_of_their_own(graph, made):
    queue = af.FIFOQueue(4, af.int32, [[]])
    element, fed = queue.dequeue(), af.placeholder(af.int32, [])
    put = queue.enqueue(fed)
    async with af.Session(graph=graph) as one, af.Session(graph=graph) as other:
        waiting = [asyncio.create_task(session.run(element)) for session in (one, other)]
        await asyncio.sleep(1)
        await other.run(put, {fed: 2})
        assert await waiting[1] == 2
        assert not waiting[0].done()
        await one.run(put, {fed: 1})
        assert await waiting[0] == 1
    assert made == {"make_plan": 2, "assemble": 2}


async def test_frames_of_handmade_loops_take_the_objects_of_their_session(graph):
    total = af.Variable(1.0)
    start = af.enter(af.constant(1.0), "growing")
    handle = af.enter(total.handle, "growing", is_constant=True)
    value = af.merge([start, start])[0]
    going = af.switch(value, af.loop_cond(value < 100.0))
    value.op.update_input(1, af.next_iteration(going[1] * read_variable(handle)))
    result = af.exit(going[0])
    for factor, least in ((2.0, 128.0), (11.0, 121.0)):
        async with af.Session(graph=graph) as session:
            await session.run(total.initializer)
            await session.run(total.assign(factor))
            assert await session.run(result) == least


async def test_the_state_of_a_closed_session_is_freed_though_its_programs_stay(graph):
    large = af.Variable(np.ones(100_000, np.float32))
    async with af.Session(graph=graph) as session:
        await session.run(large.initializer)
        await session.run(af.reduce_sum(large))
        value = weakref.ref(await session.run(large))
    del session
    gc.collect()
    assert value() is None


@pytest.mark.whole
@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({"fast_math": True}, "plan"), ({"executor": "tokens"}, "plan"), ({"fuse_elementwise": False}, "plan"),
        ({"track_memory": True}, "plan"), ({"optimize": False}, ""), ({"order_for_memory": False}, ""),
        ({"recompute": True}, ""), ({"log_device_placement": True}, ""), ({"device_count": TWO}, ""),
        ({"memory_limit": {"CPU:0": 1 << 30}}, ""), ({"gpus": [FakeGpu(Machine())]}, ""),
    ],
    ids=lambda settings: "".join(settings),
)  # fmt: skip
async def test_sessions_with_other_settings_share_no_program_and_a_plan_only_if_it_is_equal(
    graph, made, settings, shares
):
    y = af.sigmoid(af.placeholder_with_default(np.float32(0.0), []))
    async with af.Session(graph=graph) as session:
        assert await session.run(y) == 0.5
    before = dict(made)
    async with af.Session(graph=graph, config=af.Config(**settings)) as session:
        assert await session.run(y) == 0.5
    assert made == {"make_plan": before["make_plan"] + (not shares), "assemble": before["assemble"] + 1}


async def test_sessions_that_share_a_program_charge_their_own_ledgers(graph, made):
    total, x = af.Variable(np.ones(250, np.float32)), af.placeholder(af.float32, [250])
    y = af.constant(np.ones(500, np.float32))[:250] * x + total
    used, before = [], {}
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            before = dict(made)
            session = await stack.enter_async_context(af.Session(graph=graph, config=af.Config(track_memory=True)))
            await session.run(total.initializer)
            value = await session.run(y, {x: np.ones(250)})
            used.append({holder.op: holder.bytes for use in (await session.memory()).values() for holder in use.by_op})
            del value
    assert made == before
    assert used[0] == used[1]
    assert used[0]["multiply"] == 1000


async def test_the_memory_limit_of_each_session_counts_its_own_values(graph):
    large = af.Variable(np.ones(1000, np.float32))
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            config = af.Config(memory_limit={"CPU:0": 9000})
            session = await stack.enter_async_context(af.Session(graph=graph, config=config))
            await session.run(large.initializer)
            assert (await session.run(large)).sum() == 1000
            with pytest.raises(af.errors.ResourceExhaustedError):
                await session.run(af.tile(large, [9]))


async def test_a_session_that_plans_anew_after_it_has_measured_shares_its_plan_with_none(graph, made):
    x = af.placeholder(af.float32, [])
    y, config = af.tanh(x), af.Config(device_count=TWO)
    async with af.Session(graph=graph, config=config) as one, af.Session(graph=graph, config=config) as other:
        await one.run(y, {x: 0.0})
        await one.replan()
        await one.run(y, {x: 0.0})
        await other.run(y, {x: 0.0})
        assert made["make_plan"] == 1
        await one.run(y, {x: 0.0}, af.RunOptions(trace=True))
        await one.replan()
        await one.run(y, {x: 0.0})
        await other.replan()
        await other.run(y, {x: 0.0})
    assert made["make_plan"] == 2


async def test_a_session_opened_after_kernels_changed_has_the_new_ones(graph):
    x = af.placeholder(af.float32, [])
    y = light(af.tanh(x), lambda value: value)

    async def run():
        async with af.Session(graph=graph) as session:
            return await session.run(y, {x: 0.0})

    assert await run() == 0.0
    with (
        faulty_kernel("tanh", error=af.errors.DataLossError("a bit has flipped")),
        pytest.raises(af.errors.DataLossError),
    ):
        await run()
    assert await run() == 0.0


async def test_constants_folded_by_old_kernels_are_folded_anew_after_kernels_changed(graph):
    y = af.tanh(af.constant(0.0)) + 1.0

    async def run():
        async with af.Session(graph=graph) as session:
            return await session.run(y)

    assert await run() == 1.0
    with (
        faulty_kernel("tanh", error=af.errors.DataLossError("a bit has flipped")),
        pytest.raises(af.errors.DataLossError),
    ):
        await run()


async def test_a_handle_that_cannot_be_made_fails_in_each_session_with_its_line(graph):
    first = af.FIFOQueue(1, af.int32, [[]], shared_name="both")
    second = af.FIFOQueue(2, af.int32, [[]], shared_name="both")
    sizes = [first.size(), second.size()]
    for _ in range(2):
        async with af.Session(graph=graph) as session:
            with pytest.raises(af.errors.InvalidArgumentError, match="capacity") as caught:
                await session.run(sizes)
        assert "both" in str(caught.value)
        assert __file__ in str(caught.value)
