"""A program as a careful user writes it: type checkers accept every line, and it runs."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple, assert_type

import numpy as np

import aioflow as af

SIZES = (4, 8, 3)
RANDOM = np.random.default_rng(1)


class Layer(NamedTuple):
    """A layer's variables."""

    weights: af.Variable
    bias: af.Variable


class Step(NamedTuple):
    """What a training step fetches, and what its run gives."""

    loss: object
    train: object


@dataclasses.dataclass(frozen=True)
class Report:
    """The same as a dataclass."""

    loss: Any
    accuracy: Any


@dataclasses.dataclass
class Model:
    """A graph, and what a program feeds and fetches."""

    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor
    train: af.Operation
    init: af.Operation
    queue: af.FIFOQueue
    layers: list[Layer]


def dense(x: af.Tensor, size: int, name: str) -> tuple[af.Tensor, Layer]:
    """A layer of `size` units."""
    inputs = x.shape[-1].value
    assert isinstance(inputs, int)
    with af.variable_scope(name):
        weights = af.get_variable("weights", [inputs, size], initializer=af.glorot_uniform_initializer(seed=2))
        bias = af.get_variable("bias", [size], af.float32, initializer=af.zeros_initializer())
    assert_type(weights, af.Variable)
    y = af.matmul(x, weights) + bias
    assert_type(y, af.Tensor)
    return y, Layer(weights, bias)


def build() -> Model:
    """The graph of a small classifier."""
    graph = af.Graph()
    with graph.as_default(), graph.device("/cpu:0"):
        images = af.placeholder(af.float32, [None, SIZES[0]], name="images")
        labels = af.placeholder("int32", [None], name="labels")
        hidden, first = dense(images, SIZES[1], "hidden")
        logits, second = dense(af.nn.relu(hidden), SIZES[2], "out")
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        right = af.equal(af.argmax(logits, 1, output_type=af.int32), labels)
        accuracy = af.reduce_mean(af.cast(right, np.float32))
        train = af.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = af.global_variables_initializer()
        queue = af.FIFOQueue(8, [af.float32], shapes=[[SIZES[0]]])
    assert_type(init, af.Operation)
    return Model(graph, images, labels, loss, accuracy, train, init, queue, [first, second])


def tripled(x: af.Tensor) -> af.Tensor:
    """Three times x."""
    return 3 * x


def arithmetic(x: af.Tensor, v: af.Variable) -> list[af.Tensor]:
    """Tensors, variables, arrays, numbers, lists and shapes go together."""
    row = np.ones(SIZES[0], np.float32)
    made = [
        x + 1,
        1.5 * x,
        x - row,
        row - x,
        x / [1.0, 2.0, 4.0, 8.0],
        -x,
        x**2,
        x @ v,
        x[:, 0],
        v[0],
        af.maximum(x, 0.0),
        af.concat([x, [row]], axis=0),
        af.stack([row, [1, 2, 3, 4]]),
        af.reshape(x, [-1]),
        af.reshape(x, af.shape(x)),
        af.tile(x, [1, np.int64(2)]),
        af.reduce_sum(x, axis=[0, 1], keepdims=True),
        af.reduce_sum(x, reduction_indices=0, keep_dims=True),
        af.where(x > 0, x, af.zeros_like(x)),
        af.add_n([x, x, x + row]),
        af.transpose(v),
        af.constant([[1, 2], [3, 4]], af.int64, shape=[2, 2]),
        af.zeros(x.get_shape()[1:]),
        af.random_normal([2, 3], stddev=0.5, seed=3),
        af.string_join(["a", "b"], separator="/"),
        af.linalg.norm(x),
        af.nn.dropout(x, rate=0.5),
        af.one_hot([0, 2], 3),
        af.image.resize_bilinear(np.zeros((1, 2, 2, 3)), [4, 4]),
        af.map_fn(tripled, x),
    ]
    values, places = af.nn.top_k(x, 2)
    assert_type(values, af.Tensor)
    unique, where = af.unique([1, 1, 2])
    return [*made, values, places, unique, where]


