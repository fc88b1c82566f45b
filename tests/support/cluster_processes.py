"""Clusters of real processes on this machine, for tests that kill them, stop them, and ask what is left."""

import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aioflow.cli.worker import loop_factory
from aioflow.config import Config
from aioflow.graph.device_spec import DeviceSpec
from aioflow.net.cluster import ClusterSpec
from aioflow.net.peer.handshake import connect
from aioflow.net.peer.peer import Peer
from aioflow.net.transport.access import network_of_client
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.worker_verbs import GetStatus, Inspect, Status
from aioflow.net.worker.introspection import TaskReport
from aioflow.testing import no_pending_tasks
from tests.support.forked_worker import ForkedWorker

ROOT = Path(__file__).parents[2]
PS, FIRST, SECOND = (
    f"/job:{name}" for name in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
)
THREE = {"ps": 1, "worker": 2}
LONGEST = 120.0
"""Seconds after which a test counts as hanging, on a machine however slow, so that what fails says why."""
_Process = ForkedWorker | subprocess.Popen[str]
RUNNING = ("steps", "meetings")
"""What a worker counts that is of steps."""


def free_ports(count: int) -> list[int]:
    """Ports at which nobody listens, on any address of the loopback."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("0.0.0.0", 0))
        return [each.getsockname()[1] for each in sockets]


def addresses(jobs: Mapping[str, int]) -> dict[str, list[str]]:
    """Addresses of this machine for so many tasks of each job."""
    ports = iter(free_ports(sum(jobs.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}


def on_one_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that takes long, for it waits until others count as silent: it runs on the faster loop alone."""

    async def inner(arguments: Mapping[str, Any]) -> None:
        with no_pending_tasks():
            await test(**arguments)

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
            runner.run(inner(arguments))

    return run


