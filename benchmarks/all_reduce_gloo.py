"""All-reduce by Gloo, the CPU backend of torch.distributed: one process of it, which options select.

The first process listens, passes each request on to the others, and answers with seconds.
"""

import argparse
import os
import socket
import statistics
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, Final

from benchmarks import peers
from benchmarks.cluster_processes import free_address, shared_cores, start

REQUEST: Final = struct.Struct("<QQ")
"""The floats of a tensor and the number of calls; the last request has no calls."""
ANSWER: Final = struct.Struct("<d")
HOST: Final = "127.0.0.1"

Calls = Callable[[int, int], float]
"""(floats of a tensor, number of calls) -> median seconds of a call."""


@asynccontextmanager
async def gloo(processes: int) -> AsyncIterator[Calls]:
    """Yield a function that all-reduces in that many processes. ImportError if torch is not installed."""
    peers.torch()
    with ExitStack() as ports:
        meeting, door = free_address(ports), free_address(ports)
    options = ["benchmarks.all_reduce_gloo", "--meeting", meeting, "--door", door, "--size", str(processes)]
    async with AsyncExitStack() as stack:
        await start(stack, [[*options, "--rank", str(rank)] for rank in range(processes)], shared_cores(processes))
        connection = stack.enter_context(socket.create_connection((HOST, port(door))))

        def calls(floats: int, count: int) -> float:
            connection.sendall(REQUEST.pack(floats, count))
            seconds: float = ANSWER.unpack(connection.recv(ANSWER.size, socket.MSG_WAITALL))[0]
            return seconds

        try:
            yield calls
        finally:
            connection.sendall(REQUEST.pack(0, 0))


def port(address: str) -> int:
    """Return the port of an address."""
    return int(address.rpartition(":")[2])


def main() -> None:
    """Be one process of the group."""
    parser = argparse.ArgumentParser()
    for name in ("--meeting", "--door"):
        parser.add_argument(name, required=True)
    for name in ("--rank", "--size"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo"}
    torch = peers.torch()
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://{options.meeting}", rank=options.rank, world_size=options.size
    )
    with ExitStack() as stack:
        client = None
        if options.rank == 0:
            listener = stack.enter_context(socket.create_server((HOST, port(options.door))))
        print("listens", flush=True)
        if options.rank == 0:
            client = stack.enter_context(listener.accept()[0])
        serve(torch, client, options.size)


def serve(torch: Any, client: socket.socket | None, size: int) -> None:
    """Answer requests; only the first process has a client."""
    held: dict[int, Any] = {}
    while True:
        request = torch.zeros(2, dtype=torch.int64)
        if client is not None:
            request = torch.tensor(REQUEST.unpack(client.recv(REQUEST.size, socket.MSG_WAITALL)))
        torch.distributed.broadcast(request, 0)
        floats, count = request.tolist()
        if not count:
            return
        if floats not in held:
            held[floats] = checked(torch, floats, size)
        seconds = statistics.median([timed(torch, held[floats]) for _ in range(count)])
        if client is not None:
            client.sendall(ANSWER.pack(seconds))


def checked(torch: Any, floats: int, size: int) -> Any:
    """Return a tensor of zeros, after a sum that was right."""
    tensor = torch.full([floats], float(torch.distributed.get_rank()))
    torch.distributed.all_reduce(tensor)
    assert tensor.eq(size * (size - 1) / 2).all()
    return tensor.zero_()


def timed(torch: Any, tensor: Any) -> float:
    """Return the seconds of one call, which begins when all processes are there."""
    torch.distributed.barrier()
    begin = time.perf_counter()
    torch.distributed.all_reduce(tensor)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
