"""Replicas that train together in one process or several: what they come to is what one process would."""

import asyncio
import contextlib

import numpy as np
import pytest

import aioflow as af
from aioflow.replication.quorum import Reason
from aioflow.resources.containers import drop_shared
from aioflow.testing import Gate
from tests.support.doubles import waiting

EXAMPLES = 4


@pytest.fixture(autouse=True)
def nothing_is_shared():
    yield
    for container in drop_shared(None):
        container.clear()


def shard(replica, step):
    """The examples that a replica sees in a step."""
    draw = np.random.default_rng([replica, step])
    return draw.normal(size=(EXAMPLES, 3)).astype(np.float32), draw.normal(size=EXAMPLES).astype(np.float32)


class Model:
    """A regression with a table of which each example needs some rows, in the default graph."""

    def __init__(self):
        self.step = af.train.get_or_create_global_step()
        self.weights = af.Variable(np.ones(3, np.float32), name="weights")
        self.table = af.Variable(np.zeros((5, 1), np.float32), name="table")

    def tower(self, slowly=None):
        given, y = af.placeholder(af.float32, [EXAMPLES, 3]), af.placeholder(af.float32, [EXAMPLES])
        x = given if slowly is None else waiting(given, slowly)
        rows = af.cast(af.abs(x[:, 0]) * 3.0, af.int32) % 5
        found = af.reduce_sum(x * self.weights, 1) + self.table.sparse_read(rows)[:, 0]
        return af.reduce_sum(af.square(found - y)), (given, y)

    @property
    def variables(self):
        return [self.weights, self.table]


def adam():
    return af.train.MomentumOptimizer(af.train.exponential_decay(0.01, af.train.get_global_step(), 3, 0.5), 0.9)


class Replica:
    """A replica with a graph of its own, which shares its variables with others by a container."""

    def __init__(self, index, required, total, *, requeue=None, slowly=None):
        with af.Graph().as_default() as self.graph, af.container("models"):
            self.model = Model()
            loss, self.feeds = self.model.tower(slowly)
            self.opt = af.train.SyncReplicasOptimizer(adam(), required, total, task_index=index)
            pairs = self.opt.compute_gradients(loss)
            self.train = self.opt.apply_gradients(pairs, self.model.step, examples=EXAMPLES, requeue=requeue)
            self.init = af.global_variables_initializer()
        self.index = index

    def fed(self, step):
        return dict(zip(self.feeds, shard(self.index, step), strict=True))

    @contextlib.asynccontextmanager
    async def part(self):
        """The replica takes part; 0 is the chief."""
        async with af.Session(graph=self.graph) as session, af.train.Coordinator() as coord:
            if self.index == 0:
                await session.run(self.init)
            await self.opt.start(session, coord, is_chief=self.index == 0)
            yield session


async def alone(replicas, steps):
    """What one process comes to that takes the shards of these replicas in these steps."""
    with af.Graph().as_default() as graph:
        model = Model()
        towers, feeds = zip(*[model.tower() for _ in replicas], strict=True)
        opt = adam()
        means = af.train.average_gradients([opt.compute_gradients(loss) for loss in towers])
        train = opt.apply_gradients(means, model.step)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        for step in range(steps):
            shards = [shard(replica, step) for replica in replicas]
            await session.run(train, {key: value for keys, values in zip(feeds, shards, strict=True)
                                      for key, value in zip(keys, values, strict=True)})  # fmt: skip
        return await session.run(model.variables)


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_replicas_in_step_come_to_the_last_bit_to_what_one_process_does():
    replicas, found = [Replica(index, 3, 3) for index in range(3)], []

    async def train(replica):
        async with replica.part() as session:
            for step in range(6):
                accepted, following, _ = await session.run(
                    [replica.opt.accepted, replica.opt.next_step, replica.train], replica.fed(step)
                )
                assert (accepted, following) == (True, step + 1)
            found.append(await session.run(replica.model.variables))

    await asyncio.gather(*map(train, replicas))
    for each in found:
        same(each, await alone(range(3), 6))


