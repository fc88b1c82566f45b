"""Laws of all layers: shapes, gradients, weights by name, copies, checkpoints, loops. `oracle/` has their numbers."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers.layer import Layer

RANDOM = np.random.default_rng(5)
ROWS, PICTURES, FILMS = (2, 4, 6), (2, 4, 4, 4), (2, 3, 3, 4, 2)


def standard():
    """A normalization whose moments are known."""
    return layers.Normalization(mean=0.5, variance=[1.0, 4.0, 1.0, 4.0, 1.0, 4.0])


LAYERS = {
    "ReLU": (lambda: layers.ReLU(1.5, 0.1), ROWS),
    "LeakyReLU": (layers.LeakyReLU, ROWS),
    "ELU": (lambda: layers.ELU(0.5), ROWS),
    "PReLU": (lambda: layers.PReLU("ones", shared_axes=1), ROWS),
    "Softmax": (lambda: layers.Softmax([1, 2]), ROWS),
    "Identity": (layers.Identity, ROWS),
    "ActivityRegularization": (lambda: layers.ActivityRegularization(0.1, 0.1), ROWS),
    "Conv2D in groups": (lambda: layers.Conv2D(6, 3, groups=2), PICTURES),
    "Conv2D with channels first": (lambda: layers.Conv2D(6, 3, groups=2, data_format="channels_first"), PICTURES),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(3, padding="causal", depth_multiplier=2), ROWS),
    "EinsumDense": (lambda: layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="bd"), ROWS),
    "EinsumDense with more axes": (lambda: layers.EinsumDense("ab...,bc->ac...", 5, bias_axes="c"), ROWS),
    "RMSNormalization": (lambda: layers.RMSNormalization([2, 1]), ROWS),
    "UnitNormalization": (lambda: layers.UnitNormalization([1, 2]), ROWS),
    "GroupNormalization": (lambda: layers.GroupNormalization(2, axis=1), ROWS),
    "LayerNormalization": (lambda: layers.LayerNormalization([2, 1]), ROWS),
    "Normalization": (standard, ROWS),
    "Rescaling": (lambda: layers.Rescaling(2.0, [1.0] * 6), ROWS),
    "UpSampling2D": (lambda: layers.UpSampling2D(2, interpolation="bicubic"), PICTURES),
    "AdaptiveAveragePooling2D": (lambda: layers.AdaptiveAveragePooling2D((3, 2)), PICTURES),
    "AdaptiveMaxPooling1D": (lambda: layers.AdaptiveMaxPooling1D(3, "channels_first"), ROWS),
    "Flatten": (lambda: layers.Flatten("channels_first"), ROWS),
    "MultiHeadAttention": (lambda: layers.MultiHeadAttention(2, 3, attention_axes=2), PICTURES),
    "GroupQueryAttention": (lambda: layers.GroupQueryAttention(3, 4, 2), ROWS),
    "Attention by sums": (lambda: layers.Attention(True, "concat"), [ROWS, ROWS]),
    "RNN": (lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_sequences=True), ROWS),
    "SimpleRNN": (lambda: layers.SimpleRNN(3, unroll=True, activity_regularizer="l2"), ROWS),
    "Bidirectional": (lambda: layers.Bidirectional(layers.RNN(layers.SimpleRNNCell(3))), ROWS),
    "SpectralNormalization": (lambda: layers.SpectralNormalization(layers.Conv2D(3, 2), 2), PICTURES),
    "ConvLSTM1D": (lambda: layers.ConvLSTM1D(3, 2, data_format="channels_first"), PICTURES),
    "ConvLSTM2D": (lambda: layers.ConvLSTM2D(3, 2, return_sequences=True), FILMS),
}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def drawn(sizes):
    return RANDOM.standard_normal(sizes).astype(np.float32)


def values_of(sizes):
    return [drawn(each) for each in sizes] if isinstance(sizes, list) else [drawn(sizes)]


def called(layer, given):
    """The layer's output for one tensor, or for several."""
    return layer(given[0] if len(given) == 1 else given)


