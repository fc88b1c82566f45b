"""Sampled losses, divided tables, and what is composed for layers and images: beyond the samples of the registry."""

import itertools

import numpy as np
import pytest
from scipy import special

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.library import image, nn_convolution, nn_functions, nn_sampling
from aioflow.library.embedding import embedding_lookup
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def normal(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# Divided tables


def divided(table, count, strategy):
    return [table[i::count] for i in range(count)] if strategy == "mod" else np.array_split(table, count)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize(("rows", "count"), list(itertools.product([1, 7, 12], [1, 2, 3, 5])))
def test_a_divided_table_is_looked_up_like_a_whole_one(strategy, rows, count):
    table, ids = normal(rows, 2), np.random.default_rng(1).integers(rows, size=(4, 3))
    parts = [constant(part) for part in divided(table, count, strategy)]
    found = embedding_lookup(parts, ids, strategy, name="rows")
    assert found.shape.as_list() == [4, 3, 2]
    assert found.op.name.startswith("rows")
    np.testing.assert_array_equal(evaluate(found), table[ids])


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_sizes_of_a_divided_table_may_be_open(strategy):
    table = normal(8, 2)
    parts = {placeholder("float64", [None, 2]): part for part in divided(table, 3, strategy)}
    ids = placeholder("int64", None)
    found = embedding_lookup(list(parts), ids, strategy)
    for wanted in (np.array([7, 0, 3, 3]), np.array(5), np.zeros((0, 2), int)):
        np.testing.assert_array_equal(evaluate(found, {**parts, ids: wanted}), table[wanted])


def test_each_part_of_a_table_has_slices_for_its_gradient():
    parts = [constant(part) for part in divided(normal(7, 2), 3, "mod")]
    found = embedding_lookup(parts, [0, 4, 4, 6])
    slices = gradients(found * found, parts)
    assert all(isinstance(part, IndexedSlices) for part in slices)
    assert [len(part) for part in evaluate([part.indices for part in slices])] == [2, 2, 0]
    whole = np.zeros((7, 2))
    np.add.at(whole, [0, 4, 4, 6], 2 * normal(7, 2)[[0, 4, 4, 6]])
    for ours, theirs in zip(evaluate([dense(part) for part in slices]), divided(whole, 3, "mod"), strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_a_table_is_divided_in_one_of_two_ways():
    parts = [constant(normal(2, 2))] * 2
    with pytest.raises(ValueError, match="partition_strategy must be 'mod' or 'div', not 'even'"):
        embedding_lookup(parts, [0], "even")
    with pytest.raises(ValueError, match="at least one part"):
        embedding_lookup([], [0])


# Sampled losses


def sampled_logits(weights, biases, labels, inputs, drawn, remove):
    which, right, expected = drawn
    of_right = np.einsum("rd,rtd->rt", inputs, weights[labels]) + biases[labels] - np.log(right)
    of_drawn = inputs @ weights[which].T + biases[which] - np.log(expected)
    if remove:
        of_drawn[(labels[:, :, None] == which).any(1)] = -np.inf
    targets = np.concatenate([np.full(of_right.shape, 1 / labels.shape[1]), np.zeros(of_drawn.shape)], 1)
    return np.concatenate([of_right, of_drawn], 1), targets


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("true", [1, 2])
def test_sampled_losses_are_those_of_the_classes_drawn(remove, true):
    weights, biases, inputs = normal(6, 3), normal(6, seed=1), normal(4, 3, seed=2)
    labels = np.random.default_rng(3).integers(6, size=(4, true))
    labels[0] = 2
    drawn = np.array([2, 5, 0]), np.full((4, true), 0.25), np.array([0.5, 0.125, 0.75])
    given = [constant(weights), constant(biases), labels, constant(inputs), 3, 6, true, drawn, remove]
    softmax, nce = evaluate([nn_sampling.sampled_softmax_loss(*given), nn_sampling.nce_loss(*given)])
    logits, targets = sampled_logits(weights, biases, labels, inputs, drawn, remove)
    safe = np.where(np.isinf(logits), 0, logits)
    np.testing.assert_allclose(softmax, -(targets * np.maximum(special.log_softmax(logits, 1), -1e30)).sum(1))
    np.testing.assert_allclose(nce, (np.logaddexp(0, logits) - safe * targets).sum(1))


def test_sampled_losses_train_the_rows_they_look_at_only():
    parts, biases = [constant(normal(50, 3, seed=i)) for i in range(2)], constant(normal(100))
    inputs = constant(normal(4, 3))
    for loss in (nn_sampling.nce_loss, nn_sampling.sampled_softmax_loss):
        cost = loss(parts, biases, [[1], [2], [3], [99]], inputs, 5, 100)
        slices = [*gradients(cost, [*parts, biases]), *gradients(cost, inputs)]
        assert [type(part) for part in slices[:3]] == [IndexedSlices] * 3
        rows = [len(part) for part in evaluate([part.indices for part in slices[:3]])]
        assert rows[0] + rows[1] == rows[2] == 9
        assert np.isfinite(evaluate(cost)).all()


# Layers


def test_layers_of_narrow_floats_are_normalised_in_float32():
    x = normal(3, 64, dtype=np.float16)
    wide = evaluate(nn_functions.layer_normalization(x.astype(np.float32), np.ones(64, "f"), np.zeros(64, "f")))
    ours = evaluate(nn_functions.layer_normalization(x, np.ones(64, np.float16), np.zeros(64, np.float16)))
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours, wide, atol=2e-3)


@pytest.mark.parametrize(
    ("sizes", "axis", "weights", "alone", "weighted"),
    [
        ([None, 3, 4], -1, [4], True, True),
        ([None, 3, 4], [2, 1], [3, 4], True, True),
        ([2, 3, 4], None, [2, 3, 4], True, True),
        ([None, 3, 4], -1, [1], True, False),
        ([None, 3, 4], 1, [3, 1], False, False),
        ([None, None], -1, [4], False, False),
        (None, -1, [4], False, False),
    ],
)
def test_layers_of_known_sizes_are_normalised_by_one_op(sizes, axis, weights, alone, weighted):
    x, data, weight = placeholder("float32", sizes), normal(*[size or 4 for size in sizes or (2, 4)]), normal(*weights)
    axes = axis if axis is None or isinstance(axis, int) else tuple(axis)
    standard = (data - data.mean(axes, keepdims=True)) / np.sqrt(data.var(axes, keepdims=True) + 0.1)
    for offset, scale in ((None, None), (weight, None), (None, weight), (weight, weight)):
        y = nn_functions.layer_normalization(x, offset, scale, axis, 0.1)
        assert (y.op.type == "layer_norm") == (alone if offset is scale is None else weighted)
        expected = standard * (1 if scale is None else scale) + (0 if offset is None else offset)
        np.testing.assert_allclose(evaluate(y, {x: data}), expected, rtol=1e-4, atol=1e-5)


def test_statistics_add_up_over_parts_of_the_data():
    x = placeholder("float64", [None, 3])
    data, shift = normal(10, 3) + 100, np.full(3, 100.0)
    count, total, squares, moved = nn_functions.sufficient_statistics(x, [0], shift)
    parts = [evaluate([count, total, squares], {x: part}) for part in (data[:4], data[4:])]
    sums = [sum(values) for values in zip(*parts, strict=True)]
    assert sums[0] == 10
    mean, variance = evaluate(list(nn_functions.normalize_moments(*sums, moved)))
    np.testing.assert_allclose([mean, variance], [data.mean(0), data.var(0)])


def test_weights_of_moments_broadcast_and_axes_may_stay():
    x, w = normal(4, 3), np.array([[1.0], [0], [2], [1]])
    mean, variance = evaluate(list(nn_functions.weighted_moments(x, [0], w, keepdims=True)))
    expected = np.average(x, 0, w.ravel())
    np.testing.assert_allclose(mean, expected[None])
    np.testing.assert_allclose(variance, np.average((x - expected) ** 2, 0, w.ravel())[None])


def test_activations_have_their_limits():
    x = np.array([-1e9, -40.0, 0.0, 40.0, 1e9])
    assert evaluate(nn_functions.gelu(x)).tolist() == [0, 0, 0, 40, 1e9]
    assert evaluate(nn_functions.hard_sigmoid(x)).tolist() == [0, 0, 0.5, 1, 1]
    assert evaluate(nn_functions.crelu(normal(2, 3), axis=0)).shape == (4, 3)
    np.testing.assert_allclose(evaluate(nn_functions.silu(x)), [0, 0, 0, 40, 1e9], atol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: nn_convolution.pool(x, [2, 2], "MIN", "SAME"), "unknown pooling 'MIN'"),
        (lambda x: nn_convolution.pool(x, [2, 2], "MAX", "SAME", [2, 2], [2, 1]), "cannot both be above 1"),
        (lambda x: nn_convolution.pool(x, [2, 2], "MAX", "SAME", strides=[1]), "strides .* must be 2 numbers"),
        (lambda x: nn_convolution.convolution(x, np.ones((2, 2)), "SAME"), "filters have rank 3, 4 or 5"),
        (lambda x: nn_convolution.separable_conv2d(x, np.ones((2, 2, 3, 1)), np.ones((2, 1, 3, 1)), 1, "SAME"),
         "pointwise_filter must have height and width 1"),
        (lambda x: nn_functions.batch_norm_with_global_normalization(x, 1.0), "needs t, m, v, beta"),
    ],
)  # fmt: skip
def test_layers_that_cannot_work_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build(constant(np.ones((1, 4, 4, 3))))


