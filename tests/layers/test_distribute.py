"""Training by a strategy: the numbers of the fit on one device, on any devices."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.testing import cluster
from tests.support.scale import amount

RANDOM = np.random.default_rng(21)
IDS = RANDOM.integers(0, 7, (22, 5))
X = RANDOM.standard_normal((22, 4)).astype(np.float32)
Y = {"class": IDS.sum(1) % 3, "steps": RANDOM.standard_normal((22, 5, 1)).astype(np.float32)}
WEIGHTS = RANDOM.uniform(0, 2, 22).astype(np.float32)
DEVICES = [f"/device:CPU:{number}" for number in range(3)]
LOCAL = af.Config(device_count={"CPU": 3})
EPOCHS = amount(1, 2)


class Averaged(layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * af.reduce_mean(af.square(inputs)))
        return inputs


def model():
    """A model with two inputs and outputs, masks, rows of a table, penalties and losses of its own."""
    af.set_random_seed(3)
    ids, x = layers.Input([5], dtype=af.int64), layers.Input([4])
    rows = layers.Embedding(7, 3, mask_zero=True)(ids)
    steps = layers.SimpleRNN(4, return_sequences=True)(rows)
    both = layers.Concatenate()([layers.GlobalAveragePooling1D()(steps), layers.Dense(4, "tanh")(x)])
    outputs = {
        "class": layers.Dense(3, kernel_regularizer="l2")(Averaged()(both)),
        "steps": layers.Dense(1, activity_regularizer="l2")(steps),
    }
    return af.Model([ids, x], outputs)


async def fitted(strategy, build=model, target="", epochs=EPOCHS):
    """The history of a fit, and the weights after it."""
    with af.Graph().as_default() as graph:
        made = build()
        loss = {"class": af.losses.SparseCategoricalCrossentropy(from_logits=True), "steps": "mse"}
        made.compile(
            "adam", loss, {"class": ["accuracy"], "steps": []}, weighted_metrics={"class": [], "steps": ["mae"]},
            loss_weights={"class": 1.0, "steps": 0.5}, strategy=strategy,
        )  # fmt: skip
        async with af.Session(target, graph=graph, config=None if target else LOCAL) as session:
            history = await made.fit(
                [IDS, X], Y, batch_size=10, epochs=epochs, shuffle=False, verbose=0, sample_weight=WEIGHTS,
                validation_data=([IDS, X], Y),
            )  # fmt: skip
            return history.history, await made.get_weights(session)


def check_equal(one, other):
    assert one[0].keys() == other[0].keys()
    for name, values in one[0].items():
        np.testing.assert_allclose(other[0][name], values, rtol=2e-4, err_msg=name)
    for mine, theirs in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
async def test_a_mirrored_fit_gives_the_numbers_of_the_fit_on_one_device():
    check_equal(await fitted(None), await fitted(af.distribute.MirroredStrategy(DEVICES)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mirrored", "parameter servers"])
async def test_a_fit_over_a_cluster_gives_the_numbers_of_the_fit_on_one_device(kind):
    async with cluster({"worker": 2, "ps": 2}) as simulated:
        if kind == "mirrored":
            strategy = af.distribute.MultiWorkerMirroredStrategy(simulated.spec)
        else:
            strategy = af.distribute.ParameterServerStrategy(simulated.spec)
        placed = []

        def build():
            with strategy.scope():
                made = model()
            placed.extend(weight.device for weight in made.weights)
            return made

        check_equal(await fitted(None, epochs=1), await fitted(strategy, build, simulated.target("worker", 0), 1))
    assert {name[:4] for name in placed} == {"/job"}
    assert (("/job:ps/task:1" in placed), len(set(placed))) == ((False, 1) if kind == "mirrored" else (True, 2))


async def test_copies_follow_weights_that_are_set_while_training():
    async def end(strategy):
        made = af.Sequential([layers.Dense(1, use_bias=False)])
        made.compile("sgd", "mse", strategy=strategy)
        watch = af.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: made.set_weights([np.ones([4, 1])]))
        async with af.Session(config=LOCAL) as session:
            await made.fit(X, X[:, :1], batch_size=10, shuffle=False, verbose=0, callbacks=[watch])
            await made.train_on_batch(X, X[:, :1])
            return await made.get_weights(session=session)

    results = []
    for strategy in (None, af.distribute.MirroredStrategy(DEVICES[:2])):
        with af.Graph().as_default():
            results.append(await end(strategy))
    np.testing.assert_allclose(*results, rtol=1e-5)


async def test_a_batch_may_have_fewer_elements_than_there_are_devices():
    with af.Graph().as_default():
        made = af.Sequential([layers.Dense(1, kernel_initializer="ones", activity_regularizer="l1")])
        made.compile("sgd", lambda labels, predictions: af.reduce_mean(af.square(labels - predictions)))
        async with af.Session(config=LOCAL):
            strategy = af.distribute.MirroredStrategy(DEVICES)
            history = await made.fit(X[:1], X[:1, :1], verbose=0, strategy=strategy)
            total = X[:1].sum()
            expected = (total - X[0, 0]) ** 2 + 0.01 * abs(total)
            assert history.history["loss"] == [pytest.approx(expected, rel=1e-5)]
            assert np.isfinite((await made.get_weights())[0]).all()


def test_strategies_and_models_that_do_not_fit_are_refused():
    spec = {"worker": ["a:1"], "ps": ["b:1"]}
    for devices in ([], ["/device:CPU:0"] * 2):
        with pytest.raises(ValueError, match="at least one device, and each once"):
            af.distribute.MirroredStrategy(devices)
    with pytest.raises(ValueError, match="no job 'chief'"):
        af.distribute.MultiWorkerMirroredStrategy(spec, "chief")
    with pytest.raises(TypeError, match=r"af\.distribute"):
        af.Sequential().compile("sgd", "mse", strategy="mirrored")


async def test_weights_in_the_wrong_place_or_read_outside_of_layers_are_named():
    with af.Graph().as_default():
        dense = layers.Dense(1, name="here")
        made = af.Sequential([layers.Input([4]), dense])
        made.compile("sgd", "mse", strategy=af.distribute.ParameterServerStrategy({"worker": ["a:1"], "ps": ["b:1"]}))
        with pytest.raises(ValueError, match="'here/kernel' is on no device, not on /job:ps"):
            await made.fit(X, X[:, :1], verbose=0)
        x = layers.Input([4])
        tied = af.Model(x, dense(x) @ af.transpose(dense.kernel))
        tied.compile("sgd", "mse", strategy=af.distribute.MirroredStrategy(DEVICES[:2]))
        with pytest.raises(ValueError, match="'here/kernel' is read outside of the layers"):
            await tied.fit(X, X, verbose=0)
        for each in (made, tied):
            await each.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.real
async def test_a_fit_over_processes_of_this_machine():
    async with af.launch.local(workers=2) as processes:
        strategy = af.distribute.MultiWorkerMirroredStrategy(processes.spec)
        found = await fitted(strategy, target=processes.target, epochs=1)
    check_equal(await fitted(None, epochs=1), found)
