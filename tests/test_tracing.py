"""What a run writes down of itself when it is asked to."""

import asyncio
import json
import threading

import numpy as np
import pytest
from doubles import gated, heavy, light, waiting

import aioflow as af
from aioflow.testing import Gate

TRACE = af.RunOptions(trace=True)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


@pytest.fixture
async def traced(session):
    """Runs and gives the metadata of the run."""

    async def run(fetches, feeds=None):
        metadata = af.RunMetadata()
        await session.run(fetches, feeds, TRACE, metadata)
        return metadata

    return run


async def test_every_node_that_ran_is_written_down_once_in_the_order_it_ran(traced):
    x = af.placeholder(af.float32, [2, 3], name="x")
    y = af.matmul(af.tanh(x, name="first"), np.ones((3, 4), np.float32), name="second")
    af.exp(x, name="unused")
    stats = (await traced(y, {x: np.zeros((2, 3))})).step_stats
    ours = [(s.name, s.op_type, s.output_bytes, s.waits) for s in stats if s.op_type != "constant"]
    assert ours == [("first", "tanh", 24, False), ("second", "matmul", 32, False)]
    assert {s.device for s in stats} == {"/job:localhost/replica:0/task:0/device:CPU:0"}
    assert len({s.name for s in stats}) == len(stats)


async def test_times_are_in_order(traced):
    x = af.placeholder(af.float32, [])
    stats = (await traced(af.exp(af.sqrt(x)), {x: 4.0})).step_stats
    for one in stats:
        assert one.scheduled <= one.start <= one.end
    assert stats[0].end <= stats[1].start


async def test_a_wait_is_marked_for_it_is_no_work(session):
    gate = Gate()
    value = gated(af.placeholder_with_default(np.float32(1.0), []), gate, name="wait") + 1.0
    metadata = af.RunMetadata()
    run = asyncio.create_task(session.run(value, None, TRACE, metadata))
    await gate.arrived()
    assert "wait" not in [stats.name for stats in metadata.step_stats]
    gate.open()
    await run
    assert [stats.op_type for stats in metadata.step_stats if stats.waits] == ["test_waiting"]


@pytest.mark.real
async def test_the_thread_is_the_one_the_kernel_ran_on(session):
    ran_on = {}

    def note(place):
        return lambda value: ran_on.setdefault(place, threading.get_ident()) and value

    x = af.placeholder(af.float32, [])
    metadata = af.RunMetadata()
    await session.run(light(heavy(x, note("heavy")), note("light")), {x: 1.0}, TRACE, metadata)
    assert ran_on["light"] == threading.get_ident() != ran_on["heavy"]
    threads = {stats.op_type: stats.thread for stats in metadata.step_stats}
    assert threads["test_light"] == ran_on["light"]
    assert threads["test_heavy"] == ran_on["heavy"]


async def test_without_being_asked_only_the_step_is_numbered(session):
    value = af.constant(1.0) + 1.0
    first, second = af.RunMetadata(), af.RunMetadata()
    assert first.step_id is None
    assert await session.run(value, metadata=first) == 2.0
    assert await session.run(value, metadata=second) == 2.0
    assert first.step_id < second.step_id
    assert first.step_stats == []