# Images


@pytest.mark.parametrize("rank", [3, 4])
def test_images_are_turned_and_flipped(rank):
    x = normal(2, 3, 4, 2)[0 if rank == 3 else slice(None)]
    plane = (rank - 3, rank - 2)
    for k in range(-1, 5):
        np.testing.assert_array_equal(evaluate(image.rot90(x, k)), np.rot90(x, k, plane))
    np.testing.assert_array_equal(evaluate(image.flip_left_right(x)), np.flip(x, plane[1]))
    np.testing.assert_array_equal(evaluate(image.flip_up_down(x)), np.flip(x, plane[0]))
    np.testing.assert_array_equal(evaluate(image.transpose_image(x)), x.swapaxes(*plane))
    with pytest.raises(TypeError, match="k must be known"):
        image.rot90(x, placeholder("int32", []))
    with pytest.raises(ValueError, match="rank 3"):
        image.flip_left_right(x[0, 0])


@pytest.mark.parametrize("known", [True, False])
def test_images_are_cropped_and_padded(known):
    x, data = placeholder("float64", [5, 6, 2] if known else [None, None, 2]), normal(5, 6, 2)
    middle = data[1:3, 2:5]
    for ours, theirs in [
        (image.crop_to_bounding_box(x, 1, 2, 2, 3), middle),
        (image.pad_to_bounding_box(x, 1, 2, 7, 9), np.pad(data, [(1, 1), (2, 1), (0, 0)])),
        (image.central_crop(x, 0.5), data[1:4, 1:5]),
        (image.resize_image_with_crop_or_pad(x, 3, 9), np.pad(data[1:4], [(0, 0), (1, 2), (0, 0)])),
    ]:
        np.testing.assert_array_equal(evaluate(ours, {x: data}), theirs)
    if known:
        assert image.central_crop(x, 0.5).shape.as_list() == [3, 4, 2]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: image.crop_to_bounding_box(x, 3, 0, 3, 2), r"3 \+ 3 is more than the size 5"),
        (lambda x: image.crop_to_bounding_box(x, -1, 0, 3, 2), "the offset -1 is negative"),
        (lambda x: image.crop_to_bounding_box(x, 0, 0, 0, 2), "target size 0 must be 1 or more"),
        (lambda x: image.pad_to_bounding_box(x, 0, 4, 9, 9), r"4 \+ 6 is more than the size 9"),
        (lambda x: image.central_crop(x, 0), "must be above 0 and at most 1"),
        (lambda x: image.resize_images(x, [2, 2], method=7), "7 is not a resize method"),
        (lambda x: image.crop_and_resize([x], np.ones((1, 3)), [0], [2, 2]), "boxes have four numbers each"),
        (lambda x: image.crop_and_resize([x], np.ones((1, 4)), [0]), "needs box_ind and crop_size"),
    ],
)
def test_parts_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build(constant(np.ones((5, 6, 2))))


