"""The other tasks of a cluster, each dialled when first needed."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from aioflow import errors
from aioflow.net.peer.asked import Answered
from aioflow.net.peer.dial_liveness import DialLiveness
from aioflow.net.peer.handshake import connect
from aioflow.net.peer.peer import Peer
from aioflow.net.peer.reconnect import Loss
from aioflow.net.peer.serving import Handler
from aioflow.net.transport.channel import Network, NotListeningError
from aioflow.net.wire.failures import first_error
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.schema import Answer, Note, Request
from aioflow.net.wire.worker_verbs import GetStatus
from aioflow.runtime.activity import Connection
from aioflow.waiting.tasks import OwnedTasks, ignore_op_error, shared_result

A = TypeVar("A", bound=Answer)
R = TypeVar("R")
_LOOKS: Final = 0.25
"""Seconds between two checks, during a request, whether the peer is busy."""


class RequestTarget(Protocol):
    """A receiver of requests: a peer, or the task itself."""

    async def request(self, message: Request[A], *, deadline: float | None = None, trace: str = "") -> A:
        """The answer."""

    def ask_at_once(self, message: Request[A], answered: Answered) -> Callable[[], object] | None:
        """Send a request now, if it need not wait, and call `answered` with its answer or error."""

    def notify(self, message: Note) -> None:
        """Say something that is not answered. UnavailableError if it is lost."""

    @property
    def clock_offset(self) -> float:
        """By how many seconds its clock is ahead of this one's."""

    @property
    def task(self) -> str:
        """Its name."""

    @property
    def busy(self) -> str:
        """A text with how long its loop has been busy; empty if it turns, or is unknown."""


class BusyError(errors.UnavailableError):
    """The loop of the task does not turn, so it cannot answer now."""


async def request_unless_busy(peer: RequestTarget, message: Request[A], deadline: float | None) -> A:
    """The answer of a peer. BusyError, with the time, if its loop does not turn."""
    return await unless_busy(peer.request(message, deadline=deadline), lambda: peer.busy, peer.task)


