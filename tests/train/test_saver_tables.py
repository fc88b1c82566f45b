"""Saving and restoring lookup tables, also those on other tasks."""

import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import cluster


def model(device=""):
    """A table of words and a variable, and changes of both."""
    graph = af.Graph()
    with graph.as_default(), af.device(device or None):
        table = af.lookup.experimental.MutableHashTable(af.string, af.float32, [0.0, 0.0], name="rows")
        keys = af.lookup.experimental.DenseHashTable(af.int64, af.string, "", empty_key=[0, 0], deleted_key=[1, 1])
        af.lookup.experimental.MutableHashTable(af.int64, af.int64, 0, checkpoint=False)
        weight = af.Variable(1.0)
        fill = af.group(
            table.insert(["a", "b"], [[1.0, 2.0], [3.0, 4.0]]), keys.insert([[2, 3]], ["w"]), weight.initializer
        )
        change = table.insert(["c"], [[5.0, 6.0]])
        state = [table.export(), keys.export(), weight]
    return graph, table, fill, change, state


def plain(state):
    (keys, values), (places, texts), weight = state
    return dict(zip(keys.tolist(), values.tolist(), strict=True)), places.tolist(), texts.tolist(), float(weight)


SAVED = ({b"a": [1, 2], b"b": [3, 4]}, [[2, 3]], [b"w"], 1.0)


@pytest.mark.parametrize("mode", ["consistent", "uncoordinated"])
async def test_a_saver_saves_and_restores_tables_beside_variables(tmp_path, mode):
    graph, table, fill, change, state = model()
    with graph.as_default():
        saver = af.train.Saver(mode=mode)
        alone = af.train.Saver({"words": table}, mode=mode)
    async with af.Session(graph=graph) as session:
        await session.run(fill)
        path = await saver.save(session, tmp_path / "all")
        words = await alone.save(session, tmp_path / "words")
        await session.run(change)
    async with af.Session(graph=graph) as session:
        await session.run(change)
        await saver.restore(session, path)
        assert plain(await session.run(state)) == SAVED
        await session.run(change)
        await alone.restore(session, words)
        assert plain(await session.run(state)) == SAVED
        await session.run(change)
        await saver.restore(session, path, variables=[table])
        assert plain(await session.run(state)) == SAVED
        with pytest.raises(errors.InvalidArgumentError, match="rows-keys"):
            await saver.restore(session, words)


async def test_a_table_on_another_task_is_looked_up_changed_saved_and_restored(tmp_path):
    graph, table, fill, change, state = model("/job:ps/task:0")
    with graph.as_default():
        saver = af.train.Saver()
        with af.device("/job:worker/task:0"):
            doubled = table.lookup(["a", "z"]) * 2
    config = af.Config(file_roots=[str(tmp_path)])
    async with (
        cluster({"ps": 1, "worker": 1}, 0, config=config) as hosts,
        af.Session(hosts.target("worker", 0), graph=graph) as session,
    ):
        await session.run(fill)
        assert (await session.run(doubled)).tolist() == [[2, 4], [0, 0]]
        path = await saver.save(session, tmp_path / "all")
        await session.run(change)
        await saver.restore(session, path)
        assert plain(await session.run(state)) == SAVED
