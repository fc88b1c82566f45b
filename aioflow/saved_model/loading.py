"""`load`: a saved model from a directory into the graph of a session."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.lookup_tables import lookup_table_size
from aioflow.kernels.state.variables import assign_variable, is_variable_initialized, read_variable
from aioflow.library.variables import Variable
from aioflow.saved_model.manifest import NamedSignature
from aioflow.saved_model.reading import StoredModel, read
from aioflow.saved_model.signature import Signature
from aioflow.saved_model.tables import build_import, stored_names
from aioflow.saved_model.warmup import WarmUpRequest
from aioflow.session import Session
from aioflow.tensorflow_files.saved_models import is_tensorflow_model
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr

_PART: Final = 1 << 30
"""Bytes of variables that are assigned in one step."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedModel:
    """A saved model in a session.

        model = await af.saved_model.load("models/digits/3", session)
        signature = model.signatures["serving_default"]
        y = await session.run(signature.outputs["y"], {signature.inputs["x"]: images})

    Attributes:
        path: its directory.
        signatures: its functions by name, with tensors of the session's graph.
        variables: its variables, by the names that they were saved under.
        warmup: its warm-up requests.
        assets: the paths of its assets, by name.

    Examples:
        >>> signature = af.saved_model.Signature(inputs={}, outputs={"y": af.identity(7)})
        >>> path = await af.saved_model.save(session, "models/seven", {"serving_default": signature})
        >>> async with af.Session(graph=af.Graph()) as other:
        ...     model = await af.saved_model.load(path, other)
        ...     print(await other.run(model.signatures["serving_default"].outputs["y"]))
        7
    """

    path: str
    signatures: Mapping[str, Signature]
    variables: Mapping[str, Variable]
    warmup: tuple[WarmUpRequest, ...]
    assets: Mapping[str, str]


async def load(
    directory: Path, session: Session, *, name: str | None = None, keep_devices: bool = False, container: str = ""
) -> LoadedModel:
    """Add the operations of a saved model to the graph of a session, and give its variables and tables their content.

    Any number of models may be in a session, also several versions of one. A variable of a named container is shared by
    all models that name it: the first that is loaded gives it its value. Large values are pages of the mapped file,
    which take no memory of their own until an update changes them. The loaded variables and tables join the collections
    of the graph, so that they can be trained further, and later Savers save them; the initializers of variables keep
    their values.

    Args:
        directory: the directory, or a URL.
        session: the session, whose graph gets the operations.
        name: the name scope of the operations. By default there is none if the graph is empty, else `saved_model`,
            made unique.
        keep_devices: whether the operations ask for the devices that they asked for when they were saved.
        container: the container of variables, and other state, that name none. The sessions of a cluster share the
            default container of its tasks: there, `session.own_container` keeps models of one name apart.

    Raises:
        NotFoundError: there is no such directory.
        DataLossError: it is damaged, or was written only in part.
        UnimplementedError: it is of a later version of the format, or has ops of TensorFlow that aioflow does not have,
            all of which the error lists.
        PermissionDeniedError: it names files elsewhere, or has links in the place of files.
        InvalidArgumentError: it is a meta graph, or a variable is shared with another dtype or shape.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
        >>> await af.saved_model.save(session, "models/triple", {"serving_default": signature}, version=1)
        'models/triple/1'
        >>> model = await af.saved_model.load("models/triple/1", session)
        >>> list(model.signatures)
        ['serving_default']
    """
    if not isinstance(session, Session):
        raise TypeError(f"load needs an af.Session, not {safe_repr(session)}")
    if await asyncio.to_thread(is_tensorflow_model, directory):
        from aioflow.saved_model.from_tensorflow import load_tensorflow  # it makes a LoadedModel

        return await load_tensorflow(directory, session, name, container)
    stored = await asyncio.to_thread(read, directory)
    return await load_stored(stored, session, name, keep_devices, container)


async def load_stored(
    stored: StoredModel, session: Session, name: str | None, keep_devices: bool, container: str
) -> LoadedModel:
    """Do the same with a directory that was read before."""
    if not stored.manifest.signatures:
        raise errors.InvalidArgumentError(
            f"{stored.path!r} is a meta graph, without signatures and values: use af.train.import_meta_graph"
        )
    nodes = GraphDef(tuple([_moved(node, keep_devices, container) for node in stored.graph_def.node]))
    model, tables = await asyncio.to_thread(_build, stored, nodes, session.graph, name)
    await _assign(session, model, tables, stored, container)
    if tables.initializers:
        await session.run(tables.initializers)
    return model


class _Tables(NamedTuple):
    """The operations that fill the tables of a model.

    Attributes:
        initializers: those that give tables their content.
        imports: those that take the keys and values of tables that steps change, by the names of the tables.
    """

    initializers: list[Operation]
    imports: dict[str, Operation]


