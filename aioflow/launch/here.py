"""Tasks as processes of this machine."""

import os
from collections.abc import Awaitable, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.launch.agent import Agent
from aioflow.launch.launcher import RESTARTS, Launch, Place

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What says how many threads a product of matrices may use, to one library or another."""


def local(
    workers: int = 1,
    *,
    ps: int = 0,
    config: Config | None = None,
    py_funcs: str | None = None,
    restarts: int = RESTARTS,
) -> Launch:
    """A cluster of processes on this machine, for the time of a block.

        async with af.launch.local(workers=2, ps=1) as cluster:
            async with af.Session(cluster.target, graph=graph) as session:
                ...

    They listen on the loopback, and ask for a token: that of `Config(token_file=)`, or else one made for this launch.
    They share the cores for products of matrices, unless a variable such as OMP_NUM_THREADS says how many each may use:
    with all of them for each, tasks of one machine hold each other up.

    Args:
        workers: how many tasks the job `worker` has.
        ps: how many the job `ps` has.
        config: how the tasks work. `Config(ssl=)` is a directory of `aioflow ca init` then.
        py_funcs: the module whose functions `af.py_func` may name on the tasks; they import it.
        restarts: the most restarts of each task within ten minutes; 0 for none.
    """
    return Launch(_Here(), {"ps": ps, "worker": workers}, config, py_funcs, restarts)


class _Here:
    """This machine."""

    _placed = 0

    async def place(self, count: int) -> Sequence[Place]:
        """An agent for each, all of them in this process."""
        self._placed = max(self._placed, count)
        threads = max(1, (os.cpu_count() or 1) // self._placed)
        return [_Child(threads) for _ in range(count)]


class _Child:
    """An agent in this process."""

    name: Final = "this machine"
    host: Final = "127.0.0.1"

    def __init__(self, threads: int) -> None:
        self._agent: Final = Agent(dict.fromkeys(THREADS, str(threads)))

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """What that method of the agent returns."""
        answer: Awaitable[str] = getattr(self._agent, method)(*arguments)
        return answer

    def release(self) -> None:
        """It has stopped."""
