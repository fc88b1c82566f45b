"""`af.layers` and `fit` give Keras's numbers: outputs, losses, metrics, and the weights after a step of training.

Keras computes in a process of its own: the other comparisons put TensorFlow into a mode in which it cannot.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
RANDOM = np.random.default_rng(4)
IDS = np.array([[3, 1, 2, 0, 0], [5, 4, 1, 2, 6], [2, 0, 3, 0, 0], [1, 1, 0, 2, 2]])
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.25], np.float32)
Model = Callable[[Any, Any], Any]


def numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def chain(*names: Any) -> Model:
    """The layers of these names, with arguments, one after the other."""

    def build(layers: Any, x: Any) -> Any:
        for name, args, options in names:
            x = getattr(layers, name)(*args, **options)(x)
        return x

    return build


def masked(*names: Any) -> Model:
    return chain(("Embedding", (7, 3), {"mask_zero": True}), *names)


def layer(name: str, *args: Any, **options: Any) -> Any:
    return name, args, options


def attended(layers: Any, x: Any) -> Any:
    rows = layers.Embedding(7, 4, mask_zero=True)(x)
    return layers.Dense(3)(layers.MultiHeadAttention(2, 3)(rows, rows))


def plainly_attended(layers: Any, x: Any) -> Any:
    rows = layers.Embedding(7, 4, mask_zero=True)(x)
    return layers.Dense(3)(layers.Attention()([rows, layers.Dense(4)(rows)]))


def joined(layers: Any, x: Any) -> Any:
    rows = layers.Embedding(7, 3, mask_zero=True)(x)
    return layers.Dense(3)(layers.Concatenate()([rows, layers.LSTM(2, return_sequences=True)(rows)]))


def merged(name: str) -> Model:
    """Two masked inputs, one without its first step."""

    def build(layers: Any, x: Any) -> Any:
        rows = layers.Embedding(7, 3, mask_zero=True)(x)
        kept = layers.Masking(0.0)(layers.Dense(3, "relu", bias_initializer="zeros")(layers.Embedding(7, 3)(x)))
        return layers.Dense(3)(getattr(layers, name)()([rows, kept]))

    return build


STEPS = {"return_sequences": True}
PICTURES = numbers(4, 6, 6, 4)
ROWS = numbers(4, 5, 6)
FILMS = numbers(4, 3, 5, 4, 2)


def flat(*names: Any) -> Model:
    """The layers of these names, and a dense layer for all that they give."""
    return chain(*names, layer("Flatten"), layer("Dense", 3))


def repeated(cells: Callable[[Any], Any], **options: Any) -> Model:
    """An RNN over masked steps, with cells that each side makes itself."""

    def build(layers: Any, x: Any) -> Any:
        rows = layers.Embedding(7, 3, mask_zero=True)(x)
        return layers.Dense(3)(layers.RNN(cells(layers), **options)(rows))

    return build


def axes_attended(layers: Any, x: Any) -> Any:
    return layers.Dense(3)(layers.Flatten()(layers.MultiHeadAttention(2, 3, attention_axes=2)(x, x)))


def pictures_attended(layers: Any, x: Any) -> Any:
    return layers.Dense(3)(layers.Flatten()(layers.MultiHeadAttention(2, 3)(x, x)))


def normalized(layers: Any, x: Any) -> Any:
    return layers.Dense(3)(layers.SpectralNormalization(layers.Dense(4, "tanh"), power_iterations=2)(x))


def tied(layers: Any, x: Any) -> Any:
    """Scores by the rows of the ids themselves."""
    embedding = layers.ReversibleEmbedding(7, 3, logit_soft_cap=0.5)
    return layers.Dense(3)(embedding(embedding(x), reverse=True))


def untied(layers: Any, x: Any) -> Any:
    embedding = layers.ReversibleEmbedding(7, 3, tie_weights=False, mask_zero=True)
    return layers.Dense(3)(layers.GlobalAveragePooling1D()(embedding(embedding(x), reverse=True)))


def initial_states(layers: Any, x: Any) -> Any:
    """Both directions begin with states that another layer ends with."""
    _, *states = layers.LSTM(2, return_state=True)(x)
    two = layers.Bidirectional(layers.LSTM(2))
    return layers.Dense(3)(two(x, initial_state=[*states, *states]))


MODELS: dict[str, tuple[Model, Any, tuple[int, ...]]] = {
    "spectral norm": (normalized, numbers(4, 5), (4, 3)),
    "tied embedding": (tied, IDS, (4, 5, 3)), "untied embedding": (untied, IDS, (4, 3)),
    "dense": (chain(layer("Dense", 4, "tanh"), layer("Dense", 3)), numbers(4, 5), (4, 3)),
    "activity": (chain(layer("Dense", 3, activity_regularizer="l2", kernel_regularizer="l1")), numbers(4, 5), (4, 3)),
    "convolution": (chain(layer("Conv2D", 2, 3), layer("Flatten"), layer("Dense", 3)), numbers(4, 5, 5, 2), (4, 3)),
    "normalised": (chain(layer("Dense", 4), layer("BatchNormalization"), layer("Dense", 3)), numbers(4, 5), (4, 3)),
    "masked rnn": (masked(layer("SimpleRNN", 3)), IDS, (4, 3)),
    "masked lstm": (masked(layer("LSTM", 3)), IDS, (4, 3)),
    "masked gru": (masked(layer("GRU", 3, go_backwards=True)), IDS, (4, 3)),
    "masked steps": (masked(layer("LSTM", 3, **STEPS)), IDS, (4, 5, 3)),
    "masked zeros": (masked(layer("GRU", 3, zero_output_for_mask=True, **STEPS)), IDS, (4, 5, 3)),
    "masked mean": (masked(layer("GlobalAveragePooling1D"), layer("Dense", 3)), IDS, (4, 3)),
    "masked each": (masked(layer("LayerNormalization"), layer("Dense", 3)), IDS, (4, 5, 3)),
    "masked batch": (masked(layer("BatchNormalization"), layer("Dense", 3)), IDS, (4, 5, 3)),
    "masking": (chain(layer("Masking", 0.0), layer("LSTM", 3)), numbers(4, 5, 2) * (IDS != 0)[..., None], (4, 3)),
    "heads": (attended, IDS, (4, 5, 3)),
    "attention": (plainly_attended, IDS, (4, 5, 3)),
    "joined": (joined, IDS, (4, 5, 3)),
    "axes": (axes_attended, PICTURES, (4, 3)),
    "shared heads": (lambda layers, x: layers.Dense(3)(layers.GroupQueryAttention(3, 4, 2)(x, x)), ROWS, (4, 5, 3)),
    "whole pictures": (pictures_attended, PICTURES, (4, 3)),
    "initial states": (initial_states, ROWS, (4, 3)),
    "stacked": (repeated(lambda layers: [layers.LSTMCell(3), layers.GRUCell(2)]), IDS, (4, 3)),
    "plain cell": (repeated(lambda layers: layers.SimpleRNNCell(3), **STEPS), IDS, (4, 5, 3)),
    "lstm cell": (repeated(lambda layers: layers.LSTMCell(3), go_backwards=True, **STEPS), IDS, (4, 5, 3)),
    "cell before": (repeated(lambda layers: layers.GRUCell(3, reset_after=False)), IDS, (4, 3)),
    "unrolled": (masked(layer("GRU", 3, unroll=True, activity_regularizer="l2")), IDS, (4, 3)),
    "groups": (flat(layer("Conv2D", 6, 3, groups=2, activation="relu")), PICTURES, (4, 3)),
    "grouped rows": (flat(layer("Conv1D", 4, 3, padding="causal", groups=2)), ROWS, (4, 3)),
    "depthwise rows": (flat(layer("DepthwiseConv1D", 3, depth_multiplier=2)), ROWS, (4, 3)),
    "bilinear": (flat(layer("UpSampling2D", 2, interpolation="bilinear")), PICTURES, (4, 3)),
    "bicubic": (flat(layer("UpSampling2D", (2, 4), interpolation="bicubic")), PICTURES, (4, 3)),
    "films": (flat(layer("ConvLSTM2D", 3, 3, padding="same", strides=2, **STEPS)), FILMS, (4, 3)),
    "lines": (flat(layer("ConvLSTM1D", 3, 2, go_backwards=True)), PICTURES, (4, 3)),
    "adaptive mean": (flat(layer("AdaptiveAveragePooling2D", (4, 3))), PICTURES, (4, 3)),
    "adaptive maximum": (flat(layer("AdaptiveMaxPooling1D", 3)), ROWS, (4, 3)),
    "einsum": (chain(layer("EinsumDense", "abc,cd->abd", (None, 3), bias_axes="d")), ROWS, (4, 5, 3)),
    "einsum of any": (flat(layer("EinsumDense", "...x,xy->...y", 4, bias_axes="y")), PICTURES, (4, 3)),
    "einsum of heads": (flat(layer("EinsumDense", "abc,cde->abde", (5, 2, 3), bias_axes="de")), ROWS, (4, 3)),
    "groups of rows": (flat(layer("GroupNormalization", 2, axis=2)), PICTURES, (4, 3)),
    "each channel": (flat(layer("GroupNormalization", -1)), PICTURES, (4, 3)),
    "root mean squares": (flat(layer("RMSNormalization")), ROWS, (4, 3)),
    "unit": (flat(layer("UnitNormalization", axis=(1, 2))), ROWS, (4, 3)),
    "given moments": (flat(layer("Normalization", mean=numbers(6), variance=numbers(6) ** 2)), ROWS, (4, 3)),
    "rescaled": (flat(layer("Rescaling", 2.0, -1.0)), ROWS, (4, 3)),
    "prelu": (flat(layer("Dense", 4), layer("PReLU", "ones", shared_axes=[1])), ROWS, (4, 3)),
    "rectifiers": (
        flat(layer("ReLU", 1.0, 0.1, 0.2), layer("LeakyReLU"), layer("ELU", 0.5), layer("Softmax", (1, 2))),
        ROWS, (4, 3),
    ),
    "penalties": (
        flat(layer("ActivityRegularization", 0.1, 0.2), layer("Dense", 4, kernel_regularizer="orthogonal_regularizer")),
        ROWS, (4, 3),
    ),
    "scores of sums": (
        lambda layers, x: layers.Dense(3)(layers.Attention(score_mode="concat")([x, layers.Dense(6)(x)])),
        ROWS, (4, 5, 3),
    ),
}  # fmt: skip
ACTIVATIONS = (
    "celu", "elu", "exponential", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu6", "selu", "silu", "soft_shrink", "softplus",
    "softsign", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh_shrink",
)  # fmt: skip
"""Without "sparsemax": Keras 3.15 adds up the cumulative sums of a row, and the result's sum is not 1."""
MODELS |= {
    f"activation {name}": (chain(layer("Dense", 6 if name == "glu" else 3, name)), 3 * numbers(4, 5), (4, 3))
    for name in ACTIVATIONS
}


