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
LABELLED = [(X[row : row + 3], (X[row : row + 3, :1] > 0).astype(np.float32)) for row in range(0, 22, 3)]


class Averaged(layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * af.reduce_mean(af.square(inputs)))
        return inputs


def model():
    """A model with two inputs and outputs, masks, rows of a table, penalties and losses of its own."""
    af.set_random_seed(3)
    ids, x = layers.Input([5], dtype=af.int64), layers.Input([4])
    rows = layers.Embedding(7, 3, mask_zero=True)(ids)
    steps = layers.RNN(layers.SimpleRNNCell(4), return_sequences=True)(rows)
    normal = layers.PReLU()(layers.RMSNormalization()(layers.Dense(4)(x)))
    both = layers.Concatenate()([layers.GlobalAveragePooling1D()(steps), normal])
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


async def test_weights_that_operations_between_layers_read_are_mirrored_too():
    async def fitted_by(strategy):
        with af.Graph().as_default() as graph:
            x, w = layers.Input([4]), af.Variable(WEIGHTS[:12].reshape(4, 3) * 0.3, name="w")
            dense = layers.Dense(3, "tanh", kernel_initializer=af.constant_initializer(0.4))
            rows = af.map_fn(lambda row: row * w[0], dense(x @ w))
            made = af.Model(x, rows * af.nn.softmax(w[1]) @ af.square(dense.kernel))
            made.compile("sgd", "mse", strategy=strategy)
            async with af.Session(graph=graph, config=LOCAL):
                history = await made.fit(X, X[:, :3], batch_size=11, epochs=2, shuffle=False, verbose=0)
                return history.history, await made.get_weights()

    check_equal(await fitted_by(None), await fitted_by(af.distribute.MirroredStrategy(DEVICES)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("mirrored", marks=pytest.mark.long), "parameter servers"])
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


# Asynchronous training


class Asynchronous:
    """A model whose workers train by themselves, in a simulated cluster."""

    def __init__(self, simulated, rate=0.0, metrics=("accuracy", "recall"), gated=None):
        self.strategy = af.distribute.ParameterServerStrategy(simulated.spec, asynchronous=True)
        self.session = af.Session(simulated.target("worker", 0))
        with self.strategy.scope():
            self.model = af.Sequential([layers.Input([4]), *([] if gated is None else [gated]), layers.Dense(1)])
        loss = af.losses.BinaryCrossentropy(from_logits=True)
        optimizer = af.train.GradientDescentOptimizer(rate)
        self.model.compile(optimizer, loss, list(metrics), strategy=self.strategy)

    async def fit(self, batches=LABELLED, **options):
        return (await self.model.fit(batches, verbose=0, session=self.session, **options)).history


@pytest.fixture
async def simulated(tmp_path):
    async with cluster({"worker": 3, "ps": 2}, config=af.Config(file_roots=[tmp_path])) as made:
        with af.Graph().as_default():
            yield made


async def test_asynchronous_workers_take_each_batch_once_and_share_metrics_on_parameter_servers(simulated):
    told = []
    watch = af.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: told.append(batch))
    async with (made := Asynchronous(simulated)).session:
        history = await made.fit(epochs=2, callbacks=[watch])
        expected = await made.model.evaluate(LABELLED, session=made.session, return_dict=True)
        for name, value in expected.items():
            np.testing.assert_allclose(history[name], [value, value], rtol=1e-5)
        assert sorted(told) == sorted([*range(len(LABELLED))] * 2)
        assert "/job:ps" in {each.device[:7] for each in af.get_collection(af.GraphKeys.METRIC_VARIABLES)}
        assert made.strategy.num_replicas_in_sync == 1


async def test_a_slow_worker_holds_up_no_other_one(simulated):
    with af.device("/job:ps/task:0"):
        queue = af.FIFOQueue(1, [af.float32], [[]])
        put = queue.enqueue(0.0)
    gated = layers.Lambda(lambda x: af.cond(x[0, 0] > 50, lambda: x + queue.dequeue(), lambda: x))
    batches, done = [(LABELLED[0][0] + 100, LABELLED[0][1]), *LABELLED[1:]], []

    async def told(batch, logs):
        done.append(batch)
        if len(done) == len(batches) - 1:
            await made.session.run(put)

    watch = af.callbacks.LambdaCallback(on_train_batch_end=told)
    async with (made := Asynchronous(simulated, 1e-3, gated=gated)).session:
        before = await made.model.get_weights(session=made.session)
        await made.fit(batches, callbacks=[watch])
        after = await made.model.get_weights(session=made.session)
    assert done[-1] == 0
    assert np.abs(after[0] - before[0]).max() > 0


async def test_asynchronous_training_goes_on_from_a_backup_within_an_epoch(simulated, tmp_path):
    def fail(batch, logs):
        if batch == 5:
            raise ZeroDivisionError

    backup = af.callbacks.BackupAndRestore(tmp_path, save_freq=2)
    told = []
    watch = af.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: told.append(batch))
    async with (made := Asynchronous(simulated)).session:
        with pytest.raises(ZeroDivisionError):
            await made.fit(callbacks=[af.callbacks.LambdaCallback(on_train_batch_end=fail), backup])
        history = await made.fit(callbacks=[backup, watch])
        expected = await made.model.evaluate(LABELLED, session=made.session, return_dict=True)
    assert sorted(told) == [*range(4, len(LABELLED))]
    for name, value in expected.items():
        np.testing.assert_allclose(history[name], [value], rtol=1e-5)


async def test_asynchronous_workers_refuse_metrics_that_make_variables_and_tell_errors_of_steps(simulated):
    def counted(labels, predictions):
        count = af.Variable(0.0, trainable=False, collections=[af.GraphKeys.LOCAL_VARIABLES], name="own")
        return count.value(), count.assign_add(1.0)

    async with (made := Asynchronous(simulated, metrics=[counted])).session:
        with pytest.raises(ValueError, match=r"makes the variable '[^']*own[^']*' itself"):
            await made.fit()
    async with (made := Asynchronous(simulated)).session:
        with pytest.raises(ValueError, match="batch 2 has"):
            await made.fit([LABELLED[0], (X[:3],)])


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
        x, kernel = layers.Input([4]), dense.kernel
        tied = af.Model(x, layers.Lambda(lambda y: y @ af.transpose(kernel))(dense(x)))
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
