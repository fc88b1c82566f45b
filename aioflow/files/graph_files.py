"""Graphs in files of their own: `write_graph`."""

import os

from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.graph.graph import Graph
from aioflow.graph.graphdef import GraphDef
from aioflow.tensors.recursion import safe_repr


def write_graph(graph_or_graph_def: Graph | GraphDef, logdir: Path, name: str, as_text: bool = True) -> str:
    """Write a graph to the file `name` of a directory, which it makes if it is missing. Returns the path. Blocks.

    The file has the text of `GraphDef.to_json`, or the bytes of `GraphDef.to_msgpack`; `from_json` and `from_msgpack`
    read them. It has no values of variables and no collections: `export_meta_graph` writes these, too.

    Args:
        graph_or_graph_def: the graph.
        logdir: the directory, on this machine, or a URL.
        name: the name of the file.
        as_text: whether to write text.

    Raises:
        ValueError: an operation exists in this process alone, as the function of a `py_func`.
        PermissionDeniedError, ResourceExhaustedError: the file may not be written, or the disk is full.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     total = af.add(1, 2, name="total")
        >>> path = af.io.write_graph(graph, "graphs", "sum.json")
        >>> with af.gfile.GFile(path) as file:
        ...     nodes = af.GraphDef.from_json(file.read()).node
        >>> [node.name for node in nodes]
        ['constant', 'constant_1', 'total']
    """
    found = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    if not isinstance(found, GraphDef):
        raise TypeError(f"a graph or a GraphDef is needed, not {safe_repr(graph_or_graph_def)}")
    path = os.path.join(as_name(logdir), name)
    FILES.write(path, found.to_json().encode() if as_text else found.to_msgpack())
    return path