def both_ways(name: str) -> Model:
    """A bidirectional layer, whose parts each side makes itself."""

    def build(layers: Any, x: Any) -> Any:
        rows = layers.Embedding(7, 3, mask_zero=True)(x)
        return layers.Dense(3)(layers.Bidirectional(getattr(layers, name)(2, return_sequences=True))(rows))

    return build


MODELS |= {f"both ways {name}": (both_ways(name), IDS, (4, 5, 3)) for name in ("LSTM", "GRU")}
MODELS |= {
    f"merged by {name}": (merged(name), IDS, (4, 5, 3)) for name in ("Add", "Multiply", "Maximum", "Minimum", "Average")
}


@pytest.fixture(scope="module")
def keras() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


def trained_by_keras(name: str) -> tuple[Any, ...]:
    """The weights, the outputs, the loss and metrics, and the weights after a step."""
    import keras

    build, inputs, shape = MODELS[name]
    x = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
    model = keras.Model(x, build(keras.layers, x))
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], weighted_metrics=["mse"])
    weights, labels = model.get_weights(), labels_of(shape)
    found = model.evaluate(inputs, labels, sample_weight=weights_of(shape), verbose=0)
    outputs = model.predict(inputs, verbose=0)
    model.train_on_batch(inputs, labels, sample_weight=weights_of(shape))
    return weights, outputs, found, model.get_weights()


