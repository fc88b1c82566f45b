"""The process of a task, `python -m aioflow.launch.child`. Lines of JSON on its standard input control it.

    {"host": "10.0.0.7", "port": 0}                             10.0.0.7:43117
    {"cluster": {"worker": [...]}, "job": "worker", ...}        serving
    {"cluster": {"worker": [...]}, "version": 3}

It answers with the lines on the right, or with `!` and the error. The third line gives the addresses after tasks were
restarted; it has no answer. When its input ends, the process stops.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.functions import load_functions
from aioflow.net.server import Server
from aioflow.net.transport.access import network_of_server
from aioflow.net.transport.addresses import join_address
from aioflow.net.transport.credentials import Token

_LONGEST_LINE: Final = 1 << 26
"""The most bytes of a line; the addresses of a million tasks take fewer."""


def main() -> None:
    """Run the task."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # prints of a graph are no answers
    with answers, contextlib.ExitStack() as stack:
        try:
            place = json.loads(sys.stdin.readline())
            reserved = stack.enter_context(_reserve(place["host"], place["port"]))
            print(join_address(place["host"], reserved.getsockname()[1]), file=answers, flush=True)
            order = json.loads(sys.stdin.readline() or "null")
            if order is not None:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(_serve(order, answers, reserved))
        except Exception as error:
            print(f"!{type(error).__name__}: {error}".replace("\n", " "), file=answers, flush=True)
            if isinstance(error, errors.OpError):  # its text suffices without a traceback
                sys.exit(f"aioflow: {error}")
            raise


def _reserve(host: str, port: int) -> socket.socket:
    """Bind that port if it is free, else any. The socket keeps it reserved until the server listens there."""
    if port:
        with contextlib.suppress(OSError):
            return _bind(host, port)
    return _bind(host, 0)


def _bind(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, *_, where = min(found, key=lambda each: each[0] != socket.AF_INET)  # IPv6 only if there is no IPv4
    reserved = socket.socket(family)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(where)
    except BaseException:
        reserved.close()
        raise
    return reserved


async def _serve(order: dict[str, Any], answers: Any, reserved: socket.socket) -> None:
    config = Config(**order["settings"])
    network = network_of_server(config, Token(order["token"]))
    functions = {} if order["py_funcs"] is None else load_functions(order["py_funcs"])
    async with Server(
        order["cluster"], order["job"], order["index"], config, py_funcs=functions, network=network
    ) as server:
        server.update_addresses(order["cluster"], order["version"])
        reserved.close()
        print("serving", file=answers, flush=True)
        ended = asyncio.get_running_loop().create_task(_listen(server))
        asked = asyncio.get_running_loop().create_task(server.join())
        await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, asked):
            task.cancel()
        await asyncio.wait([ended, asked])


async def _listen(server: Server) -> None:
    """Read newer addresses from the standard input. Return at its end."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await reader.readline():
            message = json.loads(line)
            server.update_addresses(message["cluster"], message["version"])
    finally:
        transport.close()


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
