"""Train a net to read handwritten digits on a Dask cluster: by default one on this machine.

The variables are on a parameter server. Every worker has its own copy of the net, which reads the variables, takes its
own batches, and updates the variables without waiting for the others. Needs `pip install aioflow-engine[dask]`.
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from data_parallel import logits_of, make_weights, total_loss
from train_digits import Digits, load_digits

import aioflow as af
from aioflow import launch

RATE = 0.1
HOME = "/job:ps/task:0"


class Replica(NamedTuple):
    """The placeholders and operations of one worker."""

    images: af.Tensor
    labels: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor
    train: af.Operation


class Model(NamedTuple):
    """A graph: the net of each worker, and the initialisation of their common variables."""

    graph: af.Graph
    replicas: list[Replica]
    init: af.Operation


def build(workers: int, home: str = HOME) -> Model:
    """Build the graph: variables on the parameter server, and a net on each worker."""
    graph = af.Graph()
    with graph.as_default():
        with af.device(home):
            weights = make_weights()
        replicas = []
        for number in range(workers):
            with af.device(f"/job:worker/task:{number}"), af.name_scope(f"worker{number}"):
                images = af.placeholder(af.float32, [None, 64], name="images")
                labels = af.placeholder(af.int32, [None], name="labels")
                loss = total_loss(weights, images, labels) / af.cast(af.size(labels), af.float32)
                read = af.argmax(logits_of(weights, images), axis=1, output_type=af.int32)
                accuracy = af.reduce_mean(af.cast(af.equal(read, labels), af.float32))
                train = af.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=[*weights])
                replicas.append(Replica(images, labels, loss, accuracy, train))
        return Model(graph, replicas, af.global_variables_initializer())


async def train(session: af.Session, model: Model, epochs: int) -> str:
    """Train on all workers at the same time, then test the net on the held-out images. Returns the result."""
    seen, unseen = load_digits()
    workers = len(model.replicas)
    async with asyncio.TaskGroup() as group:
        for number, replica in enumerate(model.replicas):
            share = Digits(seen.images[number::workers], seen.labels[number::workers])
            group.create_task(train_replica(session, replica, share, epochs, seed=number))
    first = model.replicas[0]
    accuracy = await session.run(first.accuracy, {first.images: unseen.images, first.labels: unseen.labels})
    return f"test accuracy of {workers} workers {accuracy:.3f}"


async def train_replica(session: af.Session, replica: Replica, digits: Digits, epochs: int, seed: int) -> None:
    """Train on one worker for `epochs` epochs of these digits."""
    step = session.make_callable(replica.train, feeds=[replica.images, replica.labels])
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        for images, labels in digits.batches(random):
            await step(images, labels)


@contextlib.asynccontextmanager
async def connected(scheduler: str | None, workers: int) -> AsyncIterator[Any]:
    """Yield a client of the Dask cluster there, or of a new one on this machine."""
    import distributed

    async with contextlib.AsyncExitStack() as stack:
        if scheduler is None:
            local = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, asynchronous=True
            )
            scheduler = (await stack.enter_async_context(local)).scheduler_address
        yield await stack.enter_async_context(distributed.Client(scheduler, asynchronous=True))


async def main(scheduler: str | None, workers: int, epochs: int) -> None:
    """Launch tasks on Dask's workers, and train."""
    model = build(workers)
    async with (
        connected(scheduler, workers) as client,
        launch.dask(client, workers=workers, ps=1) as cluster,
        af.Session(cluster.target, graph=model.graph) as session,
    ):
        await session.run(model.init)
        print(await train(session, model, epochs))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scheduler", help="address of a Dask scheduler (default: a cluster on this machine)")
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.workers < 1 or options.epochs < 1:
        parser.error("--workers and --epochs must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    asyncio.run(main(options.scheduler, options.workers, options.epochs))
