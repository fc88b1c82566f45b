"""Functions of RaggedTensors. `oracle/test_ragged.py` compares many more calls with TensorFlow."""

import pytest

import aioflow as af
from aioflow.errors import InvalidArgumentError

ROWS = [[3, 1], [], [4]]
DEEP = [[[1, 2], [3]], [[4, 5, 6]], [], [[], [7]]]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def rows():
    return af.ragged.constant(ROWS)


def floats():
    return af.cast(rows(), af.float32)


def deep():
    return af.ragged.constant(DEEP)


CASES = {
    "operators": (lambda: 1 + rows() * rows() - [[1], [2], [3]], [[9, 1], [], [14]]),
    "a unary op": (lambda: af.square(deep()), [[[1, 4], [9]], [[16, 25, 36]], [], [[], [49]]]),
    "a broadcast row of rows": (
        lambda: deep() * af.ragged.constant([[1, 2], [3], [], [4, 5]])[:, :, None],
        [[[1, 2], [6]], [[12, 15, 18]], [], [[], [35]]],
    ),
    "a broadcast ragged row": (lambda: af.add(af.ragged.constant([[1, 2]]), [[10], [20]]), [[11, 12], [21, 22]]),
    "a list of values": (lambda: af.add_n([rows(), rows(), rows()]), [[9, 3], [], [12]]),
    "strings": (lambda: af.strings.join([af.as_string(rows()), "!"]), [[b"3!", b"1!"], [], [b"4!"]]),
    "a loss of elements": (
        lambda: af.round(af.nn.sigmoid_cross_entropy_with_logits(labels=floats() * 0, logits=floats())),
        [[3.0, 1.0], [], [4.0]],
    ),
    "a sum of rows": (lambda: af.reduce_sum(rows(), axis=1), [4, 0, 4]),
    "a sum of columns": (lambda: af.reduce_sum(rows(), axis=0), [7, 1]),
    "a sum of rows of rows": (lambda: af.reduce_sum(deep(), axis=1), [[4, 2], [4, 5, 6], [], [7]]),
    "a mean": (lambda: af.reduce_mean(rows(), axis=0, keepdims=True), [[3.5, 1.0]]),
    "any": (lambda: af.reduce_any(rows() > 3, axis=1), [False, False, True]),
    "all": (lambda: af.reduce_all(rows() > 3, axis=1), [False, True, True]),
    "joined rows": (lambda: af.concat([rows(), [[7, 8, 9]]], 0), [[3, 1], [], [4], [7, 8, 9]]),
    "joined columns": (lambda: af.concat([rows(), rows()], -1), [[3, 1, 3, 1], [], [4, 4]]),
    "stacked": (lambda: af.stack([rows(), rows()], 1), [[[3, 1], [3, 1]], [[], []], [[4], [4]]]),
    "stacked tensors": (lambda: af.ragged.stack([[[1, 2]], [[3], [4]]]), [[[1, 2]], [[3], [4]]]),
    "tiled": (lambda: af.tile(rows(), [1, 2]), [[3, 1, 3, 1], [], [4, 4]]),
    "a row taken twice": (lambda: af.gather(deep(), [0, 0]), [[[1, 2], [3]], [[1, 2], [3]]]),
    "rows at ragged places": (lambda: af.gather(["a", "b"], af.ragged.constant([[1], [0, 1]])), [[b"b"], [b"a", b"b"]]),
    "chosen elements": (lambda: af.where(rows() > 2, rows(), -rows()), [[3, -1], [], [4]]),
    "places of true": (lambda: af.where(rows() > 2), [[0, 0], [2, 0]]),
    "a column of axis 1": (lambda: af.squeeze(af.expand_dims(rows(), 1), 1), ROWS),
    "reversed": (lambda: af.reverse(rows(), [0, 1]), [[4], [], [1, 3]]),
    "one_hot": (lambda: af.one_hot(rows() - 3, 2, dtype=af.int32), [[[1, 0], [0, 0]], [], [[0, 1]]]),
    "size": (lambda: af.stack([af.size(deep()), af.rank(deep())]), [7, 3]),
    "embedded": (lambda: af.nn.embedding_lookup([[5], [6], [7], [8], [9]], rows()), [[[8], [6]], [], [[9]]]),
    "a row": (lambda: deep()[0], [[1, 2], [3]]),
    "an element": (lambda: deep()[1, 0, 2], 6),
    "part of rows": (lambda: deep()[1:, :1], [[[4, 5, 6]], [], [[]]]),
    "ends of inner rows": (lambda: deep()[..., -1:], [[[2], [3]], [[6]], [], [[], [7]]]),
    "every second": (lambda: rows()[::-2, ::-1], [[4], [1, 3]]),
    "a mask": (lambda: af.ragged.boolean_mask(deep(), deep() > 4), [[[], []], [[5, 6]], [], [[], [7]]]),
    "partitions": (lambda: af.ragged.stack_dynamic_partitions(rows(), [1, 1, 0], 3), [[[4]], [[3, 1], []], []]),
    "a range": (lambda: af.ragged.range([5, 0], [0, 3], [-2, 1]), [[5, 3, 1], [0, 1, 2]]),
    "a cross": (lambda: af.ragged.cross([rows(), [["a"]] * 3]), [[b"3_X_a", b"1_X_a"], [], [b"4_X_a"]]),
    "words": (lambda: af.strings.split([["a b"], ["c"]], result_type="RaggedTensor"), [[[b"a", b"b"]], [[b"c"]]]),
    "a function of each row": (lambda: af.map_fn(lambda row: af.reduce_sum(row * row), rows()), [10, 0, 16]),
    "a function of rows of rows": (lambda: af.map_fn(lambda row: af.size(row), deep()), [3, 3, 0, 1]),
    "folded rows": (lambda: af.foldl(lambda total, row: total + af.reduce_sum(row), rows(), 0), 8),
    "filled rows": (lambda: af.ragged_fill_empty_rows([2, 0], [5, 6], 3, 9)[1], [6, 9, 5]),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", CASES)
async def test_a_function_of_rows_has_the_result_of_nested_lists(case, graph):
    build, expected = CASES[case]
    async with af.Session(graph=graph) as session:
        found = await session.run(build())
    assert (found.to_list() if hasattr(found, "to_list") else found.tolist()) == expected


async def test_gradients_reach_the_values_through_rows(graph):
    x = af.constant([1.0, 2.0, 3.0])
    made = af.RaggedTensor.from_row_lengths(x, [2, 0, 1])
    losses = {
        "sum": (af.reduce_sum(made * made, axis=1), [2, 4, 6]),
        "max": (af.reduce_max(made, axis=1)[:1], [0, 1, 0]),
        "tensor": (made.to_tensor() * [[1.0, 10.0]], [1, 10, 1]),
        "joined": (af.concat([made, made], 1).flat_values, [2, 2, 2]),
        "part": (made[:, 1:].flat_values, [0, 1, 0]),
        "column": ((made * [[5.0], [6.0], [7.0]]).flat_values, [5, 5, 7]),
    }
    async with af.Session(graph=graph) as session:
        for name, (loss, expected) in losses.items():
            (slope,) = af.gradients(loss, x)
            assert (name, (await session.run(af.convert_to_tensor(slope))).tolist()) == (name, expected)


def test_the_graph_has_no_checks_for_operands_of_the_same_rows(graph):
    made = af.ragged.placeholder(af.float32, 2, [])
    before = len(graph.get_operations())
    total = made * made + made
    assert len(graph.get_operations()) == before + 2
    assert total.values.row_splits is made.values.row_splits


REFUSED = {
    "a column": (lambda: rows()[:, 0], ValueError, "cannot take a column"),
    "a row": (lambda: rows()[3], ValueError, "row 3 is none of 3 rows"),
    "too many axes": (lambda: rows()[0, 0, 0], ValueError, "the key has 3 axes"),
    "a mask in brackets": (lambda: rows()[[True, False, True]], TypeError, "af.ragged.boolean_mask"),
    "other lengths": (lambda: rows() + af.ragged.constant([[1], [2], [3]]), InvalidArgumentError, "differ in length"),
    "other numbers of rows": (lambda: rows() + af.ragged.constant([[1], [2]]), ValueError, "2 and 3 rows"),
    "an axis": (lambda: af.reduce_sum(rows(), axis=2), ValueError, "axis is 2, and must be from -2 to 1"),
    "other ranks": (lambda: af.concat([rows(), deep()], 0), ValueError, "same, known rank"),
    "nothing to stack": (lambda: af.ragged.stack([]), ValueError, "at least one value"),
    "no axis": (lambda: af.squeeze(rows()), ValueError, "axis is needed"),
    "a size": (lambda: af.squeeze(rows(), 0), ValueError, "has size 3"),
    "a mask of numbers": (lambda: af.ragged.boolean_mask([[1]], [[1]]), TypeError, "must be bools, not int32"),
    "text in ranges": (lambda: af.ragged.range(["a"]), TypeError, "not string"),
    "indices": (lambda: af.gather(rows(), [0.5]), TypeError, "indices must be integers, not float32"),
    "a matrix product": (lambda: af.matmul(rows(), rows()), TypeError, "use its to_tensor()"),
    "a cross of floats": (lambda: af.ragged.cross([af.ragged.constant([[0.5]])]), TypeError, "strings or integers"),
    "buckets": (lambda: af.ragged.cross_hashed([rows()], num_buckets=-1), ValueError, "num_buckets is -1"),
    "values of another number": (
        lambda: af.ragged.map_flat_values(lambda x: x[:1], rows()), ValueError, "[1]",
    ),
    "one of x and y": (lambda: af.where(rows() > 1, rows()), ValueError, "x and y must both be given"),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_call_is_refused_and_leaves_the_graph_as_it_was(case, graph):
    build, kind, text = REFUSED[case]
    with pytest.raises(kind) as caught:
        build()
    assert text in str(caught.value)


async def test_a_run_refuses_indices_behind_the_ends_of_rows(graph):
    cases = {
        "behind the end of its row": af.gather(rows(), [[5], [0], [0]], axis=1, batch_dims=1),
        "deltas must not be 0": af.ragged.range([1], [3], af.placeholder_with_default(0, [])),
    }
    async with af.Session(graph=graph) as session:
        for text, made in cases.items():
            with pytest.raises(InvalidArgumentError, match=text):
                await session.run(made)
