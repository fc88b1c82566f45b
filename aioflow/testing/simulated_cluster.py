"""A whole cluster in one process and one event loop; its servers are connected by a network in memory.

A test like this shows the outcome of a job when hosts crash, stop, or cannot reach each other:

    import asyncio

    import aioflow as af
    from aioflow.testing import Chaos, VirtualTimeLoop, cluster

    graph, limit = af.Graph(), af.RunOptions(timeout=3.0)
    with graph.as_default():
        with af.device("/job:ps/task:0"):
            weight = af.Variable(0.0)
        with af.device("/job:worker/task:1"):
            loss = af.square(weight - 3.0)
        train = af.train.GradientDescentOptimizer(0.1).minimize(loss)

    async def advance(session):
        try:
            return (await session.run([loss, train], options=limit))[0]
        except af.errors.FailedPreconditionError:  # at first, and after a restart of the parameter server
            await session.run(weight.initializer, options=limit)

    async def training(seed):
        async with cluster({"ps": 1, "worker": 2}, seed, chaos=Chaos(crashes=2.0)) as simulated:
            async with af.Session(simulated.target("worker", 0), graph=graph) as session:
                found = None
                while found is None or found > 1e-3:
                    try:
                        found = await advance(session)
                    except af.errors.OpError:  # a task is lost, and will restart
                        await asyncio.sleep(0.1)
                return found

    for seed in range(5):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            assert runner.run(training(seed)) <= 1e-3

On a virtual-time loop no real time passes. The same program with the same seed runs the same way every time, faults
included. Even the ids of sessions and incarnations come from the seed, so they are no secrets while a cluster is open.
If the block raises, the error has a note with the faults and their times.
"""

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from types import TracebackType
from typing import Any, Final, Self

from aioflow.config import Config
from aioflow.net.client.client import Address
from aioflow.net.cluster import ClusterSpec, Tasks
from aioflow.net.server import Server
from aioflow.net.transport.in_memory import MemoryNetwork, Path
from aioflow.net.transport.liveness import State
from aioflow.net.wire.identity import Settings
from aioflow.testing.chaos import QUIET, Chaos, Mishap, describe_frame, draw_mishaps, inject_faults
from aioflow.testing.hosts import Hosts, ids_drawn_from, on_host, tasks_in_order, work_in_no_time
from aioflow.testing.processors import Costs, Processor, Processors


class _SimulatedServer(Server):
    """A server whose runs take the time of the processor of its host, and whose leftovers a test can count."""

    processor: Processor | None = None

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        await super()._start(stack)
        if self.processor is not None:
            self._worker.on_run = functools.partial(self._charge, self.processor)

    def _charge(self, processor: Processor, nodes: int) -> None:
        processor.run_nodes(nodes, asyncio.get_running_loop().time())

    def held(self) -> list[str]:
        """Return a line for each kind of steps and sessions that it still has."""
        worker, master = self._worker, self._master
        found: dict[str, Sized] = {
            "steps": worker.step_table.open,
            "runs": worker._state.steps,
            "sessions as a worker": worker._sessions,
            "sessions as a master": master._sessions,
        }
        return [f"{self.name} has {len(things)} {what}" for what, things in found.items() if things]


