"""A cluster that lives as long as a block: its tasks are started, watched and stopped on the workers of an engine.

The engine only places agents and carries what is said to them. Tensors go from task to task on aioflow's own wire.
"""

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.agent import STOPPING
from aioflow.launch.functions import check_module
from aioflow.launch.order import Order, settings_of
from aioflow.net.cluster import ClusterSpec, Member

if TYPE_CHECKING:
    from aioflow.net.channel import Network
    from aioflow.net.client import Address

_log: Final = logging.getLogger(__name__)


class Place(Protocol):
    """An agent on a worker of an engine."""

    @property
    def name(self) -> str:
        """What the engine calls the worker."""

    @property
    def host(self) -> str:
        """The address of its machine, as others reach it."""

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """What that method of the agent returns. Raises what the engine raises if the worker is lost."""

    def release(self) -> None:
        """The agent is gone, and its task with it."""


class Engine(Protocol):
    """Something that has workers."""

    async def place(self, count: int) -> Sequence[Place]:
        """So many agents, spread over the workers. It waits until there is room for them."""


class Cluster:
    """The tasks of a launch, while its block lasts.

    Attributes:
        spec: all tasks, with their addresses.
        target: what `af.Session` takes to have the first worker as its master. It holds the token of this launch.
    """

    def __init__(self, spec: ClusterSpec, target: "Address") -> None:
        self.spec: Final = spec
        self.target: Final = target
        self._lost: Final[dict[str, str]] = {}
        self._changed: Final = asyncio.Event()

    @property
    def lost(self) -> Mapping[str, str]:
        """What is known of the tasks that were lost, by their names."""
        return dict(self._lost)

    async def watch(self) -> None:
        """Wait for as long as there is nothing to tell. UnavailableError names the tasks that were lost."""
        await self._changed.wait()
        first = next(iter(self._lost))
        raise errors.UnavailableError("; ".join(f"{name}: {cause}" for name, cause in self._lost.items()), task=first)

    def lose(self, name: str, cause: str) -> None:
        """That task is known to be gone."""
        _log.warning("%s was lost: %s", name, cause)
        self._lost[name] = cause
        self._changed.set()

    def __repr__(self) -> str:
        count = sum(map(self.spec.num_tasks, self.spec.jobs))
        return f"<af.launch.Cluster of {count} tasks, {len(self._lost)} lost>"


class Launch:
    """A cluster on an engine, for the time of a block.

    When the block is entered, all tasks listen. When it is left, however, all have stopped.

    Raises UnavailableError, when entered, if a task does not come up; it names the task and where it was to run, and
    then those that did have stopped.
    """

    def __init__(
        self, engine: Engine, jobs: Mapping[str, int], config: Config | None, py_funcs: str | None = None
    ) -> None:
        """Describe it. Nothing runs yet.

        Args:
            engine: where its tasks run.
            jobs: how many tasks each job has.
            config: how they work. What of it is a file or a folder, as certificates, is one of their machines.
            py_funcs: the module, on their machines, whose functions `af.py_func` may name.

        Raises:
            TypeError: something of that cannot be told to other processes.
            OpError: the session cannot use the token or the certificates, or `py_funcs` is no name of a module.
        """
        for job, count in jobs.items():
            if count < (job == "worker"):
                raise ValueError(f"a cluster cannot have {count} tasks of the job {job!r}")
        self._engine: Final = engine
        self._jobs: Final = {job: count for job, count in jobs.items() if count}
        if py_funcs is not None and not isinstance(py_funcs, str):
            raise TypeError(f"py_funcs is the name of a module, which each task imports, not {py_funcs!r}")
        if py_funcs is not None:
            check_module(py_funcs)
        config = config or Config()
        self._settings: Final = settings_of(dataclasses.replace(config, token_file=None))
        self._secret: Final = _secret(config)
        self._network: Final = _network(config, self._secret)
        self._py_funcs: Final = py_funcs
        self._places: Sequence[Place] = ()
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
            raise RuntimeError("a launch is entered once")
        self._places = await self._engine.place(sum(self._jobs.values()))
        addresses = await self._all(*[self._told(place, "", "reserve", place.host) for place in self._places])
        rest = iter(addresses)
        spec = ClusterSpec({job: [next(rest) for _ in range(count)] for job, count in self._jobs.items()})
        cluster = Cluster(spec, self._target(spec))
        members = [Member(spec, job, index) for job, count in self._jobs.items() for index in range(count)]
        where = list(zip(members, self._places, strict=True))
        await self._all(*[self._told(place, member.name, "start", self._order(member)) for member, place in where])
        create = asyncio.get_running_loop().create_task
        self._watching = [
            create(_watch(place, member.name, cluster), name=f"watch {member.name}") for member, place in where
        ]
        return cluster

    def _order(self, member: Member) -> Order:
        return Order(member.cluster.as_dict(), member.job, member.index, self._settings, self._secret, self._py_funcs)

    def _target(self, spec: ClusterSpec) -> "Address":
        from aioflow.net.client import Address

        return Address(spec.task_address("worker", 0), self._network)

    async def _told(self, place: Place, task: str, method: str, argument: object) -> str:
        """The agent's answer. UnavailableError if something went wrong."""
        try:
            answer = await place.ask(method, argument)
        except Exception as error:
            answer = f"!{type(error).__name__}: {error}"
        if answer.startswith("!"):
            name = task or "a task"
            raise errors.UnavailableError(f"{name} did not come up on {place.name}: {answer[1:]}", task=task or None)
        return answer

    async def _all(self, *asked: Awaitable[str]) -> list[str]:
        """All answers, or the first error when there are no more to come."""
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if isinstance(answer, str)]

    async def _stop(self) -> None:
        """Nothing runs any more. A worker that does not answer is given up after a while; its task ends with it."""
        places, self._places = self._places, ()
        try:
            for task in self._watching:
                task.cancel()
            if self._watching:
                await asyncio.wait(self._watching)
            await asyncio.gather(*[_stop(place) for place in places])
        finally:
            for place in places:
                place.release()


def _secret(config: Config) -> str:
    """The token that the user has in a file, or else a new one."""
    from aioflow.net.credentials import load_token

    token = None if config.token_file is None else load_token(config.token_file)
    return secrets.token_urlsafe(32) if token is None else token.header().removeprefix("Bearer ")


def _network(config: Config, secret: str) -> "Network":
    """How the session reaches the tasks."""
    from aioflow.net.access import network_of_client
    from aioflow.net.credentials import Token

    return network_of_client(config, config.ssl is not None, Token(secret))


async def _watch(place: Place, task: str, cluster: Cluster) -> None:
    """Ask again and again how the task is, until it is lost."""
    cause = ""
    while not cause:
        try:
            cause = await place.ask("watch")
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
    cluster.lose(task, f"{cause}, on {place.name}")


async def _stop(place: Place) -> None:
    with contextlib.suppress(Exception):  # it is lost, which was told, or its task ends with it
        async with asyncio.timeout(2 * STOPPING):
            if trouble := await place.ask("stop"):
                _log.warning("a task on %s: %s", place.name, trouble)


__all__ = ["Cluster", "Engine", "Launch", "Place"]
