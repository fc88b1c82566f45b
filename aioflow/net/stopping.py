"""Asking the tasks of a cluster to stop."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.net.cluster import ClusterSpec
from aioflow.net.peer.handshake import connect
from aioflow.net.transport.access import network_of_client
from aioflow.net.transport.channel import Network, NotListeningError
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.worker_verbs import Stop

_log: Final = logging.getLogger("aioflow.net")


async def stop_servers(
    cluster: ClusterSpec | Mapping[str, Any], config: Config | None = None, reason: str = ""
) -> None:
    """Ask all tasks of a cluster to stop: `Server.join` returns there.

    A task whose address has no listening process counts as stopped.

    Args:
        cluster: the tasks.
        config: credentials, and the time limit: `operation_timeout`, or else `close_timeout`.
        reason: the reason in the logs of the tasks.

    Raises:
        UnavailableError: some tasks, which the error names, could not be reached. All others were asked.
    """
    config = config or Config()
    network = network_of_client(config, config.ssl is not None)
    limit = config.close_timeout if config.operation_timeout is None else config.operation_timeout
    tasks = dict(ClusterSpec(cluster))
    asked = await asyncio.gather(*[_stop(network, *task, limit, reason) for task in tasks.items()])
    if absent := [text for text in asked if text]:
        raise errors.UnavailableError(f"of {len(tasks)} tasks {len(absent)} could not be asked: {'; '.join(absent)}")


async def _stop(network: Network, task: str, address: str, limit: float, reason: str) -> str:
    """Ask one task to stop. Returns a text about the failure, empty for success."""
    try:
        async with asyncio.timeout(limit):
            peer = await connect(network, address, Identity(), target=task)
            try:
                await peer.request(Stop(reason))
            finally:
                await peer.close()
    except errors.OpError as error:
        if isinstance(error.__cause__, NotListeningError):
            _log.warning("%s at %s is down already: no process listens there", task, address)
            return ""
        return f"{task} at {address}: {error.message}"
    except TimeoutError:
        return f"{task} at {address} did not answer within {limit:g} s"
    return ""