def _build(stored: StoredModel, nodes: GraphDef, graph: Graph, name: str | None) -> tuple[LoadedModel, _Tables]:
    """Build the operations, or nothing if one of them is invalid. Blocks."""
    scope = ("saved_model" if graph.version else "") if name is None else name
    manifest = stored.manifest
    names = [f"{handle}:0" for handle in (*manifest.variables, *manifest.tables)]
    tensors = [
        text for each in manifest.signatures.values() for text in (*each.inputs.values(), *each.outputs.values())
    ]
    with graph.as_default(), graph.transaction(), graph.control_dependencies(None), graph.device(None):
        try:
            wanted = [*names, *tensors, *manifest.initializers]
            found = cast("list[Tensor | Operation]", import_graph_def(nodes, return_elements=wanted, name=scope))
            by_name: dict[str, Any] = dict(zip(wanted, found, strict=True))
            variables = {
                variable: variable_of(
                    by_name[f"{variable}:0"], variable in manifest.trainable, stored.variables[variable]
                )
                for variable in manifest.variables
            }
            tables = _Tables(
                [by_name[text] for text in manifest.initializers],
                {table: build_import(by_name[f"{table}:0"], *_content(stored, table)) for table in manifest.tables},
            )
            for initializer in tables.initializers:
                graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, initializer)
            for table in tables.imports:
                graph.add_to_collection(GraphKeys.SAVEABLE_OBJECTS, by_name[f"{table}:0"])
            signatures = {name: _signature(each, by_name) for name, each in manifest.signatures.items()}
        except (TypeError, ValueError) as error:
            raise errors.DataLossError(f"the graph of saved model {stored.path!r} cannot be built: {error}") from error
    return LoadedModel(stored.path, signatures, variables, stored.warmup, stored.assets), tables


def _content(stored: StoredModel, table: str) -> tuple[Array, Array]:
    """Return the keys and values of a table that steps change."""
    keys, values = stored_names(table)
    return stored.variables[keys], stored.variables[values]


def _moved(node: NodeDef, keep_devices: bool, container: str) -> NodeDef:
    """Return the node without its device, unless that is kept, and with the container in the place of none."""
    attr = {**node.attr, "container": container} if container and node.attr.get("container") == "" else node.attr
    device = node.device if keep_devices else ""
    return node if attr is node.attr and device == node.device else dataclasses.replace(node, attr=attr, device=device)


def _signature(named: NamedSignature, tensors: Mapping[str, Tensor]) -> Signature:
    inputs, outputs = ({name: tensors[text] for name, text in names.items()} for names in (named.inputs, named.outputs))
    method: Any = named.method
    return Signature(inputs, outputs, method, named.repeat_while or None)


def variable_of(handle: Tensor, trainable: bool, value: Array) -> Variable:
    """Return the variable of a handle. Its initial value is the value that it has.

    ValueError if the stored value does not fit it.
    """
    if handle.op.type != "variable":
        raise ValueError(f"{handle.name!r} is no variable")
    graph = handle.graph
    with graph.colocate_with(handle, ignore_existing=True):
        snapshot = read_variable(handle, name=f"{handle.op.name}/value")
        if value.dtype != snapshot.dtype.np or not snapshot.shape.is_compatible_with(value.shape):
            raise ValueError(
                f"variable {handle.op.name!r} is {snapshot.spec}, and its value {value.dtype}{list(value.shape)}"
            )
        initializer = assign_variable(handle, snapshot, name=f"{handle.op.name}/initializer").op
    parts = {
        "variable_name": handle.name, "initial_value_name": snapshot.name, "initializer_name": initializer.name,
        "snapshot_name": snapshot.name, "trainable": trainable,
    }  # fmt: skip
    variable = Variable.from_proto(parts)
    graph.add_to_collections(
        [GraphKeys.GLOBAL_VARIABLES, *([GraphKeys.TRAINABLE_VARIABLES] if trainable else ())], variable
    )
    return variable


async def _assign(session: Session, model: LoadedModel, tables: _Tables, stored: StoredModel, container: str) -> None:
    """Give the variables their values, and tables their content, except shared ones that have them already."""
    own, fills = ("", container), {name: each.initializer for name, each in model.variables.items()} | tables.imports
    shared = {name: each.inputs[0] for name, each in fills.items() if each.inputs[0].op.attrs["container"] not in own}
    tests = await asyncio.to_thread(_filled, shared)
    kept = {name for name, done in (await session.run(tests)).items() if done} if tests else set()
    content = {
        name: _content(stored, name) if name in tables.imports else (stored.variables[name],)
        for name in fills
        if name not in kept
    }
    for names in in_parts(content):
        feeds: dict[Any, Array] = {}
        for name in names:
            feeds |= zip(fills[name].inputs[1:], content[name], strict=True)
        await session.run([fills[name] for name in names], feeds)


def in_parts(content: Mapping[str, Sequence[Array]]) -> list[list[str]]:
    """Return the names in parts whose values have at most `_PART` bytes, or of one name: each part is one message."""
    parts: list[list[str]] = []
    room = 0
    for name, values in content.items():
        size = sum([value.nbytes for value in values])
        if size > room:
            parts.append([])
            room = _PART
        parts[-1].append(name)
        room -= size
    return parts


def _filled(handles: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return for each handle whether its variable has a value, or the number of keys of its table."""
    found = {}
    for name, handle in handles.items():
        graph, build = handle.graph, is_variable_initialized if handle.op.type == "variable" else lookup_table_size
        with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
            found[name] = build(handle)
    return found
