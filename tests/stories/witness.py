"""A cluster that is watched: what its hosts say to each other, and which of them ran what."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import aioflow as af
from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.wire.codec import announcement
from aioflow.net.wire.framing import Frame
from aioflow.net.wire.limits import Limits
from aioflow.testing.hosts import current_host
from aioflow.testing.simulated_cluster import SimulatedCluster

PS, FIRST, SECOND = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
JOBS = {"master": 1, "ps": 1, "worker": 2}
LATENCY = 1e-3
WORKERS = af.Config(device_filters=["/job:ps", "/job:worker"])
"""A session that has its master do nothing else."""
UPKEEP = frozenset({"Hello", "Welcome", "Ping", "Pong", "Credit", "Drop", "Goodbye"})
"""What keeps a connection up; the rest is what hosts have to say."""
PLANS = frozenset({"CreateSession", "ExtendSession", "RegisterGraph"})
"""What carries graphs, before any step."""


@dataclasses.dataclass
class Sent:
    """A message.

    Attributes:
        source: the host that sent it.
        target: the host that it was sent to.
        verb: what it is.
        at: when it was sent, on the loop's clock.
        size: all of its bytes.
        values: those of the tensors, or of the graph, in it.
        tensors: those of each of them.
        keys: how many values it asks for, or brings unasked.
    """

    source: str
    target: str
    verb: str
    at: float
    size: int
    values: int
    tensors: tuple[int, ...]
    keys: int


class Witness:
    """Writes down every message between the hosts of a network."""

    def __init__(self, network: MemoryNetwork, hosts: Sequence[str]) -> None:
        self._heard: list[Sent] = []
        for source in hosts:
            for target in hosts:
                network.path(source, target).sent = self._ear(source, target)

    def _ear(self, source: str, target: str) -> Callable[[Frame], None]:
        follows = 0

        def hear(frame: Frame) -> None:
            nonlocal follows
            if follows:  # raw bytes come right behind the head that announces them
                values = len(frame)
                follows -= values
            else:
                announced = announcement(bytes(frame), Limits())
                values, follows = len(announced.inline), announced.header.follows
                at, tensors = asyncio.get_running_loop().time(), tuple([value.nbytes for value in announced.values])
                keys = len(dict(zip(announced.record.fields, announced.header.fields, strict=True)).get("keys", ()))
                self._heard.append(Sent(source, target, announced.record.name, at, 0, 0, tensors, keys))
            self._heard[-1].size += len(frame)
            self._heard[-1].values += values

        return hear

    def forget(self) -> None:
        """What was said so far does not count."""
        self._heard.clear()

    def heard(self, *verbs: str, source: str = "", target: str = "") -> list[Sent]:
        """The messages of these kinds, or all but upkeep; from and to these hosts, or all."""
        return [
            sent
            for sent in self._heard
            if (sent.verb in verbs if verbs else sent.verb not in UPKEEP)
            and source in ("", sent.source)
            and target in ("", sent.target)
        ]

    def values(self, source: str = "", target: str = "") -> int:
        """The bytes of tensors that steps sent from one host to another, or from and to all."""
        return sum([sent.values for sent in self.heard(source=source, target=target) if sent.verb not in PLANS])


class World(SimulatedCluster):
    """A cluster whose tasks have a function `mark`, which a graph calls by `marked`.

    Attributes:
        witness: what the hosts say to each other.
        ran: how often `mark` was called, by host.
    """

    def __init__(self, jobs: dict[str, int] = JOBS, config: af.Config | None = None) -> None:
        self.ran: Counter[str] = Counter()
        super().__init__(jobs, latency=LATENCY, config=config, py_funcs={"mark": self._mark})
        hosts = [address for job in self.spec.jobs for address in self.spec.job_tasks(job)]
        self.witness = Witness(self.network, ["client", "another", *hosts])

    async def _mark(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.ran[current_host()] += 1
        return np.copy(x)

    @property
    def steps(self) -> list[str]:
        """The hosts on which something is left of a step."""
        return [host for host, server in self.servers.items() if server._worker.step_table.open]


def marked(x: Any, name: str | None = None) -> af.Tensor:
    """The same float, once the task that computes it has been noted."""
    x = af.convert_to_tensor(x)
    tensor: af.Tensor = af.py_func("mark", [x], af.float32, name=name)
    tensor.set_shape(x.shape)
    return tensor


async def settled() -> None:
    """Whatever is on its way has arrived."""
    await asyncio.sleep(0.1)


async def elapsed(run: Any) -> float:
    """How many seconds an awaitable took."""
    clock = asyncio.get_running_loop().time
    began = clock()
    await run
    return clock() - began
