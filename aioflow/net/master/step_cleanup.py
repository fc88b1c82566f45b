"""A master tells the tasks of a session that steps are over, or that their values are handed over.

These are notes. A task that is not connected needs none: it forgets the steps of a master that it has lost.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.net.peer.peers import Peers
from aioflow.net.wire.worker_verbs import CleanupGraph

_TOGETHER: Final = 0.002
"""Seconds in which steps that are over are gathered."""


class StepCleanup:
    """The notes to the tasks of one session about its steps."""

    def __init__(self, peers: Peers) -> None:
        self._peers: Final = peers
        self._over: dict[str, list[int]] = {}
        """By task, the steps of which it does not know yet that they are over."""
        self._timer: asyncio.TimerHandle | None = None

    def schedule_end(self, step: int, tasks: Iterable[str]) -> None:
        """Tell these tasks soon that the step is over; one note is for several steps."""
        for task in tasks:
            self._over.setdefault(task, []).append(step)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TOGETHER, self._send)

    def over(self, step: int, tasks: Iterable[str]) -> None:
        """The step is over, and the client has its values."""
        self._note(dict.fromkeys(tasks, (step,)))

    def refused(self, step: int, tasks: Iterable[str]) -> None:
        """End a step whose values the client does not have: the tasks put back its elements."""
        self._note(dict.fromkeys(tasks, (step,)), received=False)

    def handed_over(self, step: int, tasks: Iterable[str]) -> None:
        """The client has the values that the step, a partial run, has given so far."""
        self._note(dict.fromkeys(tasks, (step,)), over=False)

    def _send(self) -> None:
        self._timer = None
        over, self._over = self._over, {}
        self._note(over)

    def _note(self, steps: Mapping[str, Sequence[int]], received: bool = True, over: bool = True) -> None:
        for task, numbers in steps.items():
            peer = self._peers.connected(task)
            if peer is not None:
                with contextlib.suppress(errors.OpError):
                    peer.notify(CleanupGraph(tuple(numbers), received, over))

    def close(self) -> None:
        """Send the pending notes now."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()
