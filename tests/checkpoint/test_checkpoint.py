"""Checkpoints: what was written is read, whole and in slices, by this reader and by another."""

import json
import math
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from aioflow import errors
from aioflow.checkpoint import Checkpoint, Draft, Piece, ShardRecord, differences
from aioflow.checkpoint.records import BLOCK
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import as_dtype

VALUES = {
    dtype.name: np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.np)
    for dtype in sorted(dtypes.ANY - dtypes.STRING, key=lambda dtype: dtype.name)
} | {
    "float8_e8m0fnu": np.array([1, 2]).astype(dtypes.float8_e8m0fnu.np),
    "texts": np.array([b"a", b"", "é".encode(), b"\0" * 9], object).reshape(2, 2),
    "text": np.array(b"alone", object),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 3), np.int8),
    "hollow": np.zeros((2, 0), object),
    "a/b:c [0]": np.arange(3.0),
    "large": np.random.default_rng(7).integers(0, 256, 2 * BLOCK + 1001, np.uint8),
    "../x": np.int64(1),
    "ümlaut \u2028": np.arange(4, dtype=np.uint16),
}


def save(path, *shards, token="t", facts=(), created=None):
    """A checkpoint of these shards, each by a Draft of its own, as by another process; records pass through JSON."""
    records = []
    for number, pieces in enumerate(shards):
        record = Draft(path, token).write_shard(number, len(shards), pieces)
        records.append(ShardRecord.from_json(json.loads(json.dumps(record.to_json()))))
    return Draft(path, token).commit(reversed(records), dict(facts), created)


@pytest.fixture
def path(tmp_path):
    return f"{tmp_path}/deep/model.ckpt-7"


def equal(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()


def test_what_was_saved_is_read(path):
    assert save(path, VALUES, facts={"global_step": 7, "of": ["a", None]}) == path
    checkpoint = Checkpoint.open(path)
    assert checkpoint.tensors.keys() == VALUES.keys()
    for name, value in VALUES.items():
        stored = checkpoint.tensors[name]
        assert (stored.dtype, stored.shape) == (as_dtype(np.asarray(value).dtype), value.shape)
        assert equal(checkpoint.read(name), np.asarray(value)), name
    assert checkpoint.facts == {"global_step": 7, "of": ["a", None]}
    checkpoint.verify()


def test_a_checkpoint_is_safetensors_files_an_index_and_a_manifest(path):
    save(path, {"a": np.zeros(2)}, {"b": np.ones(3), "c": np.ones(4)})
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert sorted(os.listdir(path)) == ["manifest.json", *files, "model.safetensors.index.json"]
    with open(f"{path}/model.safetensors.index.json") as file:
        index = json.load(file)
    assert index["weight_map"] == {"a": files[0], "b": files[1], "c": files[1]}
    assert index["metadata"] == {"total_size": 72}
    assert os.listdir(os.path.dirname(path)) == ["model.ckpt-7"]


def test_another_reader_of_safetensors_reads_it(path):
    save(path, VALUES)
    seen = {}
    with safe_open(f"{path}/model-00001-of-00001.safetensors", "np") as file:
        keys = set(file.keys())
        for name in keys:
            if not name.startswith("float8"):  # which it does not give to NumPy
                seen[name] = file.get_tensor(name)
        assert keys == VALUES.keys()
    for narrow in dtypes.NARROW:
        assert seen.pop(narrow.name, VALUES[narrow.name]).tobytes() == VALUES[narrow.name].tobytes()
    assert seen.pop("complex128").view(np.complex128)[..., 0].tolist() == VALUES["complex128"].tolist()
    assert seen.pop("texts")[:32].view("<u8").tolist() == [1, 0, 2, 9]
    assert seen.pop("text").tobytes()[8:] == b"alone"
    assert seen.pop("hollow").size == 0
    assert all(equal(value, np.asarray(VALUES[name])) for name, value in seen.items())


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, object])
def test_arrays_that_are_not_contiguous_are_saved_as_they_look(path, dtype):
    whole = np.arange(60).astype(dtype).reshape(3, 4, 5) if dtype is not object else _texts(60).reshape(3, 4, 5)
    arrays = {
        "transposed": whole.T,
        "strided": whole[::2, 1:, ::-2],
        "column": whole[:, :, 1],
        "fortran": whole.copy("F"),
    }
    save(path, arrays)
    assert all(equal(Checkpoint.open(path).read(name), array) for name, array in arrays.items())


