"""Readers: records in order whoever waits and whoever is cancelled, errors of one file alone, state and counters."""

import asyncio
import gzip
import json
import random
import threading
import types
from collections import Counter
from pathlib import Path

import pytest

import aioflow as af
from aioflow import errors
from aioflow.files.filesystem import Files
from aioflow.files.read_ahead import AHEAD
from aioflow.files.record_formats import Identity, TextLines, WholeFile
from aioflow.files.tfrecord import TFRecordWriter
from aioflow.queues import Queue
from aioflow.resources.reader import Reader
from aioflow.waiting.stores import Fifo

TABLE = json.loads((Path(__file__).parents[1] / "data" / "input.json").read_text())


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


@pytest.fixture
def folder(tmp_path):
    for name, contents in TABLE["files"].items():
        (tmp_path / name).write_bytes(contents.encode("latin-1"))
    return tmp_path


def names(*paths):
    """A closed queue of names, and what fills it."""
    queue = af.FIFOQueue(len(paths), af.string, shapes=[()])
    return queue, queue.enqueue_many([[str(path) for path in paths]]), queue.close()


async def outcome(session, fetch):
    try:
        return await session.run(fetch)
    except af.OpError as error:
        return error


async def all_of(session, fetch):
    """What a fetch gives until the input ends."""
    found = []
    while not isinstance(made := await outcome(session, fetch), errors.OutOfRangeError):
        found.append(made)
    return found


# In a graph


@pytest.mark.real
@pytest.mark.parametrize("case", TABLE["readings"], ids=lambda case: f"{case['reader']} {case['arguments']}")
async def test_records_and_counts_are_tensorflows(case, folder, graph, session):
    queue, fill, close = names(*[folder / name for name in case["names"]])
    reader = getattr(af, case["reader"])(**case["arguments"])
    record = reader.read(queue)
    counts = [reader.num_records_produced(), reader.num_work_units_completed()]
    await session.run(fill)
    await session.run(close)
    found = []
    for expected in case["found"]:
        made = await outcome(session, record)
        if isinstance(expected, str):
            found.append(type(made).__name__)
        else:
            key, value = (part.decode("latin-1") for part in made)
            if case["reader"] == "IdentityReader":
                assert key == value == str(folder / expected[0])
                value = expected[1]
            found.append([key.removeprefix(f"{folder}/"), value])
    assert found == case["found"]
    assert [int(count) for count in await session.run(counts)] == case["counts"]


@pytest.mark.real
@pytest.mark.parametrize("kind", ["", "ZLIB", "GZIP"])
async def test_tfrecords_are_read_and_their_keys_tell_the_offset(kind, folder, graph, session):
    (folder / "records").write_bytes(bytes.fromhex(TABLE["tfrecord"]["files"][kind]))
    queue, fill, close = names(folder / "records")
    reader = af.TFRecordReader(options=af.io.TFRecordOptions(kind))
    fetch = reader.read_up_to(queue, 3)
    await session.run([fill])
    await session.run([close])
    batches = await all_of(session, fetch)
    values = [value.decode("latin-1") for _, batch in batches for value in batch]
    assert values == TABLE["tfrecord"]["records"]
    assert [len(batch) for _, batch in batches] == [3, 2]
    assert batches[1][0].tolist() == [f"{folder}/records:{at}".encode() for at in (56, 328)]


@pytest.mark.real
async def test_a_corrupt_file_fails_one_run_after_the_records_before_and_the_next_file_follows(folder, graph, session):
    made = bytearray.fromhex(TABLE["tfrecord"]["files"][""])
    (folder / "good").write_bytes(made)
    made[40] ^= 1
    (folder / "bad").write_bytes(made)
    queue, fill, close = names(folder / "bad", folder / "good")
    strict = af.TFRecordReader().read(queue)
    await session.run(fill)
    await session.run(close)
    found = await all_of(session, strict)
    assert [type(made).__name__ for made in found] == ["tuple"] * 2 + ["DataLossError"] + ["tuple"] * 5
    assert "offset 33" in str(found[2])
    assert "read" in found[2].op


