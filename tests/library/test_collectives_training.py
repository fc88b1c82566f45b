"""Training whose gradients go round a ring: variables stay equal to the last bit, whatever happens to the cluster."""

import asyncio
import functools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.testing import Chaos, Gate, cluster
from aioflow.train.all_reduce import buckets
from tests.support.cluster_runs import every_fourth_seed, failed, new_graph, survives
from tests.support.doubles import gated
from tests.support.scale import amount, some

WORKERS = 3
TASKS = [f"/job:worker/task:{number}" for number in range(WORKERS)]
WEATHER = Chaos(seconds=5.0, lasting=(0.05, 5.0))
RANDOM = np.random.default_rng(3)
BATCHES = [(RANDOM.normal(size=(7, 4)).astype(np.float32), RANDOM.integers(0, 3, 7)) for _ in range(4)]


def tower(images, labels):
    """The loss of a share, and its variables: a table of rows, too, whose gradient is sparse."""
    weights = af.get_variable("weights", [4, 3], initializer=af.glorot_uniform_initializer(seed=1))
    bias = af.get_variable("bias", [3], initializer=af.zeros_initializer())
    table = af.get_variable("table", [3, 3], initializer=af.glorot_uniform_initializer(seed=2))
    unused = af.get_variable("unused", [2], initializer=af.zeros_initializer())
    logits = af.matmul(images, weights) + bias + af.gather(table, labels % 2)
    loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, [weights, bias, table, unused]


def share(number):
    return slice(number, None, WORKERS)


@functools.cache
def model(codec=None, in_task_order=False, groups=None):
    with new_graph() as graph:
        images, labels = af.placeholder(af.float32, [None, 4]), af.placeholder(af.int64, [None])
        optimizer = af.train.AdamOptimizer(0.05)
        towers, losses = [], []
        for number, task in enumerate(TASKS):
            with af.device(task), af.variable_scope(f"tower{number}"):
                loss, variables = tower(images[share(number)], labels[share(number)])
                losses.append(loss)
                towers.append(optimizer.compute_gradients(loss, variables))
        options = {"codec": codec, "in_task_order": in_task_order, "groups": groups}
        reduced = af.train.all_reduce_gradients(towers, **options, bucket_bytes=60)
        train = optimizer.apply_gradients([pair for pairs in reduced for pair in pairs])
        named = [[variable for _, variable in pairs] for pairs in towers]
        slots = [[optimizer.get_slot(variable, "m") for variable in variables[:3]] for variables in named]
        everything = [[*variables, *more] for variables, more in zip(named, slots, strict=True)]
        return SimpleNamespace(
            graph=graph, images=images, labels=labels, losses=losses, train=train, towers=everything, reduced=reduced,
            init=af.global_variables_initializer(), equal=af.train.broadcast_variables(everything),
        )  # fmt: skip


@functools.cache
def alone():
    """The same on one device, which adds the gradients of the shares in order."""
    with new_graph() as graph:
        images, labels = af.placeholder(af.float32, [None, 4]), af.placeholder(af.int64, [None])
        optimizer = af.train.AdamOptimizer(0.05)
        shares, losses = [], []
        for number in range(WORKERS):
            with af.variable_scope("alone", reuse=number > 0):
                loss, variables = tower(images[share(number)], labels[share(number)])
                losses.append(loss)
                shares.append([gradient for gradient, _ in optimizer.compute_gradients(loss, variables)])
        pairs = []
        for row, variable in zip(zip(*shares, strict=True), variables, strict=True):
            if isinstance(row[0], af.IndexedSlices):
                values, indices = (
                    af.concat([each.values for each in row], 0),
                    af.concat([each.indices for each in row], 0),
                )
                pairs.append((af.IndexedSlices(values / float(WORKERS), indices), variable))
            elif row[0] is not None:
                pairs.append((af.add_n(row) / float(WORKERS), variable))
        return SimpleNamespace(
            graph=graph, images=images, labels=labels, losses=losses, train=optimizer.apply_gradients(pairs),
            variables=variables, init=af.global_variables_initializer(),
        )  # fmt: skip


def feeds(one, batch):
    return {one.images: batch[0], one.labels: batch[1]}


def bits(values):
    return [np.asarray(value).tobytes() for value in values]


async def test_towers_learn_to_the_bit_what_one_process_does_that_adds_in_task_order():
    one, several = alone(), model(in_task_order=True)
    batches = BATCHES * amount(1, 3)
    async with af.Session(graph=one.graph) as session:
        await session.run(one.init)
        expected = [(await session.run([one.losses, one.train], feeds(one, batch)))[0] for batch in batches]
        last = bits(await session.run(one.variables))
    async with (
        cluster({"worker": WORKERS}) as simulated,
        af.Session(simulated.target("worker", 0), graph=several.graph) as session,
    ):
        await session.run(several.init)
        for batch, losses in zip(batches, expected, strict=True):
            assert (await session.run([several.losses, several.train], feeds(several, batch)))[0] == losses
        for variables in await session.run(several.towers):
            assert bits(variables[:4]) == last


