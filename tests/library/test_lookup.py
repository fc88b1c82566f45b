"""Lookup tables: contents from tensors and files, changes, order within a step, errors."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

LINE, NUMBER = af.lookup.TextFileIndex.WHOLE_LINE, af.lookup.TextFileIndex.LINE_NUMBER


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def colours(**options):
    content = af.lookup.KeyValueTensorInitializer(["red", "blue"], [7, 9])
    return af.lookup.StaticHashTable(content, -1, **options)


def rows(**options):
    return af.lookup.experimental.MutableHashTable(af.string, af.float32, [0.0, -1.0], **options)


async def pairs(session, table):
    """The keys and values of a table, as Python's."""
    keys, values = await session.run(table.export())
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


# From tensors


async def test_a_static_table_gives_values_and_the_default_after_its_initializer():
    table = colours()
    found = table.lookup([["red", "green"], ["blue", "red"]])
    assert found.shape == [2, 2]
    assert found.dtype is af.int32
    assert (table.key_dtype, table.value_dtype) == (af.string, af.int32)
    sparse = table.lookup(af.SparseTensor([[0, 1]], ["blue"], [1, 2]))
    async with af.Session() as session:
        for reading in (found, table.size(), table.export()):
            with pytest.raises(errors.FailedPreconditionError, match=r"'hash_table' is not initialized.*tables_init"):
                await session.run(reading)
        await session.run(af.tables_initializer())
        await session.run(table.initializer)  # again, to no effect
        values, size, one, few = await session.run([found, table.size(), table.lookup("blue"), sparse])
        assert values.tolist() == [[7, -1], [9, 7]]
        assert values.dtype == np.int32
        assert (size, one, few.values.tolist()) == (2, 9, [9])
        assert await pairs(session, table) == {b"red": 7, b"blue": 9}


async def test_a_key_with_two_values_is_refused_by_name_and_an_equal_pair_is_not():
    def table(keys, values):
        return af.lookup.StaticHashTable(af.lookup.KeyValueTensorInitializer(keys, values), -1)

    equal, twice = table(["a", "a", "b"], [1, 1, 2]), table([5, 6, 5], [1, 2, 3])
    other = af.placeholder(af.int32, [2])
    fed = table(["a", "b"], other)
    async with af.Session() as session:
        await session.run(equal.initializer)
        assert await session.run(equal.size()) == 2
        with pytest.raises(errors.FailedPreconditionError, match=r"key 5 of table 'hash_table_1' is given twice"):
            await session.run(twice.initializer)
        await session.run(fed.initializer, {other: [1, 2]})
        with pytest.raises(errors.FailedPreconditionError, match=r"initialized already, with 2 keys"):
            await session.run(fed.initializer, {other: [1, 3]})
        assert await pairs(session, fed) == {b"a": 1, b"b": 2}


def test_wrong_arguments_of_static_tables_are_refused_when_they_are_built():
    table = colours()
    vector = af.lookup.KeyValueTensorInitializer
    for wrong, error, text in (
        (lambda: table.lookup(af.constant([1])), TypeError, "string"),
        (lambda: af.lookup.StaticHashTable(vector(["a"], [1, 2]), 0), ValueError, "shape"),
        (lambda: af.lookup.StaticHashTable(vector([1.5], [1]), 0), TypeError, "float32"),
        (lambda: af.lookup.StaticHashTable(vector(["a"], [1]), [1, 2]), ValueError, "one value"),
        (lambda: af.lookup.StaticHashTable({"a": 1}, 0), TypeError, "initializer"),
        (lambda: af.lookup.StaticVocabularyTable(vector(["a"], [1]), 1), TypeError, "int64"),
        (lambda: af.lookup.StaticVocabularyTable(None, 0), ValueError, "at least 1"),
        (lambda: af.lookup.index_table_from_tensor(["a"], num_oov_buckets=-1), ValueError, "-1"),
        (lambda: af.lookup.index_table_from_tensor([1], dtype=af.string), TypeError, "string"),
        (lambda: af.lookup.index_table_from_file(""), ValueError, "empty"),
        (lambda: af.lookup.StrongHashSpec([1]), TypeError, "two integers"),
    ):
        with pytest.raises(error, match=text):
            wrong()


# From files


