"""Decoders: as TensorFlow's, and bytes that claim too much are refused before anything is allocated."""

import contextlib
import functools
import io
import json
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import aioflow as af
from aioflow import errors
from aioflow.files import message_wire
from aioflow.kernels.data import example_wire
from tests.support.evaluate import evaluate

TABLE = json.loads((Path(__file__).parents[2] / "data" / "input.json").read_text())
EXAMPLES, PICTURES = TABLE["examples"], TABLE["pictures"]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def text(*items):
    made = np.empty(len(items), object)
    made[:] = [item.encode("latin-1") if isinstance(item, str) else item for item in items]
    return made


def constant(data):
    made = np.empty((), object)
    made[()] = data.encode("latin-1") if isinstance(data, str) else data
    return af.constant(made)


def plain(value):
    """As the table has it: bytes as Latin letters, arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, af.SparseTensor):
        return {part: plain(getattr(value, part)) for part in ("indices", "values", "dense_shape")}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, af.Tensor):
        return plain(evaluate(value))
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def same(ours, theirs):
    """Equal, NaN with NaN too."""
    return json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def dtype_of(name):
    return {"int64": af.int64, "float32": af.float32, "string": af.string}.get(name, name)


def wanted(features):
    return {
        key: getattr(af, kind)(*[dtype_of(a) if isinstance(a, str) and a != "none" else a for a in arguments])
        for key, (kind, *arguments) in features.items()
    }


# CSV


@pytest.mark.parametrize("case", TABLE["csv"], ids=lambda case: repr((case["records"], case["options"])))
def test_csv_is_decoded_as_tensorflow_does(case):
    def decode():
        return af.decode_csv(text(*case["records"]), case["defaults"], **case["options"])

    if isinstance(case["result"], str):
        with pytest.raises(errors.InvalidArgumentError):
            evaluate(decode())
    else:
        assert same(plain(decode()), case["result"])


def test_csv_says_which_field_of_which_record():
    with pytest.raises(errors.InvalidArgumentError, match="field 1 of record 1 must be int32, not b'x'"):
        evaluate(af.decode_csv(text("1,2", "3,x"), [[0], [0]]))
    with pytest.raises(errors.InvalidArgumentError, match="field 0 of record 0 is empty, and has no default"):
        evaluate(af.decode_csv(text(",2"), [np.zeros(0, np.int32), [0]]))
    with pytest.raises(errors.InvalidArgumentError, match="record 1 has 3 fields, and 2 are expected"):
        evaluate(af.decode_csv(text("1,2", "1,2,3"), [[0], [0]]))


@pytest.mark.parametrize(
    ("defaults", "options", "says"),
    [
        ([], {}, "is empty"),
        ([[True]], {}, "column 0 is bool"),
        ([[1, 2]], {}, "at most one value"),
        ([[1]], {"field_delim": ";;"}, "one character"),
        ([[1]], {"select_cols": [0, 1]}, "names 2 columns"),
        ([[1], [1]], {"select_cols": [1, 0]}, "rising"),
    ],
)
def test_csv_of_wrong_columns_is_refused_when_it_is_built(defaults, options, says, graph):
    with pytest.raises((TypeError, ValueError), match=says):
        af.decode_csv(text("1"), defaults, **options)


@given(st.lists(st.text('a",\r\n ', max_size=6), min_size=1, max_size=4))
def test_csv_gives_back_what_was_quoted(fields):
    line = ",".join('"{}"'.format(field.replace('"', '""')) for field in fields)
    with af.Graph().as_default():
        found = af.decode_csv(text(line), [["none"]] * len(fields))
        assert [plain(column) for column in found] == [[field or "none"] for field in fields]


@given(st.binary(max_size=20), st.integers(1, 3))
def test_csv_of_any_bytes_is_decoded_or_refused(data, count):
    with af.Graph().as_default():
        try:
            evaluate(list(af.decode_csv(text(data), [["x"]] * count)))
        except errors.InvalidArgumentError as error:
            assert "record 0" in error.message  # noqa: PT017


# Examples


def test_examples_are_parsed_as_tensorflow_does():
    made = af.parse_example(text(*EXAMPLES["serialized"]), wanted(EXAMPLES["features"]))
    assert same(plain(made), EXAMPLES["batch"])


@pytest.mark.parametrize("number", range(4))
def test_single_examples_are_parsed_as_tensorflow_does(number):
    made = af.parse_single_example(constant(EXAMPLES["serialized"][number]), wanted(EXAMPLES["features"]))
    assert same(plain(made), EXAMPLES["single"][number])


@pytest.mark.parametrize(("features", "error"), EXAMPLES["wrong"], ids=repr)
def test_what_tensorflow_refuses_is_refused(features, error):
    made = af.parse_example(text(*EXAMPLES["serialized"]), wanted(features))
    with pytest.raises(getattr(errors, error), match=f"feature '{next(iter(features))}'|no feature"):
        plain(made)


def test_a_sequence_is_parsed_as_tensorflow_does():
    made = af.parse_single_sequence_example(
        constant(EXAMPLES["sequence"]), wanted(EXAMPLES["context_features"]), wanted(EXAMPLES["sequence_features"])
    )
    assert same(plain(list(made)), EXAMPLES["sequence_result"])


@pytest.mark.parametrize(("context", "steps", "expected"), EXAMPLES["sequences_results"])
def test_sequences_are_parsed_together_as_tensorflow_does(context, steps, expected):
    made = af.io.parse_sequence_example(text(*EXAMPLES["sequences"]), wanted(context), wanted(steps))
    if isinstance(expected, str):
        with pytest.raises(getattr(errors, expected), match=r"of example |example 2 has no feature 'i'"):
            plain(list(made))
    else:
        assert same(plain(list(made)), expected)


def test_sequences_together_are_each_of_them():
    context, steps, _ = EXAMPLES["sequences_results"][0]
    several = af.io.parse_sequence_example(text(*EXAMPLES["sequences"]), wanted(context), wanted(steps))
    for number, serialized in enumerate(EXAMPLES["sequences"]):
        single = af.io.parse_single_sequence_example(constant(serialized), wanted(context), wanted(steps))
        for key, length in several[2].items():
            count = evaluate(length)[number]
            assert plain(several[1][key])[number][:count] == plain(single[1][key])
        assert plain(several[0]["n"])[number] == plain(single[0]["n"])


def test_errors_call_a_sequence_by_its_name():
    features = {"i": af.FixedLenSequenceFeature([], af.int64)}
    several = af.io.parse_sequence_example(text(*EXAMPLES["sequences"]), None, features, text(*"abc"))
    single = af.io.parse_single_sequence_example(constant(EXAMPLES["sequences"][2]), None, features, "c")
    for made in (several[1], single[1]):
        with pytest.raises(errors.InvalidArgumentError, match="example 'c' has no feature 'i', which has no default"):
            plain(made)


def test_sequences_that_cannot_be_are_refused_when_built():
    one, several = constant(b""), text(b"", b"")
    feature = {"a": af.FixedLenSequenceFeature([], af.int64)}
    for wrong in (
        lambda: af.io.parse_sequence_example(one, None, feature),
        lambda: af.io.parse_single_sequence_example(several, None, feature),
        lambda: af.io.parse_sequence_example(several),
        lambda: af.io.parse_sequence_example(several, None, {"a": af.FixedLenFeature([], af.int64)}),
        lambda: af.io.parse_sequence_example(several, None, {"a": af.FixedLenSequenceFeature([None], af.int64)}),
        lambda: af.io.parse_sequence_example(several, None, {"a": af.FixedLenSequenceFeature([], af.int64, True, 1)}),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_json_is_parsed_as_tensorflow_does():
    decoded = af.decode_json_example(constant(EXAMPLES["json"]))
    features = {"i": af.FixedLenFeature([2], af.int64), "s": af.FixedLenFeature([], af.string)}
    assert same(plain(af.parse_single_example(decoded, features)), EXAMPLES["json_result"])


@pytest.mark.parametrize(
    "words",
    [
        "", "[]", "[" * 100_000, '{"features": 1}', '{"other": {}}',
        '{"features": {"feature": {"a": {"int64List": {"value": [1.5]}}}}}',
        '{"features": {"feature": {"a": {"int64List": {"value": [9223372036854775808]}}}}}',
        '{"features": {"feature": {"a": {"bytesList": {"value": ["*"]}}}}}',
        '{"features": {"feature": {"a": {"floatList": {"value": {}, "x": 1}}}}}',
    ],
)  # fmt: skip
def test_json_that_is_no_example_is_refused(words):
    with pytest.raises(errors.InvalidArgumentError, match="string 0 is not an example in JSON"):
        evaluate(af.decode_json_example(text(words)))


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40) | st.lists(st.binary(max_size=4), max_size=4),
        max_size=4,
    )
)
def test_what_an_example_is_made_of_is_parsed_again(features):
    kinds = {key: af.string if any(isinstance(v, bytes) for v in values) else None for key, values in features.items()}
    kinds = {key: kind or (af.int64 if features[key] else af.float32) for key, kind in kinds.items()}
    serialized = af.io.make_example(features)
    with af.Graph().as_default():
        if features:
            made = af.parse_single_example(constant(serialized), {k: af.VarLenFeature(d) for k, d in kinds.items()})
            for key, values in features.items():
                assert evaluate(made[key].values).tolist() == values


@given(st.data())
def test_a_damaged_example_is_parsed_or_refused(data):
    serialized = bytearray(EXAMPLES["serialized"][data.draw(st.integers(0, 3))].encode("latin-1"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(serialized) - 1))
        serialized[at] = data.draw(st.integers(0, 255))
    del serialized[data.draw(st.integers(0, 2 * len(serialized))) :]
    with af.Graph().as_default():
        try:
            plain(af.parse_single_example(constant(bytes(serialized)), wanted(EXAMPLES["features"])))
        except errors.InvalidArgumentError as error:
            assert "example 0" in error.message  # noqa: PT017
        except ValueError as error:  # an index of a sparse feature, which a session reports as InvalidArgumentError
            assert "out of range" in str(error)  # noqa: PT017


async def test_an_index_beyond_the_size_of_a_sparse_feature_is_refused():
    serialized = bytearray(EXAMPLES["serialized"][1].encode("latin-1"))
    serialized[72] = 10
    with af.Graph().as_default() as graph:
        parsed = af.parse_single_example(constant(bytes(serialized)), wanted(EXAMPLES["features"]))
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="index 10 is out of range for size 10"):
            await session.run(parsed)


@pytest.mark.parametrize(
    "data", [b"\x0a\xff\xff\xff\xff\x0f", b"\x0a" + b"\xff" * 11, b"\x0b", b"\x00\x00", b"\x0d\x00"]
)
def test_forged_messages_are_refused(data):
    with pytest.raises(errors.InvalidArgumentError, match="example 0 cannot be parsed"):
        plain(af.parse_single_example(constant(data), {"a": af.VarLenFeature(af.int64)}))


def test_a_message_of_many_parts_is_read_once(monkeypatch):
    read = []

    def counted(data, part):
        read.append(part[1] - part[0])
        return example_wire_fields(data, part)

    example_wire_fields = example_wire.fields
    for module in (message_wire, example_wire):
        monkeypatch.setattr(module, "fields", counted)
    parts = b"\x1a\x00" * 20_000
    entry = b"\x0a\x01a\x12" + varint(len(parts)) + parts
    features = b"\x0a" + varint(len(entry)) + entry
    whole = b"\x0a" + varint(len(features)) + features
    made = af.parse_single_example(constant(whole), {"a": af.VarLenFeature(af.int64)})
    assert evaluate(made["a"].values).tolist() == []
    assert sum(read) <= 4 * len(whole)  # once for each level of messages in one another
    assert len(read) <= len(parts)


def varint(value):
    made = []
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def test_errors_call_an_example_by_its_name():
    made = af.parse_example(
        text(*EXAMPLES["serialized"]), {"s": af.FixedLenFeature([], af.string)}, example_names=text(*"abcd")
    )
    with pytest.raises(errors.InvalidArgumentError, match="example 'b' has no feature 's'"):
        plain(made)


def test_features_that_cannot_be_are_refused_when_built():
    one = constant(b"")
    for features in (
        {},
        {"a": af.FixedLenFeature([], af.int32)},
        {"a": af.FixedLenFeature([None, 2, None], af.int64)},
        {"a": af.FixedLenFeature([2], af.int64, [1, 2, 3])},
        {"a": af.FixedLenSequenceFeature([], af.int64)},
        {"a": af.VarLenFeature(af.int64), "b": af.SparseFeature("b", "a", af.float32, 3)},
        {"a": "feature"},
    ):
        with pytest.raises((TypeError, ValueError)):
            af.parse_single_example(one, features)
    with pytest.raises(ValueError, match="parse_single_example"):
        af.parse_example(one, {"a": af.VarLenFeature(af.int64)})


# Arrays and compressed bytes


def npy(header, data=b"", version=(1, 0)):
    words = header.encode("latin-1")
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(words)) + words + data


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", ">i4", "int64", "float16", ">f8", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_are_decoded_whatever_their_order(dtype, shape):
    array = np.asfortranarray(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    file = io.BytesIO()
    np.save(file, array)
    found = evaluate(af.io.decode_npy(constant(file.getvalue()), np.dtype(dtype).newbyteorder("=").type))
    assert np.asarray(found).dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff", npy("{"), npy("__import__('os')"), npy("[" * 5000),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}", b"12345678"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", b"1234"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"12345"),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", b"1234"),
        npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", b"1234"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"1234", (3, 0)),
    ],
)  # fmt: skip
def test_what_is_no_array_of_the_dtype_is_refused(data):
    with pytest.raises(errors.InvalidArgumentError):
        evaluate(af.io.decode_npy(constant(data), af.float32))


def test_an_array_of_another_shape_is_refused():
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3), np.float32))
    assert af.io.decode_npy(constant(file.getvalue()), af.float32, [None, 3]).shape.as_list() == [None, 3]
    with pytest.raises(errors.InvalidArgumentError, match=r"shape \[2, 3\].*\[None, 4\]|shape \[2, 3\]"):
        evaluate(af.io.decode_npy(constant(file.getvalue()), af.float32, [None, 4]))


def test_compressed_bytes_are_decompressed_up_to_a_limit():
    assert plain(af.decode_compressed(text(zlib.compress(b"abc") + zlib.compress(b"d")), "ZLIB")) == ["abcd"]
    bomb = zlib.compress(bytes(100 << 20), 9)
    for data, limit in ((bomb, 1 << 30), (zlib.compress(b"abcd"), 3)):
        with pytest.raises(errors.ResourceExhaustedError):
            evaluate(af.decode_compressed(text(data), "ZLIB", limit))
    for data in (b"abc", zlib.compress(b"abcdef" * 100)[:-5]):
        with pytest.raises(errors.InvalidArgumentError):
            evaluate(af.decode_compressed(text(data), "ZLIB"))


# Pictures


def test_pngs_are_tensorflows():
    png, png16 = constant(PICTURES["png"]), constant(PICTURES["png16"])
    assert plain(af.image.decode_png(png)) == PICTURES["pixels"]
    assert plain(af.image.decode_png(png, dtype=af.uint16)) == PICTURES["as_uint16"]
    assert plain(af.image.decode_png(png, channels=4)) == PICTURES["with_alpha"]
    assert plain(af.image.decode_png(png16, dtype=af.uint16)) == PICTURES["grey"]
    assert plain(af.image.decode_png(png16)) == PICTURES["png16_as_uint8"]


def test_jpegs_are_nearly_tensorflows():
    found = evaluate(af.image.decode_jpeg(constant(PICTURES["jpeg"])))
    assert abs(found.astype(int) - np.array(PICTURES["jpeg_pixels"])).max() <= 8
    made = evaluate(af.image.decode_jpeg(af.image.encode_jpeg(np.array(PICTURES["smooth"], np.uint8))))
    assert abs(made.astype(int) - np.array(PICTURES["smooth"])).max() <= 24


@pytest.mark.parametrize("shape", [(4, 5, 1), (4, 5, 2), (4, 5, 3), (4, 5, 4)])
def test_a_png_loses_nothing(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    for compression in (-1, 0, 9):
        assert evaluate(af.image.decode_png(af.image.encode_png(pixels, compression))).tolist() == pixels.tolist()
    grey = np.random.default_rng(0).integers(0, 65536, (3, 2, 1), np.uint16)
    assert evaluate(af.image.decode_png(af.image.encode_png(grey), dtype=af.uint16)).tolist() == grey.tolist()


def saved(kind, *frames, **options):
    file = io.BytesIO()
    first, *rest = [Image.fromarray(frame) for frame in frames]
    first.save(file, kind, **(options | ({"save_all": True, "append_images": rest} if rest else {})))
    return file.getvalue()


def test_any_picture_is_decoded_and_a_gif_with_all_its_frames():
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:, 3:] = 255
    other = 255 - pixels
    for kind in ("PNG", "JPEG", "BMP"):
        found = evaluate(af.image.decode_image(constant(saved(kind, pixels)), channels=3, expand_animations=False))
        assert abs(found.astype(int) - pixels).max() < 40
    gif = constant(saved("GIF", pixels, other))
    assert evaluate(af.image.decode_gif(gif)).tolist() == [pixels.tolist(), other.tolist()]
    assert evaluate(af.image.decode_image(gif)).shape == (2, 4, 6, 3)
    still = af.image.decode_image(gif, dtype=af.float32, expand_animations=False)
    assert still.shape.as_list() == [None, None, None]
    assert evaluate(still).max() == 1.0


def test_a_jpeg_is_decoded_smaller_cropped_and_measured():
    pixels = np.tile(np.arange(64, dtype=np.uint8)[:, None, None], (1, 80, 3))
    jpeg = constant(saved("JPEG", pixels))
    assert evaluate(af.image.decode_jpeg(jpeg, ratio=4)).shape == (16, 20, 3)
    assert evaluate(af.image.decode_jpeg(jpeg, channels=1)).shape == (64, 80, 1)
    assert evaluate(af.image.decode_and_crop_jpeg(jpeg, [10, 20, 5, 6])).shape == (5, 6, 3)
    assert evaluate(af.image.extract_jpeg_shape(jpeg)).tolist() == [64, 80, 3]
    with pytest.raises(errors.InvalidArgumentError, match=r"\[60, 0, 5, 6\].*64 x 80"):
        evaluate(af.image.decode_and_crop_jpeg(jpeg, [60, 0, 5, 6]))


def png_of(width, height, data=b"", depth=8, colour=2, interlaced=False):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    colours = chunk(b"PLTE", bytes(48)) if colour == 3 else b""
    pixels = chunk(b"IDAT", data[: len(data) // 2]) + chunk(b"IDAT", data[len(data) // 2 :])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + colours + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (png_of(100_000, 100_000, zlib.compress(bytes(1 << 22), 9)), "header is forged"),
        (png_of(1 << 31, 1 << 31), "header is forged"),
        (png_of(10_000, 10_000, bytes(1 << 19)), "1 to 89000000"),
        (png_of(0, 5), "0 pixels"),
        (png_of(5, 5, b"rubbish"), "cannot be decoded"),
        (png_of(5, 5)[:20], "truncated"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (b"", "no picture"),
        (b"\xff\xd8\xff", "this is JPEG"),
    ],
)
def test_pngs_that_claim_too_much_are_refused_before_they_are_decoded(data, says):
    tracemalloc.start()
    with pytest.raises(errors.InvalidArgumentError, match=says):
        evaluate(af.image.decode_png(constant(data)))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def gif_of(screen, count, size=(1, 1), at=(0, 0)):
    """A GIF whose pictures all have one pixel of data."""
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + b"\xff" * 6
    return head + (b"\x2c" + struct.pack("<HHHHB", *at, *size, 0) + b"\x02\x02\x44\x01\x00") * count + b";"


@pytest.mark.parametrize("decode", [af.image.decode_gif, af.image.decode_image])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (gif_of((1000, 1000), 90), "90 pictures of 1000 x 1000 pixels, together more than 89000000"),
        (gif_of((1, 1), 100_000, (40, 30)), "100000 pictures of 30 x 40 pixels"),
        (gif_of((1, 1), 2, (50_000, 9), (0, 1000)), "2 pictures of 1009 x 50000 pixels"),
    ],
)
def test_a_gif_with_too_many_pixels_is_refused_before_it_is_decoded(decode, data, says):
    contents = constant(data)
    tracemalloc.start()
    with pytest.raises(errors.InvalidArgumentError, match=says):
        evaluate(decode(contents))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_pictures_of_a_gif_that_lie_beyond_its_screen_enlarge_it():
    assert evaluate(af.image.decode_gif(constant(gif_of((2, 2), 3, at=(3, 4))))).shape == (3, 5, 4, 3)


@pytest.mark.parametrize("size", [(1, 1), (2, 2)], ids=str)
def test_pictures_before_one_that_enlarges_the_screen_are_black_beyond_theirs(size):
    first = gif_of(size, 1)
    grown = first[:-1] + gif_of(size, 1, at=(4, 3))[19:]
    frames = evaluate(af.image.decode_gif(constant(grown)))
    assert frames.shape == (2, 4, 5, 3)
    width, height = size
    np.testing.assert_array_equal(frames[0, :height, :width], evaluate(af.image.decode_gif(constant(first)))[0])
    assert not frames[0, height:].any()
    assert not frames[0, :, width:].any()


def test_a_still_picture_of_a_gif_is_refused_by_its_own_size_not_by_that_of_the_screen():
    contents = constant(gif_of((1, 1), 1, (12_000, 12_000)))
    tracemalloc.start()
    with pytest.raises(errors.InvalidArgumentError, match="the GIF has 12000 x 12000 pixels"):
        evaluate(af.image.decode_image(contents, expand_animations=False))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_a_bmp_that_claims_too_much_is_refused_before_it_is_decoded():
    bmp = bytearray(saved("BMP", np.zeros((8, 8, 3), np.uint8)))
    struct.pack_into("<ii", bmp, 18, 9000, -9000)
    with pytest.raises(
        errors.InvalidArgumentError, match="cannot hold a BMP of 9000 x 9000 pixels: its header is forged"
    ):
        evaluate(af.image.decode_bmp(constant(bytes(bmp))))


@pytest.mark.parametrize("decode", ["png", "jpeg", "bmp", "gif", "image"])
async def test_pictures_beyond_the_memory_limit_are_not_decoded(decode, monkeypatch):
    opened = []
    monkeypatch.setattr(Image, "open", lambda *args, **kwargs: opened.append(args))
    pixels = np.zeros((300, 400, 3), np.uint8)
    data = saved("PNG" if decode == "image" else decode.upper(), pixels)
    with af.Graph().as_default() as graph:
        contents = af.placeholder(af.string, [])
        made = getattr(af.image, f"decode_{decode}")(contents)
    async with af.Session(graph=graph, config=af.Config(memory_limit={"CPU:0": 300_000})) as session:
        with pytest.raises(errors.ResourceExhaustedError, match="360,000 bytes"):
            await session.run(made, {contents: data})
    assert opened == []


def test_a_jpeg_that_claims_too_much_is_refused_before_it_is_decoded():
    jpeg = bytearray(saved("JPEG", np.zeros((8, 8, 3), np.uint8)))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 9000, 9000)
    with pytest.raises(
        errors.InvalidArgumentError, match="cannot hold a JPEG of 9000 x 9000 pixels: its header is forged"
    ):
        evaluate(af.image.decode_jpeg(constant(bytes(jpeg))))
    flat = saved("JPEG", np.zeros((2000, 3000), np.uint8), quality=1, progressive=True, optimize=True)
    assert evaluate(af.image.decode_jpeg(constant(flat))).shape == (2000, 3000, 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP"])
def test_a_damaged_picture_is_decoded_or_refused(kind):
    chance = np.random.default_rng(0)
    data = saved(kind, chance.integers(0, 256, (9, 7, 3), np.uint8))
    decode = getattr(af.image, f"decode_{kind.lower()}")
    given = af.placeholder(af.string, [])
    pixels = decode(given)
    for number in range(300):
        damaged = bytearray(data)
        damaged[chance.integers(len(data) if number % 2 else 40)] = chance.integers(256)
        if number % 3 == 0:
            del damaged[chance.integers(len(data)) :]
        value = np.empty((), object)
        value[()] = bytes(damaged)
        with contextlib.suppress(errors.InvalidArgumentError):
            assert evaluate(pixels, {given: value}).dtype == np.uint8


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "JPEG at a half", "GIF", "BMP", "npy"])
def test_what_is_cut_off_anywhere_is_refused(kind):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    file = io.BytesIO()
    np.save(file, pixels)
    data, decode = {
        "PNG": (saved("PNG", pixels), af.image.decode_png),
        "JPEG": (saved("JPEG", pixels), af.image.decode_jpeg),
        "JPEG at a half": (saved("JPEG", pixels, progressive=True), functools.partial(af.image.decode_jpeg, ratio=2)),
        "GIF": (saved("GIF", pixels, pixels[::-1]), af.image.decode_gif),
        "BMP": (saved("BMP", pixels[:, :4]), af.image.decode_bmp),  # rows are filled up to four bytes
        "npy": (file.getvalue(), functools.partial(af.io.decode_npy, dtype=af.uint8)),
    }[kind]
    given = af.placeholder(af.string, [])
    found = decode(given)
    assert evaluate(found, {given: data}).dtype == np.uint8
    for end in range(len(data)):
        with pytest.raises(errors.InvalidArgumentError):
            evaluate(found, {given: data[:end]})


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def bytes_of_pixels(height, width, bits, interlaced):
    count = 0
    for left, top, across, down in PASSES if interlaced else [(0, 0, 1, 1)]:
        columns, rows = len(range(left, width, across)), len(range(top, height, down))
        count += rows * (1 + (columns * bits + 7) // 8) if columns else 0
    return count


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(
    ("depth", "colour", "samples"), [(1, 0, 1), (8, 0, 1), (16, 0, 1), (8, 2, 3), (4, 3, 1), (8, 6, 4)]
)
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (9, 8), (70, 90)])
def test_a_png_with_too_few_pixels_is_refused(size, depth, colour, samples, interlaced):
    height, width = size
    count = bytes_of_pixels(height, width, depth * samples, interlaced)
    given = af.placeholder(af.string, [])
    found = af.image.decode_png(given)

    def made(number):
        packed = zlib.compress(bytes(number))
        return png_of(width, height, packed, depth, colour, interlaced)

    assert evaluate(found, {given: made(count)}).shape[:2] == size
    for number in {count - 1, count // 2, 0}:
        with pytest.raises(
            errors.InvalidArgumentError, match=f"holds {number} bytes of pixels, .* takes {count}|trunc"
        ):
            evaluate(found, {given: made(number)})


def test_a_large_png_whose_last_row_is_not_black_is_whole():
    height, width = 100, 90
    rows = [b"\0" + bytes([255]) * 3 * width] * height
    given = af.placeholder(af.string, [])
    found = af.image.decode_png(given)
    assert evaluate(found, {given: png_of(width, height, zlib.compress(b"".join(rows)))}).min() == 255
    for lost in (1, 3 * width + 1, 50 * width):
        with pytest.raises(errors.InvalidArgumentError, match=r"bytes of pixels|truncated"):
            evaluate(found, {given: png_of(width, height, zlib.compress(b"".join(rows)[:-lost]))})


def test_a_png_whose_pixels_disagree_with_their_checksum_is_refused():
    pixels = np.zeros((20, 20, 3), np.uint8)
    data = bytearray(saved("PNG", pixels, compress_level=0))
    data[data.index(b"IDAT") + 100] ^= 1
    with pytest.raises(errors.InvalidArgumentError, match=r"chunk of \d+ bytes at byte 33 disagrees with its checksum"):
        evaluate(af.image.decode_png(constant(bytes(data))))


@pytest.mark.real
async def test_bytes_that_are_too_few_name_the_operation_and_its_line(graph):
    given = af.placeholder(af.string, [])
    one = af.expand_dims(given, 0)
    decoded = {
        "png": (af.image.decode_png(given, name="png"), png_of(9, 9, zlib.compress(b"few"))),
        "jpeg": (af.image.decode_jpeg(given, name="jpeg"), saved("JPEG", np.zeros((9, 9, 3), np.uint8))[:-9]),
        "npy": (
            af.io.decode_npy(given, af.float32, name="npy"),
            npy("{'descr': '<f4', 'shape': (2,), 'fortran_order': 0}", b"1234"),
        ),
        "raw": (af.decode_raw(given, af.float32, name="raw"), b"12345"),
        "csv": (af.decode_csv(one, [[0], [0]], name="csv")[0], b'1,"2'),
        "columns": (af.decode_csv(one, [[0], [0]], name="columns")[0], b"1"),
    }
    async with af.Session(graph=graph) as session:
        for name, (fetch, data) in decoded.items():
            with pytest.raises(errors.InvalidArgumentError) as raised:
                await session.run(fetch, {given: data})
            assert raised.value.op == name
            assert "test_decoding.py" in raised.value.line


def test_without_pillow_a_picture_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[image\]"):
        evaluate(af.image.decode_png(constant(PICTURES["png"])))


def test_pictures_that_cannot_be_are_refused_when_built():
    pixels = np.zeros((2, 2, 3), np.uint8)
    for wrong in (
        lambda: af.image.decode_png(text("a", "b")),
        lambda: af.image.decode_png(constant(b""), channels=5),
        lambda: af.image.decode_png(constant(b""), dtype=af.float32),
        lambda: af.image.decode_jpeg(constant(b""), channels=4),
        lambda: af.image.decode_jpeg(constant(b""), ratio=3),
        lambda: af.image.encode_png(pixels.astype(np.float32)),
        lambda: af.image.encode_png(pixels.astype(np.uint16)),
        lambda: af.image.encode_png(pixels, 11),
        lambda: af.image.encode_jpeg(pixels[..., :2]),
        lambda: af.image.encode_jpeg(pixels, quality=101),
        lambda: af.image.encode_jpeg(pixels, format="grayscale"),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


# Required features, and positions with values


def features_of(**features):
    return af.io.make_example(features)


PARSERS = {
    "one": lambda examples, features: af.parse_single_example(examples[-1], features),
    "many": lambda examples, features: af.parse_example(list(examples), features),
    "context of one": lambda examples, features: af.parse_single_sequence_example(examples[-1], features)[0],
    "contexts of many": lambda examples, features: af.io.parse_sequence_example(list(examples), features)[0],
}
GOOD = {"x": [1.0, 2.0], "i": [0, 3], "j": [1, 1], "v": [5.0, 6.0]}
SPARSE = {"s": af.SparseFeature("i", "v", af.float32, 4)}
CUBE = {"s": af.SparseFeature(["i", "j"], "v", af.float32, [4, 4])}
BROKEN = {
    "missing": ({"x": af.FixedLenFeature([2], af.float32)}, {"x": None}, "has no feature 'x', which has no default"),
    "missing text": ({"t": af.FixedLenFeature([], af.string)}, {}, "has no feature 't', which has no default"),
    "missing and empty": ({"e": af.FixedLenFeature([0], af.int64)}, {}, "has no feature 'e', which has no default"),
    "too few": ({"x": af.FixedLenFeature([2], af.float32)}, {"x": [1.0]}, "has 1 values, which do not fill shape"),
    "wrong dtype": ({"x": af.FixedLenFeature([2], af.float32)}, {"x": [1, 2]}, "holds integers, but must be float32"),
    "no positions": (SPARSE, {"i": None}, "features 'i' and 'v' of example . have 0 positions and 2 values"),
    "no values": (SPARSE, {"v": None}, "features 'i' and 'v' of example . have 2 positions and 0 values"),
    "more positions": (SPARSE, {"i": [0, 1, 2]}, "features 'i' and 'v' of example . have 3 positions and 2 values"),
    "fewer on one axis": (CUBE, {"j": [1]}, "features 'j' and 'v' of example . have 1 positions and 2 values"),
    "position beyond": (SPARSE, {"i": [0, 4]}, "index 4 is out of range for size 4"),
    "position below": (SPARSE, {"i": [-1, 3]}, "index -1 is out of range for size 4"),
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("damage", BROKEN)
def test_an_example_without_a_required_feature_is_refused_and_named(parser, damage):
    features, changes, text = BROKEN[damage]
    bad = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    made = PARSERS[parser]([features_of(**GOOD, t="", e=np.zeros(0, np.int64)), features_of(**bad)], features)
    outputs = [[each.indices, each.values] if isinstance(each, af.SparseTensor) else each for each in made.values()]
    with pytest.raises((ValueError, af.errors.InvalidArgumentError), match=text):
        evaluate(af.nest.flatten(outputs))


def test_positions_of_one_example_are_not_paired_with_values_of_another():
    """Equally many positions and values in all examples together, but not in each example."""
    examples = [features_of(i=[0, 1], v=[1.0]), features_of(i=[0], v=[1.0, 2.0])]
    made = af.parse_example(examples, SPARSE)["s"]
    with pytest.raises(af.errors.InvalidArgumentError, match="of example 0 have 2 positions and 1 values"):
        evaluate(made.values)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_fixed_length_that_is_open_is_refused_when_built(parser):
    with pytest.raises(ValueError, match=r"shape .* of a FixedLenFeature must be known; for any number"):
        PARSERS[parser]([features_of(**GOOD)], {"x": af.FixedLenFeature([None], af.float32)})


def test_strings_of_any_length_are_decoded_at_a_fixed_length():
    numbers = af.decode_raw(text("abcd", "a"), af.uint16, fixed_length=2)
    assert numbers.shape == [2, 1]
    assert evaluate(numbers).tolist() == [[0x6261], [0x61]]
    assert evaluate(af.decode_raw(text(), af.uint8, fixed_length=3)).shape == (0, 3)
    with pytest.raises(ValueError, match="fixed_length 3 is not a whole number of elements of 2 bytes"):
        af.decode_raw(text("ab"), af.uint16, fixed_length=3)


def test_a_feature_in_json_without_a_kind_counts_as_missing():
    example = af.decode_json_example('{"features": {"feature": {"a": {}, "b": {"int64List": {"value": [2]}}}}}')
    kinds = {name: af.FixedLenFeature([], af.int64, 7) for name in "ab"}
    found = af.parse_single_example(example, kinds)
    assert evaluate([found["a"], found["b"]]) == [7, 2]