async def trained(name: str, weights: list[Any]) -> tuple[Any, ...]:
    """The same by aioflow, from these weights on."""
    build, inputs, shape = MODELS[name]
    labels = labels_of(shape)
    with af.Graph().as_default():
        x = af.layers.Input(inputs.shape[1:], dtype=inputs.dtype)
        model = af.Model(x, build(af.layers, x))
    async with model:
        shapes = [weight.shape.as_list() for weight in model.weights]
        await model.set_weights([value.reshape(size) for value, size in zip(weights, shapes, strict=True)])
        model.compile(af.train.GradientDescentOptimizer(0.1), "mse", ["mae"], weighted_metrics=["mse"])
        found = await model.evaluate(inputs, labels, sample_weight=weights_of(shape))
        outputs = await model.predict(inputs)
        await model.train_on_batch(inputs, labels, weights_of(shape))
        return outputs, found, await model.get_weights()


def labels_of(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(9).standard_normal(shape).astype(np.float32)


def weights_of(shape: tuple[int, ...]) -> Any:
    """A weight for each loss: beside a mask of steps Keras takes no weights of elements."""
    return np.repeat(WEIGHTS[:, None], 5, 1) if len(shape) == 3 else WEIGHTS


@pytest.mark.parametrize("name", MODELS)
def test_outputs_losses_metrics_and_steps_are_kerass(keras: ProcessPoolExecutor, name: str) -> None:
    weights, outputs, found, after = keras.submit(trained_by_keras, name).result()
    mine, measured, changed = asyncio.run(trained(name, weights))
    np.testing.assert_allclose(mine, outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(measured, found, rtol=1e-4, atol=1e-5)
    for one, other in zip(changed, after, strict=True):
        np.testing.assert_allclose(one, other.reshape(one.shape), rtol=1e-3, atol=1e-5)


def own_loss(layer: Any, reduce_mean: Any, square: Any) -> Any:
    """A layer class that adds the mean square of its inputs to the loss."""

    class Small(layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            self.add_loss(reduce_mean(square(inputs)))
            return inputs

    return Small


def own_losses_by_keras() -> tuple[Any, ...]:
    """The weights of a model whose layers alone have losses, its loss, and both after steps; then weighted classes."""
    import keras

    x = keras.Input((6,))
    small = own_loss(keras.layers.Layer, keras.ops.mean, keras.ops.square)()
    model = keras.Model(x, small(keras.layers.Dense(3, kernel_regularizer="l2")(x)))
    model.compile(keras.optimizers.SGD(0.1))
    first, inputs = model.get_weights(), OWN
    before = model.evaluate(inputs, verbose=0)
    history = model.fit(inputs, batch_size=8, epochs=3, shuffle=False, verbose=0)
    trained = model.get_weights()
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), entropy, metrics=["accuracy"])
    by_class = model.train_on_batch(inputs, OWN_LABELS, class_weight={0: 0.5, 2: 3.0}, return_dict=True)
    return first, before, history.history["loss"], trained, by_class["accuracy"], model.get_weights()


OWN, OWN_LABELS = numbers(8, 6), np.array([0, 2, 1, 1, 0, 2, 2, 1])


async def own_losses(first: list[Any]) -> tuple[Any, ...]:
    """The same by aioflow."""
    with af.Graph().as_default():
        x = af.layers.Input([6])
        small = own_loss(af.layers.Layer, af.reduce_mean, af.square)()
        model = af.Model(x, small(af.layers.Dense(3, kernel_regularizer="l2")(x)))
    async with model:
        await model.set_weights(first)
        model.compile(af.train.GradientDescentOptimizer(0.1))
        before = await model.evaluate(OWN)
        history = await model.fit(OWN, batch_size=8, epochs=3, shuffle=False, verbose=0)
        trained = await model.get_weights()
        entropy = af.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(af.train.GradientDescentOptimizer(0.1), entropy, ["accuracy"])
        weights = {0: 0.5, 2: 3.0}
        by_class = await model.train_on_batch(OWN, OWN_LABELS, class_weight=weights, return_dict=True)
        return before, history.history["loss"], trained, by_class["accuracy"], await model.get_weights()


def test_losses_of_layers_alone_and_weights_of_classes_train_as_in_keras(keras: ProcessPoolExecutor) -> None:
    first, *wanted = keras.submit(own_losses_by_keras).result()
    for found, theirs in zip(asyncio.run(own_losses(first)), wanted, strict=True):
        pairs = zip(found, theirs, strict=True) if isinstance(found, list) else [(found, theirs)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


ANGLES = np.array([0.1, 1.2, 0.5, 2.5], np.float32)
SMOOTHED = {"from_logits": True, "label_smoothing": 0.1}
LOSSES = {
    "BinaryCrossentropy": (
        (numbers(4, 3) > 0).astype("f"),
        numbers(4, 3),
        {"from_logits": True, "label_smoothing": 0.1},
    ),
    "CategoricalCrossentropy": (np.eye(3, dtype="f")[[0, 2, 1, 1]], numbers(4, 3), {"from_logits": True}),
    "SparseCategoricalCrossentropy": (np.array([0, 2, 1, 1]), RANDOM.dirichlet(np.ones(3), 4).astype("f"), {}),
    "Huber": (numbers(4, 3), numbers(4, 3), {"delta": 0.5}),
    "LogCosh": (numbers(4, 3), numbers(4, 3), {}),
    "MeanAbsolutePercentageError": (numbers(4, 3), numbers(4, 3), {}),
    "CosineSimilarity": (numbers(4, 3), numbers(4, 3), {}),
    "KLDivergence": (RANDOM.dirichlet(np.ones(3), 4).astype("f"), RANDOM.dirichlet(np.ones(3), 4).astype("f"), {}),
    "Poisson": (np.abs(numbers(4, 3)), np.abs(numbers(4, 3)), {}),
    "Hinge": (np.sign(numbers(4, 3)), numbers(4, 3), {}),
    "CategoricalHinge": (np.eye(3, dtype="f")[[0, 2, 1, 1]], numbers(4, 3), {}),
    "MeanSquaredLogarithmicError": (np.abs(numbers(4, 3)), np.abs(numbers(4, 3)), {}),
    "BinaryFocalCrossentropy": (
        (numbers(4, 3) > 0).astype("f"),
        numbers(4, 3),
        {"apply_class_balancing": True, "alpha": 0.3, "gamma": 1.5, "from_logits": True, "label_smoothing": 0.1},
    ),
    "CategoricalFocalCrossentropy": (
        np.eye(3, dtype="f")[[0, 2, 1, 1]],
        numbers(4, 3),
        {"alpha": 0.3, "gamma": 1.5, **SMOOTHED},
    ),
    "CategoricalGeneralizedCrossEntropy": (
        np.array([0, 2, 1, 1]),
        RANDOM.dirichlet(np.ones(3), 4).astype("f"),
        {"q": 0.3},
    ),
    "Circle": (np.array([0, 1, 0, 1]), np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1), {"gamma": 8.0}),
    "Circle of some pairs": (np.array([0, 1, 0, 2]), np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1), {"margin": 0.3}),
    "Dice": ((numbers(4, 3, 2) > 0).astype("f"), np.abs(numbers(4, 3, 2)), {"axis": (1, 2)}),
    "Tversky": ((numbers(4, 3) > 0).astype("f"), np.abs(numbers(4, 3)), {"alpha": 0.2, "beta": 0.7, "axis": 1}),
}


