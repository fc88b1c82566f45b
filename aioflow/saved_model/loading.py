"""`load`: a saved model from a directory into the graph of a session."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, Final, cast

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef, NodeDef
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
        container: the container of variables, and other state, that name none. The sessions of a cluster share the
            default container of its tasks: there, `session.own_container` keeps models of one name apart.

    Raises:
        NotFoundError: there is no such directory.
        DataLossError: it is damaged, or was written only in part.
        UnimplementedError: it is of a later version of the format.
        PermissionDeniedError: it names files elsewhere, or has links in the place of files.
        InvalidArgumentError: a variable is shared with another dtype or shape.

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
    stored = await asyncio.to_thread(read, directory)
    return await load_stored(stored, session, name, keep_devices, container)


async def load_stored(
    stored: StoredModel, session: Session, name: str | None, keep_devices: bool, container: str
) -> LoadedModel:
    """Do the same with a directory that was read before."""
    nodes = GraphDef(tuple([_moved(node, keep_devices, container) for node in stored.graph_def.node]))
    model = await asyncio.to_thread(_build, stored, nodes, session.graph, name)
    await _assign(session, model, stored, container)
    return model


def _build(stored: StoredModel, nodes: GraphDef, graph: Graph, name: str | None) -> LoadedModel:
    """Build the operations, or nothing if one of them is invalid. Blocks."""
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


def _moved(node: NodeDef, keep_devices: bool, container: str) -> NodeDef:
    """Return the node without its device, unless that is kept, and with the container in the place of none."""
    attr = {**node.attr, "container": container} if container and node.attr.get("container") == "" else node.attr
    device = node.device if keep_devices else ""
    return node if attr is node.attr and device == node.device else dataclasses.replace(node, attr=attr, device=device)


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


async def _assign(session: Session, model: LoadedModel, stored: StoredModel, container: str) -> None:
    """Give the variables their values, except shared ones that have values already."""
    own = ("", container)
    shared = {name: each.handle for name, each in model.variables.items() if each.op.attrs["container"] not in own}
    tests = await asyncio.to_thread(_initialized, shared)
    kept = {name for name, done in (await session.run(tests)).items() if done} if tests else set()
    for names in _in_parts({name: stored.variables[name] for name in model.variables if name not in kept}):
        given = {name: model.variables[name].initializer for name in names}
        feeds = {initializer.inputs[1]: stored.variables[name] for name, initializer in given.items()}
        await session.run(list(given.values()), feeds)


def _in_parts(values: Mapping[str, Array]) -> list[list[str]]:
    """Return the names of the values in parts of at most `_PART` bytes, or of one value: each part is one message."""
    parts: list[list[str]] = []
    room = 0
    for name, value in values.items():
        if value.nbytes > room:
            parts.append([])
            room = _PART
        parts[-1].append(name)
        room -= value.nbytes
    return parts


def _initialized(handles: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, handle in handles.items():
        graph = handle.graph
        with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
            found[name] = is_variable_initialized(handle)
    return found
