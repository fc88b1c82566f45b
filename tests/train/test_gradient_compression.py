"""Gradients that are sent in a lossy form while a net learns to read digits: what it learns, and what is sent."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow.testing import cluster
from tests.support.scale import some

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from train_digits import load_digits

WORKERS = 4
EPOCHS, STEPS = 30, 22
"""So many steps show all digits once."""
FEWER = {"bfloat16": 1.99, "int8": 3.9, "top_k:0.01": 20.0}
"""How many times fewer bytes are sent, at least."""
LOCAL = [f"/cpu:{number}" for number in range(WORKERS + 1)]
SPREAD = ["/job:ps/task:0", *[f"/job:worker/task:{number}" for number in range(WORKERS)]]


def logits_of(images):
    weights = af.glorot_uniform_initializer(seed=1)
    zeros = af.zeros_initializer()
    hidden = af.nn.relu(
        af.matmul(images, af.get_variable("w1", [64, 128], initializer=weights)) + bias("b1", 128, zeros)
    )
    return af.matmul(hidden, af.get_variable("w2", [128, 10], initializer=weights)) + bias("b2", 10, zeros)


def bias(name, size, zeros):
    return af.get_variable(name, [size], initializer=zeros)


def build(how, codec, devices):
    """The first device has the variables, or none; each of the others a tower that sees its share of each batch."""
    server, *workers = devices
    served = how == "server"
    with af.Graph().as_default() as graph:
        images, labels = af.placeholder(af.float32, [None, 64]), af.placeholder(af.int32, [None])
        step = af.train.create_global_step()
        rate = af.train.polynomial_decay(0.1, step, EPOCHS * STEPS, end_learning_rate=0.01)
        optimizer = af.train.MomentumOptimizer(rate, 0.9)
        with af.device(server), af.variable_scope("served"):
            hits = af.equal(af.argmax(logits_of(images), 1, output_type=af.int32), labels)
            variables = af.trainable_variables()
        towers, losses = [], []
        for number, device in enumerate(workers):
            share = slice(number, None, len(workers))
            with af.device(device), af.variable_scope("served" if served else f"tower{number}", reuse=served):
                logits = logits_of(images[share])
                named = variables if served else af.get_variable_scope().trainable_variables()
                loss = af.reduce_mean(
                    af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[share], logits=logits)
                )
                losses.append(loss)
                towers.append(optimizer.compute_gradients(loss, named))
        if served:
            sent = [af.train.compress_gradients(pairs, codec) if codec else pairs for pairs in towers]
            with af.device(server):
                sums = [af.add_n([gradient for gradient, _ in row]) for row in zip(*sent, strict=True)]
                pairs = [(each / float(len(workers)), variable) for each, variable in zip(sums, variables, strict=True)]
        else:
            reduced = af.train.all_reduce_gradients(towers, codec=codec)
            pairs = [pair for tower in reduced for pair in tower]
            with af.device(server):
                copied = af.group(*[v.assign(w) for v, (_, w) in zip(variables, towers[0], strict=True)])
        return SimpleNamespace(
            graph=graph, images=images, labels=labels, losses=losses, train=optimizer.apply_gradients(pairs, step),
            towers=[[variable for _, variable in pairs] for pairs in towers], copied=af.no_op() if served else copied,
            accuracy=af.reduce_mean(af.cast(hits, af.float32)), init=af.global_variables_initializer(),
        )  # fmt: skip


async def learn(session, model, batches):
    await session.run(model.init)
    step = session.make_callable([model.losses, model.train], feeds=[model.images, model.labels])
    return [(await step(*batch))[0] for batch in batches]


async def sent_in_a_step(session, model, batch, target):
    """The bytes of all values of more than a few that go from worker to worker, or from workers to the server."""
    metadata = af.RunMetadata()
    feeds = {model.images: batch.images, model.labels: batch.labels}
    await session.run(model.train, feeds, af.RunOptions(trace=True), metadata)
    return sum(transfer.bytes for transfer in metadata.transfers if target(transfer))


@pytest.fixture(scope="module")
def accuracies():
    """Of nets that were trained without a lossy form, by how."""
    return {}


async def accuracy_of(how, codec):
    seen, unseen = load_digits()
    model, random = build(how, codec, LOCAL), np.random.default_rng(1)
    orders = [np.array_split(random.permutation(len(seen.labels)), STEPS) for _ in range(EPOCHS)]
    batches = [(seen.images[chosen], seen.labels[chosen]) for order in orders for chosen in order]
    async with af.Session(graph=model.graph, config=af.Config(device_count={"CPU": len(LOCAL)})) as session:
        await learn(session, model, batches)
        await session.run(model.copied)
        return float(await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels}))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("codec", some(FEWER, 1))
@pytest.mark.parametrize("how", ["server", pytest.param("ring", marks=pytest.mark.long)])
async def test_a_net_that_learns_from_lossy_gradients_reads_digits_as_well(accuracies, how, codec):
    if how not in accuracies:
        accuracies[how] = await accuracy_of(how, None)
    found = await accuracy_of(how, codec)
    assert found >= 0.95
    assert found >= accuracies[how] - 0.005


@pytest.mark.parametrize("codec", [pytest.param(None, marks=pytest.mark.long), *some(FEWER, 1)])
@pytest.mark.parametrize("how", [pytest.param("server", marks=pytest.mark.long), "ring"])
async def test_a_cluster_learns_to_the_bit_what_devices_of_one_process_do(how, codec):
    seen, _ = load_digits()
    batches = list(seen.batches(np.random.default_rng(1)))[:6]
    near, far = build(how, codec, LOCAL), build(how, codec, SPREAD)
    async with af.Session(graph=near.graph, config=af.Config(device_count={"CPU": len(LOCAL)})) as session:
        expected = await learn(session, near, batches)
    async with (
        cluster({"ps": 1, "worker": WORKERS}) as simulated,
        af.Session(simulated.target("worker", 0), graph=far.graph) as session,
    ):
        assert await learn(session, far, batches) == expected
        first, *others = await session.run(far.towers)
        for other in others:
            assert [value.tobytes() for value in other] == [value.tobytes() for value in first]


@pytest.mark.parametrize("codec", some(FEWER, 1))
@pytest.mark.parametrize("how", ["server", pytest.param("ring", marks=pytest.mark.long)])
async def test_gradients_take_fewer_bytes_on_their_way_between_tasks(how, codec):
    def carries_gradients(transfer):
        to_server = transfer.target.startswith("/job:ps")
        return transfer.source.startswith("/job:worker") and to_server is (how == "server")

    seen, _ = load_digits()
    batch = next(seen.batches(np.random.default_rng(1)))
    sums = []
    async with cluster({"ps": 1, "worker": WORKERS}) as simulated:
        for each in (None, codec):
            model = build(how, each, SPREAD)
            async with af.Session(simulated.target("worker", 0), graph=model.graph) as session:
                await session.run(model.init)
                sums.append(await sent_in_a_step(session, model, batch, carries_gradients))
    assert sums[0] >= FEWER[codec] * sums[1]


def replica(number):
    """The graph of one of two replicas that train in step: the gradient is what is fed."""
    with af.Graph().as_default() as graph:
        server = af.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker/task:{number}")
        with af.device(server), af.container("replicas"):
            step = af.train.create_global_step()
            weights = af.get_variable("weights", [64], initializer=af.zeros_initializer())
            fed = af.placeholder(af.float32, [64])
            optimizer = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(1.0), 2, task_index=number)
            pairs = optimizer.compute_gradients(af.reduce_sum(weights * fed))
            train = optimizer.apply_gradients(af.train.compress_gradients(pairs, "bfloat16"), step)
            return SimpleNamespace(
                graph=graph, fed=fed, weights=weights, train=train, optimizer=optimizer, number=number,
                init=af.global_variables_initializer(),
            )  # fmt: skip


async def test_replicas_that_train_in_step_send_their_gradients_so():
    gradients = [np.random.default_rng(number).normal(size=64).astype(np.float32) for number in range(2)]
    async with cluster({"ps": 1, "worker": 2}) as simulated:

        async def train(model):
            target = simulated.target("worker", model.number)
            async with af.Session(target, graph=model.graph) as session, af.train.Coordinator() as coord:
                if model.number == 0:
                    await session.run(model.init)
                await model.optimizer.start(session, coord, is_chief=model.number == 0)
                await session.run(model.train, {model.fed: gradients[model.number]})
                savings = await session.savings()
                assert [
                    saving.sent for edge, saving in savings.items() if f"worker/replica:0/task:{model.number}" in edge
                ] == [128]
                return await session.run(model.weights)

        for found in await asyncio.gather(*[train(replica(number)) for number in range(2)]):
            rounded = [gradient.astype(ml_dtypes.bfloat16).astype(np.float32) for gradient in gradients]
            np.testing.assert_array_equal(found, -(rounded[0] + rounded[1]) / 2)


# What steps in vain leave


def failing(devices):
    """A gradient goes to the first device from the second; there the step fails, if that is wanted."""
    server, worker = devices
    with af.Graph().as_default() as graph:
        with af.device(server):
            weights = af.get_variable("weights", [4], initializer=af.zeros_initializer())
        with af.device(worker):
            fed = af.placeholder(af.float32, [4])
            gradient = -fed
        fine = af.placeholder(af.bool, [])
        ((sent, _),) = af.train.compress_gradients([(gradient, weights)], "top_k:0.25", smallest=0)
        with af.device(server):
            arrived = af.identity(sent)
            with af.control_dependencies([arrived]):
                checked = af.Assert(fine, ["it fails"])
            with af.control_dependencies([checked]):
                applied = weights.assign_sub(arrived)
        return SimpleNamespace(
            graph=graph, fed=fed, fine=fine, train=applied.op, weights=weights, init=af.global_variables_initializer()
        )


async def weights_after_a_failure(session, model):
    async def step(values, fine=True):
        await session.run(model.train, {model.fed: values, model.fine: fine})

    await session.run(model.init)
    await step([4, 3, 0, 0])
    for values in ([0, 0, 1, 0], [0, 0, 9, 0]):
        with pytest.raises(af.errors.InvalidArgumentError, match="it fails"):
            await step(values, fine=False)
    for _ in range(3):
        await step([0, 0, 0, 0])
    return (await session.run(model.weights)).tolist()


async def test_what_a_step_has_sent_that_fails_on_another_device_is_sent_again():
    model = failing(LOCAL[:2])
    async with af.Session(graph=model.graph, config=af.Config(device_count={"CPU": 2})) as session:
        assert await weights_after_a_failure(session, model) == [4, 3, 0, 0]


async def test_what_a_step_has_sent_that_fails_on_another_task_is_sent_again():
    model = failing(["/job:ps/task:0", "/job:worker/task:0"])
    async with (
        cluster({"ps": 1, "worker": 1}) as simulated,
        af.Session(simulated.target("worker", 0), graph=model.graph) as session,
    ):
        assert await weights_after_a_failure(session, model) == [4, 3, 0, 0]


async def test_what_a_run_has_sent_that_is_cancelled_before_it_ends_elsewhere_is_sent_again():
    with af.Graph().as_default() as graph:
        with af.device("/job:ps/task:0"):
            weights = af.get_variable("weights", [4], initializer=af.zeros_initializer())
            queue = af.FIFOQueue(9, [af.bool], [[]])
            go_on, arrivals = queue.enqueue(True), af.Variable(0)
        with af.device("/job:worker/task:0"):
            fed = af.placeholder(af.float32, [4])
            ((sent, _),) = af.train.compress_gradients([(-fed, weights)], "top_k:0.25", smallest=0)
        with af.device("/job:ps/task:0"):
            with af.control_dependencies([sent]):
                counted = arrivals.assign_add(1)
            with af.control_dependencies([counted]):
                waited = queue.dequeue()
            with af.control_dependencies([waited]):
                train = weights.assign_sub(sent).op
        init = af.global_variables_initializer()
    async with (
        cluster({"ps": 1, "worker": 1}) as simulated,
        af.Session(simulated.target("worker", 0), graph=graph) as session,
    ):
        await session.run(init)
        await session.run([go_on, train], {fed: [4, 3, 0, 0]})
        run = asyncio.ensure_future(session.run(train, {fed: [0, 0, 1, 0]}))
        while await session.run(arrivals) < 2:
            pass
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        for _ in range(3):
            await session.run([go_on, train], {fed: [0, 0, 0, 0]})
        assert (await session.run(weights)).tolist() == [4, 3, 0, 0]


def backup(number):
    """The graph of one of two replicas, of which the first to come makes a step: the gradient is minus what is fed."""
    with af.Graph().as_default() as graph, af.container("backup"):
        with af.device("/cpu:0"):
            step = af.train.create_global_step()
            weights = af.get_variable("weights", [4], initializer=af.zeros_initializer())
        with af.device("/cpu:1"):
            fed = af.placeholder(af.float32, [4])
            pairs = af.train.compress_gradients([(-fed, weights)], "top_k:0.25", smallest=0)
        optimizer = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(1.0), 1, 2, task_index=number)
        train = optimizer.apply_gradients(pairs, step)
        return SimpleNamespace(
            graph=graph, fed=fed, weights=weights, train=train, optimizer=optimizer,
            init=af.global_variables_initializer(),
        )  # fmt: skip


async def test_what_a_gradient_has_sent_that_was_dropped_is_sent_again():
    fast, slow = backup(0), backup(1)
    config = af.Config(device_count={"CPU": 2})
    async with (
        af.Session(graph=fast.graph, config=config) as first,
        af.Session(graph=slow.graph, config=config) as second,
        af.train.Coordinator() as coord,
    ):

        async def step(values):
            return (await second.run([slow.optimizer.accepted, slow.train], {slow.fed: values}))[0]

        await first.run(fast.init)
        await fast.optimizer.start(first, coord, is_chief=True)
        await slow.optimizer.start(second, coord)
        assert await step([4, 3, 0, 0])
        for _ in range(2):
            await first.run(fast.train, {fast.fed: [0, 0, 0, 0]})
        assert not await step([0, 0, 1, 0])
        for _ in range(3):
            assert await step([0, 0, 0, 0])
        assert (await second.run(slow.weights)).tolist() == [4, 3, 0, 0]
        coord.request_stop()


# What is marked


def test_only_gradients_that_are_worth_it_are_marked():
    with af.Graph().as_default():
        large, small, whole = af.zeros([64]), af.zeros([63]), af.zeros([64], af.int32)
        open_shape, rows = af.placeholder(af.float64, [None]), af.IndexedSlices(af.zeros([64, 2]), af.range(64))
        given = [(large, "a"), (small, "b"), (whole, "c"), (open_shape, "d"), (rows, "e"), (None, "f")]
        found = af.train.compress_gradients(given, "int8")
        assert [name for _, name in found] == list("abcdef")
        types = [getattr(gradient, "values", gradient) for gradient, _ in found]
        assert [tensor is not None and tensor.op.type == "lossy" for tensor in types] == [1, 0, 0, 1, 1, 0]
        assert [after for after, _ in found][1:3] == [small, whole]
        assert af.train.compress_gradients(given, "top_k:0.1")[4][0] is rows
        assert af.train.compress_gradients(given, "int8", smallest=65)[0][0] is large


def test_a_codec_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a lossy codec"):
        af.train.compress_gradients([], "zip")
