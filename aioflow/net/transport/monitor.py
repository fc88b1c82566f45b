"""The monitor of this process: a helper process, started with the first connection and ended with the last.

Each running loop has its own monitor, because the monitor reports whether this loop turns. `monitor_process` is the
program of the helper process.

Questions to the monitor of a process that is not connected yet, and the answers of this process's monitor.

A question is a datagram to the UDP port that has the number of the TCP port at which the process listens. So the
address of the process is enough to ask. Both datagrams are signed by a key that is derived from the token; without a
token anyone may ask. An answer has the state of the process, and no names of kernels.
"""

import asyncio
import contextlib
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from aioflow.devices import activity
from aioflow.net.transport import monitor_process
from aioflow.net.transport.addresses import split_address
from aioflow.net.transport.credentials import Token
from aioflow.net.transport.liveness import MonitorMessage, Offer, State, Watch, message_interval
from aioflow.net.transport.monitor_process import ACCEPT, DIAL, TEXT, TURN

T = TypeVar("T")
_log: Final = logging.getLogger("aioflow.net")
_TURNS: Final = 2
"""The recorded turns of the loop between two messages of the monitor."""
_STATES: Final = {state.value: state for state in State}
_BACKLOG: Final = 64


class SharedStatus:
    """Shared memory for the monitor: the time of the loop's last turn, and the kernels on compute threads.

    Attributes:
        file: the file that both processes map.
    """

    def __init__(self) -> None:
        self.file: Final = tempfile.TemporaryFile()  # noqa: SIM115 - open until the monitor has it
        self.file.truncate(TURN.size + TEXT)
        self._memory: Final = mmap.mmap(self.file.fileno(), TURN.size + TEXT)

    def turn(self, interval: float) -> None:
        """Record a turn of the loop now; the next one is due after `interval` seconds."""
        TURN.pack_into(self._memory, 0, time.monotonic(), interval)

    def show(self, text: str) -> None:
        """Record the kernels on compute threads. May be called on any thread."""
        data = text.encode(errors="replace")[: TEXT - 1] + b"\0"
        self._memory[TURN.size : TURN.size + len(data)] = data


