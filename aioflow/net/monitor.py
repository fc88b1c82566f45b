"""The monitor of this process: a helper process, started with the first connection and ended with the last.

Each running loop has its own, for it tells whether that loop turns. See `monitor_process` for what it does.
"""

import asyncio
import logging
import mmap
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from aioflow.devices import activity
from aioflow.net import monitor_process
from aioflow.net.liveness import Offer, State, Watch, Word, word_interval
from aioflow.net.monitor_process import ACCEPT, DIAL, TEXT, TURN

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)
_TURNS: Final = 2
"""So many turns of the loop are shown between two words of the monitor."""
_STATES: Final = {state.value: state for state in State}
_BACKLOG: Final = 64


class Board:
    """Memory that the monitor reads: when the loop turned the last time, and what compute threads do.

    Attributes:
        file: that both have in memory.
    """

    def __init__(self) -> None:
        self.file: Final = tempfile.TemporaryFile()  # noqa: SIM115 - the monitor is given it first
        self.file.truncate(TURN.size + TEXT)
        self._memory: Final = mmap.mmap(self.file.fileno(), TURN.size + TEXT)

    def turn(self, interval: float) -> None:
        """The loop turns now, and will again after so many seconds."""
        TURN.pack_into(self._memory, 0, time.monotonic(), interval)

    def show(self, text: str) -> None:
        """Compute threads do this. May be called on any thread."""
        data = text.encode(errors="replace")[: TEXT - 1] + b"\0"
        self._memory[TURN.size : TURN.size + len(data)] = data


