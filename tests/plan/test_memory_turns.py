"""Devices that take turns where memory is short: the first plan fits, its peak is exact, and nothing waits for ever."""

import dataclasses

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.passes.fed_shapes import with_fed_shapes
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune
from aioflow.plan.turns import can_take_turns
from tests.support.memory_programs import random_program
from tests.support.scale import some

MB = 1 << 20
SLACK = 4096
CPU = "/job:localhost/replica:0/task:0/device:CPU:{}".format


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def only_plan(session):
    (signature,) = session._engine.state.plans.signatures
    return session._engine.state.plans.known(signature).plan


async def unlimited(program):
    graph, fetch, feeds = program
    async with af.Session(graph=graph, config=af.Config(track_memory=True)) as session:
        value = await session.run(fetch, feeds)
        return value, (await session.memory())[CPU(0)].peak


async def limited(program, limits):
    """The value of the first run, and the peaks by device."""
    graph, fetch, feeds = program
    given = {f"CPU:{number}": limit for number, limit in enumerate(limits) if limit is not None}
    config = af.Config(device_count={"CPU": len(limits)}, memory_limit=given, track_memory=True)
    async with af.Session(graph=graph, config=config) as session:
        value = await session.run(fetch, feeds)
        return value, [use.peak for use in (await session.memory()).values()]


async def check_first_run(seed, is_open, shares):
    """The first run of a random program succeeds, with the right value, and no device holds more than it may."""
    program = random_program(seed, is_open)
    expected, peak = await unlimited(program)
    limits = [None if share is None else int(share * peak) + SLACK for share in shares]
    value, peaks = await limited(program, limits)
    np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4)
    assert all(limit is None or real <= limit for real, limit in zip(peaks, limits, strict=True))


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "open"])
@pytest.mark.parametrize("shares", [(0.3, None), (0.3, 1.0), (0.3, 0.3, 1.2)], ids=str)
@pytest.mark.parametrize("seed", range(5))
async def test_the_first_plan_of_a_random_program_fits_if_there_is_room(seed, is_open, shares):
    await check_first_run(seed, is_open, shares)


@pytest.mark.long
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "open"])
async def test_the_first_plans_of_more_random_programs_fit(is_open):
    for seed in range(5, 25):
        for shares in ((0.3, None), (0.3, 1.0), (0.3, 0.3, 1.2)):
            await check_first_run(seed, is_open, shares)


# What the audit found


def sines(x):
    return af.reduce_sum(af.add_n([af.sin(x * float(number) + 1.0) for number in range(6)]))


def tangents(x):
    return af.reduce_sum(af.add_n([af.tanh(x * float(number + 1)) for number in range(6)]))


def chain(x):
    kept, y = [af.exp(x * (number * 1e-3)) for number in range(6)], x
    for each in reversed(kept):
        y = y + each
    return af.gradients(af.reduce_sum(y), x)[0]


@pytest.mark.parametrize("rows", [512, None], ids=["static", "open"])
@pytest.mark.parametrize("build", [sines, tangents, chain], ids=lambda build: build.__name__)
@pytest.mark.parametrize(
    "limits", some([(60, None), (70, 300), (60, 300), (90, 300), (40, 200), (100, 300)], 2), ids=str
)
async def test_every_run_fits_from_the_first(build, rows, limits, graph):
    x = af.placeholder(af.float32, [rows, 1024])
    fetch = build(x)
    given = {f"CPU:{number}": size * MB // 8 for number, size in enumerate(limits) if size is not None}
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, memory_limit=given)) as session:
        for _ in range(4):
            await session.run(fetch, {x: np.ones((512, 1024), np.float32)})


def pinned(x):
    """Values on two devices, more than either has room for, unless each waits for the other."""
    kept = []
    for number in range(8):
        with af.device(f"/cpu:{number % 2}"):
            kept.append(af.exp(x * (number * 1e-3)))
    with af.device("/cpu:0"):
        y = af.reduce_sum(kept[0])
        for each in kept[1:]:
            y = y + af.reduce_sum(each)
    return y


@pytest.mark.parametrize("rows", [512, None], ids=["static", "open"])
async def test_devices_take_turns_to_run_what_is_asked_for_on_them(rows, graph):
    x = af.placeholder(af.float32, [rows, 1024])
    fetch = pinned(x)
    limits = {"CPU:0": 5 * MB, "CPU:1": 5 * MB}
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, memory_limit=limits)) as session:
        for _ in range(5):
            assert await session.run(fetch, {x: np.zeros((512, 1024), np.float32)}) == 8 * 512 * 1024
        plan, use = only_plan(session), await session.memory()
        planned = session._engine.state.plans._placer._expected
    assert len(plan.parts) == 2
    for device, held in use.items():
        assert held.peak <= planned[device] + 100 <= 1.1 * held.peak
    receives = [node for part in plan.parts for node in part.flow.nodes if node.definition.name == "recv"]
    assert len([node for node in receives if node.controls]) >= len(receives) - 2 > 0


def numbers_to_and_fro(x, number):
    """Numbers go from one device to the other and back, between large values that leave no room for two more."""
    with af.device("/cpu:0"):
        double = x + x
    with af.device("/cpu:1"):
        first = af.exp(double * 2e-3) + number * 1e-3
    with af.device("/cpu:0"):
        once = af.tanh(number + number)
    with af.device("/cpu:1"):
        second, picked = af.exp(first * 4e-3) + once * 1e-3, x[4] * 0.5
    with af.device("/cpu:0"):
        twice = af.tanh(number + once)
    with af.device("/cpu:1"):
        total = af.reduce_sum(x) * 1e-6
    with af.device("/cpu:0"):
        return [af.add_n([af.reduce_sum(each) for each in (x, double, first, second)]), once, picked, twice, total]


