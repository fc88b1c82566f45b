"""Measures how long kernels and conversions of a million Python objects block the event loop.

Code that touches Python objects holds the GIL, so a compute thread alone does not keep the loop free. For example, one
call into C that sorts an array of strings takes seconds and blocks the loop for all of them. A timer on the loop is due
every millisecond. The figure of a row is the longest time between two turns, and the least of three runs, because other
processes delay the loop, too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.harness import freeze
from benchmarks.report import Claim, Row

COUNT: Final = 1_000_000
RUNS: Final = 3
LIMIT: Final = 12.0
"""Milliseconds: Python releases the GIL after 5, and the system switches processes in a few more."""


class Case(NamedTuple):
    """A graph built on placeholders, and their feeds."""

    build: Callable[..., Any]
    feeds: tuple[Any, ...]


async def rows() -> AsyncIterator[Row]:
    """One row for each case."""
    every = cases(peers.aioflow(), COUNT)
    for name, case in every.items():
        freeze()  # otherwise Python's collector scans the millions of fed objects
        stalls, seconds = await measured(case)
        figures = {"aioflow": f"longest stall {stalls * 1e3:8.1f} ms of {seconds:6.2f} s"}
        yield Row(f"{name}, {COUNT:,} elements", figures, [Claim(name, stalls * 1e3, LIMIT, unit=" ms")])


async def measured(case: Case) -> tuple[float, float]:
    """The longest stall of the loop in a run, and the time of the run, both for the run with the least stall."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        fed = [af.placeholder(af.as_dtype(np.asarray(value).dtype), [None] * np.ndim(value)) for value in case.feeds]
        made = case.build(*fed)
        parts = made if isinstance(made, (list, tuple)) else [made]
        done = af.group(*[part.op for each in parts for part in getattr(each, "tensors", [each])])
    async with af.Session(graph=graph) as session:
        found = [await watched(lambda: session.run(done, dict(zip(fed, case.feeds, strict=True)))) for _ in range(RUNS)]
    return min(found)