class SimulatedCluster:
    """Servers by name, each on its own host, such as `worker1`.

    Attributes:
        spec: the cluster.
        network: their network; a test may cause faults in it.
        servers: {host: running server}.
        processors: the processors of the hosts; None if work takes no time.
        mishaps: the faults of hosts that the seed plans.
        story: the faults that occurred, line by line.
        began: when the cluster was entered, on the loop's clock; times of mishaps and of the story count from there.

    Examples:
        >>> from aioflow.testing import SimulatedCluster, VirtualTimeLoop
        >>> async def remote():
        ...     with af.Graph().as_default():
        ...         with af.device("/job:worker/task:1"):
        ...             y = af.constant(2) * 3
        ...         async with SimulatedCluster({"worker": 2}) as cluster:
        ...             async with af.Session(cluster.target("worker", 0)) as session:
        ...                 return await session.run(y)
        >>> def simulate():
        ...     with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        ...         return runner.run(remote())
        >>> await asyncio.to_thread(simulate)
        np.int32(6)
    """

    def __init__(
        self,
        spec: Mapping[str, int | Tasks] | ClusterSpec,
        seed: int | None = None,
        *,
        chaos: Chaos | None = None,
        clients: Sequence[str] = ("client",),
        latency: float = 0.0,
        bandwidth: float = math.inf,
        config: Config | None = None,
        settings: Settings | None = None,
        py_funcs: Mapping[str, Callable[..., Any]] | None = None,
        verbose: bool = False,
        costs: Costs | None = None,
    ) -> None:
        """Describe the cluster.

        Args:
            spec: number of tasks of each job, or the names of their hosts.
            seed: selects the faults and their times; None for no faults.
            chaos: the amount of faults.
            clients: the hosts of sessions, which faults may affect too. They do not crash by themselves.
            latency: seconds that each frame takes.
            bandwidth: bytes per second of each channel.
            config: configuration of the servers.
            settings: their connections to each other and to sessions; by default as `config` says.
            py_funcs: functions for `af.py_func` on the servers; `current_host()` names the server there.
            verbose: whether the story records each frame.
            costs: the processor time of frames and nodes on each host; by default they take none.
        """
        self.spec: Final = spec if isinstance(spec, ClusterSpec) else ClusterSpec(_with_host_names(spec))
        self.network: Final = MemoryNetwork(latency, bandwidth, self._prepare)
        self.servers: Final[dict[str, Server]] = {}
        self.story: Final[list[str]] = []
        self._seed: Final = seed
        self._chaos: Final = QUIET if seed is None else chaos or Chaos()
        self._tasks: Final = {
            self.spec.task_address(job, index): (job, index)
            for job in self.spec.jobs
            for index in self.spec.task_indices(job)
        }
        self._all_hosts: Final = (*self._tasks, *clients)
        self.mishaps: Final = () if seed is None else draw_mishaps(seed, self._chaos, tuple(self._tasks), clients)
        self._config: Final = config
        self._settings: Final = settings
        self._py_funcs: Final = py_funcs
        self._verbose: Final = verbose
        self.processors: Final = None if costs is None else Processors(costs)
        self._hosts: Final = Hosts()
        self._partitions: Final[list[Mishap]] = []
        self._starts: Final = dict.fromkeys(self._tasks, 0)
        self.began: float = 0.0
        self._mishap_task: asyncio.Task[None] | None = None
        self._determinism: Final = contextlib.ExitStack()

    # Its life

    async def __aenter__(self) -> Self:
        """Start all servers, and begin the faults."""
        self._determinism.enter_context(tasks_in_order())
        self._determinism.enter_context(ids_drawn_from(self._seed))
        self._determinism.enter_context(work_in_no_time())
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        try:
            for job, index in self._tasks.values():
                await self.start(job, index)
        except BaseException:
            await self.stop()
            raise
        if self.mishaps:
            self._mishap_task = loop.create_task(self._run_mishaps(), name="mishaps")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._seed is not None:
            error.add_note("\n".join([f"in a simulated cluster, seed {self._seed}:", *self.story]))
        await self.stop()

    async def stop(self) -> None:
        """End all faults, and stop all servers in order."""
        mishap_task, self._mishap_task = self._mishap_task, None
        try:
            if mishap_task is not None:
                mishap_task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await mishap_task
        finally:
            self._recover()
            while self.servers:
                _, server = self.servers.popitem()
                await server.stop()
            self._determinism.close()

    async def calm(self) -> None:
        """Wait until all faults are over, all servers run, and they can reach each other."""
        if self._mishap_task is not None:
            await asyncio.shield(self._mishap_task)
        await asyncio.sleep(self.began + self._chaos.seconds - asyncio.get_running_loop().time())

    # Its servers

    def target(self, job: str, index: int, client: str = "client") -> Address:
        """Return the target for `af.Session` with that task as master; `client` is the host of the session."""
        return Address(self.spec.task_address(job, index), lambda config: self.network.at(client), self._settings)

    async def start(self, job: str, index: int) -> Server:
        """Start or restart a server."""
        host = self.spec.task_address(job, index)
        server = _SimulatedServer(
            self.spec, job, index, self._config, network=self.network.at(host), settings=self._settings,
            py_funcs=self._py_funcs,
        )  # fmt: skip
        server.processor = None if self.processors is None else self.processors.of(host)
        with on_host(host):
            self.servers[host] = await server.__aenter__()
        self._starts[host] += 1
        return server

    def starts(self, host: str) -> int:
        """Return how often the server on that host was started."""
        return self._starts[host]

    async def crash(self, job: str, index: int, *, silent: bool = False) -> None:
        """Kill the process of a server: its peers learn only that their connections are lost.

        With `silent`, as after a power failure, they do not learn that either.
        """
        host = self.spec.task_address(job, index)
        self.network.crash(host, silent=silent)
        self.resume(host)
        with on_host(host):
            await self.servers.pop(host).stop()

    def pause(self, host: str) -> None:
        """Stop that host, like a process by SIGSTOP: it neither reads nor writes, and its timers fire late.

        A client's host consists of the code called inside `on_host` of that host.
        """
        self._hold(host, State.STOPPED)

    def block(self, host: str) -> None:
        """Block the loop of a host, like `time.sleep`. Its process lives, and its monitor reports that."""
        self._hold(host, State.BUSY)

    def _hold(self, host: str, state: State) -> None:
        self._hosts.pause(host)
        self.network.monitors.hold(host, state)

    def resume(self, host: str) -> None:
        """Let that host continue."""
        self.network.monitors.release(host)
        self._hosts.resume(host)

    def held(self) -> list[str]:
        """Return the steps and sessions of all servers: none, some seconds after the last session was closed."""
        return [
            line for server in self.servers.values() if isinstance(server, _SimulatedServer) for line in server.held()
        ]

    # Faults

    def _prepare(self, source: str, target: str, path: Path) -> None:
        name = f"{source} to {target}"
        if self.processors is not None:
            self.processors.prepare(source, target, path)
        if self._seed is not None:
            inject_faults(path, name, self._seed, self._chaos, self._is_active, self._record)
        if self._verbose:
            path.sent = lambda frame: self._record(f"{name}: {describe_frame(bytes(frame))}")

    def _is_active(self) -> bool:
        return asyncio.get_running_loop().time() < self.began + self._chaos.seconds

    def _record(self, text: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time() - self.began:10.6f} s  {text}")

    async def _run_mishaps(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for mishap in self.mishaps:
                    group.create_task(self._cause(mishap), name=str(mishap))
        finally:
            self._recover()

    async def _cause(self, mishap: Mishap) -> None:
        await asyncio.sleep(mishap.at)
        self._record(str(mishap))
        match mishap.kind:
            case "reset" | "half-open":
                self._break_connection(mishap)
            case "partition" | "one-way partition":
                self._partitions.append(mishap)
                self._apply_partitions()
                await asyncio.sleep(mishap.seconds)
                self._partitions.remove(mishap)
                self._apply_partitions()
            case "pause":
                self.pause(mishap.hosts[0])
                await asyncio.sleep(mishap.seconds)
                self.resume(mishap.hosts[0])
            case "block":
                self.block(mishap.hosts[0])
                await asyncio.sleep(mishap.seconds)
                self.resume(mishap.hosts[0])
            case _ if mishap.hosts[0] in self.servers:
                await self._crash_and_restart(mishap)

    async def _crash_and_restart(self, mishap: Mishap) -> None:
        """Crash a server, and restart it unless the test has done so meanwhile."""
        host, loop = mishap.hosts[0], asyncio.get_running_loop()
        end = loop.time() + mishap.seconds
        await self.crash(*self._tasks[host], silent=mishap.kind == "power failure")
        await asyncio.sleep(end - loop.time())
        if host not in self.servers:
            await self.start(*self._tasks[host])

    def _break_connection(self, mishap: Mishap) -> None:
        """Break one of the connections between two hosts, or one direction of it."""
        one, other = mishap.hosts
        channels = self.network.channels(one, other)
        if channels and mishap.kind == "reset":
            mishap.of(channels).lose()
        elif channels:
            mishap.of(channels).hang()

    def _apply_partitions(self) -> None:
        """Disconnect exactly those pairs of hosts that a current partition separates."""
        for one in self._all_hosts:
            for other in self._all_hosts:
                self.network.path(one, other).parted = any(
                    _separates(mishap, one, other) for mishap in self._partitions
                )
        self.network.wake()

    def _recover(self) -> None:
        self._partitions.clear()
        self._apply_partitions()
        for host in self._hosts.paused:
            self.resume(host)


def _separates(mishap: Mishap, source: str, target: str) -> bool:
    """Whether the partition keeps frames of `source` from `target`."""
    inside, outside = source in mishap.hosts, target not in mishap.hosts
    return inside is outside and (inside or mishap.kind == "partition")


def _with_host_names(spec: Mapping[str, int | Tasks]) -> dict[str, Tasks]:
    """Return the spec with names of hosts instead of numbers."""
    return {
        job: [f"{job}{index}" for index in range(tasks)] if isinstance(tasks, int) else tasks
        for job, tasks in spec.items()
    }


cluster = SimulatedCluster
