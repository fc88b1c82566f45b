"""A graph beside one that is trained, which holds what serves it: so the graph of the training stays as it is.

Its session reaches the trained variables, and the queues, tables and other objects of the training, by their names.
"""

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, cast

from aioflow.graph.graph import Graph
from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.checkpoint import adopt_variable
from aioflow.saved_model.export import Exported
from aioflow.saved_model.saving import contents
from aioflow.saved_model.signature import Signature
from aioflow.session.session import Session
from aioflow.session.session_beside import SessionBeside


class GraphBeside:
    """A graph beside one that is trained.

    Attributes:
        session: its session. The owner closes it.
        values: reads of the trained variables and tables, by the names that they are saved under.
    """

    def __init__(self, session: Session, exported: Exported, devices: Mapping[str, str]) -> None:
        """A graph with the reads. The devices are those of the objects of the training, by name."""
        self.session: Final = SessionBeside(session, Graph())
        self._exported: Final = exported
        self._objects: Final = [_object_of_training(node, devices) for node in exported.graph_def.node]
        handles = self._trained()
        variables, tables = ({name: handles[name] for name in kind} for kind in (exported.variables, exported.tables))
        self.values: Final = contents(dataclasses.replace(exported, variables=variables, tables=tables))

    @classmethod
    async def build(cls, session: Session, exported: Exported) -> Self:
        """Return the graph beside that of a session, for the part of it that is exported."""
        graph = session.graph
        objects = [graph.get_operation_by_name(node.name) for node in exported.graph_def.node if _is_object(node)]
        devices = (await session.placement(objects)).devices if objects else {}
        return await asyncio.to_thread(cls, session, exported, devices)

    def _trained(self) -> dict[str, Operation]:
        """Add the handles of the trained variables and tables. Returns them by their names in the training."""
        names = [*self._exported.variables, *self._exported.tables]
        nodes = [dataclasses.replace(node, colocation=()) for node in self._objects if node.name in {*names}]
        return dict(zip(names, cast("list[Operation]", self._add(nodes, names, "trained")), strict=True))

    def add_copy(self, signatures: Mapping[str, Signature], name: str) -> tuple[dict[str, Signature], list[Operation]]:
        """Add a copy of what the signatures need, with variables of its own.

        Returns:
            The signatures on the copy, and operations that give its variables the present values of the trained ones.
            Nothing is copied: both variables hold one array, and the next update of the trained one is made elsewhere,
            since the array has another holder.
        """
        exported = self._exported
        names, tensors = [*exported.variables], [*exported.names]
        nodes = [self._with_own_variables(node) for node in self._objects]
        found = cast("list[Any]", self._add(nodes, [*names, *exported.names.values()], name))
        with self.session.graph.as_default(), self.session.graph.transaction():
            take = [
                _taking(handle.outputs[0], self.values[name])
                for name, handle in zip(names, found[: len(names)], strict=True)
            ]
        copies = dict(zip(tensors, found[len(names) :], strict=True))
        return {key: _moved(signature, copies) for key, signature in signatures.items()}, take

    def _add(self, nodes: Iterable[NodeDef], elements: list[str], name: str) -> list[Tensor | Operation]:
        with self.session.graph.as_default():
            return import_graph_def(GraphDef(tuple(nodes)), return_elements=elements, name=name) or []

    def _with_own_variables(self, node: NodeDef) -> NodeDef:
        if node.op != "variable":
            return node
        place = {"container": self.session.own_container, "shared_name": ""}
        return dataclasses.replace(node, attr={**node.attr, **place})


def _is_object(node: NodeDef) -> bool:
    """Whether the node is the handle of an object that outlives a step."""
    return "shared_name" in node.attr


def _object_of_training(node: NodeDef, devices: Mapping[str, str]) -> NodeDef:
    """Return the node; a handle then names the object of the training, and lies on its device."""
    if not _is_object(node):
        return node
    attr = {**node.attr, "shared_name": node.attr["shared_name"] or node.name}
    return dataclasses.replace(node, attr=attr, device=devices.get(node.name, node.device))


def _taking(handle: Tensor, value: Tensor) -> Operation:
    with handle.graph.colocate_with(handle, ignore_existing=True):
        return adopt_variable(handle, value)


def _moved(signature: Signature, copies: Mapping[Tensor, Tensor]) -> Signature:
    inputs, outputs = (
        {name: copies[tensor] for name, tensor in tensors.items()} for tensors in (signature.inputs, signature.outputs)
    )
    return dataclasses.replace(signature, inputs=inputs, outputs=outputs)