def test_a_part_that_turns_out_not_to_fit_is_refused():
    x, size = placeholder("float64", [None, None, 1]), placeholder("int64", [])
    for part, expected in ((image.crop_to_bounding_box(x, 1, 0, size, 2), [None, 2, 1]),
                           (image.crop_to_bounding_box(x[None], size, 0, 2, 2), [1, 2, 2, 1])):  # fmt: skip
        assert part.shape.as_list() == expected
        assert evaluate(part, {x: normal(4, 3, 1), size: np.int64(2)}).size == 4
        with pytest.raises(ValueError, match="has 4 elements, and begin"):
            evaluate(part, {x: normal(4, 3, 1), size: np.int64(4)})


def test_a_single_image_is_resized_and_may_keep_its_ratio():
    x = np.arange(24, dtype=np.uint8).reshape(4, 6, 1)
    assert image.resize_images(x, [8, 6]).shape.as_list() == [8, 6, 1]
    assert image.resize_images(x, [8, 6], preserve_aspect_ratio=True).shape.as_list() == [4, 6, 1]
    found = image.resize_images(x, [2, 3], method=image.ResizeMethod.AREA, name="half")
    assert found.op.name == "half"
    np.testing.assert_array_equal(evaluate(found)[..., 0], x.reshape(2, 2, 3, 2).mean((1, 3)))