@pytest.mark.parametrize("codec", some(["int8", None, "bfloat16", "top_k:0.2"], 1))
async def test_towers_stay_equal_to_the_bit(codec):
    several = model(codec)
    async with (
        cluster({"worker": WORKERS}) as simulated,
        af.Session(simulated.target("worker", 0), graph=several.graph) as session,
    ):
        await session.run(several.init)
        step = session.make_callable([several.losses, several.train], feeds=[several.images, several.labels])
        losses = [np.mean((await step(*batch))[0]) for batch in BATCHES * 10]
        first, *others = map(bits, await session.run(several.towers))
        assert others == [first] * (WORKERS - 1)
        assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])


async def test_variables_become_those_of_the_first_tower():
    with af.Graph().as_default():
        towers = []
        for number in range(3):
            with af.device(f"/cpu:{number}"):
                towers.append([af.Variable(np.full([2, 3], number)), af.Variable(float(number))])
        equal = af.train.broadcast_variables(towers)
        async with af.Session(config=af.Config(device_count={"CPU": 3})) as session:
            await session.run(af.global_variables_initializer())
            await session.run(equal)
            for matrix, number in await session.run(towers):
                assert (matrix.tolist(), number) == ([[0] * 3] * 2, 0)


# While things go wrong


@functools.cache
def counters():
    """A vector on each task, which grows by the sum of what all tasks are given."""
    with new_graph() as graph:
        given = af.placeholder(af.float32, [5])
        counts, parts = [], []
        for number, task in enumerate(TASKS):
            with af.device(task):
                counts.append(af.Variable(np.zeros(5, np.float32)))
                parts.append(given * float(number + 1))
        grown = [count.assign_add(each) for count, each in zip(counts, af.collectives.all_sum(parts), strict=True)]
        return SimpleNamespace(
            graph=graph, given=given, grown=grown, init=af.global_variables_initializer(),
            equal=af.train.broadcast_variables([[count] for count in counts]),
        )  # fmt: skip


async def goes_on(run):
    """As long as all steps give values, all tasks have grown by all of them; after others they become equal again."""
    model, whole = counters(), np.arange(5, dtype=np.float32)
    async with run.session(model.graph) as session:
        unbroken = not failed(await run.step(session, model.init))
        for number in range(1, run.random.randint(2, 4)):
            outcome = await run.step(session, model.grown, {model.given: whole})
            unbroken = unbroken and not failed(outcome)
            if unbroken:
                assert [count.tolist() for count in outcome] == [(number * 6 * whole).tolist()] * WORKERS
            await run.at_random(1.0)
        await run.calm()
        if failed(await run.step(session, model.equal, limit=5.0)):
            await run.until(session, model.init)
        first, *others = await run.until(session, model.grown, {model.given: whole}, tries=1)
        assert [count.tolist() for count in others] == [first.tolist()] * (WORKERS - 1)
        assert (first % (6 * whole[1]) == 0).all()


@pytest.mark.long
@every_fourth_seed
def test_tasks_that_sum_round_a_ring_stay_equal_and_after_failures_become_so_again(seeds):
    survives(seeds, goes_on, spec={"worker": WORKERS}, chaos=WEATHER)


# Buckets


def test_gradients_that_follow_each_other_share_a_bucket_up_to_its_bytes():
    single, double = af.float32, af.float64
    measures = [(single, 40), (single, 60), (single, 1), (double, 8), (double, 8), None, (double, 200), (double, 8)]
    assert buckets(measures, 100) == [[0, 1], [2], [3, 4], [5], [6], [7]]
    assert buckets(measures, 0) == [[number] for number in range(8)]
    assert buckets([], 100) == []


@given(
    st.lists(st.none() | st.tuples(st.sampled_from([af.float32, af.float64]), st.integers(0, 50))), st.integers(0, 99)
)
def test_each_gradient_is_in_one_bucket_with_its_likes(measures, limit):
    found = buckets(measures, limit)
    assert [number for bucket in found for number in bucket] == list(range(len(measures)))
    for bucket in found:
        inside = [measures[number] for number in bucket]
        assert len(bucket) == 1 or len({dtype for dtype, _ in inside}) == 1
        assert len(bucket) == 1 or sum(size for _, size in inside) <= limit


