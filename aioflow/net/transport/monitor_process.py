"""The monitor: a small process beside a task or client, which reports that process's state to its peers.

A process with a blocked loop, or with its GIL held, or in the stopped state, cannot report that. Its monitor can. It
reads the time of the loop's last turn from shared memory, and asks the operating system whether the process is stopped
or has ended. It reports the state to the monitors of all peers, and passes their reports on to its own process.

This file runs as a program. It imports only the standard library, so that it starts in 20 ms and takes 10 MB. It ends
when its process ends, in any way.

Two monitors that serve the same connection share a key. They send lines: connection, number, state, seconds since the
loop turned, kernels on the threads (in hex, or `-`), and an authentication code over all of these. The numbers rise in
each direction, so that an attacker cannot replay a line. A wrong line closes the TCP connection.
"""

import errno
import hashlib
import hmac
import mmap
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable

TURN = struct.Struct("<dd")
"""The head of the shared memory: the time of the last turn, and the seconds between two turns. A text follows."""
TEXT = 200
"""The most bytes of the text, with its final 0."""
LONGEST_LINE = 800
ACCEPT, DIAL = "accept", "dial"
QUESTION, ANSWER = "question", "answer"
LONGEST_ANSWER = 96
"""Bytes. A question has as many at least, so that no answer is longer than its question."""
_LATE = 4
"""A loop counts as busy after this many missing turns."""
_STRANGERS = 64
_PATIENCE = 5.0
"""Seconds that a new TCP connection has for its first line."""
_FORGOTTEN = 10
"""A connection is made again after this many missing messages."""
_FIRST, _LAST = 0.1, 2.0
"""Seconds between two attempts to dial: at first, and at most."""


def sign(key: str, role: str, text: str) -> str:
    """The authentication code of a line from the monitor of that role."""
    return hmac.new(bytes.fromhex(key), f"{role} {text}".encode(), hashlib.sha256).hexdigest()[:32]


def question(key: str, nonce: str) -> bytes:
    """A datagram that asks a monitor for the state of its process."""
    return f"{nonce} {sign(key, QUESTION, nonce)}".ljust(LONGEST_ANSWER).encode("ascii")


def answer(key: str, asked: bytes, state: str, seconds: float) -> bytes | None:
    """Return the datagram that answers a question; None if no process with that key asked it."""
    nonce, _, code = asked.rstrip().partition(b" ")
    if len(asked) != LONGEST_ANSWER or len(nonce) != 32 or not nonce.isalnum():
        return None
    if not hmac.compare_digest(code, sign(key, QUESTION, nonce.decode()).encode()):
        return None
    text = f"{nonce.decode()} {state} {seconds:.2f}"
    return f"{text} {sign(key, ANSWER, text)}".encode()


def answered(key: str, nonce: str, data: bytes) -> tuple[str, float]:
    """Return the state and the seconds in the answer to the question with that nonce, else raise ValueError."""
    text, _, code = data.decode("ascii").rpartition(" ")
    if not hmac.compare_digest(code.encode(), sign(key, ANSWER, text).encode()):
        raise ValueError("the answer is forged")
    found, state, seconds = text.split(" ")
    if found != nonce:
        raise ValueError("the answer is to another question")
    return state, float(seconds)


class WatchedProcess:
    """The watched process, which has started the monitor."""

    def __init__(self, pid: int, board: int) -> None:
        self._pid = pid
        self._board = mmap.mmap(board, TURN.size + TEXT)
        os.close(board)
        try:
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except OSError:  # this system does not show stopped processes
            self._stat = -1

    @property
    def has_ended(self) -> bool:
        """Whether the watched process has ended."""
        return os.getppid() != self._pid

    def word(self) -> tuple[str, float, str]:
        """Its state, the seconds since its loop turned, and the kernels on its threads in hex."""
        turned, interval = TURN.unpack_from(self._board)
        text = self._board[TURN.size : TURN.size + TEXT].partition(b"\0")[0]
        seconds = max(0.0, time.monotonic() - turned)
        busy = seconds > _LATE * interval
        state = "stopped" if self._is_stopped() else "busy" if busy else "turning"
        return state, seconds, text.hex() if busy and text else "-"

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped it. Under a debugger the state is `t`, which counts as busy."""
        try:
            return self._stat >= 0 and os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()[0] == b"T"
        except (OSError, IndexError):
            return False


class LineSocket:
    """A TCP connection to another monitor, as lines."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.since: float = time.monotonic()
        self._data = b""
        sock.setblocking(False)

    def lines(self) -> list[str]:
        """The lines received since the last call. OSError if the connection has ended, ValueError for long lines."""
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionResetError
        *lines, self._data = (self._data + data).split(b"\n")
        if max(map(len, (*lines, self._data))) > LONGEST_LINE:
            raise ValueError("the line is too long")
        return [line.decode("ascii") for line in lines]

    def send(self, line: str) -> None:
        """Send a whole line; drop it if the buffer is full. OSError if the connection has ended or took only a part."""
        try:
            if self.sock.send(f"{line}\n".encode("ascii")) <= len(line):
                raise ConnectionAbortedError
        except BlockingIOError:
            pass


