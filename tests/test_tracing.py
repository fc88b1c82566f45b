"""What a run writes down of itself when it is asked to."""

import asyncio
import itertools
import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.devices.memory import Ledger
from aioflow.testing import Gate
from aioflow.tracing import DeviceStats, Trace
from tests.support.doubles import gated, heavy, light, waiting

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


# Several devices


FIRST, SECOND = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(2))


@pytest.fixture
def clock(monkeypatch):
    """The clock of the trace: set by the test."""
    times = [100.0]
    monkeypatch.setattr(Trace, "now", staticmethod(lambda: times[0]))

    def at(time):
        times[0] = 100 + time
        return times[0]

    return at


@pytest.fixture
def both(clock):
    """The metadata of a run, and the traces of its two devices."""
    metadata = af.RunMetadata()
    first = Trace(metadata, FIRST)
    return metadata, first, first.on(SECOND)


def ran(trace, clock, name, begin, end, waits=False, op_type="add"):
    start = clock(begin)
    clock(end)
    trace.record(name, op_type, waits, start, start, [np.zeros(2)])


def moved(source, target, clock, key, sent, asked, arrived):
    clock(sent)
    source.sent(key)
    clock(arrived)
    target.received(key, FIRST, 16, 100 + asked)


def of_kind(metadata, *kinds):
    return [event for event in metadata.chrome_trace()["traceEvents"] if event["ph"] in kinds]


def inside(event, span):
    """Whether an event is on the lane of a slice, while that lasts."""
    same = (event["pid"], event["tid"]) == (span["pid"], span["tid"])
    return same and span["ts"] <= event["ts"] <= span["ts"] + span["dur"]


@pytest.mark.parametrize(
    ("sent", "asked", "start"), [(1.0, 2.0, 2.0), (2.0, 1.0, 2.0)], ids=["sender first", "receiver first"]
)
def test_a_transfer_begins_when_both_sides_are_there(both, clock, sent, asked, start):
    metadata, first, second = both
    moved(first, second, clock, "k", sent, asked, 3.0)
    (transfer,) = metadata.transfers
    assert (transfer.key, transfer.source, transfer.target, transfer.bytes) == ("k", FIRST, SECOND, 16)
    assert (transfer.sent, transfer.asked, transfer.start, transfer.arrived) == (
        100 + sent,
        100 + asked,
        100 + start,
        103.0,
    )


def test_an_arrow_leads_from_the_send_to_where_the_value_came(both, clock):
    metadata, first, second = both
    moved(first, second, clock, "k", 1.5, 1.0, 2.0)
    ran(first, clock, "send", 1.0, 1.75, op_type="send")
    ran(second, clock, "recv", 1.0, 2.0, waits=True, op_type="recv")
    (tail,), (head,) = of_kind(metadata, "s"), of_kind(metadata, "f")
    send, transfer = of_kind(metadata, "X")
    assert inside(tail, send)
    assert inside(head, transfer)
    assert head["bp"] == "e"
    assert {key: tail[key] for key in ("id", "cat", "name")} == {key: head[key] for key in ("id", "cat", "name")}
    assert transfer["args"] == {"key": "k", "bytes": 16, "from": FIRST, "waited": 0.5e6}


def test_every_arrow_has_both_ends_and_its_own_number(both, clock):
    metadata, first, second = both
    for number in range(10):
        moved(first, second, clock, ("edge", number), number, 20 - number, 30)
    first.sent("never received")
    second.received("sent in another process", "/job:ps/replica:0/task:0/device:CPU:0", 8, 101.0)
    tails, heads = ({event["id"]: event for event in of_kind(metadata, kind)} for kind in "sf")
    assert tails.keys() == heads.keys()
    assert len(tails) == 10
    slices = of_kind(metadata, "X")
    assert len(slices) == 11
    for head in heads.values():
        assert sum(inside(head, each) and each["ts"] == head["ts"] for each in slices) == 1


