"""Pushes small values of a step to other tasks without a request, all values of one turn of the loop together."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.devices.device import AnyDevice
from aioflow.devices.transfer import Transfer, receive
from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.peer.peer import Peer
from aioflow.net.wire.worker_verbs import MOST_KEYS, PushTensors
from aioflow.rendezvous import Key
from aioflow.tensors.dtypes import Array
from aioflow.waiting.tasks import OwnedTasks


class Tasks(Protocol):
    """How other tasks are reached."""

    def connected(self, task: str) -> Any:
        """The task of that name, if it is connected."""

    async def of(self, task: str) -> Any:
        """The task of that name."""


class Outbox:
    """The values that one step pushes to one task."""

    def __init__(
        self, step: int, task: str, tasks: Tasks, device: AnyDevice, failed: Callable[[errors.OpError], None]
    ) -> None:
        """Start empty.

        Args:
            step: the number of the step.
            task: the receiving task.
            tasks: the connected tasks.
            device: the device that copies values to the host.
            failed: called with the error if a value cannot be sent.
        """
        self._step: Final = step
        self._task: Final = task
        self._tasks: Final = tasks
        self._device: Final = device
        self._failed: Final = failed
        self._items: list[tuple[str, Array]] = []
        self._asked = False
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
        self._items.append((str(key), value))
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._flush)

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

    def _flush(self) -> None:
        peer = self._tasks.connected(self._task)
        if peer is None:
            self._begin(self._dialled)
        else:
            self._send(peer)

    async def _dialled(self) -> None:
        self._send(await self._tasks.of(self._task))

    def _send(self, peer: Peer) -> None:
        self._asked = False
        items, self._items = self._items, []
        self._used.add(peer)
        try:
            for start in range(0, len(items), MOST_KEYS):
                keys, values = zip(*items[start : start + MOST_KEYS], strict=True)
                peer.notify(PushTensors(self._step, keys, values))
        except errors.OpError as error:
            self._failed(error)

    def has_used(self, peer: object) -> bool:
        """Whether it has sent something over the connection to that peer."""
        return peer in self._used

    def cancel(self) -> None:
        """Drop the values that are not sent yet, and stop sending."""
        self._items.clear()
        self._working.cancel()
