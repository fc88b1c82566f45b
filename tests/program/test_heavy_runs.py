"""Heavy kernels in loops over devices, as parts of the coroutine of each device, which also sends and receives."""

import asyncio
import math
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph.op import op
from aioflow.plan import op_cost
from aioflow.plan.passes import recover_loops as passes
from aioflow.program import assemble
from aioflow.tensors.dtypes import DeviceKind, Spec
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount

DEVICES = 3
HOME, OTHER = "/device:CPU:0", "/device:CPU:1"
PLACES = ["/cpu:0", "/cpu:1", "/cpu:2"]
TASKS = "/job:worker/task:1", "/job:worker/task:0"


@op(name="test_long_work")
def long_work(x: Spec, function: object = None) -> Spec:
    """`function(x)`, which is heavy, and has no effect."""
    return x


long_work.no_gradient("a test's function has none")


@long_work.kernel(DeviceKind.CPU)
def _(xp, x, *, function):
    return function(x)


@long_work.cost
def _(inputs, outputs, attrs):
    return 1e300


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def recovered(monkeypatch):
    """The structured loops that devices run, as they are made."""
    found, recover = [], passes.recover_loops

    def note(flow):
        made = recover(flow)
        found.extend(node for node in made.nodes if passes.spans_devices(node))
        return made

    monkeypatch.setattr(assemble, "recover_loops", note)
    return found


def session(graph, **options):
    return af.Session(graph=graph, config=af.Config(device_count={"CPU": DEVICES}, **options))


def there_and_back(function, start, times=4, far=OTHER, home=HOME, reads=None):
    """x = function(x) + 1, where the function is heavy and runs on the other device, which may read a variable."""

    def body(i, x):
        with af.device(far):
            made = long_work(x if reads is None else x + reads.read_value(), function)
        with af.device(home):
            return i + 1, made + 1.0

    with af.device(home):
        return af.while_loop(lambda i, x: i < times, body, [0, start], name="there_and_back")[1]


def mixed(program, values, places, iterations):
    """A loop whose variables have homes. Each statement makes a variable from two, on some device."""

    def body(i, *variables):
        made = list(variables)
        for device, first, second in program:
            with af.device(places[device]):
                made[first % len(made)] = made[first % len(made)] * 0.5 - made[second % len(made)]
        with af.device(places[0]):
            return [i + 1, *made]

    with af.device(places[0]):
        return af.while_loop(lambda i, *rest: i < iterations, body, [0, *values], name="mixed")[1:]


PLACE = st.integers(0, DEVICES - 1)
PROGRAM = st.lists(st.tuples(PLACE, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)
PING_PONG = [(1, 0, 0), (0, 0, 0)]


@settings(max_examples=amount(5, 300), deadline=None)
@given(program=PROGRAM, count=st.integers(1, 3), iterations=st.integers(0, 4))
@example(program=PING_PONG, count=1, iterations=3)
@example(program=[(1, 0, 1), (2, 0, 0), (0, 0, 0)], count=2, iterations=3)
def test_the_values_are_those_of_single_nodes(program, count, iterations):
    start = [np.linspace(number, 2, 900, dtype="f4") for number in range(count)]

    async def run(executor):
        with af.Graph().as_default() as graph:
            results = mixed(program, [af.constant(each) for each in start], PLACES, iterations)
        async with session(graph, executor=executor) as opened:
            return await opened.run(results)

    async def both():
        with no_pending_tasks():
            return [await run(executor) for executor in ("regions", "tokens")]

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        make_arrays_heavy(patch)
        fast, slow = runner.run(both())
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


BODIES = {
    "each device needs the other": ([(1, 0, 0), (0, 0, 0)], 1, 2),
    "a device only sends": ([(0, 0, 0), (1, 1, 0)], 2, 2),
    "a device computes before a value comes that it does not need": ([(1, 0, 0), (0, 1, 1), (0, 0, 0)], 2, 1),
    "a value waits for work that it does not need": ([(0, 0, 0), (1, 1, 0), (1, 1, 1), (0, 2, 1)], 3, 1),
}


@pytest.mark.parametrize(("program", "count", "coroutines"), BODIES.values(), ids=BODIES)
async def test_a_device_runs_one_coroutine_if_it_waits_no_longer_than_node_by_node(
    graph, monkeypatch, recovered, program, count, coroutines
):
    make_arrays_heavy(monkeypatch)
    start = [af.constant(np.linspace(number, 2, 900, dtype="f4")) for number in range(count)]
    async with session(graph) as opened:
        await opened.run(mixed(program, start, PLACES, 3))
    assert len(recovered) == coroutines


def make_arrays_heavy(patch):
    """900 numbers are heavy, and scalars are light."""
    for module, name in ((op_cost, "HEAVY"), (op_cost, "BIG_KERNEL"), (passes, "LIGHT")):
        patch.setattr(module, name, 1e-6)


@pytest.mark.parametrize(("size", "coroutines"), [(200, 2), (50_000, 2), (200_000, 0)])
async def test_tasks_of_a_cluster_run_one_coroutine_each_if_values_are_pushed(
    graph, monkeypatch, recovered, size, coroutines
):
    make_arrays_heavy(monkeypatch)
    start = np.linspace(0, 2, size, dtype="f4")
    fed = af.placeholder(af.float32, [size])
    result = mixed(PING_PONG, [fed], TASKS, 5)[0]
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as opened,
    ):
        found = await opened.run(result, {fed: start})
    assert len(recovered) == coroutines
    np.testing.assert_array_equal(found, start / 2**10)