async def test_a_text_file_gives_columns_lines_and_their_numbers(tmp_path):
    file = tmp_path / "words.txt"
    file.write_bytes(b"the,1.5\r\nof,2\nand,-3")
    name = str(file)

    def table(key, value, default, **options):
        content = af.lookup.TextFileInitializer(name, key[0], key[1], value[0], value[1], delimiter=",", **options)
        return af.lookup.StaticHashTable(content, default)

    prices = table((af.string, 0), (af.float32, 1), 0.0)
    lines = table((af.int64, NUMBER), (af.string, LINE), "")
    shifted = table((af.string, 0), (af.int64, NUMBER), -1, value_index_offset=5, vocab_size=2)
    async with af.Session() as session:
        await session.run(af.tables_initializer())
        assert await pairs(session, prices) == {b"the": 1.5, b"of": 2.0, b"and": -3.0}
        assert await pairs(session, lines) == {0: b"the,1.5", 1: b"of,2", 2: b"and,-3"}
        assert await pairs(session, shifted) == {b"the": 5, b"of": 6}
    assert [each.op.attrs["value"][()] for each in af.get_collection(af.GraphKeys.ASSET_FILEPATHS)] == [
        name.encode()
    ] * 3


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("a 1\nb x", {}, errors.InvalidArgumentError, r"line 2 of '.*words.txt' has b'x', no int64"),
        ("a 1\nb", {}, errors.InvalidArgumentError, r"line 2 of '.*words.txt' has 1 columns"),
        ("a 1\n\nb 2", {}, errors.InvalidArgumentError, "line 2 of '.*words.txt' is empty"),
        ("a 1\nb 2", {"vocab_size": 9}, errors.InvalidArgumentError, "has 2 lines, and vocab_size is 9"),
        ("a 1\na 2", {}, errors.FailedPreconditionError, "key b'a' of table 'hash_table' is given twice"),
        (None, {}, errors.NotFoundError, "words.txt"),
    ],
)
async def test_a_wrong_text_file_is_refused_by_line(tmp_path, text, options, error, message):
    file = tmp_path / "words.txt"
    if text is not None:
        file.write_text(text)
    content = af.lookup.TextFileInitializer(str(file), af.string, 0, af.int64, 1, delimiter=" ", **options)
    table = af.lookup.StaticHashTable(content, -1)
    async with af.Session() as session:
        with pytest.raises(error, match=message):
            await session.run(table.initializer)
        with pytest.raises(errors.FailedPreconditionError):
            await session.run(table.size())


def test_wrong_columns_and_delimiters_are_refused_when_the_table_is_built():
    def table(key=(af.string, 0), value=(af.int64, 1), **options):
        content = af.lookup.TextFileInitializer("words.txt", key[0], key[1], value[0], value[1], **options)
        return af.lookup.StaticHashTable(content, -1)

    for options, text in (
        ({"key": (af.string, NUMBER)}, "numbers of lines are integers, and keys are string"),
        ({"key": (af.string, -3)}, "key_index .*-3"),
        ({"value": (af.float32, LINE)}, "whole lines are strings or integers, and values are float32"),
        ({"delimiter": "ab"}, "one character of ASCII, not 'ab'"),
        ({"vocab_size": 0}, "positive number of lines.*0"),
    ):
        with pytest.raises(ValueError, match=text):
            table(**options)


# Vocabularies


