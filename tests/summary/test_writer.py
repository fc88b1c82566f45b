"""Event files: what is in them, as TensorBoard's own reader reads it, and what goes wrong."""

import asyncio
import errno
import importlib.util
import shutil
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.data import summary_wire
from aioflow.summary import writer as writing
from tests.support.event_files import events_of, needs_pillow, needs_tensorboard, read


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


# Files


@needs_tensorboard
async def test_events_are_in_the_file_in_the_order_they_were_added(tmp_path):
    async with af.summary.FileWriter(tmp_path, max_queue=1, filename_suffix=".mine") as writer:
        for step in range(300):
            writer.add_summary(summary_wire.scalar("x", step), step)
        await writer.flush()
        assert [event.step for event in events_of(tmp_path)[1:]] == list(range(300))
        writer.add_summary(summary_wire.scalar("x", 0.0))
    found = events_of(tmp_path)
    assert found[0].file_version == "brain.Event:2"
    assert [event.summary.value[0].simple_value for event in found[1:301]] == list(range(300))
    assert all(event.wall_time > 1.7e9 for event in found)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    assert path.name.endswith(".mine")


@needs_tensorboard
async def test_a_writer_that_is_closed_takes_nothing_until_it_is_reopened(tmp_path):
    writer = af.summary.FileWriter(tmp_path)
    writer.add_summary(summary_wire.scalar("x", 1.0), 1)
    await writer.close()
    await writer.close()
    assert repr(writer) == f"<af.summary.FileWriter of {str(tmp_path)!r}, closed>"
    with pytest.raises(RuntimeError, match=r"closed: call reopen\(\) to"):
        writer.add_summary(summary_wire.scalar("x", 2.0), 2)
    with pytest.raises(RuntimeError, match=r"closed: call reopen\(\) to"):
        await writer.flush()
    writer.reopen()
    writer.reopen()
    writer.add_summary(summary_wire.scalar("x", 3.0), 3)
    await writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert [point.value for point in read(tmp_path).Scalars("x")] == [1.0, 3.0]


@needs_tensorboard
async def test_messages_can_be_added(tmp_path):
    made = af.summary.Summary(value=[af.summary.Summary.Value(tag="mine", simple_value=2.0)])
    async with af.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(made, np.int64(4))
        event = af.summary.Event(wall_time=1.0, step=5)
        event.summary.MergeFrom(made)
        writer.add_event(event)
        event.Clear()
    assert [(p.step, p.value) for p in read(tmp_path).Scalars("mine")] == [(4, 2.0), (5, 2.0)]


@needs_tensorboard
async def test_after_the_log_of_a_start_later_steps_of_before_are_forgotten(tmp_path):
    async with af.summary.FileWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_summary(summary_wire.scalar("loss", step), step)
        writer.add_session_log(af.summary.SessionLog(status=af.summary.SessionLog.START), 5)
        writer.add_summary(summary_wire.scalar("loss", 50.0), 5)
    assert [point.value for point in read(tmp_path).Scalars("loss")] == [0.0, 1.0, 2.0, 3.0, 4.0, 50.0]


@needs_tensorboard
async def test_one_writer_serves_a_folder(tmp_path):
    writer = af.summary.FileWriterCache.get(tmp_path)
    assert af.summary.FileWriterCache.get(str(tmp_path)) is writer
    assert writer.get_logdir() == str(tmp_path)
    writer.add_summary(summary_wire.scalar("x", 1.0), 1)
    await af.summary.FileWriterCache.clear()
    assert read(tmp_path).Scalars("x")[0].value == 1.0
    again = af.summary.FileWriterCache.get(tmp_path)
    assert again is not writer
    await af.summary.FileWriterCache.clear()


# Graphs and traces