def _texts(count):
    texts = np.empty(count, object)
    texts[:] = [b"%d" % number for number in range(count)]
    return texts


def test_numbers_of_the_other_byte_order_are_saved_as_numbers(path):
    save(path, {"a": np.arange(3, dtype=">i4")})
    assert Checkpoint.open(path).read("a").tolist() == [0, 1, 2]


# Pieces and slices


@st.composite
def partitions(draw):
    """A shape, and boxes that fill it: cut at random along random axes."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    boxes = [((0,) * len(shape), shape)]
    for _ in range(draw(st.integers(0, 4))):
        start, size = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        at = draw(st.integers(0, size[axis]))
        for begin, count in ((0, at), (at, size[axis] - at)):
            boxes.append((
                tuple(a + begin * (i == axis) for i, a in enumerate(start)),
                tuple(count if i == axis else n for i, n in enumerate(size)),
            ))  # fmt: skip
    return shape, [box for box in boxes if math.prod(box[1])]


@given(data=st.data())
def test_any_slice_is_joined_from_any_pieces(tmp_path_factory, data):
    shape, boxes = data.draw(partitions())
    whole = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    path = f"{tmp_path_factory.mktemp('pieces')}/c"
    shards = [{"w": Piece(whole[tuple(map(_slice, *box))], shape, box[0])} for box in boxes]
    save(path, *shards)
    checkpoint = Checkpoint.open(path)
    assert equal(checkpoint.read("w"), whole)
    start = [data.draw(st.integers(0, size)) for size in shape]
    sizes = [data.draw(st.integers(0, size - begin)) for begin, size in zip(start, shape, strict=True)]
    wanted = whole[tuple(map(_slice, start, sizes))]
    assert equal(checkpoint.read("w", start, sizes), wanted)
    out = np.full((*sizes, 2), -1, np.int32)[..., 0]  # not contiguous
    assert checkpoint.read("w", start, sizes, out) is out
    assert equal(out, wanted)


def _slice(start, size):
    return slice(start, start + size)


def test_large_tensors_are_sliced_across_their_blocks(path):
    whole = np.arange(3 * BLOCK // 8, dtype=np.int64).reshape(3, -1)
    save(
        path, {"w": Piece(whole[:, :1000], whole.shape, (0, 0))}, {"w": Piece(whole[:, 1000:], whole.shape, (0, 1000))}
    )
    checkpoint = Checkpoint.open(path)
    assert np.array_equal(checkpoint.read("w"), whole)
    for start, shape in (((1, 999), (1, 2)), ((0, 5000), (3, 70_000)), ((2, 0), (1, whole.shape[1]))):
        assert np.array_equal(checkpoint.read("w", start, shape), whole[tuple(map(_slice, start, shape))])


def test_many_threads_read_at_once(path):
    whole = np.arange(3 * BLOCK // 8, dtype=np.int64)
    save(path, {"w": whole})
    checkpoint = Checkpoint.open(path)
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(checkpoint.read, ["w"] * 8):
            assert np.array_equal(found, whole)


def test_texts_are_sliced(path):
    save(path, {"w": _texts(12).reshape(3, 4)})
    found = Checkpoint.open(path).read("w", (1, 1), (2, 2))
    assert found.tolist() == [[b"5", b"6"], [b"9", b"10"]]
    out = np.empty((2, 2), object)
    assert Checkpoint.open(path).read("w", (0, 0), (2, 2), out) is out
    assert out.tolist() == [[b"0", b"1"], [b"4", b"5"]]


def test_what_is_read_is_read_straight_into_its_place(path):
    state = {f"w{number}": np.ones(4 << 20, np.uint8) for number in range(4)}
    save(path, state)
    checkpoint = Checkpoint.open(path)
    out = {name: np.zeros_like(value) for name, value in state.items()}
    tracemalloc.start()
    try:
        for name, value in out.items():
            checkpoint.read(name, out=value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert all(value.all() for value in out.values())


def test_what_is_saved_is_not_copied(path):
    state = {f"w{number}": np.ones(4 << 20, np.uint8) for number in range(4)}
    tracemalloc.start()
    try:
        save(path, state)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        ({"name": "none"}, errors.NotFoundError, "has no tensor 'none'"),
        ({"name": "w", "start": (0,)}, errors.InvalidArgumentError, "not within"),
        ({"name": "w", "start": (2, 0), "shape": (2, 1)}, errors.InvalidArgumentError, r"\[2, 1\] at \[2, 0\]"),
        ({"name": "w", "start": (-1, 0)}, errors.InvalidArgumentError, "not within"),
        ({"name": "w", "out": np.zeros((3, 4))}, errors.InvalidArgumentError, r"cannot be read into float64"),
        ({"name": "w", "out": np.zeros((4, 3), np.float32)}, errors.InvalidArgumentError, r"into float32\[4, 3\]"),
    ],
)
def test_what_cannot_be_read_is_refused(path, ask, error, says):
    save(path, {"w": np.zeros((3, 4), np.float32)})
    with pytest.raises(error, match=says):
        Checkpoint.open(path).read(**ask)


def test_what_cannot_be_written_into_is_refused(path):
    save(path, {"w": np.zeros(3)})
    out = np.zeros(3)
    out.flags.writeable = False
    with pytest.raises(errors.InvalidArgumentError, match="read-only"):
        Checkpoint.open(path).read("w", out=out)


def test_differences_are_told_each(path):
    save(path, {"a": np.zeros((2, 3), np.float32), "b": np.int8(1), "more": np.int8(1)})
    there = Checkpoint.open(path)
    wanted = {"a": (dtypes.float32, (2, 4)), "b": (dtypes.int16, ()), "c": (dtypes.int8, ())}
    assert differences(there, wanted) == [
        "'a' has the shape [2, 3] in the checkpoint, [2, 4] is expected",
        "'b' is int8 in the checkpoint, int16 is expected",
        "'c' is missing",
        "'more' is in the checkpoint, but no variable uses it",
    ]
    open_sizes = {"a": (dtypes.float32, (None, 3)), "b": (dtypes.int8, None), "more": (dtypes.int8, ())}
    assert differences(there, open_sizes) == []


# Drafts


def test_a_checkpoint_replaces_one_of_the_same_name(path):
    save(path, {"a": np.zeros(2)}, {"b": np.zeros(3)}, token="one")
    old = Checkpoint.open(path)
    save(path, {"a": np.ones(2)}, token="two")
    assert Checkpoint.open(path).read("a").tolist() == [1, 1]
    assert Checkpoint.open(path).tensors.keys() == {"a"}
    assert sorted(os.listdir(path)) == [
        "manifest.json", "model-00001-of-00001.saved-two.safetensors", "model.safetensors.index.json"
    ]  # fmt: skip
    with pytest.raises(errors.DataLossError, match="replaced or deleted"):
        old.read("a")
    save(path, {"a": np.full(2, 3.0)}, token="three")
    assert Checkpoint.open(path).read("a").tolist() == [3, 3]


def test_a_draft_is_seen_by_nobody_and_leaves_nothing_when_it_is_discarded(path):
    save(path, {"a": np.zeros(2)}, token="one")
    draft = Draft(path, "two")
    draft.write_shard(0, 2, {"a": np.ones(2)})
    assert Checkpoint.open(path).read("a").tolist() == [0, 0]
    draft.discard()
    draft.discard()
    assert os.listdir(os.path.dirname(path)) == ["model.ckpt-7"]
    assert Checkpoint.open(path).read("a").tolist() == [0, 0]


def test_discarding_what_was_committed_changes_nothing(path):
    for token in ("one", "two"):
        save(path, {"a": np.zeros(2)}, token=token)
        Draft(path, token).discard()
        Checkpoint.open(path).verify()


@pytest.mark.parametrize(
    ("shards", "says"),
    [
        ([], "it has none"),
        ([(0, 2, {"a": 1})], "1 of 2"),
        ([(0, 2, {"a": 1}), (0, 2, {"a": 1})], "1 of 2, 1 of 2"),
        ([(0, 2, {"a": 1}), (1, 3, {"b": 1})], "2 of 3"),
        ([(0, 2, {"a": np.ones(2)}), (1, 2, {"a": np.ones(2)})], "the 2 pieces of 'a' do not make up"),
        ([(0, 1, {"a": Piece(np.ones(2), (3,), (0,))})], "do not make up"),
        (
            [(0, 2, {"a": Piece(np.ones(2), (3,), (0,))}), (1, 2, {"a": Piece(np.ones(1), (3,), (1,))})],
            "do not make up",
        ),
        (
            [(0, 2, {"a": Piece(np.ones(2), (3,), (0,))}), (1, 2, {"a": Piece(np.ones(1, "i"), (3,), (2,))})],
            "different",
        ),
        (
            [(0, 2, {"a": Piece(_texts(2), (3,), (0,))}), (1, 2, {"a": Piece(_texts(1), (3,), (2,))})],
            "in one piece",
        ),
    ],
)
def test_shards_that_make_no_whole_are_not_committed(path, shards, says):
    draft = Draft(path, "t")
    records = [draft.write_shard(*shard) for shard in shards]
    with pytest.raises(errors.DataLossError, match=says):
        draft.commit(records, {})
    assert not os.path.exists(path)


def test_a_shard_that_is_not_what_its_record_says_is_not_committed(path):
    draft = Draft(path, "t")
    record = draft.write_shard(0, 1, {"a": np.ones(2)})
    draft.write_shard(0, 1, {"b": np.ones(2)})
    with pytest.raises(errors.DataLossError, match="differs from its record"):
        draft.commit([record], {})
    draft.discard()
    with pytest.raises(errors.NotFoundError, match="model-00001"):
        draft.commit([record], {})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ({"a": np.array([object()])}, "'a' cannot be saved: it holds objects that are not strings"),
        ({"a": np.zeros(1, "datetime64[s]")}, "a checkpoint has no datetime64"),
        ({"__metadata__": np.zeros(1)}, "two tensors named '__metadata__'"),
        ({"a[0:1]": np.zeros(1), "a": Piece(np.zeros(1), (2,), (0,))}, r"two tensors named 'a\[0:1\]'"),
        ({"a": Piece(np.zeros(2), (2,), (1,))}, r"a piece \[2\] of 'a' at \[1\] is not within \[2\]"),
        ({"a": Piece(np.zeros(2), (2, 2), (0, 0))}, "is not within"),
        ({"a": Piece(np.zeros(2), (2,), (-1,))}, "is not within"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_leaves_nothing(tmp_path, pieces, says):
    with pytest.raises(errors.InvalidArgumentError, match=says):
        Draft(tmp_path / "c", "t").write_shard(0, 1, pieces)
    assert os.listdir(tmp_path) == []


def test_names_that_would_collide_across_shards_are_refused(path):
    draft = Draft(path, "t")
    halves = [Piece(np.zeros(1), (2,), (start,)) for start in (0, 1)]
    records = [draft.write_shard(0, 2, {"a": halves[0]}), draft.write_shard(1, 2, {"a": halves[1], "a[0:1]": 1})]
    with pytest.raises(errors.InvalidArgumentError, match="two tensors named"):
        draft.commit(records, {})


@pytest.mark.parametrize("token", ["", "a/b", "..", "a b", "x" * 65])
def test_a_token_is_a_plain_word(path, token):
    with pytest.raises(errors.InvalidArgumentError, match="token"):
        Draft(path, token)


@pytest.mark.parametrize(("number", "count"), [(-1, 1), (1, 1), (0, 0)])
def test_shards_count_from_nought(path, number, count):
    with pytest.raises(errors.InvalidArgumentError, match="start at 0"):
        Draft(path, "t").write_shard(number, count, {})


@pytest.mark.parametrize("facts", [{"a": object()}, {"a": math.nan}, {"a": b"raw"}])
def test_facts_are_what_json_holds(path, facts):
    with pytest.raises(errors.InvalidArgumentError, match="JSON"):
        save(path, {"a": 1}, facts=facts)
    assert not os.path.exists(path)


def test_a_checkpoint_takes_the_place_of_nothing_else(tmp_path):
    for names in (["config.json"], ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]):
        theirs = tmp_path / names[0]
        theirs.mkdir()
        for name in names:
            (theirs / name).write_text("theirs")
        with pytest.raises(errors.AlreadyExistsError, match="is not a checkpoint: save to another path"):
            save(theirs, {"a": 1})
        Draft(theirs, "t").discard()
        assert sorted(os.listdir(theirs)) == names
    (tmp_path / "empty").mkdir()
    save(tmp_path / "empty", {"a": 1})


def test_a_checkpoint_takes_no_files_place(tmp_path):
    (tmp_path / "c").write_text("mine")
    with pytest.raises(errors.AlreadyExistsError, match="not a folder"):
        save(tmp_path / "c", {"a": 1})
    assert (tmp_path / "c").read_text() == "mine"
