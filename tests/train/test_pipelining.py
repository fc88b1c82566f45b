"""A batch taken through stages on several devices in micro-batches: what comes out, and what is done meanwhile."""

import asyncio
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.testing import Gate, cluster
from aioflow.train.pipelining import Turn, chart, gpipe, in_order, one_forward_one_backward
from tests.support.doubles import waiting
from tests.support.scale import some

SCHEDULES = {"1f1b": one_forward_one_backward, "gpipe": gpipe}
UNITS = 8, 7, 3
RANDOM = np.random.default_rng(5)
IMAGES, LABELS = RANDOM.normal(size=(10, 6)), RANDOM.integers(0, 3, 10).astype(np.int32)


# Schedules


def test_a_schedule_is_what_papers_draw():
    def drawn(schedule):
        return [" ".join(map(str, turns)) for turns in schedule]

    assert drawn(gpipe(2, 3)) == ["F0 F1 F2 B0 B1 B2"] * 2
    assert drawn(one_forward_one_backward(3, 4)) == [
        "F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3",
    ]  # fmt: skip
    assert drawn(one_forward_one_backward(4, 2)) == ["F0 F1 B0 B1"] * 3 + ["F0 B0 F1 B1"]


@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 6), st.integers(1, 9))
def test_every_schedule_ends_as_early_as_one_can(name, stages, micro_batches):
    schedule = SCHEDULES[name](stages, micro_batches)
    every = [Turn(forward, number) for forward in (True, False) for number in range(micro_batches)]
    assert all(sorted(turns) == sorted(every) for turns in schedule)
    assert len(chart(schedule)) == 2 * (micro_batches + stages - 1)
    assert len(in_order(schedule)) == 2 * micro_batches * stages


@given(st.integers(1, 6), st.integers(1, 9))
def test_a_stage_keeps_all_micro_batches_or_few(stages, micro_batches):
    def kept(turns):
        return max(itertools.accumulate(1 if turn.forward else -1 for turn in turns))

    assert [kept(turns) for turns in gpipe(stages, micro_batches)] == [micro_batches] * stages
    few = [min(stages - stage, micro_batches) for stage in range(stages)]
    assert [kept(turns) for turns in one_forward_one_backward(stages, micro_batches)] == few


def test_stages_that_would_wait_for_each_other_are_found():
    with pytest.raises(ValueError, match=r"the stages wait for each other, before \['B0'"):
        chart([[Turn(False, 0), Turn(True, 0)]])


# Values


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def layer(number):
    units, last = UNITS[number], number == len(UNITS) - 1

    def build(inputs):
        size = inputs.shape[-1].value
        initializer = af.random_normal_initializer(seed=number)
        weights = af.get_variable("weights", [size, units], af.float64, initializer=initializer)
        outputs = af.matmul(inputs, weights) + af.get_variable("bias", [units], af.float64, af.zeros_initializer())
        return outputs if last else af.nn.relu(outputs)

    return build


def mean_loss(logits, labels):
    return af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def unpipelined():
    """Training with whole batches, on one device."""
    with af.Graph().as_default() as graph:
        images, labels = af.placeholder(af.float64, [None, 6]), af.placeholder(af.int32, [None])
        outputs = images
        for number in range(len(UNITS)):
            with af.variable_scope(f"stage{number}"):
                outputs = layer(number)(outputs)
        loss = mean_loss(outputs, labels)
        train = af.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        return SimpleNamespace(
            graph=graph, images=images, labels=labels, loss=loss, train=train, outputs=outputs,
            init=af.global_variables_initializer(),
        )  # fmt: skip


def pipelined(places, micro_batches, schedule="1f1b", rows=None):
    with af.Graph().as_default() as graph:
        images, labels = af.placeholder(af.float64, [rows, 6]), af.placeholder(af.int32, [rows])
        stages = [af.train.Stage(place, layer(number)) for number, place in enumerate(places)]
        made = af.train.pipeline(stages, images, labels, mean_loss, micro_batches, schedule)
        train = af.train.MomentumOptimizer(0.1, 0.9).apply_gradients(made.grads_and_vars)
        return SimpleNamespace(
            graph=graph, images=images, labels=labels, loss=made.loss, train=train, outputs=made.outputs[0],
            init=af.global_variables_initializer(),
        )  # fmt: skip