@needs_tensorboard
async def test_the_graph_is_shown_with_devices_shapes_and_what_branches_do(graph, tmp_path):
    x = af.placeholder(af.float32, [None, 3], name="x")
    with af.device("/job:worker/task:1"), af.control_dependencies([af.no_op(name="before")]), af.name_scope("layer"):
        parts = af.split(x, 3, 1, name="parts")
        y = af.cond(af.reduce_sum(x) > 0, lambda: parts[1] * 2.0, lambda: parts[2], name="choose")
    af.constant(np.ones((2, 2), np.float32), name="ones")
    af.group(y, name="all")
    async with af.summary.FileWriter(tmp_path, graph) as writer:
        writer.add_graph(graph, 1)
    nodes = {node.name: node for node in graph_of(tmp_path).node}
    assert {operation.name for operation in graph.get_operations()} <= nodes.keys()
    split = nodes["layer/parts"]
    assert (split.op, split.device) == ("split", "/job:worker/task:1")
    assert "^before" in split.input
    shapes = split.attr["_output_shapes"].list.shape
    assert [[dim.size for dim in shape.dim] for shape in shapes] == [[-1, 1]] * 3
    assert "layer/parts:1" in nodes["layer/choose"].input
    inside = {name for name, node in nodes.items() if name.startswith("layer/choose/") and node.op == "multiply"}
    assert len(inside) == 1
    for node in nodes.values():
        for source in node.input:
            assert source.lstrip("^").partition(":")[0] in nodes


def graph_of(folder):
    return read(folder).Graph()


@needs_tensorboard
async def test_a_graph_with_a_python_function_can_be_shown(graph, tmp_path):
    af.py_func(lambda x: x, [1.0], af.float32, name="mine")
    af.Variable(1.0, name="v")
    async with af.summary.FileWriter(tmp_path, graph):
        pass
    assert {"mine", "v"} <= {node.name for node in graph_of(tmp_path).node}


@needs_tensorboard
async def test_what_a_step_did_is_shown_by_device(session, tmp_path):
    x = af.placeholder(af.float32, [4], name="x")
    y = af.exp(x, name="y")
    metadata = af.RunMetadata()
    await session.run(y, {x: np.ones(4)}, af.RunOptions(trace=True), metadata)
    async with af.summary.FileWriter(tmp_path) as writer:
        writer.add_run_metadata(metadata, "step 1", 1)
        with pytest.raises(ValueError, match="the tag 'step 1' was used"):
            writer.add_run_metadata(metadata, "step 1", 2)
    (device,) = read(tmp_path).RunMetadata("step 1").step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    (stats,) = [stats for stats in device.node_stats if stats.node_name == "y"]
    (ours,) = [stats for stats in metadata.step_stats if stats.name == "y"]
    assert stats.all_end_rel_micros == round((ours.end - ours.start) * 1e6)
    assert stats.memory[0].total_bytes == 16
    assert stats.all_start_micros > 1.7e15


@needs_tensorboard
def test_transfers_are_shown_where_they_came():
    from tensorboard.compat.proto.config_pb2 import RunMetadata

    metadata = af.RunMetadata()
    metadata.transfers.append(transfer("key", 3.0, 4.0, 5.5))
    (device,) = RunMetadata.FromString(writing.to_run_metadata(metadata)).step_stats.dev_stats
    (stats,) = device.node_stats
    assert device.device == "/device:CPU:1"
    assert stats.timeline_label == "[8 B] key from /device:CPU:0 to /device:CPU:1"
    assert stats.all_start_micros - stats.scheduled_micros == pytest.approx(1e6, abs=1)
    assert stats.all_end_rel_micros == 1_500_000


def transfer(key, asked, sent, arrived):
    from aioflow.tracing import Transfer

    return Transfer(key, "/device:CPU:0", "/device:CPU:1", 8, sent, asked, arrived, (0, 0))


# The server


@pytest.mark.slow
@needs_tensorboard
@needs_pillow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_server_of_tensorboard_shows_all_of_it(graph, session, tmp_path):
    x = af.placeholder(af.float32, [4], name="x")
    af.summary.scalar("loss", af.reduce_sum(x))
    af.summary.histogram("weights", x)
    af.summary.image("pictures", af.reshape(x, [1, 2, 2, 1]))
    af.summary.audio("sounds", af.reshape(x, [1, 4]), 8000.0)
    af.summary.text("words", af.as_string(x))
    metadata = af.RunMetadata()
    async with af.summary.FileWriter(tmp_path, graph) as writer:
        fetch = af.summary.merge_all()
        writer.add_summary(await session.run(fetch, {x: range(4)}, af.RunOptions(trace=True), metadata), 7)
        writer.add_run_metadata(metadata, "step 7", 7)
    ask = served(tmp_path)
    for plugin, tag in (("scalars", "loss"), ("histograms", "weights"), ("images", "pictures/image/0")):
        assert tag in ask(f"{plugin}/tags").get_json()["."]
    assert ask("audio/tags").get_json()["."].keys() == {"sounds/audio/0"}
    assert ask("text/tags").get_json() == {".": ["words"]}
    assert ask("scalars/scalars", tag="loss").get_json()[0][1:] == [7, 6.0]
    assert [row["text"].count("<td>") for row in ask("text/text", tag="words").get_json()] == [4]
    (picture,) = ask("images/images", tag="pictures/image/0").get_json()
    assert ask(f"images/individualImage?{picture['query']}").get_data().startswith(b"\x89PNG")
    info = ask("graphs/info").get_json()["."]
    assert info["run_graph"]
    assert info["tags"]["step 7"]["profile"]
    assert b'name: "loss"' in ask("graphs/graph").get_data()
    assert b'node_name: "loss"' in ask("graphs/run_metadata", tag="step 7").get_data()


