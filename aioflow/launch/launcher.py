"""Starts the tasks of a cluster on the workers of an engine, watches them during a block, and stops them.

The engine only places agents and carries messages to them. Tensors travel between tasks on aioflow's own wire.
"""

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.agent import STOPPING, Order, changed_settings
from aioflow.launch.functions import check_module
from aioflow.net.cluster import ClusterSpec, Member, task_name

if TYPE_CHECKING:
    from aioflow.net.client.client import Address
    from aioflow.net.transport.channel import Network

_log: Final = logging.getLogger("aioflow.launch")
RESTARTS: Final = 5
"""The default number of restarts of a task within ten minutes."""


class Place(Protocol):
    """An agent on a worker of an engine."""

    @property
    def name(self) -> str:
        """The engine's name of the worker."""

    @property
    def host(self) -> str:
        """The address of its machine, reachable from the other tasks."""

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """Call that method of the agent. Raises the engine's error if the worker is lost."""

    def release(self) -> None:
        """Let the engine remove the agent, and its task with it."""


class Engine(Protocol):
    """A system with workers."""

    async def place(self, count: int) -> Sequence[Place]:
        """Place `count` agents, spread over the workers. Waits until there is room for them."""


class Cluster:
    """The tasks of a launch during its block.

    Attributes:
        spec: all tasks, with their present addresses.
        target: the target for `af.Session`, with the first worker as the master. It holds the token of this launch, and
            its address changes if that worker restarts elsewhere.
    """

    def __init__(self, spec: ClusterSpec, target: "Address") -> None:
        self.spec: ClusterSpec = spec
        self.target: Final = target
        self._targets: Final[dict[str, Address]] = {}
        self._lost: Final[dict[str, str]] = {}
        self._statuses: Final[dict[str, int | None]] = {}
        self._restarts: Final[dict[str, int]] = {}
        self._changed: Final = asyncio.Event()
        self._moved: Final = asyncio.Event()

    @property
    def lost(self) -> Mapping[str, str]:
        """{name: cause} of the tasks that were lost for good."""
        return dict(self._lost)

    @property
    def statuses(self) -> Mapping[str, int | None]:
        """The exit status of each lost task: negative for a signal, None if it is unknown."""
        return dict(self._statuses)

    @property
    def restarts(self) -> Mapping[str, int]:
        """The number of restarts of each restarted task."""
        return dict(self._restarts)

    def target_of(self, job: str, index: int) -> "Address":
        """Return the target for `af.Session` with that task as the master. Its address changes if the task restarts."""
        from aioflow.net.client.client import Address

        name = task_name(job, index)
        if name not in self._targets:
            self._targets[name] = Address(self.spec.task_address(job, index), self.target.network_of)
        return self._targets[name]

    async def restarted(self, name: str, times: int = 1) -> None:
        """Wait until the task has restarted that many times and listens. Raises the errors of `watch`."""
        while self._restarts.get(name, 0) < times:
            if self._lost:
                await self.watch()
            self._moved.clear()
            await self._moved.wait()

    async def watch(self) -> None:
        """Wait until a task is lost for good. Raises UnavailableError with the names and causes."""
        await self._changed.wait()
        first = next(iter(self._lost))
        raise errors.UnavailableError("; ".join(f"{name}: {cause}" for name, cause in self._lost.items()), task=first)

    def lose(self, name: str, cause: str, status: int | None) -> None:
        """Record that the task is lost for good."""
        _log.warning("%s was lost: %s", name, cause)
        self._lost[name] = cause
        self._statuses[name] = status
        self._changed.set()
        self._moved.set()

    def move(self, name: str, address: str) -> None:
        """Record that the task has restarted at this address."""
        self.spec = self.spec.with_address(name, address)
        self._restarts[name] = self._restarts.get(name, 0) + 1
        self.target.address = self.spec.task_address("worker", 0)
        if name in self._targets:
            self._targets[name].address = address
        self._moved.set()

    @property
    def version(self) -> int:
        """The version of the addresses in `spec`."""
        return sum(self._restarts.values())

    def __repr__(self) -> str:
        count = sum(map(self.spec.num_tasks, self.spec.jobs))
        again = f", {self.version} restarts" if self._restarts else ""
        return f"<af.launch.Cluster of {count} tasks, {len(self._lost)} lost{again}>"


