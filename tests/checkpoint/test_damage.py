"""Checkpoints that are damaged, forged, or of another version: refused with a reason, never read wrongly."""

import copy
import json
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow import errors
from aioflow.checkpoint import Checkpoint, Piece, ShardRecord, import_safetensors, latest_checkpoint
from aioflow.checkpoint.records import BLOCK, checksums
from tests.checkpoint.test_checkpoint import save
from tests.support.scale import amount

SHARD = "model-00001-of-00002.safetensors"
STATE = {"a": np.arange(12.0).reshape(3, 4), "b": np.array([b"x", b"yz"], object), "c": np.int32(7)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The files of a checkpoint."""
    path = tmp_path_factory.mktemp("sound") / "c"
    halves = [Piece(STATE["a"][:2], (3, 4), (0, 0)), Piece(STATE["a"][2:], (3, 4), (2, 0))]
    save(path, {"a": halves[0], "b": STATE["b"]}, {"a": halves[1], "c": STATE["c"]}, facts={"step": 1})
    return {name: (path / name).read_bytes() for name in os.listdir(path)}


def laid(files, folder):
    """A checkpoint of these files in that folder."""
    path = folder / "c"
    path.mkdir(exist_ok=True)
    for name in os.listdir(path):
        (path / name).unlink()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def read_all(path):
    checkpoint = Checkpoint.open(path)
    return {name: checkpoint.read(name) for name in checkpoint.tensors}


def right(found):
    return found.keys() == STATE.keys() and all(found[name].tolist() == STATE[name].tolist() for name in STATE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@given(data=st.data())
def test_no_damage_goes_unnoticed(sound, folder, data):
    name = data.draw(st.sampled_from(sorted(sound)))
    original = sound[name]
    at = data.draw(st.integers(0, len(original) - 1))
    damage = data.draw(st.sampled_from(["flip", "cut", "longer", "gone"]))
    flipped = bytes([original[at] ^ 1 << data.draw(st.integers(0, 7))])
    damaged = {
        "flip": original[:at] + flipped + original[at + 1 :],
        "cut": original[:at],
        "longer": original + bytes(at + 1),
    }
    files = {other: contents for other, contents in sound.items() if other != name or damage != "gone"}
    path = laid(files | ({name: damaged[damage]} if damage != "gone" else {}), folder)
    try:
        assert right(read_all(path))
        Checkpoint.open(path).verify()
    except (errors.DataLossError, errors.NotFoundError, errors.UnimplementedError):
        return
    raise AssertionError(f"{damage} at {at} of {name} went unnoticed")


def test_every_changed_bit_and_length_of_every_file_is_detected(sound, folder):
    for name, original in sound.items():
        for at in range(0, len(original), amount(7, 1)):
            byte = bytes([original[at] ^ 1 << at % 8])
            for damaged in (original[:at] + byte + original[at + 1 :], original[:at]):
                path = laid({**sound, name: damaged}, folder)
                with pytest.raises(errors.OpError):
                    Checkpoint.open(path).verify()


def test_swapped_files_are_detected(sound, folder):
    first, second = sorted(name for name in sound if name.startswith("model-"))
    path = laid({**sound, first: sound[second], second: sound[first]}, folder)
    with pytest.raises(errors.DataLossError, match="bytes instead of"):
        Checkpoint.open(path)


def test_the_index_of_an_interrupted_save_is_no_damage(sound, folder):
    other = SHARD.replace(".safetensors", ".saved-1.safetensors")
    cut_off = json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": other}}).encode()
    files = {**sound, "model.safetensors.index.json": cut_off}
    assert right(read_all(laid({**files, other: b""}, folder)))
    with pytest.raises(errors.DataLossError, match=r"index\.json' is damaged"):
        Checkpoint.open(laid(files, folder))


@pytest.mark.parametrize("at", [0, 8168, BLOCK - 1, BLOCK, 2 * BLOCK + 4096, 2 * BLOCK + 50_000])
def test_a_wrong_byte_is_found_and_told_where(tmp_path, at):
    save(tmp_path / "c", {"w": np.zeros(2 * BLOCK + 50_001, np.uint8), "v": np.zeros(3)})
    file = tmp_path / "c" / "model-00001-of-00001.safetensors"
    checkpoint = Checkpoint.open(tmp_path / "c")
    offset = checkpoint.tensors["w"].pieces[0][1].offset
    data = bytearray(file.read_bytes())
    data[offset + at] ^= 16
    file.write_bytes(data)
    block = at - at % BLOCK
    for ask in ({}, {"start": [at], "shape": [1]}, {"start": [max(0, at - 2)]}):
        with pytest.raises(
            errors.DataLossError, match=rf"'w' is damaged: the checksum of \d+ bytes from {offset + block} on"
        ):
            checkpoint.read("w", **ask)
    with pytest.raises(errors.DataLossError, match=r"has damaged tensors: 'w'$"):
        checkpoint.verify()
    assert checkpoint.read("v").tolist() == [0, 0, 0]


def test_pages_that_changed_places_have_another_checksum():
    block = np.random.default_rng(3).integers(0, 256, BLOCK, np.uint8)
    (sound,) = checksums(block.data)
    pages = block.reshape(-1, 4096)
    for one, other in ((0, 1), (0, len(pages) - 1), (7, 500), (2, 514)):
        changed = pages.copy()
        changed[[one, other]] = pages[[other, one]]
        assert checksums(changed.reshape(-1).data) != [sound]


def test_few_bytes_have_the_checksum_that_everybody_knows():
    assert checksums(memoryview(b"123456789")) == [0xCBF43926]
    assert checksums(memoryview(b"")) == []
    assert checksums(memoryview(bytes(8168))) == [zlib.crc32(bytes(8168))]


# Manifests that somebody made


def forged(sound, change):
    """The files with another manifest, whose checksum is right."""
    told = json.loads(sound["manifest.json"])
    del told["checksum"]
    told = change(told) or told
    text = json.dumps(told, separators=(",", ":")).encode()[:-1]
    return sound | {"manifest.json": text + b',"checksum":%d}' % zlib.crc32(text)}


def _shard(**changes):
    return lambda told: told["shards"][0].update(changes)


def _entry(**changes):
    return lambda told: told["shards"][0]["entries"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda told: told.update(version=2), errors.UnimplementedError, "version 2, this aioflow reads version 1"),
        (lambda told: told.update(version=True), errors.UnimplementedError, "version True"),
        (lambda told: told.update(format="other"), errors.DataLossError, "not the manifest"),
        (lambda told: told.update(created="today"), errors.DataLossError, "'created'"),
        (lambda told: told.update(created=float("inf")), errors.DataLossError, "not JSON"),
        (lambda told: told.update(facts=[]), errors.DataLossError, "'facts'"),
        (lambda told: told.update(shards={}), errors.DataLossError, "'shards'"),
        (lambda told: told.update(shards=[]), errors.DataLossError, "each of its shards once"),
        (lambda told: told["shards"].__delitem__(0), errors.DataLossError, "2 of 2"),
        (lambda told: told["shards"].append(told["shards"][0]), errors.DataLossError, "1 of 2"),
        (lambda told: told.__delitem__("shards"), errors.DataLossError, "no field 'shards'"),
        (_shard(file="../x.safetensors"), errors.PermissionDeniedError, "'../x.safetensors', which is not"),
        (_shard(file="/etc/x.safetensors"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="a/x.safetensors"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="a\\x.safetensors"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="..safetensors"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="x.safetensors\n"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="manifest.json"), errors.PermissionDeniedError, "no other file is read"),
        (_shard(file="model-00002-of-00002.safetensors"), errors.DataLossError, "each of its shards once"),
        (_shard(file="none.safetensors"), errors.DataLossError, "has no file 'none.safetensors'"),
        (_shard(size=1 << 70), errors.DataLossError, "outside of"),
        (_shard(size=-1), errors.DataLossError, "outside of"),
        (_shard(size=True), errors.DataLossError, "'size'"),
        (_shard(entries=None), errors.DataLossError, "'entries'"),
        (_shard(entries=[7]), errors.DataLossError, "no field 'name'"),
        (_shard(number=5), errors.DataLossError, "6 of 2"),
        (_entry(dtype="resource"), errors.DataLossError, "unknown dtype"),
        (_entry(dtype="float16"), errors.DataLossError, "cannot be float16"),
        (_entry(shape=[4, 2]), errors.DataLossError, r"a piece \[4, 2\] at \[0, 0\]"),
        (_entry(shape=[2, 2]), errors.DataLossError, "cannot be"),
        (_entry(shape=[8]), errors.DataLossError, "cannot be"),
        (_entry(shape=[2.0, 4]), errors.DataLossError, "not a list of at most 64 numbers"),
        (_entry(shape=[-2, -4]), errors.DataLossError, "not a list"),
        (_entry(shape=[2, 4] + [1] * 63), errors.DataLossError, "not a list of at most 64"),
        (_entry(full_shape=[4, 4]), errors.DataLossError, "different dtypes or full shapes"),
        (_entry(full_shape=[1 << 40, 1 << 40]), errors.DataLossError, "cannot be"),
        (_entry(start=[1, 0]), errors.DataLossError, "do not make up"),
        (_entry(offset=8), errors.DataLossError, "do not fill"),
        (_entry(name="c", key="c"), errors.DataLossError, "different dtypes or full shapes"),
        (_entry(checksums=[1, 2]), errors.DataLossError, "not a list of at most 1"),
    ],
)  # fmt: skip
def test_what_a_manifest_says_is_believed_only_if_it_can_be(sound, folder, change, error, says):
    path = laid(forged(sound, copy.copy(change)), folder)
    with pytest.raises(error, match=says):
        Checkpoint.open(path)
    assert latest_checkpoint(folder) is None


def test_a_manifest_that_is_forged_and_fits_is_believed(sound, folder):
    assert right(read_all(laid(forged(sound, lambda told: told["facts"].update(step=2)), folder)))


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[" * 100_000, b'{"format":1,"format":2}', b"\xff", b"null", b'{"a":' + b"9" * 5000 + b"}"]
)
def test_a_manifest_that_is_no_json_is_refused(sound, folder, text):
    path = laid(sound | {"manifest.json": text}, folder)
    with pytest.raises(errors.DataLossError, match=r"manifest\.json"):
        Checkpoint.open(path)


def test_a_manifest_without_end_is_not_read(sound, folder):
    path = laid(sound, folder)
    os.truncate(path / "manifest.json", 1 << 29)
    with pytest.raises(errors.ResourceExhaustedError, match="the limit is"):
        Checkpoint.open(path)


def test_texts_whose_lengths_cannot_be_are_refused(sound, folder):
    def change(told):
        told["shards"][0]["entries"][1]["checksums"] = []

    files = forged(sound, change)
    offset = json.loads(files["manifest.json"])["shards"][0]["entries"][1]["offset"]
    shard = bytearray(files[SHARD])
    struct.pack_into("<Q", shard, offset, 1 << 60)
    with pytest.raises(errors.DataLossError, match="'b' has strings of"):
        Checkpoint.open(laid(files | {SHARD: bytes(shard)}, folder)).read("b")


def test_many_pieces_take_no_long_time(folder):
    def entry(number):
        return {
            "name": "w", "key": f"w{number}", "dtype": "int8", "full_shape": [1, 20_000], "start": [0, number],
            "shape": [1, 1], "offset": number, "size": 1, "checksums": [0],
        }  # fmt: skip

    def told(count):
        record = {
            "number": 0,
            "count": 1,
            "file": "x.safetensors",
            "size": count,
            "entries": [*map(entry, range(count))],
        }
        return {"format": "aioflow checkpoint", "version": 1, "created": 0.0, "facts": {}, "shards": [record]}

    for count in (2000, 20_000):
        manifest = told(count)
        with pytest.raises(errors.DataLossError, match=f"the {count} pieces of 'w' do not make up"):
            Checkpoint.open(laid(forged({"manifest.json": b'{"checksum":0}'}, lambda _, made=manifest: made), folder))


@pytest.mark.parametrize("name", [SHARD, "manifest.json"])
def test_links_are_not_followed_inside_a_checkpoint(sound, folder, tmp_path, name):
    path = laid(sound, folder)
    (tmp_path / "elsewhere").write_bytes(sound[name])
    (path / name).unlink()
    (path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.PermissionDeniedError, match="is a link"):
        Checkpoint.open(path)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(sound, folder):
    path = laid(sound, folder)
    (path / SHARD).unlink()
    os.mkfifo(path / SHARD)
    with pytest.raises(errors.FailedPreconditionError, match="is not a file"):
        Checkpoint.open(path)


def test_records_that_come_from_elsewhere_are_checked(sound):
    told = json.loads(sound["manifest.json"])["shards"][0]
    assert ShardRecord.from_json(told).to_json() == told
    for wrong in ({**told, "file": "../x.safetensors"}, {**told, "size": 1}, [], None):
        with pytest.raises((errors.DataLossError, errors.PermissionDeniedError)):
            ShardRecord.from_json(wrong)


# Headers of safetensors files


@given(data=st.data())
def test_damage_of_a_plain_file_is_refused_or_read(sound, folder, data):
    contents = bytearray(sound[SHARD])
    for _ in range(data.draw(st.integers(1, 4))):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    (folder / "x.safetensors").write_bytes(contents[: data.draw(st.integers(0, len(contents)))] + bytes(8))
    (folder / "y.safetensors").write_bytes(contents)
    for name in ("x.safetensors", "y.safetensors"):
        try:
            checkpoint = import_safetensors(folder / name)
        except (errors.DataLossError, errors.UnimplementedError):
            continue
        found = [checkpoint.read(tensor) for tensor in checkpoint.tensors]
        assert sum(array.nbytes for array in found) <= len(contents)


def plain(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _tensor(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": [*shape], "data_offsets": [*offsets]}


@pytest.mark.parametrize(
    ("contents", "error", "says"),
    [
        (b"", errors.DataLossError, "not a safetensors file"),
        (b"1234567", errors.DataLossError, "not a safetensors file"),
        (struct.pack("<Q", 1 << 63), errors.DataLossError, "no header of"),
        (struct.pack("<Q", 200_000_000), errors.DataLossError, "no header of"),
        (plain(b"{}")[:-1], errors.DataLossError, "no header of"),
        (plain(b"{", b""), errors.DataLossError, "is damaged"),
        (plain(b'{"a":{},"a":{}}'), errors.DataLossError, "twice"),
        (plain({"a": 1}), errors.DataLossError, "no field 'dtype'"),
        (plain({"a": _tensor()}), errors.DataLossError, "do not fill"),
        (plain({"a": _tensor()}, bytes(5)), errors.DataLossError, "do not fill"),
        (plain({"a": _tensor(offsets=(1, 5))}, bytes(5)), errors.DataLossError, "between its header"),
        (plain({"a": _tensor(), "b": _tensor()}, bytes(8)), errors.DataLossError, "do not fill"),
        (plain({"a": _tensor(), "b": _tensor(offsets=(8, 12))}, bytes(12)), errors.DataLossError, "do not fill"),
        (plain({"a": _tensor(offsets=(4, 0))}, bytes(4)), errors.DataLossError, "of -4 bytes"),
        (plain({"a": _tensor(offsets=(0, 4, 8))}, bytes(8)), errors.DataLossError, "cannot have the shape"),
        (plain({"a": _tensor(shape=(2,))}, bytes(4)), errors.DataLossError, r"cannot be float32\[2\] .* of 4 bytes"),
        (plain({"a": _tensor(shape=(True,))}, bytes(4)), errors.DataLossError, "cannot have the shape"),
        (plain({"a": _tensor(shape=(1 << 40, 1 << 40, 0), offsets=(0, 0))}), errors.DataLossError, "cannot be"),
        (plain({"a": _tensor(dtype="F4")}, bytes(4)), errors.UnimplementedError, "'F4'; known are"),
    ],
)
def test_a_file_that_is_no_safetensors_is_refused(tmp_path, contents, error, says):
    (tmp_path / "x.safetensors").write_bytes(contents)
    with pytest.raises(error, match=says):
        import_safetensors(tmp_path / "x.safetensors")
