"""Activations, bias, softmax and cross entropies: what the samples of the registry test do not show."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.nn import activation, losses, softmax
from tests.support.evaluate import evaluate

ACTIVATIONS = [
    activation.relu, activation.relu6, activation.leaky_relu, activation.elu, activation.selu, activation.softplus,
    activation.softsign,
]  # fmt: skip
NARROW = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


# Activations


@pytest.mark.parametrize("dtype", [np.float32, np.float64, *NARROW])
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activations_and_their_gradients_keep_dtype_and_shape(op, dtype):
    for shape in [(2, 3), (0, 3), ()]:
        x = placeholder(dtype, [None] * len(shape))
        y = op(x)
        assert y.shape is x.shape
        for value in evaluate([y, *gradients(y, x)], {x: np.full(shape, 0.75, dtype)}):
            assert (value.dtype, value.shape) == (dtype, shape)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", [activation.elu, activation.selu, activation.softplus, activation.softsign])
def test_narrow_floats_are_rounded_once(op, dtype):
    x = np.linspace(-3, 3, 25).astype(dtype)
    exact = evaluate(op(x.astype(np.float32)))
    np.testing.assert_array_equal(evaluate(op(x)), exact.astype(dtype))


def test_extremes_stay_what_they_are():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0], np.float32)
    for op, expected in [
        (activation.relu, [np.nan, np.inf, 0, 1e30, 0, 0]),
        (activation.relu6, [np.nan, 6, 0, 6, 0, 0]),
        (activation.leaky_relu, [np.nan, np.inf, -np.inf, 1e30, -2e29, 0]),
        (activation.elu, [np.nan, np.inf, -1, 1e30, -1, 0]),
        (activation.softplus, [np.nan, np.inf, 0, 1e30, 0, np.log(2)]),
    ]:
        np.testing.assert_allclose(evaluate(op(x)), expected, rtol=1e-6)
    np.testing.assert_array_equal(evaluate(activation.softplus_grad(np.ones(3), np.array([-1e9, 0, 1e9]))), [0, 0.5, 1])


def test_the_gradient_of_relu_needs_its_result_alone():
    x = placeholder("float32", [None, 4])
    y = activation.relu(x)
    (dx,) = gradients(y, x)
    assert dx.op.type == "relu_grad"
    assert dx.op.inputs[1] is y


def test_activations_take_the_dtypes_they_can():
    np.testing.assert_array_equal(evaluate(activation.relu(np.array([-3, 4], np.int8))), np.array([0, 4], np.int8))
    np.testing.assert_array_equal(evaluate(activation.relu6(np.array([-3, 4, 9]))), [0, 4, 6])
    with pytest.raises(TypeError, match="elu: dtype int32 is not supported"):
        activation.elu([1, 2])
    with pytest.raises(TypeError, match="relu: dtype complex64 is not supported"):
        activation.relu(np.ones(2, np.complex64))
    with pytest.raises(ValueError, match=r"relu_grad: shapes \[2\] and \[3\] must be equal"):
        activation.relu_grad(np.ones(2), np.ones(3))


# Bias


def test_a_bias_must_fit_the_channels():
    x, open_x, bias = np.ones((2, 3), np.float32), placeholder("float32", None), placeholder("float32", [None])
    for build, message in [
        (lambda: activation.bias_add(x, np.ones(4, np.float32)), "bias has 4 elements, value has 3 channels"),
        (lambda: activation.bias_add(x, np.ones((1, 3), np.float32)), "rank 1 is needed"),
        (lambda: activation.bias_add(x[0], bias), "value needs a batch axis and a channel axis"),
        (lambda: activation.bias_add(x, bias, "HWC"), "data_format is 'NHWC' or 'NCHW', not 'HWC'"),
    ]:
        with pytest.raises(ValueError, match=message):
            build()
    with pytest.raises(ValueError, match=r"bias of shape \[1\] does not fit value of shape \[2, 3\]"):
        evaluate(activation.bias_add(open_x, bias), {open_x: x, bias: np.ones(1, np.float32)})
    with pytest.raises(ValueError, match=r"bias of shape \[2\] does not fit value of shape \[2, 1\]"):
        evaluate(activation.bias_add(open_x, bias), {open_x: x[:, :1], bias: np.ones(2, np.float32)})


@pytest.mark.parametrize("dtype", NARROW[:2])
def test_the_gradient_of_a_narrow_bias_is_summed_as_float32(dtype):
    ones = np.ones((4099, 2), dtype)
    assert evaluate(activation.bias_add_grad(ones)).astype(float).tolist() == [float(dtype(4099))] * 2


def test_the_gradient_of_a_bias_sums_many_rows_and_any_layout():
    x = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
    for array in (x, np.asfortranarray(x), x[::2], x.reshape(50, 100, 3)):
        expected = array.reshape(-1, 3).sum(0, np.float64)
        np.testing.assert_allclose(evaluate(activation.bias_add_grad(array)), expected, atol=1e-3)
    assert evaluate(activation.bias_add_grad(x[:0, :0])).shape == (0,)


# Softmax


def test_softmax_does_not_overflow():
    x = np.array([[1e4, 0, -1e4], [-1e30, -1e30, -1e30], [-np.inf, 0, 0]], np.float32)
    np.testing.assert_allclose(evaluate(softmax.softmax(x)), [[1, 0, 0], [1 / 3] * 3, [0, 0.5, 0.5]], rtol=1e-6)
    assert evaluate(softmax.log_softmax(x))[0].tolist() == [0, -1e4, -2e4]
    assert np.isnan(evaluate(softmax.softmax(np.array([[np.nan, 1.0], [1.0, 1.0]])))).tolist() == [
        [True] * 2,
        [False] * 2,
    ]


@pytest.mark.parametrize("dtype", NARROW)
def test_a_narrow_softmax_is_rounded_once(dtype):
    x = np.linspace(-2, 2, 60).reshape(3, 20).astype(dtype)
    exact = evaluate(softmax.softmax(x.astype(np.float32)))
    np.testing.assert_array_equal(evaluate(softmax.softmax(x)), exact.astype(dtype))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_highest_of_a_few_rows_are_those_of_many(order):
    x = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32, order)
    x[3, 2], x[4] = np.nan, -np.inf
    few = np.concatenate([softmax.row_tops(x[begin : begin + 5]) for begin in range(0, 40, 5)])
    np.testing.assert_array_equal(softmax.row_tops(x), few)
    assert few.shape == (40, 1)


def test_softmax_takes_any_layout_and_axis():
    x = np.random.default_rng(0).normal(size=(4, 5000, 3)).astype(np.float32)
    for array in (x, x.T, x[:, ::7], np.asfortranarray(x), x[..., :1]):
        for axis in (-1, 1, 0, -3):
            expected = scipy.special.softmax(array.astype(float), axis)
            np.testing.assert_allclose(evaluate(softmax.softmax(array, axis)), expected, rtol=2e-5)
    for shape in [(0, 3), (3, 0)]:
        assert evaluate(softmax.softmax(np.zeros(shape))).shape == shape
        assert evaluate(softmax.log_softmax(np.zeros(shape))).shape == shape


def test_a_scalar_has_no_softmax():
    with pytest.raises(ValueError, match="a scalar has no axis to take the softmax along"):
        softmax.softmax(1.0)
    with pytest.raises(ValueError, match="axis 2 is out of range for rank 2"):
        softmax.softmax([[1.0]], 2)


# Cross entropies


def test_cross_entropies_want_named_arguments():
    x = constant([[1.0, 2.0]])
    for function in (
        losses.sparse_softmax_cross_entropy_with_logits,
        losses.softmax_cross_entropy_with_logits,
        losses.sigmoid_cross_entropy_with_logits,
    ):
        with pytest.raises(ValueError, match=f"Only call `{function.__name__}` with named arguments"):
            function(x, x)
        with pytest.raises(ValueError, match="needs both labels and logits"):
            function(labels=x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_a_label_that_is_no_class_is_an_error_that_names_it(dtype):
    logits, labels = placeholder("float32", [None, 3]), placeholder(dtype, [None])
    loss = losses.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_allclose(evaluate(loss, {logits: x, labels: np.array([0, 2], dtype)}), np.log([3, 3]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"label 3 \(number 1 of 2\) is outside the valid range \[0, 3\)"):
        evaluate(loss, {logits: x, labels: np.array([0, 3], dtype)})
    if np.dtype(dtype).kind == "i":
        with pytest.raises(ValueError, match="label -1 "):
            evaluate(loss, {logits: x, labels: np.array([-1, 0], dtype)})


def test_labels_and_logits_must_fit():
    x = placeholder("float32", [None, 3])
    for function, labels, message in [
        (losses.sparse_softmax_cross_entropy_with_logits, [[1], [2]], "labels of rank 2 do not fit logits of rank 2"),
        (losses.softmax_cross_entropy_with_logits, np.ones((2, 4)), r"labels have shape \[2, 4\], logits \[\?, 3\]"),
        (losses.sigmoid_cross_entropy_with_logits, np.ones((2, 4)), "must be equal"),
    ]:
        with pytest.raises(ValueError, match=message):
            function(labels=labels, logits=x)
    with pytest.raises(ValueError, match="there must be at least one class"):
        losses.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=np.zeros((1, 0)))
    with pytest.raises(TypeError, match="dtype float32 is not supported"):
        losses.sparse_softmax_cross_entropy_with_logits(labels=[1.0], logits=x)
    labels = placeholder("int32", [None])
    loss = losses.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    with pytest.raises(ValueError, match=r"labels of shape \[1\] do not fit logits of shape \[2, 3\]"):
        evaluate(loss, {x: np.ones((2, 3), np.float32), labels: np.array([1], np.int32)})


@pytest.mark.parametrize("size", [1.0, 30.0, 1e3, 1e30])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4), (4,)])
def test_the_sparse_loss_is_exact_however_large_the_logits(shape, size):
    rng = np.random.default_rng(3)
    x = (rng.normal(size=shape) * size).astype(np.float32)
    labels = rng.integers(0, shape[-1], shape[:-1])
    exact = scipy.special.log_softmax(x.astype(float), -1)
    hot = np.eye(shape[-1])[labels]
    for array in (x, np.asfortranarray(x)):
        loss, backprop = evaluate(list(losses._sparse(array, labels)))
        np.testing.assert_allclose(loss, -(hot * exact).sum(-1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(backprop, np.exp(exact) - hot, atol=1e-6)
        assert (loss >= 0).all()


def test_the_form_for_gpus_agrees_and_marks_bad_labels():
    x, labels = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.array([0, 2, 3, -1])
    loss, backprop = losses._anywhere(np, x, labels)
    expected = evaluate(list(losses._sparse(x[:2], labels[:2])))
    for ours, theirs in zip((loss, backprop), expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours[:2], theirs, rtol=1e-5)
        assert np.isnan(ours[2:]).all()


def test_infinite_logits_make_the_loss_infinite_or_nothing():
    x = np.array([[0, -np.inf], [0, -np.inf], [np.inf, 0]], np.float32)
    loss = losses.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 0], logits=x)
    np.testing.assert_array_equal(evaluate(loss), [0, np.inf, np.nan])


@pytest.mark.parametrize("last", [1e30, np.nan])
def test_a_row_that_overflows_changes_no_other_row(last):
    x = (np.random.default_rng(4).normal(size=(40, 9)) * 5).astype(np.float32)
    wild = np.concatenate([x[:-1], np.full((1, 9), last, np.float32) * np.arange(9, dtype=np.float32)])
    for found, plain in zip(*[evaluate([*losses._sparse(each, np.arange(40) % 9)]) for each in (wild, x)], strict=True):
        assert found[:-1].tobytes() == plain[:-1].tobytes()


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_losses_are_rounded_once(dtype):
    x, labels = np.linspace(-2, 2, 60).reshape(3, 20).astype(dtype), np.array([0, 5, 19])
    exact = evaluate(losses.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x.astype(np.float32)))
    loss = evaluate(losses.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
    np.testing.assert_array_equal(loss, exact.astype(dtype))


def test_the_gradient_of_a_loss_is_one_product():
    x, labels = placeholder("float32", [None, 3]), placeholder("int32", [None])
    (dx,) = gradients(losses.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x), x)
    assert dx.op.type == "scale_rows"
    assert dx.op.inputs[0].op.type == "sparse_softmax_cross_entropy_with_logits"
    assert dx.shape is x.shape


def test_classes_may_lie_along_any_axis():
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    z = scipy.special.softmax(x[::-1], 1)
    expected = -(z * scipy.special.log_softmax(x, 1)).sum(1)
    for loss in (
        losses.softmax_cross_entropy_with_logits(labels=z, logits=x, dim=1),
        losses.softmax_cross_entropy_with_logits_v2(z, x, axis=-2),
    ):
        np.testing.assert_allclose(evaluate(loss), expected)
    with pytest.raises(ValueError, match="logits of unknown rank have no axis 0"):
        losses.softmax_cross_entropy_with_logits_v2(z, placeholder("float64", None), axis=0)


def test_only_the_second_form_sends_gradients_to_labels():
    x, z = constant([[1.0, 2.0]]), constant([[0.25, 0.75]])
    assert gradients(losses.softmax_cross_entropy_with_logits(labels=z, logits=x), z) == [None]
    (dz,) = gradients(losses.softmax_cross_entropy_with_logits_v2(z, x), z)
    np.testing.assert_allclose(evaluate(dz), -scipy.special.log_softmax([[1.0, 2.0]], 1), rtol=1e-6)


def test_labels_take_the_dtype_of_logits():
    x = placeholder("float32", [None, 2])
    loss = losses.softmax_cross_entropy_with_logits_v2(np.array([[0.5, 0.5]]), x, name="loss")
    assert (loss.dtype.name, loss.op.name) == ("float32", "loss")
    with pytest.raises(TypeError, match="float32 is needed"):
        losses.softmax_cross_entropy_with_logits_v2(constant(np.ones((1, 2))), x)