class Launch:
    """A cluster on an engine, for the time of a block.

    Entering the block returns when all tasks listen. Leaving it in any way stops all tasks. A task that dies inside the
    block restarts with a new incarnation and without its state, on the same worker of the engine or, if that is lost,
    on another one. The other tasks get its new address. A task that dies too often is lost.

    Entering raises UnavailableError if a task does not start, with the task and its worker, after stopping the others.

    Examples:
        >>> isinstance(af.launch.local(workers=2), af.launch.Launch)
        True
    """

    def __init__(
        self,
        engine: Engine,
        jobs: Mapping[str, int],
        config: Config | None,
        py_funcs: str | None = None,
        restarts: int = RESTARTS,
    ) -> None:
        """Describe the launch. Nothing runs yet.

        Args:
            engine: the engine that runs the tasks.
            jobs: {job: number of tasks}.
            config: configuration of the tasks. Its files and folders, such as certificates, are on their machines.
                The connections of sessions to the cluster have its settings, too, where a session has no others.
            py_funcs: the module, on their machines, whose functions `af.py_func` may name.
            restarts: the most restarts of each task within ten minutes; the delay before them doubles each time.

        Raises:
            TypeError: a part of the configuration cannot be sent to other processes.
            OpError: the session cannot use the token or the certificates, or `py_funcs` is no module name.
        """
        for job, count in jobs.items():
            if count < (job == "worker"):
                raise ValueError(f"a cluster cannot have {count} tasks of the job {job!r}")
        self._engine: Final = engine
        self._jobs: Final = {job: count for job, count in jobs.items() if count}
        if py_funcs is not None and not isinstance(py_funcs, str):
            raise TypeError(f"py_funcs must be the name of a module, which each task imports, not {py_funcs!r}")
        if py_funcs is not None:
            check_module(py_funcs)
        if type(restarts) is not int or restarts < 0:
            raise ValueError(f"restarts must be a whole number of at least 0, not {restarts!r}")
        self._restarts: Final = restarts
        config = config or Config()
        self._settings: Final = changed_settings(dataclasses.replace(config, token_file=None))
        self._secret: Final = _secret(config)
        self._network_of: Final = _network_of(config, self._secret)
        self._py_funcs: Final = py_funcs
        self._places: list[Place] = []
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Cluster:
        try:
            return await self._start()
        except BaseException:
            await self._stop()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> Cluster:
        if self._places:
            raise RuntimeError("a launch can be entered only once")
        self._places = list(await self._engine.place(sum(self._jobs.values())))
        addresses = await self._gather(*[self._call(place, "", "reserve", place.host) for place in self._places])
        rest = iter(addresses)
        spec = ClusterSpec({job: [next(rest) for _ in range(count)] for job, count in self._jobs.items()})
        cluster = Cluster(spec, self._target(spec))
        members = [Member(spec, job, index) for job, count in self._jobs.items() for index in range(count)]
        where = list(zip(members, self._places, strict=True))
        version = cluster.version
        await self._gather(*[self._call(place, m.name, "start", self._order(m, version)) for m, place in where])
        create = asyncio.get_running_loop().create_task
        self._watching = [
            create(self._keep(number, member, cluster), name=f"watch {member.name}")
            for number, member in enumerate(members)
        ]
        return cluster

    def _order(self, member: Member, version: int) -> Order:
        cluster = member.cluster.as_dict()
        return Order(cluster, member.job, member.index, self._settings, self._secret, self._py_funcs, version)

    # During the block

    async def _keep(self, number: int, member: Member, cluster: Cluster) -> None:
        """Watch a task, and restart it after each death, until it dies too often."""
        restarts, name = Restarts(self._restarts), member.name
        cause, status = await _end(self._places[number])
        while True:
            text = f"{cause}, on {self._places[number].name}"
            delay = None if status == 0 else restarts.delay(asyncio.get_running_loop().time())
            if delay is None:  # status 0 means that it was asked to stop
                cluster.lose(name, text, status)
                return
            _log.warning("%s died: %s; it restarts in %g s", name, text, delay)
            await asyncio.sleep(delay)
            try:
                await self._start_again(number, member, cluster)
            except errors.UnavailableError as error:
                cause, status = error.message, None
                continue
            _log.warning("%s is back at %s", name, dict(cluster.spec)[name])
            cause, status = await _end(self._places[number])

    async def _start_again(self, number: int, member: Member, cluster: Cluster) -> None:
        """Restart the task and send its address to the others. UnavailableError if it does not start."""
        name = member.name
        place, address = await self._reserve_again(number, name, cluster)
        spec = cluster.spec.with_address(name, address)
        order = self._order(Member(spec, member.job, member.index), cluster.version)
        await self._call(place, name, "start", order)
        cluster.move(name, address)
        book = cluster.spec.as_dict(), cluster.version
        await asyncio.gather(*[each.ask("move", *book) for each in self._places], return_exceptions=True)

    async def _reserve_again(self, number: int, name: str, cluster: Cluster) -> tuple[Place, str]:
        """Start the task's process on the same or another worker of the engine. Returns its place and address."""
        place, former = self._places[number], int(dict(cluster.spec)[name].rpartition(":")[2])
        with contextlib.suppress(errors.UnavailableError):
            return place, await self._call(place, name, "reserve", place.host, former)
        await _stop(place)
        place.release()
        (place,) = await self._engine.place(1)
        self._places[number] = place
        return place, await self._call(place, name, "reserve", place.host)

    def _target(self, spec: ClusterSpec) -> "Address":
        from aioflow.net.client.client import Address

        return Address(spec.task_address("worker", 0), self._network_of)

    async def _call(self, place: Place, task: str, method: str, *arguments: object) -> str:
        """Return the agent's answer. UnavailableError for a failure."""
        try:
            answer = await place.ask(method, *arguments)
        except Exception as error:
            answer = f"!{type(error).__name__}: {error}"
        if answer.startswith("!"):
            name = task or "a task"
            raise errors.UnavailableError(f"{name} did not start on {place.name}: {answer[1:]}", task=task or None)
        return answer

    async def _gather(self, *asked: Awaitable[str]) -> list[str]:
        """Return all answers. Raises the first error after all have answered."""
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if isinstance(answer, str)]

    async def _stop(self) -> None:
        """Stop all tasks. Gives up a worker that does not answer in time; its task ends with it."""
        try:
            for task in self._watching:
                task.cancel()
            if self._watching:
                await asyncio.wait(self._watching)
        finally:
            places, self._places = self._places, []  # taken now, since a restart may have replaced one
        try:
            await asyncio.gather(*[_stop(place) for place in places])
        finally:
            for place in places:
                place.release()


