"""Strings: joined, split, normalised and matched; counts of words."""

import functools
from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, size
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, logical_and, logical_not, not_equal
from aioflow.kernels.math.reduction import reduce_any, reduce_sum
from aioflow.kernels.text.splitting import split
from aioflow.kernels.text.strings import regex_full_match, string_join, string_lower, string_upper
from aioflow.library.branches import cond
from aioflow.library.sparse import sparse_tensor_to_dense
from aioflow.onnx.call import Call
from aioflow.onnx.operators.shaping import common_shape
from aioflow.onnx.operators.values import rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, int64


@operator("StringConcat", since=20)
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    shape = common_shape(sizes_of(x), sizes_of(y))
    return string_join([broadcast_to(x, shape), broadcast_to(y, shape)])


@operator("RegexFullMatch", since=20)
def _(call: Call, x: Tensor) -> Tensor:
    return regex_full_match(x, call.text("pattern"))


@operator("StringSplit", since=20)
def _(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of each string along a new last axis, filled up with empty strings; and their numbers."""
    parts = split(reshape(x, [-1]), call.text("delimiter", "") or None, call.integer("maxsplit", -1))
    table = sparse_tensor_to_dense(parts, "")
    rows = sizes_of(x)
    hits = expand_dims(parts.indices[:, 0], 0)
    places = reshape(number_range(size(x, out_type=int64)), [-1, 1])
    counts = reduce_sum(cast(equal(places, hits), int64), 1)
    return reshape(table, concat([rows, sizes_of(table)[1:]], 0)), reshape(counts, rows)


@operator("StringNormalizer", since=10)
def _(call: Call, x: Tensor) -> Tensor:
    """The strings without stop words, in small or capital letters; one empty string if none is left."""
    kept = reshape(x, [-1])
    words, exact = call.texts("stopwords"), call.flag("is_case_sensitive")
    if words:
        compared = kept if exact else string_lower(kept, "utf-8")
        stops = constant([[word if exact else word.lower()] for word in words])
        kept = boolean_mask(kept, logical_not(reduce_any(equal(expand_dims(compared, 0), stops), 0)))
    change = {"LOWER": string_lower, "UPPER": string_upper}.get(call.text("case_change_action", "NONE"))
    changed = kept if change is None else change(kept, "utf-8")
    result: Tensor = cond(equal(size(changed), 0), lambda: constant([""]), lambda: changed)
    return reshape(result, [1, -1] if rank_of(x) == 2 else [-1])


# Counts of groups of words


@operator("TfIdfVectorizer", since=9)
def _(call: Call, x: Tensor) -> Tensor:
    """How often each group of words of a pool occurs in each row, with words left out between its own or not."""
    rows = x if rank_of(x) == 2 else expand_dims(x, 0)
    groups = _groups(call)
    columns = []
    for words, place in groups:
        skips = range(1 if len(words) == 1 else known.pieces(call.integer("max_skip_count") + 1))
        found = [_occurrences(rows, words, skip + 1) for skip in skips]
        columns.append((place, functools.reduce(add, found)))
    counts = stack([column for _, column in sorted(columns, key=lambda pair: pair[0])], 1)
    made = _weighted(call, cast(counts, float32))
    return made if rank_of(x) == 2 else reshape(made, [-1])


def _groups(call: Call) -> list[tuple[list[Any], int]]:
    """The groups whose length counts, each with its column."""
    pool = call.texts("pool_strings") if call.has("pool_strings") else call.integers("pool_int64s")
    starts, places = [*call.integers("ngram_counts"), len(pool)], call.integers("ngram_indexes")
    groups = [
        pool[first : first + length]
        for length in range(1, len(starts))
        for first in range(starts[length - 1], starts[length], length)
    ]
    least, most = call.integer("min_gram_length"), call.integer("max_gram_length")
    return [(group if least <= len(group) <= most else [], place) for group, place in zip(groups, places, strict=True)]


def _occurrences(rows: Tensor, words: Sequence[Any], step: int) -> Tensor:
    reach = (len(words) - 1) * step
    length = rows.spec.sizes[1] if rows.spec.sizes else None
    if not words or (length is not None and length <= reach):
        return reduce_sum(cast(not_equal(rows, rows), int64), 1)
    size = size_at(rows, 1)
    parts = [
        equal(rows[:, i * step : size - reach + i * step], constant(word, rows.dtype)) for i, word in enumerate(words)
    ]
    return reduce_sum(cast(functools.reduce(logical_and, parts), int64), 1)


def _weighted(call: Call, counts: Tensor) -> Tensor:
    mode = call.text("mode")
    seen = cast(greater(counts, 0.0), float32)
    weights = constant(call.get("weights"), float32) if call.has("weights") else constant(1.0)
    return {"TF": counts, "IDF": multiply(seen, weights), "TFIDF": multiply(counts, weights)}[mode]