async def curve(session, model):
    """The losses of some steps, and the outputs after them."""
    feeds = {model.images: IMAGES, model.labels: LABELS}
    await session.run(model.init)
    losses = [(await session.run([model.loss, model.train], feeds))[0] for _ in range(6)]
    return [*losses, *(await session.run(model.outputs, feeds)).ravel()]


LOCAL = ["/cpu:0", "/cpu:1", "/cpu:2"]
THREE = af.Config(device_count={"CPU": 3})


@pytest.mark.parametrize("rows", [None, 10])
@pytest.mark.parametrize("micro_batches", some([4, 1, 2, 10], 1))
@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_pipeline_learns_what_one_device_does_with_whole_batches(schedule, micro_batches, rows):
    one, several = unpipelined(), pipelined(LOCAL, micro_batches, schedule, rows)
    async with af.Session(graph=one.graph) as session:
        expected = await curve(session, one)
    async with af.Session(graph=several.graph, config=THREE) as session:
        np.testing.assert_allclose(await curve(session, several), expected, rtol=1e-9)


async def test_stages_may_be_tasks_of_a_cluster():
    one = unpipelined()
    several = pipelined([f"/job:worker/task:{number}" for number in range(3)], 4)
    async with af.Session(graph=one.graph) as session:
        expected = await curve(session, one)
    async with (
        cluster({"worker": 3}) as simulated,
        af.Session(simulated.target("worker", 0), graph=several.graph) as session,
    ):
        np.testing.assert_allclose(await curve(session, several), expected, rtol=1e-9)


async def test_a_variable_of_several_stages_gets_the_gradients_of_all(graph):
    weights = af.Variable(RANDOM.normal(size=(6, 6)), name="weights")
    table = af.Variable(RANDOM.normal(size=(3, 6)), name="table")

    def first(images, numbers):
        return af.matmul(images, weights) + af.gather(table, numbers), numbers

    def second(hidden, numbers):
        return af.matmul(hidden, weights) * af.gather(table, numbers)

    def loss(outputs):
        return af.reduce_mean(af.reduce_sum(outputs * outputs, axis=1))

    numbers = af.constant(LABELS)
    made = af.train.pipeline([("/cpu:0", first), ("/cpu:1", second)], [IMAGES, numbers], [], loss, 3)
    whole = loss(second(*first(af.constant(IMAGES), numbers)))
    expected = af.gradients(whole, [weights, table])
    found = [gradient for gradient, _ in made.grads_and_vars]
    async with af.Session(config=THREE) as session:
        await session.run(af.global_variables_initializer())
        for ours, theirs in ((found, expected), ([made.loss], [whole])):
            dense = [af.convert_to_tensor(each) for each in (*ours, *theirs)]
            values = await session.run(dense)
            for value, wanted in zip(values[: len(ours)], values[len(ours) :], strict=True):
                np.testing.assert_allclose(value, wanted, rtol=1e-9)


async def test_a_pipeline_built_once_more_looks_at_the_same_variables_and_computes_no_gradients(graph):
    stages = [(place, layer(number)) for number, place in enumerate(LOCAL)]
    trained = af.train.pipeline(stages, IMAGES, LABELS, mean_loss, 4)
    names = [variable.op.name for variable in af.trainable_variables()]
    assert names == [f"stage{number}/{name}" for number in range(3) for name in ("weights", "bias")]
    with pytest.raises(ValueError, match="stage0/weights"):
        af.train.pipeline(stages, IMAGES, LABELS, mean_loss, 2)
    with af.variable_scope(af.get_variable_scope(), reuse=True):
        looked_at = af.train.pipeline(stages, IMAGES, LABELS, mean_loss, 2, "gpipe")
    assert [variable.op.name for variable in af.trainable_variables()] == names
    metadata = af.RunMetadata()
    async with af.Session(config=THREE) as session:
        await session.run(af.global_variables_initializer())
        expected = await session.run(trained.loss)
        found = await session.run(looked_at.loss, options=af.RunOptions(trace=True), metadata=metadata)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not [stats.name for stats in metadata.step_stats if "gradients" in stats.name]


