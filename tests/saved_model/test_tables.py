"""Saved models with lookup tables: their vocabulary files, and the content that steps gave them."""

import json

import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.state.lookup_tables import lookup_table_insert
from aioflow.saved_model import Signature, load, save


def model(*files):
    """A signature that looks words up in each file, and their numbers in a table that steps change."""
    words = af.placeholder(af.string, [None], name="words")
    numbers = [af.lookup.index_table_from_file(file, num_oov_buckets=2).lookup(words) for file in files]
    rows = af.lookup.experimental.MutableHashTable(af.int64, af.float32, [0.0, 0.0], name="rows")
    names = af.lookup.index_to_string_table_from_tensor(["first", "second"])
    fill = rows.insert(af.constant([0, 1], af.int64), [[1.0, 2.0], [3.0, 4.0]])
    found = {f"numbers{place}": each for place, each in enumerate(numbers)}
    outputs = {**found, "rows": rows.lookup(numbers[0]), "names": names.lookup(numbers[0])}
    return {"serving_default": Signature({"words": words}, outputs)}, fill


async def test_a_saved_model_brings_its_vocabulary_files_and_the_content_of_its_tables(tmp_path):
    files = [tmp_path / "one" / "my words.txt", tmp_path / "two" / "my words.txt"]
    for file, text in zip(files, ("u\nv\n", "v\nu\n"), strict=True):
        file.parent.mkdir()
        file.write_text(text)
    extra = tmp_path / "extra"
    extra.write_text("mine")
    graph = af.Graph()
    with graph.as_default():
        signatures, fill = model(*map(str, files))
        init = af.tables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run([init, fill])
        path = await save(session, tmp_path / "model", signatures, assets={"my_words.txt": extra})
    for file in files:
        file.unlink()
    for copy in ("second", "third"):  # the second time from what was loaded
        async with af.Session(graph=af.Graph()) as session:
            loaded = await load(path, session)
            signature = loaded.signatures["serving_default"]
            assert sorted(loaded.assets) == ["1_my_words.txt", "2_my_words.txt", "my_words.txt"]
            found = await session.run(dict(signature.outputs), {signature.inputs["words"]: ["v", "u"]})
            assert found["numbers0"].tolist() == [1, 0]
            assert found["numbers1"].tolist() == [0, 1]
            assert found["rows"].tolist() == [[3, 4], [1, 2]]
            assert found["names"].tolist() == [b"second", b"first"]
            with session.graph.as_default():
                await session.run(af.tables_initializer())  # again, to no effect
            path = await save(session, tmp_path / copy, loaded.signatures, assets={"my_words.txt": extra})


async def test_a_saver_saves_the_tables_of_a_loaded_model(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        rows = af.lookup.experimental.MutableHashTable(af.int64, af.float32, [0.0], name="rows", checkpoint=False)
        fill = rows.insert(af.constant([7], af.int64), [[1.0]])
        keys = af.placeholder(af.int64, [None])
        signatures = {"serving_default": Signature({"keys": keys}, {"rows": rows.lookup(keys)})}
    async with af.Session(graph=graph) as session:
        await session.run(fill)
        path = await save(session, tmp_path / "model", signatures)
    async with af.Session(graph=af.Graph()) as session:
        signature = (await load(path, session)).signatures["serving_default"]
        handle = signature.outputs["rows"].op.inputs[0]
        with session.graph.as_default():
            saver = af.train.Saver()
            change = lookup_table_insert(handle, af.constant([7, 8], af.int64), [[2.0], [3.0]])
        checkpoint = await saver.save(session, tmp_path / "checkpoint")
        await session.run(change)
        after = await saver.save(session, tmp_path / "after")
        for path, found in ((checkpoint, [[1], [0]]), (after, [[2], [3]])):
            await saver.restore(session, path, variables=[handle])
            assert (await session.run(signature.outputs["rows"], {signature.inputs["keys"]: [7, 8]})).tolist() == found


async def test_tables_that_are_filled_from_feeds_cannot_be_saved(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        words, file = af.placeholder(af.string, [None]), af.placeholder(af.string, [])
        by_file = af.lookup.index_table_from_file(file).lookup(words)
        by_keys = af.lookup.index_table_from_tensor(af.placeholder(af.string, [2])).lookup(words)
    async with af.Session(graph=graph) as session:
        for output in (by_file, by_keys):
            with pytest.raises(ValueError, match="a table is filled from 'placeholder"):
                await save(session, tmp_path / "model", {"x": Signature({"words": words}, {"y": output})})


async def test_a_saved_model_without_a_vocabulary_that_it_names_is_damaged(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("u\n")
    graph = af.Graph()
    with graph.as_default():
        signatures, _ = model(str(file))
        init = af.tables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await save(session, tmp_path / "model", signatures)
    manifest = tmp_path / "model" / "saved_model.json"
    assert json.loads(manifest.read_text())["vocabularies"] == {"asset_filepath": "words.txt"}
    (tmp_path / "model" / "assets" / "words.txt").unlink()
    async with af.Session(graph=af.Graph()) as session:
        with pytest.raises(errors.DataLossError, match=r"assets/words.txt"):
            await load(path, session)
