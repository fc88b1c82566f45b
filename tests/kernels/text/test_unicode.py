"""Code points, characters and encodings: as TensorFlow 2.21 has them."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

TEXTS = [
    "aé".encode(), b"", b"\xf0\x9f\x98\x80b", b"\xffa\xe2\x82", b"a\x00\x01\x85b", b"\xed\xa0\x80x", b"\xc0\x80",
    b"\xf5\x80\x80\x80", b"\xe2\x28\xa1",
]  # fmt: skip
BAD = 65533
POINTS = [
    [97, 233], [], [128512, 98], [BAD, 97, BAD], [97, 0, 1, BAD, 98], [BAD, BAD, BAD, 120], [BAD, BAD],
    [BAD, BAD, BAD, BAD], [BAD, 40, BAD],
]  # fmt: skip


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default():
        yield


def texts(items):
    return af.constant(np.array(items, object))


def rows(sparse):
    """The rows of a sparse matrix as lists."""
    indices, values, sizes = (evaluate(part) for part in (sparse.indices, sparse.values, sparse.dense_shape))
    made = [[] for _ in range(sizes[0])]
    for (row, column), value in zip(indices.tolist(), values.tolist(), strict=True):
        assert column == len(made[row])
        made[row].append(value)
    return made


def test_strings_have_the_code_points_that_tensorflow_finds():
    points, starts = af.strings.unicode_decode_with_offsets(texts(TEXTS), "UTF-8")
    assert rows(points) == POINTS
    assert rows(starts) == [
        [0, 1],
        [],
        [0, 4],
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3],
        [0, 1],
        [0, 1, 2, 3],
        [0, 1, 2],
    ]
    found, starts = af.strings.unicode_decode_with_offsets(texts(TEXTS), "UTF-8", errors="ignore")
    assert rows(found) == [[97, 233], [], [128512, 98], [97], [97, 0, 1, 98], [120], [], [], [40]]
    assert rows(starts) == [[0, 1], [], [0, 4], [1], [0, 1, 2, 4], [3], [], [], [1]]
    marked = af.strings.unicode_decode(texts(TEXTS[3:5]), "UTF-8", "replace", 33, True)
    assert rows(marked) == [[33, 97, 33], [97, 33, 33, 33, 98]]
    with pytest.raises(af.errors.InvalidArgumentError, match=r"byte 0 of .* is not text in UTF-8"):
        evaluate(af.strings.unicode_decode(texts(TEXTS), "UTF-8", errors="strict").values)


def test_other_encodings_are_read():
    for data, encoding, expected in (
        (b"\x00a\xd8\x3d\xde\x00\x00", "UTF-16-BE", [97, 128512, BAD]),
        (b"\x00\x00\x00a\x00\x11\x00\x00", "UTF-32-BE", [97, BAD]),
        (b"\xe9\x80", "ISO-8859-1", [233, 128]),
        (b"\xe9", "US-ASCII", [BAD]),
        (b"\x83\x65", "SHIFT-JIS", [12486]),
    ):
        assert rows(af.strings.unicode_decode(texts([data]), encoding)) == [expected]


def test_characters_go_back_to_the_text():
    letters, starts = af.strings.unicode_split_with_offsets(texts(TEXTS[:3]), "UTF-8")
    assert rows(letters) == [[b"a", b"\xc3\xa9"], [], [b"\xf0\x9f\x98\x80", b"b"]]
    assert rows(starts) == [[0, 1], [], [0, 4]]
    points = af.strings.unicode_decode(texts(TEXTS[:3]), "UTF-8")
    assert evaluate(af.strings.unicode_encode(points, "UTF-8")).tolist() == TEXTS[:3]
    wide = af.strings.unicode_encode([[97, 233], [128512, 98]], "UTF-16-BE")
    assert evaluate(wide).tolist() == [b"\x00a\x00\xe9", b"\xd8=\xde\x00\x00b"]
    assert evaluate(af.strings.unicode_encode([97, 0xD800, -1], "UTF-8")).item() == b"a" + 2 * b"\xef\xbf\xbd"
    assert evaluate(af.strings.unicode_encode([97, 0xD800], "UTF-8", "ignore")).item() == b"a"
    assert evaluate(af.strings.unicode_encode(np.zeros((2, 0), np.int32), "UTF-8")).tolist() == [b"", b""]
    with pytest.raises(af.errors.InvalidArgumentError, match="55296 is not a Unicode character"):
        evaluate(af.strings.unicode_encode([0xD800], "UTF-8", "strict"))


def test_text_is_transcoded():
    for encoding, errors, expected in (
        ("UTF-16-BE", "replace", [b"\xff\xfd\x00a\xff\xfd", b"\x00a\x00\x00\x00\x01\xff\xfd\x00b"]),
        ("UTF-8", "ignore", [b"a", b"a\x00\x01b"]),
    ):
        made = af.strings.unicode_transcode(texts(TEXTS[3:5]), "UTF-8", encoding, errors)
        assert evaluate(made).tolist() == expected


def test_neighbours_are_joined_as_tensorflow_joins_them():
    letters = texts(["a", "b", "c"])
    for width, options, expected in (
        (2, {}, [b"a b", b"b c"]),
        ([1, 2], {"separator": "|"}, [b"a", b"b", b"c", b"a|b", b"b|c"]),
        (3, {"pad_values": ("L", "R")}, [b"L L a", b"L a b", b"a b c", b"b c R", b"c R R"]),
        (3, {"pad_values": "P", "padding_width": 1}, [b"P a b", b"a b c", b"b c P"]),
        (3, {"pad_values": "P", "padding_width": 5}, [b"P P a", b"P a b", b"a b c", b"b c P", b"c P P"]),
        (4, {}, []),
        ([4, 5], {"preserve_short_sequences": True}, [b"a b c"]),
    ):
        made = af.strings.ngrams(letters, width, **options)
        assert made.shape.as_list() == [len(expected)]
        assert evaluate(made).tolist() == expected
    grid = af.strings.ngrams(texts([["a", "b"], ["c", "d"]]), 2)
    assert evaluate(grid).tolist() == [[b"a b"], [b"c d"]]
    assert rows(af.strings.bytes_split(texts(["ab", "", b"\xff"]))) == [[b"a", b"b"], [], [b"\xff"]]


def test_segments_are_joined():
    for inputs, ids, count, expected in (
        (["a", "b", "c"], [2, 0, 2], 3, [b"b", b"", b"a,c"]),
        ([["a", "b"], ["c", "d"]], [1, 1], 2, [[b"", b""], [b"a,c", b"b,d"]]),
        ([["a", "b"], ["c", "d"]], [[1, 0], [0, 1]], 2, [b"b,c", b"a,d"]),
    ):
        made = af.strings.unsorted_segment_join(texts(inputs), ids, count, ",")
        assert evaluate(made).tolist() == expected
    with pytest.raises(ValueError, match="segment ids from 5 to 5 are not all from 0 to 1"):
        evaluate(af.strings.unsorted_segment_join(texts(["a"]), [5], 2))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda x: af.strings.unicode_decode(x, "nope"), "'nope' is not the name of an encoding"),
        (lambda x: af.strings.unicode_decode(x, "UTF-16"), "use UTF-16-BE or UTF-16-LE"),
        (lambda x: af.strings.unicode_decode(x, "UTF-8", "drop"), "errors is one of replace, strict, ignore"),
        (lambda x: af.strings.unicode_decode(x, "UTF-8", "replace", -1), "replacement_char -1 is not"),
        (lambda x: af.strings.unicode_transcode(x, "UTF-8", "UTF-16-LE"), "output_encoding is one of UTF-8"),
        (lambda x: af.strings.unicode_encode(3, "UTF-8"), "a scalar has none"),
        (lambda x: af.strings.ngrams(x, 0), "ngram_width is a number from 1 on"),
        (lambda x: af.strings.ngrams(x, 2, padding_width=1), "needs pad_values"),
    ],
)
def test_what_makes_no_sense_is_refused_when_built(build, reason):
    with pytest.raises(ValueError, match=reason):
        build(texts(["a"]))