class Monitor:
    """The helper process of one loop.

    Attributes:
        pid: the id of the helper process.
    """

    _running: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Monitor]"] = weakref.WeakKeyDictionary()

    @classmethod
    def of_running_loop(cls) -> "Monitor":
        """The monitor of the running loop, started if there is none.

        Raises OSError if it cannot start, and NotImplementedError if this system does not support monitors.
        """
        loop = asyncio.get_running_loop()
        found = cls._running.get(loop)
        if found is None:
            found = cls._running[loop] = cls(loop)
        return found

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if not sys.executable or not hasattr(socket, "send_fds"):
            raise NotImplementedError("a monitor needs a Python executable, and sockets that can send file descriptors")
        self._watches: Final[dict[tuple[str, str], MonitorWatch]] = {}
        self._ports: Final[dict[str, int]] = {}
        self._answers: Final[dict[QuestionAnswerer, None]] = {}
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None
        self._board: Final = SharedStatus()
        self._control, process = _started(self._board)
        self.pid: Final = process.pid
        self._release: Final = weakref.finalize(loop, _kill, process, self._control)
        loop.add_reader(self._control, self._read)
        self._turn()
        activity.subscribe(self, self._board.show)

    # Messages to the helper process

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
        """Subscribe to the monitor at the other end of a connection. With an address this monitor dials it."""
        watch = self._watches[role, connection] = MonitorWatch(self, role, connection, heartbeat)
        where = "" if address is None else f" {address[0]} {address[1]}"
        self._tell(f"{role} {connection} {key} {message_interval(heartbeat)}{where}")
        self._turn()
        return watch

    def forget(self, watch: "MonitorWatch") -> None:
        """End a subscription; with the last one the monitor ends."""
        if self._watches.pop((watch.role, watch.connection), None) is None:
            return
        self._tell(f"close {watch.role} {watch.connection}")
        self.close_if_unused()

    def answer(self, address: tuple[Any, ...], key: str, heartbeat: float) -> "QuestionAnswerer":
        """Answer questions about this process that come to a UDP address, and are signed by the key.

        The address is as a socket names its own: one of IPv6 has four parts. The monitor of a process that was killed
        may hold it for another moment: monitors share it.

        Raises OSError if the address is in use by anything else.
        """
        with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            asked.bind(address)
            answers = QuestionAnswerer(self, secrets.token_hex(8), heartbeat)
            socket.send_fds(self._control, [f"answer {answers.name} {key}\n".encode()], [asked.fileno()])
        self._answers[answers] = None
        self._turn()
        return answers

    def mute(self, answers: "QuestionAnswerer") -> None:
        """End these answers; if the monitor has nothing else to do, it ends, too."""
        if self._answers.pop(answers, "") is None:
            self._tell(f"mute {answers.name}")
            self.close_if_unused()

    def close_if_unused(self) -> None:
        """End the monitor if it has no subscription, and answers no questions."""
        if not self._watches and not self._answers:
            self.close()

    def _tell(self, line: str) -> None:
        """Send a line to the helper process. A helper that does not read is closed."""
        try:
            if self._control.fileno() >= 0 and self._control.send(f"{line}\n".encode()) <= len(line):
                raise BlockingIOError
        except OSError:
            self.close()

    def _turn(self) -> None:
        """Record a turn of the loop, and schedule the next one."""
        if self._timer is not None:
            self._timer.cancel()
        heartbeats = [watch.heartbeat for watch in self._watches.values()]
        heartbeats += [answers.heartbeat for answers in self._answers]
        interval = message_interval(min(heartbeats, default=1.0)) / _TURNS
        self._board.turn(interval)
        self._timer = asyncio.get_running_loop().call_later(interval, self._turn)

    # Messages from the helper process

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
            if watch is not None and watch.on_message is not None and state in _STATES:
                watch.on_message(MonitorMessage(_STATES[state], float(seconds), _text(doing)))

    def close(self) -> None:
        """End the helper process. Peers then judge by frames alone. May be called again."""
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


class QuestionAnswerer:
    """The answers to the questions that come to one UDP address."""

    def __init__(self, monitor: Monitor, name: str, heartbeat: float) -> None:
        self.name: Final = name
        self.heartbeat: Final = heartbeat
        self._monitor: Final = monitor

    def close(self) -> None:
        """End the answers. May be called again."""
        self._monitor.mute(self)


class MonitorWatch:
    """A subscription to the monitor at the other end of one connection."""

    def __init__(self, monitor: Monitor, role: str, connection: str, heartbeat: float) -> None:
        self.role: Final = role
        self.connection: Final = connection
        self.heartbeat: Final = heartbeat
        self.on_message: Callable[[MonitorMessage], None] | None = None
        self._monitor: Final = monitor

    def close(self) -> None:
        """End the subscription."""
        self.on_message = None
        self._monitor.forget(self)


def _started(board: SharedStatus) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
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
    """Kill the helper process. It has no state to save, and its peers notice that its connections end."""
    process.kill()
    control.close()
    process.wait()


def _text(doing: str) -> str:
    """The text that a peer's monitor sent in hex. It is not trusted."""
    try:
        text = bytes.fromhex(doing).decode(errors="replace")
    except ValueError:
        return ""
    return "".join([letter if letter.isprintable() else "?" for letter in text[:TEXT]])


# For the network of websockets


def offer(transport: asyncio.Transport, connection: str, heartbeat: float) -> Offer | None:
    """Offer this process's monitor to the peer at the other end of a transport; None if no monitor is possible.

    Args:
        transport: the transport that the peer has dialled.
        connection: the number of the connection, 128 random bits.
        heartbeat: the shorter of the heartbeat timeouts of both ends.
    """
    here = transport.get_extra_info("sockname")
    if here is None:  # the connection is closed already
        return None

    def listen(monitor: Monitor) -> Offer:
        port, key = monitor.listen(here[0]), secrets.token_hex(16)
        return Offer(port, key, monitor.watch(ACCEPT, connection, key, heartbeat))

    return with_monitor(listen)


