import itertools

import ml_dtypes
import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.linalg import norms
from aioflow.kernels.linalg.products import tensordot
from aioflow.testing import check_gradients
from tests.support.evaluate import View, evaluate

random = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


def types(graph):
    return [operation.type for operation in graph.get_operations()]


def test_the_operator_multiplies_matrices():
    x = constant([[1.0, 2.0]])
    assert value(x @ [[3.0], [4.0]]).tolist() == [[11]]
    assert value([[3.0], [4.0]] @ x).tolist() == [[3, 6], [4, 8]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint32", "complex64"])
@pytest.mark.parametrize(("a", "b"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 0), (0, 3))])
def test_products_keep_the_dtype(dtype, a, b):
    kind = constant(0, dtype).dtype.np
    x, y = np.full(a, 2, kind), np.full(b, 3, kind)
    result = value(norms.matmul(x, y))
    assert result.dtype == kind
    np.testing.assert_array_equal(result.astype(complex), x.astype(complex) @ y.astype(complex))


def test_narrow_floats_are_multiplied_as_float32():
    ones = np.ones((1, 4099), ml_dtypes.bfloat16)
    assert value(norms.matmul(ones, ones, transpose_b=True)) == ml_dtypes.bfloat16(4099)


@pytest.mark.parametrize(
    ("a", "b", "flags", "message"),
    [
        ((2, 3), (4, 5), {}, "the inner sizes 3 and 4 differ"),
        ((2, 3), (2, 5), {"transpose_b": True}, "the inner sizes 3 and 5 differ"),
        ((3,), (3, 2), {}, r"a matrix has at least rank 2, the shape is \[3\]"),
        ((2, 2, 3), (5, 3, 4), {}, r"shapes \[2\] and \[5\] cannot be broadcast together"),
        ((2, 3), (3, 4), {"transpose_a": True, "adjoint_a": True}, "either transposed or adjoint, not both"),
    ],
)
def test_what_cannot_be_multiplied_is_refused(a, b, flags, message):
    with pytest.raises(ValueError, match=f"matmul: .*{message}\n  inputs: "):
        norms.matmul(np.ones(a), np.ones(b), **flags)


def test_hints_that_a_matrix_is_sparse_come_before_the_name_and_change_nothing():
    x = np.eye(2)
    y = norms.matmul(x, 2 * x, False, False, False, False, True, True, "product")
    assert y.op.name == "product"
    np.testing.assert_array_equal(value(y), 2 * x)


def test_vectors_of_unknown_rank_are_refused_in_the_run():
    x = placeholder("float64", None)
    with pytest.raises(errors.InvalidArgumentError, match="matrices have at least rank 2, not 1 and 2"):
        evaluate(norms.matmul(x, np.ones((3, 2))), {x: np.ones(3)})


def test_the_shape_of_a_product_is_as_known_as_it_can_be():
    x = placeholder("float32", [None, 64])
    assert norms.matmul(x, np.ones((64, 32), np.float32)).shape.as_list() == [None, 32]
    assert norms.matmul(x, np.ones((64, 64), np.float32)).shape is x.shape
    assert norms.matmul(x, x, transpose_a=True).shape == [64, 64]
    assert norms.matmul(x, placeholder("float32", None)).shape.rank is None


def test_the_gradient_of_matrices_transposes_nothing(graph):
    for flip_a, flip_b in itertools.product((False, True), repeat=2):
        a = placeholder("float32", [None, 3] if not flip_a else [3, None])
        b = placeholder("float32", [3, 4] if not flip_b else [4, 3])
        y = norms.matmul(a, b, flip_a, flip_b)
        before = len(types(graph))
        gradients(y, [a, b], placeholder("float32", [None, 4]))
        assert types(graph)[before:] == ["placeholder", "matmul", "matmul"]


def test_the_gradient_of_a_layer_on_a_batch_of_sequences_is_one_product(graph):
    x, w = placeholder("float64", [None, None, 3]), placeholder("float64", [3, 4])
    (dw,) = gradients(norms.matmul(x, w), w)
    assert dw.shape == [3, 4]
    assert "sum_to_shape" not in types(graph)
    points = random.random((2, 5, 3))
    np.testing.assert_allclose(evaluate(dw, {x: points, w: np.ones((3, 4))}), points.sum((0, 1))[:, None] * np.ones(4))


@pytest.mark.parametrize("ranks", [(3, 3), (None, None), (4, 2), (None, 2)])
def test_batches_are_summed_where_they_were_broadcast(ranks):
    a, b = (placeholder("float64", None if rank is None else [None] * rank) for rank in ranks)
    shapes = {(4, 2): ((2, 1, 2, 3), (3, 4)), (None, 2): ((5, 2, 3), (3, 4))}.get(ranks, ((1, 2, 3), (5, 3, 4)))
    feeds = {a: random.random(shapes[0]), b: random.random(shapes[1])}
    da, db = evaluate(gradients(norms.matmul(a, b), [a, b]), feeds)
    ones = np.ones(np.matmul(feeds[a], feeds[b]).shape)
    whole_a, whole_b = ones @ np.swapaxes(feeds[b], -1, -2), np.swapaxes(feeds[a], -1, -2) @ ones
    for found, whole, operand in [(da, whole_a, feeds[a]), (db, whole_b, feeds[b])]:
        lead = whole.ndim - operand.ndim
        expected = whole.sum(tuple(range(lead)))
        axes = tuple(i for i, size in enumerate(operand.shape) if size == 1 and expected.shape[i] != 1)
        np.testing.assert_allclose(found, expected.sum(axes, keepdims=True))


