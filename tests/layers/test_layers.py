"""Values of layers against their formulas in NumPy."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import calls

RANDOM = np.random.default_rng(3)


def drawn(*sizes):
    return RANDOM.standard_normal(sizes).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def outputs(layer, *inputs, weights=(), **arguments):
    """The results of a call with these weights; sizes of the batch are not known before the run."""
    given = [af.placeholder(array.dtype, [None, *array.shape[1:]]) for array in inputs]
    made = layer(given[0] if len(given) == 1 else given, **arguments)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        for weight, value in zip(layer.weights, weights, strict=True) if weights else ():
            await session.run(weight.assign(value))
        return await session.run(made, dict(zip(given, inputs, strict=True)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("sizes", [(4, 3), (4, 2, 3), (4, 2, 5, 3)])
@pytest.mark.parametrize("use_bias", [True, False])
async def test_dense_multiplies_the_last_axis(sizes, use_bias):
    x, kernel, bias = drawn(*sizes), drawn(3, 5), drawn(5)
    layer = layers.Dense(5, activation="tanh", use_bias=use_bias)
    found = await outputs(layer, x, weights=[kernel, bias][: 1 + use_bias])
    np.testing.assert_allclose(found, np.tanh(x @ kernel + (bias if use_bias else 0)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["valid", "same", "causal"])
async def test_conv1d_sums_the_products_of_each_window(padding):
    x, kernel, bias = drawn(2, 6, 3), drawn(3, 3, 4), drawn(4)
    found = await outputs(layers.Conv1D(4, 3, padding=padding), x, weights=[kernel, bias])
    before, after = {"valid": (0, 0), "same": (1, 1), "causal": (2, 0)}[padding]
    wide = np.pad(x, [(0, 0), (before, after), (0, 0)])
    steps = range(wide.shape[1] - 2)
    expected = np.stack([np.einsum("bwc,wcf->bf", wide[:, t : t + 3], kernel) + bias for t in steps], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("strides", [1, 2])
async def test_a_transposed_convolution_is_the_gradient_of_the_convolution(padding, strides):
    x, kernel = drawn(2, 4, 5, 3), drawn(3, 3, 6, 3)
    found = await outputs(layers.Conv2DTranspose(6, 3, strides, padding, use_bias=False), x, weights=[kernel])
    images = af.placeholder(af.float32, found.shape)
    (gradient,) = af.gradients(af.nn.conv2d(images, kernel, strides, padding.upper()), images, grad_ys=x)
    async with af.Session() as session:
        np.testing.assert_allclose(found, await session.run(gradient, {images: found}), rtol=1e-4, atol=1e-5)


async def test_a_separable_convolution_is_a_depthwise_one_and_a_product():
    x, depthwise, pointwise = drawn(2, 6, 3), drawn(3, 3, 2), drawn(1, 6, 4)
    layer = layers.SeparableConv1D(4, 3, depth_multiplier=2, use_bias=False)
    found = await outputs(layer, x, weights=[depthwise, pointwise])
    between = np.stack([np.einsum("bwc,wcm->bcm", x[:, t : t + 3], depthwise).reshape(2, 6) for t in range(4)], 1)
    np.testing.assert_allclose(found, between @ pointwise[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "reduce"), [("Max", np.max), ("Average", np.mean)])
async def test_pooling_reduces_windows_and_global_pooling_all_places(kind, reduce):
    x = drawn(2, 4, 6, 3)
    windows = x.reshape(2, 2, 2, 3, 2, 3)
    found = await outputs(getattr(layers, f"{kind}Pooling2D")(), x)
    np.testing.assert_allclose(found, reduce(windows, (2, 4)), rtol=1e-5, atol=1e-6)
    found = await outputs(getattr(layers, f"Global{kind}Pooling2D")(), x)
    np.testing.assert_allclose(found, reduce(x, (1, 2)), rtol=1e-5)


async def test_resizing_pads_cuts_and_repeats():
    x = drawn(2, 4, 5, 3)
    found = await outputs(layers.ZeroPadding2D(((1, 0), (2, 3))), x)
    np.testing.assert_array_equal(found, np.pad(x, [(0, 0), (1, 0), (2, 3), (0, 0)]))
    np.testing.assert_array_equal(await outputs(layers.Cropping2D(((1, 0), (2, 1))), x), x[:, 1:, 2:-1])
    found = await outputs(layers.UpSampling2D((2, 3)), x)
    np.testing.assert_array_equal(found, x.repeat(2, 1).repeat(3, 2))


async def test_layer_and_group_normalization_give_mean_0_and_variance_1_where_they_should():
    x = drawn(3, 4, 5, 6)
    for layer, axes in ((layers.LayerNormalization(), (3,)), (layers.LayerNormalization([1, 2]), (1, 2))):
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        np.testing.assert_allclose(await outputs(layer, x), (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)
    apart = x.reshape(3, 20, 2, 3)
    normal = (apart - apart.mean((1, 3), keepdims=True)) / np.sqrt(apart.var((1, 3), keepdims=True) + 1e-3)
    found = await outputs(layers.GroupNormalization(2), x)
    np.testing.assert_allclose(found, normal.reshape(x.shape), rtol=1e-4, atol=1e-5)


async def test_batch_normalization_moves_its_statistics_in_training_and_uses_them_otherwise(graph):
    x = drawn(64, 3) * 2 + 5
    layer = layers.BatchNormalization(momentum=0.5)
    given = af.placeholder(af.float32, [None, 3])
    trained, used = layer(given, training=True), layer(given)
    updates = graph.get_collection(af.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    assert [weight.op.name for weight in layer.trainable_weights] == [
        "batch_normalization/gamma",
        "batch_normalization/beta",
    ]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        mean, variance = x.mean(0), x.var(0)
        expected = (x - mean) / np.sqrt(variance + 1e-3)
        np.testing.assert_allclose(await session.run(trained, {given: x}), expected, rtol=1e-3, atol=1e-4)
        await session.run(updates, {given: x})
        moving = 0.5 * mean, 0.5 + 0.5 * variance
        for weight, value in zip(layer.non_trainable_weights, moving, strict=True):
            np.testing.assert_allclose(await session.run(weight), value, rtol=1e-4)
        expected = (x - moving[0]) / np.sqrt(moving[1] + 1e-3)
        np.testing.assert_allclose(await session.run(used, {given: x}), expected, rtol=1e-3, atol=1e-4)


async def test_the_channels_of_a_batch_normalization_may_be_any_axis_after_the_batch(graph):
    x = drawn(2, 3, 4, 5)
    between, last = (layers.BatchNormalization(axis, momentum=0.5) for axis in (-2, -1))
    pairs = [(between, af.constant(x)), (last, af.constant(x.transpose(0, 1, 3, 2)))]
    trained = [layer(given, training=True) for layer, given in pairs]
    used = [layer(given) for layer, given in pairs]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        one, other = await session.run(trained)
        np.testing.assert_allclose(one, other.transpose(0, 1, 3, 2), rtol=1e-5, atol=1e-6)
        await session.run(graph.get_collection(af.GraphKeys.UPDATE_OPS))
        one, other = await session.run(used)
        np.testing.assert_allclose(one, other.transpose(0, 1, 3, 2), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="the channels are an axis after the batch, not axis 0"):
        layers.BatchNormalization(0)(af.constant(x))


async def test_a_batch_normalization_that_is_not_trainable_stays_as_it_is_in_training(graph):
    layer = layers.BatchNormalization(trainable=False)
    x = af.constant(drawn(8, 3))
    trained, used = layer(x, training=True), layer(x)
    assert graph.get_collection(af.GraphKeys.UPDATE_OPS) == layer.trainable_weights == []
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        np.testing.assert_array_equal(*await session.run([trained, used]))


async def test_dropout_drops_in_training_only():
    x = np.ones([100, 100], np.float32)
    assert (await outputs(layers.Dropout(0.25), x) == 1).all()
    found = await outputs(layers.Dropout(0.25, seed=1), x, training=True)
    assert set(np.unique(found)) == {0, np.float32(1 / 0.75)}
    assert 0.2 < (found == 0).mean() < 0.3
    rows = await outputs(layers.Dropout(0.5, [None, 1], seed=1), x, training=True)
    assert (rows == rows[:, :1]).all()


async def test_an_embedding_gives_rows_and_refuses_ids_out_of_range():
    rows = drawn(5, 3)
    ids = np.array([[1, 4], [0, 1]])
    np.testing.assert_array_equal(await outputs(layers.Embedding(5, 3), ids, weights=[rows]), rows[ids])
    with pytest.raises(af.errors.InvalidArgumentError):
        await outputs(layers.Embedding(5, 3), np.array([[5]]))


async def test_changes_of_shape():
    x = drawn(2, 3, 4)
    np.testing.assert_array_equal(await outputs(layers.Flatten(), x), x.reshape(2, 12))
    np.testing.assert_array_equal(await outputs(layers.Reshape((2, -1)), x), x.reshape(2, 2, 6))
    np.testing.assert_array_equal(await outputs(layers.Permute((2, 1)), x), x.transpose(0, 2, 1))
    found = await outputs(layers.RepeatVector(3), x[:, 0])
    np.testing.assert_array_equal(found, np.repeat(x[:, :1], 3, 1))
    np.testing.assert_array_equal(await outputs(layers.Lambda(lambda x: x * 2.0), x), x * 2)


async def test_merging():
    x, y = drawn(2, 3), drawn(2, 3)
    expected = {
        "Add": x + y, "Subtract": x - y, "Multiply": x * y, "Average": (x + y) / 2, "Maximum": np.maximum(x, y),
        "Minimum": np.minimum(x, y), "Concatenate": np.concatenate([x, y], -1),
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(await outputs(getattr(layers, name)(), x, y), value, rtol=1e-6)
    found = await outputs(layers.Dot(1), x, y)
    np.testing.assert_allclose(found, (x * y).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"])
async def test_an_input_of_lower_rank_is_merged_with_each_step_of_its_element(name):
    steps, element = drawn(3, 3, 4), drawn(3, 4)
    found = await outputs(getattr(layers, name)(), steps, element)
    np.testing.assert_array_equal(found, await outputs(getattr(layers, name)(), steps, element[:, None]))


# Recurrent layers


def lstm(x, kernel, recurrent, bias):
    h = c = np.zeros([len(x), len(recurrent)], np.float32)
    for step in range(x.shape[1]):
        i, f, n, o = np.split(x[:, step] @ kernel + h @ recurrent + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(n)
        h = sigmoid(o) * np.tanh(c)
        yield h, c


def gru(x, kernel, recurrent, bias):
    h = np.zeros([len(x), len(recurrent)], np.float32)
    for step in range(x.shape[1]):
        z, r, n = np.split(x[:, step] @ kernel + bias[0], 3, 1)
        u, s, m = np.split(h @ recurrent + bias[1], 3, 1)
        z = sigmoid(z + u)
        h = z * h + (1 - z) * np.tanh(n + sigmoid(r + s) * m)
        yield h, h


def plain(x, kernel, recurrent, bias):
    h = np.zeros([len(x), len(recurrent)], np.float32)
    for step in range(x.shape[1]):
        h = np.tanh(x[:, step] @ kernel + h @ recurrent + bias)
        yield h, h


RECURRENT = {
    "LSTM": (lstm, [(3, 16), (4, 16), (16,)]), "GRU": (gru, [(3, 12), (4, 12), (2, 12)]),
    "SimpleRNN": (plain, [(3, 4), (4, 4), (4,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("go_backwards", [False, True])
async def test_a_recurrent_layer_is_its_step_repeated(name, go_backwards):
    steps, sizes = RECURRENT[name]
    x, weights = drawn(2, 5, 3), [drawn(*size) for size in sizes]
    expected = list(steps(x[:, ::-1] if go_backwards else x, *weights))
    layer = getattr(layers, name)(4, return_sequences=True, return_state=True, go_backwards=go_backwards)
    found, *states = await outputs(layer, x, weights=weights)
    np.testing.assert_allclose(found, np.stack([h for h, _ in expected], 1), rtol=1e-4, atol=1e-5)
    for state, value in zip(states, expected[-1], strict=False):
        np.testing.assert_allclose(state, value, rtol=1e-4, atol=1e-5)
    last = await outputs(getattr(layers, name)(4, go_backwards=go_backwards), x, weights=weights)
    np.testing.assert_allclose(last, expected[-1][0], rtol=1e-4, atol=1e-5)


async def test_sequences_of_a_batch_end_at_their_own_lengths_in_both_directions():
    x, weights = drawn(2, 5, 3), [drawn(*size) for size in RECURRENT["LSTM"][1] * 2]
    layer = layers.Bidirectional(layers.LSTM(4, return_sequences=True))
    found = await outputs(layer, x, weights=weights, sequence_length=np.array([5, 3]))
    for row, length in enumerate((5, 3)):
        part = x[row : row + 1, :length]
        forward = np.stack([h for h, _ in lstm(part, *weights[:3])], 1)
        backward = np.stack([h for h, _ in lstm(part[:, ::-1], *weights[3:])], 1)[:, ::-1]
        np.testing.assert_allclose(
            found[row, :length], np.concatenate([forward, backward], -1)[0], rtol=1e-4, atol=1e-5
        )
        assert not found[row, length:].any()


async def test_a_layer_distributed_over_time_is_applied_to_each_step():
    x, kernel = drawn(2, 5, 3), drawn(3, 4)
    found = await outputs(layers.TimeDistributed(layers.Dense(4, use_bias=False)), x, weights=[kernel])
    np.testing.assert_allclose(found, x @ kernel, rtol=1e-4, atol=1e-5)


async def test_an_lstm_forgets_little_at_first():
    layer = layers.LSTM(2)
    layer(af.zeros([1, 1, 3]))
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        np.testing.assert_array_equal(await session.run(layer.bias), [0, 0, 1, 1, 0, 0, 0, 0])


# Attention


async def test_attention_is_the_mean_of_values_by_the_products_with_keys():
    query, value, key = drawn(2, 3, 4), drawn(2, 5, 4), drawn(2, 5, 4)
    found, weights = await outputs(layers.Attention(), query, value, key, return_attention_scores=True)
    np.testing.assert_allclose(weights, softmax(query @ key.transpose(0, 2, 1)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found, weights @ value, rtol=1e-4, atol=1e-5)


def test_arrays_are_taken_wherever_tensors_are():
    x, mask = drawn(2, 4, 3), np.ones((2, 4, 4), bool)
    assert layers.MultiHeadAttention(2, 3)(x, x, attention_mask=mask).shape == [2, 4, 3]
    assert layers.Attention()([x, x, x]).shape == [2, 4, 3]


async def test_masks_hide_values():
    x = drawn(2, 4, 3)
    mask = np.array([[True, True, False, False], [True] * 4])
    layer = layers.MultiHeadAttention(2, 3)
    _, weights = await outputs(layer, x, attention_mask=mask, use_causal_mask=True, return_attention_scores=True)
    assert weights.shape == (2, 2, 4, 4)
    seen = np.tril(np.ones([4, 4], bool)) & mask[:, None, None]
    assert not weights[~np.broadcast_to(seen, weights.shape)].any()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


async def test_heads_attend_by_themselves():
    x, target = drawn(2, 3, 6), drawn(2, 5, 6)
    layer = layers.MultiHeadAttention(2, 4, value_dim=3)
    weights = [drawn(6, 8), drawn(8), drawn(6, 8), drawn(8), drawn(6, 6), drawn(6), drawn(6, 6), drawn(6)]
    value = af.placeholder(af.float32, [None, 5, 6])
    given = af.placeholder(af.float32, [None, 3, 6])
    made = layer(query=given, value=value)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        for weight, array in zip(layer.weights, weights, strict=True):
            await session.run(weight.assign(array))
        found = await session.run(made, {given: x, value: target})
    projected = [each @ weights[2 * n] + weights[2 * n + 1] for n, each in enumerate((x, target, target))]
    q, k, v = [np.split(each, 2, -1) for each in projected]
    heads = [softmax(q[head] @ k[head].transpose(0, 2, 1) / 2) @ v[head] for head in range(2)]
    expected = np.concatenate(heads, -1) @ weights[6] + weights[7]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# Weights and names


def test_weights_are_named_by_the_layer_and_made_once(graph):
    one, other = layers.Dense(2), layers.Dense(2)
    for layer in (one, other):
        layer(layer(af.zeros([1, 2])))
    assert [weight.op.name for weight in one.weights] == ["dense/kernel", "dense/bias"]
    assert [weight.op.name for weight in other.weights] == ["dense_1/kernel", "dense_1/bias"]
    attention = layers.MultiHeadAttention(2, 3, name="first")
    attention(af.zeros([1, 4, 5]))
    assert [weight.op.name for weight in attention.weights][:2] == ["first/query/kernel", "first/query/bias"]
    assert len(graph.get_collection(af.GraphKeys.TRAINABLE_VARIABLES)) == 12


def test_weights_of_a_layer_inside_a_branch_or_a_scope_are_the_same_variables(graph):
    layer = layers.Dense(2)
    with af.name_scope("outer"):
        layer(af.zeros([1, 2]))
    af.cond(af.constant(True), lambda: layer(af.zeros([1, 2])), lambda: layer(af.ones([1, 2])))
    assert [weight.op.name for weight in layer.weights] == ["dense/kernel", "dense/bias"]


def test_what_regularizers_and_constraints_ask_for_is_kept():
    layer = layers.Dense(2, kernel_regularizer="l2", kernel_constraint="non_neg", activity_regularizer="l1")
    layer(af.zeros([1, 3]))
    assert len(layer.losses) == 1
    assert layer.kernel.constraint is not None
    assert layer.bias.constraint is None


def test_a_trainable_flag_set_later_changes_which_weights_are_trained():
    layer = layers.Dense(2)
    layer(af.zeros([1, 3]))
    layer.trainable = False
    assert layer.trainable_weights == []
    assert layer.non_trainable_weights == layer.weights
    assert layer.count_params() == 8


# Bad input


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.Dense(0), "units is at least 1, not 0"),
        (lambda: layers.SeparableConv2D(0, 3), "filters is at least 1, not 0"),
        (lambda: layers.MultiHeadAttention(2, 4, value_dim=0), "value_dim is at least 1, not 0"),
        (lambda: layers.GRU(2, recurrent_dropout=2), "recurrent_dropout is at least 0 and less than 1, not 2"),
        (lambda: layers.Attention(dropout=-1), "dropout is at least 0 and less than 1, not -1"),
        (lambda: layers.GaussianNoise(-0.5), "stddev is at least 0, not -0.5"),
        (lambda: layers.RepeatVector(-1), "n is at least 1, not -1"),
        (lambda: layers.Reshape((-1, -1)), "one size of target_shape may be -1, not 2"),
        (lambda: layers.ZeroPadding2D(((1, -1), 0)), "padding is at least 0, not -1"),
        (lambda: layers.Dense(2, activation="rellu"), "did you mean 'relu'"),
        (lambda: layers.Dense(2, kernel_initializer="zeroes"), "did you mean 'zeros'"),
        (lambda: layers.Conv2D(2, (3, 3, 3)), "kernel_size is a number, or one for each of 2 axes"),
        (lambda: layers.Conv2D(2, 3, padding="causal"), "one of valid, same"),
        (lambda: layers.Conv2D(2, 3, strides=2, dilation_rate=2), "cannot both be above 1"),
        (lambda: layers.Conv2D(2, 3, data_format="NHWC"), "channels_last"),
        (lambda: layers.Conv2DTranspose(2, 3, 2, output_padding=2), "must be less than strides"),
        (lambda: layers.Dropout(1.0), "less than 1"),
        (lambda: layers.Bidirectional(layers.LSTM(2), backward_layer=layers.LSTM(2)), "same direction"),
        (lambda: layers.Permute((0, 1)), "each number from 1"),
        (lambda: layers.BatchNormalization(momentum=2.0), "momentum lies between 0 and 1, not 2"),
        (lambda: layers.BatchNormalization(epsilon=-1), "epsilon is at least 0, not -1"),
        (lambda: layers.BatchNormalization(moving_mean_initializer="zero"), "did you mean 'zeros'"),
        (lambda: layers.LayerNormalization([1, 1]), "several different ones"),
        (lambda: layers.GroupNormalization(axis=0), "0 is that of the batch"),
        (lambda: layers.Conv2D(6, 3, groups=4), "6 filters cannot be divided into 4 groups"),
        (lambda: layers.UpSampling2D(interpolation="cubic"), "'nearest', 'bilinear' or 'bicubic', not 'cubic'"),
        (lambda: layers.EinsumDense("ab,bc", 3), "as 'ab,bc->ac', not 'ab,bc'"),
        (lambda: layers.EinsumDense("ab,bc->ac", 3, bias_axes="b"), "bias_axes are letters of 'ac', not 'b'"),
        (lambda: layers.Normalization(mean=0.0), "both mean and variance"),
        (lambda: layers.ReLU(max_value=-1), "max_value is at least 0, not -1"),
        (lambda: layers.GroupQueryAttention(2, 3, 2), "3 heads of queries cannot share 2 heads"),
        (lambda: layers.Attention(score_mode="add"), "'dot' or 'concat', not 'add'"),
        (lambda: layers.Dot((1, 2, 3)), "one axis, or one of each input"),
        (lambda: layers.ActivityRegularization(-1), "l1 is at least 0, not -1"),
        (lambda: af.constraints.MinMaxNorm(2.0, 1.0), "max_value is at least 2, not 1"),
        (lambda: af.regularizers.OrthogonalRegularizer(mode="all"), "'rows' or 'columns', not 'all'"),
    ],
)
def test_a_layer_refuses_arguments_that_cannot_work(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.Dense(2.5), "units is a whole number, not 2.5"),
        (lambda: layers.Dense(True), "units is a whole number, not True"),
        (lambda: layers.Conv2D("4", 3), "filters is a whole number, not '4'"),
        (lambda: layers.Conv2D(4, (3, 2.5)), "kernel_size is a whole number, not 2.5"),
        (lambda: layers.MaxPooling2D(2.5), "pool_size is a whole number, not 2.5"),
        (lambda: layers.DepthwiseConv2D(3, depth_multiplier=1.5), "depth_multiplier is a whole number"),
        (lambda: layers.LSTM(2.5), "units is a whole number"),
        (lambda: layers.Embedding(10, 2.5), "output_dim is a whole number"),
        (lambda: layers.MultiHeadAttention(2, 4.5), "key_dim is a whole number"),
        (lambda: layers.GroupNormalization(2.5), "groups is a whole number"),
        (lambda: layers.Reshape(4), "target_shape is a sequence of sizes, not 4"),
        (lambda: layers.Permute((1.0,)), "dims is a whole number"),
        (lambda: layers.Cropping1D(1.5), "cropping is a whole number, not 1.5"),
        (lambda: layers.Dropout("a"), "rate is a number, not 'a'"),
        (lambda: layers.Bidirectional(layers.Dense(2)), "a recurrent layer such as an LSTM"),
        (lambda: layers.TimeDistributed(3), "a layer is distributed over time, not 3"),
        (lambda: layers.BatchNormalization(momentum="a"), "momentum is a number, not 'a'"),
        (lambda: layers.BatchNormalization(axis=1.5), "axis is a whole number, not 1.5"),
        (lambda: layers.BatchNormalization(scale="no"), "scale is True or False, not 'no'"),
        (lambda: layers.Dense(2, use_bias="no"), "use_bias is True or False, not 'no'"),
        (lambda: layers.Dense(2, trainable="no"), "trainable is True or False, not 'no'"),
        (lambda: layers.Dense(2, name=3), "name is text, not 3"),
        (lambda: layers.Dense(2, input_shape="a"), "input_shape is a list of sizes, not 'a'"),
        (lambda: layers.Dropout(0.5, noise_shape="a"), "noise_shape is a sequence of sizes, not 'a'"),
        (lambda: layers.Dropout(0.5, seed="a"), "seed is a whole number, not 'a'"),
        (lambda: layers.Embedding(3, 4, mask_zero="no"), "mask_zero is True or False"),
        (lambda: layers.Masking("a"), "mask_value is a number, not 'a'"),
        (lambda: layers.Permute(3), "dims is a sequence of axes"),
        (lambda: layers.Lambda(3), "a Lambda has a function of its inputs, not 3"),
        (lambda: layers.Concatenate("a"), "axis is a whole number, not 'a'"),
        (lambda: layers.MultiHeadAttention(2, 3, output_shape="a"), "output_shape is a whole number"),
        (lambda: layers.Rescaling("a"), "scale is a number or an array of numbers, not 'a'"),
        (lambda: af.regularizers.L1L2("a"), "l1 is a number, not 'a'"),
        (lambda: af.constraints.MaxNorm("a"), "max_value is a number, not 'a'"),
    ],
)
def test_a_layer_refuses_arguments_of_another_kind_when_it_is_made(make, text):
    with pytest.raises(TypeError, match=text):
        make()


def test_numbers_of_numpy_are_sizes_of_layers():
    layer = layers.Conv2D(np.int64(4), np.int32(3), strides=np.array([1, 2]))
    assert (layer.filters, layer.kernel_size, layer.strides) == (4, (3, 3), (1, 2))
    assert layers.ZeroPadding1D(np.int64(1))(af.zeros([2, 3, 1])).shape.as_list() == [2, 5, 1]


@pytest.mark.parametrize(
    ("layer", "sizes", "text"),
    [
        (layers.Dense(2), [2, None], "axis -1 must be known"),
        (layers.Conv2D(2, 3), [2, 8, 8], "rank 4 is wanted"),
        (layers.Reshape((5, -1)), [2, 3, 4], "12 elements cannot have the shape"),
        (layers.Cropping1D(2), [2, 4, 3], "cannot be cut off"),
        (layers.GroupNormalization(4), [2, 6], "cannot be divided into 4 groups"),
        (layers.Add(), [2, 3], "at least two inputs are wanted"),
        (layers.LSTM(2), [2, 3], "rank 3 is wanted"),
        (layers.MaxPooling2D(2), [2, 3, 4], "rank 4 is wanted"),
        (layers.Conv1D(4, 2, groups=2), [2, 5, 3], "3 channels cannot be divided into 2 groups"),
        (layers.EinsumDense("ab,bc->ac", 3), [2, 3, 4], "the input has 3 axes, and 'ab' is for 2"),
        (
            layers.EinsumDense("abc,cd->abd", (7, 2)),
            [2, 3, 4],
            "the axis 'b' has size 3 in inputs, and 7 in the result",
        ),
        (layers.Normalization(), [2, 3], "call adapt with the data first"),
        (layers.Normalization(mean=[1.0, 2.0], variance=[1.0, 1.0]), [2, 3], "the inputs have .3. places"),
        (layers.PReLU(shared_axes=3), [2, 3], r"not \(3,\) of"),
        (layers.MultiHeadAttention(2, 3, attention_axes=3), [2, 3, 4, 5], "attention_axes lie between"),
        (layers.SpatialDropout2D(0.5), [2, 3, 4], "rank 4 is wanted"),
        (layers.Dense(2, kernel_regularizer="orthogonal_regularizer", kernel_initializer="zeros"), [2, None], "known"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_and_leave_graph_and_layer_as_they_were(graph, layer, sizes, text):
    x = af.placeholder(af.float32, sizes)
    before = len(graph.get_operations())
    with pytest.raises(ValueError, match=text) as caught:
        layer(x)
    assert __file__ in str(caught.value)
    assert len(graph.get_operations()) == before
    assert not layer.built
    assert layer.weights == []


def test_a_layer_has_its_weights_in_one_graph():
    layer = layers.Dense(2)
    layer(af.zeros([1, 3]))
    with af.Graph().as_default(), pytest.raises(ValueError, match="in another graph"):
        layer(af.zeros([1, 3]))


@pytest.mark.parametrize("layer", [layers.Dense(2), layers.GRU(2), layers.MultiHeadAttention(1, 2)])
def test_floats_of_another_precision_than_the_weights_are_refused_with_the_mend(graph, layer):
    for dtype in ("float64", "float16"):
        with pytest.raises(TypeError, match=f"the input is {dtype}, .* in float32: cast .* or make .*dtype=.{dtype}"):
            layer(af.ones([2, 3, 4], dtype))
        assert not layer.built
    assert layer(af.cast(af.ones([2, 3, 4], "float64"), "float32")).dtype is af.float32


def test_a_layer_takes_its_first_argument_by_name_and_none_is_refused():
    assert layers.Dense(2)(inputs=af.ones([2, 3])).shape == [2, 2]
    for call, name in ((lambda: layers.Dense(2)(), "inputs"), (lambda: layers.MultiHeadAttention(1, 2)(), "query")):
        with pytest.raises(TypeError, match=f"a layer is called with a tensor, its argument '{name}', and none was"):
            call()


def test_a_layer_without_a_call_says_so():
    with pytest.raises(NotImplementedError, match="Layer defines no call"):
        layers.Layer()(af.zeros([1]))


async def test_a_function_as_layer_is_told_whether_it_trains():
    layer = layers.Lambda(lambda x, training: x * (2.0 if training else 1.0))
    one = af.constant([[1.0]])
    async with af.Session() as session:
        assert (await session.run([layer(one), layer(one, training=True)])) == [[[1.0]], [[2.0]]]


def test_arguments_and_shapes_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="positional arguments"):
        layers.Dense(2)(af.constant([[1.0]]), 1, 2)
    with pytest.raises(ValueError, match="6 elements cannot"):
        layers.Reshape([5])(af.placeholder(af.float32, [None, 6]))


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3), (2, 3, 4, 3)])
async def test_the_moving_variance_is_that_of_the_elements_at_every_rank(shape):
    values = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    layer = layers.BatchNormalization(momentum=0.0)
    with calls.gathered_effects() as effects:
        outputs = layer(af.constant(values), training=True)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        await session.run([outputs, *effects.updates])
        found = await session.run(layer.moving_variance)
    np.testing.assert_allclose(found, values.reshape(-1, 3).var(0), rtol=1e-5)


@pytest.mark.parametrize("layer", [layers.Dense(3), layers.Flatten(), layers.Dropout(0.5), layers.MaxPooling1D()])
def test_a_layer_for_one_tensor_refuses_several_even_after_its_weights_are_made(layer):
    x = af.ones([2, 4, 3])
    layer(x)
    for given in ([x], [x, x], {"x": x}):
        with pytest.raises(ValueError, match=f"{layer.name}: one tensor is wanted, not {len(given)}: join several"):
            layer(given)


def test_an_argument_that_a_layer_has_not_is_refused_by_its_name():
    for make, text in (
        (lambda: layers.Dense(foo=1), "Dense has no argument 'foo'"),
        (lambda: layers.Dense(3, activaton="relu"), "Dense has no argument 'activaton'; did you mean 'activation'"),
        (lambda: layers.LSTM(3, unit=1), "LSTM has no argument 'unit'; did you mean 'units'"),
        (lambda: af.Sequential([], layer=1), "Sequential has no argument 'layer'; did you mean 'layers'"),
    ):
        with pytest.raises(TypeError, match=text):
            make()

    class Own(layers.Dense):
        def __init__(self, **options):
            self.factor = options.pop("factor")
            super().__init__(3, **options)

    assert Own(factor=2.0, name="mine").factor == 2.0


def test_names_of_layers_are_those_of_keras():
    names = [layers.ConvLSTM2D(1, 1).name, layers.Conv2DTranspose(1, 1).name, layers.RMSNormalization().name]
    assert names == ["conv_lstm2d", "conv2d_transpose", "rms_normalization"]