async def unless_busy(work: Coroutine[Any, Any, R], busy: Callable[[], str], name: str) -> R:
    """The result of `work`. BusyError, in the name of the task, when `busy` has a text; then `work` is cancelled."""
    task = asyncio.get_running_loop().create_task(work, name="asks unless busy")
    try:
        while not (text := busy()):
            done, _ = await asyncio.wait((task,), timeout=_LOOKS)
            if done:
                return task.result()
        raise BusyError(f"it is {text}", task=name)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Peers:
    """The connected tasks of a task, with the task itself.

    A lost task is dialled again when it is needed. It may have restarted; then its incarnation differs.
    """

    def __init__(
        self, network: Network, local: Identity, addresses: Mapping[str, str], itself: RequestTarget, handler: Handler,
        settings: Settings,
    ) -> None:  # fmt: skip
        self._network: Final = network
        self._local: Final = local
        self._addresses: Final = addresses
        self._itself: Final = itself
        self._handler: Final = handler
        self._settings: Final = settings
        self._peers: Final[dict[str, Peer]] = {}
        self._dialling: Final[dict[str, asyncio.Task[Peer]]] = {}
        self._liveness: Final[dict[str, DialLiveness]] = {}
        """Of each task that is being dialled."""
        self._telling: Final = OwnedTasks()
        self._closed = False
        self.on_loss: Callable[[Peer, errors.OpError], None] | None = None
        """Called when a dialled task is lost."""

    async def of(self, task: str) -> RequestTarget:
        """Return the task of that name. UnavailableError if it cannot be reached, NotFoundError if it is unknown.

        While its connection is lost, this waits for it. If the peer is lost, this dials the task again.
        """
        if task == self._local.task:
            return self._itself
        peer = self._peers.get(task)
        if peer is not None and peer.interrupted:
            await peer.settled()
        if peer is not None and peer.end is None:
            return peer
        return await shared_result(self._dial(task), self._closing)

    async def of_unless_busy(self, task: str) -> RequestTarget:
        """The same, but BusyError if the task is being dialled, and its loop does not turn."""
        return await unless_busy(self.of(task), lambda: self.busy(task), task)

    def busy(self, task: str) -> str:
        """A text with how long the loop of a task that is being dialled has been busy; else empty."""
        liveness = self._liveness.get(task)
        return "" if liveness is None else liveness.busy

    def busy_dialled(self) -> dict[str, str]:
        """The tasks that are being dialled and whose loops do not turn, with how long they have been busy."""
        return {task: text for task in self._liveness if (text := self.busy(task))}

    def connected(self, task: str) -> RequestTarget | None:
        """Return the task of that name if it is connected, else None."""
        if task == self._local.task:
            return self._itself
        peer = self._peers.get(task)
        return peer if peer is not None and peer.end is None else None

    def reachable(self, task: str) -> RequestTarget | None:
        """Return the task of that name if it is connected and no connection to it is lost at present, else None."""
        peer = self._peers.get(task)
        if peer is None or task == self._local.task:
            return self.connected(task)
        return peer if peer.end is None and not peer.interrupted else None

    def connections(self) -> list[Connection]:
        """The tasks that are connected because this one has dialled them."""
        return [peer.connection for peer in self._peers.values() if peer.end is None]

    def is_own(self, task: str) -> bool:
        """Whether that is the task itself."""
        return task == self._local.task

    def by_host(self, tasks: Iterable[str]) -> list[list[str]]:
        """The tasks in groups: those of one host by their addresses, this task first, then in the cluster's order."""
        wanted, groups = set(tasks), dict[str, list[str]]()
        for task in sorted(self._addresses, key=lambda task: not self.is_own(task)):
            if task in wanted:
                host, _, port = self._addresses[task].rpartition(":")
                groups.setdefault(host or port, []).append(task)
        return list(groups.values())

    async def ask(self, task: str, request: Request[A], deadline: float | None = None, trace: str = "") -> A:
        """The answer of a task."""
        peer = await self.of(task)
        return await peer.request(request, deadline=deadline, trace=trace)

    def ask_at_once(self, task: str, request: Request[A], answered: Answered) -> Callable[[], object] | None:
        """Ask a connected task now, and call `answered` with the answer or the error, perhaps before this returns.

        Returns a function that cancels the request. Returns None, and asks nothing, if that takes an asyncio task.
        """
        peer = self.reachable(task)
        return None if peer is None else peer.ask_at_once(request, answered)

    async def ask_all(
        self, requests: Mapping[str, Request[A]], deadline: float | None = None, trace: str = ""
    ) -> dict[str, A]:
        """The answers of several tasks. The first error cancels the others."""
        if len(requests) == 1:
            ((task, request),) = requests.items()
            return {task: await self.ask(task, request, deadline, trace)}
        try:
            async with asyncio.TaskGroup() as group:
                asked = {
                    task: group.create_task(self.ask(task, request, deadline, trace))
                    for task, request in requests.items()
                }
        except BaseExceptionGroup as several:
            raise first_error(several) from None
        return {task: answer.result() for task, answer in asked.items()}

    async def notify_all(self, requests: Mapping[str, Any], seconds: float) -> None:
        """Send each connected task its request, and wait for the answers; errors are ignored.

        Busy tasks get the request when they listen again; this does not wait for them. It waits for the others at most
        that many seconds.
        """
        there = {task: peer for task in requests if (peer := self.connected(task)) is not None}
        asked = {self._ask(peer, requests[task]): peer for task, peer in there.items()}
        loop = asyncio.get_running_loop()
        limit = loop.time() + seconds
        while pending := [task for task, peer in asked.items() if not (task.done() or peer.busy)]:
            if loop.time() >= limit:
                break
            await asyncio.wait(pending, timeout=min(_LOOKS, limit - loop.time()))

    def _ask(self, peer: RequestTarget, message: Request[Any]) -> "asyncio.Task[Any]":
        task = self._telling.start(peer.request(message), f"tell {type(message).__name__}")
        task.add_done_callback(ignore_op_error)
        return task

    async def settled(self, tasks: Iterable[str]) -> None:
        """Return when every lost connection to these tasks is restored or given up."""
        for task in tasks:
            peer = self._peers.get(task)
            if peer is not None and peer.interrupted:
                await peer.settled()

    def _dial(self, task: str) -> "asyncio.Task[Peer]":
        """Dial a task. All requests for it wait for this one asyncio task, which outlives a cancelled one of them."""
        found = self._dialling.get(task)
        if found is None:
            found = self._dialling[task] = asyncio.get_running_loop().create_task(
                self._dialled(task), name=f"dial {task}"
            )
            found.add_done_callback(lambda done: self._ended(task, done))
        return found

    async def _dialled(self, task: str) -> Peer:
        if task not in self._addresses:
            raise errors.NotFoundError(f"the cluster has no {task}; it has {', '.join(self._addresses)}")
        if self._closed:
            raise self._closing()
        old = self._peers.pop(task, None)
        if old is not None:
            await old.close()
        address = self._addresses[task]
        liveness = self._liveness[task] = DialLiveness()
        try:
            peer = await connect(
                self._network, address, self._local, target=task, handler=self._handler, settings=self._settings,
                liveness=liveness,
            )  # fmt: skip
        except errors.OpError as error:
            error.message = f"{task} at {address}: {error.message}"
            error.task = error.task or task
            raise
        finally:
            del self._liveness[task]
        self._peers[task] = peer
        if self.on_loss is not None:
            peer.on_end = functools.partial(self.on_loss, peer)
        return peer

    def _closing(self) -> errors.CancelledError:
        return errors.CancelledError(f"{self._local.label} is closing")

    def drop_predecessors(self, remote: Identity) -> None:
        """That process of a task has begun, so the process before it has ended: the connection to that one is lost."""
        peer = self._peers.get(remote.task)
        if peer is not None and peer.remote.incarnation != remote.incarnation:
            peer.lose(Loss.ENDED, "it has restarted")

    async def has_ended(self, remote: Identity) -> bool:
        """Whether that process of a task has ended: no process listens there, or another one.

        It sends a request to the task, and waits for the answer or the final loss of the connection.
        """
        while True:
            try:
                peer = await self.of(remote.task)
            except errors.OpError as error:
                return isinstance(error.__cause__, NotListeningError)
            if not isinstance(peer, Peer) or peer.remote.incarnation != remote.incarnation:
                return True
            with contextlib.suppress(errors.OpError):
                await peer.request(GetStatus())
            if peer.end is None:
                return False

    def _ended(self, task: str, done: "asyncio.Task[Peer]") -> None:
        del self._dialling[task]
        if not done.cancelled():
            done.exception()  # all waiters may be cancelled

    async def close(self, text: str = "") -> None:
        """Say goodbye to all."""
        self._closed = True
        for task in list(self._dialling.values()):
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)
        await asyncio.gather(*[peer.close(text) for peer in self._peers.values()])
        await self._telling.stop()
        self._peers.clear()
