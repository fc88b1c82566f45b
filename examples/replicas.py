"""Train a net to read handwritten digits by several workers, kill one on the way, and measure the cost.

All tasks are processes on this machine, started here. With `--mode async`, `sync` and `backup` the variables are on two
parameter servers, and each worker is a client with its own graph and a share of the images. In `async` every worker
applies its gradients as soon as it has them, unless they are too stale. In `sync` all workers train in step. `backup`
is like `sync`, but a step does not wait for the slowest worker. With `--mode allreduce` there are no parameter servers:
each worker has its own variables, the gradients travel around a ring, and one client runs the graph of all workers.

`--kill-one` kills a worker, `--kill-ps` a parameter server; another one starts in its place.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cluster_digits import free_addresses
from replica_training import Job, global_step, replica, ring, say, shared, train
from train_digits import add_loop_option, load_digits, loop_factory

import aioflow as af

PS = 2
ENDING = 10.0
"""Seconds that the other tasks may take to end after one has failed."""
LOOKING = 0.02
"""Seconds between two readings of the global step."""
MODES = ("async", "sync", "backup", "allreduce")


# One task


async def work(job: Job, task: int) -> None:
    """Run a worker. It is also a client, unless one client runs the graph of all workers."""
    async with af.train.Server(job.cluster, "worker", task, job.serving) as server:
        if job.mode == "allreduce":
            await server.join()
        else:
            await train(server.target, job, replica(job, task), task, f"worker {task}")


async def serve(job: Job, task: int) -> None:
    """Run a parameter server until a client asks it to stop."""
    async with af.train.Server(job.cluster, "ps", task, job.serving) as server:
        await server.join()


# All tasks


class TaskFailed(Exception):
    """A process has failed that was not killed on purpose."""


class Tasks:
    """The processes. A task of the group watches each of them; the first failure ends all."""

    def __init__(self, group: asyncio.TaskGroup, options: Sequence[str]) -> None:
        self._group = group
        self._command = [sys.executable, __file__, *options]
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str) -> None:
        """Start the process of a task, such as "worker 1"."""
        job, task = name.split()
        process = self._running[name] = await asyncio.create_subprocess_exec(
            *self._command, f"--job={job}", f"--task={task}", start_new_session=True
        )
        self._ends[name] = self._group.create_task(self._look_after(name, process))

    async def _look_after(self, name: str, process: asyncio.subprocess.Process) -> None:
        if await process.wait() and self._running.get(name) is process:
            raise TaskFailed(f"{name} failed")

    async def replace(self, name: str) -> None:
        """Kill the process and start another one in its place."""
        killed = self._running.pop(name)
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            killed.kill()
        await self.start(name)

    async def ended(self, *names: str) -> None:
        """Wait until these processes have ended by themselves."""
        await asyncio.wait([self._ends[name] for name in names])

    async def end(self) -> None:
        """Stop all processes."""
        processes, self._running = list(self._running.values()), {}
        for stop in (asyncio.subprocess.Process.terminate, asyncio.subprocess.Process.kill):
            left = [process for process in processes if process.returncode is None]
            for process in left:
                stop(process)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING):
                    for process in left:
                        await process.wait()


async def launch(options: argparse.Namespace) -> None:
    """Start all tasks, kill those that the options name, and test the trained net."""
    launching = asyncio.current_task()
    assert launching is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, launching.cancel)
    failures: list[BaseException] = []
    sizes = {"worker": options.workers} if options.mode == "allreduce" else {"ps": PS, "worker": options.workers}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cluster.json").write_text(json.dumps(free_addresses(sizes)))
        (Path(folder) / "token").touch(0o600)
        (Path(folder) / "token").write_text(secrets.token_urlsafe(32))
        job = Job.of(folder, options.mode, options.epochs)
        told = [f"--{name}={value}" for name, value in vars(options).items() if name in ("mode", "epochs", "loop")]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = Tasks(group, [f"--folder={folder}", *told])
                try:
                    await run(job, tasks, options)
                finally:
                    await tasks.end()
        except* TaskFailed as failed:
            failures += failed.exceptions
    if failures:
        raise SystemExit(str(failures[0]))


async def run(job: Job, tasks: Tasks, options: argparse.Namespace) -> None:
    """Run the tasks from start to end."""
    servers, clients = [f"ps {task}" for task in range(PS)], [f"worker {task}" for task in range(job.workers)]
    if job.mode == "allreduce":
        servers, clients = clients, ["client 0"]
    for name in (*servers, *clients):
        await tasks.start(name)
    victims = [
        *([f"worker {job.workers - 1}"] if options.kill_one else []),
        *([servers[-1]] if options.kill_ps else []),
    ]
    for number, name in enumerate(victims):
        step = await reached(job, job.steps * (number + 1) // (len(victims) + 1))
        say(f"{name} is killed at step {step}, and another is started in its place")
        await tasks.replace(name)
    await tasks.ended(*clients)
    accuracy = await tried(job)
    await af.train.stop_servers({job.home: job.cluster.job_tasks(job.home)}, job.config(), reason="the net is trained")
    await tasks.ended(*servers)
    say(f"test accuracy {accuracy:.3f}")


NOT_YET = (af.errors.UnavailableError, af.errors.AbortedError, af.errors.FailedPreconditionError)
"""The errors of a step while a task is missing, or while its variables have no values."""


async def reached(job: Job, step: int) -> int:
    """Wait until that many steps are done. Returns the number of done steps."""
    graph = af.Graph()
    with graph.as_default():
        done = global_step(job)
    async with af.Session(job.target, graph=graph, config=job.config(f"/job:{job.home}/task:0")) as session:
        while True:
            with contextlib.suppress(*NOT_YET):
                now = int(await session.run(done))
                if now >= step:
                    return now
            await asyncio.sleep(LOOKING)


async def tried(job: Job) -> float:
    """Return the accuracy of the net on the held-out images."""
    _, unseen = load_digits()
    graph = af.Graph()
    with graph.as_default(), af.name_scope("tower0" if job.mode == "allreduce" else None):
        trained = shared(job, f"/job:{job.home}/task:0")
    async with af.Session(job.target, graph=graph, config=job.config(f"/job:{job.home}")) as session:
        return float(await session.run(trained.accuracy, trained.feeds(unseen, noise=0.0)))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--mode", choices=MODES, default="sync", help="how workers train together (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=4, help="number of workers (default: %(default)s)")
    parser.add_argument("--kill-one", action="store_true", help="kill a worker on the way")
    parser.add_argument("--kill-ps", action="store_true", help="kill a parameter server on the way")
    parser.add_argument("--epochs", type=int, default=40, help="number of epochs (default: %(default)s)")
    parser.add_argument("--folder", help="run one task of the cluster in this folder")
    parser.add_argument("--job", choices=["ps", "worker", "client"], default="worker", help="the job of that task")
    parser.add_argument("--task", type=int, default=0, help="the number of that task")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    if options.workers < 2:
        parser.error("--workers must be at least 2: one may be killed, and is then missing")
    if options.kill_ps and options.mode == "allreduce":
        parser.error("--kill-ps: there are no parameter servers with --mode allreduce")
    return options


async def main(options: argparse.Namespace) -> None:
    """Run one task, or start all of them."""
    logging.basicConfig(level=logging.ERROR)  # the reports replace the warnings
    if options.folder is None:
        await launch(options)
        return
    job = Job.of(options.folder, options.mode, options.epochs)
    if options.job == "client":
        await train(job.target, job, ring(job), 0, "client")
    else:
        await (serve(job, options.task) if options.job == "ps" else work(job, options.task))


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options))