def test_nearest_pixels_of_a_box_are_copies():
    x = normal(1, 5, 5, 2)
    parts = image.crop_and_resize(x, [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.6]], [0, 0], [5, 3], method="nearest")
    found = evaluate(parts)
    np.testing.assert_array_equal(found[0], x[0][:, [0, 2, 4]])
    np.testing.assert_array_equal(found[1], x[0][::-1, [0, 1, 2]])


def test_pixels_of_other_dtypes_are_scaled_and_do_not_wrap_around():
    x = np.array([0, 100, 200, 255], np.uint8).reshape(1, 4, 1)
    floats = evaluate(image.convert_image_dtype(x, "float32"))
    np.testing.assert_allclose(floats.ravel(), x.ravel() / 255, rtol=1e-6)
    for dtype in ("uint8", "int16", "float64"):
        back = image.convert_image_dtype(image.convert_image_dtype(x, dtype), "uint8", saturate=True)
        assert abs(evaluate(back).astype(int) - x).max() <= 1
    assert evaluate(image.adjust_brightness(x, 0.3)).ravel().tolist() == [76, 176, 255, 255]
    assert evaluate(image.adjust_contrast(x, 3.0)).ravel().tolist() == [0, 22, 255, 255]
    grey = evaluate(image.rgb_to_grayscale(np.full((2, 2, 3), 200, np.uint8)))
    assert grey.shape == (2, 2, 1)
    assert abs(grey.astype(int) - 200).max() <= 1
    assert evaluate(image.grayscale_to_rgb(x)).shape == (1, 4, 3)


def test_an_even_image_is_standardised_to_zero():
    found = evaluate(image.per_image_standardization(np.full((2, 4, 4, 3), 7, np.uint8)))
    assert found.dtype == np.float32
    assert not found.any()
