"""Sparse tensors: fed and fetched as one value, checked, and computed with; and sets, which are rows of them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import aioflow as af
from aioflow import constant, convert_to_tensor, placeholder
from aioflow.graph.composites import composite_of
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.sparse.sets import set_difference, set_intersection, set_size, set_union
from aioflow.library import sparse
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def small(dtype=np.float64):
    return SparseTensor([[0, 1], [2, 0]], np.array([1, 2], dtype), [3, 4])


def value_of(tensor):
    return SparseTensorValue(*evaluate([tensor.indices, tensor.values, tensor.dense_shape]))


MATRICES = arrays(np.float64, (3, 4), elements=st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5]))


# The value


def test_it_shows_what_its_parts_show():
    tensor = small()
    assert (tensor.dtype, tensor.shape, tensor.get_shape()) == (af.float64, (3, 4), (3, 4))
    assert (tensor.name, tensor.op, tensor.graph) == (tensor.values.name, tensor.values.op, tensor.values.graph)
    assert repr(tensor) == f"<af.SparseTensor '{tensor.name}' float64[3, 4]>"
    assert tensor.indices.dtype is tensor.dense_shape.dtype is af.int64
    sizes = placeholder(af.int32, [2])
    assert SparseTensor([[0, 0]], [1.0], sizes).shape.as_list() == [None, None]
    assert SparseTensor(placeholder(af.int64), [1.0], placeholder(af.int64)).shape.ndims is None


def test_it_is_made_of_its_value_and_of_itself():
    tensor = small()
    assert SparseTensor.from_value(tensor) is tensor
    made = SparseTensor.from_value(SparseTensorValue(np.array([[1]]), np.array([2.0]), np.array([3])))
    assert made.shape == (3,)
    assert sparse.convert_to_tensor_or_sparse_tensor(tensor, af.float64) is tensor
    assert isinstance(sparse.convert_to_tensor_or_sparse_tensor([1.0]), af.Tensor)
    with pytest.raises(TypeError, match="neither a SparseTensor nor"):
        SparseTensor.from_value([1.0])
    with pytest.raises(TypeError, match="has dtype float64, float32 is needed"):
        sparse.convert_to_tensor_or_sparse_tensor(tensor, af.float32)


def test_it_is_not_made_dense_by_itself():
    with pytest.raises(TypeError, match=r"use af\.sparse_tensor_to_dense"):
        convert_to_tensor(small())
    with pytest.raises(TypeError, match=r"use af\.sparse_tensor_to_dense"):
        af.reduce_sum(small())


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        (([[0.5, 1.0]], [1.0], [3, 4]), TypeError, "indices must be integers, not float32"),
        (([0, 1], [1.0], [3, 4]), ValueError, "not compatible"),
        (([[0, 1]], [1.0, 2.0], [3, 4]), ValueError, "1 positions need as many values"),
        (([[0, 1]], [1.0], [3, 4, 5]), ValueError, "positions of 2 numbers do not fit"),
    ],
)
def test_its_parts_must_fit_together(parts, error, message):
    with pytest.raises(error, match=message):
        SparseTensor(*parts)


async def test_it_is_fed_and_fetched_as_one_value(graph):
    tensor = sparse.sparse_placeholder(af.float32, [None, 4], name="sparse")
    fixed = sparse.sparse_placeholder(af.int32, [2])
    assert (tensor.name, fixed.shape) == ("sparse/values:0", (2,))
    doubled = sparse.sparse_dense_cwise_mul(tensor, 2.0)
    assert composite_of(doubled) is not None
    fed = SparseTensorValue(np.array([[0, 1], [2, 3]]), np.array([1.0, 2.0]), np.array([3, 4]))
    async with af.Session(graph=graph) as session:
        found, dense = await session.run([doubled, sparse.sparse_tensor_to_dense(tensor)], {tensor: fed})
        assert isinstance(found, SparseTensorValue)
        assert found.values.tolist() == [2, 4]
        assert dense.sum() == 3
        again = await session.run(fixed, {fixed: (np.array([[1]]), [7], [2])})
        assert [part.tolist() for part in again] == [[[1]], [7], [2]]
        step = session.make_callable(doubled, feeds=[tensor])
        assert (await step(fed)).dense_shape.tolist() == [3, 4]
        with pytest.raises(ValueError, match="2 values"):
            await session.run(doubled, {tensor: fed[:2]})


def test_operators_of_dense_tensors():
    tensor = small()
    assert value_of(tensor * np.array([[1.0], [2.0], [3.0]])).values.tolist() == [1, 6]
    assert value_of(tensor / 2.0).values.tolist() == [0.5, 1]


# Computing


@given(MATRICES, MATRICES)
def test_sums_products_and_joins_are_those_of_dense_tensors(a, b):
    with af.Graph().as_default():
        x, y = sparse.from_dense(a), sparse.from_dense(b)
        dense = {
            "sum": (sparse.sparse_add(x, y), a + b),
            "joined": (sparse.sparse_concat(0, [x, y]), np.concatenate([a, b])),
            "turned": (sparse.sparse_transpose(x), a.T),
            "cut": (sparse.sparse_slice(x, [1, 1], [2, 9]), a[1:3, 1:]),
            "reshaped": (sparse.sparse_reshape(x, [2, -1]), a.reshape(2, 6)),
        }
        found = evaluate([sparse.sparse_tensor_to_dense(tensor) for tensor, _ in dense.values()])
        for value, (_, expected) in zip(found, dense.values(), strict=True):
            np.testing.assert_allclose(value, expected)
        product = sparse.sparse_tensor_dense_matmul(x, b, adjoint_b=True)
        np.testing.assert_allclose(evaluate(product), a @ b.T)
        np.testing.assert_allclose(evaluate(sparse.sparse_reduce_sum(y, 1)), b.sum(1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64])
def test_dtypes_are_kept(dtype):
    tensor = small(dtype)
    made = {
        "dense": sparse.sparse_tensor_to_dense(tensor),
        "product": sparse.sparse_tensor_dense_matmul(tensor, np.ones((4, 1), dtype)),
        "total": sparse.sparse_reduce_sum(tensor),
        "sum": sparse.sparse_add(tensor, tensor).values,
        "filled": sparse.sparse_fill_empty_rows(tensor, 0)[0].values,
    }
    for name, value in made.items():
        assert evaluate(value).dtype == dtype, name


def test_narrow_floats_are_summed_as_wide_ones():
    count = 4096
    indices = np.stack([np.zeros(count, int), np.arange(count)], 1)
    tensor = SparseTensor(indices, np.ones(count, np.float16), [1, count])
    assert evaluate(sparse.sparse_reduce_sum(tensor, 1)) == count
    assert evaluate(sparse.sparse_tensor_dense_matmul(tensor, np.ones((count, 1), np.float16))) == count


def test_text_fills_and_joins_too():
    words = SparseTensor([[1, 0]], ["b"], [3, 2])
    filled, empty = sparse.sparse_fill_empty_rows(words, "-")
    assert value_of(filled).values.tolist() == [b"-", b"b", b"-"]
    assert evaluate(empty).tolist() == [True, False, True]
    joined = sparse.sparse_concat(1, [words, words])
    assert evaluate(sparse.sparse_tensor_to_dense(joined)).tolist()[1] == [b"b", b"", b"b", b""]


def test_shapes_are_known_as_far_as_they_can_be():
    x, y = small(), sparse.sparse_placeholder(af.float64, [None, 4])
    assert sparse.sparse_concat(0, [x, x]).shape == (6, 4)
    assert sparse.sparse_concat(0, [x, y]).shape.ndims == 2
    assert sparse.sparse_reshape(x, [2, -1]).shape == (2, 6)
    assert sparse.sparse_slice(x, [1, 0], [9, 2]).shape == (2, 2)
    assert sparse.sparse_transpose(x).shape == (4, 3)
    assert sparse.sparse_tensor_to_dense(x).shape == (3, 4)
    assert sparse.sparse_tensor_dense_matmul(x, np.ones((4, 2))).shape == (3, 2)
    assert sparse.sparse_reduce_sum(x, 1, keepdims=True).shape == (3, 1)


async def test_gradients_reach_the_values(graph):
    values, weights = af.Variable([1.0, 2.0]), af.Variable(np.ones((4, 2), np.float32))
    tensor = SparseTensor([[0, 1], [2, 0]], values, [3, 4])
    loss = af.reduce_sum(af.square(sparse.sparse_tensor_dense_matmul(sparse.sparse_reorder(tensor), weights)))
    gradients = [convert_to_tensor(gradient) for gradient in af.gradients(loss, [values, weights])]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        by_values, by_weights = await session.run(gradients)
    np.testing.assert_allclose(by_values, [4, 8])
    np.testing.assert_allclose(by_weights[:2], [[8, 8], [2, 2]])


# Errors

BUILT = {
    "inner sizes": (lambda x: sparse.sparse_tensor_dense_matmul(x, np.ones((3, 2))), "the inner sizes 4 and 3 differ"),
    "a vector times": (lambda x: sparse.sparse_tensor_dense_matmul(x, np.ones(4)), "rank 2 is needed"),
    "two dense ones": (lambda x: sparse.sparse_add(1.0, 2.0), "at least one of the two must be a SparseTensor"),
    "shapes of a sum": (lambda x: sparse.sparse_add(x, np.ones((3, 3))), "not compatible"),
    "sizes of a join": (
        lambda x: sparse.sparse_concat(0, [x, SparseTensor([[0, 0]], [1.0], [3, 5])]), "along axis 1 differ",
    ),
    "no such axis of one": (lambda x: sparse.sparse_concat(-3, [x]), "axis -3 is out of range for rank 2"),
    "no such axis": (lambda x: sparse.sparse_concat(2, [x, x]), "axis 2 is out of range for rank 2"),
    "another number of elements": (lambda x: sparse.sparse_reshape(x, [5]), "12 elements do not fit shape [5]"),
    "no order": (lambda x: sparse.sparse_transpose(x, [0, 0]), "perm [0, 0] is not a permutation of the axes"),
    "a mask too long": (lambda x: sparse.sparse_retain(x, [True] * 3), "not compatible"),
    "broadcast to more": (lambda x: x * np.ones((2, 3, 4)), "cannot be broadcast to [3, 4]"),
    "softmax of a vector": (
        lambda x: sparse.sparse_softmax(SparseTensor([[0]], [1.0], [3])), "rank 2 or more is needed",
    ),
    "values of another dtype": (lambda x: sparse.sparse_tensor_to_dense(x, "a"), "float64"),
    "an axis named twice": (lambda x: sparse.sparse_reduce_sum(x, [0, -2]), "name an axis twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", BUILT)
def test_what_cannot_be_built_is_refused(case, graph):
    build, message = BUILT[case]
    tensor = small()
    before = graph.version
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        build(tensor)
    assert graph.version <= before + 3  # the constants of a case's own second tensor


RUN = {
    "a position outside": ([[0, 1], [3, 0]], sparse.sparse_tensor_to_dense, "index 3 along axis 0 is out of range"),
    "out of order": ([[2, 0], [0, 1]], sparse.sparse_tensor_to_dense, "position [0, 1], number 1, is out of order"),
    "repeated": ([[2, 0], [2, 0]], sparse.sparse_tensor_to_dense, "position [2, 0], number 1, is repeated"),
    "a row outside": (
        [[0, 1], [3, 0]], lambda x: sparse.sparse_tensor_dense_matmul(x, np.ones((4, 1))), "row 3 is out of range",
    ),
    "outside of a sum": ([[0, 1], [0, 9]], lambda x: sparse.sparse_reduce_sum(x, 0), "index 9 along axis 1"),
    "rows torn apart": ([[0, 1], [0, 9]], lambda x: set_size(SparseTensor([[1, 0], [0, 0], [1, 1]], [1, 2, 3], [2, 2])),
                        "the positions of row [1] are not together"),
}  # fmt: skip


@pytest.mark.parametrize("case", RUN)
def test_positions_are_checked_in_the_run(case):
    positions, build, message = RUN[case]
    indices = placeholder(af.int64, [None, 2])
    made = build(SparseTensor(indices, constant([1.0, 2.0], af.float64), [3, 4]))
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(made, {indices: np.array(positions)})


def test_shapes_of_a_sum_are_compared_in_the_run():
    sizes = placeholder(af.int64, [2])
    total = sparse.sparse_add(small(), SparseTensor([[0, 0]], np.array([1.0]), sizes))
    with pytest.raises(ValueError, match=re.escape("shapes [3, 4] and [3, 5] differ")):
        evaluate(total.values, {sizes: np.array([3, 5])})


# Sets


@given(arrays(np.int64, (2, 3), elements=st.integers(0, 4)), arrays(np.int64, (2, 2), elements=st.integers(0, 4)))
def test_sets_are_pythons(a, b):
    with af.Graph().as_default():
        made = {
            "intersection": (set_intersection(a, b), set.intersection),
            "union": (set_union(a, sparse.SparseTensor(*held(b))), set.union),
            "difference": (set_difference(a, b), set.difference),
        }
        for found, function in made.values():
            rows = [sorted(function(set(x), set(y))) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
            value = value_of(found)
            assert value.values.tolist() == [item for row in rows for item in row]
            assert value.dense_shape.tolist() == [2, max(map(len, rows))]
        assert evaluate(set_size(a)).tolist() == [len(set(row)) for row in a.tolist()]


def held(matrix):
    indices = np.array(list(np.ndindex(matrix.shape)))
    return indices, matrix.ravel(), np.array(matrix.shape)


def test_sets_of_different_batches_are_refused():
    with pytest.raises(ValueError, match="not compatible"):
        set_union([[1], [2]], [[1]])
    x = placeholder(af.int32, [None, None])
    with pytest.raises(ValueError, match="differ before the last axis"):
        evaluate(set_union(x, [[1]]).values, {x: np.zeros((2, 1), np.int32)})
    with pytest.raises(TypeError, match="dtype float32 is not supported"):
        set_size([[1.0]])


# Divided, widened, merged


SIZES = st.integers(1, 4)


@given(a=MATRICES, parts=SIZES, axis=st.sampled_from([0, 1, -1]))
def test_parts_are_numpys(a, parts, axis):
    with af.Graph().as_default():
        found = af.sparse_split(sp_input=sparse.from_dense(a), num_split=parts, axis=axis)
        for ours, theirs in zip(found, np.array_split(a, parts, axis), strict=True):
            value = value_of(ours)
            assert value.dense_shape.tolist() == list(theirs.shape)
            np.testing.assert_array_equal(evaluate(sparse.sparse_tensor_to_dense(ours)), theirs)


def test_a_shape_is_widened_or_made_tight():
    assert value_of(af.sparse_reset_shape(small())).dense_shape.tolist() == [3, 2]
    assert value_of(af.sparse_reset_shape(small(), [5, 4])).dense_shape.tolist() == [5, 4]
    with pytest.raises(af.errors.InvalidArgumentError, match="not be smaller"):
        af.sparse_reset_shape(small(), [2, 4])


def test_ids_become_the_last_axis():
    ids = SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([3, 1, 0]), [2, 2])
    merged = value_of(af.sparse_merge(ids, SparseTensor(ids.indices, [0.5, 1.5, 2.5], ids.dense_shape), 5))
    assert merged.indices.tolist() == [[0, 1], [0, 3], [1, 0]]
    assert (merged.values.tolist(), merged.dense_shape.tolist()) == ([1.5, 0.5, 2.5], [2, 5])
    assert evaluate(af.sparse_to_indicator(ids, 4)).tolist() == [
        [False, True, False, True],
        [True, False, False, False],
    ]
    pair = value_of(af.sparse_merge([ids, ids], SparseTensor(ids.indices, [1, 2, 3], ids.dense_shape), [5, 4]))
    assert pair.indices.tolist() == [[0, 1, 1], [0, 3, 3], [1, 0, 0]]
    with pytest.raises(ValueError, match="index 3 is out of range for size 3"):
        af.sparse_to_indicator(ids, 3)


def test_slices_are_masked_by_their_index():
    slices = af.IndexedSlices(constant([[1.0], [2.0], [3.0]]), constant([12, 26, 37]))
    kept = af.sparse_mask(slices, [12, 37])
    assert [value.tolist() for value in evaluate([kept.values, kept.indices])] == [[[2.0]], [26]]


@pytest.mark.parametrize(("combiner", "divisor"), [("sum", [1, 1]), ("mean", [3, 1]), ("sqrtn", [5**0.5, 1])])
@pytest.mark.parametrize("table", [lambda rows: rows, lambda rows: [rows[::2], rows[1::2]]])
def test_rows_are_looked_up_and_combined(combiner, divisor, table):
    rows = np.arange(12.0).reshape(6, 2)
    ids = SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([4, 1, 3]), [2, 2])
    weights = SparseTensor(ids.indices, constant([2.0, 1.0, 1.0], af.float64), ids.dense_shape)
    found = evaluate(af.nn.embedding_lookup_sparse(table(rows), ids, weights, combiner=combiner))
    np.testing.assert_allclose(found, np.stack([2 * rows[4] + rows[1], rows[3]]) / np.array(divisor)[:, None])
    plain = evaluate(af.nn.embedding_lookup_sparse(table(rows), ids, None, combiner=combiner))
    count = {"sum": 1, "mean": 2, "sqrtn": 2**0.5}[combiner]
    np.testing.assert_allclose(plain, np.stack([(rows[4] + rows[1]) / count, rows[3]]))


def test_a_safe_look_up_leaves_out_what_is_no_row_and_fills_empty_rows():
    rows = constant(np.arange(12.0).reshape(6, 2))
    ids = SparseTensor([[0, 0], [0, 1], [2, 0]], np.array([4, -1, 3]), [3, 2])
    found = evaluate(af.nn.safe_embedding_lookup_sparse([rows], ids))
    assert found.tolist() == [[8, 9], [0, 0], [6, 7]]
    assert evaluate(af.nn.safe_embedding_lookup_sparse([rows], ids, default_id=5)).tolist()[1] == [10, 11]


def test_an_axis_is_put_in_and_the_identity_is_made():
    for axis, shape in ((None, [3, 4, 1]), (0, [1, 3, 4]), (-2, [3, 1, 4])):
        wide = af.sparse.expand_dims(small(), axis)
        assert value_of(wide).dense_shape.tolist() == shape
        dense = evaluate(af.sparse.to_dense(wide))
        np.testing.assert_array_equal(dense, evaluate(af.sparse.to_dense(small())).reshape(shape))
    for rows, columns in ((3, None), (2, 4), (4, 2)):
        eye = evaluate(af.sparse.to_dense(af.sparse.eye(rows, columns, af.float64)))
        np.testing.assert_array_equal(eye, np.eye(rows, columns))