# What is done meanwhile


def gated_stages(places, happened, gates):
    """Stages that say when they begin with a micro-batch and when they have done, and wait at gates in between."""

    def stage(number):
        async def at_work(value):
            micro_batch = int(value[0, 0])
            happened.append(f"stage{number} begins {micro_batch}")
            await gates[number, micro_batch].wait()
            happened.append(f"stage{number} ends {micro_batch}")
            return value

        return af.train.Stage(places[number], lambda value: waiting(value, at_work))

    return [stage(number) for number in range(len(places))]


async def test_stages_work_at_different_micro_batches_at_a_time_and_each_at_one():
    """Two stages and three micro-batches: the second stage is at the first while the first is at the second."""
    happened, gates = [], {pair: Gate() for pair in itertools.product(range(2), range(3))}
    rows = np.arange(3.0).reshape(3, 1)
    stages = gated_stages(LOCAL[:2], happened, gates)
    weight = af.Variable(np.float64(1.0))
    made = af.train.pipeline(stages, [rows], [], lambda outputs: af.reduce_mean(outputs) * weight, 3, "gpipe")
    async with af.Session(config=THREE) as session:
        await session.run(weight.initializer)
        step = asyncio.create_task(session.run(made.loss))
        await gates[0, 0].arrived()
        assert happened == ["stage0 begins 0"]
        gates[0, 0].open()
        await gates[1, 0].arrived()
        await gates[0, 1].arrived()
        assert set(happened[2:]) == {"stage1 begins 0", "stage0 begins 1"}
        gates[0, 1].open()
        await gates[0, 2].arrived()
        gates[0, 2].open()
        for _ in range(20):
            await asyncio.sleep(0)
        assert gates[1, 1].entered == 0
        for micro_batch in range(3):
            await gates[1, micro_batch].arrived()
            gates[1, micro_batch].open()
        assert await step == 1.0


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_in_a_cluster_every_stage_takes_its_turns_when_the_chart_has_them(schedule):
    """Each turn takes a second of the simulation: what is done in which second is what the chart says."""
    stages, micro_batches, begun, loop = 3, 4, {}, asyncio.get_running_loop()

    async def at_work(stage, forward, value):
        number = int(value.ravel()[0]) // (1 if forward else 2)
        begun[int(stage), Turn(bool(forward), number)] = round(loop.time() - start)
        await asyncio.sleep(1.0)
        return value

    def turn_of(stage, forward, value):
        done = af.py_func("at_work", [stage, forward, value], af.float64)
        done.set_shape(value.shape)
        return done

    def build(stage):
        @af.custom_gradient
        def turn(value):
            return turn_of(stage, True, value), lambda dy: turn_of(stage, False, dy)

        return lambda value: turn(value * af.get_variable("one", [], af.float64, af.ones_initializer()))

    def loss(outputs):
        """Whose gradient is twice the number of the micro-batch."""
        return af.reduce_sum(outputs) * af.stop_gradient(outputs[0, 0]) * (2.0 * micro_batches)

    places = [(f"/job:worker/task:{number}", build(number)) for number in range(stages)]
    made = af.train.pipeline(places, [np.arange(4.0).reshape(4, 1)], [], loss, micro_batches, schedule)
    async with (
        cluster({"worker": stages}, py_funcs={"at_work": at_work}) as simulated,
        af.Session(simulated.target("worker", 0)) as session,
    ):
        await session.run(af.global_variables_initializer())
        start = loop.time()
        await session.run([gradient for gradient, _ in made.grads_and_vars])
    times = chart(SCHEDULES[schedule](stages, micro_batches))
    assert begun == {(stage, turn): time for time, now in enumerate(times) for stage, turn in now.items()}


