"""What is done with text, in words."""

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import constant, placeholder
from aioflow.kernels.text import regex, splitting, string_hash, strings
from aioflow.library.sparse import sparse_tensor_to_dense
from tests.support.evaluate import evaluate
from tests.support.scale import amount


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def text(*items):
    return constant(np.array(items, object))


# Values


@given(st.lists(st.binary(max_size=8), max_size=5))
def test_base_64_there_and_back_again(items):
    with af.Graph().as_default():
        for pad in (False, True):
            there = string_hash.encode_base64(text(*items), pad)
            assert evaluate(string_hash.decode_base64(there)).tolist() == items


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5))
def test_numbers_survive_as_text_of_enough_digits(numbers):
    with af.Graph().as_default():
        spelled = strings.as_string(constant(np.array(numbers, np.float32)), precision=9, shortest=True)
        assert evaluate(strings.string_to_number(spelled)).tolist() == np.float32(numbers).tolist()


@given(st.lists(st.text("ab, ", max_size=6), max_size=4))
def test_strings_are_split_as_python_splits_them(items):
    lines = [item.encode() for item in items]
    with af.Graph().as_default():
        made = {
            "blanks": (splitting.split(text(*lines)), [line.split() for line in lines]),
            "a separator": (splitting.split(text(*lines), ", "), [line.split(b", ") for line in lines]),
            "any of several": (
                splitting.string_split(text(*lines), ", "),
                [[part for part in re.split(b"[, ]", line) if part] for line in lines],
            ),
        }
    for found, expected in made.values():
        dense = evaluate(sparse_tensor_to_dense(found))
        width = max(map(len, expected), default=0)
        assert dense.tolist() == [row + [b""] * (width - len(row)) for row in expected]


def test_every_integer_dtype_has_its_digits():
    for dtype in (af.int8, af.uint8, af.int16, af.uint16, af.int32, af.uint32, af.int64, af.uint64):
        limits = np.array([dtype.min, dtype.max], dtype.np)
        assert evaluate(strings.as_string(constant(limits))).tolist() == [str(int(n)).encode() for n in limits]


def test_bytes_that_are_no_letters_count_one_each():
    odd = text(b"\xff\xfea\xc3\xb6")
    assert evaluate(strings.string_length(odd, unit="UTF8_CHAR")).tolist() == [4]
    assert evaluate(strings.substr(odd, 1, 3, unit="UTF8_CHAR")).tolist() == [b"\xfea\xc3\xb6"]
    assert evaluate(strings.string_upper(odd, encoding="utf-8")).tolist() == [b"\xff\xfeA\xc3\x96"]


def test_text_of_rank_0_stays_an_array():
    word = placeholder(af.string, [])
    for made in (strings.string_strip(word), strings.string_join([word, "!"]), strings.substr(word, 0, 1)):
        assert evaluate(made, {word: b"a"}).shape == ()


async def test_a_session_runs_on_text(graph):
    words = placeholder(af.string, [None])
    joined = strings.reduce_join(strings.string_upper(words), separator="-")
    async with af.Session(graph=graph) as session:
        assert await session.run(joined, {words: ["ab", "c"]}) == b"AB-C"


# Refused when built