@pytest.mark.whole
@pytest.mark.parametrize("name", LAYERS)
async def test_shapes_gradients_and_copies_of_a_layer(name, tmp_path):
    af.set_random_seed(1)  # differences of float32 are too inexact for a few initial values
    make, sizes = LAYERS[name]
    layer, values = make(), values_of(sizes)
    given = [af.placeholder(af.float32, [None, *value.shape[1:]]) for value in values]
    copy = layer.like_this()
    made, again = called(layer, given), called(copy, given)
    assert len(copy.weights) == len(layer.weights)
    assert not set(copy.weights) & set(layer.weights)
    parts = RANDOM.standard_normal(made.shape.as_list()[1:]).astype(np.float32)
    total = af.reduce_sum(made * parts)
    sources = [*given, *layer.trainable_weights]
    gradients = af.gradients(total, sources)
    names = [weight.op.name for weight in layer.weights]
    assert len(set(names)) == len(names)
    assert all(each.startswith(f"{layer.name}/") for each in names)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        feeds = dict(zip(given, values, strict=True))
        found, copied = await session.run([made, again], feeds)
        assert made.shape.is_compatible_with(found.shape)
        assert made.shape.as_list()[1:] == list(found.shape[1:])
        assert copied.shape == found.shape
        slopes = await session.run(gradients, feeds)
        await agree(session, total, feeds, layer, sources, slopes)
        saver = af.train.Saver({weight.op.name: weight for weight in layer.weights}) if layer.weights else None
        if saver is not None:
            path = await saver.save(session, str(tmp_path / "weights"))
            await session.run([weight.assign(weight * 0.0 + 0.25) for weight in layer.weights])
            await saver.restore(session, path)
        np.testing.assert_array_equal((await session.run(made, feeds)), found)


async def agree(session, total, feeds, layer, sources, slopes):
    """Moving all sources a little along a direction changes the total as the gradients say."""
    small = 1e-2
    ways = [RANDOM.standard_normal(np.shape(slope)).astype(np.float32) for slope in slopes]
    wanted = sum(float((np.asarray(slope) * way).sum()) for slope, way in zip(slopes, ways, strict=True))
    count, ends = len(feeds), []
    before = await session.run(layer.trainable_weights)
    for sign in (small, -small):
        moved = {place: value + sign * way for (place, value), way in zip(feeds.items(), ways, strict=False)}
        for weight, value, way in zip(sources[count:], before, ways[count:], strict=True):
            await session.run(weight.assign(value + sign * way))
        ends.append(float(await session.run(total, moved)))
    for weight, value in zip(sources[count:], before, strict=True):
        await session.run(weight.assign(value))
    assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(wanted, rel=0.05, abs=0.1)


async def test_noise_acts_in_training_only():
    x = np.ones((40, 30, 8), np.float32)
    noisy = [
        layers.SpatialDropout1D(0.25, seed=1), layers.AlphaDropout(0.25, seed=2), layers.GaussianDropout(0.2, seed=3),
        layers.GaussianNoise(0.5, seed=4), layers.Dropout(0.25, [None, 1, None], seed=5),
    ]  # fmt: skip
    trained, used = [[layer(x, training=training) for layer in noisy] for training in (True, False)]
    async with af.Session() as session:
        spatial, alpha, product, added, shaped = await session.run(trained)
        assert all((each == 1).all() for each in await session.run(used))
    for whole in (spatial, shaped):
        assert (whole == whole[:, :1]).all()
        assert 0.15 < (whole == 0).mean() < 0.35
    assert sorted(np.unique(alpha)) == pytest.approx([-1.1435442, 1.2484393], abs=1e-5)  # by the formula of Keras 3.15
    assert product.mean() == pytest.approx(1, abs=0.05)
    assert product.std() == pytest.approx(0.5, abs=0.05)
    assert added.std() == pytest.approx(0.5, abs=0.05)


