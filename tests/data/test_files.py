"""Datasets of files: records, names, cache files, damage."""

import json
import os

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import CsvDataset, Dataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from aioflow.data.record_files import FileCursor
from aioflow.files import read_ahead
from aioflow.files.tfrecord import TFRecordWriter
from aioflow.files.tfrecord_options import TFRecordOptions
from tests.data.test_dataset import Pair, elements


def write_records(path, records, compression=None):
    with TFRecordWriter(path, TFRecordOptions(compression)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def write_text(path, text):
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("compression", [None, "ZLIB", "GZIP"])
async def test_records_come_file_after_file(tmp_path, compression):
    files = [write_records(tmp_path / name, [name + "0", name + "1"], compression) for name in "ab"]
    expected = [b"a0", b"a1", b"b0", b"b1"]
    assert await elements(TFRecordDataset(files, compression)) == expected
    assert await elements(TFRecordDataset(Dataset.from_tensor_slices(files), compression)) == expected
    assert await elements(TFRecordDataset(tmp_path / "b", compression)) == expected[2:]


async def test_files_that_are_read_at_a_time_come_in_turn(tmp_path):
    files = [write_records(tmp_path / name, [name + "0", name + "1"]) for name in "abc"]
    dataset = TFRecordDataset(files, num_parallel_reads=2)
    assert await elements(dataset) == [b"a0", b"b0", b"a1", b"b1", b"c0", b"c1"]


async def test_lines_have_no_ends(tmp_path):
    path = write_text(tmp_path / "text", "one\r\n\ntwo")
    assert await elements(TextLineDataset(path)) == [b"one", b"", b"two"]


async def test_records_of_a_fixed_length_lie_between_header_and_footer(tmp_path):
    path = write_text(tmp_path / "text", "hhabcdeff")
    assert await elements(FixedLengthRecordDataset(path, 2, header_bytes=2, footer_bytes=2)) == [b"ab", b"cd"]


async def test_comma_separated_values_become_tuples(tmp_path):
    path = write_text(tmp_path / "table", 'id,text,weight\n1,"a, ""b""",2.5\n\n2,"two\nlines",\n')
    dataset = CsvDataset(path, [af.int32, af.string, 7.0], header=True)
    assert await elements(dataset) == [(1, b'a, "b"', 2.5), (2, b"two\nlines", 7.0)]
    assert [spec.dtype for spec in dataset.element_spec] == [af.int32, af.string, af.float32]
    few = CsvDataset(path, ["", np.float32], header=True, na_value="1", select_cols=[0, 2])
    assert await elements(few.take(1)) == [(b"", 2.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "record 1 has 1 fields, and 2 are expected"),
        ("1,x\n", "field 1 of record 0 must be int32, not b'x'"),
        ("1,2\n,2\n", "field 0 of record 1 is empty"),
        ('1,"2\n', "do not end"),
    ],
)
async def test_a_record_that_does_not_fit_is_named(tmp_path, text, message):
    dataset = CsvDataset(write_text(tmp_path / "table", text), [af.int32, 5])
    with pytest.raises(errors.InvalidArgumentError, match=message) as raised:
        await elements(dataset)
    assert raised.value.op == "CsvDataset"
    assert "test_files.py" in raised.value.line


@pytest.mark.parametrize(
    "dataset",
    [TFRecordDataset, TextLineDataset, lambda name: FixedLengthRecordDataset(name, 2)],
    ids=["records", "lines", "fixed"],
)
async def test_a_missing_file_names_itself_and_the_line(dataset):
    with pytest.raises(errors.NotFoundError, match="no such file: 'gone'") as raised:
        await elements(dataset("gone"))
    assert "test_files.py" in raised.value.line
    assert raised.value.op.endswith("Dataset")


async def test_damage_is_an_error_or_left_out(tmp_path):
    path = write_records(tmp_path / "records", ["one", "two", "three"])
    content = bytearray((tmp_path / "records").read_bytes())
    content[content.index(b"two")] ^= 1
    (tmp_path / "records").write_bytes(content)
    iterator = TFRecordDataset(path).iterate()
    assert await anext(iterator) == b"one"
    with pytest.raises(errors.DataLossError, match="checksum"):
        await anext(iterator)
    assert await elements(TFRecordDataset([path, "gone"], skip_corrupt=True)) == [b"one", b"three"]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: TFRecordDataset("a", "BZIP"), ValueError, "'ZLIB', 'GZIP'"),
        (lambda: TextLineDataset("a", "GZIP"), ValueError, "compression_type must be None"),
        (lambda: TFRecordDataset(5), TypeError, "path"),
        (lambda: FixedLengthRecordDataset("a", 0), ValueError, "record_bytes must be at least 1"),
        (lambda: CsvDataset("a", []), ValueError, "record_defaults"),
        (lambda: CsvDataset("a", [af.bool]), TypeError, "column 0 is bool"),
        (lambda: CsvDataset("a", [af.int32], select_cols=[0, 1]), ValueError, "select_cols"),
        (lambda: Dataset.list_files(3), TypeError, "path"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make, error, text):
    with pytest.raises(error, match=text):
        make()


