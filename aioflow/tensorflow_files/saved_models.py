"""Reads the directory of a saved model of TensorFlow: its graph, signatures, assets, and where its variables begin.

A saved model has operations that restore its variables. They are not built: they say which tensor of the checkpoint, or
which slice of it, each variable begins with. In TensorFlow 2 they lie in a function.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow import errors
from aioflow.checkpoint import Checkpoint
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.kernels.data import tensor_wire
from aioflow.tensorflow_files import messages
from aioflow.tensorflow_files.nodes import GraphFile, Node, Nodes, Source
from aioflow.tensorflow_files.ordering import needed, origin
from aioflow.tensorflow_files.reading import graph_of, parsed, source_of
from aioflow.tensors.as_array import AnyArray

FILE: Final = "saved_model.pb"
VARIABLES: Final = ("Variable", "VariableV2", "VarHandleOp")
"""The ops of variables."""
_ASSIGN: Final = ("Assign", "AssignVariableOp")
_INITIALIZER: Final = "__saved_model_init_op"
_INITIALIZERS: Final = ("saved_model_main_op", "legacy_init_op", "table_initializer")
_ASSETS: Final = "saved_model_assets"
_SERVING: Final = "serve"


class Piece(NamedTuple):
    """What a variable begins with: a tensor of the checkpoint, or a slice of it; a shape of None for all of it."""

    key: str
    start: Sequence[int] | None = None
    shape: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TensorFlowModel:
    """A saved model of TensorFlow, read and checked.

    Attributes:
        path: its directory.
        graph: its graph.
        signatures: its signatures.
        initializers: the nodes that fill its tables.
        wanted: the nodes that the signatures and the initializers are.
        values: the values of the variables that these need, by the names of their nodes.
        trainable: the names of the variables that training changes.
        assets: the paths of the assets.
        paths: the paths of assets by the constants that have them.
    """

    path: str
    graph: GraphFile
    signatures: Mapping[str, messages.SignatureDef]
    initializers: Sequence[str]
    wanted: Sequence[str]
    values: Mapping[str, AnyArray]
    trainable: frozenset[str]
    assets: Mapping[str, str]
    paths: Mapping[Source, str]


def is_tensorflow_model(directory: Path) -> bool:
    """Whether a directory holds a saved model of TensorFlow. Blocks."""
    return FILES.exists(f"{as_name(directory).rstrip('/')}/{FILE}")


def read_model(directory: Path) -> TensorFlowModel:
    """Return the content of a directory. Blocks.

    Raises:
        DataLossError: it is damaged.
        InvalidArgumentError: it has several graphs, and none to serve; or no signature.
        NotFoundError: a file is missing.
    """
    path = as_name(directory).rstrip("/")
    meta = _chosen(parsed(messages.SavedModel, FILES.read(f"{path}/{FILE}"), repr(f"{path}/{FILE}")), path)
    graph = graph_of(meta.graph_def)
    signatures = {name: each for name, each in meta.signature_def.items() if not name.startswith("__")}
    if not signatures:
        raise errors.InvalidArgumentError(f"the saved model {path!r} has no signatures")
    initializers = _initializers(meta)
    wanted = [*dict.fromkeys([*_named(signatures), *initializers])]
    if strange := [name for name in wanted if name not in graph.nodes]:
        raise errors.DataLossError(f"a signature of {path!r} needs {strange[0]!r}, which its graph does not have")
    files = {source_of(each.tensor_info.name, path): _asset(each.filename, path) for each in _assets(meta)}
    found = [node for node in needed(graph.nodes, wanted).values() if node.op in VARIABLES]
    assets = {file.rpartition("/")[2]: file for file in files.values()}
    values = _values(graph, [node.name for node in found], path)
    trainable = frozenset(_trainable(meta, found))
    return TensorFlowModel(path, graph, signatures, initializers, wanted, values, trainable, assets, files)


def _chosen(model: messages.SavedModel, path: str) -> messages.MetaGraph:
    """The graph to serve, or the only one."""
    found = [each for each in model.meta_graphs if _SERVING in each.meta_info_def.tags] or [*model.meta_graphs]
    if len(found) != 1:
        tags = [list(each.meta_info_def.tags) for each in model.meta_graphs]
        raise errors.InvalidArgumentError(f"{path!r} has graphs with the tags {tags}; one with {_SERVING!r} is loaded")
    return found[0]


def _named(signatures: Mapping[str, messages.SignatureDef]) -> Iterator[str]:
    """The nodes of the inputs and outputs of signatures."""
    for name, signature in signatures.items():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            if not tensor.name:
                raise errors.UnimplementedError(f"signature {name!r} has a composite tensor, such as a sparse one")
            yield source_of(tensor.name, name).node


def _initializers(meta: messages.MetaGraph) -> list[str]:
    if _INITIALIZER in meta.signature_def:
        return [each.name.partition(":")[0] for each in meta.signature_def[_INITIALIZER].outputs.values()]
    for name in _INITIALIZERS:
        if name in meta.collection_def:
            return [each.decode() for each in meta.collection_def[name].node_list.value]
    return []


def _assets(meta: messages.MetaGraph) -> list[messages.AssetFile]:
    """The assets. TensorFlow 1 lists them in a collection."""
    if _ASSETS not in meta.collection_def:
        return [*meta.asset_file_def]
    items = meta.collection_def[_ASSETS].any_list.value
    return [parsed(messages.AssetFile, item.value, "a collection") for item in items]


def _asset(name: str, path: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        raise errors.PermissionDeniedError(f"the saved model {path!r} names the asset {name!r}, which lies elsewhere")
    return f"{path}/assets/{name}"


def _trainable(meta: messages.MetaGraph, variables: Sequence[Node]) -> Iterator[str]:
    """The variables in the collection of trainable ones; all where there is no collection of variables."""
    if "trainable_variables" in meta.collection_def:
        for data in meta.collection_def["trainable_variables"].bytes_list.value:
            yield parsed(messages.VariableDef, data, "a collection").variable_name.partition(":")[0]
    elif "variables" not in meta.collection_def:
        yield from [node.name for node in variables]


# Values of variables


def _values(graph: GraphFile, variables: Sequence[str], path: str) -> dict[str, AnyArray]:
    if not variables:
        return {}
    checkpoint = Checkpoint.open(f"{path}/variables/variables")
    pieces = dict(_restored(graph, graph.nodes, None))
    found = {}
    for name in variables:
        piece = pieces.get(name, Piece(name))
        if piece.key not in checkpoint.tensors:
            raise errors.DataLossError(f"the checkpoint of {path!r} has no value for the variable {name!r}")
        found[name] = checkpoint.read(*piece)
    return found


def _restored(graph: GraphFile, nodes: Nodes, arguments: Mapping[str, str] | None) -> Iterator[tuple[str, Piece]]:
    """What variables are restored from, in a graph and in the functions that it calls, which have arguments."""
    for node in nodes.values():
        if node.op in _ASSIGN and len(node.inputs) == 2:
            variable, value = (origin(nodes, source) for source in node.inputs)
            restore = nodes.get(value.node)
            if restore is not None and restore.op == "RestoreV2" and len(restore.inputs) == 3:
                names, slices = (_texts(nodes, source) for source in restore.inputs[1:])
                if value.place < min(len(names), len(slices)):
                    own = (arguments or {}).get(variable.node, variable.node)
                    yield own, _piece(names[value.place], slices[value.place])
        for name in node.functions() if arguments is None else ():
            function = graph.functions.get(name)
            if function is not None:
                origins = [origin(nodes, source).node for source in node.inputs]
                yield from _restored(graph, function.nodes, dict(zip(function.arguments, origins, strict=False)))


def _texts(nodes: Nodes, source: Source) -> list[str]:
    node = nodes.get(origin(nodes, source).node)
    if node is None or node.op != "Const":
        return []
    return [each.decode() for each in tensor_wire.decode(node.attributes["value"].tensor).reshape(-1).tolist()]


def _piece(key: str, text: str) -> Piece:
    """A slice as the shape of the whole and, for each axis, `start,length`, or `-` for all of it: `5 2 0,3:-`."""
    *sizes, extents = text.split(" ") if text else [""]
    if not extents:
        return Piece(key)
    starts, lengths = [], []
    for size, extent in zip(sizes, extents.split(":"), strict=True):
        start, length = (0, int(size)) if extent == "-" else map(int, extent.split(","))
        starts.append(start)
        lengths.append(length)
    return Piece(key, starts, lengths)