def served(folder):
    """What asks the plugins of a TensorBoard that shows a folder; each has to answer."""
    from tensorboard import default, program
    from tensorboard.backend.application import TensorBoardWSGIApp
    from tensorboard.backend.event_processing.data_ingester import LocalDataIngester
    from werkzeug.test import Client

    board = program.TensorBoard(default.get_plugins())
    board.configure(logdir=str(folder), reload_interval=0, reload_task="blocking", load_fast="false")
    found = LocalDataIngester(board.flags)
    found.start()
    plugins, provider = board.plugin_loaders, found.data_provider
    client = Client(TensorBoardWSGIApp(board.flags, plugins, provider, None, found.deprecated_multiplexer))

    def ask(path, **parameters):
        answer = client.get(
            f"/data/plugin/{path}", query_string={"run": ".", **parameters} if "?" not in path else None
        )
        assert answer.status_code == 200, (path, answer.get_data())
        return answer

    return ask


# Descriptions


def test_a_node_of_tensorflow_1_says_how_its_summary_is_shown():
    def node(text, op="TensorSummary"):
        return af.NodeDef(name="s", op=op, attr={"description": {"s": text}})

    for text in (b'{"typeHint": "scalar"}', b'{"type_hint": "scalar"}'):
        assert af.summary.get_summary_description(node(text)) == af.summary.SummaryDescription(type_hint="scalar")
    assert af.summary.get_summary_description(node(b"{}")).type_hint == ""
    with pytest.raises(ValueError, match="'s' is of op 'Const', and only TensorSummary has a description"):
        af.summary.get_summary_description(node(b"{}", "Const"))
    for text in (b"", b"x", b"[]", b'{"type_hint": 3}', b'{"other": "x"}'):
        with pytest.raises(ValueError, match="has the description"):
            af.summary.get_summary_description(node(text))
    with pytest.raises(TypeError, match="takes a NodeDef, not 3"):
        af.summary.get_summary_description(3)


# What goes wrong


async def test_without_the_package_a_writer_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[tensorboard\]"):
        af.summary.FileWriter(tmp_path)
    with pytest.raises(AttributeError, match="has no attribute 'Evnt'"):
        af.summary.Evnt  # noqa: B018 - it is looked up


def test_records_that_are_no_events_are_refused(tmp_path):
    with af.python_io.TFRecordWriter(str(tmp_path / "x")) as writer:
        writer.write(b"\x0a\xff")
    with pytest.raises(errors.DataLossError, match="is no event file: these 2 bytes are no Event"):
        list(af.train.summary_iterator(str(tmp_path / "x")))


@needs_tensorboard
@pytest.mark.parametrize("what", [1.0, "text", None, np.zeros(2), object()])
async def test_only_what_a_summary_gives_is_added(tmp_path, what):
    async with af.summary.FileWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match="pass the string that a summary operation gives"):
            writer.add_summary(what)


@needs_tensorboard
async def test_a_string_that_is_no_summary_is_left_out_and_told(tmp_path, caplog):
    async with af.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(b"\x0a\xff", 1)
        writer.add_summary(summary_wire.scalar("x", 2.0), 2)
        with pytest.raises(
            errors.InvalidArgumentError, match=r"invalid event: ValueError: .* no Summary.*lost events: 1"
        ):
            await writer.flush()
        await writer.flush()
    assert "an event for" in caplog.text
    assert [point.step for point in read(tmp_path).Scalars("x")] == [2]


