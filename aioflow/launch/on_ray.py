"""Tasks on the nodes of a Ray cluster, each beside an actor, which ends with the program that created it."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.agent import Agent
from aioflow.launch.launcher import RESTARTS, Launch, Place


def ray(
    workers: int = 1,
    *,
    ps: int = 0,
    config: Config | None = None,
    py_funcs: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    resources: Mapping[str, float] | None = None,
    restarts: int = RESTARTS,
) -> Launch:
    """Return a cluster on the nodes of the connected Ray cluster, for the time of a block.

        ray.init()
        async with af.launch.ray(workers=4) as cluster:
            async with af.Session(cluster.target, graph=graph) as session:
                ...

    Each task is a process beside a Ray actor, spread evenly. The session connects to the nodes' addresses.

    Args:
        workers: number of tasks of the job `worker`.
        ps: number of tasks of the job `ps`.
        config: configuration of the tasks. `Config(ssl=)` must be a directory of `aioflow ca init`. It and file roots
            are paths on the machines of the tasks; the certificate of each task must name its address.
        py_funcs: the module whose functions `af.py_func` may name on the tasks; they import it there.
        cpus: CPUs that each task takes of its node, as Ray counts them; entering waits for nodes that have them.
        gpus: GPUs that each task takes and sees.
        resources: other resources of each task.
        restarts: the most restarts of each task within ten minutes; 0 for none. If its actor is lost, the task restarts
            beside a new one.

    Raises:
        UnimplementedError: Ray is not installed.
        RuntimeError: this program is not connected to a Ray cluster.
    """
    try:
        import ray as library
    except ImportError:
        raise errors.UnimplementedError("af.launch.ray needs Ray: pip install aioflow-engine[ray]") from None
    if not library.is_initialized():
        raise RuntimeError("this program is not connected to Ray: call ray.init()")
    needs = {"num_cpus": cpus, "num_gpus": gpus, "resources": dict(resources or {})}
    return Launch(_Ray(needs), {"ps": ps, "worker": workers}, config, py_funcs, restarts)


class RayAgent(Agent):
    """An agent that tells its node."""

    async def where(self) -> tuple[str, str]:
        """Return Ray's name of the node, and its address."""
        import ray

        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()


class _Ray:
    """The connected Ray cluster."""

    def __init__(self, needs: Mapping[str, Any]) -> None:
        self._needs: Final = needs

    async def place(self, count: int) -> Sequence[Place]:
        """Create an actor for each task, spread over the nodes. Ray does not restart a lost actor."""
        import ray

        kind = ray.remote(RayAgent).options(max_restarts=0, scheduling_strategy="SPREAD", **self._needs)
        actors = [kind.remote() for _ in range(count)]
        try:
            found = await asyncio.gather(*[actor.where.remote() for actor in actors])
        except BaseException:
            for actor in actors:
                ray.kill(actor)
            raise
        return [_Actor(actor, *where) for actor, where in zip(actors, found, strict=True)]


class _Actor:
    """An agent on a Ray node."""

    def __init__(self, actor: Any, node: str, address: str) -> None:
        self.name: Final = f"the Ray node {node[:8]} at {address}"
        self.host: Final = address
        self._actor: Final = actor

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """Call that method of the actor."""
        answer: Awaitable[str] = getattr(self._actor, method).remote(*arguments)
        return answer

    def release(self) -> None:
        """Kill the actor."""
        import ray

        ray.kill(self._actor)
