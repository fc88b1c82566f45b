"""Makes the engine of a session from the address of a master."""

from aioflow.config import Config
from aioflow.graph.graph import Graph
from aioflow.net.client.client import Address, RemoteEngine
from aioflow.net.transport.access import network_of_client
from aioflow.tensors.recursion import safe_repr


def engine_at(target: str | Address, graph: Graph, config: Config) -> RemoteEngine:
    """Return the engine for a master at `ws://host:port` or `wss://host:port`. ValueError for another target."""
    if isinstance(target, Address):
        return RemoteEngine(target, graph, config)
    if not isinstance(target, str):
        raise TypeError(
            f"target must be text, 'ws://host:2222', not {safe_repr(target)}; pass graph= and config= by name"
        )
    scheme, separator, address = target.partition("://")
    if not separator or scheme not in ("ws", "wss") or not address:
        raise ValueError(f"target {target!r}: '' for this process, or the address of a master, as 'ws://host:2222'")
    return RemoteEngine(Address(address, lambda own: network_of_client(own, scheme == "wss")), graph, config)
