"""One of several replicas that train together, between-graph, each with its own monitored session.

A timer gives each computation the time that the plan says: so the cores of one machine suffice for all, and a replica
can be slow. `python -m benchmarks.replica` runs one replica as a process, which is also a worker of the cluster.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import peers
from benchmarks.cluster_processes import free_addresses, start, stop, task_options

SERVERS, WORKERS = 1, 4
SIZES = {"ps": SERVERS, "worker": WORKERS}
SLOWER = 5


Done = tuple[int, float]
"""The global step after each step in which a replica took part, and the time."""


@dataclass(frozen=True)
class Plan:
    """The training of the replicas.

    Attributes:
        required: number of gradients that make a step.
        steps: number of steps.
        seconds: duration of computing one gradient.
        drawn: after each `drawn` steps a random replica is drawn, whose next gradient takes `SLOWER` times as long; 0
            for never.
        dies: after this step the last replica is killed.
    """

    required: int = WORKERS
    steps: int = 100
    seconds: float = 0.05
    drawn: int = 0
    dies: int | None = None

    def pause(self, replica: int, step: int) -> float:
        """Return the seconds that the replica computes in that step."""
        slow = self.drawn and not step % self.drawn and replica == np.random.default_rng([1, step]).integers(WORKERS)
        return self.seconds * (SLOWER if slow else 1)

    def kills(self, replica: int, step: int) -> bool:
        """Whether that replica dies when it reaches that step."""
        return replica == WORKERS - 1 and self.dies is not None and step >= self.dies


async def compute(x: Any, seconds: Any) -> Any:
    """Return the function that replicas call as `compute`."""
    await asyncio.sleep(float(seconds))
    return x


class Replica:
    """A replica with its graph."""

    def __init__(self, task: int, plan: Plan) -> None:
        af = peers.aioflow()
        self.task, self.plan = task, plan
        place = af.train.replica_device_setter(
            ps_tasks=SERVERS, worker_device=f"/job:worker/task:{task}", merge_devices=True
        )
        with af.Graph().as_default() as self.graph, af.device(place):
            self.step = af.train.get_or_create_global_step()
            self.seconds = af.placeholder(af.float32, [])
            x = af.constant(np.random.default_rng(task).standard_normal([32, 64]).astype(np.float32))
            x = af.py_func("compute", [x, self.seconds], af.float32)
            x.set_shape([32, 64])
            for layer, width in enumerate((128, 10)):
                weights = af.get_variable(f"layer{layer}", [x.shape[1], width])
                x = af.nn.relu(af.matmul(x, weights))
            descent = af.train.GradientDescentOptimizer(0.01)
            self.opt = af.train.SyncReplicasOptimizer(descent, plan.required, WORKERS, task_index=task)
            self.train = self.opt.minimize(af.reduce_mean(af.square(x)), self.step)

    async def work(self, target: Any, clock: Callable[[], float]) -> list[Done]:
        """Train to the end. Returns the steps in which it took part; a process that dies is killed."""
        af = peers.aioflow()
        chief, at = self.task == 0, 0
        config = af.Config(device_filters=["/job:ps", f"/job:worker/task:{self.task}"])
        done: list[Done] = []
        with self.graph.as_default():
            session = af.train.MonitoredTrainingSession(
                target, chief, hooks=[self.opt.make_session_run_hook(chief)], log_step_count_steps=None, config=config
            )
        async with session:
            while at < self.plan.steps:
                feeds = {self.seconds: self.plan.pause(self.task, at)}
                at, _ = await session.run([self.opt.next_step, self.train], feeds)
                done.append((int(at), clock()))
                if self.plan.kills(self.task, at):
                    os.kill(os.getpid(), signal.SIGKILL)
        return done


async def together(plan: Plan) -> list[Done]:
    """Train with processes as planned. Returns the steps in which the chief took part."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ, {"AIOFLOW_TOKEN": secrets.token_urlsafe(32)}))
        file = folder / "cluster.json"
        file.write_text(json.dumps(free_addresses(SIZES)))
        await start(stack, [("aioflow", "worker", *task_options(file, "ps", task)) for task in range(SERVERS)])
        replicas = [await launched(stack, file, task, plan) for task in range(WORKERS)]
        output, _ = await replicas[0].communicate()
        for replica in replicas:
            await replica.wait()
        if replicas[0].returncode:
            raise RuntimeError(f"the chief ended with status {replicas[0].returncode}")
        return [(step, at) for step, at in json.loads(output)]


async def launched(stack: AsyncExitStack, file: Path, task: int, plan: Plan) -> asyncio.subprocess.Process:
    """Run that replica as a process until the stack is closed."""
    options = [*task_options(file, "worker", task), "--plan", json.dumps(asdict(plan))]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.replica", *options, stdout=subprocess.PIPE
    )
    stack.push_async_callback(stop, process)
    return process


async def replicate(cluster: Any, task: int, plan: Plan) -> None:
    """Run a worker and the replica of that number. The chief prints the steps in which it took part."""
    af = peers.aioflow()
    async with af.train.Server(cluster, "worker", task, py_funcs={"compute": compute}) as server:
        replica = Replica(task, plan)
        done = await replica.work(server.target, time.perf_counter)
        if task == 0:
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster")
    parser.add_argument("--task", type=int)
    parser.add_argument("--job")
    parser.add_argument("--plan", type=json.loads)
    options = parser.parse_args()
    asyncio.run(replicate(json.loads(Path(options.cluster).read_text()), options.task, Plan(**options.plan)))