async def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="name of a file is text, not"):
        await elements(TextLineDataset(Dataset.range(2)))


async def test_names_of_files_are_found_when_the_iteration_begins(tmp_path):
    dataset = Dataset.list_files([str(tmp_path / "*.a"), str(tmp_path / "*.b")], shuffle=False)
    with pytest.raises(errors.InvalidArgumentError, match=r"no file matches .*\*\.a' or .*\*\.b'"):
        await elements(dataset)
    names = [os.fsencode(write_text(tmp_path / name, "")) for name in ("1.a", "2.b", "3.a")]
    assert await elements(dataset) == names
    shuffled = Dataset.list_files(str(tmp_path / "*"), seed=3)
    assert sorted(await elements(shuffled)) == names
    assert await elements(shuffled) == await elements(shuffled)


async def test_a_cache_file_keeps_the_elements_of_a_complete_iteration(tmp_path):
    made = []

    def make(number):
        made.append(int(number))
        return {"image": np.full((2, 2), number, np.float16), "more": (np.int8(number), str(number))}

    def dataset():
        return Dataset.range(3).map(make).cache(tmp_path / "cache")

    async for _ in dataset():
        break
    whole = await elements(dataset())
    assert made == [0, 0, 1, 2]
    assert os.listdir(tmp_path) == ["cache"]
    assert await elements(dataset()) == whole
    assert made == [0, 0, 1, 2]
    (first, *_) = [element async for element in dataset()]
    assert (first["image"].dtype, first["more"][0].dtype, first["more"][1]) == (np.float16, np.int8, b"0")


async def test_a_cache_file_keeps_no_named_tuples():
    with pytest.raises(errors.InvalidArgumentError, match="tuples and dicts, not the named tuple Pair"):
        await elements(Dataset.from_tensors(Pair(1, 2)).cache("cache"))


async def test_a_damaged_cache_file_is_an_error(tmp_path):
    write_records(tmp_path / "cache", [b"\xc1 no msgpack"])
    with pytest.raises(errors.DataLossError, match=r"cache.*damaged") as raised:
        await elements(Dataset.range(3).cache(tmp_path / "cache"))
    assert raised.value.op == "cache"


async def test_a_cache_file_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.OpError, match="file/cache"):
        await elements(Dataset.range(3).cache(tmp_path / "file" / "cache"))


@pytest.mark.real
async def test_threads_read_files(tmp_path):
    path = write_text(tmp_path / "text", "".join(f"{number}\n" for number in range(1000)))
    dataset = TextLineDataset([path, path], num_parallel_reads=2).map(int, 4).cache(tmp_path / "cache")
    assert await elements(dataset) == await elements(dataset) == sorted([*range(1000), *range(1000)])


@pytest.mark.parametrize("kind", ["records", "lines", "csv", "fixed"])
async def test_going_on_reads_no_record_again_that_was_read(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(read_ahead, "AHEAD", 100)
    file = tmp_path / "file"
    if kind == "records":
        with TFRecordWriter(file) as writer:
            for number in range(200):
                writer.write(b"%05d" % number)
        dataset = TFRecordDataset(str(file))
    else:
        file.write_bytes(b"head\n" + b"".join(b"%05d\n" % number for number in range(200)))
        dataset = {
            "lines": TextLineDataset(str(file)),
            "csv": CsvDataset(str(file), [np.int32], header=True),
            "fixed": FixedLengthRecordDataset(str(file), 6, 5),
        }[kind]
    whole = await elements(dataset)
    async with dataset.iterate() as iterator:
        for _ in range(150 if kind != "lines" else 151):
            await anext(iterator)
        state = json.loads(json.dumps(iterator.state()))
    content = file.read_bytes()
    file.write_bytes(b"?" * (len(content) // 2) + content[len(content) // 2 :])
    assert await elements(dataset.iterate(state)) == whole[-50:]
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(errors.FailedPreconditionError, match="has changed"):
        await elements(dataset.iterate(state))


async def test_batches_take_records_that_were_read_ahead_without_waiting_for_each(tmp_path, monkeypatch):
    names = [write_records(tmp_path / name, [f"{name}{number}" for number in range(700)]) for name in "ab"]
    waits = []
    record = FileCursor.record

    def counted(self):
        waits.append(self)
        return record(self)

    monkeypatch.setattr(FileCursor, "record", counted)
    batches = await elements(TFRecordDataset(names).batch(500))
    assert [each for batch in batches for each in batch] == [f"{name}{n}".encode() for name in "ab" for n in range(700)]
    assert [len(batch) for batch in batches] == [500, 500, 400]
    assert len(waits) < 20
