"""Partial runs: one step, fed and fetched from in several calls."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate
from tests.support.doubles import gated, heavy, light, waiting

INVALID = af.errors.InvalidArgumentError


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["regions", "tokens"])
async def session(graph, request):
    async with af.Session(graph=graph, config=af.Config(executor=request.param)) as session:
        yield session
        assert len(session._engine._partial) == 0
        assert session._state.steps == {}


@pytest.fixture
def abc(graph):
    """TensorFlow's own example: r1 = a + b, r2 = r1 * c."""
    a, b, c = (af.placeholder(af.float32, [], name=name) for name in "abc")
    r1 = af.add(a, b, name="r1")
    return a, b, c, r1, af.multiply(r1, c, name="r2")


# The course of it


async def test_feeds_come_and_fetches_go_in_several_calls(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3
    assert await session.partial_run(handle, r2, {c: 10}) == 30


async def test_what_came_of_one_call_may_be_fed_in_the_next(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    first = await session.partial_run(handle, r1, {a: 1, b: 2})
    assert await session.partial_run(handle, r2, {c: first * 17}) == 153


async def test_everything_in_one_call_is_a_run(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    got = await session.partial_run(handle, {"r": [r2, r1, r2]}, {"a:0": 1, b: 2, c: 10})
    assert got == {"r": [30, 3, 30]}


async def test_feeding_and_fetching_may_be_calls_of_their_own(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    assert await session.partial_run(handle, [], {a: 1}) == []
    assert await session.partial_run(handle, [], {c: 10, b: 2}) == []
    assert await session.partial_run(handle, r2) == 30
    assert await session.partial_run(handle, [r1]) == [3]


async def test_a_call_of_feeds_alone_may_be_the_last(session, abc):
    a, b, c, r1, _ = abc
    handle = await session.partial_run_setup([r1], [a, b, c])
    assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3
    assert await session.partial_run(handle, [], {c: 1}) == []
    with pytest.raises(INVALID, match="over: must run partial_run_setup again"):
        await session.partial_run(handle, [])


async def test_every_handle_is_a_step_of_its_own(session, abc):
    a, b, c, r1, r2 = abc
    handles = [await session.partial_run_setup([r1, r2], [a, b, c]) for _ in range(20)]
    firsts = [await session.partial_run(handle, r1, {a: i, b: 1}) for i, handle in enumerate(handles)]
    assert firsts == [i + 1 for i in range(20)]
    lasts = [await session.partial_run(handle, r2, {c: 2}) for handle in reversed(handles)]
    assert lasts == [2 * (i + 1) for i in reversed(range(20))]


async def test_what_needs_no_feed_runs_at_once(session, graph):
    early, late = Gate(), Gate()
    x = af.placeholder(af.float32, [])
    values = [gated(1.0, early), gated(x, late)]
    handle = await session.partial_run_setup(values, [x])
    await early.arrived()
    assert late.entered == 0
    early.open()
    late.open()
    assert await session.partial_run(handle, values[0]) == 1.0
    assert await session.partial_run(handle, values[1], {x: 2.0}) == 2.0


async def test_constants_are_fetched_before_and_beside_feeds(session, graph):
    x = af.placeholder(af.float32, [])
    c = af.constant(3.0)
    second = c + 1.0
    handle = await session.partial_run_setup([c, x, second], [x])
    assert await session.partial_run(handle, [second, c]) == [4.0, 3.0]
    assert await session.partial_run(handle, x, {x: 5.0}) == 5.0


async def test_what_is_fed_may_be_fetched(session, graph):
    x = af.placeholder(af.float32, [2])
    handle = await session.partial_run_setup([x, x * 2.0], [x])
    given = np.array([1, 2], np.float32)
    got = await session.partial_run(handle, x, {x: given})
    got[...] = 9
    assert given.tolist() == [1, 2]
    await handle.stop()


async def test_an_operation_runs_as_soon_as_it_can(session, graph):
    x = af.placeholder(af.float32, [])
    v = af.Variable(1.0)
    assign = v.assign(x).op
    await session.run(v.initializer)
    handle = await session.partial_run_setup([assign], [x])
    with pytest.raises(INVALID, match="is an operation: it runs as soon as it can, and only tensors can be fetched"):
        await session.partial_run(handle, assign, {x: 5.0})
    assert await session.partial_run(handle, [], {x: 5.0}) == []
    assert await session.run(v) == 5.0


async def test_any_tensor_may_be_fed_and_what_it_was_made_from_not_be(session, abc):
    a, _, c, r1, r2 = abc
    handle = await session.partial_run_setup([r2], [a, r1, c])
    assert await session.partial_run(handle, r2, {r1: 5, c: 2}) == 10
    assert await session.partial_run(handle, [], {a: 1}) == []


async def test_indexed_slices_are_fed_and_fetched_as_one(session, graph):
    slices = af.IndexedSlices(af.placeholder(af.float32, [None]), af.placeholder(af.int32, [None]), af.constant([3]))
    dense = af.convert_to_tensor(slices)
    handle = await session.partial_run_setup([slices, dense], [slices])
    value = af.IndexedSlicesValue([1.0], [2], [3])
    assert (await session.partial_run(handle, dense, {slices: value})).tolist() == [0.0, 0.0, 1.0]
    assert (await session.partial_run(handle, slices)).indices.tolist() == [2]


async def test_heavy_and_waiting_kernels_take_part(session, graph):
    gate = Gate()
    x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    first, second = heavy(x) + 1.0, gated(y, gate) * 2.0
    handle = await session.partial_run_setup([first, second, first + second], [x, y])
    waits = asyncio.create_task(session.partial_run(handle, second, {y: 4.0}))
    await gate.arrived()
    assert await session.partial_run(handle, first, {x: 1.0}) == 2.0
    gate.open()
    assert await waits == 8.0
    await handle.stop()


async def test_runs_and_partial_runs_share_variables(session, graph):
    x = af.placeholder(af.float32, [])
    v = af.Variable(1.0)
    before = v.read_value()
    changed = v.assign_add(x)
    after = v.read_value()
    await session.run(v.initializer)
    handle = await session.partial_run_setup([before, changed, after], [x])
    assert await session.partial_run(handle, before) == 1.0
    await session.run(v.assign(10.0))
    with pytest.raises(INVALID, match="it depends on 'placeholder:0', which has not been fed"):
        await session.partial_run(handle, after)
    assert await session.partial_run(handle, [after, changed], {x: 5.0}) == [15.0, 15.0]


async def test_calls_of_one_handle_go_on_at_the_same_time(session, graph):
    gates = [Gate() for _ in range(4)]
    feeds = [af.placeholder(af.float32, []) for _ in gates]
    values = [gated(x, gate) for x, gate in zip(feeds, gates, strict=True)]
    handle = await session.partial_run_setup(values, feeds)
    calls = [
        asyncio.create_task(session.partial_run(handle, value, {x: i}))
        for i, (value, x) in enumerate(zip(values, feeds, strict=True))
    ]
    for i in (2, 0, 3, 1):
        await gates[i].arrived()
        gates[i].open()
        assert await calls[i] == i
    with pytest.raises(INVALID, match="over"):
        await session.partial_run(handle, [])


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_several_devices_wait_for_one_feed(graph, executor, turns):
    x = af.placeholder(af.float32, [])
    values = []
    for device in range(4):
        with af.device(f"/cpu:{device}"):
            values.append(light(x) * device)
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 4}, executor=executor)) as session:
        handle = await session.partial_run_setup(values, [x])
        for _ in range(turns):
            await asyncio.sleep(0)
        assert await session.partial_run(handle, values, {x: 2.0}) == [0.0, 2.0, 4.0, 6.0]


# Misuse


async def test_a_feed_is_given_once(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    await session.partial_run(handle, r1, {a: 1, b: 2})
    with pytest.raises(INVALID, match="'a:0' has already been fed in this partial run"):
        await session.partial_run(handle, r2, {c: 3, a: 1})
    assert await session.partial_run(handle, r2, {c: 3}) == 9


async def test_a_fetch_is_taken_once(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    await session.partial_run(handle, r1, {a: 1, b: 2})
    with pytest.raises(INVALID, match="'r1:0' has already been fetched in this partial run"):
        await session.partial_run(handle, [r1, r2], {c: 3})
    assert await session.partial_run(handle, r2, {c: 3}) == 9


async def test_a_fetch_waits_for_no_feed_that_is_missing(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    with pytest.raises(INVALID, match="'r2:0' cannot be fetched yet: it depends on 'b:0', which has not been fed"):
        await session.partial_run(handle, r2, {a: 1, c: 1})
    assert await session.partial_run(handle, [r1, r2], {a: 1, b: 2, c: 3}) == [3, 9]


async def test_only_what_was_set_up_is_fed_and_fetched(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1], [a, b])
    with pytest.raises(INVALID, match="'c:0' is not among the feeds of this partial run"):
        await session.partial_run(handle, r1, {a: 1, b: 2, c: 3})
    with pytest.raises(INVALID, match="'r2:0' is not among the fetches of this partial run"):
        await session.partial_run(handle, r2, {a: 1, b: 2})
    assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3


async def test_a_bad_value_is_refused_and_nothing_of_the_call_is_fed(session, abc):
    a, b, _, r1, _ = abc
    handle = await session.partial_run_setup([r1], [a, b])
    with pytest.raises(ValueError, match=r"shape \[2\] for 'b:0', which has shape \[\]"):
        await session.partial_run(handle, r1, {a: 1, b: [1, 2]})
    with pytest.raises(TypeError, match="a fetch is None"):
        await session.partial_run(handle, None, {a: 1})
    with pytest.raises(TypeError, match="feeds are a dict"):
        await session.partial_run(handle, r1, [1, 2])
    assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3


async def test_a_handle_that_is_used_up_is_dead(session, abc):
    a, b, _, r1, _ = abc
    handle = await session.partial_run_setup([r1], [a, b])
    await session.partial_run(handle, r1, {a: 1, b: 2})
    for fetches, feeds in ((r1, None), ([], {a: 1}), ([], None)):
        with pytest.raises(INVALID, match="the partial run is over: must run partial_run_setup again"):
            await session.partial_run(handle, fetches, feeds)


async def test_a_handle_belongs_to_its_session(session, graph, abc):
    a, b, _, r1, _ = abc
    async with af.Session(graph=graph) as other:
        handle = await other.partial_run_setup([r1], [a, b])
        for stranger in (handle, "handle", None):
            with pytest.raises(INVALID, match="is not a partial run of this session; see partial_run_setup"):
                await session.partial_run(stranger, r1, {a: 1, b: 2})


async def test_setting_up_is_checked_like_a_run(session, abc):
    a, _, _, r1, _ = abc
    for fetches, feeds, error, text in (
        (None, [], TypeError, "a fetch is None"),
        ([r1], [a, "a:0"], ValueError, "'a:0' is fed twice"),
        ([r1], ["x:0"], ValueError, "no operation 'x'"),
        ([r1], [a], INVALID, "placeholder 'b' must be fed"),
    ):
        with pytest.raises(error, match=text):
            await session.partial_run_setup(fetches, feeds)


async def test_the_handle_shows_how_far_it_is(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    assert "0 of 3 fed, 0 of 2 fetched>" in repr(handle)
    await session.partial_run(handle, r1, {a: 1, b: 2})
    assert "2 of 3 fed, 1 of 2 fetched>" in repr(handle)
    await session.partial_run(handle, r2, {c: 2})
    assert "3 of 3 fed, 2 of 2 fetched, over>" in repr(handle)


# Errors, cancellation, limits, close


def failing(x, name="broken"):
    def fail(value):
        raise ValueError(f"bad value {float(value)}")

    return light(x, fail, name=name)


async def test_an_error_ends_it_and_every_later_call_raises_it(session, abc):
    a, b, c, r1, _ = abc
    broken = failing(r1)
    handle = await session.partial_run_setup([broken, c * 1.0], [a, b, c])
    for fetches, feeds in ((broken, {a: 1, b: 2}), ([], {c: 1}), (broken, None), ([], None)):
        with pytest.raises(INVALID, match=r"bad value 3\.0") as caught:
            await session.partial_run(handle, fetches, feeds)
        assert caught.value.op == "broken"
        assert session._state.steps == {}


async def test_what_was_there_before_the_error_was_fetched(session, abc):
    a, b, c, r1, r2 = abc
    broken = failing(r2)
    handle = await session.partial_run_setup([r1, broken], [a, b, c])
    assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3
    with pytest.raises(INVALID, match="bad value 9"):
        await session.partial_run(handle, broken, {c: 3})


async def test_an_error_of_an_operation_that_nobody_fetches_is_raised_by_the_last_call(session, abc):
    a, b, _, r1, _ = abc
    gate = Gate()
    broken = failing(gated(r1, gate))
    handle = await session.partial_run_setup([r1, broken.op], [a, b])
    call = asyncio.create_task(session.partial_run(handle, r1, {a: 1, b: 2}))
    await gate.arrived()
    gate.open()
    with pytest.raises(INVALID, match="bad value 3"):
        await call


async def test_an_error_that_nobody_asks_for_is_seen(session, abc):
    a, b, _, r1, _ = abc
    handle = await session.partial_run_setup([failing(af.constant(1.0)), r1], [a, b])
    await asyncio.wait([handle.runner])
    with pytest.raises(INVALID, match="bad value 1"):
        await session.partial_run(handle, r1, {a: 1, b: 2})


async def test_cancelling_a_call_ends_its_partial_run_and_no_other(session, graph):
    gate, x = Gate(), af.placeholder(af.float32, [])
    waits, ready = gated(x, gate, name="waits"), x * 2.0
    ours = await session.partial_run_setup([waits, ready], [x])
    other = await session.partial_run_setup([waits, ready], [x])
    calls = [asyncio.create_task(session.partial_run(handle, waits, {x: 1.0})) for handle in (ours, other)]
    run = asyncio.create_task(session.run(waits, {x: 3.0}))
    await gate.arrived(3)
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await calls[0]
    assert any("was waiting for 'waits'" in note for note in caught.value.__notes__)
    with pytest.raises(af.errors.CancelledError, match="the partial run was cancelled: must run partial_run_setup"):
        await session.partial_run(ours, ready)
    gate.open()
    assert await calls[1] == 1.0
    assert await run == 3.0
    assert await session.partial_run(other, ready) == 2.0


async def test_cancelling_the_call_that_uses_it_up_does_not_wait_for_the_step(session, graph):
    gate, x = Gate(), af.placeholder(af.float32, [])
    handle = await session.partial_run_setup([gated(x, gate)], [x])
    (fetch,) = handle.step.made
    call = asyncio.create_task(session.partial_run(handle, fetch, {x: 1.0}))
    await gate.arrived()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert handle.runner.done()


async def test_cancelling_one_call_ends_the_others_of_the_handle(session, graph):
    gates, x = [Gate(), Gate()], af.placeholder(af.float32, [])
    values = [gated(x, gate) for gate in gates]
    handle = await session.partial_run_setup(values, [x])
    first = asyncio.create_task(session.partial_run(handle, values[0], {x: 1.0}))
    await gates[0].arrived()
    second = asyncio.create_task(session.partial_run(handle, values[1]))
    await gates[1].arrived()
    first.cancel()
    with pytest.raises(af.errors.CancelledError, match="the partial run was cancelled"):
        await second
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_time_limit_around_a_call_ends_it(session, graph):
    gate, x = Gate(), af.placeholder(af.float32, [])
    waits = gated(x, gate, name="waits")
    handle = await session.partial_run_setup([waits], [x])
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(5):
            await session.partial_run(handle, waits, {x: 1.0})
    assert "was waiting for 'waits'" in "".join((caught.value.__cause__ or caught.value.__context__).__notes__)
    assert handle.runner.done()


@pytest.mark.parametrize("limited", ["options", "config"])
async def test_each_call_obeys_the_limit_and_names_what_it_waited_for(graph, limited):
    loop = asyncio.get_running_loop()
    gate, x = Gate(), af.placeholder(af.float32, [])
    ready, waits = x * 2.0, gated(x, gate, name="waits")
    config = af.Config(operation_timeout=5 if limited == "config" else None)
    options = af.RunOptions(timeout=5) if limited == "options" else None
    async with af.Session(graph=graph, config=config) as session:
        handle = await session.partial_run_setup([ready, waits], [x], options)
        await asyncio.sleep(100)  # between the calls time does not count
        assert await session.partial_run(handle, ready, {x: 1.0}) == 2.0
        await asyncio.sleep(100)
        began = loop.time()
        with pytest.raises(af.errors.DeadlineExceededError, match=r"longer than 5 s on /job.*waiting for 'waits'"):
            await session.partial_run(handle, waits)
        assert loop.time() - began == pytest.approx(5)
        assert handle.runner.done()
        with pytest.raises(af.errors.CancelledError, match="the partial run was cancelled"):
            await session.partial_run(handle, [])
        assert await session.run(ready, {x: 4.0}) == 8.0


async def test_closing_the_session_ends_it_with_an_error_of_ours(graph, abc):
    a, b, c, r1, r2 = abc
    gate = Gate()
    waits = gated(r1, gate)
    session = af.Session(graph=graph)
    idle = await session.partial_run_setup([r1, r2], [a, b, c])
    busy = await session.partial_run_setup([waits], [a, b])
    call = asyncio.create_task(session.partial_run(busy, waits, {a: 1, b: 2}))
    await gate.arrived()
    unstarted = await session.partial_run_setup([r1], [a, b])
    await session.close()
    with pytest.raises(af.errors.CancelledError, match="the session was closed while the run went on"):
        await call
    for handle in (idle, busy, unstarted):
        assert handle.runner.done()
        with pytest.raises(RuntimeError, match="the session is closed"):
            await session.partial_run(handle, r1)


async def test_a_handle_that_is_given_up_is_stopped_by_hand(session, abc):
    a, b, c, r1, r2 = abc
    handle = await session.partial_run_setup([r1, r2], [a, b, c])
    await session.partial_run(handle, r1, {a: 1, b: 2})
    await handle.stop()
    await handle.stop()
    with pytest.raises(af.errors.CancelledError, match="the partial run was cancelled"):
        await session.partial_run(handle, r2, {c: 1})


async def test_a_kernel_that_cleans_up_is_waited_for(session, graph):
    gate, cleaned = Gate(), []

    async def careful(value):
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(1)
            cleaned.append(True)

    x = af.placeholder(af.float32, [])
    waits = waiting(x, careful)
    handle = await session.partial_run_setup([waits], [x])
    call = asyncio.create_task(session.partial_run(handle, waits, {x: 1.0}))
    await gate.arrived()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned == [True]


@pytest.mark.parametrize(("fetched", "left"), [("other", 1), ("element", 0)])
async def test_a_run_that_is_given_up_gives_back_only_what_no_call_has_returned(graph, fetched, left):
    queue = af.FIFOQueue(1, [af.int32], [[]])
    put, size, x = queue.enqueue(3), queue.size(), af.placeholder(af.int32, [])
    tensors = {"element": queue.dequeue(), "other": af.constant(2) * 2}
    async with af.Session(graph=graph) as session:
        await session.run(put)
        handle = await session.partial_run_setup([*tensors.values(), x + 1], [x])
        await session.partial_run(handle, tensors[fetched])
        await asyncio.sleep(1)
        await handle.stop()
        assert await session.run(size) == left
