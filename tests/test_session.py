"""The session: its life, its calls, its loop, what its values are worth, the order of one variable's operations."""

import asyncio
import contextvars
import gc
import itertools
import threading
import warnings

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate, VirtualTimeLoop, no_leaks
from tests.support.doubles import gated, heavy, light, waiting
from tests.support.scale import amount

EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def counter(name="counter"):
    """An integer variable, and the operation that adds one to it."""
    v = af.Variable(0, name=name)
    return v, v.assign_add(1)


class TestLife:
    async def test_it_runs_what_is_asked_for_and_what_that_needs(self, session):
        seen = []
        used = light(af.constant(1.0), lambda x: seen.append("used") or x)
        light(af.constant(1.0), lambda x: seen.append("unused") or x)
        assert await session.run(used + 1.0) == 2.0
        assert seen == ["used"]

    async def test_without_a_graph_it_takes_the_default_one(self, graph):
        async with af.Session() as session:
            assert session.graph is graph
            assert await session.run(af.constant(1.0)) == 1.0

    async def test_the_graph_may_grow_between_runs(self, session):
        a = af.constant(1.0)
        assert await session.run(a) == 1.0
        b = a + 1.0
        assert await session.run([a, b]) == [1.0, 2.0]
        step = session.make_callable(b)
        c = b + 1.0
        assert await step() == 2.0
        assert await session.run(c) == 3.0

    async def test_the_graph_may_grow_while_a_run_goes_on(self, session):
        gate = Gate()
        first = asyncio.create_task(session.run(gated(1.0, gate)))
        await gate.arrived()
        assert await session.run(af.constant(5.0) + 1.0) == 6.0
        gate.open()
        assert await first == 1.0

    async def test_a_closed_session_says_so(self, graph):
        value = af.constant(1.0)
        session = af.Session(graph=graph)
        step = session.make_callable(value)
        await session.close()
        for use in (
            lambda: session.run(value),
            lambda: session.run([]),
            lambda: step(),
            lambda: session.partial_run_setup([value]),
            lambda: session.__aenter__(),
        ):
            with pytest.raises(RuntimeError, match="the session is closed; open a new one"):
                await use()
        with pytest.raises(RuntimeError, match="closed"):
            session.make_callable(value)
        assert "closed" in repr(session)

    async def test_closing_twice_is_allowed_also_at_the_same_time(self, graph):
        session = af.Session(graph=graph)
        await session.run(af.constant(1.0))
        await asyncio.gather(session.close(), session.close())
        await session.close()

    async def test_closing_ends_runs_in_other_tasks_with_an_error_of_ours(self, session):
        gate = Gate()
        waits = gated(1.0, gate, name="waits")
        step = session.make_callable(waits + 1.0)
        runs = [asyncio.create_task(run) for run in (session.run(waits), step(), session.run([waits, waits * 2.0]))]
        await gate.arrived(3)
        await session.close()
        for run in runs:
            with pytest.raises(af.errors.CancelledError, match="the session was closed while the run went on"):
                await run
            assert run.cancelling() == 0

    async def test_closing_ends_many_runs_a_few_at_a_time_each_with_an_error_of_its_own(self, session):
        element = af.FIFOQueue(1, [af.int32], shapes=[[]]).dequeue()
        runs = [asyncio.create_task(session.run(element)) for _ in range(200)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(session.close())
        ended = []
        while not closing.done():
            ended.append(sum(run.done() for run in runs))
            await asyncio.sleep(0)
        assert max(later - earlier for earlier, later in itertools.pairwise(ended)) < 100
        failures = await asyncio.gather(*runs, return_exceptions=True)
        assert len(set(map(id, failures))) == 200
        assert {str(failure) for failure in failures} == {"the session was closed while the run went on"}

    async def test_the_task_whose_run_was_closed_lives_on(self, session):
        gate = Gate()

        async def user():
            try:
                await session.run(gated(1.0, gate))
            except af.errors.CancelledError:
                await asyncio.sleep(0)
                return "lives"

        task = asyncio.create_task(user())
        await gate.arrived()
        await session.close()
        assert await task == "lives"

    async def test_an_error_in_the_block_closes_it_and_passes_through(self, graph):
        with pytest.raises(KeyError, match="mine"):
            async with af.Session(graph=graph) as session:
                raise KeyError("mine")
        with pytest.raises(RuntimeError, match="closed"):
            await session.run([])

    async def test_a_cancelled_close_still_releases_everything(self, graph):
        gate, slow = Gate(), Gate()

        async def stubborn(x):
            try:
                await gate.wait()
            finally:
                await slow.wait()

        v, _ = counter()
        session = af.Session(graph=graph)
        await session.run(v.initializer)
        run = asyncio.create_task(session.run(waiting(1.0, stubborn)))
        await gate.arrived()
        close = asyncio.create_task(session.close())
        await slow.arrived()
        close.cancel()
        with pytest.raises(asyncio.CancelledError):
            await close
        assert session._state.resources._own.objects() == {}
        slow.open()
        with pytest.raises(af.errors.CancelledError):
            await run

    async def test_state_is_released_on_close(self, graph):
        v, _ = counter()
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            (state,) = session._state.resources._own.objects().values()
            assert state.initialized
        assert not state.initialized
        assert session.cached_plans == []

    async def test_forgetting_to_close_is_warned_of(self, graph):
        forgotten = [af.Session(graph=graph)]
        await forgotten[0].run(af.constant(1.0))
        gc.collect()
        with pytest.warns(ResourceWarning, match="never closed: use `async with af"):
            forgotten.clear()

    async def test_a_session_that_could_not_be_made_is_not_warned_of(self):
        with warnings.catch_warnings(record=True) as caught:
            with pytest.raises(ValueError, match="target 'grpc://host:1': '' for this process, or the address"):
                af.Session("grpc://host:1")
            gc.collect()
        assert caught == []

    async def test_it_shows_its_graph_and_how_many_steps_run(self, session):
        gate = Gate()
        run = asyncio.create_task(session.run(gated(1.0, gate)))
        await gate.arrived()
        assert "1 steps running" in repr(session)
        gate.open()
        await run
        assert "0 steps running" in repr(session)

    async def test_it_lists_its_device(self, session):
        (device,) = session.list_devices()
        assert device[:3] == ("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", None)


class TestDefault:
    async def test_tensors_and_operations_run_in_the_default_session(self, session):
        v, add = counter()
        x = af.placeholder(af.float32, [])
        with session.as_default():
            assert await v.initializer.run() is None
            assert await add.op.run() is None
            assert await v.eval() == 1
            assert await (x * 2.0).eval({x: 3.0}) == 6.0
            assert await x.op.run({x: 3.0}) is None

    async def test_without_a_default_session_it_says_what_to_do(self, graph):
        value = af.constant(1.0)
        for use in (lambda: value.eval(), lambda: value.op.run()):
            with pytest.raises(ValueError, match=r"no default session: use `async with af\.Session\(\)` or"):
                await use()

    async def test_an_entered_session_is_the_default_until_it_is_left(self, graph):
        value = af.constant(1.0)
        first, second = af.Session(graph=graph), af.Session(graph=graph)
        async with first:
            async with second:
                assert await value.eval() == 1.0
                assert af.get_default_session() is second
                await first.close()
            assert af.get_default_session() is first
        assert af.get_default_session() is None

    async def test_a_session_may_be_left_before_one_entered_later_or_by_another_task(self, graph):
        first, second = await af.Session(graph=graph).__aenter__(), await af.Session(graph=graph).__aenter__()
        await first.__aexit__(None, None, None)
        assert af.get_default_session() is second
        await asyncio.create_task(second.__aexit__(None, None, None))
        with pytest.raises(RuntimeError, match="closed"):
            await af.constant(1.0).eval()
        async with af.Session(graph=graph) as third:
            assert af.get_default_session() is third

    async def test_the_inner_one_counts_and_the_outer_one_comes_back(self, graph):
        v, _ = counter()
        async with af.Session(graph=graph) as outer, af.Session(graph=graph) as inner:
            await outer.run(v.initializer)
            await inner.run(v.initializer)
            await inner.run(v.assign(7))
            with outer.as_default() as given:
                assert given is outer
                with inner.as_default():
                    assert await v.eval() == 7
                assert await v.eval() == 0

    async def test_tasks_have_each_their_own(self, graph):
        v, _ = counter()
        meet = asyncio.Barrier(2)

        async def use(session, value):
            await session.run([v.initializer])
            await session.run(v.assign(value))
            with session.as_default():
                await meet.wait()
                return await v.eval()

        async with af.Session(graph=graph) as first, af.Session(graph=graph) as second:
            assert await asyncio.gather(use(first, 1), use(second, 2)) == [1, 2]


class TestLoops:
    """On real loops: a session belongs to the first one it is used on."""

    @pytest.fixture(params=["asyncio", "uvloop", "virtual"])
    def new_loop(self, request):
        if request.param == "uvloop":
            return pytest.importorskip("uvloop").new_event_loop
        return {"asyncio": asyncio.new_event_loop, "virtual": VirtualTimeLoop}[request.param]

    def test_entered_used_and_closed_in_different_tasks_of_a_loop_that_stops_in_between(self, graph, new_loop):
        v, add = counter()
        session = af.Session(graph=graph)
        loop = new_loop()
        try:
            assert loop.run_until_complete(session.__aenter__()) is session
            loop.run_until_complete(session.run(v.initializer))
            step = session.make_callable(add)
            assert [loop.run_until_complete(step()) for _ in range(3)] == [1, 2, 3]
            assert loop.run_until_complete(session.run(heavy(v))) == 3
            loop.run_until_complete(session.close())
        finally:
            loop.close()

    def test_a_run_goes_on_where_it_stopped_when_the_loop_does(self, graph, new_loop):
        gate = Gate()
        loop = new_loop()
        session = af.Session(graph=graph)
        try:
            run = loop.create_task(session.run(gated(1.0, gate) + 1.0))
            loop.run_until_complete(gate.arrived())
            assert not run.done()
            gate.open()
            assert loop.run_until_complete(run) == 2.0
            loop.run_until_complete(session.close())
        finally:
            loop.close()

    def test_another_loop_is_refused_in_every_call(self, graph, new_loop):
        value = af.constant(1.0)
        session = af.Session(graph=graph)
        step = session.make_callable(value)
        first, second = new_loop(), new_loop()
        try:
            first.run_until_complete(session.run(value))
            for use in (lambda: session.run(value), step, lambda: session.partial_run_setup([value]), session.close):
                with pytest.raises(RuntimeError, match="belongs to another event loop; open one session per loop"):
                    second.run_until_complete(use())
            assert first.run_until_complete(session.run(value)) == 1.0
            first.run_until_complete(session.close())
        finally:
            first.close()
            second.close()

    async def test_another_thread_is_refused(self, session):
        value = af.constant(1.0)
        await session.run(value)
        raised = []

        def use():
            try:
                asyncio.run(session.run(value))
            except RuntimeError as error:
                raised.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert "belongs to another event loop" in raised[0]
        assert await session.run(value) == 1.0

    def test_driving_it_without_a_loop_is_refused(self, graph):
        session = af.Session(graph=graph)
        run = session.run([])
        with pytest.raises(RuntimeError, match="loop"):
            run.send(None)

    @pytest.mark.real
    async def test_many_sessions_share_a_loop(self, graph):
        v, add = counter()

        async def use(number):
            async with af.Session(graph=graph) as session:
                await session.run(v.initializer)
                for _ in range(number):
                    await session.run(heavy(add))
                return await session.run(v)

        assert await asyncio.gather(*[use(number) for number in range(5)]) == [0, 1, 2, 3, 4]

    @pytest.mark.real
    async def test_a_session_that_computed_on_threads_leaves_none(self, graph):
        x = af.constant(np.ones(10, np.float32))
        with no_leaks():
            async with af.Session(graph=graph, config=af.Config(compute_threads=3)) as session:
                await asyncio.gather(*[session.run(heavy(x)) for _ in range(9)])


class TestConcurrency:
    @EXECUTORS
    async def test_runs_of_one_session_go_on_side_by_side(self, graph, executor):
        gates = [Gate() for _ in range(3)]
        values = [gated(float(i), gate) + 0.5 for i, gate in enumerate(gates)]
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            runs = [asyncio.create_task(session.run(value)) for value in values]
            for gate in gates:
                await gate.arrived()
            for gate in reversed(gates):
                gate.open()
            assert await asyncio.gather(*runs) == [0.5, 1.5, 2.5]

    @EXECUTORS
    async def test_the_same_call_may_run_many_times_at_once(self, graph, executor):
        x = af.placeholder(af.float32, [])
        gate = Gate()
        value = gated(x, gate) * 2.0
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            step = session.make_callable(value, [x])
            runs = [asyncio.create_task(step(i) if i % 2 else session.run(value, {x: i})) for i in range(10)]
            await gate.arrived(10)
            gate.open()
            assert await asyncio.gather(*runs) == [2.0 * i for i in range(10)]

    async def test_callables_and_runs_of_the_same_elements_share_what_was_prepared(self, graph):
        x, y = af.placeholder(af.float32, [], name="x"), af.placeholder(af.float32, [], name="y")
        async with af.Session(graph=graph) as session:
            for feeds in ([x, y], [y, x], ["x:0", "y:0"], [(x, y)]):
                for _ in range(2):
                    step = session.make_callable([x - y], feeds)
                    values = (1.0, 3.0) if feeds != [(x, y)] else ((1.0, 3.0),)
                    assert await step(*values) == ([2.0] if feeds == [y, x] else [-2.0])
            assert await session.run([x - y], {x: 1.0, y: 3.0}) == [-2.0]
            with pytest.raises(ValueError, match="fed twice"):
                session.make_callable([x - y], [x, x])

    async def test_each_run_has_a_number_of_its_own(self, session):
        value = gated(1.0, gate := Gate())
        gate.open()
        numbers = []
        for _ in range(3):
            await session.run(value, metadata=(metadata := af.RunMetadata()))
            numbers.append(metadata.step_id)
        assert len(set(numbers)) == 3
        assert numbers == sorted(numbers)

    @pytest.mark.real
    async def test_updates_from_the_loop_and_from_threads_are_all_counted(self, graph):
        v = af.Variable(np.zeros(2000), name="v")
        one = af.constant(np.ones(2000))
        inline, offloaded = v.assign_add(one), v.assign_add(heavy(one))
        async with af.Session(graph=graph, config=af.Config(compute_threads=4)) as session:
            await session.run(v.initializer)
            await asyncio.gather(*[session.run(op) for op in (inline.op, offloaded.op) for _ in range(200)])
            assert (await session.run(v)).tolist() == [400.0] * 2000


class TestCallables:
    async def test_it_takes_its_feeds_by_position_in_whatever_order(self, session):
        x, y, z = (af.placeholder(af.float32, [], name=name) for name in "xyz")
        value = x * 100.0 + y * 10.0 + z
        assert await session.make_callable(value, [x, y, z])(1, 2, 3) == 123
        assert await session.make_callable(value, [z, x, y])(3, 1, 2) == 123
        assert await session.make_callable(value, ("y:0", z, "x:0"))(2, 3, 1) == 123
        assert await session.make_callable({"v": [value, x.op]}, [y, x, z])(2, 1, 3) == {"v": [123, None]}

    async def test_without_feeds_it_takes_nothing(self, session):
        assert await session.make_callable(af.constant(1.0) + 1.0)() == 2.0
        assert await session.make_callable([])() == []

    async def test_fed_and_fetched_tensors_come_back(self, session):
        x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
        assert await session.make_callable([y, x + y, x], [y, x])(1, 2) == [1, 3, 2]

    async def test_composite_feeds_stand_among_the_others(self, session):
        x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
        rows, indices = af.placeholder(af.float32, [None]), af.placeholder(af.int32, [None])
        slices = af.IndexedSlices(rows, indices, af.constant([3]))
        value = af.convert_to_tensor(slices) * x + y
        step = session.make_callable(value, [y, slices, x])
        given = af.IndexedSlicesValue([1.0, 2.0], [0, 2], [3])
        assert (await step(10, given, 2)).tolist() == [12.0, 10.0, 14.0]
        for bad, error in ((([1.0], [0]), ValueError), (1.0, TypeError)):
            with pytest.raises(error, match=r"IndexedSlices .* fed"):
                await step(10, bad, 2)

    async def test_the_number_of_values_must_be_right(self, session):
        x, y = af.placeholder(af.float32, [], name="x"), af.placeholder(af.float32, [], name="y")
        step = session.make_callable(x + y, [x, y])
        for values in ((), (1,), (1, 2, 3)):
            given = len(values)
            with pytest.raises(TypeError, match=rf"takes 2 values, for \['x:0', 'y:0'\], and was given {given}"):
                await step(*values)

    async def test_values_are_checked_like_feeds(self, session):
        x = af.placeholder(af.float32, [2], name="x")
        step = session.make_callable(x + 1.0, [x])
        with pytest.raises(ValueError, match=r"shape \[3\] for 'x:0', which has shape \[2\]"):
            await step([1, 2, 3])
        with pytest.raises(TypeError, match="cannot feed 'x:0'"):
            await step("text")
        with pytest.raises(TypeError, match="which a graph holds"):
            await step(x)

    async def test_what_does_not_depend_on_values_is_refused_when_it_is_made(self, session):
        x = af.placeholder(af.float32, [], name="x")
        v = af.Variable(1.0)
        for fetches, feeds, error, text in (
            (None, [], TypeError, "a fetch is None"),
            ("unknown:0", [], ValueError, "no operation 'unknown'"),
            (x, [x, x], ValueError, "'x:0' is fed twice"),
            (x, [x, "x:0"], ValueError, "'x:0' is fed twice"),
            (x, [v], TypeError, "a variable cannot be fed"),
            (x, ["y:0"], ValueError, "no operation 'y'"),
            (x + 1.0, [], af.errors.InvalidArgumentError, "placeholder 'x' must be fed"),
        ):
            with pytest.raises(error, match=text):
                session.make_callable(fetches, feeds)

    async def test_it_takes_options_and_metadata(self, session):
        x = af.placeholder(af.float32, [], name="x")
        step = session.make_callable(af.log(x), [x])
        metadata = af.RunMetadata()
        await step(1.0, options=af.RunOptions(trace=True), metadata=metadata)
        assert [stats.op_type for stats in metadata.step_stats] == ["log"]
        with pytest.raises(af.errors.InvalidArgumentError, match="not finite"):
            await step(-1.0, options=af.RunOptions(check_numerics=True))
        assert np.isnan(await step(-1.0))

    async def test_it_sees_the_variables_of_the_session(self, session):
        v, add = counter()
        await session.run(v.initializer)
        step = session.make_callable(add)
        assert [await step() for _ in range(3)] == [1, 2, 3]
        assert await session.run(v) == 3

    async def test_it_is_made_before_the_loop_runs(self, graph):
        value = af.constant(1.0)
        session = af.Session(graph=graph)
        made = []
        thread = threading.Thread(target=lambda: made.append(session.make_callable(value)))
        thread.start()
        thread.join()
        async with session:
            assert await made[0]() == 1.0


class TestPlans:
    async def test_a_signature_is_planned_once(self, session):
        x = af.placeholder(af.float32, [], name="x")
        y = x + 1.0
        for _ in range(3):
            await session.run(y, {x: 1.0})
            await session.run(y, {"x:0": 1.0})
            await session.run([y], {x: 1.0})
            await session.run({"y": y}, {x: 1.0})
        await session.make_callable(y, [x])(1.0)
        (signature,) = session.cached_plans
        assert repr(signature) == f"<Signature feeds: x:0; fetches: {y.name}; runs: none>"

    async def test_the_order_of_feeds_makes_no_difference(self, session):
        x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
        value = x - y
        assert await session.run(value, {x: 3.0, y: 1.0}) == 2.0
        assert await session.run(value, {y: 1.0, x: 3.0}) == 2.0
        assert await session.make_callable(value, [y, x])(1.0, 3.0) == 2.0
        assert len(session.cached_plans) == 1

    async def test_the_least_recently_used_plan_makes_room(self, graph):
        a, b, c = (af.constant(float(i)) for i in range(3))
        async with af.Session(graph=graph, config=af.Config(plan_cache_size=2)) as session:
            for fetch in (a, b, a, c):
                await session.run(fetch)
            assert [signature.fetches for signature in session.cached_plans] == [(a,), (c,)]
            assert await session.run([b, a]) == [1.0, 0.0]
            assert await session.run(b) == 1.0
            assert len(session.cached_plans) == 2

    async def test_hundreds_of_signatures_leave_a_bounded_cache(self, graph):
        x = af.placeholder(af.float32, [])
        values = [x * float(i) for i in range(amount(60, 300))]
        async with af.Session(graph=graph, config=af.Config(plan_cache_size=10)) as session:
            for i, value in enumerate(values):
                assert await session.run(value, {x: 2.0}) == 2.0 * i
            assert [signature.fetches for signature in session.cached_plans] == [(value,) for value in values[-10:]]
            assert len(session._calls) <= 10

    async def test_a_callable_outlives_the_eviction_of_its_plan(self, graph):
        x = af.placeholder(af.float32, [])
        value = x + 1.0
        async with af.Session(graph=graph, config=af.Config(plan_cache_size=1)) as session:
            step = session.make_callable(value, [x])
            assert await step(1.0) == 2.0
            await session.run(af.constant(0.0))
            assert await step(2.0) == 3.0
            assert [signature.fetches for signature in session.cached_plans] == [(value,)]

    async def test_a_plan_is_evicted_while_it_runs(self, graph):
        gate = Gate()
        value = gated(1.0, gate) + 1.0
        async with af.Session(graph=graph, config=af.Config(plan_cache_size=1)) as session:
            run = asyncio.create_task(session.run(value))
            await gate.arrived()
            await session.run(af.constant(0.0))
            gate.open()
            assert await run == 2.0


class TestValues:
    """A fetched value is the caller's own: nothing else changes it, and changing it changes nothing else."""

    @staticmethod
    async def spoil(session, fetch, feeds=None):
        """Fetch, write over what came, and fetch again."""
        first = await session.run(fetch, feeds)
        before = first.tolist()
        first[...] = -77
        assert (await session.run(fetch, feeds)).tolist() == before

    @EXECUTORS
    @pytest.mark.parametrize("optimize", [True, False])
    async def test_writing_to_a_result_changes_nothing_else(self, graph, executor, optimize):
        x = af.placeholder(af.float32, [3])
        v = af.Variable(np.arange(3, dtype=np.float32))
        c = af.constant([4.0, 5.0, 6.0])
        fed = np.array([1, 2, 3], np.float32)
        config = af.Config(executor=executor, optimize=optimize)
        async with af.Session(graph=graph, config=config) as session:
            await session.run(v.initializer)
            for fetch in (
                v, v.read_value(), v * 1.0, af.identity(v), af.reshape(v, [3]), v[0:3], v.initialized_value(),
                v.assign([7.0, 8.0, 9.0]), v.assign_sub([0.0, 0.0, 0.0]), c, af.identity(c), c * 1.0, 0.0 + c,
                af.stop_gradient(c), x, af.identity(x), x * 1.0, x[0:3], af.reshape(x, [1, 3]), x + 0.0,
            ):  # fmt: skip
                await self.spoil(session, fetch, {x: fed})
            assert fed.tolist() == [1, 2, 3]

    @EXECUTORS
    async def test_constants_are_fetched_beside_what_waits(self, graph, executor):
        x = af.placeholder(af.float32, [])
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            for waits in (gated(5.0, opened()), gated(x, opened()), gated(gated(5.0, opened()), opened())):
                c = af.constant(3.0)
                fed = {x: 5.0}
                assert await session.run([c, waits], fed) == [3.0, 5.0]
                assert await session.run([waits, c, c + 1.0], fed) == [5.0, 3.0, 4.0]
                assert await session.run([waits * 2.0, c], fed) == [10.0, 3.0]
                assert await session.run([c, waits.op, x], fed) == [3.0, None, 5.0]

    async def test_two_fetches_do_not_share_memory(self, session):
        x = af.placeholder(af.float32, [3])
        a, b, c = af.exp(x), af.exp(x), af.identity(af.exp(x))
        got = await session.run([a, b, c, a[0:2]], {x: np.zeros(3, np.float32)})
        for one in got:
            for other in got:
                assert one is other or not np.shares_memory(one, other)

    async def test_what_a_kernel_keeps_is_not_what_the_caller_gets(self, session):
        kept = []
        made = af.exp(af.placeholder(af.float32, [2], name="x"))
        keep = light(made, lambda x: kept.append(x) or x)
        got, _ = await session.run([made, keep.op], {"x:0": [0.0, 0.0]})
        got[...] = 5
        assert kept[0].tolist() == [1.0, 1.0]

    @EXECUTORS
    async def test_a_value_that_was_read_survives_updates_in_place(self, graph, executor):
        v = af.Variable(np.zeros(4, np.float32))
        gate = Gate()
        read = gated(v.read_value(), gate)
        add = v.assign_add(np.ones(4, np.float32)).op
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            await session.run(v.initializer)
            fetched = await session.run(v)
            waiting_read = asyncio.create_task(session.run(read))
            await gate.arrived()
            for _ in range(3):
                await session.run(add)
            gate.open()
            assert (await waiting_read).tolist() == [0.0] * 4
            assert fetched.tolist() == [0.0] * 4
            assert (await session.run(v)).tolist() == [3.0] * 4

    async def test_updates_are_in_place_when_nobody_looks(self, session):
        v = af.Variable(np.zeros(1000, np.float32))
        add = v.assign_add(np.ones(1000, np.float32)).op
        await session.run(v.initializer)
        (state,) = session._state.resources._own.objects().values()
        await session.run(add)
        places = set()
        for _ in range(5):
            await session.run(add)
            places.add(state.read().ctypes.data)
        assert len(places) == 1

    @pytest.mark.real
    async def test_an_update_on_a_thread_does_not_change_what_the_loop_reads_meanwhile(self, graph):
        v = af.Variable(np.zeros(10, np.float32))
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            (state,) = session._state.resources._own.objects().values()
            reads, readers = [], []

            def change(array):
                readers.append(threading.Thread(target=lambda: reads.append(state.read())))
                readers[0].start()
                readers[0].join(0.05)  # it may have to wait for the end of the change, or may not
                before = [read.tolist() for read in reads]
                array += 1
                assert [read.tolist() for read in reads[: len(before)]] == before

            state.change(change)
            readers[0].join()
            assert reads[0].tolist() in ([0.0] * 10, [1.0] * 10)

    async def test_the_assigned_value_is_a_copy(self, session):
        x = af.placeholder(af.float32, [2])
        v = af.Variable([0.0, 0.0])
        given = np.array([1.0, 2.0], np.float32)
        await session.run(v.assign(x).op, {x: given})
        given[...] = 9
        assert (await session.run(v)).tolist() == [1.0, 2.0]


@EXECUTORS
class TestOrder:
    """Within a step the operations of one variable run in the order they were built."""

    @pytest.fixture
    async def session(self, graph, executor):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            yield session

    async def test_a_loss_built_before_the_update_is_computed_from_the_values_before_it(self, session):
        w = af.Variable(10.0)
        loss = w * w
        train = w.assign_sub(1.0).op
        await session.run(w.initializer)
        assert await session.run([loss, train]) == [100.0, None]
        assert await session.run([train, loss]) == [None, 81.0]
        assert await session.run({"after": train, "loss": loss}) == {"after": None, "loss": 64.0}

    async def test_the_order_of_the_fetches_makes_no_difference(self, session):
        w = af.Variable(1.0)
        before = w.read_value()
        changed = w.assign(2.0)
        after = w.read_value()
        for fetches, expected in (
            ([before, changed, after], [1.0, 2.0, 2.0]),
            ([after, changed, before], [2.0, 2.0, 1.0]),
            ([after, before, changed.op], [2.0, 1.0, None]),
        ):
            await session.run(w.initializer)
            assert await session.run(fetches) == expected

    async def test_what_is_not_asked_for_does_not_count(self, session):
        w = af.Variable(1.0)
        w.assign(2.0)
        after = w.read_value()
        await session.run(w.initializer)
        assert await session.run(after) == 1.0

    async def test_updates_follow_each_other(self, session):
        w = af.Variable(1.0)
        steps = [w.assign_add(1.0), w.assign(w * 3.0), w.assign_sub(0.5), w.assign(w * w)]
        await session.run(w.initializer)
        assert await session.run(list(reversed(steps))) == [30.25, 5.5, 6.0, 2.0]

    async def test_a_read_waits_for_an_update_that_waits(self, session):
        gate = Gate()
        w = af.Variable(1.0)
        changed = w.assign(gated(2.0, gate))
        after = w.read_value()
        await session.run(w.initializer)
        run = asyncio.create_task(session.run([after, changed.op]))
        await gate.arrived()
        assert await session.run(w) == 1.0
        gate.open()
        assert await run == [2.0, None]

    async def test_an_update_waits_for_reads_that_are_not_done(self, session):
        gate = Gate()
        w = af.Variable(1.0)
        before = gated(w.read_value(), gate)
        changed = w.assign(2.0)
        await session.run(w.initializer)
        run = asyncio.create_task(session.run([before, changed]))
        await gate.arrived()
        gate.open()
        assert await run == [1.0, 2.0]

    async def test_edges_of_the_user_win_over_the_order_of_building(self, session, graph):
        w = af.Variable(1.0)
        with graph.control_dependencies([w.assign(5.0)]):
            after = w.read_value()
        await session.run(w.initializer)
        assert await session.run(after) == 5.0

    async def test_variables_are_ordered_one_by_one(self, session):
        gate = Gate()
        v, w = af.Variable(1.0), af.Variable(1.0)
        passed = Gate()
        changed = v.assign(gated(2.0, gate)).op
        other = gated(w.read_value(), passed)
        await session.run([v.initializer, w.initializer])
        run = asyncio.create_task(session.run([changed, other]))
        await gate.arrived()
        await passed.arrived()
        passed.open()
        gate.open()
        assert await run == [None, 1.0]

    async def test_initializers_may_depend_on_each_other_in_one_run(self, session):
        v = af.Variable(3.0)
        w = af.Variable(v.initialized_value() * 2.0)
        await session.run(af.global_variables_initializer())
        assert await session.run(w) == 6.0


class TestErrors:
    @EXECUTORS
    @pytest.mark.parametrize("place", [light, heavy])
    async def test_a_failing_kernel_is_named_with_its_line_its_inputs_and_its_cause(self, graph, executor, place):
        def fail(value):
            raise ValueError(f"bad value {float(value.sum())}")

        x = af.placeholder(af.float32, [None])
        broken = place(x * 2.0, fail, name="broken") + 1.0
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            for _ in range(2):
                with pytest.raises(af.errors.InvalidArgumentError, match="bad value 6") as caught:
                    await session.run(broken, {x: [1.0, 2.0]})
                error = caught.value
                assert (error.op, error.op_type, error.shapes) == ("broken", place.name, ("float32[2]",))
                assert __file__ in error.line
                assert "test_a_failing_kernel" in error.line
                assert isinstance(error.__cause__, ValueError)
                assert await session.run(x + 1.0, {x: [1.0]}) == 2.0
            assert session._state.steps == {}

    async def test_a_failed_step_leaves_the_session_usable(self, session):
        v, add = counter()
        await session.run(v.initializer)
        broken = light(af.constant(1.0), lambda x: 1 / 0)
        for i in range(3):
            with pytest.raises(af.errors.UnknownError, match="ZeroDivisionError: division by zero"):
                await session.run([broken, gated(1.0, Gate())])
            assert await session.run(add) == i + 1

    async def test_an_uninitialized_variable_is_named(self, session):
        v = af.Variable(1.0, name="weights")
        with pytest.raises(af.errors.FailedPreconditionError, match="variable 'weights' is not initialized: run its"):
            await session.run(v + 1.0)
        with pytest.raises(af.errors.FailedPreconditionError, match="'weights'"):
            await session.run(v.assign_add(1.0))


async def test_the_context_variables_of_the_caller_reach_what_waits(session):
    user = contextvars.ContextVar("user")

    async def who(x):
        return np.array(len(user.get()), np.float32)

    value = waiting(1.0, who)
    user.set("anna")
    assert await session.run(value) == 4.0
    assert await session.run([value, gated(value, opened())]) == [4.0, 4.0]


def opened():
    gate = Gate()
    gate.open()
    return gate


def test_making_a_session_starts_nothing(graph):
    threads = threading.active_count()
    session = af.Session(graph=graph)
    session.make_callable(af.constant(1.0) + 1.0)
    assert threading.active_count() == threads