async def test_devices_that_take_turns_never_wait_in_a_circle(graph):
    x, number = af.placeholder(af.float32, [MB // 4]), af.placeholder(af.float32, [])
    fetches, feeds = numbers_to_and_fro(x, number), {x: np.ones(MB // 4, np.float32), number: 1.0}
    limits = {"CPU:0": 9 * MB // 4, "CPU:1": 9 * MB // 4}
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, memory_limit=limits)) as session:
        _, once, picked, twice, _ = await session.run(fetches, feeds)
    assert picked == 0.5
    np.testing.assert_allclose([once, twice], np.tanh([2.0, 1.0 + once]), rtol=1e-6)


async def test_a_plan_in_turns_fits_the_feeds_of_every_later_run(graph):
    x = af.placeholder(af.float32, [None, 1024])
    fetch = chain(x)
    limits = {"CPU:0": 4 * MB, "CPU:1": 28 * MB}
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, memory_limit=limits)) as session:
        for rows in (1, 512, 3, 512, 64, 512):
            found = await session.run(fetch, {x: np.zeros((rows, 1024), np.float32)})
            assert found.shape == (rows, 1024)


# What waits


async def test_what_waits_for_another_node_of_the_step_is_not_held_back(graph):
    """The dequeue waits for the enqueue, whose value comes last in the order of the graph."""
    queue = af.FIFOQueue(1, [af.float32], shapes=[[512, 1024]])
    x = af.placeholder(af.float32, [512, 1024])
    taken = queue.dequeue()
    with af.device("/cpu:1"):
        first = af.reduce_sum(af.exp(taken) + af.tanh(taken) * taken)
    with af.device("/cpu:0"):
        late = af.tanh(af.tanh(x) * x + x)
        put = queue.enqueue(late)
    limits = {"CPU:0": 5 * MB, "CPU:1": 7 * MB}
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, memory_limit=limits)) as session:
        for _ in range(3):
            found, _ = await session.run([first, put], {x: np.zeros((512, 1024), np.float32)})
            assert found == 512 * 1024


def test_a_flow_in_which_a_wait_may_depend_on_what_is_held_back_takes_no_turns():
    queue = af.FIFOQueue(1, [af.float32])
    taken = queue.dequeue()
    computed = af.tanh(taken)
    x = af.placeholder(af.float32, [])
    put = queue.enqueue(af.tanh(x))
    flow = optimise(prune((x,), (computed,), (put,)))
    assert not can_take_turns(flow)
    late = [node for node in flow.nodes if node.name == computed.op.name]
    ordered = [*[node for node in flow.nodes if node not in late], *late]
    assert can_take_turns(dataclasses.replace(flow, nodes=ordered))


# What memory is


async def test_an_array_that_two_devices_read_counts_where_it_was_made(graph):
    x = af.placeholder(af.float32, [512, 1024])
    with af.device("/cpu:0"):
        y = af.tanh(x)
    with af.device("/cpu:1"):
        total = af.reduce_sum(y) + af.reduce_sum(x)
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, track_memory=True)) as session:
        await session.run(total, {x: np.ones((512, 1024), np.float32)})
        use = await session.memory()
    assert use[CPU(0)].peak == 2 * MB
    assert use[CPU(1)].peak < 100


@pytest.mark.parametrize("rows", [512, None], ids=["static", "open"])
async def test_a_result_written_into_an_input_needs_no_room(rows, graph):
    x = af.placeholder(af.float32, [rows, 1024])
    y = af.reduce_sum(af.tanh(af.exp(-x)))
    async with af.Session(graph=graph, config=af.Config(memory_limit={"CPU:0": 3 * MB})) as session:
        await session.run(y, {x: np.ones((512, 1024), np.float32)})


async def test_a_region_drops_results_that_nobody_reads_and_inputs_after_their_last_use(graph):
    x = af.placeholder(af.float32, [512, 1024])
    values, _ = af.nn.top_k(x, 512)  # the indices take 1 MB
    least = af.reduce_sum(values)
    with af.device("/cpu:1"):
        y = af.tanh(x)
    with af.device("/cpu:0"):
        z = af.reduce_sum(af.matmul(af.matmul(y, y, transpose_b=True), x) + least)  # y is read by the first alone
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, track_memory=True)) as session:
        await session.run([least, z], {x: np.ones((512, 1024), np.float32)})
        use = await session.memory()
    assert use[CPU(0)].peak <= 4 * MB + 100


def test_all_sizes_follow_from_the_shapes_of_feeds():
    x = af.placeholder(af.float32, [None, 64])
    mapped = af.map_fn(lambda row: af.tanh(row) * 2.0, x)
    (slope,) = af.gradients(af.reduce_sum(af.reduce_mean(mapped, 1, keepdims=True) * x), x)
    flow = with_fed_shapes(optimise(prune((x,), (mapped, slope), ())), [(100, 64)])
    for fetch in flow.fetches:
        assert fetch.planned_spec.shape == (100, 64)
        assert fetch.spec.shape[0].value is None
