"""The ready queue: order, waiting, tasks, offloading, slices of time, leaving nothing behind."""

import asyncio
import math
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.cpu import Threads
from aioflow.kernels.state.variables import assign_variable
from aioflow.plan import op_cost
from aioflow.plan.passes.prune import prune
from aioflow.program.blocks import has_branch
from aioflow.resources.containers import VariableState
from aioflow.runtime.plan_cache import DEFAULT
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step
from aioflow.testing import Gate
from aioflow.waiting.tasks import Slice
from tests.support.doubles import light, waiting
from tests.support.scale import amount

EXECUTORS = [af.Config(executor="tokens"), af.Config()]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def gated(gate: Gate, value: float = 1.0) -> af.Tensor:
    """A tensor whose kernel waits for the gate."""

    async def wait() -> np.float32:
        await gate.wait()
        return np.float32(value)

    return af.py_func(wait, [], af.float32)


@pytest.mark.parametrize("config", EXECUTORS, ids=["tokens", "regions"])
async def test_ready_nodes_run_in_the_order_the_user_built_them(graph, config):
    seen = []
    ops = [af.py_func(lambda i=i: seen.append(i) or np.float32(i), [], af.float32) for i in range(5)]
    async with af.Session(graph=graph, config=config) as session:
        assert await session.run(list(reversed(ops))) == [4, 3, 2, 1, 0]
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("config", EXECUTORS, ids=["tokens", "regions"])
async def test_two_waits_go_on_at_the_same_time(graph, config):
    first, second = Gate(), Gate()
    both = gated(first) + gated(second, 2.0)
    async with af.Session(graph=graph, config=config) as session:
        run = asyncio.create_task(session.run(both))
        async with asyncio.timeout(1):
            await first.arrived()
            await second.arrived()
        second.open()
        first.open()
        assert await run == 3.0


async def test_a_lone_wait_is_awaited_by_the_callers_own_task(graph):
    tasks = []

    async def kernel_tasks() -> np.float32:
        tasks.extend(asyncio.all_tasks())
        return np.float32(0)

    value = af.py_func(kernel_tasks, [], af.float32) + 1.0
    async with af.Session(graph=graph) as session:
        await session.run(value)
    assert len(tasks) == 2  # the caller's, and the one py_func gives the user's coroutine


async def test_the_first_error_is_raised_and_everything_else_is_stopped(graph):
    gate, stopped = Gate(), []

    async def waits() -> np.float32:
        try:
            await gate.wait()
        finally:
            stopped.append(True)
        return np.float32(0)

    def fails() -> np.float32:
        raise KeyError("broken")

    both = [af.py_func(waits, [], af.float32), af.py_func(fails, [], af.float32, name="culprit")]
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.UnknownError, match="broken") as caught:
            await session.run(both)
        assert caught.value.op == "culprit"
        assert stopped == [True]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await session.run(af.constant(1.0)) == 1.0


async def test_of_several_errors_in_one_turn_the_first_is_raised(graph):
    gate = Gate()

    def fails_as(text):
        async def fail(value):
            await gate.wait()
            raise ValueError(text)

        return fail

    both = [waiting(1.0, fails_as(text)) for text in ("first", "second")]
    async with af.Session(graph=graph) as session:
        run = asyncio.create_task(session.run(both))
        await asyncio.sleep(1)
        gate.open()
        with pytest.raises(af.errors.InvalidArgumentError, match="first"):
            await run


async def test_cancelling_a_run_says_what_it_was_waiting_for(graph):
    gate = Gate()
    value = gated(gate)
    async with af.Session(graph=graph) as session:
        run = asyncio.create_task(session.run(value))
        await gate.arrived()
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await run
        assert any("py_func" in note for note in caught.value.__notes__)


