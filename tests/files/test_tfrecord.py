"""TFRecords: as TensorFlow writes them; what is corrupt is found, skipped if asked, and allocates nothing."""

import gzip
import io
import json
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow.files.tfrecord
from aioflow import errors
from aioflow.files.crc32c import crc32c, mask, masked_crc32c_windows
from aioflow.files.tfrecord import (
    Records,
    TFRecordWriter,
    tf_record_iterator,
)
from aioflow.files.tfrecord_options import TFRecordCompressionType, TFRecordOptions

TABLE = json.loads((Path(__file__).parents[1] / "data" / "input.json").read_text())["tfrecord"]
RECORDS = [record.encode("latin-1") for record in TABLE["records"]]
MADE = {kind: bytes.fromhex(text) for kind, text in TABLE["files"].items()}
KINDS = ["", "ZLIB", "GZIP"]


def slow(data):
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def read(data, kind="", **options):
    records = Records(io.BytesIO(data), len(data), "file", TFRecordOptions(kind, **options))
    return [payload for _, payload in records]


def framed(*payloads):
    def check(data):
        return struct.pack("<I", mask(crc32c(data)))

    lengths = [struct.pack("<Q", len(payload)) for payload in payloads]
    return b"".join(
        length + check(length) + payload + check(payload) for length, payload in zip(lengths, payloads, strict=True)
    )


# The checksum


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@given(st.binary(max_size=6000), st.integers(0, 6000))
def test_the_checksum_of_a_whole_follows_from_its_parts(data, cut):
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


@pytest.mark.parametrize("length", [1, 3, 4, 39, 40, 41, 100, 2047, 2048, 2049, 2052, 4096, 20001])
def test_the_checksum_is_that_of_its_definition(length):
    data = np.random.default_rng(length).bytes(length)
    assert crc32c(data) == slow(data)


def test_the_checksums_of_windows_are_those_of_each():
    data = np.random.default_rng(0).bytes(100)
    assert masked_crc32c_windows(data, 8).tolist() == [mask(slow(data[at : at + 8])) for at in range(93)]
    assert masked_crc32c_windows(b"short", 8).tolist() == []


# As TensorFlow does


@pytest.mark.parametrize("kind", KINDS)
def test_what_tensorflow_wrote_is_read(kind, tmp_path):
    (tmp_path / "records").write_bytes(MADE[kind])
    assert list(tf_record_iterator(tmp_path / "records", kind)) == RECORDS
    offsets = [at for at, _ in Records(io.BytesIO(MADE[""]), None, "file")]
    assert offsets == [0, 16, 33, 56, 328]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_what_tensorflow_writes(kind, tmp_path):
    name = str(tmp_path / "records")
    with TFRecordWriter(name, TFRecordOptions(kind)) as writer:
        for record in RECORDS:
            writer.write(record)
    undo = {"": bytes, "ZLIB": zlib.decompress, "GZIP": gzip.decompress}[kind]
    assert undo(Path(name).read_bytes()) == MADE[""]


@given(st.lists(st.binary(max_size=300_000), max_size=4), st.sampled_from(KINDS), st.booleans())
def test_what_is_written_is_read_again(records, kind, flush):
    name = "memory://records/again"
    with TFRecordWriter(name, kind) as writer:
        for record in records:
            writer.write(record)
            if flush:
                writer.flush()
    assert list(tf_record_iterator(name, kind)) == records


def test_a_writer_that_is_closed_says_so(tmp_path):
    writer = TFRecordWriter(tmp_path / "a")
    writer.close()
    writer.close()
    for use in (lambda: writer.write(b"x"), writer.flush):
        with pytest.raises(errors.FailedPreconditionError, match="closed"):
            use()


def test_streams_that_follow_one_another_are_one():
    made = gzip.compress(framed(b"a")) + gzip.compress(framed(b"b", b"c"))
    assert read(made, "GZIP") == [b"a", b"b", b"c"]
    assert read(b"", "GZIP") == read(b"") == []


def test_options_are_as_in_tensorflow():
    assert TFRecordOptions(TFRecordCompressionType.GZIP).compression_type == "GZIP"
    assert TFRecordOptions.get_compression_type_string("ZLIB") == "ZLIB"
    for wrong in ({"compression_type": "LZ4"}, {"compression_level": 12}, {"window_bits": 99}, {"mem_level": 0}):
        with pytest.raises(ValueError, match=str(*wrong.values())):
            TFRecordOptions(**wrong)


# What is corrupt


