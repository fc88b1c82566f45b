"""Train a net to read handwritten digits in all processes that an engine has started: SLURM, Kubernetes, torchrun.

Each process is a task of the cluster that the engine's variables describe. One task, the `chief` or else the first
worker, also has the session, and asks all tasks to stop at the end. The tasks share the token AIOFLOW_TOKEN.
`examples/launch/` has the files for SLURM and Kubernetes. On one machine, run:

    AIOFLOW_TOKEN=$(openssl rand -hex 32) mpirun -n 3 python examples/engine_digits.py
"""

import argparse
import asyncio
import contextlib
from collections.abc import Sequence

from dask_digits import HOME, Model, build, train
from train_digits import add_loop_option, loop_factory

import aioflow as af
from aioflow import launch

WAITING = 300.0
"""Seconds that the other tasks may take to start, since an engine need not start all at the same time."""


async def main(epochs: int, host: str | None) -> None:
    """Run this process's task until it is asked to stop; the leading task also trains."""
    member = launch.resolve()
    async with af.train.Server(member.cluster, member.job, member.index, host=host) as server:
        print(f"{server.name} listens\n", end="", flush=True)  # in one write: the other tasks print there, too
        if (member.job, member.index) == chief(member.cluster):
            try:
                print(f"{await trained(server.target, member.cluster, epochs)}\n", end="", flush=True)
            finally:
                with contextlib.suppress(af.errors.UnavailableError):  # some tasks have ended already
                    await af.train.stop_servers(member.cluster)
        else:
            await server.join()


def chief(cluster: af.train.ClusterSpec) -> tuple[str, int]:
    """Return the task that has the session."""
    return ("chief", 0) if "chief" in cluster.jobs else ("worker", 0)


async def trained(target: str, cluster: af.train.ClusterSpec, epochs: int) -> str:
    """Train, and return the result."""
    model = build(cluster.num_tasks("worker"), HOME if "ps" in cluster.jobs else "/job:worker/task:0")
    async with af.Session(target, graph=model.graph) as session:
        await initialised(session, model)
        return await train(session, model, epochs)


async def initialised(session: af.Session, model: Model) -> None:
    """Wait until all tasks run and the variables are initialised."""
    async with asyncio.timeout(WAITING):
        while True:
            try:
                await session.run(model.init)
                return
            except af.errors.UnavailableError as error:
                print(f"waiting: {error.message}", flush=True)
                await asyncio.sleep(1)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs (default: %(default)s)")
    parser.add_argument("--host", help="the address to listen at, such as 0.0.0.0 (default: its own)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs, options.host))
