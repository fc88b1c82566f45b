"""Simulated monitors for hosts in memory: they report the states that a simulation sets."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Final

from aioflow.net.transport.liveness import MonitorMessage, State, message_interval

_LATE: Final = 2
"""A loop counts as busy after this many messages of its monitor without a turn."""


class MemoryMonitors:
    """The monitors of all hosts of a network."""

    def __init__(self, reaches: Callable[[str, str], bool]) -> None:
        """Monitors of hosts whose loops turn. `reaches` returns whether frames pass between two hosts."""
        self.reaches: Final = reaches
        self._held: Final[dict[str, tuple[State, float]]] = {}
        self._watches: Final[dict[MemoryWatch, None]] = {}

    def hold(self, host: str, state: State) -> None:
        """Report the host as busy or stopped from now on."""
        self._held[host] = state, asyncio.get_running_loop().time()

    def release(self, host: str) -> None:
        """Report that the loop of the host turns again."""
        self._held.pop(host, None)

    def crash(self, host: str, *, silent: bool) -> None:
        """Report that the process of the host has ended. If `silent`, report nothing: its monitor has ended, too."""
        for watch in self._watches:
            if watch.connected == host:
                watch.end(silent)

    def watch(self, here: str, there: str, heartbeat: float) -> "MemoryWatch":
        """A subscription of the monitor of one host to that of another."""
        watch = MemoryWatch(self, here, there, message_interval(heartbeat))
        self._watches[watch] = None
        return watch

    def forget(self, watch: "MemoryWatch") -> None:
        """End a subscription."""
        self._watches.pop(watch, None)

    def word(self, host: str, interval: float) -> MonitorMessage:
        """The present message of a host's monitor."""
        state, since = self._held.get(host, (State.TURNING, 0.0))
        seconds = asyncio.get_running_loop().time() - since
        if state is State.TURNING or (state is State.BUSY and seconds < _LATE * interval):
            return MonitorMessage(State.TURNING)
        return MonitorMessage(state, seconds)


class MemoryWatch:
    """The subscription of one host's monitor to that of another host."""

    def __init__(self, monitors: MemoryMonitors, here: str, there: str, interval: float) -> None:
        self.connected: Final = there
        self.on_message: Callable[[MonitorMessage], None] | None = None
        self._here: Final = here
        self._monitors: Final = monitors
        self._interval: Final = interval
        self._ended: MonitorMessage | None = None
        self._silent = False
        self._context: Final = contextvars.copy_context()
        self._timer: asyncio.Handle = asyncio.get_running_loop().call_later(interval, self._send_message)

    def _send_message(self) -> None:
        if self._monitors.reaches(self._here, self.connected) and not self._silent and self.on_message is not None:
            self.on_message(self._ended or self._monitors.word(self.connected, self._interval))
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._send_message)

    def end(self, silent: bool) -> None:
        """Report at once, unless `silent`, that the other host has crashed."""
        if self._ended is None:
            self._ended, self._silent = MonitorMessage(State.ENDED), silent
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._send_message, context=self._context)

    def close(self) -> None:
        """End the subscription."""
        self._timer.cancel()
        self._monitors.forget(self)