def loss_by_keras(name: str, weights: Any) -> Any:
    import keras

    labels, predictions, options = LOSSES[name]
    if name == "Tversky":  # Keras exchanges both, against its own documentation and the paper
        options = {**options, "alpha": options["beta"], "beta": options["alpha"]}
    return keras.ops.convert_to_numpy(getattr(keras.losses, name.split()[0])(**options)(labels, predictions, weights))


async def loss(name: str, weights: Any) -> Any:
    labels, predictions, options = LOSSES[name]
    with af.Graph().as_default() as graph:
        made = getattr(af.losses, name.split()[0])(**options)(labels, predictions, weights)
    async with af.Session(graph=graph) as session:
        return await session.run(made)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_losses_as_objects_are_kerass(keras: ProcessPoolExecutor, name: str, weights: Any) -> None:
    theirs = keras.submit(loss_by_keras, name, weights).result()
    np.testing.assert_allclose(asyncio.run(loss(name, weights)), theirs, rtol=1e-5, atol=1e-6)


def two_outputs(layers: Any, model: Any) -> Any:
    """A model of two inputs and two outputs, all with names."""
    a, b = layers.Input([4], name="a"), layers.Input([2], name="b")
    both = layers.Concatenate()([a, b])
    outputs = [layers.Dense(3, activation="softmax", name="kind")(both), layers.Dense(1, name="size")(both)]
    return model([a, b], outputs)


