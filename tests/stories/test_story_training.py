"""Training over a cluster, made of nothing but operations, variables, queues and accumulators."""

import asyncio

import numpy as np

import aioflow as af
from tests.stories.witness import FIRST, LATENCY, PS, SECOND, WORKERS, World, elapsed, marked, settled

WIDTH = 500
BYTES = WIDTH * 4
REPLICAS = (FIRST, SECOND)


def parameters(start=0.0):
    with af.device(PS):
        return af.Variable(np.full(WIDTH, start, np.float32), name="weights")


def gradient_on(device, weights, x, targets):
    """The gradient of a regression on one worker."""
    with af.device(device):
        loss = af.reduce_mean(af.square(af.linalg.matvec(x, weights.read_value()) - targets))
        [gradient] = af.gradients(loss, [weights], colocate_gradients_with_ops=True)
        return af.identity(gradient)


def batch(rows=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, WIDTH)).astype(np.float32), rng.normal(size=rows).astype(np.float32)


async def test_replicas_whose_gradients_are_combined_do_what_one_does_with_all_of_the_batch(session):
    """[P15 section 7] Synchronous data parallelism: one client drives replicas, each with a part of the batch."""
    weights = parameters()
    x, targets = af.placeholder(af.float32, [None, WIDTH]), af.placeholder(af.float32, [None])
    whole = gradient_on(FIRST, weights, x, targets)
    parts = [
        gradient_on(device, weights, part, target)
        for device, part, target in zip(REPLICAS, af.split(x, [4, 4]), af.split(targets, [4, 4]), strict=True)
    ]
    combined = af.add_n(parts) / 2.0
    update = weights.assign_sub(0.1 * combined).op
    await session.run(weights.initializer)
    feeds = dict(zip((x, targets), batch(), strict=True))
    one, several = await session.run([whole, combined], feeds)
    np.testing.assert_allclose(several, one, rtol=1e-4, atol=1e-6)
    await session.run(update, feeds)
    np.testing.assert_allclose(await session.run(weights), -0.1 * one, rtol=1e-4, atol=1e-6)


def client(device):
    """A graph of a client of its own, which trains the shared parameters on one worker, by a gradient of ones."""
    with af.Graph().as_default() as graph:
        weights = parameters()
        with af.device(device):
            gradient = marked(af.ones([WIDTH]))
        return graph, weights, weights.assign_sub(gradient).op


async def test_replicas_may_train_with_a_client_each_and_wait_for_nobody(world):
    """[P15 section 7] Asynchronous data parallelism: each replica applies its updates when it has them."""
    (mine, weights, train), (theirs, _, other_train) = client(FIRST), client(SECOND)
    async with (
        af.Session(world.target("worker", 0), graph=mine, config=WORKERS) as one,
        af.Session(world.target("worker", 1, "another"), graph=theirs, config=WORKERS) as other,
    ):
        await one.run(weights.initializer)

        async def steps(session, train, count):
            for _ in range(count):
                await session.run(train)

        await asyncio.gather(steps(one, train, 30), steps(other, other_train, 10))
        np.testing.assert_array_equal(await one.run(weights), np.full(WIDTH, -40))
        assert world.ran == {"worker0": 30, "worker1": 10}


