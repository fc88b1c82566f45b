"""The tasks that can be reached, their devices, and their addresses.

The addresses of a cluster's tasks, with a version; the launcher sends a new version when a task restarts.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.devices.device import DeviceAttributes
from aioflow.net.peer.peers import Peers
from aioflow.net.transport.addresses import split_address
from aioflow.net.wire.fields import Device
from aioflow.net.wire.worker_verbs import GetStatus, Status

_TOLD: Final = 0.1
"""The share of the remaining time that is kept for the error, which names the missing tasks."""
_LONGEST_TOLD: Final = 0.5
"""Seconds: as long as that at most."""
Statuses = Mapping[str, Status | errors.OpError]
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
"""Seconds after which a task that could not be reached is dialled again; at last after half of those that are left."""


async def statuses_of(tasks: Sequence[str], peers: Peers, deadline: float | None) -> Statuses:
    """How these tasks are, or why that cannot be known."""
    asked = await asyncio.gather(*[_status(task, peers, deadline) for task in tasks])
    return dict(zip(tasks, asked, strict=True))


async def statuses_when_reachable(tasks: Sequence[str], peers: Peers, deadline: float | None) -> Statuses:
    """Return the status of each task as soon as all can be reached, in whatever order they start, or at the deadline.

    Without a deadline it does not wait for missing tasks.
    """
    asked = await asyncio.gather(*[_status_when_reachable(task, peers, deadline) for task in tasks])
    return dict(zip(tasks, asked, strict=True))


async def _status_when_reachable(task: str, peers: Peers, deadline: float | None) -> Status | errors.OpError:
    """Return the status of one task. An error gives the reason why it could not be reached."""
    found = await _status(task, peers, deadline)
    now, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
    while isinstance(found, errors.UnavailableError) and deadline is not None and now() + _FIRST_PAUSE < deadline:
        await asyncio.sleep(min(pause, max(_FIRST_PAUSE, (deadline - now()) / 2)))
        pause = min(2 * pause, _LONGEST_PAUSE)
        again = await _status(task, peers, deadline)
        found = found if isinstance(again, errors.DeadlineExceededError) else again
    return found


async def _status(task: str, peers: Peers, deadline: float | None) -> Status | errors.OpError:
    try:
        async with asyncio.timeout_at(deadline):
            peer = await peers.of(task)
            return await peer.request(GetStatus(), deadline=deadline)
    except errors.OpError as error:
        return error
    except TimeoutError:
        busy = peers.busy(task)
        return errors.DeadlineExceededError("it did not answer in time" + f"; it is {busy}" * bool(busy), task=task)


def devices_in(statuses: Statuses) -> tuple[Device, ...]:
    """The devices of the tasks that are there."""
    return tuple([device for found in statuses.values() if isinstance(found, Status) for device in found.devices])


def attributes(device: Device) -> DeviceAttributes:
    """A device as placement sees it."""
    return DeviceAttributes(device.name, device.kind, device.memory, device.incarnation)


def earlier(deadline: float | None) -> float | None:
    """Return a time before a deadline, which leaves time for an error that names the missing tasks."""
    if deadline is None:
        return None
    left = deadline - asyncio.get_running_loop().time()
    return deadline - min(left * _TOLD, _LONGEST_TOLD)


class AddressBook(Mapping[str, str]):
    """The addresses of all tasks by name, in the newest version known here.

    The tasks never change, only their addresses. Updates may arrive late and in any order.

    Attributes:
        version: the version of these addresses; 0 for those from the task's start.
    """

    def __init__(self, addresses: Mapping[str, str], version: int = 0) -> None:
        self.version: int = version
        self._addresses: Final = dict(addresses)

    def update(self, addresses: Mapping[str, str], version: int) -> bool:
        """Take over a newer version. Ignores an older or equal one. Returns whether it was newer.

        Raises ValueError if it has other tasks, and InvalidArgumentError if an address is malformed; then nothing
        changes.
        """
        if addresses.keys() != self._addresses.keys():
            strange = ", ".join(sorted(addresses.keys() ^ self._addresses.keys()))
            raise ValueError(f"new addresses must be those of the tasks of the cluster; they differ in {strange}")
        for address in addresses.values():
            split_address(address)
        if version <= self.version:
            return False
        self._addresses.update(addresses)
        self.version = version
        return True

    def __getitem__(self, task: str) -> str:
        return self._addresses[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def __repr__(self) -> str:
        return f"<AddressBook version {self.version}: {self._addresses}>"
