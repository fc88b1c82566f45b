"""How gradients find their way back under broadcasting, and what is known of sizes when the graph is built."""

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels import families
from aioflow.kernels.array import shapes
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import arithmetic, casting, reduction
from aioflow.tensors import dtypes
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def tensor(shape, dtype="float64"):
    return placeholder(dtype, shape)


def types(graph):
    return [operation.type for operation in graph.get_operations()]


@pytest.mark.parametrize(
    ("operand", "whole", "others", "expected"),
    [
        ((32,), (None, 32), [], (1, ())),
        ((1, 32), (None, 32), [], (0, (0,))),
        ((), (None, None), [], (2, ())),
        ((None, 1), (None, 5), [(1, 5)], (0, (1,))),
        ((None, 1), (None, 5), [(5,)], (0, (1,))),
        ((None, 1), (None, 5), [], None),
        ((None, 1), (None, 5), [(None, 5)], None),
        ((None,), (1,), [], (0, ())),
        ((None,), (4,), [(4,)], None),
        (None, (4,), [], None),
        ((4,), None, [], None),
        ((0, 3), (0, 3), [], (0, ())),
        ((3,), (0, 3), [], (1, ())),
    ],
)
def test_axes_to_sum_are_found_where_sizes_leave_no_doubt(operand, whole, others, expected):
    assert families.summed_axes(operand, whole, *others) == expected


def test_the_gradient_of_a_bias_is_one_reduction(graph):
    x, bias = tensor([None, 32]), tensor([32])
    dz = tensor([None, 32])
    y = x + bias
    before = len(types(graph))
    dx, db = gradients(y, [x, bias], dz)
    assert dx is dz
    assert types(graph)[before:] == ["reduce_sum"]
    assert db.op.attrs["axis"] == (0,)
    assert db.shape == [32]


@pytest.mark.parametrize(("x_shape", "y_shape"), [((3, 1), (1, 4)), ((1, 4), (3, 4)), ((3, 4), (3, 4)), ((4,), (3, 1))])
@pytest.mark.parametrize("known_rank", [True, False])
def test_open_sizes_are_left_to_the_run(x_shape, y_shape, known_rank):
    x, y = (tensor([None] * len(shape) if known_rank else None) for shape in (x_shape, y_shape))
    feeds = {x: np.random.default_rng(1).random(x_shape), y: np.random.default_rng(2).random(y_shape)}
    dx, dy = evaluate(gradients(x * y, [x, y]), feeds)
    whole = np.ones(np.broadcast_shapes(x_shape, y_shape))
    for found, operand, other in [(dx, feeds[x], feeds[y]), (dy, feeds[y], feeds[x])]:
        lead = whole.ndim - operand.ndim
        axes = (*range(lead), *(lead + i for i, size in enumerate(operand.shape) if size == 1))
        np.testing.assert_allclose(found, (whole * other).sum(axis=axes).reshape(operand.shape))


def test_second_gradients_of_equal_open_shapes_need_no_sums(graph):
    x = tensor([None, 3])
    before = len(types(graph))
    (dx,) = gradients(x * x * 2 + x, x)
    gradients(dx, x)
    assert not {"sum_to_shape", "shape"} & {*types(graph)[before:]}


def test_sizes_computed_with_arithmetic_are_known():
    n = shapes.shape(tensor([6, None, 5]))
    assert (n * 2).spec.known == (12, None, 10)
    assert (n[0] + 1).spec.known == 7
    assert (n[0] // 4).spec.known == 1
    assert (n[0] % 4).spec.known == 2
    assert (n[0] // 0).spec.known is None
    assert (n[1] - 1).spec.known is None
    assert (n[0] - n[2]).spec.known == 1
    assert arithmetic.maximum(n, 6).spec.known == (6, None, 6)
    assert (n[0] * constant(2**30)).spec.known is None  # it wraps around
    assert casting.cast(n[0], "int64").spec.known == 6
    assert casting.cast(n[0] * 100, "int8").spec.known is None
    assert reduction.reduce_prod(shapes.shape(tensor([2, 3, 4]))).spec.known == 24
    assert reduction.reduce_prod(n).spec.known is None


def test_the_whole_operand_gives_its_very_shape():
    x = tensor([None, 3])
    for y in (x + 1, x * [1.0, 2.0, 3.0], -x, x + x, arithmetic.add_n([x, x]), x > 0):
        assert y.shape is x.shape
    assert (x + tensor([None, 3])).shape is not x.shape


def test_literals_take_the_dtype_of_the_tensor():
    x = tensor([2], "float16")
    for y in (x + 1, 2 * x, 1 - x, x / 3, 2**x, x % 2, x // 1, np.float64(2) * x):
        assert y.dtype is dtypes.float16
    with pytest.raises(TypeError, match=r"add: argument 'y': .* is not a value of dtype int32"):
        tensor([2], "int32") + 1.5


def test_operands_of_two_dtypes_or_shapes_are_refused_by_name():
    with pytest.raises(TypeError, match="add: dtypes float64 and int32 differ; cast one of them\n  inputs: "):
        tensor([2]) + tensor([2], "int32")
    with pytest.raises(ValueError, match=r"multiply: shapes \[2, 3\] and \[2\] cannot be broadcast together\n  "):
        tensor([2, 3]) * tensor([2])
    with pytest.raises(TypeError, match="add: dtype bool is not supported"):
        tensor([2], "bool") + True


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "complex64", "int8", "uint64"])
def test_results_keep_the_dtype(shape, dtype):
    x = tensor(shape, dtype)
    feeds = {x: np.ones(shape, x.dtype.np)}
    ys = [x + x, x - x, x * x, -x, abs(x), arithmetic.squared_difference(x, x), arithmetic.add_n([x, x, x])]
    for y, result in zip(ys, evaluate(ys, feeds), strict=True):
        assert result.dtype == y.dtype.np
        assert result.shape == shape
