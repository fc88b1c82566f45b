"""Further kernels of neural nets and images: what the samples of the registry test do not show."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.errors import OpError
from aioflow.graph.graph import Graph
from aioflow.kernels.array import space_to_batch
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.image import resize
from aioflow.kernels.nn import (
    candidate_sampling,
    depthwise,
    normalisation,
    patches,
    pooling_argmax,
)
from aioflow.kernels.nn.convolution_nd import conv1d, conv1d_transpose, conv3d, conv3d_backprop_filter
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.layer_norm import layer_norm, layer_norm_grad
from aioflow.kernels.nn.local_response import lrn
from aioflow.kernels.nn.normalisation import fused_batch_norm
from aioflow.kernels.nn.pooling import avg_pool3d, max_pool3d
from aioflow.kernels.nn.pooling_argmax import max_pool_with_argmax
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def ones(*shape):
    return np.ones(shape, np.float32)


# What is refused


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: conv3d(ones(1, 4, 4, 4, 2), ones(3, 3, 3, 2, 1), 1, "SAME", "NHWC"), "'NDHWC' or 'NCDHW', not 'NHWC'"),
        (lambda: conv3d(ones(1, 4, 4, 4, 2), ones(3, 3, 3, 2, 1), [1, 1], "SAME"), "strides are 5 integers, one per"),
        (lambda: conv3d(ones(1, 4, 4, 2), ones(3, 3, 3, 2, 1), 1, "SAME"), "rank 5 is needed"),
        (lambda: conv3d(ones(1, 4, 4, 4, 3), ones(3, 3, 3, 2, 1), 1, "SAME"), "images and of the filter: 3 and 2"),
        (
            lambda: conv3d(ones(1, 4, 4, 4, 2), ones(6, 3, 3, 2, 1), 1, "VALID"),
            "reaches over 6 does not fit into size 4",
        ),
        (lambda: conv1d(ones(1, 4, 2), ones(3, 2, 1), [2, 2], "SAME"), r"strides are one number.*not \[2, 2\]"),
        (lambda: conv1d(ones(1, 4, 2), ones(3, 2, 1), 1, "SAME", data_format="CWN"), "'NWC' or 'NCW', not 'CWN'"),
        (lambda: conv1d(ones(1, 4, 2), ones(3, 2, 1), [1, 1, 2], "SAME"), r"strides are one number.*not \[1, 1, 2\]"),
        (lambda: conv1d(ones(1, 4, 2), ones(3, 2, 1)), "needs strides and padding"),
        (lambda: depthwise_conv2d_native(ones(1, 4, 4, 3), ones(2, 2, 2, 1), 1, "SAME"), "of the filter: 3 and 2"),
        (lambda: max_pool3d(ones(1, 4, 4, 4, 1), [2, 2], 1, "SAME"), "ksize are 5 integers"),
        (lambda: max_pool_with_argmax(ones(1, 4, 4, 1), 2, 2, "SAME", "NCHW"), "data_format is 'NHWC', not 'NCHW'"),
        (lambda: fused_batch_norm(ones(2, 3), ones(4), ones(3)), "3 channels do not go with a vector of 4"),
        (lambda: fused_batch_norm(ones(2, 3), ones(3), ones(3), is_training=False), "mean and variance are needed"),
        (lambda: fused_batch_norm(ones(2, 3), ones(3), ones(3), ones(3), ones(3)), "give None for them"),
        (lambda: fused_batch_norm(ones(3), ones(3), ones(3)), "a batch axis and a channel axis"),
        (lambda: layer_norm(ones(2, 3), ones(4), ones(4)), r"scale of shape \[4\] does not fit the last axes"),
        (lambda: layer_norm(ones(3), ones(2, 3), ones(2, 3)), r"\[2, 3\] has more axes than x"),
        (lambda: layer_norm(ones(2, 3), ones(3), ones(2)), r"\[2\] and \[3\] must be equal"),
        (lambda: layer_norm(ones(2, 3), ones(), ones()), "is no scalar"),
        (lambda: lrn(ones(2, 3), -1), "not -1 and shape"),
        (lambda: space_to_batch.space_to_depth(ones(1, 4, 5, 1), 2), "width 5 is not a multiple of 2"),
        (lambda: space_to_batch.depth_to_space(ones(1, 4, 5, 6), 2), "number of channels 6 is not a multiple of 4"),
        (lambda: space_to_batch.depth_to_space(ones(1, 4, 5, 4), 1), "blocks must be larger than 1, not 1"),
        (
            lambda: space_to_batch.space_to_batch(ones(1, 4, 5, 1), [[0, 0], [0, 0]], 2),
            "padded size 5 is not a multiple of 2",
        ),
        (
            lambda: space_to_batch.batch_to_space(ones(3, 4, 5, 1), [[0, 0], [0, 0]], 2),
            "batch 3 is not a multiple of 4",
        ),
        (
            lambda: space_to_batch.batch_to_space(ones(4, 1, 5, 1), [[2, 1], [0, 0]], 2),
            r"crops \[2, 1\] exceed the size 2",
        ),
        (lambda: space_to_batch.space_to_batch_nd(ones(4), [2], [[0, 0]]), "has no batch axis and 1 others"),
        (lambda: space_to_batch.space_to_batch_nd(ones(4, 4), [0], [[0, 0]]), r"sizes of 1 or more, not \[0\]"),
        (
            lambda: patches.extract_image_patches(ones(1, 4, 4, 1), 2, 1, 1, [[0, 0]] * 4),
            "padding is 'SAME' or 'VALID'",
        ),
        (lambda: resize.resize_bilinear(ones(1, 4, 4, 1), [2, 2], True, None, True), "do not go with align_corners"),
        (lambda: resize.resize_area(ones(1, 4, 4, 1), [2, 2], False, None, True), "it has no half_pixel_centers"),
        (lambda: resize.resize_bicubic(ones(1, 4, 4, 1), [2, 0]), r"cannot be resized to \[2, 0\]"),
        (lambda: resize.resize_bilinear(ones(1, 4, 4, 1), [2, 2, 2]), "size is height and width, not 3 numbers"),
        (
            lambda: candidate_sampling.uniform_candidate_sampler([[1]], 1, 5, True, 4),
            "cannot draw 5 different ones of 4 classes",
        ),
        (
            lambda: candidate_sampling.uniform_candidate_sampler([[1]], 2, 3, True, 4),
            "1 true classes per row, num_true is 2",
        ),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_built(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_what_cannot_work_is_refused_in_a_run_if_shapes_were_open():
    x, v, w = placeholder("float32", None), placeholder("float32", [None]), placeholder("float32", None)
    for tensor, feeds, message in [
        (conv3d(x, ones(1, 1, 1, 2, 1), 1, "SAME"), {x: ones(1, 4, 4, 2)}, "images have 5 axes"),
        (avg_pool3d(x, 1, 1, "SAME"), {x: ones(1, 4, 4, 2)}, "images have 5 axes"),
        (depthwise_conv2d_native(x, ones(1, 1, 2, 1), 1, "SAME"), {x: ones(1, 4, 4, 3)}, "filter: 3 and 2 differ"),
        (fused_batch_norm(x, v, v)[0], {x: ones(2, 3), v: ones(2)}, r"3 channels .* a vector of shape \[2\]"),
        (layer_norm(x, v, v)[0], {x: ones(2, 3), v: ones(2)}, r"scale of shape \[2\] does not fit .* \[2, 3\]"),
        (layer_norm(x, v, w)[0], {x: ones(9, 2000), v: ones(2000), w: ones(9)}, r"\[2000\], \[9\] must be equal"),
        (layer_norm(x, w, w)[0], {x: ones(9, 2000), w: np.float32(1)}, r"a scale of shape \[\] does not fit"),
        (layer_norm_grad(x, x, v, w, w)[0], {x: ones(9, 2000), v: ones(2000), w: ones(1, 1)}, r"\[9, 1\], \[1, 1\]"),
        (space_to_batch.space_to_depth(x, 2), {x: ones(1, 4, 5, 1)}, "width 5 is not a multiple of 2"),
        (
            space_to_batch.batch_to_space(x, [[0, 0], [0, 0]], 2),
            {x: ones(3, 4, 5, 1)},
            "batch 3 is not a multiple of 4",
        ),
        (resize.resize_area(x, [2, 2]), {x: ones(1, 0, 5, 1)}, "0 pixels cannot be resized to 2"),
    ]:
        with pytest.raises((ValueError, OpError), match=message):
            evaluate(tensor, feeds)


# Convolution and pooling


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_volumes_are_computed_as_float32(dtype):
    x, w = normal(2, 3, 4, 4, 2).astype(dtype), normal(2, 2, 2, 2, 3).astype(dtype)
    wide = conv3d(x.astype(np.float32), w.astype(np.float32), 1, "SAME")
    y, exact = evaluate([conv3d(x, w, 1, "SAME"), wide])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, exact.astype(dtype))
    assert evaluate(conv3d_backprop_filter(x, w.shape, y, 1, "SAME")).dtype == dtype


@pytest.mark.parametrize("times", [1, 3])
def test_the_size_of_blocks_does_not_change_a_depthwise_convolution(monkeypatch, times):
    x, w = constant(normal(5, 6, 7, 4, dtype=np.float64)), constant(normal(3, 2, 4, times, dtype=np.float64))
    y = depthwise_conv2d_native(x, w, [2, 1], "SAME")
    built = [y, *gradients(y * y, [x, w])]
    expected = evaluate(built)
    monkeypatch.setattr(depthwise, "BLOCK", 1)
    for ours, theirs in zip(evaluate(built), expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("shape", [(0, 4, 4, 2), (2, 0, 4, 2), (2, 4, 4, 0)])
def test_depthwise_convolutions_of_nothing_are_zero(shape):
    x, w = constant(ones(*shape)), constant(ones(2, 2, shape[3], 3))
    y = depthwise_conv2d_native(x, w, 1, "SAME")
    values = evaluate([y, *gradients(y, [x, w])])
    assert [value.shape for value in values] == [(*shape[:3], shape[3] * 3), shape, (2, 2, shape[3], 3)]
    assert not any(value.any() for value in values)


def test_a_transposed_convolution_of_sequences_takes_its_shape_as_data():
    size = placeholder("int32", [3])
    y = conv1d_transpose(normal(2, 3, 4), normal(3, 2, 4), size, 2, name="up")
    assert y.op.name == "up"
    assert evaluate(y, {size: np.array([2, 6, 2])}).shape == (2, 6, 2)


def test_the_place_of_the_highest_is_the_first_of_equals():
    x = np.array([[3, 1, 5], [3, 5, 5], [0, 0, 0]], np.int32).reshape(1, 3, 3, 1)
    y, where = evaluate(list(max_pool_with_argmax(x, 2, 1, "VALID", Targmax="int32")))
    assert where.dtype == np.int32
    assert y.ravel().tolist() == [5, 5, 5, 5]
    assert where.ravel().tolist() == [4, 2, 4, 4]


def test_nan_and_padding_and_lowest_values_have_places():
    x = np.array([[-np.inf, -np.inf], [1, np.nan]]).reshape(1, 2, 2, 1)
    y, where = evaluate(list(max_pool_with_argmax(np.concatenate([x, x[:, ::-1]]), [1, 2], 1, "SAME")))
    np.testing.assert_array_equal(y[0, ..., 0], [[-np.inf, -np.inf], [np.nan, np.nan]])
    assert where[..., 0].tolist() == [[[0, 1], [3, 3]], [[1, 1], [2, 3]]]


def test_places_are_counted_in_each_image_or_through_the_batch():
    x = constant(normal(3, 4, 4, 2))
    found = [max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=through) for through in (False, True)]
    each, through = evaluate([argmax for _, argmax in found])
    np.testing.assert_array_equal(through - each, np.broadcast_to(np.arange(3).reshape(3, 1, 1, 1) * 32, each.shape))
    for y, _ in found:
        (dx,) = gradients(y, x)
        assert evaluate(dx).sum() == 3 * 2 * 2 * 2
    with pytest.raises(ValueError, match="index 99 is out of range for size 32"):
        evaluate(pooling_argmax.max_pool_grad_with_argmax(
            x, ones(3, 2, 2, 2), np.full((3, 2, 2, 2), 99), (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
        ))  # fmt: skip


# Normalisation


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("block", "row"), [(1, 1), (1, 4096), (1000, 24), (1 << 20, 1)])
def test_the_size_of_blocks_does_not_change_a_normalisation(monkeypatch, data_format, block, row):
    x, scale = constant(normal(6, 4, 5, 3, dtype=np.float64)), constant(normal(3 if data_format == "NHWC" else 4) * 1.0)
    scale = constant(normal(3 if data_format == "NHWC" else 4, dtype=np.float64))
    y, *moments = fused_batch_norm(x, scale, scale, data_format=data_format)
    built = [y, *moments, *gradients(y * y, [x, scale])]
    expected = evaluate(built)
    monkeypatch.setattr(normalisation, "BLOCK", block)
    monkeypatch.setattr(normalisation, "ROW", row)
    normalisation._seen.cache_clear()
    for ours, theirs in zip(evaluate(built), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    normalisation._seen.cache_clear()


def test_a_mean_far_from_zero_costs_the_variance_no_digits():
    x = (normal(64, 8, 8, 3, dtype=np.float64) + 3000).astype(np.float32)
    y, mean, variance = evaluate(list(fused_batch_norm(x, ones(3), np.zeros(3, np.float32), epsilon=0.0)))
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean((0, 1, 2)), rtol=1e-7)
    np.testing.assert_allclose(variance, exact.var((0, 1, 2), ddof=1), rtol=1e-5)
    np.testing.assert_allclose(y, (exact - exact.mean((0, 1, 2))) / exact.std((0, 1, 2)), atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_narrow_images_have_statistics_of_float32(dtype, training):
    x = constant(normal(4, 3, 3, 2).astype(dtype))
    scale, moments = constant(ones(2)), [] if training else [ones(2) * 0.1, ones(2) * 2]
    y, mean, variance = fused_batch_norm(x, scale, ones(2), *moments, is_training=training)
    wide = fused_batch_norm(evaluate(x).astype(np.float32), scale, ones(2), *moments, is_training=training)
    assert (y.dtype.name, mean.dtype.name, variance.dtype.name) == (str(np.dtype(dtype)), "float32", "float32")
    for ours, theirs in zip(evaluate([y, mean, variance]), evaluate(list(wide)), strict=True):
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
    dx, dscale = gradients(y * y, [x, scale])
    assert (evaluate(dx).dtype, evaluate(dscale).dtype) == (dtype, np.float32)
    with pytest.raises(TypeError, match="float32 is needed"):
        fused_batch_norm(x, constant(ones(2).astype(dtype)), ones(2))


def test_statistics_of_nothing_are_nan_and_of_one_element_finite():
    y, mean, variance = evaluate(list(fused_batch_norm(ones(0, 4, 4, 2), ones(2), ones(2))))
    assert y.shape == (0, 4, 4, 2)
    assert np.isnan([mean, variance]).all()
    y, mean, variance = evaluate(list(fused_batch_norm(ones(1, 2) * 3, ones(2), ones(2))))
    assert (y.tolist(), mean.tolist(), variance.tolist()) == ([[1, 1]], [3, 3], [0, 0])


def test_a_gradient_of_the_output_alone_adds_nothing_for_the_statistics(graph):
    x = placeholder("float32", [None, 4, 4, 3])
    y, mean, _ = fused_batch_norm(x, ones(3), ones(3))
    before = graph.version
    (dx,) = gradients(y, x)
    assert dx.op.type == "fused_batch_norm_grad"
    assert graph.version - before < 12
    feeds = {x: normal(2, 4, 4, 3)}
    np.testing.assert_allclose(evaluate(gradients(mean, x)[0], feeds), np.full((2, 4, 4, 3), 1 / 32), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [0, 3, 1e4])
def test_a_layer_of_one_row_is_normalised_as_among_others(dtype, mean):
    x = normal(3, 4, 6, dtype=dtype) + dtype(mean)
    scale, offset = normal(4, 6, dtype=dtype), normal(6, 4, dtype=dtype).T
    together = evaluate(list(layer_norm(x, scale, offset, 1e-5)))
    for place in range(3):
        alone = evaluate(list(layer_norm(x[place : place + 1], scale, offset, 1e-5)))
        for one, all_ in zip(alone, together, strict=True):
            assert (one.shape, one.dtype) == ((1, *all_.shape[1:]), all_.dtype)
            np.testing.assert_allclose(one[0], all_[place], rtol=1e-3 if dtype is np.float32 else 1e-9, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_layers_have_statistics_of_float32_and_are_rounded_once(dtype):
    x, scale = constant(normal(4, 3, 6).astype(dtype)), constant(normal(6))
    found, wide = layer_norm(x, scale, scale), layer_norm(evaluate(x).astype(np.float32), scale, scale)
    for ours, theirs in zip(evaluate(list(found)), evaluate(list(wide)), strict=True):
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
    dx, dscale = gradients(found[0] * found[0], [x, scale])
    assert [each.dtype for each in evaluate([*found, dx, dscale])] == [dtype, "float32", "float32", dtype, "float32"]
    with pytest.raises(TypeError, match="float32, not"):
        layer_norm(x, x[0, 0], x[0, 0])


def test_the_gradients_of_a_layers_statistics_reach_its_input():
    x, scale = constant(normal(4, 6, dtype=np.float64)), constant(ones(6).astype(np.float64))
    y, mean, variance = layer_norm(x, scale, scale)
    values, found = evaluate([x, *gradients([mean, variance], [x, x])[:1]])
    np.testing.assert_allclose(found, (1 + 2 * (values - values.mean(1, keepdims=True))) / 6)
    assert gradients(y, x)[0].op.type == "layer_norm_grad"


@pytest.mark.parametrize("beta", [0.5, 0.75, 0.9])
def test_square_roots_and_powers_agree(beta):
    x = normal(3, 2, 2, 7, dtype=np.float64)
    whole = 2 + 0.5 * (x * x).sum(-1, keepdims=True)
    np.testing.assert_allclose(evaluate(lrn(x, 7, 2.0, 0.5, beta)), x / whole**beta)


# Images


def test_a_rearrangement_takes_any_dtype_and_open_sizes():
    x = placeholder("string", [None, None, 4, 1])
    y = space_to_batch.space_to_batch(x, [[0, 0], [0, 0]], 2)
    assert y.shape.as_list() == [None, None, 2, 1]
    words = np.array([b"a", b"b", b"c", b"d"] * 2, object).reshape(1, 2, 4, 1)
    pixels = evaluate(space_to_batch.space_to_depth(words, 2)).ravel()
    assert pixels.tolist() == [b"a", b"b", b"a", b"b", b"c", b"d", b"c", b"d"]
    assert evaluate(space_to_batch.space_to_batch(words, [[0, 0], [1, 1]], 2))[0].ravel().tolist() == [b"", b"b", b"d"]
    with pytest.raises(TypeError, match="not supported"):
        patches.extract_image_patches(x, 2, 1, 1, "SAME")


def row(*values):
    return np.array(values, np.float32).reshape(1, 1, -1, 1)


@pytest.mark.parametrize(
    ("kind", "flags", "expected"),
    [
        ("bilinear", {}, [1, 1.5, 2, 2.5, 3, 3]),
        ("bilinear", {"align_corners": True}, [1, 1.4, 1.8, 2.2, 2.6, 3]),
        ("bilinear", {"half_pixel_centers": True}, [1, 1.25, 1.75, 2.25, 2.75, 3]),
        ("nearest_neighbor", {}, [1, 1, 2, 2, 3, 3]),
        ("nearest_neighbor", {"align_corners": True}, [1, 1, 2, 2, 3, 3]),
        ("area", {}, [1, 1, 2, 2, 3, 3]),
    ],
)
def test_pixels_lie_where_tensorflow_has_them(kind, flags, expected):
    resized = evaluate(getattr(resize, f"resize_{kind}")(row(1, 2, 3), [1, 6], **flags))
    np.testing.assert_allclose(resized.ravel(), expected, rtol=1e-6)


def test_integers_become_float32_unless_pixels_are_only_copied():
    x = np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1)
    for kind, dtype in [
        ("bilinear", "float32"),
        ("bicubic", "float32"),
        ("area", "float32"),
        ("nearest_neighbor", "uint8"),
    ]:
        y = getattr(resize, f"resize_{kind}")(x, [2, 3])
        assert y.dtype.name == dtype
        assert evaluate(y).dtype == dtype
        np.testing.assert_array_equal(evaluate(y), x)


@pytest.mark.parametrize("kind", ["bilinear", "bicubic", "area", "nearest_neighbor"])
def test_the_gradient_of_a_resize_is_its_adjoint(kind):
    x, dy = constant(normal(2, 7, 5, 3, dtype=np.float64)), normal(2, 4, 11, 3, dtype=np.float64)
    y = getattr(resize, f"resize_{kind}")(x, [4, 11])
    (dx,) = gradients(y, x, constant(dy))
    y, dx = evaluate([y, dx])
    np.testing.assert_allclose((y * dy).sum(), (evaluate(x) * dx).sum())


# Candidates


@pytest.mark.parametrize("name", ["uniform", "log_uniform"])
def test_unique_candidates_differ_and_lie_in_range(name):
    sampler = getattr(candidate_sampling, f"{name}_candidate_sampler")
    drawn, right, expected = evaluate(list(sampler([[0], [7]], 1, 8, True, 8, seed=1)))
    assert sorted(drawn.tolist()) == list(range(8))
    assert (drawn.dtype, right.dtype, right.shape, expected.shape) == (np.int64, np.float32, (2, 1), (8,))
    assert ((expected > 0) & (expected <= 1)).all()
    assert right[0, 0] == expected[drawn.tolist().index(0)]


def test_candidates_are_drawn_as_often_as_is_expected():
    classes = np.arange(20).reshape(20, 1)
    for name in ("uniform", "log_uniform"):
        sampler = getattr(candidate_sampling, f"{name}_candidate_sampler")
        drawn, expected, _ = evaluate(list(sampler(classes, 1, 50_000, False, 20, seed=5)))
        counts, wanted = np.bincount(drawn, minlength=20), expected.ravel()
        assert wanted.sum() == pytest.approx(50_000, rel=1e-4)
        assert (abs(counts - wanted) < 5 * np.sqrt(wanted)).all()


def test_equal_seeds_give_equal_candidates():
    first, again, other = (
        evaluate(candidate_sampling.log_uniform_candidate_sampler([[1]], 1, 20, True, 1000, seed=seed)[0])
        for seed in (3, 3, 4)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_accidental_hits_of_nothing_are_none():
    hits = evaluate(list(candidate_sampling.compute_accidental_hits([[1], [2]], [3, 4], 1)))
    assert [(value.shape, value.dtype.name) for value in hits] == [((0,), "int32"), ((0,), "int64"), ((0,), "float32")]
