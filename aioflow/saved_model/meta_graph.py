"""Meta graphs: a graph with its collections and its Saver, so that a model leaves its Python source and is trained on.

A meta graph is stored as the directory of a saved model is, without values and signatures; see `manifest`. The values
are in the checkpoints of its Saver. These functions block: call them on a thread where a loop runs.
"""

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aioflow import errors
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.sub_graphs import below, without_devices
from aioflow.saved_model.collections import collections_to_plain, restore_collections
from aioflow.saved_model.manifest import Manifest
from aioflow.saved_model.meta_from_tensorflow import import_tensorflow
from aioflow.saved_model.reading import read
from aioflow.saved_model.writing import Content, write
from aioflow.tensorflow_files.meta_graphs import is_meta_graph_file
from aioflow.tensors.recursion import safe_repr
from aioflow.train.saver import Saver


@dataclasses.dataclass(frozen=True, slots=True)
class MetaGraphDef:
    """A graph with its collections and its Saver, as plain data. `af.train.export_meta_graph` makes it.

    Attributes:
        graph_def: its operations.
        collection_def: the items of each collection: dicts of one entry, whose key is the kind of the item.
        saver_def: its Saver, as `Saver.to_proto` has it; None if there is none.

    Examples:
        >>> weight = af.Variable(7.0, name="weight")
        >>> meta = af.train.export_meta_graph()
        >>> type(meta).__name__, sorted(meta.collection_def)
        ('MetaGraphDef', ['trainable_variables', 'variables'])
    """

    graph_def: GraphDef
    collection_def: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    saver_def: Mapping[str, Any] | None = None


def export_meta_graph(
    filename: Path | None = None,
    saver_def: Mapping[str, Any] | None = None,
    collection_list: Iterable[str] | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
) -> MetaGraphDef:
    """Return a graph with its collections, and write it to a new directory if one is named.

    Variables, queue runners, Savers, tensors, operations, numbers and texts of collections are stored. Other items, as
    functions, exist in this process alone: the log names them. Blocks while it writes.

    Args:
        filename: the new directory, on this machine, or a URL.
        saver_def: the Saver that `import_meta_graph` returns, as `Saver.to_proto` has it.
            `Saver.export_meta_graph` gives its own.
        collection_list: the names of the collections; all by default.
        graph: the graph; the default one by default.
        export_scope: the name scope whose operations are stored, with names without it. Inputs from elsewhere are given
            by `input_map` to `import_meta_graph`.
        clear_devices: whether no operation asks for a device.
        clear_extraneous_savers: whether the Savers in collections are left out.

    Raises:
        ValueError: an operation exists in this process alone, as the function of a `py_func`; or the scope is empty.
        AlreadyExistsError: there is something at that path.

    Examples:
        >>> weight = af.Variable(7.0, name="weight")
        >>> await session.run(weight.initializer)
        >>> saver = af.train.Saver()
        >>> meta = saver.export_meta_graph("models/seven.meta")
        >>> path = await saver.save(session, "models/seven")
        >>> with af.Graph().as_default() as graph:
        ...     again = af.train.import_meta_graph("models/seven.meta")
        >>> async with af.Session(graph=graph) as other:
        ...     await again.restore(other, path)
        ...     print(await other.run("weight/read:0"))
        7.0
    """
    graph = get_default_graph() if graph is None else graph
    scope = export_scope.rstrip("/") + "/" if export_scope else ""
    nodes = graph.as_graph_def()
    nodes = below(nodes, scope) if scope else nodes
    collections = collections_to_plain(graph, collection_list, scope)
    if clear_extraneous_savers:
        collections.pop(GraphKeys.SAVERS, None)
    meta = MetaGraphDef(without_devices(nodes) if clear_devices else nodes, collections, saver_def)
    if filename is not None:
        _write(as_name(filename).rstrip("/"), meta)
    return meta