class Connection:
    """One connection of the watched process, with the reports from its other end."""

    def __init__(self, role: str, name: str, key: str, interval: float, address: tuple[str, int] | None) -> None:
        self.role, self.name, self.interval, self.address = role, name, interval, address
        self.wire: LineSocket | None = None
        self.connected: bool = False
        self.heard = self.sent = 0.0
        self.redial_at: float = 0.0
        self._pause = _FIRST
        self._key = key
        self._next = self._last = 0
        self._reported = ""

    def line(self, word: tuple[str, float, str]) -> str:
        """The next line for the other end."""
        self._next += 1
        text = f"{self.name} {self._next} {word[0]} {word[1]:.2f} {word[2]}"
        return f"{text} {sign(self._key, self.role, text)}"

    def read(self, line: str) -> tuple[str, str, str]:
        """The state, seconds and kernels (in hex) in a line of the other end. ValueError if the line is wrong."""
        text, _, code = line.rpartition(" ")
        role = DIAL if self.role == ACCEPT else ACCEPT
        if not hmac.compare_digest(code.encode(), sign(self._key, role, text).encode()):
            raise ValueError("the line is forged")
        _, number, state, seconds, doing = text.split(" ")
        if int(number) <= self._last:
            raise ValueError("the line is a repetition")
        self._last = int(number)
        self.heard = time.monotonic()
        self._pause = _FIRST
        return state, seconds, doing

    def is_news(self, state: str) -> bool:
        """Whether to pass on this state: it has changed, or it is busy."""
        changed, self._reported = state != self._reported, state
        return changed or state == "busy"

    def postpone(self) -> None:
        """Schedule the next attempt to dial, after a longer pause each time."""
        self.connected = False
        self.redial_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LAST)


