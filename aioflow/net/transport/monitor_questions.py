"""Questions to the monitor of a process that is not connected yet, and the answers of this process's monitor.

A question is a datagram to the UDP port that has the number of the TCP port at which the process listens. So the
address of the process is enough to ask. Both datagrams are signed by a key that is derived from the token; without a
token anyone may ask. An answer has the state of the process, and no names of kernels.
"""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.net.transport import monitor_process
from aioflow.net.transport.addresses import split_address
from aioflow.net.transport.credentials import Token
from aioflow.net.transport.liveness import MonitorMessage, State, message_interval
from aioflow.net.transport.monitor import Monitor, QuestionAnswerer, with_monitor

_PUBLIC: Final = "00" * 16
"""The key of tasks without a token."""
_ANY: Final[dict[int, str]] = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
_STATES: Final = {state.value: state for state in State}


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
        for wire in wires.values():
            wire.close()


class _Questions(asyncio.DatagramProtocol):
    """The questions to one monitor. Only the answer to the latest one counts."""

    def __init__(self, key: str, on_message: Callable[[MonitorMessage], None]) -> None:
        self._key: Final = key
        self._on_message: Final = on_message
        self._nonce = ""

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