@needs_tensorboard
async def test_a_folder_that_cannot_be_made_is_told_at_once_and_at_the_end(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    writer = af.summary.FileWriter(tmp_path / "file" / "logs")
    writer.add_summary(summary_wire.scalar("x", 1.0))
    for _ in range(2):
        with pytest.raises(errors.OpError, match=r"file/logs.*lost events: 1"):
            await writer.flush()
    with pytest.raises(errors.OpError, match="file/logs"):
        await writer.close()
    await writer.close()
    assert caplog.text.count("summaries cannot be written") == 1


@needs_tensorboard
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of TensorBoard's own thread
@pytest.mark.parametrize("flushed", [True, False])
async def test_what_is_lost_with_its_folder_is_told_when_the_writer_is_closed(tmp_path, caplog, flushed):
    writer = af.summary.FileWriter(tmp_path / "logs", flush_secs=1000)
    writer.add_summary(summary_wire.scalar("x", 1.0), 1)
    await writer.flush()
    shutil.rmtree(tmp_path / "logs")
    writer.add_summary(summary_wire.scalar("x", 2.0), 2)
    if flushed:
        with pytest.raises(errors.NotFoundError):
            await writer.flush()
        writer.add_summary(summary_wire.scalar("x", 2.0), 3)
    lost = rf"lost events: {int(flushed)}, and perhaps 1 before them that were not flushed"
    with pytest.raises(errors.NotFoundError, match=lost):
        await writer.close()
    assert caplog.text.count("summaries cannot be written") == 1


class Disk:
    """The writer of a file on a disk that is full after some events."""

    def __init__(self, room):
        self.room = room
        self.events = []
        self.closed = 0
        self.ended = threading.Event()

    def add_event(self, event):
        if len(self.events) == self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.events.append(event)

    def flush(self):
        pass

    def close(self):
        self.closed += 1
        self.ended.set()
        if self.room == len(self.events):
            raise OSError(errno.ENOSPC, "No space left on device")


@needs_tensorboard
async def test_a_full_disk_does_not_stop_training_and_is_told(monkeypatch, caplog):
    disk = Disk(2)
    monkeypatch.setattr(writing, "file_writer", lambda *_: disk)
    writer = af.summary.FileWriter("logs")
    for step in range(5):
        writer.add_summary(summary_wire.scalar("x", 1.0), step)
    with pytest.raises(errors.ResourceExhaustedError, match="'logs': No space left on device; lost events: 3"):
        await writer.close()
    assert [event.step for event in disk.events] == [0, 1]
    assert disk.closed
    assert caplog.text.count("No space left on device") == 1


class StalledDisk(Disk):
    """A disk that takes nothing until it is told to."""

    def __init__(self):
        super().__init__(1 << 20)
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def add_event(self, event):
        self.asked.set()
        self.goes_on.wait()
        super().add_event(event)


@pytest.mark.real
@needs_tensorboard
async def test_a_stalled_disk_holds_up_only_those_who_flush_and_they_can_give_up(monkeypatch):
    disk = StalledDisk()
    monkeypatch.setattr(writing, "file_writer", lambda *_: disk)
    writer = af.summary.FileWriter("logs")
    for step in range(100):
        writer.add_summary(summary_wire.scalar("x", 1.0), step)
    await asyncio.to_thread(disk.asked.wait)
    for waits in (writer.flush, writer.close):
        waiting = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    with pytest.raises(RuntimeError, match="closed"):
        writer.add_summary(summary_wire.scalar("x", 1.0))
    assert not disk.closed
    disk.goes_on.set()
    await asyncio.to_thread(disk.ended.wait)
    assert [event.step for event in disk.events] == list(range(100))


@needs_tensorboard
async def test_an_error_of_the_block_comes_before_one_of_the_disk(monkeypatch):
    monkeypatch.setattr(writing, "file_writer", lambda *_: Disk(0))

    async def fail():
        async with af.summary.FileWriter("logs") as writer:
            writer.add_summary(summary_wire.scalar("x", 1.0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


@needs_tensorboard
async def test_the_first_error_of_several_writers_is_raised_when_all_are_closed(monkeypatch, tmp_path):
    disks = [Disk(0), Disk(0), Disk(9)]
    given = iter(disks)
    monkeypatch.setattr(writing, "file_writer", lambda *_: next(given))
    for number in range(3):
        af.summary.FileWriterCache.get(tmp_path / str(number)).add_summary(summary_wire.scalar("x", 1.0))
    with pytest.raises(errors.ResourceExhaustedError):
        await af.summary.FileWriterCache.clear()
    assert all(disk.closed for disk in disks)
