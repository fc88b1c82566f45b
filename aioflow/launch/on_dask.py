"""Tasks on the workers of a Dask cluster, each beside an actor.

An actor belongs to its client: if the client dies, Dask's scheduler drops the actor, and the task ends.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.agent import Agent
from aioflow.launch.launcher import RESTARTS, Launch, Place


def dask(
    client: Any,
    workers: int = 1,
    *,
    ps: int = 0,
    config: Config | None = None,
    py_funcs: str | None = None,
    resources: Mapping[str, float] | None = None,
    restarts: int = RESTARTS,
) -> Launch:
    """Return a cluster on the workers of a Dask cluster, for the time of a block.

        async with af.launch.dask(client, workers=4) as cluster:
            async with af.Session(cluster.target, graph=graph) as session:
                ...

    Each task is a process beside a Dask worker, spread evenly. The session connects to the workers' addresses.

    Args:
        client: a `distributed.Client(asynchronous=True)` of the running loop.
        workers: number of tasks of the job `worker`.
        ps: number of tasks of the job `ps`.
        config: configuration of the tasks. `Config(ssl=)` must be a directory of `aioflow ca init`. It and file roots
            are paths on the machines of the tasks; the certificate of each task must name its address.
        py_funcs: the module whose functions `af.py_func` may name on the tasks; they import it there.
        resources: the needs of each task, such as {"GPU": 1}; entering waits for Dask workers that have them.
        restarts: the most restarts of each task within ten minutes; 0 for none. If its Dask worker is lost, and no
            nanny has replaced it, the task restarts on another one.

    Raises:
        UnimplementedError: Dask is not installed.
        TypeError, ValueError: `client` is not a client, or not asynchronous.
    """
    try:
        import distributed
    except ImportError:
        raise errors.UnimplementedError("af.launch.dask needs distributed: pip install aioflow-engine[dask]") from None
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client must be a distributed.Client, not {client!r}")
    if not client.asynchronous:
        raise ValueError("the client is not asynchronous: await distributed.Client(address, asynchronous=True)")
    return Launch(_Dask(client, dict(resources or {})), {"ps": ps, "worker": workers}, config, py_funcs, restarts)


class _Dask:
    """A Dask cluster, reached through a client."""

    def __init__(self, client: Any, resources: Mapping[str, float]) -> None:
        self._client: Final = client
        self._resources: Final = resources

    async def place(self, count: int) -> Sequence[Place]:
        """Create an actor for each task; Dask puts it on the worker with the fewest."""
        futures = [
            self._client.submit(Agent, actor=True, pure=False, resources=self._resources or None) for _ in range(count)
        ]
        try:
            actors = await asyncio.gather(*futures)
            held = await self._client.who_has(futures)
        except BaseException:
            for future in futures:
                future.release()
            raise
        addresses = [held[future.key][0] for future in futures]
        return [_Actor(*each) for each in zip(futures, actors, addresses, strict=True)]


class _Actor:
    """An agent on a Dask worker."""

    def __init__(self, future: Any, actor: Any, address: str) -> None:
        from distributed.comm import get_address_host

        self.name: Final = f"the Dask worker {address}"
        self.host: Final = "127.0.0.1" if address.startswith("inproc:") else get_address_host(address)
        self._future: Final = future
        self._actor: Final = actor

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """Call that method of the actor."""
        answer: Awaitable[str] = getattr(self._actor, method)(*arguments)
        return answer

    def release(self) -> None:
        """Let Dask delete the actor."""
        self._future.release()