def _write(path: str, meta: MetaGraphDef) -> None:
    plain = {"collections": meta.collection_def, "saver": meta.saver_def}
    manifest = Manifest(time.time(), {}, [], [], {}, [], meta=plain)
    write(path, Content(manifest, meta.graph_def.to_msgpack(), {}, {}, {}), threading.Event())


def import_meta_graph(
    meta_graph_or_file: MetaGraphDef | Path,
    clear_devices: bool = False,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
) -> Saver | None:
    """Add a meta graph to the default graph, with its collections, or nothing if it is damaged.

    Returns its Saver, which restores the values of its variables from a checkpoint. If none was stored with it, the
    Saver is a new one of the variables that were added; None if there are none. Blocks while it reads.

    A file that TensorFlow wrote, with the end `.meta`, gives its operations as `af.tensorflow_files.import_graph_def`
    does, its collections, variables and Saver, which restores checkpoints of TensorFlow. The operations of TensorFlow's
    Savers are left out; so are items of collections that are no tensor, operation, variable, number or text. Devices
    are not kept.

    Args:
        meta_graph_or_file: the result of `export_meta_graph`, or the directory that it has written, or a file of
            TensorFlow.
        clear_devices: whether no operation asks for a device.
        import_scope: the name scope of the operations; by default none.
        input_map: replacements for inputs, as those of `af.import_graph_def`.

    Raises:
        NotFoundError: there is no such directory.
        DataLossError: it is damaged, or was written only in part.
        InvalidArgumentError: it is a saved model with signatures, which `af.saved_model.load` loads.
        ValueError: the graph has operations of these names.
        UnimplementedError: a file of TensorFlow has ops that aioflow does not have, all of which the error lists.

    Examples:
        >>> weight = af.Variable(7.0, name="weight")
        >>> meta = af.train.export_meta_graph()
        >>> with af.Graph().as_default() as graph:
        ...     saver = af.train.import_meta_graph(meta, import_scope="copy")
        >>> graph.get_collection("variables")
        [<af.Variable 'copy/weight:0' float32[]>]
    """
    if not isinstance(meta_graph_or_file, MetaGraphDef) and is_meta_graph_file(meta_graph_or_file):
        return import_tensorflow(meta_graph_or_file, import_scope, input_map)
    meta = meta_graph_or_file if isinstance(meta_graph_or_file, MetaGraphDef) else _read(meta_graph_or_file)
    nodes = without_devices(meta.graph_def) if clear_devices else meta.graph_def
    graph = get_default_graph()
    with graph.transaction(), graph.name_scope(import_scope) as scope:
        import_graph_def(nodes, input_map, name=scope)
        try:
            restore_collections(graph, meta.collection_def, scope)
            return _saver(graph, meta, scope)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise errors.DataLossError(f"the collections of the meta graph do not fit its graph: {error}") from error


def _read(path: Path) -> MetaGraphDef:
    stored = read(path)
    if stored.manifest.meta is None:
        raise errors.InvalidArgumentError(f"{stored.path!r} is a saved model: use af.saved_model.load")
    collections, saver = (stored.manifest.meta.get(key) for key in ("collections", "saver"))
    if not isinstance(collections, dict) or not all(map(_are_items, collections.values())):
        raise errors.DataLossError(
            f"meta graph {stored.path!r} is damaged: its collections are {safe_repr(collections)}"
        )
    if not isinstance(saver, dict | None):
        raise errors.DataLossError(f"meta graph {stored.path!r} is damaged: its Saver is {safe_repr(saver)}")
    return MetaGraphDef(stored.graph_def, collections, saver)


def _are_items(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) and len(item) == 1 for item in items)


def _saver(graph: Graph, meta: MetaGraphDef, scope: str) -> Saver | None:
    """Return the stored Saver, or one of the variables below the scope."""
    if meta.saver_def is not None:
        return Saver.from_proto(meta.saver_def, scope)
    variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
    added = {each.op.name.removeprefix(scope): each for each in variables if each.op.name.startswith(scope)}
    return Saver(added) if added else None
