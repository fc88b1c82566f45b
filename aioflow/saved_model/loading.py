"""`load`: a saved model from a directory into the graph of a session."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef
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
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr


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
    """

    path: str
    signatures: Mapping[str, Signature]
    variables: Mapping[str, Variable]
    warmup: tuple[WarmUpRequest, ...]
    assets: Mapping[str, str]


async def load(
    directory: Path, session: Session, *, name: str | None = None, keep_devices: bool = False
) -> LoadedModel:
    """Add the operations of a saved model to the graph of a session, and give its variables and tables their content.

    Any number of models may be in a session, also several versions of one. A variable of a named container is shared by
    all models that name it: the first that is loaded gives it its value. Large values are pages of the mapped file,
    which take no memory of their own until an update changes them. The loaded variables join the collections of the
    graph, so that they can be trained further; their initializers keep their values.

    Args:
        directory: the directory, or a URL.
        session: the session, whose graph gets the operations.
        name: the name scope of the operations. By default there is none if the graph is empty, else `saved_model`,
            made unique.
        keep_devices: whether the operations ask for the devices that they asked for when they were saved.

    Raises:
        NotFoundError: there is no such directory.
        DataLossError: it is damaged, or was written only in part.
        UnimplementedError: it is of a later version of the format.
        PermissionDeniedError: it names files elsewhere, or has links in the place of files.
        InvalidArgumentError: a variable is shared with another dtype or shape.
    """
    if not isinstance(session, Session):
        raise TypeError(f"load needs an af.Session, not {safe_repr(session)}")
    stored = await asyncio.to_thread(read, directory)
    model, tables = await asyncio.to_thread(_build, stored, session.graph, name, keep_devices)
    await _assign(session, model, tables, stored)
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


def _build(stored: StoredModel, graph: Graph, name: str | None, keep_devices: bool) -> tuple[LoadedModel, _Tables]:
    """Build the operations, or nothing if one of them is invalid. Blocks."""
    nodes = stored.graph_def if keep_devices else _without_devices(stored.graph_def)
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
                variable: _variable(
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
            signatures = {name: _signature(each, by_name) for name, each in manifest.signatures.items()}
        except (TypeError, ValueError) as error:
            raise errors.DataLossError(f"the graph of saved model {stored.path!r} cannot be built: {error}") from error
    return LoadedModel(stored.path, signatures, variables, stored.warmup, stored.assets), tables


def _content(stored: StoredModel, table: str) -> tuple[Array, Array]:
    """Return the keys and values of a table that steps change."""
    keys, values = stored_names(table)
    return stored.variables[keys], stored.variables[values]


def _without_devices(graph_def: GraphDef) -> GraphDef:
    return GraphDef(tuple([dataclasses.replace(node, device="") if node.device else node for node in graph_def.node]))


def _signature(named: NamedSignature, tensors: Mapping[str, Tensor]) -> Signature:
    inputs, outputs = ({name: tensors[text] for name, text in names.items()} for names in (named.inputs, named.outputs))
    method: Any = named.method
    return Signature(inputs, outputs, method, named.repeat_while or None)


def _variable(handle: Tensor, trainable: bool, value: Array) -> Variable:
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


async def _assign(session: Session, model: LoadedModel, tables: _Tables, stored: StoredModel) -> None:
    """Give the variables their values, and tables their content, except shared ones that have them already."""
    fills = {name: each.initializer for name, each in model.variables.items()} | tables.imports
    shared = {name: each.inputs[0] for name, each in fills.items() if each.inputs[0].op.attrs["container"]}
    tests = await asyncio.to_thread(_filled, shared)
    kept = {name for name, done in (await session.run(tests)).items() if done} if tests else set()
    given = {name: each for name, each in fills.items() if name not in kept}
    if given:
        feeds: dict[Any, Array] = {}
        for name, each in given.items():
            content = _content(stored, name) if name in tables.imports else (stored.variables[name],)
            feeds |= zip(each.inputs[1:], content, strict=True)
        await session.run(list(given.values()), feeds)


def _filled(handles: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return for each handle whether its variable has a value, or the number of keys of its table."""
    found = {}
    for name, handle in handles.items():
        graph, build = handle.graph, is_variable_initialized if handle.op.type == "variable" else lookup_table_size
        with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
            found[name] = build(handle)
    return found
