"""The entries of LMDB databases are records of readers."""

import importlib.util

import pytest

import aioflow as af
from aioflow import errors

needs_lmdb = pytest.mark.skipif(importlib.util.find_spec("lmdb") is None, reason="the package lmdb is not installed")
ENTRIES = {b"a": b"1", b"b": b"", b"c\xff": b"3" * 5000}


def database(path, subdir=True):
    import lmdb

    with lmdb.open(str(path), subdir=subdir) as environment, environment.begin(write=True) as transaction:
        for key, value in reversed(ENTRIES.items()):
            transaction.put(key, value)
    return path


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def reading(*paths):
    """A reader, what it reads of a closed queue of these paths, and what fills the queue."""
    queue = af.FIFOQueue(len(paths), af.string, shapes=[()])
    reader = af.LMDBReader(shared_name="entries")
    return reader, reader.read(queue), [queue.enqueue_many([[str(path) for path in paths]]), queue.close()]


@needs_lmdb
async def test_entries_come_in_the_order_of_their_keys_from_folders_and_files(graph, tmp_path):
    reader, record, fill = reading(database(tmp_path / "folder"), database(tmp_path / "file", subdir=False))
    state, restored = reader.serialize_state(), af.placeholder(af.string, [])
    restore = reader.restore_state(restored)
    async with af.Session(graph=graph) as session:
        for step in fill:
            await session.run(step)
        first = [await session.run(record) for _ in range(4)]
        assert first == [*ENTRIES.items(), (b"a", b"1")]
        place = await session.run(state)
        rest = [await session.run(record) for _ in range(2)]
        with pytest.raises(errors.OutOfRangeError):
            await session.run(record)
    async with af.Session(graph=graph) as session:
        await session.run(fill[1])
        await session.run(restore, {restored: place})
        assert [await session.run(record) for _ in range(2)] == rest == [*ENTRIES.items()][1:]


@needs_lmdb
async def test_what_is_no_database_fails_its_own_read(graph, tmp_path):
    (tmp_path / "text").write_bytes(b"text" * 5000)
    (tmp_path / "empty").mkdir()
    _, record, fill = reading(tmp_path / "text", tmp_path / "gone", tmp_path / "empty", database(tmp_path / "good"))
    async with af.Session(graph=graph) as session:
        for step in fill:
            await session.run(step)
        for error, text in [
            (errors.DataLossError, "text' cannot be read as an LMDB database"),
            (errors.NotFoundError, "gone"),
            (errors.FailedPreconditionError, "empty' cannot be read as an LMDB database"),
        ]:
            with pytest.raises(error, match=text):
                await session.run(record)
        assert await session.run(record) == (b"a", b"1")


async def test_without_the_package_a_read_says_how_to_get_it(graph, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, record, fill = reading(tmp_path)
    async with af.Session(graph=graph) as session:
        for step in fill:
            await session.run(step)
        with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[lmdb\]"):
            await session.run(record)


def test_options_are_refused(graph):
    with pytest.raises(TypeError, match="LMDBReader takes no options, as 3"):
        af.LMDBReader(options=3)