@pytest.mark.real
async def test_what_is_corrupt_is_left_out_if_asked_and_logged(folder, graph, session, caplog):
    made = bytearray.fromhex(TABLE["tfrecord"]["files"][""])
    made[40] ^= 1
    (folder / "bad").write_bytes(made)
    queue, fill, close = names(folder / "bad")
    reader = af.TFRecordReader(options=af.io.TFRecordOptions(skip_corrupt=True))
    record, skipped = reader.read(queue), reader.num_skipped()
    await session.run(fill)
    await session.run(close)
    values = [value.decode("latin-1") for _, value in await all_of(session, record)]
    expected = TABLE["tfrecord"]["records"]
    assert values == [*expected[:2], *expected[3:]]
    assert "1 parts" in caplog.text
    assert await session.run(skipped) == 1
    await session.run(reader.reset())
    assert await session.run(skipped) == 0


def text_lines(**options):
    return af.TextLineReader(**options), b"good\n"


def records_of_length(**options):
    return af.FixedLengthRecordReader(4, 2, 3, **options), b"..good..."


def compressed(**options):
    data = bytes.fromhex(TABLE["tfrecord"]["files"]["GZIP"])
    return af.TFRecordReader(options=af.io.TFRecordOptions("GZIP", **options)), data


@pytest.mark.real
@pytest.mark.parametrize(
    ("make", "bad", "error"),
    [
        (text_lines, None, errors.NotFoundError),
        (records_of_length, None, errors.NotFoundError),
        (records_of_length, b"...", errors.DataLossError),
        (compressed, None, errors.NotFoundError),
        (compressed, b"", None),
        (compressed, bytes.fromhex(TABLE["tfrecord"]["files"]["GZIP"])[:9], errors.DataLossError),
        (compressed, gzip.compress(b"no records", mtime=0), errors.DataLossError),
        (compressed, b"not compressed", errors.DataLossError),
        (compressed, gzip.compress(bytes(1 << 27), 9, mtime=0), errors.DataLossError),
        (lambda **options: (af.WholeFileReader(**options), b"good"), None, errors.NotFoundError),
    ],
)
async def test_a_file_that_is_missing_or_corrupt_leaves_the_rest_of_the_input_as_it_is(
    make, bad, error, folder, graph, session, caplog
):
    strict, good = make()
    lenient, _ = make(skip_corrupt=True)
    if bad is not None:
        (folder / "bad").write_bytes(bad)
    (folder / "good").write_bytes(good)
    found = {}
    for reader in (strict, lenient):
        queue, fill, close = names(folder / "good", folder / "bad", folder / "good")
        record = reader.read(queue)
        await session.run(fill)
        await session.run(close)
        found[reader] = await all_of(session, record)
    failed = [made for made in found[strict] if isinstance(made, af.OpError)]
    assert [type(made) for made in failed] == [error] * (error is not None)
    assert found[lenient] == [made for made in found[strict] if made not in failed]
    assert len(found[lenient]) in (2, 10)
    assert len(caplog.records) == len(failed) <= await session.run(lenient.num_skipped())
    assert all(str(folder / "bad") in record.getMessage() for record in caplog.records)
    assert await session.run([strict.num_skipped(), lenient.num_work_units_completed()]) == [0, 3]


@pytest.mark.real
async def test_state_goes_over_to_another_reader(folder, graph, session):
    queue, fill, close = names(folder / "a.txt", folder / "a.txt")
    first, second = af.TextLineReader(name="first"), af.TextLineReader(name="second")
    state, given = first.serialize_state(), af.placeholder(af.string, [])
    restore, records = second.restore_state(given), second.read(queue)
    count = second.num_records_produced()
    await session.run(fill)
    await session.run(close)
    lines = [await session.run(first.read(queue)) for _ in range(2)]
    await session.run(restore, {given: await session.run(state)})
    assert await session.run(count) == 2
    lines += await all_of(session, records)
    assert [int(key.rpartition(b":")[2]) for key, _ in lines] == [1, 2, 3, 4, 1, 2, 3, 4]
    await session.run(second.reset())
    assert await session.run(count) == 0


@pytest.mark.parametrize(
    "state", [b"", b"\xff", b"[1]", b"[" * 9999, b'{"finished": "x", "produced": 0, "work": null}']
)
async def test_what_is_no_state_is_refused(state, graph, session):
    restore = af.IdentityReader().restore_state(state)
    with pytest.raises(errors.InvalidArgumentError, match="not the state of a reader"):
        await session.run(restore)