def watch(transport: asyncio.Transport, connection: str, port: int, key: str, heartbeat: float) -> Watch | None:
    """Dial the monitor that the peer at the other end of a transport has offered; None if no monitor is possible."""
    there = transport.get_extra_info("peername")
    if there is None:  # the connection is closed already
        return None
    return with_monitor(lambda monitor: monitor.watch(DIAL, connection, key, heartbeat, (there[0], port)))


def with_monitor(use: Callable[[Monitor], T]) -> T | None:
    """The result of `use` with the monitor of the running loop; None if no monitor is possible."""
    try:
        monitor = Monitor.of_running_loop()
        try:
            return use(monitor)
        finally:
            monitor.close_if_unused()
    except (OSError, NotImplementedError) as error:
        _log.debug("no monitor: %s", error)
        return None


_PUBLIC: Final = "00" * 16
"""The key of tasks without a token."""
_ANY: Final[dict[int, str]] = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


def answer(addresses: Sequence[tuple[Any, ...]], token: Token | None, heartbeat: float) -> list[QuestionAnswerer]:
    """Let the monitor of this process answer questions at these UDP addresses, where that is possible."""

    def begin(monitor: Monitor) -> list[QuestionAnswerer]:
        found = []
        for address in addresses:
            with contextlib.suppress(OSError):  # another process uses the UDP port
                found.append(monitor.answer(address, _key(token), heartbeat))
        return found

    return with_monitor(begin) or []


async def ask(
    address: str, token: Token | None, heartbeat: float, on_message: Callable[[MonitorMessage], None]
) -> None:
    """Ask the monitor of the process at an address for its state, again and again, until cancelled.

    Each answer goes to `on_message`. The first question is sent late enough that a process that answers itself gets
    none. A name may stand for several addresses, at one of which the process listens: all are asked. A host may answer
    from another of its addresses than the one that was asked; the signature tells that the answer is one.
    """
    loop, interval = asyncio.get_running_loop(), message_interval(heartbeat)
    await asyncio.sleep(interval)
    questions = _Questions(_key(token), on_message)
    wires: dict[int, asyncio.DatagramTransport] = {}
    try:
        found = await loop.getaddrinfo(*split_address(address), type=socket.SOCK_DGRAM)
        for family in {place[0] for place in found}:
            with contextlib.suppress(OSError):  # this machine has no IPv6
                wires[family], _ = await loop.create_datagram_endpoint(
                    lambda: questions, local_addr=(_ANY[family], 0), family=family
                )
        while any(not wire.is_closing() for wire in wires.values()):
            asked = questions.next()
            for family, *_, place in found:
                if family in wires and not wires[family].is_closing():
                    wires[family].sendto(asked, place)
            await asyncio.sleep(interval)
    except OSError:  # the name is unknown
        pass
    finally:
        questions.end()


class _Questions(asyncio.DatagramProtocol):
    """The questions to one monitor. Only the answer to the latest one counts."""

    def __init__(self, key: str, on_message: Callable[[MonitorMessage], None]) -> None:
        self._key: Final = key
        self._on_message: Final = on_message
        self._nonce = ""
        self._wires: Final[list[asyncio.BaseTransport]] = []
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to close it. With uvloop a cancelled `create_datagram_endpoint` leaves it open."""
        self._wires.append(transport)
        if self._ended:
            transport.close()

    def end(self) -> None:
        """Close all transports, also those that are still being made."""
        self._ended = True
        for wire in self._wires:
            wire.close()

    def next(self) -> bytes:
        """Another question."""
        self._nonce = secrets.token_hex(16)
        return monitor_process.question(self._key, self._nonce)

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Pass on an answer; drop anything else."""
        with contextlib.suppress(ValueError, KeyError):
            state, seconds = monitor_process.answered(self._key, self._nonce, data)
            self._on_message(MonitorMessage(_STATES[state], seconds))


def _key(token: Token | None) -> str:
    return _PUBLIC if token is None else token.key("questions to a monitor")