async def test_a_step_does_not_wait_for_a_backup_worker_whose_gradient_is_reported_and_queued_again():
    again, computing = [], Gate()

    async def slowly(loss):
        await computing.wait()
        return loss

    first, second = Replica(0, 2, 3), Replica(1, 2, 3)
    slow = Replica(2, 2, 3, slowly=slowly, requeue=lambda: af.py_func(lambda: again.append(1), [], [], stateful=True))
    async with first.part() as one, second.part() as two, slow.part() as three:
        late = asyncio.create_task(three.run([slow.opt.accepted, slow.opt.next_step, slow.train], slow.fed(0)))
        await computing.arrived()
        for step in range(3):
            await asyncio.gather(one.run(first.train, first.fed(step)), two.run(second.train, second.fed(step)))
        assert await first.opt.dropped(one) == []
        computing.open()
        assert (await late)[:2] == [False, 3]
        assert again == [1]
        (drop,) = await first.opt.dropped(one)
        assert (drop.replica, drop.step, drop.examples, drop.reason) == (2, 0, EXAMPLES, Reason.LATE)
        assert str(drop) == "the gradient of replica 2 of step 0, of 4 examples, was dropped: late"
        assert await first.opt.dropped(one, since=drop.number) == []
        accepted, *_ = await asyncio.gather(
            three.run([slow.opt.accepted, slow.train], slow.fed(3)), two.run(second.train, second.fed(3))
        )
        assert accepted[0]
        assert again == [1]


@pytest.mark.parametrize("closed", [False, True], ids=["full", "closed"])
async def test_examples_of_a_dropped_gradient_are_given_back_to_a_queue_that_is_full_or_closed(closed):
    computing = Gate()

    async def slowly(x):
        await computing.wait()
        return x

    first, second = Replica(0, 2, 3), Replica(1, 2, 3)
    with af.Graph().as_default() as graph, af.container("models"):
        model = Model()
        queue = af.FIFOQueue(1, [af.float32], [[3]])
        put, taken, close = queue.enqueue(np.arange(3, dtype=np.float32)), queue.dequeue(), queue.close()
        opt = af.train.SyncReplicasOptimizer(adam(), 2, 3, task_index=2)
        gradients = opt.compute_gradients(af.reduce_sum(waiting(taken, slowly) * model.weights), [model.weights])
        train = opt.apply_gradients(gradients, model.step, requeue=lambda: queue.give_back(taken))
        size = queue.size()
    async with (
        first.part() as one,
        second.part() as two,
        af.Session(graph=graph) as three,
        af.train.Coordinator() as coord,
    ):
        await opt.start(three, coord)
        await three.run(put)
        late = asyncio.create_task(three.run([opt.accepted, train]))
        await computing.arrived()
        await three.run(close if closed else put)
        await asyncio.gather(one.run(first.train, first.fed(0)), two.run(second.train, second.fed(0)))
        computing.open()
        assert not (await late)[0]
        for _ in range(1 if closed else 2):
            np.testing.assert_array_equal(await three.run(taken), [0, 1, 2])
        assert await three.run(size) == 0


async def test_replicas_run_out_of_data_one_after_the_other_and_nobody_waits_for_who_has_none():
    replicas = [Replica(index, None, 3) for index in range(3)]

    async def train(replica):
        async with replica.part() as session:
            for step in range(2 * (replica.index + 1)):
                assert (await session.run([replica.opt.accepted, replica.train], replica.fed(step)))[0]
            return await session.run([replica.model.step, replica.model.weights])

    async with asyncio.TaskGroup() as group:  # replica 0, which leads at first, is the first to leave
        *_, last = [group.create_task(train(replica)) for replica in replicas]
    step, weights = last.result()
    assert step == 6
    assert np.isfinite(weights).all()


async def test_a_replica_that_comes_later_takes_part_from_then_on():
    first, second = Replica(0, None, 1), Replica(1, None, 1)
    async with first.part() as one:
        await one.run(first.train, first.fed(0))
        async with second.part() as two:
            waiting_for = asyncio.create_task(one.run(first.train, first.fed(1)))
            accepted, _ = await two.run([second.opt.accepted, second.train], second.fed(1))
            assert accepted
            await waiting_for
        await one.run(first.train, first.fed(2))
        assert await one.run(first.model.step) == 3