@pytest.mark.real
async def test_heavy_work_runs_on_a_compute_thread_and_light_work_on_the_loop(graph):
    seen = {}

    class Spy(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            seen[inputs[0].size] = threading.current_thread()
            plain = [np.asarray(value) for value in inputs]
            return getattr(ufunc, method)(*plain, **{k: v for k, v in kwargs.items() if k != "out"})

    x = af.placeholder(af.float32, [None])
    y = af.exp(x)
    async with af.Session(graph=graph) as session:
        step = session._calls.get(y, (x,)).call
        for size in (10, 3_000_000):
            value = np.ones(size, np.float32).view(Spy)
            step.converters = [lambda value: value]
            await step.run([value], DEFAULT, None)
    assert seen[10] is threading.main_thread()
    assert "aioflow-compute" in seen[3_000_000].name


def test_what_is_heavy_is_estimated_first_and_measured_later():
    cost = op_cost.RegionCost(lambda inputs: (1.0, True), 1)
    array = np.ones(100)
    bucket = cost.bucket([array])
    assert cost.heavy(bucket, [array])
    for _ in range(200):
        cost.learn(bucket, 10e-6)
    assert not cost.heavy(bucket, [array])


@pytest.mark.real
@pytest.mark.parametrize(
    ("brief", "used_up", "on_loop"),
    [(math.inf, False, [False, True, True]), (0.0, False, [False] * 3), (math.inf, True, [False] * 3)],
)
async def test_heavy_work_that_was_measured_to_be_brief_runs_on_the_loop_in_its_form_for_threads(
    graph, monkeypatch, brief, used_up, on_loop
):
    """But not after other work in the same turn of the loop: many brief runs would hold it together."""
    monkeypatch.setattr(Slice, "used_up", lambda piece: used_up)
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)
    monkeypatch.setattr(op_cost, "BRIEF", brief)
    monkeypatch.setattr(op_cost, "WAKE", 0.0)
    main, seen, forms = threading.main_thread(), [], []

    def note(value):
        seen.append(threading.current_thread() is main)
        return value

    y = light(af.placeholder(af.float32, [], name="x"), note)
    async with af.Session(graph=graph) as session:
        await session.run(y, {"x:0": 1.0})
        unit = session._calls.get(y, (graph.get_tensor_by_name("x:0"),)).call.planned.single_unit
        heavy, unit.heavy = unit.heavy, lambda *given: forms.append(len(given)) or heavy(*given)
        assert [await session.run(y, {"x:0": 1.0}) for _ in range(2)] == [1.0, 1.0]
    assert seen == on_loop
    assert len(forms) == 2


@pytest.mark.real
async def test_heavy_work_that_was_measured_to_be_short_runs_on_the_loop_without_a_step_of_its_own(graph, monkeypatch):
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)
    monkeypatch.setattr(op_cost, "WAKE", math.inf)
    steps = []
    y = light(af.placeholder(af.float32, [], name="x"), lambda value: steps.append(len(made)) or value)
    made = []
    init = Step.__init__
    monkeypatch.setattr(
        Step, "__init__", lambda step, *given, **named: made.append(step) or init(step, *given, **named)
    )
    async with af.Session(graph=graph) as session:
        assert [await session.run(y, {"x:0": 1.0}) for _ in range(4)] == [1.0] * 4
    assert steps[-1] == steps[-2] == steps[1]


def test_work_with_a_branch_is_never_brief_since_the_next_run_may_take_the_dear_one(graph):
    x, condition = af.placeholder(af.float32, []), af.placeholder(af.bool, [])
    branch = af.cond(condition, lambda: x + 1.0, lambda: x)
    for tensor, brief in ((branch, False), (x + 1.0, True)):
        cost = op_cost.RegionCost(lambda inputs: (1.0, True), 1, branches=has_branch(prune([], [tensor], ()).nodes))
        assert cost.heavy(0, [])
        for _ in range(200):
            cost.learn(0, op_cost.WAKE / 10)
        assert cost.brief(0) == cost.short(0) == brief


@pytest.mark.real
@pytest.mark.parametrize("light", [0.0, math.inf], ids=["heavy", "light"])
@pytest.mark.parametrize(
    ("brief", "wake"), [(0.0, 0.0), (math.inf, 0.0), (math.inf, math.inf)], ids=["long", "brief", "short"]
)
@pytest.mark.parametrize("used_up", [False, True], ids=["fresh slice", "used slice"])
async def test_random_numbers_do_not_depend_on_where_a_run_computes(graph, monkeypatch, light, brief, wake, used_up):
    drawn = af.random_normal([3], seed=1) + af.constant(np.zeros(3, np.float32))
    found = []
    for executor in ("tokens", "regions"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append([await session.run(drawn) for _ in range(4)])
        monkeypatch.setattr(Slice, "used_up", lambda piece: used_up)
        monkeypatch.setattr(op_cost, "HEAVY", light)
        monkeypatch.setattr(op_cost, "BIG_KERNEL", light)
        monkeypatch.setattr(op_cost, "BRIEF", brief)
        monkeypatch.setattr(op_cost, "WAKE", wake)
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) == 12


