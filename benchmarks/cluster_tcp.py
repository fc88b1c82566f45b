"""The throughput of a TCP loopback connection: a process that sends as many bytes as the client asks for.

Both ends are plain blocking sockets and reuse the same memory for every transfer: no allocation, no protocol. The
sender has written to its memory before: pages that were never written are all one page of zeros, which stays in the
processor's cache, and to send them takes less than to send values.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from benchmarks.cluster_processes import start_one
from benchmarks.harness import Step

ASKED = 8
"""Bytes of a request."""
VALUE = b"\1"


@asynccontextmanager
async def with_tcp(nbytes: int) -> AsyncIterator[Step]:
    """Yield a step that receives that many bytes from another process."""
    async with AsyncExitStack() as stack:
        port = int((await start_one(stack, ["benchmarks.cluster_tcp"], {})).split()[-1])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            memory = memoryview(bytearray(nbytes))

            def step() -> None:
                connection.sendall(nbytes.to_bytes(ASKED, "little"))
                received = 0
                while received < nbytes:
                    received += connection.recv_into(memory[received:])

            yield step


def main() -> None:
    """Serve one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"listens: {listener.getsockname()[1]}", flush=True)
        connection, _ = listener.accept()
    memory = memoryview(b"")
    with connection:
        while asked := connection.recv(ASKED, socket.MSG_WAITALL):
            count = int.from_bytes(asked, "little")
            if len(memory) < count:
                memory = memoryview(VALUE * count)
            connection.sendall(memory[:count])


if __name__ == "__main__":
    main()