async def test_a_replica_whose_run_was_cancelled_is_admitted_anew():
    first, second = Replica(0, 2, 2), Replica(1, 2, 2)
    async with first.part() as one, second.part() as two:
        given_up = asyncio.create_task(one.run(first.train, first.fed(0)))
        while not (await two.run(second.opt.dropped_args(0).fetches)).size and not given_up.done():
            given_up.cancel()
            await asyncio.wait((given_up,))
        again = asyncio.create_task(one.run([first.opt.accepted, first.train], first.fed(7)))
        assert (await two.run([second.opt.accepted, second.train], second.fed(0)))[0]
        await again
        drops = await first.opt.dropped(one)
        assert len(drops) <= 1
        assert await one.run(first.model.step) == 1


async def test_a_step_that_was_applied_in_part_ends_training_until_variables_are_restored():
    first = Replica(0, 1, 1)
    async with af.Session(graph=first.graph) as session:
        await session.run([first.init])
        await session.run(first.opt.chief_init_op)
        await session.run(first.opt.local_step_init_op)
        training = asyncio.create_task(session.run(first.train, first.fed(0)))
        applied = [op for op in first.graph.get_operations() if op.name.endswith("/update_weights/apply_momentum")]
        await session.run(applied)  # a run that ends before it has finished the step
        with pytest.raises(af.errors.AbortedError, match="step 0 was applied in part"):
            await session.run(first.opt.sync_op)
        with pytest.raises(af.errors.AbortedError, match="restore the variables"):
            await training
        with pytest.raises(af.errors.AbortedError, match="step 0 was applied in part"):
            await session.run(first.opt.chief_init_op)
        await session.run(first.init)
        await session.run(first.opt.chief_init_op)
        await session.run(first.opt.local_step_init_op)
        training = asyncio.create_task(session.run(first.train, first.fed(0)))
        await session.run(first.opt.sync_op)
        await training
        assert await session.run(first.model.step) == 1


async def test_a_replica_that_begins_applies_the_step_that_was_decided_when_whoever_led_is_gone():
    first, second = Replica(0, 1, 2), Replica(1, 1, 2)
    async with af.Session(graph=first.graph) as session:
        await session.run([first.init])
        await session.run(first.opt.chief_init_op)
        await session.run(first.opt.local_step_init_op)
        training = asyncio.create_task(session.run(first.train, first.fed(0)))
        await asyncio.sleep(1.0)
        assert not training.done()  # its gradient makes a step, which nobody applies
        async with second.part() as other:
            await training
            assert await other.run(second.model.step) == 1


async def test_a_replica_that_another_session_says_has_left_hears_of_it():
    first = Replica(0, 1, 1)
    leave = first.graph.get_operation_by_name("sync_replicas/leave")

    async def train(other):
        async with af.Session(graph=first.graph) as session, af.train.Coordinator() as coord:
            await first.opt.start(session, coord, is_chief=True)
            while not coord.should_stop():
                await other.run(leave)

    async with af.Session(graph=first.graph) as other:
        await other.run(first.init)
        with pytest.raises(af.errors.AbortedError, match="replica 0 has left, as another session reports"):
            await train(other)


async def test_training_that_is_not_open_is_an_error_and_not_a_hang():
    first = Replica(0, 1, 1)
    async with af.Session(graph=first.graph) as session:
        await session.run(first.init)
        with pytest.raises(af.errors.FailedPreconditionError, match="replica 0 cannot begin"):
            await session.run(first.train, first.fed(0))
        assert (await session.run(first.opt.ready_for_local_init_op)).size == 0


# Asynchronous


