"""From a file or bytes to nodes. Names and edges are checked before anything is built."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.kernels.data.message import Message
from aioflow.tensorflow_files import messages
from aioflow.tensorflow_files.nodes import Function, GraphFile, Node, Nodes, Source

M = TypeVar("M", bound=Message)
_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*")
_MOST: Final = 10**6


def read_graph(path_or_bytes: Path) -> GraphFile:
    """Return the graph in a file, or in bytes. DataLossError if it is none, NotFoundError if there is no such file."""
    if isinstance(path_or_bytes, bytes):
        return graph_of(parsed(messages.GraphDef, path_or_bytes, f"{len(path_or_bytes)} bytes"))
    return graph_of(parsed(messages.GraphDef, FILES.read(path_or_bytes), repr(as_name(path_or_bytes))))


def parsed(kind: type[M], data: bytes, where: str) -> M:
    """Return the message in these bytes. DataLossError if they are damaged, or hold something else."""
    try:
        return kind.FromString(data)
    except ValueError as error:
        text = " as write_graph(as_text=False) of TensorFlow writes it" if kind is messages.GraphDef else ""
        raise errors.DataLossError(f"{where}: no {kind.__name__} of TensorFlow{text}: {error}") from None


def graph_of(message: messages.GraphDef) -> GraphFile:
    """Return the graph of a message. DataLossError for names or edges that no graph has."""
    if not message.node:
        raise errors.DataLossError("a GraphDef of TensorFlow has nodes, and this one has none")
    functions = [_function(each) for each in message.library.function]
    return GraphFile(_nodes(message.node, "the graph"), {each.name: each for each in functions})


def _nodes(given: Iterable[messages.NodeDef], where: str, arguments: Iterable[str] = ()) -> Nodes:
    found: dict[str, Node] = {}
    for message in given:
        node = _node(message, where)
        if node.name in found:
            raise errors.DataLossError(f"{where} has two nodes {node.name!r}")
        found[node.name] = node
    known = {*found, *arguments}
    for node in found.values():
        for name in node.before:
            if name not in known:
                raise errors.DataLossError(f"node {node.name!r} of {where} needs {name!r}, which is not there")
    return found


def _node(message: messages.NodeDef, where: str) -> Node:
    name, op = message.name, message.op
    if not _NAME.fullmatch(name) or not op:
        raise errors.DataLossError(f"{where} has a node {name!r} of op {op!r}: no name and op of TensorFlow")
    inputs = [text for text in message.input if not text.startswith("^")]
    controls = [text[1:] for text in message.input if text.startswith("^")]
    return Node(name, op, tuple([source_of(text, name) for text in inputs]), tuple(controls), message.attr)


def source_of(text: str, where: str) -> Source:
    """Return the output that `node`, `node:place` or, in a function, `node:result:place` stands for."""
    node, *rest = text.split(":")
    if not rest:
        return Source(node)
    place = int(rest[-1]) if rest[-1].isdecimal() and len(rest[-1]) < 8 else _MOST
    if place >= _MOST or len(rest) > 2:
        raise errors.DataLossError(f"{where!r} has the input {text!r}, which is no output of a node")
    return Source(node, place, rest[0] if len(rest) == 2 else "")


def _function(message: messages.FunctionDef) -> Function:
    name = message.signature.name
    arguments = tuple([each.name for each in message.signature.input_arg])
    nodes = _nodes(message.node_def, f"function {name!r}", arguments)
    results = [_result(message.ret, each.name, name) for each in message.signature.output_arg]
    known = {*nodes, *arguments}
    if strange := [each.node for each in results if each.node not in known]:
        raise errors.DataLossError(f"function {name!r} returns {strange[0]!r}, which is not there")
    controls = tuple([each for each in message.control_ret.values() if each in nodes])
    return Function(name, arguments, nodes, tuple(results), controls)


def _result(results: Mapping[str, Any], result: str, function: str) -> Source:
    if result not in results:
        raise errors.DataLossError(f"function {function!r} does not say what its result {result!r} is")
    return source_of(results[result], function)