async def test_words_outside_a_vocabulary_have_the_numbers_of_buckets(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("x\ny\n")
    words = ["y", "?", "x", "another"]
    strong = af.lookup.StrongHashSpec([1, 2])
    content = af.lookup.TextFileInitializer(str(file), af.string, LINE, af.int64, NUMBER)
    tables = [
        af.lookup.index_table_from_file(str(file), num_oov_buckets=3),
        af.lookup.index_table_from_tensor(["x", "y"], num_oov_buckets=3, default_value=1),
        af.lookup.StaticVocabularyTable(content, 3),
    ]
    hashed = 2 + af.string_to_hash_bucket_fast(words, 3)
    keyed = 2 + af.string_to_hash_bucket_strong(words, 50, [1, 2])
    other = af.lookup.index_table_from_tensor(["x", "y"], 50, hasher_spec=strong).lookup(words)
    numbers = af.lookup.index_table_from_tensor([30, 40], num_oov_buckets=4, dtype=af.int32)
    printed = 2 + af.string_to_hash_bucket_fast(["7"], 4)
    alone = af.lookup.StaticVocabularyTable(None, 3)
    async with af.Session() as session:
        await session.run([af.tables_initializer(), alone.initializer])
        expected, strongly = await session.run([hashed, keyed])
        for table in tables:
            found, size = await session.run([table.lookup(words), table.size()])
            assert found.tolist() == [1, expected[1], 0, expected[3]]
            assert size == 5
        assert (await session.run(other)).tolist() == [1, strongly[1], 0, strongly[3]]
        found, text = await session.run([numbers.lookup([40, 7]), printed])
        assert found.tolist() == [1, text[0]]
        assert (await session.run(alone.lookup(words)) + 2).tolist() == expected.tolist()


async def test_numbers_of_words_lead_back_to_the_words(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("x\ny\n")
    tables = [
        af.lookup.index_to_string_table_from_file(str(file), default_value="?"),
        af.lookup.index_to_string_table_from_tensor(["x", "y"], default_value="?"),
    ]
    async with af.Session() as session:
        await session.run(af.tables_initializer())
        for table in tables:
            assert (await session.run(table.lookup(af.constant([1, 2, 0], af.int64)))).tolist() == [b"y", b"?", b"x"]


# Changes


async def test_lookups_and_changes_of_a_step_run_in_the_order_in_which_they_were_built():
    table = rows()
    before = table.lookup(["a", "b"])
    first = table.insert(["a", "b", "a"], [[1, 1], [2, 2], [3, 3]])
    between, count = table.lookup(["a", "b"]), table.size()
    second = table.remove(["a", "absent"])
    after = table.lookup(["a", "b"], [[8, 8], [9, 9]])
    async with af.Session() as session:
        found = await session.run([after, between, before, count, second, first])
        assert [value.tolist() for value in found[:3]] == [
            [[8, 8], [2, 2]], [[3, 3], [2, 2]], [[0, -1], [0, -1]],
        ]  # fmt: skip
        assert found[3] == 2
        assert await pairs(session, table) == {b"b": [2, 2]}


async def test_a_branch_and_a_loop_change_a_table_in_order():
    table = af.lookup.experimental.MutableHashTable(af.int64, af.int64, 0)
    five = af.constant(5, af.int64)

    def body(i):
        with af.control_dependencies([table.insert(i, table.lookup(i - 1) + i)]):
            return i + 1

    last = af.while_loop(lambda i: i <= five, body, [af.constant(1, af.int64)])
    total = table.lookup(five)
    with af.control_dependencies([last.op]):
        chosen = af.cond(total > 10, lambda: table.lookup(five) * 2, lambda: five)
    async with af.Session() as session:
        assert (await session.run([chosen, total, last]))[:2] == [30, 15]
        assert await pairs(session, table) == {1: 1, 2: 3, 3: 6, 4: 10, 5: 15}


async def test_a_failed_insertion_changes_nothing():
    keys, values = af.placeholder(af.string, [None]), af.placeholder(af.float32, None)
    table = rows()
    insert = table.insert(keys, values)
    dense = af.lookup.experimental.DenseHashTable(af.string, af.int64, -1, empty_key="", deleted_key="gone")
    async with af.Session() as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"must have the shape \[2, 2\].*not \[3, 2\]"):
            await session.run(insert, {keys: ["a", "b"], values: np.ones((3, 2))})
        with pytest.raises(errors.InvalidArgumentError, match="b'gone' is the empty or the deleted key"):
            await session.run(dense.insert(["a", "gone"], np.array([1, 2])))
        assert await session.run([table.size(), dense.size()]) == [0, 0]


async def test_dense_tables_have_vectors_as_keys_and_refuse_two_of_them():
    table = af.lookup.experimental.DenseHashTable(
        af.int64, af.string, "?", empty_key=[0, 0], deleted_key=[-1, -1], initial_num_buckets=4
    )
    found = table.lookup([[[1, 2]], [[3, 4]]])
    assert found.shape == [2, 1]
    async with af.Session() as session:
        await session.run([table.insert_or_assign([[1, 2], [5, 6]], ["w", "v"]), table.size()])
        await session.run(table.erase([[5, 6]]))
        assert (await session.run(found)).tolist() == [[b"w"], [b"?"]]
        keys, values = await session.run(table.export())
        assert (keys.tolist(), values.tolist()) == ([[1, 2]], [b"w"])
        for refused in (table.lookup([[0, 0]]), table.remove([[-1, -1]])):
            with pytest.raises(errors.InvalidArgumentError, match="the empty or the deleted key"):
                await session.run(refused)


def test_wrong_arguments_of_changes_are_refused_when_they_are_built():
    table = rows()
    dense = af.lookup.experimental.DenseHashTable
    unknown = af.placeholder(af.int64, [])
    for wrong, error, text in (
        (lambda: table.insert(["a"], [1.0, 2.0]), ValueError, r"values must have the shape \[1, 2\]"),
        (lambda: table.insert([1], [[1.0, 2.0]]), TypeError, "string"),
        (lambda: table.insert(["a"], af.constant([[1, 2]])), TypeError, "float32"),
        (lambda: table.lookup(["a"], [[1.0]]), ValueError, "default"),
        (lambda: dense(af.int64, af.int64, 0, 1, 1), ValueError, "must differ"),
        (lambda: dense(af.int64, af.int64, 0, [1], 1), ValueError, "shape"),
        (lambda: dense(af.int64, af.int64, 0, unknown, 1), ValueError, "must be known"),
        (lambda: dense(af.int64, af.int64, 0, 1, 2, 3), ValueError, "power of 2"),
        (lambda: dense(af.int64, af.int64, 0, [1, 1], [2, 2]).lookup([1, 2, 3]), ValueError, "keys of this table"),
        (lambda: dense(af.float32, af.int64, 0, 1.0, 2.0), TypeError, "float32"),
    ):
        with pytest.raises(error, match=text):
            wrong()


async def test_tables_of_a_named_container_are_shared_and_reset_with_it():
    with af.container("words"):
        table, same = rows(shared_name="rows"), rows(shared_name="rows", name="again")
        other = af.lookup.experimental.MutableHashTable(af.string, af.float32, 0.0, shared_name="rows")
    async with af.Session() as first, af.Session() as second:
        await first.run(table.insert(["a"], [[1, 2]]))
        assert await pairs(second, same) == {b"a": [1, 2]}
        with pytest.raises(errors.InvalidArgumentError, match="'rows' is shared with value_shape"):
            await second.run(other.size())
    await af.reset(["words"])
    async with af.Session() as third:
        assert await third.run(same.size()) == 0