@given(st.lists(st.tuples(*[st.integers(0, 30)] * 3), max_size=30))
def test_on_each_lane_transfers_follow_each_other(times):
    metadata = af.RunMetadata()
    with pytest.MonkeyPatch.context() as patch:
        clock = iter([time for sent, asked, took in times for time in (sent / 7, max(sent, asked) / 7 + took / 7)])
        patch.setattr(Trace, "now", staticmethod(lambda: next(clock)))
        trace = Trace(metadata, FIRST)
        for number, (_, asked, _) in enumerate(times):
            trace.sent(number)
            trace.on(SECOND).received(number, FIRST, 1, asked / 7)
    lanes = {}
    for event in of_kind(metadata, "X"):
        assert event["dur"] > 0
        lanes.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_each_device_is_a_process_with_named_lanes(both, clock):
    metadata, first, second = both
    moved(first, second, clock, "k", 0, 1, 2)
    moved(first, second, clock, "l", 0, 1, 2)
    ran(first, clock, "a", 0, 1)
    ran(second, clock, "b", 1, 2)
    names = of_kind(metadata, "M")
    processes = {event["args"]["name"]: event["pid"] for event in names if event["name"] == "process_name"}
    assert list(processes) == [FIRST, SECOND]
    lanes = [(event["pid"], event["args"]["name"]) for event in names if event["name"] == "thread_name"]
    here = threading.current_thread().name
    assert sorted(lanes) == sorted(
        [(processes[FIRST], here), (processes[SECOND], here), *[(processes[SECOND], "receives")] * 2]
    )
    numbers = [*processes.values(), *{event["tid"] for event in names if "tid" in event}]
    assert 0 not in numbers
    assert len(set(numbers)) == len(numbers) == 6
    known = {(event["pid"], event["tid"]) for event in names if "tid" in event}
    assert {(event["pid"], event["tid"]) for event in of_kind(metadata, *"Xsfbe")} <= known


def test_what_was_alive_is_counted_for_each_device(clock):
    metadata = af.RunMetadata()
    ledgers = {device: Ledger(device) for device in (FIRST, SECOND)}
    first = Trace(metadata, FIRST, ledgers[FIRST])
    second = first.on(SECOND, ledgers[SECOND])
    value = ledgers[FIRST].hold(np.zeros(1000, np.uint8), "a")
    ran(first, clock, "a", 0, 1)
    ran(second, clock, "b", 0, 1)
    del value
    ran(first, clock, "c", 1, 2)
    counted = [(event["name"], event["ts"], event["args"]) for event in of_kind(metadata, "C")]
    assert counted == [
        ("memory", 101e6, {"bytes": 1000}),
        ("memory", 101e6, {"bytes": 0}),
        ("memory", 102e6, {"bytes": 0}),
    ]
    assert {device: stats.peak for device, stats in metadata.by_device().items()} == {FIRST: 1000, SECOND: 0}


def test_sums_of_each_device_tell_work_from_waiting(both, clock):
    metadata, first, second = both
    ran(first, clock, "a", 0, 1)
    clock(2)
    first.on_thread("queued")
    ran(first, clock, "queued", 1.5, 4)
    ran(second, clock, "recv", 0, 3, waits=True)
    moved(first, second, clock, "k", 2, 0, 3)
    assert metadata.by_device() == {
        FIRST: DeviceStats(busy=3.0, waiting=0.5, sent=16),
        SECOND: DeviceStats(busy=0.0, waiting=3.0, received=16),
    }


def test_a_node_that_runs_on_several_threads_at_once_has_each_execution(both, clock):
    metadata, first, _ = both
    for begin in (1, 2):
        clock(begin)
        first.on_thread("body")
    ran(first, clock, "body", 0, 3)
    ran(first, clock, "body", 0, 4)
    assert [(stats.scheduled, stats.start, stats.end) for stats in metadata.step_stats] == [
        (100.0, 101.0, 103.0),
        (100.0, 102.0, 104.0),
    ]


def opened():
    gate = Gate()
    gate.open()
    return gate
