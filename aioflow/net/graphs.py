"""Graphs on their way from a client to its master: what was added since the last time."""

from collections.abc import Mapping
from typing import Any

from aioflow import errors
from aioflow.dtypes import Array
from aioflow.graph import Graph
from aioflow.graphdef import GraphDef, source_of
from aioflow.importing import import_graph_def


def addition(graph: Graph, version: int) -> bytes:
    """The operations that were added since the graph had so many, in msgpack.

    InvalidArgumentError if one of them holds what exists in this process alone.
    """
    try:
        return GraphDef(graph.as_graph_def().node[version:]).to_msgpack()
    except ValueError as error:
        raise errors.InvalidArgumentError(str(error)) from None


def extend(graph: Graph, data: bytes, constants: Mapping[str, Array]) -> None:
    """Add these operations to the graph: all, or none. InvalidArgumentError if one cannot be built here."""
    if not data:
        return
    try:
        graph_def = GraphDef.from_msgpack(data)
        with graph.as_default():
            import_graph_def(graph_def, _known(graph, graph_def), name="")
    except (TypeError, ValueError, KeyError) as error:
        raise errors.InvalidArgumentError(f"the graph cannot be built by the master: {error}") from None


def _known(graph: Graph, graph_def: GraphDef) -> dict[str, Any]:
    """What the operations read that is in the graph already."""
    new = {node.name for node in graph_def.node}
    texts = {text for node in graph_def.node for text in node.input if source_of(text)[0] not in new}
    return {
        text: graph.as_graph_element(text.removeprefix("^")) if text.startswith("^")
        else graph.as_graph_element(text if ":" in text else f"{text}:0")
        for text in texts
    }  # fmt: skip