@pytest.mark.parametrize("kind", KINDS)
def test_a_byte_changed_anywhere_loses_data_or_nothing(kind):
    made = MADE[kind]
    for offset in range(len(made)):
        for change in (0x01, 0x80, 0xFF):
            corrupt = bytearray(made)
            corrupt[offset] ^= change
            found, message = [], "offset"
            try:
                for _, payload in Records(io.BytesIO(corrupt), len(corrupt), "file", TFRecordOptions(kind)):
                    found.append(payload)
            except errors.DataLossError as error:
                message = error.message
            assert "offset" in message or "byte" in message
            assert found == RECORDS[: len(found)]
            if kind == "":
                assert len(found) < len(RECORDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_off_anywhere_loses_data(kind):
    made = MADE[kind]
    ends = np.cumsum([0, *[len(record) + 16 for record in RECORDS]]).tolist()
    for end in range(1, len(made)):
        if kind == "" and end in ends:
            continue
        for size in (end, None):
            with pytest.raises(errors.DataLossError):
                list(Records(io.BytesIO(made[:end]), size, "file", TFRecordOptions(kind)))


def test_one_corrupt_record_is_skipped_and_no_other():
    made = MADE[""]
    begins = np.cumsum([0, *[len(record) + 16 for record in RECORDS]]).tolist()
    for offset in range(len(made)):
        corrupt = bytearray(made)
        corrupt[offset] ^= 0x10
        records = Records(io.BytesIO(corrupt), len(corrupt), "file", TFRecordOptions(skip_corrupt=True))
        hit = int(np.searchsorted(begins, offset, "right")) - 1
        assert [payload for _, payload in records] == [*RECORDS[:hit], *RECORDS[hit + 1 :]]
        assert records.skipped >= 1


def test_reading_goes_on_behind_garbage_longer_than_a_chunk():
    garbage = np.random.default_rng(1).bytes(1_000_003)
    made = framed(b"before") + garbage + framed(b"behind", b"x" * 5000)
    assert read(made, skip_corrupt=True) == [b"before", b"behind", b"x" * 5000]
    assert read(garbage, skip_corrupt=True) == []
    assert read(made + b"stub", skip_corrupt=True) == [b"before", b"behind", b"x" * 5000]


@given(st.binary(max_size=400), st.sampled_from(KINDS), st.booleans())
def test_no_bytes_are_read_as_anything_but_records(data, kind, skip):
    try:
        read(data, kind, skip_corrupt=skip)
    except errors.DataLossError:
        assert not skip


def forged(length):
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", mask(crc32c(head))) + b"few bytes"


@pytest.mark.parametrize("length", [100, 1 << 29, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_length_is_refused_before_anything_is_allocated(kind, length):
    made = forged(length)
    made = {"": made, "ZLIB": zlib.compress(made), "GZIP": gzip.compress(made)}[kind]
    tracemalloc.start()
    with pytest.raises(errors.DataLossError, match=f"{length} bytes is truncated"):
        read(made, kind)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert read(made, kind, skip_corrupt=True) == []


def test_a_record_longer_than_allowed_is_refused():
    made = framed(b"x" * 2000)
    with pytest.raises(errors.ResourceExhaustedError, match="max_record_bytes"):
        read(made, max_record_bytes=1999)
    assert read(made, max_record_bytes=2000) == [b"x" * 2000]


def test_a_bomb_is_refused_while_it_is_small():
    made = bomb("ZLIB")
    assert len(made) < 1 << 18
    with pytest.raises(errors.ResourceExhaustedError, match="max_expansion"):
        read(made, "ZLIB")


def test_many_claims_of_long_records_cost_no_more_than_reading_on(monkeypatch):
    looked_at = []

    def counted(data, width):
        looked_at.append(len(data))
        return masked_crc32c_windows(data, width)

    monkeypatch.setattr(aioflow.files.tfrecord, "masked_crc32c_windows", counted)
    data = forged(100_000)[:12] * 30_000
    assert read(data + framed(b"end"), skip_corrupt=True)[-1:] in ([b"end"], [])
    assert sum(looked_at) <= 2 * len(data)


# What is left out


def bomb(kind):
    compressor = zlib.compressobj(9, zlib.DEFLATED, {"ZLIB": 15, "GZIP": 31}[kind])
    head = struct.pack("<Q", 100 << 20)
    pieces = [compressor.compress(framed(b"before") + head + struct.pack("<I", mask(crc32c(head))))]
    pieces += [compressor.compress(bytes(1 << 20)) for _ in range(128)]
    return b"".join([*pieces, compressor.flush()])


@pytest.mark.parametrize("kind", ["ZLIB", pytest.param("GZIP", marks=pytest.mark.long)])
def test_of_a_bomb_what_came_before_is_kept_and_the_rest_left_out(kind, caplog):
    assert read(bomb(kind), kind, skip_corrupt=True) == [b"before"]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("aioflow.input", "WARNING")
    assert "1 parts of 'file' are skipped; the first: 'file' expands" in record.getMessage()


@pytest.mark.parametrize("kind", ["ZLIB", "GZIP"])
@pytest.mark.parametrize("damage", [b"", b"rubbish, and no record"])
def test_a_compressed_file_cut_off_anywhere_gives_records_from_its_beginning(kind, damage):
    plain = framed(*RECORDS[:2]) + damage + framed(*[bytes([i]) * 999 for i in range(30)])
    made = {"ZLIB": zlib.compress, "GZIP": gzip.compress}[kind](plain)
    whole = read(made, kind, skip_corrupt=True)
    assert len(whole) == 32
    for end in range(1, len(made)):
        found = read(made[:end], kind, skip_corrupt=True)
        assert found == whole[: len(found)]


@pytest.mark.parametrize("size", [50, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_too_long_is_passed_whatever_it_holds(kind, size):
    inside = framed(b"no record of its own") * (size // 36)
    made = framed(b"before", inside, b"behind")
    made = {"": made, "ZLIB": zlib.compress(made, 1), "GZIP": gzip.compress(made, 1)}[kind]
    assert read(made, kind, skip_corrupt=True, max_record_bytes=30) == [b"before", b"behind"]


def test_what_is_left_out_is_logged_once_for_each_file(tmp_path, caplog):
    corrupt = bytearray(framed(b"a", b"b", b"c"))
    corrupt[13] ^= 1
    corrupt[30] ^= 1
    (tmp_path / "records").write_bytes(corrupt)
    assert list(tf_record_iterator(tmp_path / "records", TFRecordOptions(skip_corrupt=True))) == [b"c"]
    (record,) = caplog.records
    assert "2 parts of" in record.getMessage()
    assert "at offset 0 disagrees with its checksum" in record.getMessage()
