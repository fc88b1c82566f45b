"""Reads a meta graph of TensorFlow 1: a graph with its collections and its Saver.

The operations of Savers are not built: they say which tensor of a checkpoint each variable has, and a Saver of aioflow
does the rest.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from aioflow import errors
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.kernels.data import tensor_wire
from aioflow.tensorflow_files import messages
from aioflow.tensorflow_files.nodes import GraphFile, Node, Nodes, Source
from aioflow.tensorflow_files.ordering import needed, origin
from aioflow.tensorflow_files.reading import graph_of, parsed
from aioflow.train.checkpoint_messages import SaverDef

_OF_SAVERS = frozenset({
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename", "ShardedFilespec", "Save", "SaveSlices", "Restore",
    "RestoreSlice",
})  # fmt: skip
_READS = ("Identity", "ReadVariableOp")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorFlowMetaGraph:
    """A meta graph of TensorFlow, read and checked.

    Attributes:
        where: its file.
        graph: its graph, without the operations of Savers.
        collections: its collections by name.
        saver: the options of its Saver; None if it has none.
        saved: the variables that its Saver saves, by the names in checkpoints: one, or parts in their order.
    """

    where: str
    graph: GraphFile
    collections: Mapping[str, messages.Collection]
    saver: SaverDef | None
    saved: Mapping[str, Sequence[str]]


def is_meta_graph_file(path: Path) -> bool:
    """Whether there is a file of this name, as TensorFlow writes one, and no folder. Blocks."""
    return FILES.exists(path) and FILES.size(path) is not None


def read_meta_graph(path: Path) -> TensorFlowMetaGraph:
    """Return the content of a file. Blocks.

    Raises:
        DataLossError: it is no meta graph, or is damaged.
        NotFoundError: there is no such file.
    """
    where = repr(as_name(path))
    meta = parsed(messages.MetaGraph, FILES.read(path), where)
    whole = graph_of(meta.graph_def)
    saver = meta.saver_def if meta.HasField("saver_def") else None
    graph = GraphFile(_without_savers(whole.nodes, saver), whole.functions)
    saved = {} if saver is None else _saved(whole.nodes, saver, where)
    return TensorFlowMetaGraph(where, graph, dict(meta.collection_def), saver, saved)


def _without_savers(nodes: Nodes, saver: SaverDef | None) -> Nodes:
    """The nodes but those of Savers, and those that need them. A Saver has a scope of its own."""
    scope = "" if saver is None else saver.restore_op_name.rpartition("/")[0]
    left_out = {
        name for name, node in nodes.items() if node.op in _OF_SAVERS or (scope and name.startswith(f"{scope}/"))
    }
    followers: dict[str, list[str]] = {}
    for node in nodes.values():
        for each in node.before:
            followers.setdefault(each, []).append(node.name)
    todo = [*left_out]
    while todo:
        more = {name for name in followers.get(todo.pop(), ()) if name not in left_out}
        left_out |= more
        todo += more
    return {name: node for name, node in nodes.items() if name not in left_out}


def _saved(nodes: Nodes, saver: SaverDef, where: str) -> dict[str, list[str]]:
    """The variables that a Saver saves, by the names in checkpoints."""
    found: dict[str, list[tuple[list[int], str]]] = {}
    for node in needed(nodes, [saver.save_tensor_name.partition(":")[0]]).values():
        if node.op == "SaveV2":
            for name, piece, variable in _tensors(nodes, node, where):
                found.setdefault(name, []).append((_begin(piece), variable))
    return {name: [variable for _, variable in sorted(parts)] for name, parts in found.items()}


def _tensors(nodes: Nodes, node: Node, where: str) -> Iterator[tuple[str, str, str]]:
    names, pieces = (_texts(nodes, source) for source in node.inputs[1:3])
    tensors = node.inputs[3:]
    if not len(names) == len(pieces) == len(tensors):
        raise errors.DataLossError(f"{where}: node {node.name!r} saves {len(tensors)} tensors by {len(names)} names")
    for name, piece, source in zip(names, pieces, tensors, strict=True):
        yield name, piece, _variable(nodes, source)


def _variable(nodes: Nodes, source: Source) -> str:
    """The variable that a tensor is read from."""
    for _ in nodes:
        node = nodes.get(source.node)
        if node is None or node.op not in _READS or not node.inputs:
            break
        source = node.inputs[0]
    return source.node


def _texts(nodes: Nodes, source: Source) -> list[str]:
    node = nodes.get(origin(nodes, source).node)
    if node is None or node.op != "Const":
        return []
    return [each.decode() for each in tensor_wire.decode(node.attributes["value"].tensor).reshape(-1).tolist()]


def _begin(piece: str) -> list[int]:
    """Where a slice begins on each axis, as `5 2 0,3:-` says; nothing for a whole tensor."""
    extents = piece.split(" ")[-1]
    return [0 if extent == "-" else int(extent.split(",")[0]) for extent in extents.split(":")] if extents else []