async def test_a_model_may_be_divided_between_workers_which_hand_on_activations_and_keep_their_weights(session, world):
    """[P15 section 7] Model parallelism: parts of the model on different devices, for the same batch."""
    x = af.placeholder(af.float32, [2, 4])
    hidden, layers = x, []
    for device, width in ((FIRST, 64), (SECOND, 64), (PS, 3)):
        with af.device(device):
            weights = af.Variable(np.full((hidden.shape[1].value, width), 0.1, np.float32))
            hidden = af.tanh(af.matmul(hidden, weights))
            layers.append(weights)
    await session.run([weights.initializer for weights in layers])
    await settled()
    world.witness.forget()
    found = await session.run(hidden, {x: np.ones((2, 4))})
    expected = np.ones((2, 4))
    for size in ((4, 64), (64, 64), (64, 3)):
        expected = np.tanh(expected @ np.full(size, 0.1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    sent = [(sent.source, sent.target, sent.values) for sent in world.witness.heard("TensorSent", "PushTensors")]
    assert sorted(sent) == [("worker0", "worker1", 2 * 64 * 4), ("worker1", "ps0", 2 * 64 * 4)]


async def test_steps_follow_each_other_like_in_a_pipeline(session):
    """[P15 section 7] Concurrent steps for pipelining: a few steps under way keep all devices busy."""
    x = marked(1.0)
    for device in (FIRST, SECOND, PS):
        with af.device(device):
            x = marked(x)

    async def stream(ahead, count=20):
        values = session.stream(x, read_ahead=ahead)
        for _ in range(count):
            assert await anext(values) == 1
        await values.aclose()

    await session.run(x)
    assert await elapsed(stream(4)) * 4 < await elapsed(stream(0))


async def test_updates_run_where_the_parameters_are_and_what_an_optimizer_remembers_stays_there(session, world):
    """[P16 section 4.1] Optimizers are made of operations and variables: momentum needed no change of the system."""
    weights = parameters(1.0)
    with af.device(FIRST):
        loss = af.reduce_sum(af.square(weights.read_value()))
    optimizer = af.train.MomentumOptimizer(0.01, 0.9)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=True)
    await session.run(af.global_variables_initializer())
    await session.run(train)
    await settled()
    world.witness.forget()
    await session.run(train)
    assert world.witness.values("ps0", "worker0") == BYTES  # the parameters
    assert world.witness.values("worker0", "ps0") == BYTES  # the gradient
    np.testing.assert_allclose(await session.run(weights), np.full(WIDTH, 0.98 - 0.0196 - 0.018), rtol=1e-5)


async def test_of_a_large_table_in_shards_only_the_rows_that_are_asked_for_travel(graph):
    """[P16 section 4.2] Gather is where the shard is; what travels are the rows, and for the update their gradient."""
    rows, width = 4000, 16
    shards = []
    for task in range(2):
        with af.device(f"/job:ps/task:{task}"):
            shards.append(af.Variable(np.full((rows // 2, width), float(task), np.float32)))
    ids = af.placeholder(af.int32, [4])
    with af.device(FIRST):
        found = af.nn.embedding_lookup(shards, ids)
        loss = af.reduce_sum(found * 3.0)
    train = af.train.GradientDescentOptimizer(1.0).minimize(loss, colocate_gradients_with_ops=True)
    async with (
        World({"master": 1, "ps": 2, "worker": 1}) as world,
        af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session,
    ):
        await session.run([shard.initializer for shard in shards])
        looked_up = await session.run(found, {ids: [0, 1, 3, 7]})
        np.testing.assert_array_equal(looked_up, np.repeat([[0], [1], [1], [1]], width, 1))
        await settled()
        world.witness.forget()
        await session.run(train, {ids: [0, 1, 3, 7]})
        needed = 4 * width * 4
        assert world.witness.values("worker0") <= needed + 200
        assert world.witness.values(target="worker0") <= needed + 200
        first, second = await session.run([shard.sparse_read([0, 1, 2, 3]) for shard in shards])
        np.testing.assert_array_equal(first[:, 0], [-3, 0, 0, 0])
        np.testing.assert_array_equal(second[:, 0], [-2, -2, 1, -2])


# Replicas that wait for each other


def synchronous(weights, count):
    """Each replica takes a token, computes a gradient from what it reads then, and hands it in.

    The other step waits for `count` gradients, applies their sum, and gives out as many tokens as there are replicas.
    """
    with af.device(PS):
        tokens = af.FIFOQueue(10, af.int64, shapes=[[]])
        gradients = af.ConditionalAccumulator(af.float32, [WIDTH], reduction_type="SUM")
        version = af.Variable(0, dtype=af.int64)
    steps = []
    for number, device in enumerate(REPLICAS):
        token = tokens.dequeue()
        with af.device(device), af.control_dependencies([token]):
            gradient = marked(weights.read_value() + float(number + 1))
        steps.append(gradients.apply_grad(gradient, local_step=token))
    with af.device(PS), af.control_dependencies([weights.assign_sub(gradients.take_grad(count)).op]):
        now = version.assign_add(1)
        with af.control_dependencies([gradients.set_global_step(now)]):
            apply = tokens.enqueue_many(af.fill([len(REPLICAS)], now))
    begin = tokens.enqueue_many(af.constant([0] * len(REPLICAS), af.int64))
    return steps, apply, begin


async def test_replicas_may_read_and_update_without_waiting_for_each_other(session, world):
    """[P16 section 4.4] Asynchronous replication: each worker uses the parameters as it finds them."""
    weights = parameters(1.0)
    steps = []
    for device in REPLICAS:
        with af.device(device):
            gradient = marked(weights.read_value()) * 0.5
        steps.append(weights.assign_sub(gradient).op)
    await session.run(weights.initializer)
    for step in steps:
        await session.run(step)
    np.testing.assert_array_equal(await session.run(weights), np.full(WIDTH, 0.25))
    await asyncio.gather(session.run(steps[0]), session.run(steps[1]))  # both read the same: one update is stale
    np.testing.assert_array_equal(await session.run(weights), np.zeros(WIDTH))


async def test_a_queue_holds_replicas_back_until_all_can_read_the_same_version(session, world):
    """[P16 section 4.4] Synchronous replication: a blocking queue is the barrier; gradients are applied together."""
    weights = parameters()
    steps, apply, begin = synchronous(weights, 2)
    await session.run(af.global_variables_initializer())
    await session.run(begin)
    ahead = [asyncio.ensure_future(session.run(steps[0])) for _ in range(3)]
    applying = asyncio.ensure_future(session.run(apply))
    await settled()
    np.testing.assert_array_equal(await session.run(weights), np.full(WIDTH, -2))  # both tokens were the first one's
    await applying
    await settled()
    assert all(step.done() for step in ahead)
    assert world.ran == {"worker0": 3}


async def test_each_replica_computes_from_what_all_others_read(session, world):
    """[P16 section 4.4] Synchronous replication: the result is that of one machine, whatever the order of arrival."""
    weights = parameters()
    steps, apply, begin = synchronous(weights, 2)
    await session.run(af.global_variables_initializer())
    await session.run(begin)
    expected = 0.0
    for _ in range(5):
        await asyncio.gather(*[session.run(step) for step in steps], session.run(apply))
        expected -= (expected + 1) + (expected + 2)
        np.testing.assert_array_equal(await session.run(weights), np.full(WIDTH, expected))
    assert world.ran == {"worker0": 5, "worker1": 5}


async def test_backup_workers_let_a_step_end_without_the_slowest_whose_gradient_is_dropped(session, world):
    """[P16 section 4.4] Backup workers: the first m of n gradients are taken, and one that comes too late is not."""
    weights = parameters()
    steps, apply, begin = synchronous(weights, 1)
    await session.run(af.global_variables_initializer())
    await session.run(begin)
    world.network.path("worker1", "ps0").delay = lambda: 1.0
    slow = asyncio.ensure_future(session.run(steps[1]))
    assert await elapsed(asyncio.gather(session.run(steps[0]), session.run(apply))) < 50 * LATENCY
    np.testing.assert_array_equal(await session.run(weights), np.full(WIDTH, -1))
    await slow
    assert world.ran == {"worker0": 1, "worker1": 1}
    waiting = asyncio.ensure_future(session.run(apply))
    await settled()
    assert not waiting.done()  # the late gradient was of an earlier version
    await session.run(steps[0])
    await waiting
    np.testing.assert_array_equal(await session.run(weights), np.full(WIDTH, -1))
