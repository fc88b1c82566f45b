"""A session that is watched: nothing while nobody looks, and then what it does."""

import asyncio
import contextlib
import types

import numpy as np
import pytest

import aioflow as af
from aioflow.dashboard import sampling
from aioflow.dashboard.board import STEPS
from aioflow.dashboard.messages import Event, Points, to_json
from aioflow.dashboard.monitor import Monitor
from aioflow.dashboard.session_source import SessionSource
from aioflow.runtime.plan_cache import DEFAULT


@contextlib.asynccontextmanager
async def watched_session(**config):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None], name="x")
        loss = af.reduce_sum(af.tanh(x) * x, name="loss")
        queue = af.FIFOQueue(9, [af.float32], shapes=[[]], name="numbers")
    clock = asyncio.get_running_loop().time
    async with af.Session(graph=graph, config=af.Config(**config)) as session:
        monitor = Monitor("a session", "session", [SessionSource(session, clock)], ["run"], clock)
        session.loss = session.make_callable([loss, x], feeds=[x])
        session.numbers = session.queue(queue)
        yield session, monitor
        await monitor.close()


def numbers(board):
    return {name: series.values for name, series in board.since(0)[0].series.items()}


async def steps(session, count, every=0.25):
    for number in range(count):
        await session.loss(np.array([number, 1.0], np.float32))
        await asyncio.sleep(every)


async def test_nobody_is_watched_while_nobody_looks():
    async with watched_session() as (session, monitor):
        await steps(session, 8)
        assert session.local_state.observer is None
        assert not monitor.is_watching
        assert numbers(monitor.board) == {}
        with monitor.viewer():
            await asyncio.sleep(1)
            assert session.local_state.observer is not None
        await asyncio.sleep(5)
        assert session.local_state.observer is None  # the last page has gone
        before = monitor.board.revision
        await steps(session, 8)
        assert monitor.board.revision == before


async def test_the_page_sees_speed_numbers_queues_and_memory():
    async with watched_session(track_memory=True) as (session, monitor):
        with monitor.viewer() as board:
            await session.numbers.put(1.0)
            await steps(session, 40)
            found = numbers(board)
            assert found["rate:steps"][5] == pytest.approx(4.0)
            assert found["queue:numbers"][-1] == 1
            assert all(value > 0 for value in found["time:step"])
            shown = set(np.round(found["value:loss"], 4))
            possible = {np.round(np.tanh(number) * number + np.tanh(1.0), 4) for number in range(40)}
            assert shown <= possible
            assert "value:x" not in found  # it is no single number
            assert any(name.startswith("memory:/job:localhost") for name in found)


async def test_traced_steps_divide_their_time_and_are_as_the_trace_has_them():
    async with watched_session() as (session, monitor):
        with monitor.viewer() as board:
            await steps(session, 200)
            assert len(board.steps) >= 1
            step = next(iter(board.steps.values()))
            assert step.compute + step.wire + step.wait == pytest.approx(step.seconds)
            assert [bar.op_type for bar in step.bars] == ["tanh", "multiply", "reduce_sum"]
            assert step.critical[0] == "loss"
            assert step.critical[-1] in {bar.name for bar in step.bars}
            assert step.fetches == ("loss:0", "x:0")
            (loss,) = [value for value in step.values if value.name == "loss"]
            assert loss.least == loss.most == loss.mean
            assert all(0 <= bar.start <= bar.end <= step.seconds for bar in step.bars)


async def test_results_and_errors_of_a_watched_run_are_its_own():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2], name="x")
        y = af.tanh(x * 0)
    async with af.Session(graph=graph) as session:
        monitor = Monitor("a session", "session", [SessionSource(session)], ["run"])
        with monitor.viewer():
            await asyncio.sleep(1)
            assert (await session.run({"y": y, "again": [y]}, {x: [1, 2]}))["again"][0].tolist() == [0, 0]
            await asyncio.sleep(1)
            with pytest.raises(ValueError, match="shape"):
                await session.run(y, {x: [1, 2, 3]})
            await asyncio.sleep(1)
            metadata = af.RunMetadata()
            await session.run(y, {x: [1, 2]}, af.RunOptions(trace=True), metadata)
            assert metadata.step_stats
        await monitor.close()


async def test_a_watched_run_can_be_cancelled():
    with af.Graph().as_default() as graph:
        queue = af.FIFOQueue(9, [af.float32], shapes=[[]], name="numbers")
        taken = queue.dequeue()
    async with af.Session(graph=graph) as session:
        monitor = Monitor("a session", "session", [SessionSource(session)], ["run"])
        with monitor.viewer():
            await asyncio.sleep(1)
            run = asyncio.create_task(session.run(taken))
            await asyncio.sleep(1)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            await session.queue(queue).put(3.0)
            assert await session.run(taken) == 3.0
        await monitor.close()


async def test_the_end_of_the_session_ends_its_source():
    async with watched_session() as (session, monitor):
        with monitor.viewer() as board:
            await steps(session, 4)
            await session.close()
            await asyncio.sleep(2)
            assert not any(isinstance(message, Event) for message in board.since(0))


async def test_a_source_that_fails_says_so_and_the_others_go_on():
    class Broken:
        async def watch(self, board):
            raise ValueError("no such thing")

    class Fine:
        async def watch(self, board):
            board.post(Points(1.0, {"rate:steps": 1.0}))

    monitor = Monitor("x", "session", [Broken(), Fine()], ["run"], asyncio.get_running_loop().time)
    with monitor.viewer() as board:
        await asyncio.sleep(1)
    (event,) = [message for message in board.since(0) if isinstance(message, Event)]
    assert event.text == "Broken sees nothing more: ValueError: no such thing"
    assert numbers(board)["rate:steps"] == (1.0,)
    await monitor.close()


async def test_traces_take_half_a_percent_of_the_time_with_the_assembly_of_their_programs(monkeypatch):
    monkeypatch.setattr(sampling, "_TRACE_SHARE", 200.0)
    clock = types.SimpleNamespace(now=0.0, traced=[])
    monkeypatch.setattr(sampling, "time", types.SimpleNamespace(perf_counter=lambda: clock.now))
    fetches = types.SimpleNamespace(tensors=(), operations=())

    async def run(options, metadata):
        if options.trace:
            clock.traced.append(clock.now)
        clock.now += 0.004 + options.trace * (0.02 if len(clock.traced) > 1 else 0.1)

    sampler = sampling.Sampler(None, lambda: clock.now)
    while clock.now < 200.0:
        await sampler.around(run, fetches, (), DEFAULT, None)
        clock.now += 0.5
    assert np.diff(clock.traced[:4]).round().tolist() == [2, 24, 4]  # (0.1 + 0.02) * 200, 0.02 * 200
    assert 0.02 * len(clock.traced) + 0.1 < 0.006 * clock.now


async def test_an_hour_of_steps_is_kept_in_bounded_memory():
    async with watched_session(track_memory=True) as (session, monitor):
        with monitor.viewer() as board:
            sizes = []
            for _ in range(4):
                await steps(session, 450, every=2.0)
                sizes.append(len("".join(map(to_json, board.everything()))))
            update = "".join(map(to_json, board.since(board.revision - 20)))
    assert len(board.steps) == STEPS
    assert sizes[3] < 1.3 * sizes[1] < 500_000
    assert len(update) < 20_000
