"""Which tasks are there, and with which devices."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.devices.device import DeviceAttributes
from aioflow.net.fields import Device
from aioflow.net.peers import Peers
from aioflow.net.worker_verbs import GetStatus, Status

_SHARE: Final = 0.9
"""Of the time that is left, for the tasks that are asked."""
Statuses = Mapping[str, Status | errors.OpError]
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
"""Seconds after which a task that could not be reached is dialled again."""


async def statuses_of(tasks: Sequence[str], peers: Peers, deadline: float | None) -> Statuses:
    """How these tasks are, or why that cannot be known."""
    asked = await asyncio.gather(*[_status(task, peers, deadline) for task in tasks])
    return dict(zip(tasks, asked, strict=True))


async def statuses_when_there(tasks: Sequence[str], peers: Peers, deadline: float | None) -> Statuses:
    """How these tasks are as soon as all can be reached, in whatever order they start, or else at the deadline.

    Without a deadline nobody is waited for.
    """
    found = dict(await statuses_of(tasks, peers, deadline))
    now, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
    while deadline is not None and now() + pause < deadline:
        absent = [task for task in tasks if isinstance(found[task], errors.UnavailableError)]
        if not absent:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        found |= await statuses_of(absent, peers, deadline)
    return found


async def _status(task: str, peers: Peers, deadline: float | None) -> Status | errors.OpError:
    try:
        async with asyncio.timeout_at(deadline):
            peer = await peers.of(task)
            return await peer.request(GetStatus(), deadline=deadline)
    except errors.OpError as error:
        return error
    except TimeoutError:
        return errors.DeadlineExceededError("it did not answer in time", task=task)


def devices_in(statuses: Statuses) -> tuple[Device, ...]:
    """The devices of the tasks that are there."""
    return tuple([device for found in statuses.values() if isinstance(found, Status) for device in found.devices])


def attributes(device: Device) -> DeviceAttributes:
    """A device as placement sees it."""
    return DeviceAttributes(device.name, device.kind, device.memory, device.incarnation)


def earlier(deadline: float | None) -> float | None:
    """Somewhat before a deadline, so that there is time to tell who was waited for."""
    if deadline is None:
        return None
    now = asyncio.get_running_loop().time()
    return now + (deadline - now) * _SHARE


__all__ = ["Statuses", "attributes", "devices_in", "earlier", "statuses_of", "statuses_when_there"]
