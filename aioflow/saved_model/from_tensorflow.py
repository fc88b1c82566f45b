"""Saved models of TensorFlow in a session: their operations, and the values of their variables and tables."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aioflow.files.filesystem import Path
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant
from aioflow.library.variables import Variable
from aioflow.saved_model.loading import LoadedModel, in_parts, variable_of
from aioflow.saved_model.signature import Signature
from aioflow.session import Session
from aioflow.tensorflow_files.build import Scope
from aioflow.tensorflow_files.importing import build_graph
from aioflow.tensorflow_files.messages import SignatureDef, TensorInfo
from aioflow.tensorflow_files.reading import source_of
from aioflow.tensorflow_files.references import handle_of, value_of
from aioflow.tensorflow_files.saved_models import TensorFlowModel, read_model

_METHODS = {"tensorflow/serving/classify": "classify", "tensorflow/serving/regress": "regress"}


async def load_tensorflow(directory: Path, session: Session, name: str | None, container: str) -> LoadedModel:
    """Do for a saved model of TensorFlow what `load` does."""
    stored = await asyncio.to_thread(read_model, directory)
    model, initializers = await asyncio.to_thread(_build, stored, session.graph, name, container)
    values = {name: (stored.values[name],) for name in model.variables}
    for names in in_parts(values):
        fills = [model.variables[name].initializer for name in names]
        feeds: dict[Any, Any] = {fill.inputs[1]: stored.values[name] for fill, name in zip(fills, names, strict=True)}
        await session.run(fills, feeds)
    if initializers:
        await session.run(initializers)
    return model


def _build(
    stored: TensorFlowModel, graph: Graph, name: str | None, container: str
) -> tuple[LoadedModel, list[Operation]]:
    """Build the operations, or nothing if one of them cannot be built. Blocks."""
    outer = ("saved_model" if graph.version else "") if name is None else name
    with (
        graph.as_default(), graph.transaction(), graph.control_dependencies(None), graph.device(None),
        graph.container(container), graph.name_scope(outer) as prefix,
    ):  # fmt: skip
        paths = {(each.node, each.place): constant(path) for each, path in stored.paths.items()}
        scope = build_graph(graph, stored.graph, prefix, stored.wanted, paths)
        variables = {each: _variable(scope, each, stored) for each in stored.values}
        signatures = {each: _signature(scope, found) for each, found in stored.signatures.items()}
    model = LoadedModel(stored.path, signatures, variables, (), stored.assets)
    return model, [scope.done[each] for each in stored.initializers if each in scope.done]


def _variable(scope: Scope, name: str, stored: TensorFlowModel) -> Variable:
    handle = handle_of(scope.values[name][0])
    return variable_of(handle, name in stored.trainable, stored.values[name])


def _signature(scope: Scope, found: SignatureDef) -> Signature:
    method: Any = _METHODS.get(found.method_name, "predict")
    return Signature(_tensors(scope, found.inputs), _tensors(scope, found.outputs), method)


def _tensors(scope: Scope, infos: Mapping[str, TensorInfo]) -> dict[str, Tensor]:
    tensors = {name: value_of(scope.value(source_of(info.name, name))) for name, info in infos.items()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}
