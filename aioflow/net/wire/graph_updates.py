"""Encodes the operations that a client adds to its graph, and adds them to the graph of the master."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.graph import Graph
from aioflow.graph.graphdef import GraphDef, NodeDef, parse_source
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.tensors.dtypes import Array

MOST: Final = 1 << 28
"""The most bytes of a graph. Unpacked, it takes many times as much memory."""
_LARGE: Final = 1 << 16
"""Bytes: larger constants are sent as values are, from where they lie."""


def addition(graph: Graph, since: int, until: int) -> tuple[bytes, dict[str, Array]]:
    """Return the operations from number `since` to `until` in msgpack, and the values of large constants.

    InvalidArgumentError if an operation holds an object that exists only in this process.
    """
    try:
        nodes = graph.as_graph_def(since).node[: until - since]
        constants = {node.name: node.attr["value"] for node in nodes if _is_large(node)}
        light = [_with_value(node, "") if node.name in constants else node for node in nodes]
        return GraphDef(tuple(light)).to_msgpack(), constants
    except ValueError as error:
        raise errors.InvalidArgumentError(str(error)) from None


def _is_large(node: NodeDef) -> bool:
    value = node.attr.get("value") if node.op == "constant" else None
    return isinstance(value, np.ndarray) and value.nbytes > _LARGE


def _with_value(node: NodeDef, value: Any) -> NodeDef:
    return dataclasses.replace(node, attr={**node.attr, "value": value})


def extend(graph: Graph, data: bytes, constants: Mapping[str, Array]) -> None:
    """Add these operations to the graph, all or none. InvalidArgumentError if one cannot be built in this process."""
    if not data:
        return
    if len(data) > MOST:
        raise errors.InvalidArgumentError(
            f"a graph of {len(data)} bytes is more than {MOST}; large constants go beside"
        )
    try:
        nodes = GraphDef.from_msgpack(data).node
        whole = [_with_value(node, constants[node.name]) if node.name in constants else node for node in nodes]
        graph_def = GraphDef(tuple(whole))
        with graph.as_default():
            import_graph_def(graph_def, _known(graph, graph_def), name="")
    except (TypeError, ValueError, KeyError) as error:
        raise errors.InvalidArgumentError(f"the graph cannot be built by the master: {error}") from None


def _known(graph: Graph, graph_def: GraphDef) -> dict[str, Any]:
    """Return the elements of the graph that the new operations read."""
    new = {node.name for node in graph_def.node}
    texts = {text for node in graph_def.node for text in node.input if parse_source(text)[0] not in new}
    return {
        text: graph.as_graph_element(text.removeprefix("^")) if text.startswith("^")
        else graph.as_graph_element(text if ":" in text else f"{text}:0")
        for text in texts
    }  # fmt: skip
