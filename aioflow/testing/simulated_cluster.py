"""A whole cluster in one process and one loop: servers that reach each other over a network in memory.

What a job comes to when hosts crash, stop, and hear nothing of each other is seen in a test of its own:

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
        except af.errors.FailedPreconditionError:  # at first, and when the parameter server has restarted
            await session.run(weight.initializer, options=limit)

    async def training(seed):
        async with cluster({"ps": 1, "worker": 2}, seed, chaos=Chaos(crashes=2.0)) as simulated:
            async with af.Session(simulated.target("worker", 0), graph=graph) as session:
                found = None
                while found is None or found > 1e-3:
                    try:
                        found = await advance(session)
                    except af.errors.OpError:  # somebody is lost, and will come back
                        await asyncio.sleep(0.1)
                return found

    for seed in range(5):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            assert runner.run(training(seed)) <= 1e-3

On a virtual-time loop no time passes, and the same program with the same seed takes the same turns every time, faults
included; even the ids of sessions and incarnations are drawn from the seed, so they are no secrets while a cluster is
open. If the block raises, the error has a note that says what went wrong in the cluster, and when.
"""

import asyncio
import contextlib
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
from aioflow.testing.chaos import QUIET, Chaos, Mishap, afflict, drawn, verb_of
from aioflow.testing.hosts import Hosts, ids_drawn_from, on_host, tasks_in_order
from aioflow.waiting.time_slice import Slice


class _Unhurried(Slice):
    """A slice of time that is never used up: computing takes no time in a simulation."""

    def begin(self) -> float:
        return math.inf

    def used_up(self) -> bool:
        return False


class _SimulatedServer(Server):
    """A server whose turns do not depend on how fast the machine is."""

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        await super()._start(stack)
        self._worker._state.slice = _Unhurried()

    def held(self) -> list[str]:
        """What it has of steps and sessions."""
        worker, master = self._worker, self._master
        found: dict[str, Sized] = {
            "steps": worker.step_table.open,
            "runs": worker._state.steps,
            "sessions as a worker": worker._sessions,
            "sessions as a master": master._sessions,
        }
        return [f"{self.name} has {len(things)} {what}" for what, things in found.items() if things]


