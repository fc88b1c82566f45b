"""Train a net to read handwritten digits on a cluster: two parameter servers and two workers, all started here.

Each task is a process. Each worker builds the same graph, whose variables are on the parameter servers, and trains with
its share of the images at its own speed. TensorFlow calls this asynchronous between-graph replication. The first
worker, the chief, initialises the variables. At the end it tests the net on images that no worker has seen.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from train_digits import NOISE, Digits, add_loop_option, load_digits, loop_factory, net, steps_of

import aioflow as af

SIZES = {"ps": 2, "worker": 2}
WAITING = 60.0
"""Seconds that a task waits for the others, for example at the start."""
ENDING = 10.0
"""Seconds that the other tasks may take to end after one has failed."""


# One task


class Model(NamedTuple):
    """The tensors and operations of a worker. The workers share the variables and queues."""

    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    noise: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor
    step: af.Variable
    train: af.Operation
    init: af.Operation
    ready: af.FIFOQueue
    done: af.FIFOQueue


def build(cluster: af.train.ClusterSpec, task: int, steps: int) -> Model:
    """Build the graph of one worker: the variables alternate between parameter servers, the rest is on the worker."""
    graph = af.Graph()
    place = af.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{task}")
    with graph.as_default(), af.device(place):
        af.set_random_seed(1)
        images = af.placeholder(af.float32, [None, 64], name="images")
        labels = af.placeholder(af.int32, [None], name="labels")
        noise = af.placeholder_with_default(0.0, [], name="noise")
        logits = net(images, noise)
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        hits = af.equal(af.argmax(logits, axis=1, output_type=af.int32), labels)
        step = af.train.create_global_step()
        rate = af.train.polynomial_decay(0.2, step, steps, end_learning_rate=0.0)
        with af.device("/job:ps/task:0"):
            ready, done = [af.FIFOQueue(100, [af.bool], shapes=[[]], shared_name=name) for name in ("ready", "done")]
        return Model(
            graph=graph,
            images=images,
            labels=labels,
            noise=noise,
            loss=loss,
            accuracy=af.reduce_mean(af.cast(hits, af.float32)),
            step=step,
            train=af.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step),
            init=af.global_variables_initializer(),
            ready=ready,
            done=done,
        )


async def serve(cluster: af.train.ClusterSpec, task: int) -> None:
    """Run a parameter server until another task asks it to stop."""
    async with af.train.Server(cluster, "ps", task) as server:
        await server.join()


async def work(cluster: af.train.ClusterSpec, task: int, epochs: int) -> None:
    """Run a worker, which trains with a share of the images. The chief begins, and ends all tasks when all are done."""
    seen, unseen = load_digits()
    workers = cluster.num_tasks("worker")
    share = Digits(seen.images[task::workers], seen.labels[task::workers])
    model = build(cluster, task, workers * steps_of(share, epochs))
    others = [True] * (workers - 1)
    config = af.Config(operation_timeout=WAITING, device_filters=["/job:ps", f"/job:worker/task:{task}"])
    with model.graph.as_default():
        begin, wait, end = model.ready.enqueue_many([others]), model.ready.dequeue(), model.done.enqueue(True)
        ended = model.done.dequeue_many(len(others))
    async with (
        af.train.Server(cluster, "worker", task) as server,
        af.Session(server.target, graph=model.graph, config=config) as session,
    ):
        await session.run(wait if task else model.init)
        if not task:
            await session.run(begin)
        await train(session, model, share, epochs, task)
        await session.run(end if task else ended)
        if not task:
            accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
            print(f"test accuracy {accuracy:.3f}", flush=True)
    if not task:
        await af.train.stop_servers({"ps": cluster.job_tasks("ps")}, reason="the net is trained")


async def train(session: af.Session, model: Model, digits: Digits, epochs: int, task: int) -> None:
    """Train with these digits for `epochs` epochs, and print the progress of all workers now and then."""
    run_step = session.make_callable([model.loss, model.step, model.train], [model.images, model.labels, model.noise])
    random = np.random.default_rng(task)
    for epoch in range(epochs):
        for images, labels in digits.batches(random):
            loss, step, _ = await run_step(images, labels, NOISE)
        if (epoch + 1) * 4 // epochs > epoch * 4 // epochs:
            line = f"worker {task}: epoch {epoch + 1}/{epochs}, step {step} of all, loss {loss:.4f}\n"
            print(line, end="", flush=True)  # in one write: the other worker prints to the same place


# All tasks


async def launch(epochs: int, loop: str) -> None:
    """Start all tasks, and wait until they end. SystemExit names the first that fails; the others are stopped then."""
    launching = asyncio.current_task()
    assert launching is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, launching.cancel)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_text(json.dumps(free_addresses(SIZES)))
        environment = os.environ | {"AIOFLOW_TOKEN": secrets.token_urlsafe(32)}
        running = {}
        for job, size in SIZES.items():
            for task in range(size):
                options = [
                    f"--cluster={file}",
                    f"--job={job}",
                    f"--task={task}",
                    f"--epochs={epochs}",
                    f"--loop={loop}",
                ]
                process = await asyncio.create_subprocess_exec(
                    sys.executable, __file__, *options, env=environment, start_new_session=True
                )
                running[asyncio.create_task(process.wait(), name=f"{job} {task}")] = process
        try:
            await ended(running)
        finally:
            await end(running)


async def ended(running: Mapping["asyncio.Task[int]", asyncio.subprocess.Process]) -> None:
    """Wait until all processes have ended. SystemExit names one that failed."""
    for each in asyncio.as_completed(list(running)):
        await each
        failed = [task.get_name() for task in running if task.done() and task.result()]
        if failed:
            raise SystemExit(f"{failed[0]} failed")


async def end(running: Mapping["asyncio.Task[int]", asyncio.subprocess.Process]) -> None:
    """Stop all processes."""
    for stop in (asyncio.subprocess.Process.terminate, asyncio.subprocess.Process.kill):
        left = [task for task in running if not task.done()]
        for task in left:
            stop(running[task])
        if left:
            await asyncio.wait(left, timeout=ENDING)


def free_addresses(sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Return unused addresses of this machine."""
    with ExitStack() as stack:
        found = {}
        for job, size in sizes.items():
            sockets = [stack.enter_context(socket.socket()) for _ in range(size)]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            found[job] = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
        return found


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=40, help="number of epochs (default: %(default)s)")
    parser.add_argument("--cluster", metavar="FILE", help="run one task of the cluster in this file")
    parser.add_argument("--job", choices=list(SIZES), default="worker", help="the job of that task")
    parser.add_argument("--task", type=int, default=0, help="the number of that task")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    return options


async def main(options: argparse.Namespace) -> None:
    """Run one task, or start all of them."""
    if options.cluster is None:
        await launch(options.epochs, options.loop)
        return
    cluster = af.train.ClusterSpec.from_json(options.cluster)
    await (serve(cluster, options.task) if options.job == "ps" else work(cluster, options.task, options.epochs))


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options))