async def test_a_traced_run_gives_the_same_values(session):
    x = af.placeholder(af.float32, [3])
    v = af.Variable([1.0, 2.0, 3.0])
    value = [af.softmax(x * v) if hasattr(af, "softmax") else af.nn.softmax(x * v), v.assign_add(x)]
    given = np.array([0.1, 0.2, 0.3], np.float32)
    await session.run(v.initializer)
    plain = await session.run(value, {x: given})
    await session.run(v.initializer)
    traced = await session.run(value, {x: given}, TRACE)
    for ours, theirs in zip(traced, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


async def test_a_failed_run_has_written_what_it_did(session):
    metadata = af.RunMetadata()
    x = af.placeholder(af.float32, [])
    done = af.exp(x, name="done")
    with pytest.raises(af.errors.UnknownError):
        await session.run(light(done, lambda value: 1 / 0, name="broken"), {x: 1.0}, TRACE, metadata)
    assert [stats.name for stats in metadata.step_stats] == ["done"]


async def test_runs_at_the_same_time_are_written_apart(session):
    gates = [Gate(), Gate()]
    values = [gated(1.0, gate, name=f"wait{i}") for i, gate in enumerate(gates)]
    both = [af.RunMetadata(), af.RunMetadata()]
    runs = [asyncio.create_task(session.run(v, None, TRACE, m)) for v, m in zip(values, both, strict=True)]
    for gate in gates:
        await gate.arrived()
    for gate in gates:
        gate.open()
    await asyncio.gather(*runs)
    waits = [[stats.name for stats in metadata.step_stats if stats.waits] for metadata in both]
    assert waits == [["wait0"], ["wait1"]]


# The Chrome trace


async def test_the_file_is_what_chrome_and_perfetto_open(traced, tmp_path):
    x = af.placeholder(af.float32, [2], name="x")
    metadata = await traced(gated(af.exp(x, name="work"), opened(), name="wait"), {x: [0.0, 0.0]})
    metadata.write_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (process,) = [event for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    assert process["args"]["name"] == "/job:localhost/replica:0/task:0/device:CPU:0"
    by_op = {event["args"]["op"]: event for event in events if "op" in event.get("args", {})}
    assert by_op["work"]["name"] == "exp"
    assert by_op["work"]["cat"] == "compute"
    assert by_op["work"]["args"]["output_bytes"] == 8
    assert by_op["wait"]["cat"] == "wait"
    assert all(event["pid"] == process["pid"] for event in events)


async def test_times_are_microseconds_that_begin_with_the_run(traced):
    async def long(value):
        await asyncio.sleep(0)
        return value

    metadata = await traced(waiting(1.0, long))
    (stats,) = [stats for stats in metadata.step_stats if stats.waits]
    events = [event for event in metadata.chrome_trace()["traceEvents"] if event["ph"] in "Xbe"]
    first = min(event["ts"] for event in events)
    last = max(event["ts"] + event.get("dur", 0) for event in events)
    assert last - first >= (stats.end - stats.start) * 1e6 * 0.99


async def test_slices_of_one_track_nest_or_follow_each_other(traced):
    """Two waits that overlap must not be drawn on one track as if one thread did both: Perfetto would show nonsense."""
    first, second = Gate(), Gate()
    x = af.placeholder(af.float32, [])

    async def before(value):
        await first.wait()
        second.open()
        return value

    async def after(value):
        first.open()
        await second.wait()
        return value

    metadata = await traced([waiting(x, before), waiting(x, after)], {x: 1.0})
    tracks = {}
    for event in metadata.chrome_trace()["traceEvents"]:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        for begin, end in spans:
            for other_begin, other_end in spans:
                assert not begin < other_begin < end < other_end


async def test_names_of_the_user_are_data(traced):
    x = af.placeholder(af.float32, [])
    metadata = await traced(af.exp(x, name="a.b-c\\d/e"), {x: 1.0})
    text = json.dumps(metadata.chrome_trace())
    assert json.loads(text) == metadata.chrome_trace()


async def test_a_trace_of_nothing_is_a_trace(traced, tmp_path):
    x = af.placeholder(af.float32, [])
    (await traced(x, {x: 1.0})).write_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == {"traceEvents": []}


async def test_what_was_not_traced_is_not_written(session, tmp_path):
    metadata = af.RunMetadata()
    await session.run(af.constant(1.0), metadata=metadata)
    for empty in (metadata, af.RunMetadata()):
        with pytest.raises(ValueError, match=r"pass options=af\.RunOptions\(trace=True\)"):
            empty.write_chrome_trace(tmp_path / "trace.json")
    assert not list(tmp_path.iterdir())


def opened():
    gate = Gate()
    gate.open()
    return gate
