"""Tasks as processes of this machine."""

from collections.abc import Awaitable, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.launch.agent import Agent
from aioflow.launch.launcher import Launch, Place


def local(workers: int = 1, *, ps: int = 0, config: Config | None = None, py_funcs: str | None = None) -> Launch:
    """A cluster of processes on this machine, for the time of a block.

        async with af.launch.local(workers=2, ps=1) as cluster:
            async with af.Session(cluster.target, graph=graph) as session:
                ...

    They listen on the loopback, and ask for a token: that of `Config(token_file=)`, or else one made for this launch.

    Args:
        workers: how many tasks the job `worker` has.
        ps: how many the job `ps` has.
        config: how the tasks work. `Config(ssl=)` is a directory of `aioflow ca init` then.
        py_funcs: the module whose functions `af.py_func` may name on the tasks; they import it.
    """
    return Launch(_Here(), {"ps": ps, "worker": workers}, config, py_funcs)


class _Here:
    """This machine."""

    async def place(self, count: int) -> Sequence[Place]:
        """An agent for each, all of them in this process."""
        return [_Child() for _ in range(count)]


class _Child:
    """An agent in this process."""

    name: Final = "this machine"
    host: Final = "127.0.0.1"

    def __init__(self) -> None:
        self._agent: Final = Agent()

    def ask(self, method: str, *arguments: object) -> Awaitable[str]:
        """What that method of the agent returns."""
        answer: Awaitable[str] = getattr(self._agent, method)(*arguments)
        return answer

    def release(self) -> None:
        """It has stopped."""


__all__ = ["local"]