# Restarts


_WINDOW: Final = 600.0
"""Seconds after which a death no longer counts."""
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 30.0
"""Seconds before a restart: before the first one, and at most."""


class Restarts:
    """The deaths of one task. Each death within ten minutes doubles the delay of the next restart.

    Args:
        most: the most restarts within that time; 0 for none.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._deaths: Final[deque[float]] = deque()

    def delay(self, now: float) -> float | None:
        """Record a death at `now`, in seconds. Returns the delay before the restart; None if there is no restart."""
        while self._deaths and self._deaths[0] <= now - _WINDOW:
            self._deaths.popleft()
        if len(self._deaths) >= self._most:
            return None
        self._deaths.append(now)
        wait: float = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** (len(self._deaths) - 1))
        return wait


# Connections


def _secret(config: Config) -> str:
    """Return the token in the user's file, or else a new one."""
    from aioflow.net.transport.credentials import load_token

    token = None if config.token_file is None else load_token(config.token_file)
    return secrets.token_urlsafe(32) if token is None else token.header().removeprefix("Bearer ")


_CONNECTION: Final = ("busy_poll", "shared_memory", "ssl", "token_file")
"""Settings of connections. Those that a session sets replace those of the launch."""


def _network_of(config: Config, secret: str) -> "Callable[[Config], Network]":
    """Return the function from the configuration of a session to the network by which it reaches the tasks."""
    from aioflow.net.transport.access import network_of_client
    from aioflow.net.transport.credentials import Token

    default, secure, token = Config(), config.ssl is not None, Token(secret)
    of_launch = network_of_client(config, secure, token)

    def network(session: Config) -> "Network":
        own = {name: getattr(session, name) for name in _CONNECTION if getattr(session, name) != getattr(default, name)}
        if not own:
            return of_launch
        return network_of_client(dataclasses.replace(config, **own), secure, None if "token_file" in own else token)

    return network


async def _end(place: Place) -> tuple[str, int | None]:
    """Wait until the task ends. Returns the cause, and the exit status of its process if it is known."""
    cause = ""
    try:
        while not cause:
            cause = await place.ask("watch")
        status = await place.ask("status")
    except Exception as error:
        return f"{type(error).__name__}: {error}", None
    return cause, int(status) if status else None


async def _stop(place: Place) -> None:
    with contextlib.suppress(Exception):  # the worker is lost, which was reported, or the task ends with it
        async with asyncio.timeout(2 * STOPPING):
            if trouble := await place.ask("stop"):
                _log.warning("a task on %s: %s", place.name, trouble)
