"""`aioflow trace`: records what the tasks of a cluster do, as one trace."""

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from aioflow import errors
from aioflow.cli.target import PATIENCE, add_target, network_of_target
from aioflow.cli.worker import loop_factory, seconds
from aioflow.tracing import RunMetadata

if TYPE_CHECKING:
    from aioflow.net.transport.channel import Network
    from aioflow.net.wire.schema import Answer, Request

A = TypeVar("A", bound="Answer")
_LONGEST: Final = 3600.0

Run = Callable[[argparse.Namespace], int]


def trace(parser: argparse.ArgumentParser) -> Run:
    """Record what all tasks of a cluster do, as one trace for Perfetto or chrome://tracing."""
    add_target(parser)
    parser.add_argument("--seconds", type=span, default=2.0, help="seconds to record (default: %(default)g)")
    parser.add_argument("-o", "--output", metavar="FILE", default="trace.json", help="default: %(default)s")
    return _run


def span(text: str) -> float:
    """Return the seconds in the text. ValueError if they are not above 0, or more than an hour."""
    found = seconds(text)
    if found > _LONGEST:
        raise ValueError(f"a task records at most {_LONGEST:g} s, not {text}")
    return found


def _run(options: argparse.Namespace) -> int:
    address, network = network_of_target(options.target, options.token_file, options.tls)
    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        written = runner.run(record_trace(address, network, options.seconds))
    written.metadata.write_chrome_trace(options.output)
    print(f"{options.output}: {written}")
    for text in written.absent:
        print(f"aioflow: not traced: {text}", file=sys.stderr)
    return 1 if written.absent else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """The recorded activity of the tasks of a cluster.

    Attributes:
        metadata: their records, with times of this process's clock.
        tasks: the names of the recorded tasks.
        absent: the names of the other tasks, with the causes.
    """

    metadata: RunMetadata
    tasks: tuple[str, ...]
    absent: tuple[str, ...]

    def __str__(self) -> str:
        counts = f"{len(self.metadata.step_stats)} executions and {len(self.metadata.transfers)} transfers"
        return f"{counts}, of {', '.join(self.tasks)}"


async def record_trace(address: str, network: "Network", seconds: float) -> Recording:
    """Record what all tasks of a cluster do from now on. Cancelling leaves nothing on any task.

    Args:
        address: the address of any of its tasks.
        network: the network of the tasks.
        seconds: how long to record.

    Raises:
        OpError: that task does not tell the addresses of the others.
        UnavailableError: no task has answered.
    """
    from aioflow.net.wire.master_verbs import ListTasks
    from aioflow.net.wire.worker_verbs import Trace
    from aioflow.net.worker.introspection import unpack_trace

    listed, _ = await _ask(network, address, "", ListTasks(), PATIENCE)
    tasks = dict(listed.addresses)
    asked = [_ask(network, where, task, Trace(seconds), seconds + PATIENCE) for task, where in tasks.items()]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    metadata, answered, absent = RunMetadata(), [], []
    for (task, where), answer in zip(tasks.items(), answers, strict=True):
        if isinstance(answer, errors.OpError):
            absent.append(f"{task} at {where}: {answer.message}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            unpack_trace(bytes(answer[0].events), metadata, answer[1])
            answered.append(task)
    if not answered:
        raise errors.UnavailableError(f"no task was traced: {'; '.join(absent)}")
    return Recording(metadata, tuple(answered), tuple(absent))


async def _ask(network: "Network", address: str, task: str, request: "Request[A]", limit: float) -> tuple[A, float]:
    """Return a task's answer, and how far its clock is ahead. Without a name, any task may be at the address."""
    from aioflow.net.peer.handshake import connect
    from aioflow.net.wire.identity import Identity

    deadline = asyncio.get_running_loop().time() + limit
    peer = await connect(network, address, Identity(), target=task)
    try:
        return await peer.request(request, deadline=deadline), peer.clock_offset
    finally:
        await peer.close()
