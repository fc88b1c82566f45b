"""Shares of a step with heavy kernels, as one coroutine on each device, which also sends and receives."""

import asyncio
import itertools
import math
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.plan import op_cost
from aioflow.program import groups
from aioflow.testing import Gate, VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.program import test_groups
from tests.program.test_groups import DEVICES, config, exchanging, on
from tests.support.doubles import gated, heavy
from tests.support.scale import amount

SIZE = 900
shares = test_groups.shares  # a fixture


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def slow_arrays(monkeypatch):
    make_arrays_slow(monkeypatch)


def make_arrays_slow(patch):
    """Kernels of 900 numbers are heavy, and take longer than to wake a thread. Those of scalars do not."""
    for module, name in ((op_cost, "HEAVY"), (op_cost, "BIG_KERNEL"), (op_cost, "WAKE"), (groups, "LIGHT")):
        patch.setattr(module, name, 0.9e-6)
    patch.setattr("aioflow.plan.passes.share_order._SLOW", 0.8e-6)


def array(value=0.0):
    return af.placeholder_with_default(np.linspace(value, 2, SIZE, dtype="f4"), [SIZE])


async def run(graph, fetches, feeds=None, **options):
    async with af.Session(graph=graph, config=config(**options)) as session:
        return await session.run(fetches, feeds)


def needs_all():
    """Each device computes from the value of the other."""
    x = af.placeholder(af.float32, [SIZE])
    with on(1):
        y = x * 2.0
    with on(0):
        z = y - 1.0
    with on(1):
        return x, [z * z]


def sends_before_it_computes():
    """Device 1 sends, and computes what no other device needs."""
    x = af.placeholder(af.float32, [SIZE])
    with on(1):
        other = x * 3.0
        sent = x[0] + 1.0
    with on(0):
        return x, [sent + 1.0, other]


def computes_before_it_sends():
    """Device 1 computes from a value that comes first, and sends what depends on another value."""
    x = af.placeholder(af.float32, [SIZE])
    with on(0):
        first, second = x[0] * 2.0, x * 3.0
    with on(2):
        late = (second * second)[0]
    with on(1):
        own, sent = (x * first) * 2.0, late + 1.0
    with on(0):
        return x, [sent * 2.0, own]


def waits_for_the_slower():
    """Device 1 computes from a value that is there before another one, which takes longer to make."""
    x = af.placeholder(af.float32, [SIZE])
    with on(0):
        slow = (x * x)[0]
    with on(2):
        soon = x[1] + 1.0
    with on(1):
        return x, [x * slow, x * soon]


def receives_in_the_order_of_the_sends():
    """What the later value needs includes what the earlier one needs."""
    x = af.placeholder(af.float32, [SIZE])
    with on(0):
        early = x * x
        later = (early * early)[0]
    with on(1):
        return x, [(later * x) * early]


def sends_what_needs_the_first_value():
    """Device 1 uses the later value first, and sends what depends on the earlier one."""
    x = af.placeholder(af.float32, [SIZE])
    with on(0):
        early = x * 2.0
        later = (early * early) * 3.0
    with on(1):
        own, sent = later * x, early[0] + 1.0
    with on(0):
        return x, [sent + 1.0, own]


def branches_and_goes_round():
    """A branch and a loop of one device."""
    x = af.placeholder(af.float32, [SIZE])
    with on(1):
        y = af.cond(x[0] > 0.0, lambda: x * 2.0, lambda: x)
        y = af.while_loop(lambda y: y[0] < 9.0, lambda y: y + 1.0, [y])
    with on(0):
        return x, [y * 2.0]


CASES = {
    "needs_all": (needs_all, "01"),
    "sends_before_it_computes": (sends_before_it_computes, "01"),
    "computes_before_it_sends": (computes_before_it_sends, "02"),
    "waits_for_the_slower": (waits_for_the_slower, "02"),
    "receives_in_the_order_of_the_sends": (receives_in_the_order_of_the_sends, "01"),
    "sends_what_needs_the_first_value": (sends_what_needs_the_first_value, "01"),
    "branches_and_goes_round": (branches_and_goes_round, "01"),
}