ARRAYS = {"a": numbers(8, 4), "b": numbers(8, 2)}
ANSWERS = [np.arange(8) % 3, numbers(8, 1)]
FACTORS = [RANDOM.uniform(0, 2, 8).astype(np.float32) for _ in range(2)]
CHOSEN: dict[str, Any] = {
    "loss": ["sparse_categorical_crossentropy", "mse"], "loss_weights": {"kind": 2.0, "size": 0.5},
    "metrics": {"kind": ["accuracy"], "size": ["mae", "mse"]}, "weighted_metrics": [["accuracy"], ["mae"]],
}  # fmt: skip


def history_by_keras() -> tuple[list[Any], dict[str, list[float]], dict[str, float], list[Any]]:
    """The first weights, a history, an evaluation and the last weights."""
    import keras

    model = two_outputs(keras.layers, keras.Model)
    model.compile(keras.optimizers.SGD(0.1), **CHOSEN)
    weights = model.get_weights()
    data = ARRAYS, ANSWERS, FACTORS
    history = model.fit(*data[:2], 4, 2, 0, sample_weight=FACTORS, validation_data=data, shuffle=False)
    found = model.evaluate(ARRAYS, ANSWERS, return_dict=True, verbose=0)
    return weights, history.history, found, model.get_weights()


async def history_from(weights: list[Any]) -> tuple[dict[str, list[float]], dict[str, float], list[Any]]:
    with af.Graph().as_default():
        model = two_outputs(af.layers, af.Model)
    async with model:
        await model.set_weights(weights)
        model.compile(af.train.GradientDescentOptimizer(0.1), **CHOSEN)
        data = ARRAYS, ANSWERS, FACTORS
        settings = {"sample_weight": FACTORS, "validation_data": data, "shuffle": False, "verbose": 0}
        history = await model.fit(*data[:2], 4, 2, **settings)
        found = await model.evaluate(ARRAYS, ANSWERS, return_dict=True)
        return history.history, found, await model.get_weights()


def test_the_history_of_several_outputs_is_kerass(keras: ProcessPoolExecutor) -> None:
    weights, history, evaluation, after = keras.submit(history_by_keras).result()
    mine, found, changed = asyncio.run(history_from(weights))
    assert mine.keys() == history.keys()
    assert found.keys() == evaluation.keys()
    for name, values in history.items():
        np.testing.assert_allclose(mine[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    for name, value in evaluation.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    for one, other in zip(changed, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
