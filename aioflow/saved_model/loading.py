"""`load`: a saved model from a directory into the graph of a session."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.operation import Tensor
from aioflow.kernels.state.variables import assign_variable, is_variable_initialized, read_variable
from aioflow.library.variables import Variable
from aioflow.saved_model.manifest import NamedSignature
from aioflow.saved_model.reading import StoredModel, read
from aioflow.saved_model.signature import Signature
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
    """Add the operations of a saved model to the graph of a session, and give its variables their values.

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
    model = await asyncio.to_thread(_build, stored, session.graph, name, keep_devices)
    await _assign(session, model, stored)
    return model


def _build(stored: StoredModel, graph: Graph, name: str | None, keep_devices: bool) -> LoadedModel:
    """Build the operations, or nothing if one of them is invalid. Blocks."""
    nodes = stored.graph_def if keep_devices else _without_devices(stored.graph_def)
    scope = ("saved_model" if graph.version else "") if name is None else name
    manifest = stored.manifest
    names = [f"{variable}:0" for variable in manifest.variables]
    tensors = [
        text for each in manifest.signatures.values() for text in (*each.inputs.values(), *each.outputs.values())
    ]
    with graph.as_default(), graph.transaction(), graph.control_dependencies(None), graph.device(None):
        try:
            found = cast("list[Tensor]", import_graph_def(nodes, return_elements=[*names, *tensors], name=scope))
            by_name = dict(zip([*names, *tensors], found, strict=True))
            variables = {
                variable: _variable(
                    by_name[f"{variable}:0"], variable in manifest.trainable, stored.variables[variable]
                )
                for variable in manifest.variables
            }
            signatures = {name: _signature(each, by_name) for name, each in manifest.signatures.items()}
        except (TypeError, ValueError) as error:
            raise errors.DataLossError(f"the graph of saved model {stored.path!r} cannot be built: {error}") from error
    return LoadedModel(stored.path, signatures, variables, stored.warmup, stored.assets)


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


async def _assign(session: Session, model: LoadedModel, stored: StoredModel) -> None:
    """Give the variables their values, except shared ones that have values already."""
    shared = {name: each.handle for name, each in model.variables.items() if each.op.attrs["container"]}
    tests = await asyncio.to_thread(_initialized, shared)
    kept = {name for name, done in (await session.run(tests)).items() if done} if tests else set()
    given = {name: each.initializer for name, each in model.variables.items() if name not in kept}
    if given:
        feeds = {initializer.inputs[1]: stored.variables[name] for name, initializer in given.items()}
        await session.run(list(given.values()), feeds)


def _initialized(handles: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, handle in handles.items():
        graph = handle.graph
        with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
            found[name] = is_variable_initialized(handle)
    return found