@pytest.mark.parametrize(("build", "coroutines"), CASES.values(), ids=CASES)
async def test_a_share_is_one_coroutine_if_its_device_waits_no_longer_than_node_by_node(
    graph, shares, slow_arrays, build, coroutines
):
    fed, fetches = build()
    given = {fed: np.linspace(1, 2, SIZE)}
    fast = await run(graph, fetches, given)
    assert "".join(sorted(device for device, units in shares.items() if exchanging(units))) == coroutines
    for one, other in zip(fast, await run(graph, fetches, given, executor="tokens"), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


async def test_a_value_that_waits_for_something_outside_holds_up_no_other(graph, shares):
    gate, x = Gate(), af.placeholder(af.float32, [SIZE])
    with on(1):
        late = gated(x, gate)
    with on(2):
        soon = heavy(x)
    seen = asyncio.Event()
    with on(0):
        first, second = late * 2.0, heavy(soon)
    with on(3):
        told = af.py_func(lambda value: seen.set() or value, [second], af.float32)
    async with af.Session(graph=graph, config=config()) as session:
        task = asyncio.ensure_future(session.run([first, told], {x: np.ones(SIZE)}))
        await gate.arrived()
        await seen.wait()
        gate.open()
        await task
    assert not exchanging(shares["0"])


@pytest.mark.parametrize("place", [0, 1])
async def test_an_error_names_the_node_and_ends_the_step_on_all_devices(graph, shares, place):
    def fail(x):
        raise ValueError(f"it is {x[0]}")

    x = af.placeholder(af.float32, [SIZE])
    with on(1):
        y = heavy(x * 2.0, fail) if place else x * 2.0
    with on(0):
        z = y + 1.0 if place else heavy(y + 1.0, fail)
    with no_pending_tasks():
        async with af.Session(graph=graph, config=config()) as session:
            with pytest.raises(af.errors.InvalidArgumentError, match=f"it is {3 - place}") as raised:
                await session.run(z, {x: np.ones(SIZE)})
    assert (raised.value.op_type, raised.value.device[-5:]) == ("test_heavy", f"CPU:{place}")
    assert all(map(exchanging, shares.values()))


@pytest.mark.real
@pytest.mark.parametrize("ending", ["cancelled", "late"])
async def test_a_run_can_end_while_a_heavy_kernel_computes_and_says_what_it_did(graph, shares, ending):
    begun, going_on, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def wait(x):
        loop.call_soon_threadsafe(begun.set)
        going_on.wait()
        return x

    x = af.placeholder(af.float32, [SIZE])
    with on(1):
        count = af.Variable(0.0)
        y = heavy(x, wait)
        with af.control_dependencies([y]):
            added = count.assign_add(1.0)
    with on(0):
        z = y + 1.0
    async with af.Session(graph=graph, config=config()) as session:
        await session.run(count.initializer)
        options = af.RunOptions(timeout=0.2 if ending == "late" else None)
        task = asyncio.ensure_future(session.run([z, added], {x: np.ones(SIZE)}, options=options))
        try:
            await begun.wait()
            report = str(await session.explain())
            if ending == "cancelled":
                task.cancel()
            with pytest.raises((asyncio.CancelledError, af.errors.DeadlineExceededError)) as ended:
                await task
        finally:
            going_on.set()
        assert await session.run(count) == 0.0
    assert exchanging(shares["0"])
    assert "(test_heavy) computes" in report
    assert "waits to receive" in report
    told = "\n".join([str(ended.value), *getattr(ended.value, "__notes__", [])])
    assert "(test_heavy)" in told


@pytest.mark.parametrize("turns", range(0, 24, 3))
async def test_a_cancel_at_any_await_leaves_nothing(graph, shares, turns):
    x = y = af.placeholder(af.float32, [SIZE])
    for number in range(20):
        with on(number % 2):
            y = heavy(y)
    async with af.Session(graph=graph, config=config()) as session:
        expected = await session.run(y, {x: np.ones(SIZE)})
        with no_pending_tasks():
            task = asyncio.ensure_future(session.run(y, {x: np.ones(SIZE)}))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        np.testing.assert_array_equal(await session.run(y, {x: np.ones(SIZE)}), expected)
    assert all(map(exchanging, shares.values()))


@pytest.mark.real
async def test_a_branch_runs_on_a_thread_though_the_other_one_was_measured_to_be_short(graph, shares, monkeypatch):
    monkeypatch.setattr(op_cost, "WAKE", math.inf)
    threads, x = [], af.placeholder(af.float32, [])
    with on(1):
        y = af.cond(x > 0.0, lambda: heavy(x, lambda x: threads.append(threading.current_thread()) or x), lambda: x)
    with on(0):
        z = y + 1.0
    async with af.Session(graph=graph, config=config()) as session:
        assert [await session.run(z, {x: value}) for value in (-1.0, -1.0, 1.0)] == [0.0, 0.0, 2.0]
    assert threading.main_thread() not in threads
    assert all(map(exchanging, shares.values()))


@pytest.mark.real
async def test_heavy_kernels_run_on_threads_with_the_variables_of_their_session(graph, shares):
    threads, found, given = [], [], af.placeholder(af.float32, [])
    with on(1):
        variable = af.Variable(1.0)
        y = heavy(variable * given, lambda x: threads.append(threading.current_thread()) or x)
    with on(0):
        z = y + 1.0
    with on(1), af.control_dependencies([z]):
        assigned = heavy(variable.assign_add(z))
    for value in (1.0, 5.0):  # the second session has the programs of the first
        async with af.Session(graph=graph, config=config()) as session:
            await session.run(variable.initializer)
            assert await session.run(assigned, {given: value}) == value + 2.0
            found = found or [shares["0"], shares["1"]]
            assert await session.run(variable) == value + 2.0
    assert all(map(exchanging, found))
    assert threading.main_thread() not in threads


PLACE = st.integers(0, DEVICES - 1)
PROGRAM = st.lists(st.tuples(PLACE, st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=10)
TASKS = [f"/job:worker/task:{number}" for number in range(3)]


def programmed(steps, places):
    """Each step makes an array of two, or updates a variable of its device by one, and reads it."""
    made, counts = [af.constant(np.linspace(0, 2, 200, dtype="f4"))], {}
    for place, first, second in steps:
        with af.device(places[place % len(places)]):
            if first == second:
                counts.setdefault(place, af.Variable(np.zeros(200, "f4"), name=f"count_{place}"))
                made.append(counts[place].assign_add(made[first % len(made)]))
            else:
                made.append(made[first % len(made)] * 0.5 - made[second % len(made)])
    return made[-4:]


@settings(max_examples=amount(12, 400), deadline=None)
@given(steps=PROGRAM)
@example(steps=[(0, 0, 1), (1, 1, 1), (0, 2, 0), (2, 3, 3), (1, 1, 4), (0, 0, 0)])
def test_the_values_are_those_of_single_nodes(steps):
    async def run(executor):
        with af.Graph().as_default() as graph:
            results = programmed(steps, [f"/cpu:{number}" for number in range(DEVICES)])
            init = af.global_variables_initializer()
        async with af.Session(graph=graph, config=config(executor=executor)) as session:
            await session.run(init)
            return [await session.run(results) for _ in range(2)]

    async def both():
        with no_pending_tasks():
            return [await run(executor) for executor in ("regions", "tokens")]

    compare(both)


@settings(max_examples=amount(4, 60), deadline=None)
@given(steps=PROGRAM)
def test_the_values_of_a_cluster_are_those_of_single_nodes(steps):
    async def run(executor):
        with af.Graph().as_default() as graph:
            results = programmed(steps, TASKS)
            init = af.global_variables_initializer()
        settings = af.Config(executor=executor)
        async with (
            SimulatedCluster({"worker": 3}, latency=1e-3, config=settings) as cluster,
            af.Session(cluster.target("worker", 0), graph=graph) as session,
        ):
            await session.run(init)
            return [await session.run(results) for _ in range(2)]

    async def both():
        return [await run(executor) for executor in ("regions", "tokens")]

    compare(both)


def compare(both):
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        make_arrays_slow(patch)
        fast, slow = runner.run(both())
    for one, other in zip(itertools.chain(*fast), itertools.chain(*slow), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