async def fetch(session: af.Session, model: Model) -> None:
    """Each structure of fetches has a result of its own type."""
    feeds = {model.images: RANDOM.normal(size=(5, SIZES[0])), model.labels: np.arange(5) % 3}
    assert_type(await session.run(model.init), None)
    loss = await session.run(model.loss, feeds)
    assert float(loss) > 0
    both = await session.run([model.loss, model.train], feeds)
    assert_type(both, list[Any])
    pair = await session.run((model.loss, model.accuracy), feeds)
    assert_type(pair, tuple[Any, ...])
    named = await session.run({"loss": model.loss, "train": model.train}, feeds)
    assert_type(named, dict[str, Any])
    step = await session.run(Step(model.loss, model.train), feeds)
    assert_type(step, Step)
    report = await session.run(Report(model.loss, model.accuracy), feeds, options=af.RunOptions(timeout=60))
    assert_type(report, Report)
    assert step.train is None
    assert 0 <= report.accuracy <= 1


async def call(session: af.Session, model: Model) -> float:
    """A callable gives what a run would."""
    step = session.make_callable([model.loss, model.train], feeds=[model.images, model.labels])
    assert_type(step, Callable[..., Awaitable[list[Any]]])
    images, labels = RANDOM.normal(size=(9, SIZES[0])).astype(np.float32), np.arange(9) % 3
    losses = [(await step(images, labels))[0] for _ in range(20)]
    init = session.make_callable(model.init)
    assert_type(await init(), None)
    return float(losses[0] - losses[-1])


async def queues(session: af.Session, model: Model) -> None:
    """A queue has a handle in the graph and a live object in the session."""
    live = session.queue(model.queue)
    await live.put(np.zeros(SIZES[0], np.float32))
    await live.put(np.ones(SIZES[0], np.float32))
    with model.graph.as_default():
        batch: af.Tensor = model.queue.dequeue_many(2)
        size = model.queue.size()
    assert_type(size, af.Tensor)
    assert (await session.run(batch)).shape == (2, SIZES[0])
    assert await session.run(size) == 0


async def streams(session: af.Session, model: Model) -> None:
    """Steps one after the other, as an iterator."""
    with model.graph.as_default():
        counter = af.Variable(0, trainable=False, name="counter")
        up = counter.assign_add(1)
        down = counter.assign_sub(1, read_value=False)
    assert_type(up, af.Tensor)
    assert_type(down, af.Operation)
    await session.run(counter.initializer)
    steps = session.stream([up])
    assert_type(steps, AsyncGenerator[list[Any], None])
    async for (value,) in steps:
        if value == 3:
            break
    await steps.aclose()
    await down.run()
    assert (await counter.eval()) >= 2


async def halved(number: Any) -> Any:
    """A function of an element."""
    return number / 2


async def datasets() -> None:
    """A pipeline, its position and its end."""
    dataset = af.data.Dataset.range(8).map(halved, num_parallel_calls=2).batch(3).prefetch(1)
    assert_type(dataset, af.data.Dataset)
    async with dataset.iterate() as batches:
        await anext(batches)
        state = batches.state()
    assert_type(state, dict[str, Any])
    assert [len(batch) async for batch in dataset.iterate(state)] == [3, 2]
    assert dataset.cardinality() == 3
    lines: af.data.Dataset = af.data.TextLineDataset(["a.txt"]).shuffle(10, seed=1)
    print(lines)


async def main() -> float:
    """All of it."""
    await datasets()
    model = build()
    with model.graph.as_default():
        made = arithmetic(model.images, model.layers[0].weights)
    async with af.Session(graph=model.graph, config=af.Config(operation_timeout=60)) as session:
        await fetch(session, model)
        await session.run(made[:5], {model.images: np.ones((2, SIZES[0]))})
        gained = await call(session, model)
        await queues(session, model)
        await streams(session, model)
        try:
            await session.run("images:0")
        except af.OpError as error:
            print(error.code, error.op, error.line)
    return gained


if __name__ == "__main__":
    print(asyncio.run(main()))