class Monitor:
    """The program."""

    def __init__(self, owner: WatchedProcess, control: socket.socket) -> None:
        self._owner = owner
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._connections: dict[tuple[str, str], Connection] = {}
        self._strangers: dict[LineSocket, None] = {}
        self._sockets: deque[int] = deque()
        self._answering: dict[str, socket.socket] = {}
        self._commands = b""
        self._unsent = b""
        self._pending: dict[tuple[str, str], str] = {}
        self._state = "turning"
        control.setblocking(False)
        self._watch(control, self._command)

    def _watch(self, sock: "socket.socket | int", react: Callable[[], None]) -> None:
        self._selector.register(sock, selectors.EVENT_READ, react)

    def run(self, pidfd: int) -> None:
        """Run until the watched process ends or closes the control socket."""
        if pidfd >= 0:
            self._watch(pidfd, self._end)
        while True:
            for key, _ in self._selector.select(self._tick()):
                if self._selector.get_map().get(key.fd) is key:  # not closed meanwhile
                    key.data()
            self._beat()
            if self._owner.has_ended:
                self._end()

    def _tick(self) -> float:
        return min([each.interval for each in self._connections.values()], default=1.0) / 2

    # The watched process

    def _command(self) -> None:
        try:
            data, sockets, _, _ = socket.recv_fds(self._control, 1 << 16, 16)
        except BlockingIOError:
            self._flush()
            return
        except OSError:
            data, sockets = b"", []
        self._sockets.extend(sockets)
        if not data:
            self._end()
        *lines, self._commands = (self._commands + data).split(b"\n")
        for line in lines:
            self._obey(*line.decode().split(" "))

    def _obey(self, verb: str, *words: str) -> None:
        if verb == "listen":
            listener = socket.socket(fileno=self._sockets.popleft())
            listener.setblocking(False)
            self._watch(listener, lambda: self._accept(listener))
        elif verb == "answer":
            self._answer_at(words[0], words[1], socket.socket(fileno=self._sockets.popleft()))
        elif verb == "mute":
            asked = self._answering.pop(words[0])
            self._selector.unregister(asked)
            asked.close()
        elif verb == "close":
            self._forget(words[0], words[1])
        else:
            name, key, interval, *address = words
            where = (address[0], int(address[1])) if address else None
            self._connections[verb, name] = Connection(verb, name, key, float(interval), where)

    def _answer_at(self, name: str, key: str, asked: socket.socket) -> None:
        """Answer questions about the watched process that come to this datagram socket."""
        asked.setblocking(False)
        self._answering[name] = asked
        self._watch(asked, lambda: self._answer(asked, key))

    def _answer(self, asked: socket.socket, key: str) -> None:
        try:
            data, sender = asked.recvfrom(LONGEST_ANSWER + 1)
            said = answer(key, data, *self._owner.word()[:2])
            if said is not None:
                asked.sendto(said, sender)
        except OSError:  # for example, the sender has gone
            pass

    def _forget(self, role: str, name: str) -> None:
        self._pending.pop((role, name), None)
        connection = self._connections.pop((role, name), None)
        if connection is not None and connection.wire is not None:
            self._close(connection.wire)

    def _end(self) -> None:
        """Report the end of the watched process to all peers, and exit."""
        for connection in self._connections.values():
            if connection.wire is not None and connection.connected:
                self._say(connection, ("ended", 0.0, "-"))
        raise SystemExit

    def _tell(self, connection: Connection, state: str, seconds: str, doing: str) -> None:
        """Pass a peer's report on to the watched process.

        While the process does not read, only the latest report of each peer is kept.
        """
        where = connection.role, connection.name
        self._pending[where] = f"{' '.join(where)} {state} {seconds} {doing}\n"
        self._flush()

    def _flush(self) -> None:
        while self._unsent or self._pending:
            if not self._unsent:
                self._unsent = self._pending.pop(next(iter(self._pending))).encode("ascii")
            try:
                self._unsent = self._unsent[self._control.send(self._unsent) :]
            except BlockingIOError:
                break
            except OSError:
                self._end()
        write = selectors.EVENT_WRITE if self._unsent else 0
        self._selector.modify(self._control, selectors.EVENT_READ | write, self._command)

    # Other monitors

    def _beat(self) -> None:
        """Do what is due: send reports, dial, and close connections that are silent or did not identify themselves."""
        now, word = time.monotonic(), self._owner.word()
        changed, self._state = word[0] != self._state, word[0]
        for connection in list(self._connections.values()):
            if connection.wire is None:
                if connection.address is not None and now >= connection.redial_at:
                    self._dial(connection, connection.address)
            elif now > max(connection.heard, connection.wire.since) + _FORGOTTEN * connection.interval:
                self._lose(connection)
            elif connection.connected and (changed or now >= connection.sent + connection.interval):
                self._say(connection, word)
        for wire in [wire for wire in self._strangers if now > wire.since + _PATIENCE]:
            self._close(wire)

    def _say(self, connection: Connection, word: tuple[str, float, str]) -> None:
        assert connection.wire is not None
        connection.sent = time.monotonic()
        try:
            connection.wire.send(connection.line(word))
        except OSError:
            self._lose(connection)

    def _dial(self, connection: Connection, address: tuple[str, int]) -> None:
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        connection.wire = wire = LineSocket(sock)
        if sock.connect_ex(address) not in (0, errno.EINPROGRESS):
            sock.close()
            connection.wire = None
            connection.postpone()
            return
        self._selector.register(
            sock, selectors.EVENT_READ | selectors.EVENT_WRITE, lambda: self._dialled(connection, wire)
        )

    def _dialled(self, connection: Connection, wire: LineSocket) -> None:
        if wire.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lose(connection)
            return
        wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connected = True
        self._selector.modify(wire.sock, selectors.EVENT_READ, lambda: self._hear(connection, wire))
        self._say(connection, self._owner.word())

    def _lose(self, connection: Connection) -> None:
        wire, connection.wire = connection.wire, None
        if wire is not None:
            self._close(wire)
        connection.postpone()

    def _close(self, wire: LineSocket) -> None:
        self._strangers.pop(wire, None)
        self._selector.unregister(wire.sock)
        wire.sock.close()

    def _hear(self, connection: Connection, wire: LineSocket) -> None:
        try:
            for line in wire.lines():
                self._take(connection, line)
        except (OSError, ValueError):
            self._lose(connection)

    def _take(self, connection: Connection, line: str) -> None:
        state, seconds, doing = connection.read(line)
        if connection.is_news(state):
            self._tell(connection, state, seconds, doing)

    def _accept(self, listener: socket.socket) -> None:
        try:
            wire = LineSocket(listener.accept()[0])
        except OSError:
            time.sleep(_FIRST)  # for example, too many open files
            return
        if len(self._strangers) >= _STRANGERS:
            wire.sock.close()
            return
        self._strangers[wire] = None
        self._watch(wire.sock, lambda: self._meet(wire))

    def _meet(self, wire: LineSocket) -> None:
        """Read the first lines of a new TCP connection, which name the connection they belong to."""
        try:
            lines = wire.lines()
            if lines:
                connection = self._connections[ACCEPT, lines[0].partition(" ")[0]]
                words = [connection.read(line) for line in lines]
                self._welcome(connection, wire)
                for word in words:
                    if connection.is_news(word[0]):
                        self._tell(connection, *word)
        except (OSError, ValueError, KeyError):
            self._close(wire)

    def _welcome(self, connection: Connection, wire: LineSocket) -> None:
        """Use the new TCP connection in place of an older one."""
        if connection.wire is not None:
            self._close(connection.wire)
        del self._strangers[wire]
        wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.wire, connection.connected = wire, True
        self._selector.modify(wire.sock, selectors.EVENT_READ, lambda: self._hear(connection, wire))
        self._say(connection, self._owner.word())


def main(control: int, board: int, pid: int) -> None:
    """Watch the process `pid`, which sends commands over the socket `control` and writes into `board`."""
    owner = WatchedProcess(pid, board)
    try:
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        pidfd = -1
    if owner.has_ended:
        return
    Monitor(owner, socket.socket(fileno=control)).run(pidfd)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
