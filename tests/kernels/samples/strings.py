"""Samples of what is done with text."""

import base64
import re

import numpy as np

from aioflow.kernels.data import decoders as raw
from aioflow.kernels.text import splitting, string_hash, strings
from aioflow.tensors.dtypes import float64, int32, int64

from . import sample


def text(*items):
    return np.array([item.encode() if isinstance(item, str) else item for item in items], object)


def each(function, dtype=object):
    def reference(*arrays):
        made = np.frompyfunc(function, len(arrays), 1)
        return np.asarray(made(*arrays), object).astype(dtype)

    return reference


WORDS = text(" Alpha\t", "", "beta gamma", "Größe", "a,b,,c")
GRID = text("a", "b", "c", "d", "", "ef").reshape(2, 3)
NOTHING = np.zeros((0, 2), object)
ONE = np.array(b"Word", object)
FLOATS = np.array([[0.0, -1.5, 12345.678], [np.inf, np.nan, 1e-7]])

for arguments, form in (
    ({}, "%f"),
    ({"precision": 2}, "%.2f"),
    ({"scientific": True, "precision": 3}, "%.3e"),
    ({"shortest": True}, "%g"),
    ({"width": 12, "fill": "0", "precision": 1}, "%012.1f"),
):
    sample(
        "as_string",
        lambda x, a=arguments: strings.as_string(x, **a),
        FLOATS,
        reference=each(lambda item, form=form: (form % item).encode()),
    )
sample("as_string", lambda x: strings.as_string(x, width=4), np.array([7, -12345], np.int64),
       reference=lambda x: text("   7", "-12345"))  # fmt: skip
sample("as_string", strings.as_string, np.array([True, False]), reference=lambda x: text("true", "false"))
sample(
    "as_string",
    lambda x: strings.as_string(x, precision=1),
    np.array([1.5 - 2j]),
    reference=lambda x: text("(1.5,-2.0)"),
    gradient=False,
)
NUMBERS = text("1.5", " -2e3 ", "inf", "7")
for dtype, spelled in ((float64, NUMBERS), ("float32", NUMBERS), (int32, text("7", "-8")), (int64, text("9999999999"))):
    sample(
        "string_to_number",
        lambda x, d=dtype: strings.string_to_number(x, d),
        spelled,
        reference=lambda x, d=dtype: np.array([float(item) for item in x]),
    )

for unit, length in (("BYTE", len), ("UTF8_CHAR", lambda item: len(item.decode()))):
    sample(
        "string_length",
        lambda x, u=unit: strings.string_length(x, unit=u),
        WORDS,
        reference=each(length, np.int32),
    )
sample("string_length", strings.string_length, ONE, reference=lambda x: np.int32(4))
sample("substr", strings.substr, GRID[:, 2:], np.int32(0), np.int32(1), reference=each(lambda s, p, n: s[p : p + n]))
sample("substr", strings.substr, WORDS[[0, 2, 3]], np.array([0, -3, 2]), np.array([3, 2, 99]),
       reference=lambda *_: text(" Al", "mm", WORDS[3][2:]))  # fmt: skip
sample("substr", lambda x, p: strings.substr(x, p, 3, unit="UTF8_CHAR"), WORDS[3:4], np.array([-3], np.int32),
       reference=lambda x, p: text("öße"))  # fmt: skip
sample("substr", strings.substr, ONE, np.array([[0], [1]]), np.array([1, 2]),
       reference=lambda x, p, n: text("W", "Wo", "o", "or").reshape(2, 2))  # fmt: skip
for values in (WORDS, ONE, NOTHING):
    sample("string_strip", strings.string_strip, values, reference=each(bytes.strip))
    sample("string_lower", strings.string_lower, values, reference=each(bytes.lower))
    sample("string_upper", strings.string_upper, values, reference=each(bytes.upper))
for name, function in (("string_lower", str.lower), ("string_upper", str.upper)):
    sample(
        name,
        lambda x, n=name: getattr(strings, n)(x, "utf-8"),
        WORDS,
        reference=each(lambda item, f=function: f(item.decode()).encode()),
    )
sample(
    "regex_replace",
    lambda x: strings.regex_replace(x, r"([a-z])([a-z])", r"\2-\1"),
    WORDS,
    reference=each(lambda item: re.sub(rb"([a-z])([a-z])", rb"\2-\1", item)),
)
sample("regex_replace", lambda x: strings.regex_replace(x, ",", r"\0\\", replace_global=False), WORDS[4:],
       reference=lambda x: text("a,\\b,,c"))  # fmt: skip
sample(
    "regex_full_match",
    lambda x: strings.regex_full_match(x, "[a-z]*"),
    GRID,
    reference=lambda x: np.full((2, 3), True),
)
sample("regex_full_match", lambda x: strings.regex_full_match(x, "W.r"), ONE, reference=lambda x: np.bool_(False))

