"""Axes and sizes that only a run knows: the value and the gradient are those of the axis as a number."""

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.errors import InvalidArgumentError
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.array.sequence import roll
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.array.sorting import in_top_k, top_k
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math import cumulative, reduction
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.variance import reduce_std
from aioflow.kernels.text.strings import reduce_join
from aioflow.session.session import Session
from aioflow.tensors.dtypes import Dimension
from tests.support.evaluate import evaluate

CUBE = (np.arange(24.0).reshape(2, 3, 4) - 11) / 7
REDUCTIONS = [
    reduction.reduce_sum, reduction.reduce_mean, reduction.reduce_prod, reduction.reduce_max, reduction.reduce_min,
    reduction.reduce_logsumexp, reduction.reduce_euclidean_norm, reduce_std,
]  # fmt: skip
ALONG = {
    "cumsum": lambda x, axis: cumulative.cumsum(x, axis, reverse=True),
    "cumprod": lambda x, axis: cumulative.cumprod(x, axis, exclusive=True),
    "cumulative_logsumexp": cumulative.cumulative_logsumexp,
    "concat": lambda x, axis: concat([x, 2 * x], axis),
    "split": lambda x, axis: stack([part * (i + 1) for i, part in enumerate(split(concat([x, x], axis), 2, axis))]),
    "split_v": lambda x, axis: split(concat([x, x], axis), [1, -1], axis, num=2)[1],
    "gather": lambda x, axis: gather(x, [[1, 0], [1, 1]], axis=axis),
    "roll": lambda x, axis: roll(x, 1, axis),
    "reverse": lambda x, axis: reverse(x, [axis]),
    "expand_dims": expand_dims,
    "boolean_mask": lambda x, axis: boolean_mask(x, [[True, False, True], [False, True, True]], axis=axis),
}


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def same(build, axis, feed):
    """Values and gradients of `build` are those of the axis as a number, and known sizes agree."""
    x = constant(CUBE)
    fed, plain = build(x, axis), build(x, feed)
    assert fed.shape.is_compatible_with(plain.shape)
    pairs = [(fed, plain), (gradients(fed, x)[0], gradients(plain, x)[0])]
    for one, other in [map(convert_to_tensor, pair) for pair in pairs]:
        np.testing.assert_allclose(evaluate(one, {axis: np.int32(feed)}), evaluate(other), rtol=1e-12)
    return fed


@pytest.mark.parametrize("name", ALONG)
def test_an_op_along_an_axis_of_a_run_is_the_op_along_that_axis(name):
    for feed in (0, -3) if name == "boolean_mask" else (0, 1, -1):
        assert same(ALONG[name], placeholder("int32", []), feed).spec.rank in (2, 3, 4)


@pytest.mark.parametrize("reduce", REDUCTIONS, ids=lambda reduce: reduce.__name__)
def test_a_reduction_along_axes_of_a_run_is_the_reduction_along_those_axes(reduce):
    assert same(reduce, placeholder("int32", []), -2).spec.rank == 2
    assert same(reduce, placeholder("int32", [2]), [2, 0]).spec.rank == 1
    assert same(lambda x, axis: reduce(x, axis, keepdims=True), placeholder("int32", [None]), [0, -1]).shape == [
        None, None, None
    ]  # fmt: skip


def test_places_counts_truth_values_and_texts_are_reduced_along_axes_of_a_run():
    axis = placeholder("int32", [])
    texts = constant([["a", "b"], ["c", "d"]])
    fetches = [
        reduction.argmax(CUBE, axis), reduction.argmin(CUBE, axis, output_type="int32"),
        reduction.count_nonzero(CUBE, axis), reduction.reduce_all(CUBE > 0, axis), reduction.reduce_any(CUBE > 0, axis),
        reduce_join(texts, axis, separator="-"), reduce_join(texts, stack([axis, 0]), keepdims=True),
    ]  # fmt: skip
    found = evaluate(fetches, {axis: np.int32(1)})
    plain = [CUBE.argmax(1), CUBE.argmin(1), (CUBE != 0).sum(1), (CUBE > 0).all(1), (CUBE > 0).any(1)]
    for one, other in zip(found, plain, strict=False):
        np.testing.assert_array_equal(one, other)
    assert found[1].dtype == np.int32
    assert [each.tolist() for each in found[5:]] == [[b"a-b", b"c-d"], [[b"abcd"]]]