async def test_a_normalization_takes_the_moments_of_its_data():
    data = drawn((50, 3)) * 3 + 2
    whole, parts, back = layers.Normalization(), layers.Normalization(), layers.Normalization(invert=True)
    single = layers.Normalization(axis=None)
    for layer, given in ((whole, data), (parts, [data[:7], data[7:]]), (back, data), (single, data)):
        layer.adapt(given)
    normal = whole(data)
    async with af.Session() as session:
        made = [normal, parts(data), back(normal), single(data)]
        await session.run(af.global_variables_initializer())
        one, other, again, flat = await session.run(made)
    np.testing.assert_allclose(one, (data - data.mean(0)) / data.std(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(again, data, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(flat, (data - data.mean()) / data.std(), rtol=1e-4, atol=1e-5)
    assert [weight.op.name for weight in whole.weights] == ["normalization/mean", "normalization/variance"]
    assert whole.trainable_weights == []
    with pytest.raises(RuntimeError, match="call adapt before"):
        whole.adapt(data)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (3, TypeError, "adapt takes an array or an iterable of arrays, not 3"),
        ([], ValueError, "adapt got no numbers"),
        (np.array(["a"]), TypeError, "data is a number or an array of numbers"),
        ([np.ones((2, 3)), np.ones((2, 4))], ValueError, r"different sizes along the axes: \[\(3,\), \(4,\)\]"),
    ],
)
def test_data_without_moments_are_refused(data, kind, text):
    with pytest.raises(kind, match=text):
        layers.Normalization().adapt(data)


async def test_layers_are_called_in_loops_and_each_element_of_a_map():
    rows = af.constant(drawn((3, 2, 4, 6)))
    each = layers.RNN(layers.LSTMCell(3, name="cell"))
    mapped = af.map_fn(each, rows, dtype=af.float32)
    _, summed = af.while_loop(
        lambda n, _: n < 3, lambda n, total: (n + 1, total + each(rows[n])), [0, af.zeros([2, 3])]
    )
    assert [weight.op.name for weight in each.weights][:1] == ["rnn/cell/kernel"]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        one, other = await session.run([mapped, summed])
    np.testing.assert_allclose(one.sum(0), other, rtol=1e-4, atol=1e-5)


def test_short_names_are_the_same_layers_and_every_name_is_a_layer():
    assert layers.MaxPool2D is layers.MaxPooling2D
    assert layers.GlobalAvgPool1D is layers.GlobalAveragePooling1D
    assert layers.Convolution2D is layers.Conv2D
    assert all(issubclass(getattr(layers, name), Layer) for name in dir(layers) if name != "Input")


async def test_sparsemax_gives_the_nearest_probabilities():
    x = 2 * drawn((50, 5))
    async with af.Session() as session:
        found = await session.run(af.activations.sparsemax(x))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    for row, given in zip(found, x, strict=True):
        moved = (given - row)[row > 0]  # by the same threshold, below which all others lie
        np.testing.assert_allclose(moved, moved[0], rtol=1e-4, atol=1e-5)
        assert (given[row == 0] <= moved[0] + 1e-5).all()


async def test_activations_bend_where_kerass_do():
    x = np.array([-4.0, -1.0, -0.5, 0.0, 0.5, 1.0, 4.0], np.float32)
    expected = {
        "hard_sigmoid": [0, 1 / 3, 0.4166667, 0.5, 0.5833333, 2 / 3, 1], "hard_tanh": [-1, -1, -0.5, 0, 0.5, 1, 1],
        "hard_shrink": [-4, -1, 0, 0, 0, 1, 4], "soft_shrink": [-3.5, -0.5, 0, 0, 0, 0.5, 3.5],
        "sparse_plus": [0, 0, 0.0625, 0.25, 0.5625, 1, 4], "sparse_sigmoid": [0, 0, 0.25, 0.5, 0.75, 1, 1],
    }  # fmt: skip
    made = {name: getattr(af.activations, name)(x) for name in expected}
    made["relu"] = af.activations.relu(x, 0.1, 2.0, 0.5)
    expected["relu"] = [-0.45, -0.15, -0.1, -0.05, 0.5, 1, 2]
    async with af.Session() as session:
        found = await session.run(made)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


async def test_softmax_leaves_masked_places_out():
    x, mask = drawn((2, 3)), np.array([[True, False, True], [False, False, False]])
    async with af.Session() as session:
        found = await session.run(layers.Softmax()(x, mask=mask))
    weights = np.exp(x[0]) * mask[0]
    np.testing.assert_allclose(found, [weights / weights.sum(), [0, 0, 0]], rtol=1e-5, atol=1e-6)