class Free:
    """A replica that applies its gradients when they are there."""

    def __init__(self, index, bound, slowly):
        with af.Graph().as_default() as self.graph, af.container("models"):
            self.model = Model()
            loss, self.feeds = self.model.tower(slowly)
            self.opt = af.train.AsyncReplicasOptimizer(
                af.train.GradientDescentOptimizer(0.001), bound, task_index=index
            )
            self.train = self.opt.minimize(loss, self.model.step)
            self.init = af.global_variables_initializer()
        self.index = index

    def fed(self, step):
        return dict(zip(self.feeds, shard(self.index, step), strict=True))


async def race(bound):
    """The staleness of each gradient of two replicas, of which one waits until the other can do no more."""
    computing, found = Gate(), []

    async def slowly(loss):
        await computing.wait()
        return loss

    async def at_once(loss):
        return loss

    slow, fast = Free(0, bound, slowly), Free(1, bound, at_once)
    async with (
        af.Session(graph=slow.graph) as one,
        af.Session(graph=fast.graph) as two,
        af.train.Coordinator() as coord,
    ):
        await one.run(slow.init)
        parts = [await slow.opt.start(one, coord), await fast.opt.start(two, coord)]

        async def run(session, replica, count):
            for step in range(count):
                staleness, _ = await session.run([replica.opt.staleness, replica.train], replica.fed(step))
                found.append(staleness)
            await parts[replica.index].leave()  # else the other would wait for its next gradient

        first = asyncio.create_task(run(one, slow, 3))
        await computing.arrived()
        others = asyncio.create_task(run(two, fast, 8))
        await asyncio.wait((others,), timeout=10)  # in virtual time, which passes when nothing else can happen
        ahead = await two.run(fast.model.step)
        computing.open()
        await asyncio.gather(first, others)
        assert await two.run(fast.model.step) == 11
    return ahead, found


async def test_a_replica_that_is_too_far_ahead_waits_until_the_slow_one_has_applied():
    ahead, found = await race(2)
    assert ahead == 2
    assert max(found) == 2


async def test_without_a_bound_staleness_is_measured_and_nobody_waits():
    ahead, found = await race(None)
    assert ahead == 8
    assert max(found) == 8


async def test_of_several_runs_of_a_replica_at_once_one_is_applied_and_the_others_say_why_not():
    computing = Gate()

    async def slowly(loss):
        await computing.wait()
        return loss

    replica = Free(0, 0, slowly)
    async with af.Session(graph=replica.graph) as session, af.train.Coordinator() as coord:
        await session.run(replica.init)
        await replica.opt.start(session, coord)
        first = asyncio.create_task(session.run([replica.opt.staleness, replica.train], replica.fed(0)))
        await computing.arrived()
        with pytest.raises(af.errors.FailedPreconditionError, match="one step at a time"):
            await session.run(replica.train, replica.fed(1))
        computing.open()
        assert (await first)[0] == 0
        assert await session.run(replica.model.step) == 1
        await session.run(replica.train, replica.fed(1))
        assert await session.run(replica.model.step) == 2


# In one graph, and in several runs


async def test_gradients_of_micro_batches_come_to_the_last_bit_to_what_one_run_does():
    with af.Graph().as_default() as graph:
        model = Model()
        loss, feeds = model.tower()
        opt = af.train.GradientAccumulationOptimizer(af.train.GradientDescentOptimizer(0.01))
        train = opt.minimize(loss, model.step)
        init = [af.global_variables_initializer(), af.local_variables_initializer()]
    with af.Graph().as_default() as whole:
        other = Model()
        towers, keys = zip(*[other.tower() for _ in range(3)], strict=True)
        inner = af.train.GradientDescentOptimizer(0.01)
        means = af.train.average_gradients([inner.compute_gradients(each) for each in towers])
        once = inner.apply_gradients(means, other.step)
        begin = af.global_variables_initializer()
    async with af.Session(graph=graph) as session, af.Session(graph=whole) as reference:
        await session.run(init)
        await reference.run(begin)
        for step in range(4):
            batches = [shard(number, step) for number in range(3)]
            for batch in batches[:2]:
                await session.run(opt.accumulate_op, dict(zip(feeds, batch, strict=True)))
            await session.run(train, dict(zip(feeds, batches[2], strict=True)))
            await reference.run(once, {key: value for pair, batch in zip(keys, batches, strict=True)
                                       for key, value in zip(pair, batch, strict=True)})  # fmt: skip
        same(await session.run(model.variables), await reference.run(other.variables))
        assert await session.run(model.step) == 4


