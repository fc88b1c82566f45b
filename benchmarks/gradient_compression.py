"""Lossy compression of gradients in a ring of four workers: bytes on the wire, and the accuracy of the result.

The workers are processes and learn to read the digits of `examples/data`. The bytes are those of all values that one
worker sent to another in a step, from the step's trace.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aioflow as af
from benchmarks import peers
from benchmarks.cluster_processes import clusters
from benchmarks.report import Claim, Row

WORKERS, BATCH, EPOCHS, HIDDEN = 4, 32, 30, 128
FEWER = {"bfloat16": 1.99, "int8": 3.9, "top_k:0.01": 20.0}
"""Compression ratios to reach; shapes and scales take few bytes besides the elements."""
POINTS = 0.5
"""The most percentage points of accuracy that may be lost."""
DATA = Path(__file__).parents[1] / "examples" / "data" / "digits.npz"


class Digits(NamedTuple):
    images: Any
    labels: Any


class Model(NamedTuple):
    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    train: af.Operation
    accuracy: af.Tensor
    init: af.Operation


class Learned(NamedTuple):
    """The accuracy on the held-out digits, the bytes of a step, and its seconds."""

    accuracy: float
    sent: int
    seconds: float


async def rows() -> AsyncIterator[Row]:
    async with clusters({"worker": WORKERS}) as targets:
        whole = await learn(targets.of(peers.AIOFLOW), None)
        found = {codec: await learn(targets.of(peers.AIOFLOW), codec) for codec in FEWER}
    figures = {"as they are": figure(whole), **{codec: figure(learned) for codec, learned in found.items()}}
    claims = []
    for codec, learned in found.items():
        claims.append(Claim(f"{codec}: bytes fewer", whole.sent / learned.sent, FEWER[codec], at_least=True))
        lost = max(0.0, 100 * (whole.accuracy - learned.accuracy))
        claims.append(Claim(f"{codec}: digits read worse", lost, POINTS, unit=" points"))
    yield Row(f"gradients of {WORKERS} workers round a ring, digits, {EPOCHS} epochs", figures, claims)


def figure(learned: Learned) -> str:
    return f"{learned.sent:>8} bytes a step, accuracy {learned.accuracy:.4f}, {learned.seconds * 1e3:.1f} ms a step"


async def learn(target: str, codec: str | None) -> Learned:
    """Train on the cluster with gradients in that form."""
    seen, unseen = digits()
    model = build(codec, EPOCHS * math.ceil(len(seen.labels) / BATCH))
    random, loop = np.random.default_rng(1), asyncio.get_running_loop()
    async with af.Session(target, graph=model.graph) as session:
        await session.run(model.init)
        step, steps = session.make_callable(model.train, feeds=[model.images, model.labels]), 0
        begin = loop.time()
        for _ in range(EPOCHS):
            order = random.permutation(len(seen.labels))
            for chosen in np.array_split(order, math.ceil(len(order) / BATCH)):
                await step(seen.images[chosen], seen.labels[chosen])
                steps += 1
        seconds = (loop.time() - begin) / steps
        accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
        return Learned(float(accuracy), await sent(session, model, seen), seconds)


async def sent(session: af.Session, model: Model, seen: Digits) -> int:
    """Return the bytes sent between workers in a step; feeds come from the client."""
    metadata = af.RunMetadata()
    feeds = {model.images: seen.images[:BATCH], model.labels: seen.labels[:BATCH]}
    await session.run(model.train, feeds, af.RunOptions(trace=True), metadata)
    return sum(transfer.bytes for transfer in metadata.transfers)


def digits() -> tuple[Digits, Digits]:
    """Return four fifths of the digits for training, and the held-out fifth."""
    with np.load(DATA, allow_pickle=False) as file:
        images, labels = file["images"].astype(np.float32) / 16, file["labels"].astype(np.int32)
    unseen, seen = np.split(np.random.default_rng(0).permutation(len(labels)), [len(labels) // 5])
    return Digits(images[seen], labels[seen]), Digits(images[unseen], labels[unseen])


def build(codec: str | None, steps: int) -> Model:
    with af.Graph().as_default() as graph:
        images, labels = af.placeholder(af.float32, [None, 64]), af.placeholder(af.int32, [None])
        with af.device("/job:worker/task:0"):
            count = af.train.create_global_step()
            rate = af.train.polynomial_decay(0.1, count, steps, end_learning_rate=0.01)
        optimizer = af.train.MomentumOptimizer(rate, 0.9)
        towers = []
        for number in range(WORKERS):
            share = slice(number, None, WORKERS)
            with af.device(f"/job:worker/task:{number}"), af.variable_scope(f"tower{number}") as scope:
                loss = af.reduce_mean(
                    af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[share], logits=net(images[share]))
                )
                towers.append(optimizer.compute_gradients(loss, scope.trainable_variables()))
        reduced = af.train.all_reduce_gradients(towers, codec=codec)
        with af.device("/job:worker/task:0"), af.variable_scope("tower0", reuse=True):
            hits = af.equal(af.argmax(net(images), axis=1, output_type=af.int32), labels)
            accuracy = af.reduce_mean(af.cast(hits, af.float32))
        train = optimizer.apply_gradients([pair for pairs in reduced for pair in pairs], count)
        return Model(graph, images, labels, train, accuracy, af.global_variables_initializer())


def net(images: Any) -> Any:
    weights, zeros = af.glorot_uniform_initializer(seed=1), af.zeros_initializer()
    first = af.get_variable("w1", [64, HIDDEN], initializer=weights)
    hidden = af.nn.relu(af.matmul(images, first) + af.get_variable("b1", [HIDDEN], initializer=zeros))
    second = af.get_variable("w2", [HIDDEN, 10], initializer=weights)
    return af.matmul(hidden, second) + af.get_variable("b2", [10], initializer=zeros)