class Monitor:
    """The helper process of one loop.

    Attributes:
        pid: of the helper process.
    """

    _running: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Monitor]"] = weakref.WeakKeyDictionary()

    @classmethod
    def of_running_loop(cls) -> "Monitor":
        """Starts it if there is none. OSError or NotImplementedError if there can be none."""
        loop = asyncio.get_running_loop()
        found = cls._running.get(loop)
        if found is None:
            found = cls._running[loop] = cls(loop)
        return found

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if not sys.executable or not hasattr(socket, "send_fds"):
            raise NotImplementedError
        self._watches: Final[dict[tuple[str, str], MonitorWatch]] = {}
        self._ports: Final[dict[str, int]] = {}
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None
        self._board: Final = Board()
        self._control, process = _started(self._board)
        self.pid: Final = process.pid
        self._release: Final = weakref.finalize(loop, _kill, process, self._control)
        loop.add_reader(self._control, self._read)
        self._turn()
        activity.subscribe(self, self._board.show)

    # What it is told

    def listen(self, address: str) -> int:
        """The port at which the monitor listens on that address of this machine."""
        found = self._ports.get(address)
        if found is None:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
                listener.bind((address, 0))
                listener.listen(_BACKLOG)
                found = self._ports[address] = listener.getsockname()[1]
                socket.send_fds(self._control, [b"listen\n"], [listener.fileno()])
        return found

    def watch(
        self, role: str, connection: str, key: str, heartbeat: float, address: tuple[str, int] | None = None
    ) -> "MonitorWatch":
        """What the monitor hears of the other end of a connection, which it dials if there is an address."""
        watch = self._watches[role, connection] = MonitorWatch(self, role, connection, heartbeat)
        where = "" if address is None else f" {address[0]} {address[1]}"
        self._tell(f"{role} {connection} {key} {word_interval(heartbeat)}{where}")
        self._turn()
        return watch

    def forget(self, watch: "MonitorWatch") -> None:
        """It is not needed any more; with the last one the monitor ends."""
        if self._watches.pop((watch.role, watch.connection), None) is None:
            return
        if self._watches:
            self._tell(f"close {watch.role} {watch.connection}")
        self.close_if_unused()

    def close_if_unused(self) -> None:
        """Nobody watches anything."""
        if not self._watches:
            self.close()

    def _tell(self, line: str) -> None:
        """A monitor that does not read what it is told is none."""
        try:
            if self._control.fileno() >= 0 and self._control.send(f"{line}\n".encode()) <= len(line):
                raise BlockingIOError
        except OSError:
            self.close()

    def _turn(self) -> None:
        """Show that the loop turns."""
        if self._timer is not None:
            self._timer.cancel()
        heartbeats = [watch.heartbeat for watch in self._watches.values()]
        interval = word_interval(min(heartbeats, default=1.0)) / _TURNS
        self._board.turn(interval)
        self._timer = asyncio.get_running_loop().call_later(interval, self._turn)

    # What it tells

    def _read(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            role, connection, state, seconds, doing = line.decode("ascii").split(" ")
            watch = self._watches.get((role, connection))
            if watch is not None and watch.told is not None and state in _STATES:
                watch.told(Word(_STATES[state], float(seconds), _text(doing)))

    def close(self) -> None:
        """The helper process ends. Peers go by frames alone from then on. May be called again."""
        if not self._release.alive:
            return
        loop = asyncio.get_running_loop()
        if self._running.get(loop) is self:
            del self._running[loop]
        activity.unsubscribe(self)
        if self._timer is not None:
            self._timer.cancel()
        loop.remove_reader(self._control)
        self._release()


class MonitorWatch:
    """What the monitor hears of the other end of one connection."""

    def __init__(self, monitor: Monitor, role: str, connection: str, heartbeat: float) -> None:
        self.role: Final = role
        self.connection: Final = connection
        self.heartbeat: Final = heartbeat
        self.told: Callable[[Word], None] | None = None
        self._monitor: Final = monitor

    def close(self) -> None:
        """Nothing more is told."""
        self.told = None
        self._monitor.forget(self)


def _started(board: Board) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """The helper process, and the socket to it."""
    program = str(Path(monitor_process.__file__).resolve())
    mine, its = socket.socketpair()
    with its, board.file:
        given = its.fileno(), board.file.fileno()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", program, *map(str, given), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                pass_fds=given, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            mine.close()
            raise
    mine.setblocking(False)
    return mine, process


def _kill(process: "subprocess.Popen[bytes]", control: socket.socket) -> None:
    """It has nothing to lose, and its peers see that its connections end."""
    process.kill()
    control.close()
    process.wait()


def _text(doing: str) -> str:
    """What a monitor wrote in hex; it may come from anybody who shares a key."""
    try:
        text = bytes.fromhex(doing).decode(errors="replace")
    except ValueError:
        return ""
    return "".join([letter if letter.isprintable() else "?" for letter in text[:TEXT]])


# For the network of websockets


def offer(transport: asyncio.Transport, connection: str, heartbeat: float) -> Offer | None:
    """Let the monitor of the peer at the other end of a transport dial the one here; None if there can be none.

    Args:
        transport: what the peer has dialled.
        connection: its number, 128 random bits.
        heartbeat: the shorter of the heartbeat timeouts of both ends.
    """
    here = transport.get_extra_info("sockname")

    def listen(monitor: Monitor) -> Offer:
        port, key = monitor.listen(here[0]), secrets.token_hex(16)
        return Offer(port, key, monitor.watch(ACCEPT, connection, key, heartbeat))

    return _with_monitor(listen)


def watch(transport: asyncio.Transport, connection: str, port: int, key: str, heartbeat: float) -> Watch | None:
    """Dial the monitor of the peer at the other end of a transport, which has offered it; None if there can be none."""
    there = transport.get_extra_info("peername")
    return _with_monitor(lambda monitor: monitor.watch(DIAL, connection, key, heartbeat, (there[0], port)))


def _with_monitor(use: Callable[[Monitor], T]) -> T | None:
    """What it gives; None if there can be no monitor."""
    try:
        monitor = Monitor.of_running_loop()
        try:
            return use(monitor)
        finally:
            monitor.close_if_unused()
    except (OSError, NotImplementedError, TypeError) as error:
        _log.debug("no monitor: %s", error)
        return None


__all__ = ["Monitor", "offer", "watch"]
