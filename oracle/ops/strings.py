"""Strings."""

from typing import Any

import numpy as np

from oracle.draw import BOOL, COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, STRING, Call, Draw, call, one
from oracle.table import compare, differs, excuse

TEXT = one(*STRING)


def printed(d: Draw) -> Call:
    dtype = d.dtype(*FLOATS, *INTS, *BOOL, *COMPLEX)
    attrs = {"width": d.pick(-1, 8), "fill": d.pick("", "0")}
    if dtype in (*FLOATS, *COMPLEX):
        attrs |= {"precision": d.pick(-1, 3), "scientific": d.pick(False, True)}
    return call(d.array(dtype, d.shape(0, 2)), **{k: v for k, v in attrs.items() if k != "fill" or attrs["width"] > 0})


compare("as_string", printed)
NUMERALS = (
    b"1",
    b"-2.5",
    b" 7 ",
    b"1e3",
    b"nan",
    b"inf",
    b"-inf",
    b"12abc",
    b"",
    b"0x10",
    b"+3",
    b"99999999999",
    b".5",
)


def numerals(d: Draw) -> Call:
    return call(np.array(d.pick(*NUMERALS), object), out_type=d.pick(*FLOAT, "int32", "int64"))


compare(
    "string_to_number",
    numerals,
    differs=differs("Python's float spells no hexadecimal", lambda x, out_type: x == b"0x10"),
)
for name in ("string_strip", "string_lower", "string_upper"):
    compare(name, TEXT, theirs=f"strings.{name.removeprefix('string_')}")


def measured(d: Draw) -> Call:
    return call(d.array("str", d.shape()), unit=d.pick("BYTE", "UTF8_CHAR"))


compare("strings.length", measured, ops="string_length")


def parts(d: Draw) -> Call:
    texts = d.array("str", d.shape(0, 2))
    shape = d.pick((), texts.shape)
    return call(texts, d.array("int32", shape, -2, 3), d.array("int32", shape, 0, 3), unit=d.pick("BYTE", "UTF8_CHAR"))


compare("substr", parts)
compare(
    "regex_replace",
    lambda d: call(
        d.array("str", d.shape()),
        pattern=d.pick("a", "[ab]+", "(a)(b)", "^", "x*"),
        rewrite=d.pick("", "<\\0>", "q"),
        replace_global=d.pick(True, False),
    ),
)
compare(
    "regex_full_match",
    lambda d: call(d.array("str", d.shape()), pattern=d.pick("a", "[ab]*", ".*", "-?[0-9.]+")),
    theirs="strings.regex_full_match",
)


def several_texts(d: Draw) -> Call:
    shape = d.shape(0, 2)
    return call(*[d.array("str", d.pick(shape, ())) for _ in range(d.integer(1, 3))], separator=d.pick("", ", "))


compare("string_join", several_texts, lambda lib, *xs, separator: lib.string_join(list(xs), separator))


def joined(d: Draw) -> Call:
    shape = d.shape()
    return call(d.array("str", shape), axis=d.axes(shape), keep_dims=d.pick(False, True), separator=d.pick("", "-"))


compare("reduce_join", joined)


def split_texts(lib: Any, x: Any, **attrs: Any) -> Any:
    return lib.string_split(x, **attrs)


compare(
    "string_split",
    lambda d: call(d.array("str", d.shape(1, 1)), sep=d.pick(" ", "", "b", "az"), skip_empty=d.pick(True, False)),
    split_texts,
    differs=differs(
        "Python splits so: an empty text has one empty part",
        lambda x, sep, skip_empty: not skip_empty and b"" in x.tolist(),
    ),
)
compare(
    "strings.split",
    lambda d: call(d.array("str", d.shape(1, 1)), sep=d.pick("", "b", " "), maxsplit=d.pick(-1, 1)),
    lambda lib, x, sep, maxsplit: lib.strings.split(x, sep, maxsplit, result_type="SparseTensor"),
    ops="string_split_v2",
    differs=differs(
        "Python's split gives no empty part after the last blank", lambda x, sep, maxsplit: not sep and maxsplit == 1
    ),
)


def packed(d: Draw) -> Call:
    texts = [d.rng().bytes(8) for _ in range(d.integer(0, 3))]
    return call(np.array(texts, object), out_type=d.pick(*FLOATS, *INTS), little_endian=d.pick(True, False))


compare("decode_raw", packed, lambda lib, x, out_type, **attrs: lib.decode_raw(x, getattr(lib, out_type), **attrs))


def hashed(d: Draw) -> Call:
    """Few or many strings of each length, since the two are hashed in different ways."""
    texts = [d.rng().bytes(d.pick(d.integer(0, 16), d.integer(0, 200))) for _ in range(d.integer(0, 4))]
    return call(np.array(texts * d.pick(1, 20), object), num_buckets=d.pick(1, 1000, 2**62))


compare("string_to_hash_bucket", hashed)
compare("string_to_hash_bucket_fast", hashed)