async def test_several_steps_are_in_the_pipeline_at_a_time(graph):
    """While one looks at a step's value, `stream` has the next ones under way: one in each stage."""
    gate, inside = Gate(), []

    def stage(number):
        async def at_work(value):
            inside.append((number, float(value)))
            if number == 1:
                await gate.wait()
            return value

        return at_work

    with af.device("/cpu:0"):
        first = waiting(af.FIFOQueue(9, af.float64, [[]], name="inputs").dequeue(), stage(0))
    with af.device("/cpu:1"):
        second = waiting(first, stage(1))
    async with af.Session(config=THREE) as session:
        await session.queue(graph.get_tensor_by_name("inputs:0")).put_many([[1.0], [2.0], [3.0]])
        stream = session.stream(second, read_ahead=2)
        value = asyncio.ensure_future(anext(stream))
        await gate.arrived(3)
        assert sorted(inside) == [(0, 1.0), (0, 2.0), (0, 3.0), (1, 1.0), (1, 2.0), (1, 3.0)]
        gate.open()
        assert await value == 1.0
        await stream.aclose()


# Bad input


def nothing(value):
    return value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stages": []}, "at least one stage"),
        ({"schedule": "zigzag"}, "schedule is one of 1f1b, gpipe, not 'zigzag'"),
        ({"micro_batches": 0}, "micro_batches is a number of at least 1"),
        ({"micro_batches": 11}, "10 examples cannot be divided into 11 micro-batches"),
        ({"inputs": []}, "the first stage needs an input"),
        ({"inputs": np.float64(1)}, "is a single number: inputs and labels have a row for each example"),
        ({"labels": 3}, "is a single number: inputs and labels have a row for each example"),
        ({"labels": LABELS[:9]}, "there are 10 inputs, and 9 labels: each has a row for each example"),
        ({"inputs": [IMAGES, IMAGES[:9]]}, "there are 10 inputs, and 9 inputs: each has"),
        ({"loss": lambda outputs, labels: outputs}, r"the loss is a single number.*and not of shape"),
        ({}, "no stage uses a variable that is trained"),
    ],
)
def test_what_is_no_pipeline_is_refused_and_leaves_nothing(graph, changes, said):
    given = {
        "stages": [("/cpu:0", nothing)], "inputs": IMAGES, "labels": LABELS, "micro_batches": 2,
        "loss": lambda outputs, labels: af.reduce_mean(outputs), **changes,
    }  # fmt: skip
    with pytest.raises(ValueError, match=said):
        af.train.pipeline(**given)
    assert graph.get_operations() == []


async def test_labels_that_are_not_as_many_as_the_inputs_are_an_error_of_the_step():
    model = pipelined(LOCAL, 4)
    async with af.Session(graph=model.graph, config=THREE) as session:
        await session.run(model.init)
        with pytest.raises(errors.InvalidArgumentError, match="inputs and labels have a row for each example"):
            await session.run(model.loss, {model.images: IMAGES, model.labels: LABELS[:9]})


async def test_a_loss_may_need_no_labels():
    def loss(outputs):
        return af.reduce_mean(af.square(outputs))

    several = af.train.pipeline([(place, layer(number)) for number, place in enumerate(LOCAL)], IMAGES, None, loss, 4)
    whole = loss(several.outputs[0])
    async with af.Session(config=THREE) as session:
        await session.run(af.global_variables_initializer())
        found, expected = await session.run([several.loss, whole])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


async def test_fewer_examples_than_micro_batches_are_an_error_of_the_step():
    model = pipelined(LOCAL, 4)
    async with af.Session(graph=model.graph, config=THREE) as session:
        await session.run(model.init)
        with pytest.raises(errors.InvalidArgumentError, match="fewer examples than the 4 micro-batches"):
            await session.run(model.loss, {model.images: IMAGES[:3], model.labels: LABELS[:3]})