def test_a_permutation_a_count_and_a_mask_may_be_values_of_a_run():
    perm, count, x = placeholder("int32", [3]), placeholder("int32", []), constant(CUBE)
    moved = transpose(cast(x, "complex128") * 1j, perm, conjugate=True)
    assert moved.spec.rank == 3
    values, places = top_k(x, count)
    assert values.shape == [2, 3, None]
    hits = in_top_k(CUBE[0], [3, 2, 0], count)
    feeds = {perm: np.array([2, 0, 1], np.int32), count: np.int32(2)}
    found = evaluate([moved, values, places, gradients(values, x)[0], hits, x[x > 0]], feeds)
    np.testing.assert_array_equal(found[0], CUBE.transpose(2, 0, 1) * -1j)
    np.testing.assert_array_equal(found[1], CUBE[..., :1:-1])
    assert found[2][0, 0].tolist() == [3, 2]
    np.testing.assert_array_equal(found[3], np.broadcast_to([0.0, 0, 1, 1], CUBE.shape))
    assert found[4].tolist() == [True, True, False]
    np.testing.assert_array_equal(found[5], CUBE[CUBE > 0])


def test_axes_that_are_known_are_attributes_however_they_are_given():
    x = constant(CUBE)
    for axis in (np.array(1), np.int64(1), constant(1), Dimension(1)):
        made = [reduction.reduce_sum(x, axis), cumulative.cumsum(x, axis), concat([x, x], axis), expand_dims(x, axis)]
        assert [tensor.op.type for tensor in made] == ["reduce_sum", "cumsum", "concat", "expand_dims"]
        assert [tensor.op.attrs["axis"] for tensor in made] == [1] * 4
    assert reduction.reduce_sum(x, [constant(0), 2]).op.attrs["axis"] == (0, 2)
    assert transpose(x, np.array([0, 2, 1])).op.attrs["perm"] == (0, 2, 1)
    np.testing.assert_allclose(
        evaluate(tensordot(CUBE, CUBE, constant([[0, 1], [0, 1]]))), np.tensordot(CUBE, CUBE, ((0, 1), (0, 1)))
    )
    assert stack(CUBE, 1).shape == [3, 2, 4]
    assert stack(CUBE).op.type == "constant"


async def test_an_axis_of_a_run_is_checked_in_the_run(graph):
    axis, axes, perm = placeholder("int32", [], "axis"), placeholder("int32", [2]), placeholder("int32", [3])
    count = placeholder("int32", [])
    builds = {
        cumulative.cumsum(CUBE, axis): (axis, 3, "axis 3 is out of range for rank 3"),
        reduction.reduce_sum(CUBE, axes): (axes, [0, -3], r"axes \[0, -3\] name an axis twice"),
        transpose(CUBE, perm): (perm, [0, 1, 1], r"perm \[0, 1, 1\] is not a permutation of the axes 0 to 2"),
        top_k(CUBE, count).values: (count, 5, "the 5 greatest of 4 elements"),
    }
    async with Session(graph=graph) as session:
        for fetch, (fed, value, message) in builds.items():
            with pytest.raises(InvalidArgumentError, match=message):
                await session.run(fetch, {fed: value})
        for fetch in (x for x in builds if x.op.type == "reshape"):
            assert (await session.run(fetch, {axes: [0, 2]})).shape == (3,)


def test_a_bad_axis_is_refused_while_the_graph_is_built():
    with pytest.raises(TypeError, match="axis must be made of integers, not float32"):
        reduction.reduce_sum(CUBE, placeholder("float32", []))
    with pytest.raises(ValueError, match="axis must be an integer or a vector of integers"):
        reduction.reduce_sum(CUBE, placeholder("int32", [1, 1]))
    with pytest.raises(ValueError, match="4 axes are named, and the rank is 3"):
        reduction.reduce_sum(CUBE, placeholder("int32", [4]))
    with pytest.raises(TypeError, match="the axes must be known when the graph is built"):
        tensordot(CUBE, CUBE, placeholder("int32", [2, 1]))
    with pytest.raises(ValueError, match="needs a tensor and a mask of known rank"):
        boolean_mask(placeholder("float32"), [True], axis=placeholder("int32", []))
