"""The rendezvous of a step over several tasks: what a device sends stays with its task until the other one asks for it.

A receiver asks the sender's task as soon as it begins to wait, maybe before the step has begun there, and waits in its
own table until the answer has arrived. So who is cancelled gives up a place in that table and nothing else, and
whatever ends the step ends all that is asked. What is known to be small is sent unasked, and waits in that table for
its receiver; its sender ends the step if the connection is lost that it was sent over.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.net.wire.worker_verbs import MOST_KEYS
from aioflow.rendezvous import Key, LocalRendezvous, Waiting
from aioflow.waiting.tasks import OwnedTasks

Ask = Callable[[str, Sequence[Key]], Awaitable[Mapping[int, Any]]]
"""Gives values of keys of another task's, by the places of these: of some of them, once there is one."""


class TaskOutbox(Protocol):
    """What is sent unasked to one task."""

    def put(self, key: Key, value: Any) -> None:
        """One more value."""

    def has_used(self, peer: object) -> bool:
        """Whether it has sent something over the connection to that peer."""

    def cancel(self) -> None:
        """Nothing of it is wanted any more."""


Open = Callable[[str], TaskOutbox]
"""Makes the line to a task."""


class RemoteRendezvous:
    """One task's side of it. Other tasks take from `here` what they ask for.

    Attributes:
        here: what was sent and received in this task.
    """

    def __init__(self, task: str, ask: Ask, outbox_to: Open | None = None) -> None:
        """A step that is about to run.

        Args:
            task: the name of this task.
            ask: how to get values from another.
            outbox_to: how to send them unasked; None if the others ask for all.
        """
        self.here: Final = LocalRendezvous()
        self._task: Final = task
        self._ask: Final = ask
        self._outbox_to: Final = outbox_to
        self._outboxes: Final[dict[str, TaskOutbox]] = {}
        self._arrived: Final = LocalRendezvous()
        self._wanted: Final[dict[str, list[Key]]] = {}
        """What is to be asked for when the loop turns, by who is asked."""
        self._asking: Final = OwnedTasks()
        self._spare: Final[Counter[Key]] = Counter()
        """How many more values were asked for than are waited for."""

    def send(self, key: Key, value: Any) -> None:
        """The value can be received, here or there. Never waits."""
        if self._outbox_to is None or not key.pushed or (task := task_of(key.target)) == self._task:
            self.here.send(key, value)
            return
        self.here.check()
        line = self._outboxes.get(task)
        if line is None:
            line = self._outboxes[task] = self._outbox_to(task)
        line.put(key, value)

    @property
    def told(self) -> list[str]:
        """The tasks that something was sent to unasked."""
        return list(self._outboxes)

    def has_told(self, peer: object) -> bool:
        """Whether something was sent unasked over the connection to that peer."""
        return any(line.has_used(peer) for line in self._outboxes.values())

    def arrive(self, key: Key, value: Any) -> None:
        """A value has come unasked. If the step has failed, nothing is wanted any more."""
        if not self._arrived.ended:
            self._arrived.send(key, value)

    async def recv(self, key: Key) -> Any:
        """The next value of that key, as soon as it is here."""
        if task_of(key.source) == self._task:
            return await self.here.recv(key)
        if key.pushed and self._outbox_to is not None:
            return await self._arrived.recv(key)
        self._arrived.check()
        if self._spare[key] > 0:
            self._spare[key] -= 1
        else:
            self._fetch(key)
        try:
            return await self._arrived.recv(key)
        except asyncio.CancelledError:
            self._spare[key] += 1
            raise

    def _fetch(self, key: Key) -> None:
        """Ask for it; if it goes together with others, with all that are wanted of that task in a turn of the loop."""
        task = task_of(key.source)
        if not key.together:
            self._begin(task, [key])
            return
        wanted = self._wanted.setdefault(task, [])
        if not wanted:
            asyncio.get_running_loop().call_soon(self._fetch_from, task)
        wanted.append(key)

    def _fetch_from(self, task: str) -> None:
        wanted = self._wanted.pop(task, [])  # none if the step has ended since
        for start in range(0, len(wanted), MOST_KEYS):
            self._begin(task, wanted[start : start + MOST_KEYS])

    def _begin(self, task: str, keys: list[Key]) -> None:
        self._asking.start(self._fetched(task, keys), f"receiving {keys[0]}")

    async def _fetched(self, task: str, keys: list[Key]) -> None:
        """Ask until all have come."""
        try:
            while keys:
                values = await self._ask(task, keys)
                for place, value in values.items():
                    self._arrived.send(keys[place], value)
                keys = [key for place, key in enumerate(keys) if place not in values]
        except errors.OpError as error:
            self.abort(error)

    def abort(self, error: errors.OpError) -> None:
        """From here on all who wait, and all who come, get that error, unless an earlier one."""
        self.here.abort(error)
        self._arrived.abort(error)
        self._stop()

    def _stop(self) -> None:
        """Nothing is asked for or sent any more."""
        self._wanted.clear()
        self._asking.cancel()
        for line in self._outboxes.values():
            line.cancel()

    def close(self) -> tuple[Key, ...]:
        """The same with a CancelledError. Returns the keys that still had values."""
        left = self.here.close() + self._arrived.close()
        self._stop()
        return left

    async def settled(self) -> None:
        """Return when nothing is asked any more."""
        await self._asking.ended()

    @property
    def waiting(self) -> list[Waiting]:
        """All who wait, for what is sent here or elsewhere."""
        return self.here.waiting + self._arrived.waiting

    @property
    def unreceived(self) -> int:
        """How many values were sent and not received."""
        return self.here.unreceived + self._arrived.unreceived


@functools.lru_cache(4096)
def task_of(device: str) -> str:
    """The task that a device belongs to, as `/job:worker/replica:0/task:1`."""
    spec = DeviceSpec.from_string(device)
    return f"/job:{spec.job}/replica:{spec.replica or 0}/task:{spec.task or 0}"
