"""The part of a graph that signatures need, as plain data, and the variables and tables in it."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aioflow.graph.effects import STATES
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.graphdef import GraphDef, NodeDef, node_def
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.variables import read_variable
from aioflow.saved_model import tables
from aioflow.saved_model.signature import Signature

_PLACEHOLDER: Final = "placeholder"


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """A part of a graph, to be saved.

    Attributes:
        graph_def: its operations.
        names: the names in `graph_def` of the tensors of the signatures.
        variables: the handle of each variable in it, by name.
        trainable: the names of the variables that optimizers change.
        tables: the handle of each lookup table that steps change, by name.
        initializers: the names of the operations that give the other tables their content.
        vocabularies: the files that these read, by the names of the constants with their paths.
    """

    graph_def: GraphDef
    names: Mapping[Tensor, str]
    variables: Mapping[str, Operation]
    trainable: frozenset[str]
    tables: Mapping[str, Operation]
    initializers: tuple[str, ...]
    vocabularies: Mapping[str, str]


def export(signatures: Mapping[str, Signature]) -> Exported:
    """Return what the outputs of the signatures need. A tensor that each signature feeds becomes a placeholder.

    ValueError if an operation exists in this process alone, as the function of a `py_func`, or if a table is filled
    from what is fed.
    """
    graph = next(iter(signatures.values())).graph
    inputs = {tensor for signature in signatures.values() for tensor in signature.inputs.values()}
    outputs = {tensor for signature in signatures.values() for tensor in signature.outputs.values()}
    needed = {operation for signature in signatures.values() for operation in needed_operations(signature)}
    needed |= {tensor.op for tensor in inputs if _is_placeholder(tensor)}
    filling = _fill(needed)
    replaced = _placeholder_names(graph, (tensor for tensor in inputs if tensor.op not in needed))
    kept = [operation for operation in graph.get_operations() if operation in needed]
    nodes = [*_placeholders(replaced), *_nodes(kept, replaced)]
    variables = {operation.name: operation for operation in kept if operation.type == "variable"}
    names = {tensor: f"{replaced[tensor]}:0" if tensor in replaced else tensor.name for tensor in inputs | outputs}
    changing = {handle.name: handle for handle in tables.changing(kept)}
    fills = tuple([operation.name for operation in kept if operation in filling])
    files = tables.vocabulary_files(filling)
    trainable = _trainable(graph) & variables.keys()
    return Exported(GraphDef(tuple(nodes)), names, variables, trainable, changing, fills, files)


def _fill(needed: set[Operation]) -> set[Operation]:
    """Add the operations that fill the tables to the needed ones. Returns those that are run for it."""
    found: set[Operation] = set()
    while more := set(tables.initializers(needed)) - found:
        found |= more
        added = _closure(more, set())
        fed = sorted(each.name for each in added if each.type == _PLACEHOLDER)
        if fed:
            raise ValueError(f"a table is filled from {fed[0]!r}, which is fed: a saved model needs a table's content")
        needed |= added
    return found


def reads(variables: Mapping[str, Operation]) -> dict[str, Tensor]:
    """Return a read of each variable: one that the graph has already, if it depends on nothing else."""
    return {name: _read(handle.outputs[0]) for name, handle in variables.items()}


def _read(handle: Tensor) -> Tensor:
    for operation in handle.consumers():
        if operation.type == "read_variable" and not operation.control_inputs:
            return operation.outputs[0]
    graph = handle.graph
    with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
        return read_variable(handle)


def _is_placeholder(tensor: Tensor) -> bool:
    return tensor.op.type == _PLACEHOLDER


def needed_operations(signature: Signature) -> set[Operation]:
    """Return the operations that compute the outputs of a signature if its inputs are fed."""
    fed = set(signature.inputs.values())
    return _closure([tensor.op for tensor in signature.outputs.values() if tensor not in fed], fed)


def _closure(operations: Iterable[Operation], fed: set[Tensor]) -> set[Operation]:
    """Return these operations, and all that they need if those tensors are fed."""
    waiting, found = list(operations), set[Operation]()
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [tensor.op for tensor in operation.inputs if tensor not in fed]
            waiting += operation.control_inputs
    return found


def _placeholder_names(graph: Graph, tensors: Iterable[Tensor]) -> dict[Tensor, str]:
    """Return the name of a new placeholder for each tensor."""
    taken = {operation.name for operation in graph.get_operations()}
    found: dict[Tensor, str] = {}
    for tensor in sorted(tensors, key=lambda tensor: tensor.name):
        name = f"{tensor.op.name}_{tensor.index}_fed"
        while name in taken:
            name += "_"
        taken.add(name)
        found[tensor] = name
    return found


def _placeholders(names: Mapping[Tensor, str]) -> Iterator[NodeDef]:
    for tensor, name in names.items():
        yield NodeDef(name, _PLACEHOLDER, attr={"dtype": tensor.dtype, "shape": tensor.shape}, line=tensor.op.line)


def _nodes(operations: Iterable[Operation], replaced: Mapping[Tensor, str]) -> Iterator[NodeDef]:
    operations = list(operations)
    names = {operation.name for operation in operations}
    for operation in operations:
        node = node_def(operation)
        renamed = [replaced.get(tensor, text) for tensor, text in zip(operation.inputs, node.input, strict=False)]
        controls = node.input[len(operation.inputs) :]
        near = tuple([name for name in node.colocation if name in names])
        yield dataclasses.replace(
            node, input=(*renamed, *controls), colocation=near, attr=_shared(operation, node.attr)
        )


def _shared(operation: Operation, attr: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes, with the name by which other graphs find a variable or table of a named container."""
    if operation.type not in STATES or not attr["container"]:
        return attr
    return {**attr, "shared_name": attr["shared_name"] or operation.name}


def _trainable(graph: Graph) -> frozenset[str]:
    return frozenset(variable.op.name for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES))