@pytest.mark.parametrize("sparse", [False, True])
async def test_a_run_that_fails_to_apply_what_was_added_up_can_be_run_again(sparse):
    class Fails(af.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            with af.control_dependencies([gradient for gradient, _ in grads_and_vars]):
                checked = af.Assert(fine, ["it fails"])
            with af.control_dependencies([checked]):
                pairs = [(af.identity(gradient), variable) for gradient, variable in grads_and_vars]
            return super().apply_gradients(pairs, *args, **kwargs)

    with af.Graph().as_default() as graph:
        weights, step = af.Variable(np.zeros([3, 1], np.float32)), af.train.get_or_create_global_step()
        fed, fine = af.placeholder(af.float32, [3, 1]), af.placeholder(af.bool, [])
        opt = af.train.GradientAccumulationOptimizer(Fails(1.0))
        gradient = af.IndexedSlices(fed, af.constant([0, 1, 1])) if sparse else af.identity(fed)
        train = opt.apply_gradients([(gradient, weights)], step)
        init = [af.global_variables_initializer(), af.local_variables_initializer()]
    async with af.Session(graph=graph) as session:
        await session.run(init)
        for _ in range(2):
            await session.run(opt.accumulate_op, {fed: [[1], [2], [3]]})
            for _ in range(2):
                with pytest.raises(af.errors.InvalidArgumentError, match="it fails"):
                    await session.run(train, {fed: [[5], [6], [7]], fine: False})
            await session.run(train, {fed: [[5], [6], [7]], fine: True})
        expected = [-6, -18, 0] if sparse else [-6, -8, -10]
        assert np.ravel(await session.run(weights)).tolist() == expected


async def test_narrow_gradients_are_added_up_as_float32():
    with af.Graph().as_default() as graph:
        weights, rows = (af.Variable(np.zeros([2, 1], np.float16)) for _ in range(2))
        fed = af.placeholder(af.float16, [2, 1])
        opt = af.train.GradientAccumulationOptimizer(af.train.GradientDescentOptimizer(1.0))
        pairs = [(af.identity(fed), weights), (af.IndexedSlices(fed, af.constant([1, 0])), rows)]
        train = opt.apply_gradients(pairs, af.train.get_or_create_global_step())
        init = [af.global_variables_initializer(), af.local_variables_initializer()]
    async with af.Session(graph=graph) as session:
        await session.run(init)
        for _ in range(2):
            await session.run(opt.accumulate_op, {fed: [[40000], [1]]})
        await session.run(train, {fed: [[40000], [4]]})
        found = await session.run([weights, rows])
        assert [np.ravel(each).tolist() for each in found] == [[-40000, -2], [-2, -40000]]


async def test_each_replica_may_give_several_gradients_to_a_step():
    with af.Graph().as_default() as graph:
        model = Model()
        loss, feeds = model.tower()
        sync = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.01), 1)
        opt = af.train.GradientAccumulationOptimizer(sync)
        train = opt.minimize(loss, model.step)
        init = [af.global_variables_initializer(), af.local_variables_initializer()]
    async with af.Session(graph=graph) as session, af.train.Coordinator() as coord:
        await session.run(init)
        await sync.start(session, coord, is_chief=True)
        for step in range(3):
            for number in range(2):
                batch = dict(zip(feeds, shard(number, step), strict=True))
                await session.run(train if number else opt.accumulate_op, batch)
        assert await session.run(model.step) == 3


async def test_averages_follow_the_variables_after_each_step():
    with af.Graph().as_default() as graph:
        model = Model()
        loss, feeds = model.tower()
        averages = af.train.ExponentialMovingAverage(0.5)
        opt = af.train.SyncReplicasOptimizer(
            af.train.GradientDescentOptimizer(0.01), 1, variable_averages=averages, variables_to_average=[model.weights]
        )
        train = opt.minimize(loss, model.step)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session, af.train.Coordinator() as coord:
        await session.run(init)
        await opt.start(session, coord, is_chief=True)
        await session.run(train, dict(zip(feeds, shard(0, 0), strict=True)))
        weights, average = await session.run([model.weights, averages.average(model.weights)])
        np.testing.assert_allclose(average, 0.5 + 0.5 * weights, rtol=1e-6)