@pytest.mark.real
async def test_readers_of_one_shared_name_are_one_and_must_agree(folder, graph, session):
    queue, fill, _ = names(folder / "a.txt")
    one, same = (af.TextLineReader(shared_name="lines", name=name) for name in "ab")
    other = af.TextLineReader(3, shared_name="lines", name="c")
    await session.run(fill)
    found = [await session.run(reader.read(queue)) for reader in (one, same)]
    assert [value for _, value in found] == [b"h1", b"x\ry"]
    with pytest.raises(errors.InvalidArgumentError, match=r"'lines' is shared as one of .*skip_header_lines=0"):
        await session.run(other.read(queue))


def test_what_cannot_be_read_is_refused_when_it_is_built(graph):
    numbers = af.FIFOQueue(1, af.int32, shapes=[()])
    pairs = af.FIFOQueue(1, [af.string, af.string], shapes=[(), ()])
    text = af.FIFOQueue(1, af.string, shapes=[()])
    reader = af.IdentityReader()
    before = len(graph.get_operations())
    for wrong in (
        lambda: reader.read(numbers),
        lambda: reader.read(pairs),
        lambda: reader.read("name"),
        lambda: reader.read(reader.reader_ref),
        lambda: reader.read_up_to(text, 0),
        lambda: af.FixedLengthRecordReader(0),
        lambda: af.FixedLengthRecordReader(1, header_bytes=-1),
        lambda: af.FixedLengthRecordReader(1, encoding="ZLIB"),
        lambda: af.TextLineReader(-1),
        lambda: af.TFRecordReader(options="LZ4"),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert len(graph.get_operations()) == before


@pytest.mark.real
async def test_whole_files_are_read_written_and_matched(folder, graph, session):
    await session.run(af.write_file(str(folder / "new" / "x"), b"\x00\xff"))
    assert await session.run(af.read_file(str(folder / "new" / "x"))) == b"\x00\xff"
    found = await session.run(af.matching_files([str(folder / "*.txt"), str(folder / "?.*"), str(folder / "no*")]))
    assert [Path(name.decode()).name for name in found.tolist()] == ["a.txt", "b.txt", "c.bin"]
    with pytest.raises(errors.NotFoundError, match="none"):
        await session.run(af.read_file(str(folder / "none")))


async def test_an_empty_queue_is_waited_for_and_closing_the_session_ends_the_wait(graph):
    queue = af.FIFOQueue(1, af.string, shapes=[()])
    record = af.IdentityReader().read(queue)
    async with af.Session(graph=graph) as session:
        waiting = [asyncio.create_task(session.run(record)) for _ in range(3)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        await session.run(queue.enqueue("a"))
        await asyncio.sleep(1)
        assert [task.done() for task in waiting] == [True, False, False]
    ended = await asyncio.gather(*waiting[1:], return_exceptions=True)
    assert [type(error) for error in ended] == [errors.CancelledError] * 2


@pytest.mark.real
async def test_training_code_reads_ahead_without_blocking_the_loop(folder, graph, session):
    with TFRecordWriter(folder / "many", "GZIP") as writer:
        for number in range(5000):
            writer.write(b"%d" % number * 100)
    queue, fill, close = names(folder / "many")
    record = af.TFRecordReader(options="GZIP").read_up_to(queue, 64)
    await session.run(fill)
    await session.run(close)
    batches = await all_of(session, record)
    assert [value for _, values in batches for value in values] == [b"%d" % number * 100 for number in range(5000)]
    assert max(len(values) for _, values in batches) == 64


# The live object


class Threadless:
    """Files whose reading ends when the test says so."""

    def __init__(self, contents):
        self.contents = contents
        self.calls = []

    async def __call__(self, function):
        turn = asyncio.get_running_loop().create_future()
        self.calls.append(turn)
        try:
            await turn
        finally:
            function(self)  # the thread goes on whatever happens to who waits

    def open(self, name):
        import io

        return io.BytesIO(self.contents[name])

    def read(self, name):
        return self.contents[name]


async def filled(*items):
    queue = Queue("names", Fifo())
    for item in items:
        await queue.put(item)
    await queue.close()
    return queue


async def test_what_a_cancelled_reader_was_waiting_for_comes_next():
    files = Threadless({b"f": b"1\n2\n"})
    reader, queue = Reader("lines", TextLines()), await filled(b"f")
    first = asyncio.create_task(reader.read(queue, files))
    second = asyncio.create_task(reader.read(queue, files))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await second == (b"f:1", b"1")
    assert await reader.read(queue, files) == (b"f:2", b"2")
    with pytest.raises(errors.OutOfRangeError):
        await reader.read(queue, files)
    assert (reader.records_produced, reader.work_units_completed) == (2, 1)


async def test_who_waits_is_served_in_order_and_can_be_told():
    queue = Queue("names", Fifo())
    reader = Reader("items", Identity())
    callers = [types.SimpleNamespace(name=f"op{number}") for number in range(4)]
    tasks = [asyncio.create_task(reader.read(queue, None, caller)) for caller in callers]
    await asyncio.sleep(0)
    assert [attempt.who for attempt in reader.waiting] == callers[1:]
    assert [attempt.who for attempt in queue.waiting] == callers[:1]
    tasks[2].cancel()
    for item in (b"a", b"b", b"c"):
        await queue.put(item)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each if isinstance(each, tuple) else type(each) for each in found] == [
        (b"a", b"a"), (b"b", b"b"), asyncio.CancelledError, (b"c", b"c"),
    ]  # fmt: skip
    assert "3 records" in repr(reader)


async def test_a_thousand_cancellations_lose_and_double_nothing():
    chance = random.Random(0)
    files = Threadless({b"%d" % number: b"\n".join(b"%d.%d" % (number, i) for i in range(7)) for number in range(200)})
    queue, reader = Queue("names", Fifo(), capacity=3), Reader("lines", TextLines())
    found = []

    async def put():
        for name in files.contents:
            await queue.put(name)
        await queue.close()

    async def take():
        found.extend(value for _, value in await reader.read_up_to(queue, chance.randrange(1, 4), files))

    putting = asyncio.create_task(put())
    tasks = set()
    while len(found) < 1400:
        while len(tasks) < 5:
            tasks.add(asyncio.create_task(take()))
        await asyncio.sleep(0)
        while files.calls and chance.random() < 0.7:
            turn = files.calls.pop(0)
            if not turn.done():
                turn.set_result(None)
        for task in list(tasks):
            if chance.random() < 0.1:
                task.cancel()
        tasks = {task for task in tasks if not task.done()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(putting, *tasks, return_exceptions=True)
    assert Counter(found) == Counter(line for contents in files.contents.values() for line in contents.split(b"\n"))
    assert found == [line for contents in files.contents.values() for line in contents.split(b"\n")]


async def test_a_name_that_is_none_is_refused_and_the_next_comes():
    files = Threadless({b"f": b"all"})
    queue, reader = Queue("names", Fifo()), Reader("files", WholeFile())
    await queue.put(b"a", b"b")
    await queue.put("f")
    with pytest.raises(errors.InvalidArgumentError, match="one string each"):
        await reader.read(queue, files)
    task = asyncio.create_task(reader.read(queue, files))
    await asyncio.sleep(0)
    files.calls.pop().set_result(None)
    assert await task == (b"f", b"all")


@pytest.mark.real
async def test_a_reader_that_is_released_closes_its_file_even_while_a_thread_reads_it(tmp_path):
    (tmp_path / "f").write_bytes(b"line\n" * AHEAD)
    opened, reading, go_on = [], threading.Event(), threading.Event()

    class Slow(Files):
        def open(self, path, mode="rb"):
            opened.append(super().open(path, mode))
            reading.set()
            go_on.wait()
            return opened[-1]

    async def with_files(function):
        return await asyncio.to_thread(function, Slow())

    reader, queue = Reader("lines", TextLines()), await filled(str(tmp_path / "f").encode())
    task = asyncio.create_task(reader.read(queue, with_files))
    await asyncio.to_thread(reading.wait)
    reader.release()
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    assert opened[0].closed
    with pytest.raises(errors.CancelledError, match="gone"):
        await reader.read(queue, with_files)


@pytest.mark.real
async def test_compressed_files_are_read_by_the_running_session_only_once(folder, graph, session):
    (folder / "z").write_bytes(gzip.compress(b"not records"))
    queue, fill, close = names(folder / "z")
    record = af.TFRecordReader(options="GZIP").read(queue)
    await session.run(fill)
    await session.run(close)
    assert [type(made) for made in await all_of(session, record)] == [errors.DataLossError]