@pytest.mark.real
@pytest.mark.parametrize("hindrance", ["", "long", "slice used up", "another step", "another device"])
async def test_a_heavy_unit_stays_on_the_loop_if_it_is_brief_and_no_other_work_could_run_meanwhile(
    graph, monkeypatch, hindrance
):
    monkeypatch.setattr(Slice, "used_up", lambda piece: hindrance == "slice used up")
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)
    monkeypatch.setattr(op_cost, "BRIEF", 0.0 if hindrance == "long" else math.inf)
    monkeypatch.setattr(op_cost, "WAKE", 0.0)
    main, seen, gate = threading.main_thread(), [], Gate()

    def note(value):
        seen.append(threading.current_thread() is main)
        return value

    async def passed(value):
        return value

    x = af.placeholder(af.float32, [])
    y = light(waiting(x, passed), note)
    if hindrance == "another device":
        with af.device("/cpu:1"):
            y = y, af.identity(waiting(x, passed))
    held = gated(gate)
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})) as session:
        other = asyncio.create_task(session.run(held)) if hindrance == "another step" else None
        for _ in range(2):
            await session.run(y, {x: 1.0})
        gate.open()
        if other is not None:
            await other
    assert seen == [False, not hindrance]


def test_work_is_brief_if_a_measurement_says_so_and_not_an_estimate():
    cost = op_cost.RegionCost(lambda inputs: (op_cost.BRIEF / 2, True), 1)
    assert cost.heavy(0, [])
    assert not cost.brief(0)
    cost.learn(0, op_cost.BRIEF / 2)
    assert cost.brief(0)
    cost.learn(0, op_cost.BRIEF * 2)
    assert not cost.brief(0)


def test_a_clock_that_stands_still_teaches_no_cost():
    cost = op_cost.RegionCost(lambda inputs: (1.0, True), 1)
    assert cost.heavy(0, [])
    for _ in range(100):
        cost.learn(0, 0.0)
    assert cost.heavy(0, [])
    assert not cost.brief(0)


def test_a_loop_is_never_brief():
    cost = op_cost.RegionCost(lambda inputs: (op_cost.BRIEF / 2, True), math.inf)
    cost.heavy(0, [])
    cost.learn(0, op_cost.BRIEF / 2)
    assert not cost.brief(0)


def test_a_measurement_far_above_the_estimate_replaces_it_at_once():
    cost = op_cost.RegionCost(lambda inputs: (50e-6, True), 1)
    bucket = cost.bucket([])
    assert not cost.heavy(bucket, [])
    cost.learn(bucket, 0.2)
    assert cost.heavy(bucket, [])


def test_an_interrupted_measurement_makes_light_work_heavy_for_a_few_runs_only():
    cost = op_cost.RegionCost(lambda inputs: (50e-6, False), 1)
    bucket = cost.bucket([])
    cost.light(bucket, [])
    cost.learn(bucket, 10e-3)
    heavy = 0
    while cost.heavy(bucket, []):
        cost.learn(bucket, 50e-6)
        heavy += 1
    assert 0 < heavy < 10


def test_strings_count_with_their_bytes():
    cost = op_cost.RegionCost(lambda inputs: (1e-6, True), 1, texts=(0,))
    short, long = np.array([b"a"], object), np.array([b"a" * 1_000_000], object)
    assert cost.bucket([long]) > cost.bucket([short]) + 15
    many = np.full(100_000, b"a" * 10, object)
    assert op_cost.text_bytes(many) == pytest.approx(1_000_000, rel=0.1)
    assert op_cost.text_bytes(b"abc") == 3


@pytest.mark.parametrize("shape", [[], [1], [2, 2]])
def test_numbers_count_with_their_absolute_values(shape):
    cost = op_cost.RegionCost(lambda inputs: (1e-6, True), 1, numbers=(0,))
    for value in (3, 100, 2**31 - 1):
        buckets = {cost.bucket([np.full(shape, each, np.int32)]) for each in (value, -value)}
        assert buckets == {(value + math.prod(shape)).bit_length()}
    assert cost.bucket([np.full(shape, -(2**31), np.int32)]) == 32
    assert cost.bucket([np.zeros((0, *shape), np.int32)]) == 0


async def test_a_loop_runs_with_the_least_integer_as_its_bound(graph):
    n = af.placeholder(af.int32, [])
    last = af.while_loop(lambda i: i < n, lambda i: [i + 1], [0])
    async with af.Session(graph=graph) as session:
        assert await session.run(last, {n: np.int32(-(2**31))}) == 0


