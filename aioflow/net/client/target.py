"""From the address of a master to what runs a graph there."""

from aioflow.config import Config
from aioflow.graph.graph import Graph
from aioflow.net.client.client import Address, RemoteEngine
from aioflow.net.transport.access import network_of_client
from aioflow.tensors.recursion import safe_repr


def engine_at(target: str | Address, graph: Graph, config: Config) -> RemoteEngine:
    """What runs a graph by the master at an address `ws://host:port`. ValueError if the target is something else."""
    if isinstance(target, Address):
        return RemoteEngine(target, graph, config)
    if not isinstance(target, str):
        raise TypeError(
            f"target must be text, 'ws://host:2222', not {safe_repr(target)}; pass graph= and config= by name"
        )
    scheme, separator, address = target.partition("://")
    if not separator or scheme not in ("ws", "wss") or not address:
        raise ValueError(f"target {target!r}: '' for this process, or the address of a master, as 'ws://host:2222'")
    return RemoteEngine(Address(address, network_of_client(config, scheme == "wss")), graph, config)
