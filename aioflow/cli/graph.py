"""`aioflow graph`: a stored graph as a tree of name scopes, or for Graphviz."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.cli.scope_tree import dot, scope_of, tree
from aioflow.cli.tables import Line, drawn

if TYPE_CHECKING:
    from aioflow.graph.graphdef import GraphDef

_WIDEST: Final = 100_000
Run = Callable[[argparse.Namespace], int]


def graph(parser: argparse.ArgumentParser) -> Run:
    """Show a stored graph, or that of a saved model, as a tree of name scopes."""
    parser.add_argument("path", metavar="FILE", help="a GraphDef as JSON or msgpack, or the directory of a saved model")
    parser.add_argument(
        "--depth", metavar="N", type=_depth, default=2, help="levels of scopes that are open (default: %(default)s)"
    )
    parser.add_argument("--dot", action="store_true", help="print the graph in the language of Graphviz instead")
    return _run


def _depth(text: str) -> int:
    """Return the number in the text. ValueError if it is negative."""
    found = int(text)
    if found < 0:
        raise ValueError(f"{found} levels cannot be open")
    return found


def _run(options: argparse.Namespace) -> int:
    from aioflow.dashboard.graph_source import graph_message
    from aioflow.graph.graph import Graph
    from aioflow.graph.import_graph_def import import_graph_def
    from aioflow.graph.op import REGISTRY

    REGISTRY.complete()
    found = Graph()
    try:
        with found.as_default():
            import_graph_def(read_graph(options.path), name="")
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"{options.path} holds no graph: {error}") from None
    message = graph_message(found)
    if options.dot:
        print("\n".join(dot(message)))
        return 0
    lines = [Line(line) for line in tree(scope_of(message), options.depth)]
    print("\n".join(drawn(lines, _WIDEST, colour=sys.stdout.isatty())))
    return 0


def read_graph(path: str) -> "GraphDef":
    """Return the graph in a file, or that of the saved model in a directory.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no graph.
        OpError: the saved model is damaged, or of another version.
    """
    from aioflow.graph.graphdef import GraphDef
    from aioflow.saved_model.reading import read

    if os.path.isdir(path):
        return read(path).graph_def
    data = Path(path).read_bytes()
    return GraphDef.from_json(data) if data.lstrip()[:1] == b"{" else GraphDef.from_msgpack(data)
