"""RaggedTensors are TensorFlow's: what makes them, what they are made, and the functions that take them."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle.both import tensorflow

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]

Case = Callable[[Any], Any]
"""(aioflow or TensorFlow's v1 module) -> a tensor, RaggedTensor or SparseTensor, or a list of them."""


def pair(lib: Any) -> Any:
    return lib.ragged.constant([[1, 2], [], [3]])


def floats(lib: Any) -> Any:
    return lib.ragged.constant([[1.0, 2.5], [-3.0], [0.5, 4.0, 8.0]])


def deep(lib: Any) -> Any:
    return lib.ragged.constant([[[1, 2], [3]], [[4, 5, 6]], [], [[], [7]]])


def inner(lib: Any) -> Any:
    return lib.ragged.constant([[[1, 2], [3, 4]], [], [[5, 6]]], ragged_rank=1)


def words(lib: Any) -> Any:
    return lib.ragged.constant([["a", "Bc"], [], ["dEf"]])


def fed(lib: Any) -> tuple[Any, dict[Any, Any]]:
    """A RaggedTensor of rank 3 that only a run knows, and its value."""
    made = lib.ragged.placeholder(lib.int32, 2)
    return made, {made: lib.ragged.constant_value([[[1, 2], [3]], [], [[4, 5, 6]]], dtype="int32")}


DENSE = [[5, 7, 0], [0, 3, 0], [6, 0, 0]]
CUBE = [[[5, 0], [7, 0], [0, 0]], [[0, 0], [3, 0], [0, 0]], [[6, 0], [0, 0], [0, 0]]]

FACTORIES: dict[str, Case] = {
    "from_row_splits": lambda lib: lib.RaggedTensor.from_row_splits([3, 1, 4], [0, 2, 2, 3]),
    "from_row_splits, int32": lambda lib: lib.RaggedTensor.from_row_splits([3, 1], np.int32([0, 2])),
    "from_row_lengths": lambda lib: lib.RaggedTensor.from_row_lengths([3, 1, 4], [2, 0, 1]),
    "from_row_starts": lambda lib: lib.RaggedTensor.from_row_starts([3, 1, 4], [0, 2, 2]),
    "from_row_limits": lambda lib: lib.RaggedTensor.from_row_limits([3, 1, 4], [2, 2, 3]),
    "from_value_rowids": lambda lib: lib.RaggedTensor.from_value_rowids([3, 1, 4], [0, 0, 2], nrows=5),
    "from_value_rowids, no nrows": lambda lib: lib.RaggedTensor.from_value_rowids([3, 1, 4], [0, 0, 2]),
    "from_uniform_row_length": lambda lib: lib.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2),
    "from_uniform_row_length, empty": lambda lib: lib.RaggedTensor.from_uniform_row_length(lib.zeros([0]), 0, nrows=3),
    "uniform of ragged": lambda lib: lib.RaggedTensor.from_uniform_row_length(deep(lib), 2),
    "from_nested_row_splits": lambda lib: lib.RaggedTensor.from_nested_row_splits([1, 2, 3], [[0, 1, 3], [0, 2, 2, 3]]),
    "from_nested_row_lengths": lambda lib: lib.RaggedTensor.from_nested_row_lengths([1, 2, 3], [[1, 2], [2, 0, 1]]),
    "from_nested_value_rowids": lambda lib: lib.RaggedTensor.from_nested_value_rowids(
        [1, 2, 3], [[0, 0, 1], [0, 0, 2]], [3, 3]
    ),
    "from_tensor": lambda lib: lib.RaggedTensor.from_tensor(DENSE),
    "from_tensor, lengths": lambda lib: lib.RaggedTensor.from_tensor(DENSE, lengths=[1, 0, 3]),
    "from_tensor, padding": lambda lib: lib.RaggedTensor.from_tensor(DENSE, padding=0),
    "from_tensor, nested": lambda lib: lib.RaggedTensor.from_tensor(CUBE, lengths=([2, 0, 3], [1, 1, 2, 0, 1])),
    "from_tensor, rank 2": lambda lib: lib.RaggedTensor.from_tensor(CUBE, ragged_rank=2),
    "from_tensor, padding, rank 2": lambda lib: lib.RaggedTensor.from_tensor(CUBE, padding=0, ragged_rank=2),
    "from_tensor, padded vectors": lambda lib: lib.RaggedTensor.from_tensor(CUBE, padding=[0, 0]),
    "from_tensor, int32": lambda lib: lib.RaggedTensor.from_tensor(DENSE, row_splits_dtype=lib.int32),
    "from_sparse": lambda lib: lib.RaggedTensor.from_sparse(
        lib.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 2, 3], [4, 3])
    ),
    "constant": deep,
    "constant, empty": lambda lib: lib.ragged.constant([[], []]),
    "constant, dense": lambda lib: lib.ragged.constant([1, 2]),
    "constant, inner shape": lambda lib: lib.ragged.constant([[[1, 2]], []], inner_shape=(2,)),
    "constant, ragged rank": lambda lib: lib.ragged.constant([[[1, 2]], [[3, 4]]], ragged_rank=1),
    "constant, int32": lambda lib: lib.ragged.constant([[1.5], []], dtype="float64", row_splits_dtype=lib.int32),
    "range": lambda lib: lib.ragged.range([0, 5, 8], [3, 3, 12], 2),
    "range, one": lambda lib: lib.ragged.range([3, 0, 2]),
    "range, down": lambda lib: lib.ragged.range([0, 3], [2, 1], -1),
    "range, floats": lambda lib: lib.ragged.range([1.0, 2.5], row_splits_dtype=lib.int32),
    "splits to ids": lambda lib: lib.ragged.row_splits_to_segment_ids([0, 3, 3, 5, 6, 9]),
    "ids to splits": lambda lib: lib.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2, 3, 4, 4, 4]),
    "ids to splits, more": lambda lib: lib.ragged.segment_ids_to_row_splits([0, 2], 5, out_type=lib.int32),
}
PARTS: dict[str, Case] = {
    "nrows": lambda lib: [deep(lib).nrows(), deep(lib).nrows(out_type=lib.int32)],
    "row_starts": lambda lib: deep(lib).row_starts(),
    "row_limits": lambda lib: deep(lib).row_limits(),
    "row_lengths": lambda lib: [deep(lib).row_lengths(), deep(lib).row_lengths(axis=2)],
    "row_lengths of values": lambda lib: inner(lib).row_lengths(axis=2),
    "nested_row_lengths": lambda lib: list(deep(lib).nested_row_lengths()),
    "value_rowids": lambda lib: deep(lib).value_rowids(),
    "nested_value_rowids": lambda lib: list(deep(lib).nested_value_rowids()),
    "bounding_shape": lambda lib: [deep(lib).bounding_shape(), inner(lib).bounding_shape(out_type=lib.int32)],
    "bounding_shape of an axis": lambda lib: [deep(lib).bounding_shape(axis=1), deep(lib).bounding_shape(axis=[2, 0])],
    "with_values": lambda lib: pair(lib).with_values([4.0, 5.0, 6.0]),
    "with_flat_values": lambda lib: deep(lib).with_flat_values(lib.range(7)),
    "with_row_splits_dtype": lambda lib: deep(lib).with_row_splits_dtype(lib.int32),
    "merge_dims": lambda lib: [deep(lib).merge_dims(0, 1), deep(lib).merge_dims(1, 2), deep(lib).merge_dims(0, -1)],
    "merge_dims of values": lambda lib: [inner(lib).merge_dims(1, 2), inner(lib).merge_dims(0, 2)],
    "to_tensor": lambda lib: [deep(lib).to_tensor(), inner(lib).to_tensor(), words(lib).to_tensor()],
    "to_tensor, filled": lambda lib: deep(lib).to_tensor(-1),
    "to_tensor, shape": lambda lib: [
        deep(lib).to_tensor(shape=[3, 1, 4]), deep(lib).to_tensor(9, shape=[None, 3, None]),
        inner(lib).to_tensor([7, 8], shape=[5, 1, 2]),
    ],
    "to_tensor of equal rows": lambda lib: lib.RaggedTensor.from_tensor(CUBE, ragged_rank=2).to_tensor(),
    "to_sparse": lambda lib: [deep(lib).to_sparse(), inner(lib).to_sparse(), words(lib).to_sparse()],
}  # fmt: skip
BRACKETS: dict[str, Any] = {
    "row": 0, "last row": -1, "element": (0, 0), "inner row": (3, 1), "slice": slice(1, None),
    "back": slice(None, None, -1), "columns": (slice(None), slice(1, None)),
    "first columns": (slice(None), slice(None, 1)),
    "last columns": (slice(None), slice(-1, None)), "columns, back": (slice(None), slice(None, None, -1)),
    "columns, step": (slice(None), slice(None, None, 2)), "new first": None, "new second": (slice(None), None),
    "new last": (Ellipsis, None), "all": Ellipsis, "deep columns": (slice(None), slice(None), slice(1, 2)),
    "row of columns": (0, slice(1, None), slice(None, 1)), "dots": (Ellipsis, slice(None, 1)),
    "empty": slice(3, 1), "step": slice(None, None, 2), "columns to": (slice(1, 3), slice(0, -1)),
}  # fmt: skip
"""Not among them is `[:0:-1]`, of which TensorFlow makes no rows, where a list has all but the first."""
FUNCTIONS: dict[str, Case] = {
    "add": lambda lib: [pair(lib) + 1, 1 + pair(lib), pair(lib) + pair(lib), deep(lib) + deep(lib)],
    "add a column": lambda lib: lib.add(pair(lib), [[10], [20], [30]]),
    "add to all": lambda lib: [lib.add(pair(lib), [1]), lib.add(deep(lib), [[[1]]]), lib.add(inner(lib), [10, 20])],
    "multiply a cube": lambda lib: deep(lib) * [[[1]], [[2]], [[3]], [[4]]],
    "multiply rows of rows": lambda lib: deep(lib) * lib.ragged.constant([[1, 2], [3], [], [4, 5]])[:, :, None],
    "operators": lambda lib: [-pair(lib), pair(lib) - 1, 7 // (pair(lib) + 1), pair(lib) % 2, pair(lib) ** 2],
    "division": lambda lib: [pair(lib) / 2, 3.0 / floats(lib)],
    "comparisons": lambda lib: [pair(lib) < 2, pair(lib) >= 2, lib.equal(pair(lib), 2), lib.not_equal(pair(lib), [3])],
    "unary": lambda lib: [lib.exp(floats(lib)), lib.abs(floats(lib)), lib.nn.relu(floats(lib)), lib.round(floats(lib))],
    "functions of floats": lambda lib: [
        call(floats(lib) / 8)
        for call in (lib.log_sigmoid, lib.math.bessel_i0, lib.math.bessel_i1, lib.nn.leaky_relu, lib.nn.silu, lib.real)
    ],
    "functions of two": lambda lib: [
        lib.div(pair(lib), 2), lib.complex(floats(lib), floats(lib)), lib.saturate_cast(floats(lib) * 100, lib.uint8),
    ],
    "base64": lambda lib: [lib.encode_base64(words(lib)), lib.decode_base64(lib.encode_base64(words(lib)))],
    "embedding_lookup_sparse": lambda lib: lib.nn.embedding_lookup_sparse(
        lib.constant([[0.0], [1.0], [2.0], [4.0]]), lib.ragged.constant([[1, 2], [3]], dtype=lib.int64), None,
        combiner="sum",
    ),
    "logical": lambda lib: [lib.logical_not(pair(lib) > 1), lib.logical_and(pair(lib) > 1, pair(lib) < 3)],
    "binary": lambda lib: [
        lib.maximum(pair(lib), 2), lib.squared_difference(floats(lib), 1.0), lib.pow(floats(lib), 2.0),
    ],
    "cast": lambda lib: [lib.cast(pair(lib), lib.float32), lib.to_float(pair(lib))],
    "like": lambda lib: [lib.zeros_like(pair(lib)), lib.ones_like(floats(lib)), lib.identity(deep(lib))],
    "clip_by_value": lambda lib: lib.clip_by_value(floats(lib), 0.0, 3.0),
    "add_n": lambda lib: lib.add_n([pair(lib), pair(lib)]),
    "strings": lambda lib: [
        lib.strings.lower(words(lib)), lib.strings.length(words(lib)), lib.strings.upper(words(lib)),
    ],
    "strings.join": lambda lib: lib.strings.join([words(lib), words(lib)], "-"),
    "strings.substr": lambda lib: lib.strings.substr(words(lib), 0, 1),
    "strings.regex": lambda lib: lib.strings.regex_replace(words(lib), "[A-Z]", "x"),
    "strings.hash": lambda lib: lib.strings.to_hash_bucket_fast(words(lib), 100),
    "as_string": lambda lib: [lib.as_string(pair(lib)), lib.as_string(floats(lib), precision=1)],
    "map_flat_values": lambda lib: lib.ragged.map_flat_values(lib.multiply, deep(lib), deep(lib)),
    "sums": lambda lib: [lib.reduce_sum(deep(lib), axis) for axis in (None, 0, 1, 2, -1, [0, 1], [1, 2], [0, 1, 2])],
    "sums of values": lambda lib: [lib.reduce_sum(inner(lib), axis) for axis in (None, 0, 1, 2, [0, 2])],
    "sums that keep axes": lambda lib: [lib.reduce_sum(deep(lib), axis, keepdims=True) for axis in (0, 1, 2, [1, 2])],
    "products": lambda lib: [lib.reduce_prod(deep(lib), axis) for axis in (None, 0, 1, 2)],
    "extremes": lambda lib: [
        call(deep(lib), axis) for call in (lib.reduce_max, lib.reduce_min) for axis in (None, 0, 2)
    ],
    "means": lambda lib: [lib.reduce_mean(deep(lib), axis) for axis in (None, 0, [0, 1], [1, 2])],
    "means of floats": lambda lib: [lib.reduce_mean(floats(lib), axis, keepdims=True) for axis in (0, 1)],
    "variances": lambda lib: [
        call(floats(lib), axis) for call in (lib.math.reduce_variance, lib.math.reduce_std) for axis in (0, 1)
    ],
    "any and all": lambda lib: [
        call(deep(lib) > 2, axis) for call in (lib.reduce_any, lib.reduce_all) for axis in (None, 0, 1, 2)
    ],
    "concat": lambda lib: [lib.concat([pair(lib), pair(lib) * 2], axis) for axis in (0, 1, -1)],
    "concat, deep": lambda lib: [lib.concat([deep(lib), deep(lib) * 2], axis) for axis in (0, 1, 2)],
    "concat with a tensor": lambda lib: [
        lib.concat([pair(lib), [[7, 8]]], 0), lib.concat([pair(lib), [[7], [8], [9]]], 1),
    ],
    "stack": lambda lib: [lib.stack([pair(lib), pair(lib) * 2], axis) for axis in (0, 1, 2, -1)],
    "ragged.stack": lambda lib: [
        lib.ragged.stack([[1, 2], [3]]), lib.ragged.stack([CUBE, CUBE[:2]]), lib.ragged.stack([DENSE, DENSE], axis=1),
        lib.ragged.stack([pair(lib), [[7], [8], [9]]], axis=1), lib.ragged.stack([1, 2]),
    ],
    "tile": lambda lib: [lib.tile(pair(lib), [2, 1]), lib.tile(pair(lib), [1, 3]), lib.tile(deep(lib), [2, 2, 2])],
    "tile of values": lambda lib: lib.tile(inner(lib), [1, 2, 2]),
    "expand_dims": lambda lib: [lib.expand_dims(pair(lib), axis) for axis in (0, 1, 2, -1)],
    "squeeze": lambda lib: [
        lib.squeeze(lib.expand_dims(pair(lib), 0), 0), lib.squeeze(lib.expand_dims(pair(lib), 1), [1]),
        lib.squeeze(lib.expand_dims(pair(lib), 2), 2),
    ],
    "reverse": lambda lib: [lib.reverse(deep(lib), axis) for axis in ([0], [1], [2], [0, 2])],
    "size and rank": lambda lib: [lib.size(deep(lib)), lib.size(pair(lib), out_type=lib.int64), lib.rank(inner(lib))],
    "gather": lambda lib: [
        lib.gather(pair(lib), [2, 0]), lib.gather([1, 2, 3, 4], pair(lib)), lib.gather(pair(lib), [[2, 0], [1, 1]]),
        lib.gather(deep(lib), lib.ragged.constant([[3, 0], [1]])), lib.gather(inner(lib), [0, 2, 0]),
    ],
    "gather in rows": lambda lib: lib.gather(pair(lib), lib.ragged.constant([[1, 0], [], [0]]), axis=1, batch_dims=1),
    "gather_nd": lambda lib: [lib.gather_nd(pair(lib), [[0, 1], [2, 0]]), lib.gather_nd(deep(lib), [[3], [0]])],
    "where": lambda lib: [lib.where(pair(lib) > 1), lib.where(deep(lib) > 3), lib.where(inner(lib) > 3)],
    "where of rows": lambda lib: lib.where([True, False, True], pair(lib), pair(lib) * 10),
    "where of elements": lambda lib: [
        lib.where(pair(lib) > 1, pair(lib), pair(lib) * 10), lib.where_v2(pair(lib) > 1, pair(lib), 0),
    ],
    "one_hot": lambda lib: [lib.one_hot(pair(lib), 3), lib.one_hot(pair(lib), 4, on_value=5, off_value=1, axis=2)],
    "embedding_lookup": lambda lib: lib.nn.embedding_lookup(lib.constant([[0.0], [1.0], [2.0], [3.0]]), pair(lib)),
    "boolean_mask": lambda lib: [
        lib.ragged.boolean_mask(DENSE, np.array(DENSE) > 2), lib.ragged.boolean_mask(deep(lib), deep(lib) > 2),
        lib.ragged.boolean_mask(pair(lib), [True, False, True]),
        lib.ragged.boolean_mask(inner(lib), lib.ragged.constant([[True, False], [], [True]])),
        lib.ragged.boolean_mask(DENSE, [True, False, True]),
    ],
    "stack_dynamic_partitions": lambda lib: [
        lib.ragged.stack_dynamic_partitions(["a", "b", "c", "d", "e"], [3, 0, 2, 2, 3], 5),
        lib.ragged.stack_dynamic_partitions(DENSE, [1, 0, 1], 2), lib.ragged.stack_dynamic_partitions(DENSE, DENSE, 8),
        lib.ragged.stack_dynamic_partitions(pair(lib), lib.ragged.constant([[1, 0], [], [1]]), 2),
        lib.ragged.stack_dynamic_partitions(pair(lib), np.int64([1, 0, 1]), np.int64(2)),
    ],
    "cross": lambda lib: lib.ragged.cross([words(lib), pair(lib), lib.constant([["x", "y"]] * 3)]),
    "cross with sparse": lambda lib: lib.ragged.cross([pair(lib), words(lib).to_sparse()]),
    "cross_hashed": lambda lib: [
        lib.ragged.cross_hashed([words(lib), pair(lib)]), lib.ragged.cross_hashed([words(lib)], num_buckets=10),
        lib.ragged.cross_hashed([pair(lib), words(lib)], num_buckets=0, hash_key=7),
        lib.ragged.cross_hashed([pair(lib), words(lib)], hash_key=0),
    ],
    "sparse.cross_hashed": lambda lib: [
        lib.sparse.cross_hashed([words(lib).to_sparse(), pair(lib).to_sparse()], num_buckets=50),
        lib.sparse.cross_hashed([lib.constant([["", "long word " * 9]]), lib.constant([[-3, 4]])]),
    ],
    "ragged_fill_empty_rows": lambda lib: [
        *lib.ragged_fill_empty_rows(np.int64([0, 0, 2]), [1, 2, 3], np.int64(4), 9),
        *lib.ragged_fill_empty_rows_grad(np.int64([0, 1, 3]), [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
    "strings.split": lambda lib: [
        lib.strings.split(source, result_type="RaggedTensor")
        for source in (["a b", "", "c"], [["a b", "c"]], "d e f", lib.ragged.constant([["a b"], ["c", "d e"]]))
    ],
    "string_split": lambda lib: lib.string_split(["a,b", "c"], ",", result_type="RaggedTensor"),
    "split": lambda lib: [*lib.split(pair(lib), 3), *lib.split(deep(lib), [1, 3]), *lib.split(inner(lib), 2, axis=2)],
    "strings.reduce_join": lambda lib: [
        lib.strings.reduce_join(words(lib), axis=1, separator="-"), lib.strings.reduce_join(words(lib), axis=0),
        lib.strings.reduce_join(words(lib)),
    ],
    "dynamic_partition": lambda lib: lib.dynamic_partition(pair(lib), lib.ragged.constant([[1, 0], [], [1]]), 2),
    "tensors before": lambda lib: [
        lib.constant([[1], [2], [3]]) * pair(lib), lib.constant(2) - pair(lib),
    ],
    "dropout": lambda lib: lib.nn.dropout(floats(lib), rate=0.0),
    "cond": lambda lib: lib.cond(lib.constant(True), lambda: pair(lib) * 2, lambda: pair(lib)),
    "while_loop": lambda lib: lib.while_loop(
        lambda i, rows: i < 3, lambda i, rows: (i + 1, rows * 2), [lib.constant(0), pair(lib)]
    )[1],
}  # fmt: skip
FED: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda lib, x: x,
    "brackets": lambda lib, x: [x[0], x[1:], x[:, :1], x[::-1], x[:, :, 1:]],
    "to_tensor": lambda lib, x: [x.to_tensor(), x.to_tensor(shape=[4, None, 2])],
    "sums": lambda lib, x: [lib.reduce_sum(x, axis) for axis in (0, 1, 2)],
    "joined": lambda lib, x: [lib.concat([x, x], 1), lib.stack([x, x], 1), lib.tile(x, [2, 1, 2])],
    "rows": lambda lib, x: [x.merge_dims(0, 1), lib.gather(x, [2, 0]), lib.expand_dims(x, 1)],
    "elements": lambda lib, x: [lib.cast(x, lib.float32), lib.abs(x), -x],
}
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "sums of rows": lambda lib, x: lib.reduce_sum(lib.RaggedTensor.from_row_lengths(x, [2, 0, 3]) ** 2, axis=1),
    "sums of columns": lambda lib, x: lib.reduce_sum(lib.RaggedTensor.from_row_lengths(x, [2, 0, 3]) ** 2, axis=0),
    "maxima": lambda lib, x: lib.reduce_max(lib.RaggedTensor.from_row_lengths(x, [2, 3]), axis=1) ** 2,
    "means": lambda lib, x: lib.reduce_mean(lib.RaggedTensor.from_row_lengths(x, [2, 3]), axis=1) ** 2,
    "to_tensor": lambda lib, x: lib.square(lib.RaggedTensor.from_row_lengths(x, [2, 0, 3]).to_tensor()),
    "joined": lambda lib, x: (
        lib.concat(
            [lib.RaggedTensor.from_row_lengths(x, [2, 3]), lib.RaggedTensor.from_row_lengths(x**2, [3, 2])], 1
        ).flat_values
    ),
    "a column": lambda lib, x: (lib.RaggedTensor.from_row_lengths(x, [2, 3]) * lib.reshape(x[:2], [2, 1])).flat_values,
    "brackets": lambda lib, x: (lib.RaggedTensor.from_row_lengths(x, [2, 3])[:, 1:] ** 2).flat_values,
}


def plain(value: Any) -> Any:
    """The value as nested lists, with the dtypes of its parts."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(each) for each in value]
    if hasattr(value, "to_list"):
        return (
            "ragged",
            value.to_list(),
            value.flat_values.dtype.name,
            [part.dtype.name for part in value.nested_row_splits],
        )
    if hasattr(value, "dense_shape"):
        return "sparse", *[plain(part) for part in (value.indices, value.values, value.dense_shape)]
    found = np.asarray(value)
    kind = "text" if found.dtype.kind in "SO" else found.dtype.name
    return kind, found.tolist()


def shapes(fetches: Any) -> Any:
    """What the graph knows of the shapes."""
    if isinstance(fetches, (list, tuple)):
        return [shapes(each) for each in fetches]
    return None if fetches.shape.ndims is None else fetches.shape.as_list()


def agree(mine: Any, other: Any) -> bool:
    """Whether two results are equal, floats nearly."""
    if isinstance(mine, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(mine) == len(other) and all(map(agree, mine, other))
    if isinstance(mine, float) and isinstance(other, float):
        return bool(np.isclose(mine, other, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(mine == other) and type(mine) is type(other)


async def ours(build: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    with af.Graph().as_default() as graph:
        fetches, feeds = build(af, *args)
        async with af.Session(graph=graph) as session:
            return plain(await session.run(fetches, feeds)), shapes(fetches)


def theirs(build: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    v1 = tensorflow()
    with v1.Graph().as_default() as graph:
        fetches, feeds = build(v1, *args)
        with v1.Session(graph=graph) as session:
            return plain(session.run(fetches, feeds)), shapes(fetches)


def compared(build: Callable[..., Any], *args: Any) -> None:
    (mine, known), (other, expected) = asyncio.run(ours(build, *args)), theirs(build, *args)
    assert agree(mine, other), (mine, other)
    assert fits(known, expected), (known, expected)


def fits(known: Any, expected: Any) -> bool:
    """Whether no size that the two graphs know differs."""
    if (
        isinstance(known, list)
        and isinstance(expected, list)
        and any(isinstance(each, list) for each in (*known, *expected))
    ):
        return all(map(fits, known, expected))
    if known is None or expected is None:
        return True
    return len(known) == len(expected) and all(a == b or None in (a, b) for a, b in zip(known, expected, strict=True))


@pytest.mark.parametrize("name", [*FACTORIES, *PARTS, *FUNCTIONS])
def test_a_call_gives_what_tensorflow_gives(name: str) -> None:
    compared(lambda lib: ({**FACTORIES, **PARTS, **FUNCTIONS}[name](lib), {}))


@pytest.mark.parametrize("name", BRACKETS)
def test_brackets_take_what_tensorflow_takes(name: str) -> None:
    compared(lambda lib: (deep(lib)[BRACKETS[name]], {}))


@pytest.mark.parametrize("name", FED)
def test_a_ragged_tensor_is_fed(name: str) -> None:
    def build(lib: Any) -> Any:
        made, feeds = fed(lib)
        return FED[name](lib, made), feeds

    compared(build)


@pytest.mark.parametrize("name", FORMS)
def test_gradients_flow_through_the_values(name: str) -> None:
    def build(lib: Any) -> Any:
        x = lib.constant([1.0, -2.0, 3.0, 0.5, 2.0])
        (slope,) = lib.gradients(lib.reduce_sum(FORMS[name](lib, x)), [x])
        return lib.convert_to_tensor(slope), {}

    compared(build)
