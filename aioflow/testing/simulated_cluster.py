"""A whole cluster in one process and one loop: servers that reach each other over a network in memory.

    async with SimulatedCluster({"ps": 1, "worker": 2}, latency=1e-3) as cluster:
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            ...
            await cluster.crash("worker", 1)

On a virtual-time loop no time passes, and the same program takes the same turns every time, faults included.
"""

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from aioflow.config import Config
from aioflow.net.client import Address
from aioflow.net.cluster import ClusterSpec
from aioflow.net.identity import Settings
from aioflow.net.memory import MemoryNetwork
from aioflow.net.server import Server


class SimulatedCluster:
    """Servers by name.

    Attributes:
        network: how they reach each other; its faults are for the test to cause, between hosts like `worker1`.
        spec: the cluster.
        servers: those that run, by host.
    """

    def __init__(
        self,
        jobs: Mapping[str, int],
        *,
        latency: float = 0.0,
        bandwidth: float = float("inf"),
        config: Config | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Describe it.

        Args:
            jobs: how many tasks each job has.
            latency: seconds that each frame takes.
            bandwidth: bytes a second, of each channel.
            config: how the servers work.
            settings: how they treat each other.
        """
        self.network: Final = MemoryNetwork(latency, bandwidth)
        self.spec: Final = ClusterSpec({job: [f"{job}{i}" for i in range(count)] for job, count in jobs.items()})
        self.servers: Final[dict[str, Server]] = {}
        self._config: Final = config
        self._settings: Final = settings or Settings()

    async def __aenter__(self) -> Self:
        """All servers listen."""
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.stop)
            for job in self.spec.jobs:
                for index in self.spec.task_indices(job):
                    await self.start(job, index)
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def target(self, job: str, index: int, client: str = "client") -> Address:
        """What `af.Session` takes to have that task as its master; `client` is the host of the session."""
        return Address(self.spec.task_address(job, index), self.network.at(client), self._settings)

    async def start(self, job: str, index: int) -> Server:
        """Start a server, or start it anew."""
        host = self.spec.task_address(job, index)
        network = self.network.at(host)
        server = Server(self.spec, job, index, self._config, network=network, settings=self._settings)
        self.servers[host] = await server.__aenter__()
        return server

    async def crash(self, job: str, index: int) -> None:
        """Its process is killed: nobody hears a word of it, but that its connections are lost."""
        host = self.spec.task_address(job, index)
        self.network.crash(host)
        await self.servers.pop(host).stop()

    async def stop(self) -> None:
        """All servers stop, in order."""
        while self.servers:
            _, server = self.servers.popitem()
            await server.stop()


__all__ = ["SimulatedCluster"]