# What cannot work


def test_what_cannot_work_is_refused_when_it_is_built():
    sgd = af.train.GradientDescentOptimizer(0.1)
    for required, total, what in [(3, 2, "3 gradients"), (0, 2, "0 gradients"), (None, None, "how many replicas")]:
        with pytest.raises(ValueError, match=what):
            af.train.SyncReplicasOptimizer(sgd, required, total)
    with pytest.raises(ValueError, match="from 0 on, not -1"):
        af.train.SyncReplicasOptimizer(sgd, 1, task_index=-1)
    with pytest.raises(ValueError, match="staleness is 0 or more"):
        af.train.AsyncReplicasOptimizer(sgd, -2)
    with af.Graph().as_default() as graph:
        model = Model()
        loss, _ = model.tower()
        other = af.zeros([2])
        before = len(graph.get_operations())
        for opt in (af.train.SyncReplicasOptimizer(sgd, 1), af.train.AsyncReplicasOptimizer(sgd)):
            with pytest.raises(ValueError, match="global_step"):
                opt.apply_gradients([(loss, model.weights)])
            with pytest.raises(ValueError, match="no gradient"):
                opt.apply_gradients([(None, model.weights)], model.step)
            with pytest.raises(ValueError, match="comes first"):
                _ = opt.next_step
        with pytest.raises(ValueError, match="shape"):
            af.train.SyncReplicasOptimizer(sgd, 1).apply_gradients([(other, model.weights)], model.step)
        assert len(graph.get_operations()) == before
        opt = af.train.SyncReplicasOptimizer(sgd, 1)
        opt.minimize(loss, model.step)
        with pytest.raises(ValueError, match="applied gradients"):
            opt.minimize(loss, model.step)
        with pytest.raises(ValueError, match="same variables"):
            af.train.average_gradients([[(loss, model.weights)], [(loss, model.table)]])
        with pytest.raises(ValueError, match="no replicas"):
            af.train.average_gradients([])
        assert af.train.average_gradients([[(None, model.weights)]]) == [(None, model.weights)]


async def test_checkpoints_of_replicas_in_step_are_of_step_boundaries(tmp_path):
    replicas, saved = [Replica(index, 2, 2) for index in range(2)], {}
    with replicas[0].graph.as_default():
        saver = af.train.Saver([replicas[0].model.step, *replicas[0].model.variables], max_to_keep=0)

    async def train(replica):
        async with replica.part() as session:
            for step in range(12):
                await session.run(replica.train, replica.fed(step))
                if replica.index == 0 and step % 3 == 0:
                    path = await saver.save(session, tmp_path / "model.ckpt", replica.model.step)
                    saved[path] = int(af.train.load_variable(path, "global_step"))

    await asyncio.gather(*map(train, replicas))
    assert len(saved) == 4
    for path, step in saved.items():
        expected = await alone(range(2), step)
        same([af.train.load_variable(path, name) for name in ("weights", "table")], expected)


async def test_no_step_is_applied_while_a_step_boundary_is_held(tmp_path):
    replica = Replica(0, 1, 1)
    with replica.graph.as_default():
        saver = af.train.Saver([replica.model.step, *replica.model.variables])
    async with replica.part() as session:
        (boundary,) = replica.graph.get_collection(af.GraphKeys.STEP_BOUNDARIES)
        async with boundary.held(session):
            training = asyncio.ensure_future(session.run(replica.train, replica.fed(0)))
            await asyncio.sleep(1)
            assert not training.done()
            assert await session.run(replica.model.step) == 0
        await training
        assert await session.run(replica.model.step) == 1
        path = await saver.save(session, tmp_path / "model.ckpt")
        assert af.train.load_variable(path, "global_step") == 1


