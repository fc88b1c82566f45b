"""The rendezvous of a step over several tasks: a value stays with the sender's task until the receiver requests it.

A receiver asks the sender's task when it begins to wait, perhaps before the step has begun there, and waits in its own
table for the answer. So a cancelled receiver gives up only its place in that table, and the end of the step ends all
requests. Values that the plan knows to be of moderate size are pushed without a request, all values of one turn of the
loop together, and wait in the receiver's table. If the connection of such a push is lost, the sender ends the step.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.devices.device import AnyDevice
from aioflow.devices.transfer import Transfer, receive
from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.peer.peer import Peer
from aioflow.net.wire.limits import INLINE
from aioflow.net.wire.worker_verbs import MOST_KEYS, PushTensors
from aioflow.rendezvous import Edge, Key, LocalRendezvous, Waiting, number_of
from aioflow.resources.lendable import MOVED
from aioflow.tensors.dtypes import Array
from aioflow.tensors.received_memory import made_read_only
from aioflow.waiting.tasks import OwnedTasks

Ask = Callable[[str, Sequence[Key]], Awaitable[Mapping[int, Any]]]
"""Returns values of keys of one device of another task, by their positions: at least one of them."""


class TaskOutbox(Protocol):
    """The values that are pushed to one task."""

    def put(self, key: Key, value: Any) -> None:
        """Add a value."""

    def has_used(self, peer: object) -> bool:
        """Whether it has pushed a value over the connection to that peer."""

    def flush(self) -> None:
        """Send the values now."""

    def cancel(self) -> None:
        """Discard the values that are not sent yet."""


Open = Callable[[str], TaskOutbox]
"""Makes the outbox of a task."""


class RemoteRendezvous:
    """The rendezvous of a step in one task. Requests of other tasks take values from `here`.

    Attributes:
        here: the table of values that this task sends.
        last_sent: for each edge the iteration of the last value sent.
    """

    def __init__(self, task: str, ask: Ask, outbox_to: Open | None = None) -> None:
        """Start empty.

        Args:
            task: the name of this task.
            ask: requests values from another task.
            outbox_to: makes the outbox of a task; None if tasks push no values.
        """
        self.here: Final = LocalRendezvous()
        self.last_sent: Final[dict[int, tuple[int, ...]]] = {}
        self._task: Final = task
        self._ask: Final = ask
        self._outbox_to: Final = outbox_to
        self._outboxes: Final[dict[str, TaskOutbox]] = {}
        self._arrived: Final = LocalRendezvous()
        self._wanted: Final[dict[int, list[Key]]] = {}
        """The keys to request in the next turn of the loop, by the incarnation of the sending device."""
        self._asking: Final = OwnedTasks()
        self._spare: Final[dict[Key, int]] = {}
        """The number of requested values without a waiter."""

    def send(self, key: Key, value: Any) -> None:
        """Make a value available to its receiver, in this task or another. Never waits."""
        self.last_sent[key.edge] = key.iteration
        task = key.edge.receiver
        if not key.edge.pushed or task == self._task or self._outbox_to is None:
            self.here.send(key, value)
            return
        self.here.check()
        line = self._outboxes.get(task)
        if line is None:
            line = self._outboxes[task] = self._outbox_to(task)
        line.put(key, value)

    @property
    def pushed_to(self) -> list[str]:
        """The tasks to which values were pushed."""
        return list(self._outboxes)

    def has_pushed_to(self, peer: object) -> bool:
        """Whether a value was pushed over the connection to that peer."""
        return any(line.has_used(peer) for line in self._outboxes.values())

    def flush(self) -> None:
        """Push the values now that would leave when the loop turns."""
        for line in self._outboxes.values():
            line.flush()

    def arrive(self, keys: Iterable[Key], values: Iterable[Any]) -> None:
        """Accept pushed values. A failed step ignores them."""
        arrived = self._arrived
        if not arrived.ended:
            for key, value in zip(keys, values, strict=True):
                arrived.send(key, Transfer(made_read_only(value), foreign=True))

    @property
    def pushed_here(self) -> Iterator[Transfer]:
        """The values from other tasks that no receiver has taken."""
        return self._arrived.values

    async def recv(self, key: Key) -> Any:
        """Return the next value of that key, as soon as it is here."""
        edge = key.edge
        if edge.sender == self._task:
            return await self.here.recv(key)
        if edge.pushed and self._outbox_to is not None:
            return await self._arrived.recv(key)
        self._arrived.check()
        spare = self._spare.get(key, 0)
        if spare > 0:
            self._spare[key] = spare - 1
        else:
            self._fetch(key)
        try:
            return await self._arrived.recv(key)
        except asyncio.CancelledError:
            self._spare[key] = self._spare.get(key, 0) + 1
            raise

    def _fetch(self, key: Key) -> None:
        """Request a value. If the edge allows it, all keys of one turn of the loop share a request to their device."""
        if not key.edge.together:
            self._begin([key])
            return
        source = key.edge.incarnation
        wanted = self._wanted.setdefault(source, [])
        if not wanted:
            asyncio.get_running_loop().call_soon(self._fetch_from, source)
        wanted.append(key)

    def _fetch_from(self, source: int) -> None:
        wanted = self._wanted.pop(source, [])  # empty if the step has ended since
        for start in range(0, len(wanted), MOST_KEYS):
            self._begin(wanted[start : start + MOST_KEYS])

    def _begin(self, keys: list[Key]) -> None:
        self._asking.start(self._fetched(keys), "receiving values")

    async def _fetched(self, keys: list[Key]) -> None:
        """Request values of one device until all have come."""
        try:
            while keys:
                values = await self._ask(keys[0].edge.sender, keys)
                for place, value in values.items():
                    self._arrived.send(keys[place], value)
                keys = [key for place, key in enumerate(keys) if place not in values]
        except errors.OpError as error:
            self.abort(error)

    def abort(self, error: errors.OpError) -> None:
        """Fail all present and later waiters with that error, unless the step has failed before."""
        self.here.abort(error)
        self._arrived.abort(error)
        self._stop()

    def _stop(self) -> None:
        """Stop all requests and pushes."""
        self._wanted.clear()
        self._asking.cancel()
        for line in self._outboxes.values():
            line.cancel()

    def close(self) -> tuple[Key, ...]:
        """The same with a CancelledError. Returns the keys with values that no receiver took."""
        left = self.here.close() + self._arrived.close()
        self._stop()
        return left

    async def settled(self) -> None:
        """Return when no request is waiting."""
        await self._asking.ended()

    @property
    def waiting(self) -> list[Waiting]:
        """All waiters of this task, for values of this task and of others."""
        own = [waiting for waiting in self.here.waiting if isinstance(waiting.key.edge, Edge)]
        return own + self._arrived.waiting

    @property
    def unreceived(self) -> int:
        """The number of sent values that no receiver took."""
        return self.here.unreceived + self._arrived.unreceived


def numbers_of(key: Key) -> tuple[int, ...]:
    """A key in a message that has the incarnation of the sending device: the number of its edge, then iterations."""
    return key.edge.number, *key.iteration


def keys_of(incarnation: int, keys: Iterable[tuple[int, ...]]) -> list[Key]:
    """The keys of these numbers, as `numbers_of` has made them on another task."""
    source = number_of(incarnation, 0)
    return [tuple.__new__(Key, (source | numbers[0], numbers[1:])) for numbers in keys]


Connected = Callable[[], Any]
"""Returns the connection to a task, or None."""
Dial = Callable[[str], Awaitable[Any]]
"""Returns the connection to the task of that name, as soon as there is one."""
Item = tuple[Key, Array]
"""A value that is pushed, with its key."""


def batches(items: list[Item], most: int) -> list[list[Item]]:
    """The items of each message: from one device, `MOST_KEYS` and `most` bytes at most.

    A value that may lie in memory for peers is the last of its message, after small ones alone: it is sent without a
    copy.
    """
    if len(items) == 1:
        return [items]
    found: list[list[Item]] = []
    sources = dict.fromkeys([key.edge.incarnation for key, _ in items])
    for source in sources:
        own = [item for item in items if item[0].edge.incarnation == source]
        large = [item for item in own if _nbytes(item) >= MOVED]
        cut = _cut([item for item in own if _nbytes(item) < MOVED], most)
        if large and cut and len(cut[-1]) < MOST_KEYS and sum(map(_nbytes, cut[-1])) <= INLINE:
            cut[-1].append(large.pop(0))
        found += [*cut, *[[item] for item in large]]
    return found


def _nbytes(item: Item) -> int:
    nbytes: int = getattr(item[1], "nbytes", 0)
    return nbytes


def _cut(items: list[Item], most: int) -> list[list[Item]]:
    found: list[list[Item]] = []
    nbytes = 0
    for item in items:
        if not found or len(found[-1]) == MOST_KEYS or nbytes + _nbytes(item) > most:
            found.append([])
            nbytes = 0
        found[-1].append(item)
        nbytes += _nbytes(item)
    return found


class Outbox:
    """The values that one step pushes to one task."""

    def __init__(
        self, step: int, task: str, connected: Connected, dial: Dial, device: AnyDevice,
        failed: Callable[[errors.OpError], None],
    ) -> None:  # fmt: skip
        """Start empty.

        Args:
            step: the number of the step.
            task: the receiving task.
            connected: the connection to the task, if there is one.
            dial: connects to the task.
            device: the device that copies values to the host.
            failed: called with the error if a value cannot be sent.
        """
        self._step: Final = step
        self._task: Final = task
        self._connected: Final = connected
        self._dial: Final = dial
        self._device: Final = device
        self._failed: Final = failed
        self._items: list[Item] = []
        self._asked = self._dialling = False
        self._used: Final[set[Peer]] = set()
        """The connections over which it has sent something."""
        self._working: Final = OwnedTasks()

    def put(self, key: Key, transfer: Transfer) -> None:
        """One more value. It leaves when the loop turns."""
        if transfer.source is None or transfer.value is DEAD:
            self._add(key, transfer.value)
        else:
            self._begin(functools.partial(self._bring, key, transfer))

    def _add(self, key: Key, value: Array) -> None:
        self._items.append((key, value))
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self.flush)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._working.start(self._watched(work), f"sending to {self._task}")

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except errors.OpError as error:
            self._failed(error)

    async def _bring(self, key: Key, transfer: Transfer) -> None:
        """A value in the memory of a GPU."""
        self._add(key, await receive(transfer, self._device, host=True))

    def flush(self) -> None:
        """Send the values now, or as soon as the task is dialled."""
        if not self._items:
            return
        peer = self._connected()
        if peer is not None:
            self._send(peer)
        elif not self._dialling:
            self._dialling = True
            self._begin(self._dialled)

    async def _dialled(self) -> None:
        try:
            peer = await self._dial(self._task)
        finally:
            self._dialling = False
        self._send(peer)

    def _send(self, peer: Peer) -> None:
        self._asked = False
        items, self._items = self._items, []
        self._used.add(peer)
        try:
            for batch in batches(items, peer.limits.message):
                keys = tuple([numbers_of(key) for key, _ in batch])
                values = tuple([value for _, value in batch])
                waiting = peer.push(PushTensors(self._step, batch[0][0].edge.incarnation, keys, values))
                if waiting is not None:
                    self._begin(waiting)
        except errors.OpError as error:
            self._failed(error)

    def has_used(self, peer: object) -> bool:
        """Whether it has sent something over the connection to that peer."""
        return peer in self._used

    def cancel(self) -> None:
        """Drop the values that are not sent yet, and stop sending."""
        self._items.clear()
        self._working.cancel()