def hashed_by_key(d: Draw) -> Call:
    drawn = hashed(d)
    return call(*drawn.arrays, **drawn.attrs, key=[d.integer(0, 2**62), d.integer(0, 2**62)])


compare("string_to_hash_bucket_strong", hashed_by_key)
compare(
    "fingerprint",
    lambda d: call(d.array(d.dtype(*NUMBERS, *BOOL, *STRING), d.shape(1))),
    differs=differs(
        "TensorFlow gives memory that nothing wrote for parts of no strings", lambda x: x.dtype == object and not x.size
    ),
)
compare("encode_base64", lambda d: call(d.array("str", d.shape()), pad=d.pick(False, True)))


def decoded(lib: Any, x: Any, pad: bool) -> Any:
    return lib.decode_base64(lib.encode_base64(x, pad=pad))


compare("decode_base64", lambda d: call(d.array("str", d.shape()), pad=d.pick(False, True)), decoded)
compare("decode_base64 of any text", TEXT, lambda lib, x: lib.decode_base64(x))


# Values as text and as messages


def several(d: Draw) -> Call:
    values = [d.array(d.dtype(*FLOATS, *INTS, *BOOL, *STRING), d.shape(0, 3, (1, 9))) for _ in range(d.integer(1, 2))]
    return call(*values, summarize=d.pick(-1, 1, 3))


def formatted(lib: Any, *xs: Any, summarize: int) -> Any:
    return lib.strings.format("a".join(["{}"] * len(xs)), list(xs), summarize=summarize)


compare("strings.format", several, formatted, ops="string_format")
compare(
    "serialize_tensor",
    lambda d: call(d.array(d.dtype(*NUMBERS, *BOOL, *STRING), d.shape())),
    lambda lib, x: lib.io.serialize_tensor(x),
)


def there_and_back(lib: Any, x: Any) -> Any:
    return lib.io.parse_tensor(lib.io.serialize_tensor(x), x.dtype)


compare("parse_tensor", lambda d: call(d.array(d.dtype(*NUMBERS, *BOOL, *STRING), d.shape())), there_and_back)


# Code points and pieces


def malformed(d: Draw) -> Call:
    """Strings in UTF-8, of which some bytes are not."""
    texts = [d.pick("aé€😀\0".encode(), b"")[d.integer(0, 3) :] + d.rng().bytes(2) for _ in range(d.integer(1, 3))]
    return call(np.array(texts, object), errors=d.pick("replace", "ignore"), replacement_char=d.pick(65533, 33))


def sparse(name: str, place: int | None = None) -> tuple[Any, Any]:
    """How aioflow is called, and how TensorFlow, whose ragged result is made sparse."""

    def ours(lib: Any, x: Any, **attrs: Any) -> Any:
        made = getattr(lib.strings, name)(x, "UTF-8", **attrs)
        return made if place is None else made[place]

    return ours, lambda lib, x, **attrs: ours(lib, x, **attrs).to_sparse()


for function, place in (
    ("unicode_decode", None), ("unicode_decode_with_offsets", 1), ("unicode_split", None),
    ("unicode_split_with_offsets", 1),
):  # fmt: skip
    mine, other = sparse(function, place)
    compare(f"strings.{function}", malformed, mine, theirs=other, ops=("unicode_decode",))


def transcoded(lib: Any, x: Any, **attrs: Any) -> Any:
    return lib.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE", **attrs)


compare("strings.unicode_transcode", malformed, transcoded)
compare(
    "strings.unicode_encode",
    lambda d: call(d.array("int32", d.shape(1, 2, (1, 4)), 0, 70000), output_encoding=d.pick("UTF-8", "UTF-32-BE")),
)


def encoded_rows(lib: Any, x: Any, **attrs: Any) -> Any:
    return lib.strings.unicode_encode(lib.strings.unicode_decode(x, "UTF-8", **attrs), "UTF-8")


compare("strings.unicode_encode of rows", malformed, encoded_rows, ops="unicode_encode_rows")


def neighbours(d: Draw) -> Call:
    padded = {"pad_values": d.pick("P", ("L", "R")), "padding_width": d.pick(None, 1, 2)}
    return call(
        d.array("str", d.shape(1, 1, (1, 4))),
        ngram_width=d.pick(1, 3, [2, 3]),
        preserve_short_sequences=d.pick(False, True),
        **d.pick({}, padded),
    )


compare("strings.ngrams", neighbours, ops="string_ngrams")


def segments(d: Draw) -> Call:
    ids = d.array("int32", d.shape(1, 2, (1, 3)), 0, 2)
    return call(d.array("str", (*ids.shape, *d.shape(0, 1))), ids, num_segments=3, separator=d.pick("", "-"))


compare(
    "strings.unsorted_segment_join",
    segments,
    differs=differs(
        "Python's join has a separator after an empty part",
        lambda x, ids, num_segments, separator: bool(separator) and b"" in x.ravel().tolist(),
    ),
)
excuse("each run prints, or gives another time", "print_text", "timestamp")