class Processes:
    """Tasks of a cluster, each a process of `aioflow worker`, for the time of a block.

    At the end of the block those that live have to end by themselves, and none may have complained of anything.

    Attributes:
        spec: the cluster.
    """

    def __init__(
        self,
        cluster: Mapping[str, Any],
        *,
        without: Iterable[str] = (),
        options: Callable[[str], Sequence[str]] = lambda task: (),
        before: Callable[[str], Sequence[str]] = lambda task: (),
    ) -> None:
        """Describe it. Nothing runs yet.

        Args:
            cluster: the addresses of all tasks.
            without: tasks that are somewhere else.
            options: of the command, by the name of the task.
            before: what stands before the command, as what it is run by.
        """
        self.spec = ClusterSpec(cluster)
        self._absent = set(without)
        self._options = options
        self._before = before
        self._processes: dict[str, _Process] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="aioflow-")

    def __enter__(self) -> Self:
        (Path(self._folder.name) / "cluster.json").write_text(json.dumps(self.spec.as_dict()))
        try:
            self.revive()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.revive()
            for process in self._processes.values():
                process.terminate()
            ends = {task: process.wait(LONGEST) for task, process in self._processes.items()}
            complaints = {task: self._complaints(task).read_text() for task in ends}
        finally:
            self._end()
        if kind is None:
            assert not any(complaints.values()), "\n".join(complaints.values())
            assert not any(ends.values()), ends

    def _end(self) -> None:
        for task in list(self._processes):
            self.kill(task)
        self._folder.cleanup()

    def _complaints(self, task: str) -> Path:
        return Path(self._folder.name) / task[1:].replace("/", "-")

    # One task

    def revive(self) -> None:
        """All listen: those that were stopped go on, those that were killed restart."""
        started = []
        for task, _ in self.spec:
            process = self._processes.get(task)
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
            elif task not in self._absent:
                if process is not None:
                    self.kill(task)
                self._begin(task)
                started.append(task)
        for task in started:
            self._await(task)

    def _begin(self, task: str) -> None:
        spec = DeviceSpec.from_string(task)
        arguments = [
            "worker", "--cluster", f"{self._folder.name}/cluster.json", "--job", spec.job, "--task", str(spec.task),
            *self._options(task),
        ]  # fmt: skip
        self._processes[task] = self._started(arguments, self._complaints(task), self._before(task))

    def _started(self, arguments: list[str], complaints: Path, before: Sequence[str]) -> _Process:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        if not before:
            return ForkedWorker(arguments, stderr=complaints, folder=ROOT, environment=environment)
        with open(complaints, "ab") as stderr:
            return subprocess.Popen(
                [*before, sys.executable, "-W", "error", "-m", "aioflow", *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT, env=environment,
            )  # fmt: skip

    def _await(self, task: str) -> None:
        line = self._processes[task].stdout.readline()
        if not line.startswith(f"{task} listens"):
            raise RuntimeError(f"{task} does not listen: {line}{self._complaints(task).read_text()}")

    async def start(self, task: str) -> None:
        """It listens, as a new process. Who waits for that is not silent meanwhile."""
        self._begin(task)
        await asyncio.to_thread(self._await, task)

    def kill(self, task: str) -> None:
        """It is dead, without a word."""
        with self._processes.pop(task) as process:
            process.kill()

    def stop(self, task: str) -> None:
        """It does nothing any more, but its connections stay open."""
        self._processes[task].send_signal(signal.SIGSTOP)

    def go_on(self, task: str) -> None:
        """It does again."""
        self._processes[task].send_signal(signal.SIGCONT)

    def pid(self, task: str) -> int:
        """The number of its process."""
        return self._processes[task].pid

    def memory(self, task: str) -> int:
        """Bytes that it has in memory."""
        pages = Path(f"/proc/{self.pid(task)}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    # Asking

    def address(self, task: str) -> str:
        """Where it listens."""
        return dict(self.spec)[task]

    def target(self, task: str = FIRST) -> str:
        """What `af.Session` takes to have it as its master."""
        return f"ws://{self.address(task)}"

    @contextlib.asynccontextmanager
    async def asking(self, task: str) -> AsyncIterator[Peer]:
        """The task as a peer of a client's."""
        peer = await connect(network_of_client(Config(), secure=False), self.address(task), Identity(), target=task)
        try:
            yield peer
        finally:
            await peer.close()

    async def status(self, task: str) -> Status:
        """How it is."""
        async with self.asking(task) as peer:
            return await peer.request(GetStatus())

    async def waits(self, task: str) -> list[str]:
        """What its steps wait for, and application code on live queues, and what goes on though it was cancelled."""
        async with self.asking(task) as peer:
            report = TaskReport.unpack((await peer.request(Inspect())).report).report
        return [*map(str, report.waits), *map(str, report.application), *report.detached]

    async def left(self, *tasks: str, counters: Sequence[str] = (*RUNNING, "sessions")) -> dict[str, Any]:
        """What these tasks, or all, have of steps and sessions: nothing, if nobody uses them."""
        found: dict[str, Any] = {}
        for task in tasks or self._processes:
            counted = (await self.status(task)).counters
            found |= {f"{task} {name}": counted[name] for name in counters if counted[name]}
            if waits := await self.waits(task):
                found[f"{task} waits"] = waits
        return found

    async def nothing_runs(self, *tasks: str) -> float:
        """Return when these tasks, or all, have nothing of any step; the seconds that it took."""
        return await soon(lambda: self.left(*tasks, counters=RUNNING))

    async def nothing_left(self, *tasks: str) -> float:
        """The same, and no session either."""
        return await soon(lambda: self.left(*tasks))

    async def running(self, *tasks: str) -> None:
        """Return when each of these has something under way that waits."""

        async def idle() -> list[str]:
            return [task for task in tasks if not await self.waits(task)]

        await soon(idle)


async def soon(missing: Callable[[], Awaitable[Any]]) -> float:
    """Return when nothing is missing any more, after how many seconds. It is of other processes, which tell nobody."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    found: Any = "no answer"
    try:
        async with asyncio.timeout(LONGEST):
            while found := await missing():  # noqa: ASYNC110 - it asks other processes, which set no event here
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"after {LONGEST:g} s there is still {found}") from None
    return loop.time() - began
