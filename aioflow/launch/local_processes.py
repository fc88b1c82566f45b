"""Tasks as processes on this machine."""

import os
from collections.abc import Awaitable, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.launch.agent import Agent
from aioflow.launch.launcher import RESTARTS, Launch, Place

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that limit the threads of a matrix product, in different libraries."""


def local(
    workers: int = 1,
    *,
    ps: int = 0,
    config: Config | None = None,
    py_funcs: str | None = None,
    restarts: int = RESTARTS,
) -> Launch:
    """Return a cluster of processes on this machine, for the time of a block.

        async with af.launch.local(workers=2, ps=1) as cluster:
            async with af.Session(cluster.target, graph=graph) as session:
                ...

    The tasks listen on the loopback address and require a token: the one in `Config(token_file=)`, or else a new one.
    The tasks divide the cores for matrix products, unless a variable such as OMP_NUM_THREADS sets the threads of each:
    if each task used all cores, tasks would slow each other down.

    Args:
        workers: number of tasks of the job `worker`.
        ps: number of tasks of the job `ps`.
        config: configuration of the tasks. `Config(ssl=)` must be a directory of `aioflow ca init`.
        py_funcs: the module whose functions `af.py_func` may name on the tasks; the tasks import it.
        restarts: the most restarts of each task within ten minutes; 0 for none.

    Examples:
        >>> launch = af.launch.local(workers=2, ps=1)
        >>> type(launch)
        <class 'aioflow.launch.launcher.Launch'>
    """
    return Launch(_LocalEngine(), {"ps": ps, "worker": workers}, config, py_funcs, restarts)


class _LocalEngine:
    """This machine."""

    _placed = 0

    async def place(self, count: int) -> Sequence[Place]:
        """Return `count` agents in this process."""
        self._placed = max(self._placed, count)
        threads = max(1, (os.cpu_count() or 1) // self._placed)
        return [_LocalPlace(threads) for _ in range(count)]


class _LocalPlace:
    """An agent in this process."""

    name: Final = "this machine"
    host: Final = "127.0.0.1"

    def __init__(self, threads: int) -> None:
        self._agent: Final = Agent(dict.fromkeys(THREADS, str(threads)))

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """Call that method of the agent."""
        answer: Awaitable[str] = getattr(self._agent, method)(*arguments)
        return answer

    def release(self) -> None:
        """Do nothing: the agent has stopped."""
