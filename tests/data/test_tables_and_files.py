"""Datasets of columns, rows of queries and features of examples, and tables of datasets."""

import sqlite3

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import Dataset
from aioflow.data import experimental as e
from tests.data.test_dataset import elements
from tests.data.test_position import check_every_cut

FEATURES = {"age": af.FixedLenFeature([], af.int64), "words": af.VarLenFeature(af.string)}
EXAMPLES = [af.io.make_example({"age": [age], "words": [b"x"] * (age + 1)}) for age in range(3)]


async def test_examples_of_files_are_parsed_in_batches(tmp_path):
    await e.TFRecordWriter(tmp_path / "a.tfrecord").write(Dataset.from_tensor_slices(EXAMPLES))

    def parsed():
        return Dataset.from_tensor_slices(EXAMPLES).batch(2).apply(e.parse_example_dataset(FEATURES, 2))

    def batched(**arguments):
        pattern = tmp_path / "*.tfrecord"
        return e.make_batched_features_dataset(pattern, 2, FEATURES, label_key="age", num_epochs=2, **arguments)

    first, second = await elements(parsed())
    assert first["age"] == [0, 1]
    assert first["words"] == ([[0, 0], [1, 0], [1, 1]], [b"x"] * 3, [2, 2])
    assert second["words"][2] == [1, 3]
    assert af.data.get_output_types(parsed())["age"] is af.int64
    labels = [label.tolist() async for _, label in batched(shuffle=False)]
    assert labels == [[0, 1], [2, 0], [1, 2]]
    assert sorted([age async for _, label in batched(shuffle_seed=1) for age in label.tolist()]) == [0, 0, 1, 1, 2, 2]
    await check_every_cut(lambda: batched(shuffle_seed=1))
    with pytest.raises(errors.InvalidArgumentError, match="a vector of serialized examples"):
        await elements(Dataset.from_tensor_slices(EXAMPLES).apply(e.parse_example_dataset(FEATURES)))
    with pytest.raises(ValueError, match="has no SparseFeature"):
        e.parse_example_dataset({"x": af.SparseFeature("i", "v", af.float32, 3)})
    with pytest.raises(ValueError, match="'year' is none of the features"):
        e.make_batched_features_dataset(tmp_path / "*", 2, FEATURES, label_key="year")


async def test_columns_have_names_and_the_narrowest_dtypes(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,d\n1,2.5,x,9999999999\n,3,y,1\n")
    (tmp_path / "b.csv").write_text("a,b,c,d\n7,1e39,z,\n")
    files = tmp_path / "*.csv"

    def labelled():
        return e.make_csv_dataset(
            files, 2, label_name="c", select_columns=["c", 0], num_epochs=2, shuffle_seed=1, num_parallel_reads=2
        )

    whole = e.make_csv_dataset(files, 2, num_epochs=1, shuffle=False)
    assert await elements(whole) == [
        {"a": [1, 0], "b": [2.5, 3.0], "c": [b"x", b"y"], "d": [9999999999, 1]},
        {"a": [7], "b": [1e39], "c": [b"z"], "d": [0]},
    ]
    assert whole.output_types == {"a": af.int32, "b": af.float64, "c": af.string, "d": af.int64}
    rows = [pair async for features, label in labelled() for pair in zip(features["a"], label, strict=True)]
    assert sorted(rows) == [(0, b"y"), (0, b"y"), (1, b"x"), (1, b"x"), (7, b"z"), (7, b"z")]
    await check_every_cut(labelled)
    given = e.make_csv_dataset(
        files, 1, ["p", "q", "r", "s"], [7, af.float32], select_columns=["p", "q"], num_epochs=1, shuffle=False
    )
    assert await elements(given.skip(1).take(1)) == [{"p": [7], "q": [3.0]}]
    some = e.CsvDataset(str(tmp_path / "b.csv"), [af.int32, ""], header=True, exclude_cols=[1, 3])
    assert await elements(some) == [(7, b"z")]
    with pytest.raises(ValueError, match="one of select_cols and exclude_cols"):
        e.CsvDataset(str(tmp_path / "b.csv"), [af.int32], select_cols=[0], exclude_cols=[1])
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    for call, error, text in [
        (lambda: e.make_csv_dataset(files, 2), ValueError, r"has the columns .*'d'\], and .*c.csv' has \['a', 'b'\]"),
        (lambda: e.make_csv_dataset(tmp_path / "c*", 2, label_name="q"), ValueError, "'q' is none of the columns"),
        (lambda: e.make_csv_dataset(tmp_path / "c*", 2, select_columns=[5]), ValueError, "there is no column 5"),
        (lambda: e.make_csv_dataset(tmp_path / "c*", 2, header=False), ValueError, "column_names must be given"),
        (lambda: e.make_csv_dataset(tmp_path / "c*", 2, column_defaults=[1]), ValueError, "1 column_defaults for 2"),
        (lambda: e.make_csv_dataset(tmp_path / "d*", 2), errors.InvalidArgumentError, "no file matches"),
    ]:
        with pytest.raises(error, match=text):
            call()


async def test_the_rows_of_a_query_are_elements(tmp_path):
    file = str(tmp_path / "teas?.db")
    with sqlite3.connect(file) as database:
        database.execute("create table teas (name text, minutes integer)")
        database.execute("insert into teas values ('Assam', 4), ('Sencha', 2)")
    database.close()

    def rows(query, types=(af.string, af.int32)):
        return e.SqlDataset("sqlite", file, query, types)

    assert await elements(rows("select * from teas order by minutes")) == [(b"Sencha", 2), (b"Assam", 4)]
    await check_every_cut(lambda: rows("select * from teas order by minutes").repeat(2))
    for query, text in [
        ("select * from none", "no such table"),
        ("select name from teas", "1 items"),
        ("drop table teas", "readonly"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text) as raised:
            await elements(rows(query))
        assert raised.value.op == "SqlDataset"
    with pytest.raises(ValueError, match="driver_name must be"):
        e.SqlDataset("mysql", file, "select 1", (af.int32,))


async def test_tables_hold_the_elements_of_datasets():
    words = Dataset.from_tensor_slices(["a", "b", "c"])
    numbers = Dataset.from_tensor_slices((np.array([5, 6], np.int32), ["x", "y"]))
    with af.Graph().as_default() as graph:
        index = e.index_table_from_dataset(words, num_oov_buckets=1, vocab_size=2)
        texts = e.table_from_dataset(numbers, key_dtype=af.int32, default_value="z")
        found = index.lookup(af.constant(["b", "c", "a"])), texts.lookup(af.constant([6, 1])), index.size()
        ready = af.tables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(ready)
        await session.run(ready)
        first, second, size = await session.run(found)
        assert (first.tolist(), second.tolist(), size) == ([1, 2, 0], [b"y", b"z"], 3)
    with af.Graph().as_default() as graph:
        twice = af.lookup.HashTable(e.DatasetInitializer(Dataset.from_tensor_slices((["x", "x"], [1, 2]))), -1)
        for call, error, text in [
            (lambda: e.table_from_dataset(words), TypeError, "a dataset of pairs"),
            (lambda: e.table_from_dataset(numbers), TypeError, "has keys of int32, and those of the table are string"),
            (lambda: e.index_table_from_dataset(), ValueError, "a dataset is needed"),
            (lambda: e.index_table_from_dataset(words.repeat()), ValueError, "never ends"),
            (lambda: e.index_table_from_dataset(words.map(lambda word: word)), ValueError, "with_element_spec"),
        ]:
            with pytest.raises(error, match=text):
                call()
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.FailedPreconditionError, match="given twice"):
            await session.run(twice.initializer)