@pytest.mark.parametrize("groups", [None, [[0, 1, 2]], [[0, 2], [1]]])
@pytest.mark.parametrize("codec", [None, "bfloat16"])
async def test_a_bucket_is_reduced_before_the_gradients_of_later_buckets_exist(codec, groups):
    last, reduced_first, towers = Gate(), Gate(), []
    with af.Graph().as_default() as graph:
        for number in range(3):
            with af.device(f"/cpu:{number}"):
                early = [af.fill([4], af.constant(number + scale)) for scale in (1.0, 2.0)]
                late = [gated(af.fill([4], af.constant(number + scale)), last) for scale in (3.0, 4.0)]
                towers.append([(gradient, af.Variable(np.zeros(4))) for gradient in (*late, *early)])
        reduced = af.train.all_reduce_gradients(towers, "sum", codec, bucket_bytes=32, groups=groups)
        found = [[gradient for gradient, _ in pairs[:2]] for pairs in reduced]
        for number, pairs in enumerate(reduced):
            with af.device(f"/cpu:{number}"):
                found[number] += [gated(gradient, reduced_first) for gradient, _ in pairs[2:]]
        async with (
            af.Session(graph=graph, config=af.Config(device_count={"CPU": 3})) as session,
            asyncio.TaskGroup() as own,
        ):
            running = own.create_task(session.run(found))
            await reduced_first.arrived(6)
            assert not running.done()
            reduced_first.open()
            last.open()
    for values in await running:
        assert [value.tolist() for value in values] == [[12] * 4, [15] * 4, [6] * 4, [9] * 4]


async def test_towers_in_groups_of_hosts_stay_equal_to_the_bit():
    several = model(groups=((0, 2), (1,)))
    async with (
        cluster({"worker": WORKERS}) as simulated,
        af.Session(simulated.target("worker", 0), graph=several.graph) as session,
    ):
        await session.run(several.init)
        for batch in BATCHES:
            await session.run(several.train, feeds(several, batch))
        first, *others = map(bits, await session.run(several.towers))
        assert others == [first] * (WORKERS - 1)


def test_buckets_are_filled_from_the_last_variable_on():
    with af.Graph().as_default():
        towers = towers_of(*[lambda number, size=size: af.fill([size], 1.0) for size in (4, 2, 1, 1)])
        reduced = af.train.all_reduce_gradients(towers, bucket_bytes=16)
    together = [{each.name for each in op_inputs(gradient)} for gradient, _ in reduced[0]]
    assert together[1] == together[2] == together[3]
    assert together[0] != together[1]


def op_inputs(tensor):
    """The tensors from which its bucket was divided."""
    found = tensor.op.inputs[0]
    return found.op.inputs[:1] if found.op.type == "split_v" else [found]


def test_what_no_tower_has_a_gradient_for_stays_without():
    several = model()
    assert [pairs[3][0] for pairs in several.reduced] == [None] * WORKERS
    assert [pairs[3][1].op.name for pairs in several.reduced] == [f"tower{number}/unused" for number in range(WORKERS)]


def towers_of(*gradients):
    """For each of two devices these gradients, functions that build one."""
    towers = []
    for number in range(2):
        with af.device(f"/cpu:{number}"):
            towers.append([(build(number), af.Variable(np.zeros(2))) for build in gradients])
    return towers


async def values_of(towers):
    async with af.Session(graph=towers[0][0][0].graph, config=af.Config(device_count={"CPU": 2})) as session:
        return await session.run([[gradient for gradient, _ in pairs] for pairs in towers])


async def test_shapes_that_only_some_towers_know_go_alone():
    def known(number):
        return af.constant([1.0, 2.0], af.float64)

    def partly_known(number):
        value = np.array([3.0, 5.0]) + number
        return af.placeholder_with_default(value, None) if number else af.constant(value)

    with af.Graph().as_default():
        reduced = af.train.all_reduce_gradients(towers_of(known, partly_known, known))
    for found in await values_of(reduced):
        assert [each.tolist() for each in found] == [[1, 2], [3.5, 5.5], [1, 2]]


@pytest.mark.parametrize("codec", ["int8", "top_k:0.01"])
async def test_gradients_that_have_no_lossy_form_go_as_they_are(codec):
    with af.Graph().as_default():
        gradients = [
            lambda number: af.constant([126.0, 63.0], af.float32),
            lambda number: af.constant([1.5, 2.5], af.float16),
            lambda number: af.IndexedSlices(af.constant([[0.5]], af.float16), af.constant([number])),
        ]
        reduced = af.train.all_reduce_gradients(towers_of(*gradients), codec=codec)
    for _, narrow, rows in await values_of(reduced):
        assert (narrow.dtype, narrow.tolist()) == (np.float16, [1.5, 2.5])
        assert (rows.values.tolist(), rows.indices.tolist()) == ([[0.25], [0.25]], [0, 1])


# Bad input


@pytest.mark.parametrize(
    ("towers", "said"),
    [
        ([], "at least one tower"),
        ([["a"], ["a", "b"]], "the towers have 1, 2 variables"),
        ([["a", None], ["a", "b"]], "tower 0 has no gradient for 'v1:0', its variable number 1, and others have one"),
    ],
)
def test_towers_that_do_not_match_are_refused(towers, said):
    with af.Graph().as_default():
        named = [af.Variable(0.0, name=f"v{number}") for number in range(2)]
        pairs = [[(each and af.zeros([]), v) for each, v in zip(tower, named, strict=False)] for tower in towers]
        with pytest.raises(ValueError, match=said):
            af.train.all_reduce_gradients(pairs)
        with pytest.raises(ValueError, match="bucket_bytes"):
            af.train.all_reduce_gradients([[(af.zeros([]), named[0])]], bucket_bytes=-1)