sample("string_join", lambda *x: strings.string_join(x, "/"), GRID, ONE, GRID, reference=each(
    lambda a, b, c: b"/".join([a, b, c])
))  # fmt: skip
sample("string_join", lambda *x: strings.string_join(x), ONE, ONE, reference=each(lambda a, b: a + b))
sample("string_join", lambda x: strings.string_join([x, "!"]), NOTHING, reference=lambda x: x)
for axis, expected in (
    (0, text("ad", "b", "cef")),
    (-1, text("abc", "def")),
    ([0, 1], text("adbcef")[0]),
    ([1, 0], text("abcdef")[0]),
    (None, text("abcdef")[0]),
):
    sample("reduce_join", lambda x, a=axis: strings.reduce_join(x, a), GRID,
           reference=lambda x, e=expected: np.asarray(e, object))  # fmt: skip
sample("reduce_join", lambda x: strings.reduce_join(x, 1, keep_dims=True, separator="+"), GRID,
       reference=lambda x: text("a+b+c", "d++ef").reshape(2, 1))  # fmt: skip
sample("reduce_join", lambda x: strings.reduce_join(x, 0), NOTHING, reference=lambda x: text("", ""))
sample("reduce_join", lambda x: strings.reduce_join(x, []), GRID, reference=lambda x: x)


def split(function, *options):
    def build(x):
        parts = function(x, *options)
        return parts.indices, parts.values, parts.dense_shape

    return build


def pieces(rows):
    def reference(x):
        places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
        values = text(*[item for row in rows for item in row])
        return np.array(places).reshape(-1, 2), values, np.array([len(rows), max(map(len, rows), default=0)])

    return reference


LINE = text("a b  c", "", "d")
sample("string_split", split(splitting.string_split), LINE, reference=pieces([["a", "b", "c"], [], ["d"]]))
sample("string_split", split(splitting.string_split, " ", False), LINE,
       reference=pieces([["a", "b", "", "c"], [""], ["d"]]))  # fmt: skip
sample("string_split", split(splitting.string_split, ""), text("ab", "c"), reference=pieces([["a", "b"], ["c"]]))
sample("string_split", split(splitting.string_split, ", "), text("a,b c"), reference=pieces([["a", "b", "c"]]))
sample("string_split", split(splitting.string_split), NOTHING[:, 0], reference=pieces([]))
sample("string_split_v2", split(splitting.split), LINE, reference=pieces([["a", "b", "c"], [], ["d"]]))
sample("string_split_v2", split(splitting.split, "b  "), LINE, reference=pieces([["a ", "c"], [""], ["d"]]))
sample("string_split_v2", split(splitting.split, None, 1), LINE, reference=pieces([["a", "b  c"], [], ["d"]]))


def buckets(texts):
    return each(lambda item: FINGERPRINTS[item] % 1000, np.int64)(texts)


FINGERPRINTS = {
    b" Alpha\t": 1025951142076451710,
    b"": 11160318154034397263,
    b"beta gamma": 12857572309550864630,
    "Größe".encode(): 17762664592924846344,
    b"a,b,,c": 6769915588080038324,
    b"Word": 7335232468044038099,
}
"""FarmHash's Fingerprint64, computed by TensorFlow."""
for values in (WORDS, ONE, NOTHING):
    sample("string_to_hash_bucket_fast", lambda x: string_hash.string_to_hash_bucket_fast(x, 1000), values,
           reference=buckets)  # fmt: skip
    sample("string_to_hash_bucket", lambda x: string_hash.string_to_hash_bucket(x, 7), values)
    sample("string_to_hash_bucket_strong", lambda x: string_hash.string_to_hash_bucket_strong(x, 2**62, [1, 2]), values)
    sample("fingerprint", string_hash.fingerprint, np.stack([values, values]))
    sample("encode_base64", lambda x: string_hash.encode_base64(x, pad=True), values,
           reference=each(base64.urlsafe_b64encode))  # fmt: skip
    sample("decode_base64", lambda x: string_hash.decode_base64(string_hash.encode_base64(x)), values,
           reference=lambda x: x)  # fmt: skip

sample("fingerprint", string_hash.fingerprint, np.arange(6.0).reshape(3, 2))

NUMBERS = np.array([[1.5, -2.0], [0.25, 1e300]])
RAW = np.array([row.astype("<f8").tobytes() for row in NUMBERS], object)
sample("decode_raw", lambda t: raw.decode_raw(t, "float64"), RAW, reference=lambda t: NUMBERS)
sample(
    "decode_raw", lambda t: raw.decode_raw(t, "int16", little_endian=False), np.array([[b"\x01\x02\xff\xfe"]], object),
    reference=lambda t: np.array([[[258, -2]]]),
)  # fmt: skip
sample("decode_raw", lambda t: raw.decode_raw(t, "uint8"), np.zeros(0, object), reference=lambda t: np.zeros((0, 0)))
