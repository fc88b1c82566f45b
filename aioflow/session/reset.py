"""Empties shared containers of this process or of a cluster."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aioflow.config import Config
from aioflow.graph.graph import Graph
from aioflow.resources.containers import drop_shared
from aioflow.session.session import open_sessions

if TYPE_CHECKING:
    from aioflow.net.client.client import Address


async def reset(
    containers: Iterable[str] | None = None, target: "str | Address" = "", config: Config | None = None
) -> None:
    """Reset the named containers, by default all: release their state, and close the sessions that use them.

    A later session that names one of them finds it empty. Sessions of other loops are closed there. With a target, the
    containers of all tasks of that cluster are reset, without names also their default ones. The sessions of that
    master end, and those of other masters find the containers empty.

    Args:
        containers: the names of the containers.
        target: the address of a cluster's master; empty for this process.
        config: the configuration for connecting to it.

    Examples:
        >>> with af.container("trial"):
        ...     state = af.Variable(1)
        >>> await session.run(state.initializer)
        >>> await af.reset(["trial"])
    """
    if isinstance(containers, str):
        raise TypeError(f"containers are a list of names, not {containers!r}")
    if target:
        from aioflow.net.client.target import engine_at  # needs packages that a local session does not

        await engine_at(target, Graph(), config or Config()).reset(tuple(containers or ()))
        return
    dropped = drop_shared(containers)
    try:
        await asyncio.gather(*[session.leave(dropped) for session in open_sessions()])
    finally:
        for container in dropped:
            container.clear()