async def watched(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The longest time between two turns of the loop while it awaits the work, and the time the work takes."""
    longest, running = 0.0, True

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while running:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last - 0.001), now

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0)
    begin = time.perf_counter()
    await work()
    seconds = time.perf_counter() - begin
    await asyncio.sleep(0.002)
    running = False
    await heart
    return longest, seconds


def strings(items: Any) -> Any:
    """An array of byte strings."""
    items = list(items)
    made = np.empty(len(items), object)
    made[:] = items
    return made


def queued(af: Any, rows: Any, size: int) -> Any:
    """The rows, enqueued and taken off as a batch."""
    queue = af.FIFOQueue(100, [af.string], [[size]])
    with af.control_dependencies([queue.enqueue_many([rows])]):
        return queue.dequeue_many(10)


def cases(af: Any, count: int) -> dict[str, Case]:
    """The cases with a million objects each."""
    some = np.random.default_rng(1)
    texts = strings(b"text %d" % number for number in some.permutation(count))
    numbers = strings(b"%d" % number for number in some.permutation(count))
    floats = some.standard_normal(count)
    integers = some.permutation(count)
    rows = texts.reshape(-1, 10)
    lists = (texts.tolist(), [text.decode() for text in texts], floats.tolist(), rows.tolist())
    places = np.stack([np.arange(count) // 10, np.arange(count) % 10], 1).astype(np.int64)
    shape = np.array([count // 10, 10], np.int64)

    images, wide, word = texts.reshape(-1, 2, 2, 5), texts.reshape(10, -1), np.array(b"text", object)

    def sparse(values: Any) -> Any:
        return af.SparseTensor(places, values, shape)

    few = texts[: count // 10]
    csv = strings(b"%d,%d.5,word %d" % (number, number, number) for number in range(count // 10))
    json = strings(b'{"features":{"feature":{"a":{"int64List":{"value":["%d"]}}}}}' % n for n in range(count // 10))
    examples = strings(af.io.make_example({"a": n, "b": b"text"}) for n in range(count // 10))
    parsed = {"a": af.io.FixedLenFeature([], af.int64), "b": af.io.VarLenFeature(af.string)}
    return {
        "as_string of floats": Case(af.as_string, (floats,)),
        "as_string of integers": Case(af.as_string, (integers,)),
        "as_string of bools": Case(af.as_string, (integers > 5,)),
        "string_to_number": Case(af.string_to_number, (numbers,)),
        "string_length": Case(af.string_length, (texts,)),
        "string_length of letters": Case(lambda x: af.string_length(x, unit="UTF8_CHAR"), (texts,)),
        "substr": Case(lambda x: af.substr(x, 1, 3), (texts,)),
        "string_strip": Case(af.string_strip, (texts,)),
        "string_upper": Case(af.string_upper, (texts,)),
        "string_lower of letters": Case(lambda x: af.string_lower(x, "utf-8"), (texts,)),
        "regex_replace": Case(lambda x: af.regex_replace(x, "[0-9]", "x"), (texts,)),
        "regex_full_match": Case(lambda x: af.strings.regex_full_match(x, ".*1.*"), (texts,)),
        "string_join": Case(lambda x: af.string_join([x, x], "-"), (texts,)),
        "reduce_join of all": Case(af.reduce_join, (texts,)),
        "reduce_join of rows": Case(lambda x: af.reduce_join(x, 1), (rows,)),
        "string_split": Case(lambda x: af.string_split(x), (texts,)),
        "strings.split": Case(lambda x: af.strings.split(x), (texts,)),
        "string_to_hash_bucket_fast": Case(lambda x: af.string_to_hash_bucket_fast(x, 1000), (texts,)),
        "encode_base64": Case(af.encode_base64, (texts,)),
        "decode_raw": Case(lambda x: af.decode_raw(x, af.uint8), (strings([b"12345678"] * count),)),
        "unique of strings": Case(af.unique, (texts,)),
        "unique of integers": Case(af.unique, (integers,)),
        "unique_with_counts of strings": Case(af.unique_with_counts, (texts,)),
        "setdiff1d of strings": Case(lambda x, y: af.setdiff1d(x, y), (texts, few)),
        "equal of strings": Case(lambda x: af.equal(x, "text 5"), (texts,)),
        "equal of strings, both large": Case(af.equal, (texts, texts.copy())),
        "concat of strings": Case(lambda x: af.concat([x, x], 0), (texts,)),
        "gather of strings": Case(lambda x: af.gather(x, integers), (texts,)),
        "transpose and reshape of strings": Case(lambda x: af.reshape(af.transpose(x), [-1]), (rows,)),
        "tile of strings": Case(lambda x: af.tile(x, [3]), (texts,)),
        "where of strings": Case(lambda x: af.where(integers > 5, x, x), (texts,)),
        "boolean_mask of strings": Case(lambda x: af.boolean_mask(x, integers % 2 == 0), (texts,)),
        "dynamic_partition of strings": Case(lambda x: af.dynamic_partition(x, integers % 3, 3), (texts,)),
        "pad of strings": Case(lambda x: af.pad(x, [[1, 1]], constant_values=b""), (texts,)),
        "stack of strings": Case(lambda x: af.stack([x, x]), (texts,)),
        "stack of strings along the second axis": Case(lambda x: af.stack([x, x], 1), (texts,)),
        "concat of transposed strings": Case(lambda x: af.concat([af.transpose(x), af.transpose(x)], 1), (rows,)),
        "unstack, split and reverse of strings": Case(
            lambda x: [*af.unstack(x, 10, 1), *af.split(x, [4, 6], 1), *af.split(x, 2, 1), af.reverse(x, [0])], (rows,)
        ),
        "slices of strings": Case(
            lambda x: [x[1:, ::2], af.slice(x, [1, 1], [-1, 3]), af.strided_slice(x, [0, 1], [9, 9], [2, 2])], (rows,)
        ),
        "gather_nd of strings": Case(lambda x: af.gather_nd(x, integers[:, None]), (texts,)),
        "scatter_nd of strings": Case(lambda x: af.scatter_nd(integers[:, None] // 2, x, [count]), (texts,)),
        "count_nonzero of strings": Case(af.count_nonzero, (texts,)),
        "reverse_sequence of strings": Case(lambda x: af.reverse_sequence(x, np.full(len(rows), 5), 1, 0), (rows,)),
        "random_shuffle of strings": Case(lambda x: af.random_shuffle(x, seed=1), (texts,)),
        "roll of strings": Case(lambda x: af.roll(x, 5, 0), (texts,)),
        "pad of strings by mirrors": Case(lambda x: af.pad(x, [[1, 1]], "REFLECT"), (texts,)),
        "dynamic_stitch of strings": Case(lambda x: af.dynamic_stitch([integers], [x]), (texts,)),
        "tensor_scatter_update of strings": Case(lambda x: af.tensor_scatter_update(x, integers[:, None], x), (texts,)),
        "space_to_batch of strings and back": Case(
            lambda x: af.batch_to_space(af.space_to_batch(x, [[0, 0], [0, 0]], 2), [[0, 0], [0, 0]], 2), (images,)
        ),
        "space_to_depth of strings and back": Case(lambda x: af.depth_to_space(af.space_to_depth(x, 2), 2), (images,)),
        "zeros_like of strings": Case(af.zeros_like, (texts,)),
        "one_hot of strings": Case(lambda x: af.one_hot(integers % 4, 4, x, b"off", dtype=af.string), (word,)),
        "tile of one string": Case(lambda x: af.tile(x[None], [count]), (word,)),
        "a TensorArray of strings": Case(
            lambda x: [
                af.TensorArray(af.string, len(wide)).unstack(x).stack(),
                af.TensorArray(af.string, len(wide)).unstack(x).concat(),
            ],
            (wide,),
        ),
        "a variable of strings": Case(
            lambda x: af.assign(af.Variable([b""], validate_shape=False, dtype=af.string), x, validate_shape=False),
            (texts,),
        ),
        "a queue of strings": Case(lambda x: queued(af, x, count // 10), (wide,)),
        "sparse_to_dense of strings": Case(lambda x: af.sparse_to_dense(np.arange(count), [count], x, b""), (texts,)),
        "fill of strings": Case(lambda x: af.fill([count], x), (np.array(b"text", object),)),
        "sets.set_union of strings": Case(lambda x: af.sets.set_union(x, x), (rows,)),
        "sets.set_union, one row": Case(lambda x: af.sets.set_union(x[None], x[None]), (texts,)),
        "sets.set_size of integers": Case(lambda x: af.sets.set_size(sparse(x)), (integers,)),
        "sparse_tensor_to_dense of strings": Case(
            lambda x: af.sparse_tensor_to_dense(sparse(x), default_value=b""), (texts,)
        ),
        "serialize_sparse of strings": Case(lambda x: af.serialize_sparse(sparse(x)), (texts,)),
        "serialize_many_sparse and back": Case(
            lambda x: af.deserialize_many_sparse(af.serialize_many_sparse(sparse(x)), af.string), (texts,)
        ),
        "decode_csv, a tenth": Case(lambda x: af.decode_csv(x, [[0], [0.0], [""]]), (csv,)),
        "decode_json_example, a tenth": Case(af.decode_json_example, (json,)),
        "parse_example, a tenth": Case(lambda x: list(af.parse_example(x, parsed).values()), (examples,)),
        "edit_distance": Case(lambda x: af.edit_distance(sparse(x), sparse(x)), (integers,)),
        "feeding a list of bytes": Case(af.identity, (lists[0],)),
        "feeding a list of text": Case(af.identity, (lists[1],)),
        "feeding a list of floats": Case(af.identity, (lists[2],)),
        "feeding a matrix of bytes": Case(af.identity, (lists[3],)),
        "feeding an array of text": Case(af.identity, (np.array(lists[1]),)),
        "feeding an array of objects": Case(af.identity, (texts,)),
    }