@pytest.mark.parametrize(
    ("shape", "value"), [([None], np.full(100_000, b"text", object)), ([], b"a long text " * 100_000)]
)
@pytest.mark.real
async def test_the_first_run_over_many_or_long_strings_is_on_a_compute_thread(graph, shape, value):
    x = af.placeholder(af.string, shape)
    y = af.string_upper(x)
    async with af.Session(graph=graph) as session:
        small = np.asarray([b"text"], object).reshape(shape and [1])
        await session.run(y, {x: small})
        cost = session._calls.get(y, (x,)).call.planned.single_unit.cost
        fed = np.asarray(value, object)
        assert cost.heavy(cost.bucket([fed]), [fed])


def test_many_tiny_kernels_never_go_to_a_thread():
    cost = op_cost.RegionCost(lambda inputs: op_cost.total([(1e-6, 10_000)]), 10_000)
    assert not cost.heavy(0, [])


async def test_a_long_region_of_tiny_kernels_lets_the_loop_turn(graph):
    x = af.placeholder(af.float32, [1000])
    y = x
    for _ in range(amount(3_000, 8_000)):
        y = af.floormod(y, 7.0)  # which no processor computes for several elements at once
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with af.Session(graph=graph) as session:
        await session.run(y, {x: np.ones(1000)})
        counter = asyncio.create_task(count())
        await asyncio.sleep(0)
        turns = 0
        await session.run(y, {x: np.ones(1000)})
        counter.cancel()
    assert turns >= 2


async def test_the_loop_turns_between_units_when_the_slice_of_time_is_used_up(graph, monkeypatch):
    monkeypatch.setattr(Slice, "used_up", lambda self: True)
    y, turns = af.placeholder(af.float32, [], name="x"), 0
    for _ in range(100):
        y = y + 1.0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with af.Session(graph=graph, config=af.Config(executor="tokens")) as session:
        await session.run(y, {"x:0": 0.0})
        counter = asyncio.create_task(count())
        await session.run(y, {"x:0": 0.0})
        counter.cancel()
    assert turns >= 99  # one between each two units


async def test_a_loop_of_runs_that_never_wait_lets_the_loop_turn(graph):
    x = af.placeholder(af.float32, [])
    y = x + 1.0
    turned = asyncio.Event()
    async with af.Session(graph=graph) as session:
        asyncio.get_running_loop().call_soon(turned.set)
        for _ in range(100_000):
            await session.run(y, {x: 0.0})
            if turned.is_set():
                break
    assert turned.is_set()


@pytest.mark.real
async def test_cancelling_offloaded_work_returns_at_once_and_close_waits_for_what_is_left():
    threads = Threads("test", 1)
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()

    run = asyncio.create_task(threads.run(work, "in C code"))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    queued = asyncio.create_task(threads.run(work, "not begun"))
    await asyncio.sleep(0)
    run.cancel()
    queued.cancel()
    await asyncio.gather(run, queued, return_exceptions=True)
    assert threads.detached == ["in C code"]
    assert await threads.close(0) == ["in C code"]
    go_on.set()
    assert await threads.close(5) == []
    await asyncio.get_running_loop().shutdown_default_executor()


async def test_nothing_of_a_detached_step_is_committed(graph):
    variable = af.Variable(0.0)
    step = Step(SessionState(af.Config()), ())
    step.ended = True
    state = VariableState("v", variable.handle.spec.items[0])
    state.assign(np.float32(1))
    kernel = assign_variable.kernels["CPU"][0].function
    with pytest.raises(af.errors.CancelledError, match="not committed"):
        kernel(step.context, state, np.float32(7))
    assert state.read() == 1


@pytest.mark.real
async def test_concurrent_updates_from_the_loop_and_from_threads_are_all_counted(graph):
    variable = af.Variable(np.zeros(3, np.float64))
    light = variable.assign_add(np.ones(3))
    x = af.placeholder(af.float64, [None])
    heavy = variable.assign_add(af.ones([3], af.float64) * (af.reduce_sum(af.exp(x)) * 0.0 + 1.0))
    init = af.global_variables_initializer()
    big = np.zeros(200_000)
    async with af.Session(graph=graph, config=af.Config(compute_threads=2)) as session:
        await session.run(init)
        runs = [session.run(light.op) for _ in range(300)] + [session.run(heavy.op, {x: big}) for _ in range(50)]
        await asyncio.gather(*runs)
        np.testing.assert_array_equal(await session.run(variable), [350.0] * 3)