class Given:
    """A replica whose gradients are of rows that are fed; the rate may be, too."""

    def __init__(self, index, total, rate_is_fed=False, times=1):
        with af.Graph().as_default() as self.graph, af.container("models"):
            self.step = af.train.get_or_create_global_step()
            self.table = af.Variable(np.zeros((4, 2), np.float32), name="table")
            self.rows = af.placeholder(af.int32, [None])
            rate = af.placeholder(af.float32, [], name="rate") if rate_is_fed else 1.0
            sgd = af.train.GradientDescentOptimizer(rate)
            self.opt = af.train.SyncReplicasOptimizer(sgd, total, total, task_index=index)
            pairs = [(af.IndexedSlices(af.ones([1, 2]), self.rows), self.table)] * times
            self.train = self.opt.apply_gradients(pairs, self.step)
            self.init = af.global_variables_initializer()
        self.index = index

    async def begin(self, session, coord):
        """It takes part; 0 is the chief."""
        if self.index == 0:
            await session.run(self.init)
        await self.opt.start(session, coord, is_chief=self.index == 0)


async def test_an_update_that_cannot_be_applied_fails_the_run_of_its_replica_and_no_other():
    found = []

    async def work(replica, last):
        async with af.Session(graph=replica.graph) as session, af.train.Coordinator() as coord:
            await replica.begin(session, coord)
            for row in (1, 2, last):
                await session.run(replica.train, {replica.rows: [row]})
            found.append(await session.run(replica.step))

    first, second = await asyncio.gather(work(Given(0, 2), 3), work(Given(1, 2), 4), return_exceptions=True)
    assert (first, found) == (None, [3])
    with pytest.raises(af.errors.InvalidArgumentError, match=r"index 4 is out of range for a gradient of .*table"):
        raise second


async def test_a_replica_alone_whose_step_cannot_be_applied_ends_with_the_reason():
    alone, training = Given(0, 1, rate_is_fed=True), []

    async def work(session):
        async with af.train.Coordinator() as coord:
            await alone.begin(session, coord)
            training.append(asyncio.create_task(session.run(alone.train, {alone.rows: [1]})))
            await coord.wait_for_stop()

    async with af.Session(graph=alone.graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="rate"):
            await work(session)
        with pytest.raises(af.errors.AbortedError, match=r"no replica is left .*rate"):
            await training[0]


async def test_gradients_of_one_variable_that_come_in_two_pairs_are_both_applied():
    replica = Given(0, 1, times=2)
    async with af.Session(graph=replica.graph) as session, af.train.Coordinator() as coord:
        await replica.begin(session, coord)
        await session.run(replica.train, {replica.rows: [3]})
        np.testing.assert_array_equal((await session.run(replica.table))[:, 0], [0, 0, 0, -2])


def test_gradients_that_could_not_be_applied_leave_the_graph_and_the_error_as_they_are():
    def broken():
        raise OSError("no queue")

    def then_fails(graph, build):
        with graph.transaction():
            build()
            broken()

    with af.Graph().as_default() as graph:
        model = Model()
        loss, _ = model.tower()
        gradients = [(loss, af.Variable(0.0))]
        sgd = af.train.GradientDescentOptimizer(0.1)
        sync = af.train.SyncReplicasOptimizer(sgd, 1)
        several = af.train.GradientAccumulationOptimizer(af.train.SyncReplicasOptimizer(sgd, 1))
        before = graph.as_graph_def(), graph.get_all_collection_keys()
        for opt in (sync, several, sync, several):
            with pytest.raises(OSError, match="no queue"):
                opt.apply_gradients(gradients, model.step, requeue=broken)
            assert (graph.as_graph_def(), graph.get_all_collection_keys()) == before
        with pytest.raises(OSError, match="no queue"):
            then_fails(graph, lambda: af.train.AsyncReplicasOptimizer(sgd).apply_gradients(gradients, model.step))
        assert (graph.as_graph_def(), graph.get_all_collection_keys()) == before
        train = sync.apply_gradients(gradients, model.step)
        assert graph.get_collection(af.GraphKeys.TRAIN_OP) == [train]