REFUSED = {
    "a form that is two": (lambda x: strings.as_string(1.0, scientific=True, shortest=True), ValueError, "exclude"),
    "digits of an integer": (lambda x: strings.as_string(1, precision=2), ValueError, "for floats, not for int32"),
    "a fill of two letters": (lambda x: strings.as_string(1.0, fill="ab"), ValueError, "fill is one of"),
    "text as text": (strings.as_string, TypeError, "dtype string is not supported"),
    "a narrow number": (lambda x: strings.string_to_number(x, af.int8), TypeError, "out_type is float32"),
    "the length of a number": (lambda x: strings.string_length(3), TypeError, "dtype int32 is not supported"),
    "an unknown unit": (lambda x: strings.string_length(x, unit="WORD"), ValueError, "unit is one of BYTE, UTF8_CHAR"),
    "a fraction as position": (lambda x: strings.substr(x, 0.5, 1), TypeError, "pos must be made of integers"),
    "an unknown encoding": (lambda x: strings.string_lower(x, "latin-1"), ValueError, "encoding is '' or 'utf-8'"),
    "shapes that differ": (lambda x: strings.string_join([x, text(b"a")]), ValueError, "not compatible"),
    "nothing joined": (lambda x: strings.string_join([]), ValueError, "at least one input"),
    "no buckets": (lambda x: string_hash.string_to_hash_bucket_fast(x, 0), ValueError, "at least one bucket"),
    "half a key": (
        lambda x: string_hash.string_to_hash_bucket_strong(x, 5, [1]), ValueError, "a key is two integers",
    ),
    "a broken expression": (lambda x: strings.regex_replace(x, "(", ""), ValueError, "not a regular expression"),
    "a group that is not there": (lambda x: strings.regex_replace(x, "(a)", r"\2"), ValueError, "one of the 1 groups"),
    "a long expression": (lambda x: strings.regex_replace(x, "a" * 10_001, ""), ValueError, "at most 10000"),
    "a large expression": (
        lambda x: strings.regex_full_match(x, r"\pL{500}{5}"), ValueError, "not a regular expression",
    ),
    "a group that is repeated": (lambda x: strings.regex_full_match(x, r"(a)\1"), ValueError, "invalid escape"),
    "a matrix split": (lambda x: splitting.string_split([["a"]]), ValueError, "rank 1 is needed"),
    "parts of a type": (lambda x: splitting.split(x, result_type="Rows"), ValueError, "'RaggedTensor', not 'Rows'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_reason(case):
    build, kind, message = REFUSED[case]
    with pytest.raises(kind, match=re.escape(message)):
        build(text(b"a", b"b"))


# Regular expressions

BACKTRACKING = [
    "a*a*a*a*a*b", "(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa|ab)*c", r"(\w+\s?)*!", "(.*,)*!", "(a?a?)*b", "(?:a*b?)*c",
    "((a{1,9}){1,9}){1,9}b", "(?i)(?:[a-c]x|A)*!", "a*b", "[ab]*[bc]*d", "a$", "(ab)*", r"\w+\b", "a?" * 60 + "a" * 60,
]  # fmt: skip
SIMPLE = [
    "", "a", "[a-z]+", "x*", "a|ab", "(a|b)(c|d)e?", "foo|bar", r"\d{1,3}\.\d{1,3}", "^ +", "([^,])([^,])", "-?[0-9.]+",
    "a??", ".", ".*", r"\bw", "(a)|(b)", "|a",
]  # fmt: skip
TEXTS = [b"", b"a", b"axxb,  foo", b"   12.345.6", b"ace bce", "\u00e9\u4e2d\U0001f600x".encode(), b"w w\nw", b"aab"]


@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_backtracking_expressions_need_re2_and_are_linear_with_it(pattern, monkeypatch):
    hostile = b"a" * 100_000
    expression = regex.compiled(pattern)
    expression.matches(hostile)
    expression.replace(hostile, [0], False)
    monkeypatch.setattr(regex, "_by_re2", lambda pattern: None)
    with pytest.raises(af.errors.UnimplementedError, match=r"Install aioflow-engine\[re2\]"):
        regex.compiled.__wrapped__(pattern)


@pytest.mark.parametrize("pattern", SIMPLE)
def test_simple_expressions_mean_the_same_with_and_without_re2(pattern):
    theirs, ours = regex._by_re2(pattern), regex._by_python(pattern)
    for text in TEXTS:
        assert ours.matches(text) == theirs.matches(text), text
        for everywhere in (True, False):
            rewrite = ["<", 0, ">"]
            assert ours.replace(text, rewrite, everywhere) == theirs.replace(text, rewrite, everywhere), text


def test_without_re2_no_expression_of_a_grammar_takes_long(monkeypatch):
    """Each attempt of an accepted expression reads a bounded number of letters, also on a text ten times longer."""
    draw = random.Random(1)

    def expression(depth: int) -> str:
        kind = draw.randrange(6 if depth else 3)
        if kind < 3:
            return draw.choice(["a", "b", "[ab]", "."])
        if kind == 3:
            return expression(depth - 1) + draw.choice(["*", "+", "?", "{0,9}", "{2,}", "*?"])
        if kind == 4:
            return f"({expression(depth - 1)}|{expression(depth - 1)})"
        return f"({expression(depth - 1)})"

    taken = 0
    for _ in range(amount(300, 3000)):
        pattern = "".join(expression(3) for _ in range(draw.randrange(1, 7)))
        try:
            found = regex._by_python(pattern)
        except (ValueError, af.errors.UnimplementedError):
            continue
        taken += 1
        found.replace(b"ab" * 200 + b"a" * 2000, [0], True)
        found.matches(b"a" * 5000 + b"c")
    assert taken > 100


def test_no_empty_match_follows_directly_after_a_match():
    assert regex.compiled("x*").replace(b"axxb", ["-"], True) == b"-a-b-"
    assert regex.compiled("").replace("\u00e9\xff".encode() + b"\xff", ["-"], True) == b"-\xc3\xa9-\xc3\xbf-\xff-"


# Refused in a run

FAILS = {
    "no number": (lambda: strings.string_to_number(text(b"1", b"1_0")), "b'1_0' is not a number of dtype float32"),
    "a fraction": (lambda: strings.string_to_number(text(b"1.5"), af.int32), "b'1.5' is not a number of dtype int32"),
    "too large": (lambda: strings.string_to_number(text(b"2147483648"), af.int32), "2147483648 does not fit dtype"),
    "beyond the end": (lambda: strings.substr(text(b"abc"), 4, 1), "position 4 is outside b'abc', which has 3"),
    "before the begin": (lambda: strings.substr(text(b"abc"), -4, 1), "position -4 is outside b'abc'"),
    "another alphabet": (lambda: string_hash.decode_base64(text(b"a+b=")), "b'a+b=' is not text in web-safe base 64"),
    "half a letter": (lambda: string_hash.decode_base64(text(b"a")), "b'a' is not text in web-safe base 64"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILS)
def test_what_text_does_not_say_is_an_error_that_shows_it(case):
    build, message = FAILS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(build())


def test_open_shapes_are_checked_in_the_run():
    a, b = placeholder(af.string), placeholder(af.string)
    feeds = {a: np.array([b"a"], object), b: np.array([b"a", b"b"], object)}
    with pytest.raises(ValueError, match="cannot be joined"):
        evaluate(strings.string_join([a, b]), feeds)


def test_numbers_are_read_from_bytes():
    assert evaluate(af.decode_raw([b"\x00\x01", b"\x02\x03"], af.uint16)).tolist() == [[256], [770]]
    assert evaluate(af.decode_raw(b"\x01\x00", af.bool)).tolist() == [True, False]
    value = np.array([1 + 2j, 3 - 1j])
    for little, order in ((True, "<"), (False, ">")):
        text = value.astype(f"{order}c16").tobytes()
        assert evaluate(af.decode_raw(text, af.complex128, little)).tolist() == value.tolist()
    for texts, message in [
        ([b"ab", b"a"], "strings of 1 and of 2 bytes"),
        ([b"abc"], "3 bytes are not a whole number of elements of 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluate(af.decode_raw(texts, af.int16))
    with pytest.raises(TypeError, match="bytes are no string"):
        af.decode_raw(b"a", af.string)


@given(st.text("aäb", max_size=9), st.sampled_from(["a", "a*", "(a)|b", "(b)?ä", "^a", ""]), st.booleans())
def test_the_length_of_a_replacement_is_counted_exactly(given_text, pattern, everywhere):
    expression = regex.compiled(pattern)
    data = given_text.encode()
    rewrite = regex.rewriting(expression, r"<\0ä\1>" if expression.compiled.groups else r"<\0ä>")
    made = expression.replace(data, rewrite, everywhere)
    assert expression.replaced_length(data, rewrite, everywhere) == len(made)


def test_a_group_is_asked_for_once_a_match_however_often_it_is_written():
    asked = []

    class Match:
        def group(self, number):
            asked.append(number)
            return b"ab"

        def span(self):
            return 0, 2

    class Compiled:
        groups = 1

        def search(self, text, place):
            return Match() if place == 0 else None

    expression = regex.Expression(Compiled(), bytes, bytes, lambda text, place: 1)
    rewrite = [1, 0, "-"] * 50
    assert expression.replace(b"abc", rewrite, True) == b"abab-" * 50 + b"c"
    assert expression.replaced_length(b"abc", rewrite, True) == 251
    assert sorted(asked) == [0, 0, 1, 1]