@pytest.mark.parametrize("place", [0, 1])
async def test_an_error_names_the_node_and_the_iteration(graph, recovered, place):
    def fail(x):
        if x > 5.0:
            raise ValueError(f"it is {x}")
        return x

    result = there_and_back(fail, af.constant(3.0), 9, *((OTHER, HOME) if place else (HOME, OTHER)))
    async with session(graph) as opened:
        with pytest.raises(af.errors.InvalidArgumentError, match="it is 6") as raised:
            await opened.run(result)
    assert len(recovered) == 2
    assert raised.value.op_type == "test_long_work"
    assert any("in iteration 3 of 'there_and_back'" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("heavy_first", [False, True])
async def test_an_error_in_a_loop_between_two_transfers_names_the_iterations_of_both(graph, recovered, heavy_first):
    def fail(x):
        if x == 13.0:
            raise ValueError(f"it is {x}")
        return x

    def body(i, x):
        with af.device(OTHER):
            x = long_work(x, lambda x: x) if heavy_first else x
            inner = af.while_loop(
                lambda k, y: k < 5, lambda k, y: (k + 1, long_work(y + 1.0, fail)), [0, x], name="inner"
            )
        with af.device(HOME):
            return i + 1, inner[1] + 0.0

    with af.device(HOME):
        result = af.while_loop(lambda i, x: i < 9, body, [0, af.constant(0.0)], name="outer")[1]
    async with session(graph) as opened:
        with pytest.raises(af.errors.InvalidArgumentError, match="it is 13") as raised:
            await opened.run(result)
    assert len(recovered) == 2
    assert raised.value.op_type == "test_long_work"
    assert any(
        "in iteration 2 of 'outer/body/inner', in iteration 2 of 'outer'" in note for note in raised.value.__notes__
    )


@pytest.mark.real
@pytest.mark.parametrize("ending", ["cancelled", "late"])
async def test_a_run_can_end_while_a_heavy_kernel_computes_and_says_what_it_did(graph, recovered, ending):
    begun, going_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(x):
        if x > 4.0:
            loop.call_soon_threadsafe(begun.set)
            going_on.wait()
        return x

    result = there_and_back(wait, af.constant(3.0))
    async with session(graph) as opened:
        options = af.RunOptions(timeout=0.2 if ending == "late" else None)
        run = asyncio.ensure_future(opened.run(result, options=options))
        try:
            await begun.wait()
            report = str(await opened.explain())
            if ending == "cancelled":
                run.cancel()
            with pytest.raises((asyncio.CancelledError, af.errors.DeadlineExceededError)) as ended:
                await run
        finally:
            going_on.set()
    assert len(recovered) == 2
    computes = "'there_and_back/body/test_long_work' (test_long_work)"
    assert f"{computes} computes in iteration 2 of 'there_and_back'" in report
    assert "waits to receive" in report
    told = "\n".join([str(ended.value), *getattr(ended.value, "__notes__", [])])
    assert f"computing {computes} in iteration 2 of 'there_and_back'" in told


@pytest.mark.parametrize("turns", range(0, 30, 3))
async def test_a_cancel_at_any_await_leaves_nothing(graph, recovered, turns):
    result = there_and_back(lambda x: x, af.constant(3.0), 10**6)
    async with session(graph) as opened:
        await opened.run(there_and_back(lambda x: x, af.constant(3.0)))
        with no_pending_tasks():
            run = asyncio.ensure_future(opened.run(result))
            for _ in range(turns):
                await asyncio.sleep(0)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        assert await opened.run(af.constant(1)) == 1
    assert recovered


@pytest.mark.real
@pytest.mark.parametrize("wakes_within", [0.0, math.inf])
async def test_heavy_kernels_run_on_threads_unless_they_are_known_to_take_less_than_waking_one(
    graph, monkeypatch, recovered, wakes_within
):
    make_arrays_heavy(monkeypatch)
    monkeypatch.setattr(op_cost, "WAKE", wakes_within)
    threads = []
    result = there_and_back(lambda x: threads.append(threading.current_thread()) or x, af.zeros([900]))
    async with session(graph) as opened:
        await opened.run(result)
    assert len(recovered) == 2
    on_loop = [thread is threading.main_thread() for thread in threads]
    assert on_loop == [False, *[wakes_within > 0] * 3]


async def test_sessions_of_a_graph_share_the_code_and_not_the_variables(graph, recovered):
    given, result = af.placeholder(af.float32, []), None
    with af.device(OTHER):
        variable = af.Variable(1.0)
        assign = variable.assign(given)
    result = there_and_back(lambda x: x, variable.read_value(), 2, reads=variable)
    for value in (1.0, 5.0):
        async with session(graph) as opened:
            await opened.run(assign, {given: value})
            assert await opened.run(result) == value * 3 + 2
    assert recovered