def test_a_product_is_written_where_asked_also_over_its_inputs_and_into_columns():
    a, b = random.random((3, 3)), random.random((3, 3))
    for flip_a, flip_b in itertools.product((False, True), repeat=2):
        node = norms.matmul(a, b, flip_a, flip_b).op
        kernel = node.definition.kernel_for("CPU", View(node).input_specs).bind(node.definition, View(node), np)
        expected = (a.T if flip_a else a) @ (b.T if flip_b else b)
        for out in (np.empty((3, 3)), np.empty((3, 3), order="F"), a.copy()):
            left = out if np.array_equal(out, a) else a
            result = kernel(left, b, out=out)
            np.testing.assert_allclose(result, expected)
            assert result is out


def test_a_product_costs_two_operations_per_inner_step():
    for flags, a in [({}, (2, 3)), ({"transpose_a": True}, (3, 2))]:
        op = norms.matmul(np.ones(a), np.ones((3, 5)), **flags).op
        specs = [tensor.spec for tensor in op.inputs], [tensor.spec for tensor in op.outputs]
        assert op.definition.cost_rule(*specs, op.attrs) == 2 * 2 * 3 * 5


@pytest.mark.parametrize(
    ("ord", "axis"),
    [("euclidean", None), ("fro", (0, 1)), (1, None), (2, 1), (3, 0), (np.inf, None), (np.inf, 1), (1, (0, 1)),
     (np.inf, (0, 1)), (1, (1, 0)), (np.inf, (-1, -2)), (2, (0, 1)), (2, (-1, 0))],
)  # fmt: skip
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_are_numpys(ord, axis, keepdims):
    for x in (random.standard_normal((2, 3)), random.standard_normal((2, 3)) * (1 + 2j)):
        flat = x.ravel() if axis is None else x
        theirs = np.linalg.norm(flat, None if ord in ("euclidean", "fro") else ord, axis)
        ours = value(norms.norm(x, ord, axis, keepdims))
        np.testing.assert_allclose(np.squeeze(ours), theirs)
        axes = (0, 1) if axis is None or isinstance(axis, tuple) else (axis,)
        assert np.ndim(ours) == (2 if keepdims else 2 - len(axes))


def test_there_are_no_other_norms():
    for ord, axis in [(3, (0, 1)), ("nuc", None), (-1, 0)]:
        with pytest.raises(ValueError, match=r"norm: .* is not a norm of"):
            norms.norm(np.ones((2, 2)), ord, axis)
    with pytest.raises(ValueError, match="norm: axis is None, one axis or a pair"):
        norms.norm(np.ones((2, 2)), axis=(0,))


def test_the_trace_of_each_matrix_is_taken():
    x = placeholder("float32", [None, 2, 3])
    assert norms.trace(x).shape.as_list() == [None]
    assert evaluate(norms.trace(x), {x: np.ones((4, 2, 3), np.float32)}).tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="trace: a matrix has at least rank 2"):
        norms.trace(constant([1.0]))


@pytest.mark.parametrize("axes", [0, 1, 2, ([2], [0]), ([2, 1], [0, 1]), (2, 0), ([], []), ([-1], [-2])])
@pytest.mark.parametrize("known", [True, False])
def test_tensordot_is_numpys(axes, known):
    x, y = random.random((2, 4, 3)), random.random((3, 4, 5))
    if axes == 2 or axes == ([-1], [-2]):
        y = random.random((4, 3, 5))
    a, b = (placeholder("float64", v.shape if known else [None] * 3) for v in (x, y))
    result = tensordot(a, b, axes)
    expected = np.tensordot(x, y, axes)
    assert result.shape.is_compatible_with(expected.shape)
    if known:
        assert result.shape == expected.shape
    np.testing.assert_allclose(evaluate(result, {a: x, b: y}), expected)


def test_tensordot_refuses_axes_that_do_not_pair_up():
    x = constant(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"axes \[0, 1\] and \[0\] do not pair up"):
        tensordot(x, x, ([0, 1], [0]))
    with pytest.raises(ValueError, match="ranks 2 and 2 do not have 3 axes in common"):
        tensordot(x, x, 3)
    with pytest.raises(ValueError, match=r"the rank of .* must be known"):
        tensordot(placeholder("float64", None), x, 1)


@pytest.mark.parametrize("axes", [1, ([2, 1], [0, 1])])
async def test_the_gradient_of_tensordot_is_right(axes):
    inputs = random.random((2, 4, 3)), random.random((3, 4, 5))
    await check_gradients(lambda a, b: tensordot(a, b, axes), inputs, compute=evaluate)