class SimulatedCluster:
    """Servers by name, each on a host of its own, called like `worker1`.

    Attributes:
        spec: the cluster.
        network: how they reach each other; faults between hosts are for the test to cause, too.
        servers: those that run, by host.
        mishaps: what the seed lets happen to hosts, and when.
        story: what did happen, line by line.
        began: when it was entered, on the loop's clock: times of mishaps and of the story count from there.
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
    ) -> None:
        """Describe it.

        Args:
            spec: how many tasks each job has, or the names of their hosts.
            seed: which mishaps happen, and when; None for none.
            chaos: how many.
            clients: the hosts of sessions, to which something may happen, too. They do not crash by themselves.
            latency: seconds that each frame takes.
            bandwidth: bytes a second, of each channel.
            config: how the servers work.
            settings: how they treat each other, and sessions them; as their Config says by default.
            py_funcs: what `af.py_func` may call on them; `current_host()` says there on which.
            verbose: whether the story has each frame.
        """
        self.spec: Final = spec if isinstance(spec, ClusterSpec) else ClusterSpec(_named(spec))
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
        self._everybody: Final = (*self._tasks, *clients)
        self.mishaps: Final = () if seed is None else drawn(seed, self._chaos, tuple(self._tasks), clients)
        self._config: Final = config
        self._settings: Final = settings
        self._py_funcs: Final = py_funcs
        self._verbose: Final = verbose
        self._hosts: Final = Hosts()
        self._parted: Final[list[Mishap]] = []
        self._starts: Final = dict.fromkeys(self._tasks, 0)
        self.began: float = 0.0
        self._happening: asyncio.Task[None] | None = None
        self._same_again: Final = contextlib.ExitStack()

    # Its life

    async def __aenter__(self) -> Self:
        """All servers listen, and mishaps begin."""
        self._same_again.enter_context(tasks_in_order())
        self._same_again.enter_context(ids_drawn_from(self._seed))
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        try:
            for job, index in self._tasks.values():
                await self.start(job, index)
        except BaseException:
            await self.stop()
            raise
        if self.mishaps:
            self._happening = loop.create_task(self._happen(), name="mishaps")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._seed is not None:
            error.add_note("\n".join([f"in a simulated cluster, seed {self._seed}:", *self.story]))
        await self.stop()

    async def stop(self) -> None:
        """Whatever is wrong ends, and all servers stop, in order."""
        happening, self._happening = self._happening, None
        try:
            if happening is not None:
                happening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await happening
        finally:
            self._recover()
            while self.servers:
                _, server = self.servers.popitem()
                await server.stop()
            self._same_again.close()

    async def calm(self) -> None:
        """Return when no more mishaps will come, and what can be mended is: all servers run, and hear each other."""
        if self._happening is not None:
            await asyncio.shield(self._happening)
        await asyncio.sleep(self.began + self._chaos.seconds - asyncio.get_running_loop().time())

    # Its servers

    def target(self, job: str, index: int, client: str = "client") -> Address:
        """What `af.Session` takes to have that task as its master; `client` is the host of the session."""
        return Address(self.spec.task_address(job, index), self.network.at(client), self._settings)

    async def start(self, job: str, index: int) -> Server:
        """Start a server, or start it anew."""
        host = self.spec.task_address(job, index)
        server = _SimulatedServer(
            self.spec, job, index, self._config, network=self.network.at(host), settings=self._settings,
            py_funcs=self._py_funcs,
        )  # fmt: skip
        with on_host(host):
            self.servers[host] = await server.__aenter__()
        self._starts[host] += 1
        return server

    def starts(self, host: str) -> int:
        """How often the server on that host was started."""
        return self._starts[host]

    async def crash(self, job: str, index: int, *, silent: bool = False) -> None:
        """Its process is killed: nobody hears a word of it, but that its connections are lost.

        If it is `silent`, as when its power fails, not even that.
        """
        host = self.spec.task_address(job, index)
        self.network.crash(host, silent=silent)
        self.resume(host)
        with on_host(host):
            await self.servers.pop(host).stop()

    def pause(self, host: str) -> None:
        """That host stops, as a process by SIGSTOP: it neither reads nor writes, and its timers come too late.

        Of a client's host is what is called inside `on_host` of that host.
        """
        self._hold(host, State.STOPPED)

    def block(self, host: str) -> None:
        """Block the loop of a host, like `time.sleep`. Its process lives, and its monitor reports that."""
        self._hold(host, State.BUSY)

    def _hold(self, host: str, state: State) -> None:
        self._hosts.pause(host)
        self.network.monitors.hold(host, state)

    def resume(self, host: str) -> None:
        """It goes on."""
        self.network.monitors.release(host)
        self._hosts.resume(host)

    def held(self) -> list[str]:
        """What the servers that run have of steps and sessions: nothing, some seconds after the last session closed."""
        return [
            line for server in self.servers.values() if isinstance(server, _SimulatedServer) for line in server.held()
        ]

    # What goes wrong

    def _prepare(self, source: str, target: str, path: Path) -> None:
        name = f"{source} to {target}"
        if self._seed is not None:
            afflict(path, name, self._seed, self._chaos, self._rages, self._tell)
        if self._verbose:
            path.sent = lambda frame: self._tell(f"{name}: {verb_of(bytes(frame))}")

    def _rages(self) -> bool:
        return asyncio.get_running_loop().time() < self.began + self._chaos.seconds

    def _tell(self, text: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time() - self.began:10.6f} s  {text}")

    async def _happen(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for mishap in self.mishaps:
                    group.create_task(self._befall(mishap), name=str(mishap))
        finally:
            self._recover()

    async def _befall(self, mishap: Mishap) -> None:
        await asyncio.sleep(mishap.at)
        self._tell(str(mishap))
        match mishap.kind:
            case "reset" | "half-open":
                self._strike(mishap)
            case "partition" | "one-way partition":
                self._parted.append(mishap)
                self._part()
                await asyncio.sleep(mishap.seconds)
                self._parted.remove(mishap)
                self._part()
            case "pause":
                self.pause(mishap.hosts[0])
                await asyncio.sleep(mishap.seconds)
                self.resume(mishap.hosts[0])
            case "block":
                self.block(mishap.hosts[0])
                await asyncio.sleep(mishap.seconds)
                self.resume(mishap.hosts[0])
            case _ if mishap.hosts[0] in self.servers:
                await self._die(mishap)

    async def _die(self, mishap: Mishap) -> None:
        """A server crashes, and starts anew, unless somebody else has started it meanwhile."""
        host, loop = mishap.hosts[0], asyncio.get_running_loop()
        end = loop.time() + mishap.seconds
        await self.crash(*self._tasks[host], silent=mishap.kind == "power failure")
        await asyncio.sleep(end - loop.time())
        if host not in self.servers:
            await self.start(*self._tasks[host])

    def _strike(self, mishap: Mishap) -> None:
        """One of the connections between two hosts is lost, or half of it."""
        one, other = mishap.hosts
        channels = self.network.channels(one, other)
        if channels and mishap.kind == "reset":
            mishap.of(channels).lose()
        elif channels:
            mishap.of(channels).hang()

    def _part(self) -> None:
        """Parted is who is by any of the partitions that last."""
        for one in self._everybody:
            for other in self._everybody:
                self.network.path(one, other).parted = any(_parts(mishap, one, other) for mishap in self._parted)
        self.network.wake()

    def _recover(self) -> None:
        self._parted.clear()
        self._part()
        for host in self._hosts.paused:
            self.resume(host)


def _parts(mishap: Mishap, source: str, target: str) -> bool:
    """Whether what the one sends does not arrive at the other."""
    inside, outside = source in mishap.hosts, target not in mishap.hosts
    return inside is outside and (inside or mishap.kind == "partition")


def _named(spec: Mapping[str, int | Tasks]) -> dict[str, Tasks]:
    """With the names of hosts where only their number is given."""
    return {
        job: [f"{job}{index}" for index in range(tasks)] if isinstance(tasks, int) else tasks
        for job, tasks in spec.items()
    }


cluster = SimulatedCluster
