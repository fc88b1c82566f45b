"""Serves variables in the session that trains them.

The graph of the training gets copies of what the signatures need, with variables of their own; queues and other objects
are those of the training. One copy serves. To publish, another one takes the present values of the trained variables
between two steps, and then serves in its turn. There are two, and further ones while requests use the others.
Nothing is copied: both variables hold one array, and the next update of the trained one is made elsewhere, since the
array has another holder.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, Final, cast

from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.checkpoint import adopt_variable
from aioflow.kernels.state.variables import read_variable
from aioflow.saved_model.export import Exported
from aioflow.saved_model.signature import Signature
from aioflow.serving.loaded_replica import MakeRunners
from aioflow.serving.publication import MOST_VERSIONS, PATIENCE, Publication
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.signature_runner import SignatureRunner
from aioflow.session import Session


@dataclasses.dataclass(slots=True)
class _Copy:
    """A copy of what the signatures need.

    Attributes:
        runners: its signatures.
        take: gives its variables the present values of the trained ones.
        version: the version that it serves, or served last.
    """

    runners: Mapping[str, SignatureRunner]
    take: list[Operation]
    version: ServedVersion | None = None


class LocalPublication(Publication):
    """The versions of a model, each in the session that trains it."""

    def __init__(
        self, name: str, session: Session, signatures: Mapping[str, Signature], every: int, make_runners: MakeRunners
    ) -> None:
        super().__init__(name, session, signatures, every)
        self._make_runners: Final = make_runners
        self._copies: Final[list[_Copy]] = []

    async def _next_version(self, number: int) -> ServedVersion | None:
        copy = await self._unused_copy(number - 1)
        if copy is None or not await self._take(copy):
            return None
        copy.version = ServedVersion(self._name, number, copy.runners)
        return copy.version

    async def _unused_copy(self, last: int) -> _Copy | None:
        """Return a copy that no request uses, perhaps a new one; None if there are too many."""
        for copy in self._copies:
            if copy.version is None:
                return copy
            if copy.version.version != last and not copy.version.is_used:
                await copy.version.end()
                return copy
        if len(self._copies) == MOST_VERSIONS:
            self._note_full()
            return None
        return await self._build_copy()

    async def _take(self, copy: _Copy) -> bool:
        """Give a copy the present values. Returns whether it has them."""
        trained = frozenset((await self._export()).variables.values())
        async with self._session.boundary.between(trained, PATIENCE) as reached:
            if reached:
                await self._session.run(copy.take)
                return True
        self._note_no_moment()
        return False

    async def _build_copy(self) -> _Copy:
        exported, scope = await self._export(), f"published/{len(self._copies)}"
        signatures, take = await asyncio.to_thread(_copied, self._session, exported, self._signatures, scope)
        copy = _Copy(self._make_runners(signatures, self._session), take)
        self._copies.append(copy)
        return copy

    def _versions(self) -> list[ServedVersion]:
        return [copy.version for copy in self._copies if copy.version is not None]

    async def _end_versions(self) -> None:
        for version in self._versions():
            await version.end()


def _copied(
    session: Session, exported: Exported, signatures: Mapping[str, Signature], scope: str
) -> tuple[dict[str, Signature], list[Operation]]:
    """Return the signatures on a copy of their subgraph, and operations that copy the values to its variables."""
    graph = session.graph
    tensors = list(exported.names)
    handles = [f"{name}:0" for name in exported.variables]
    nodes = GraphDef(tuple([_apart(node, session.own_container) for node in exported.graph_def.node]))
    with graph.as_default(), graph.transaction(), graph.control_dependencies(None), graph.device(None):
        elements = [*handles, *[exported.names[tensor] for tensor in tensors]]
        found = cast("list[Tensor]", import_graph_def(nodes, return_elements=elements, name=scope))
        pairs = zip(exported.variables.values(), found, strict=False)
        take = [_taking(operation.outputs[0], handle) for operation, handle in pairs]
    copies: dict[Tensor, Any] = dict(zip(tensors, found[len(handles) :], strict=True))
    return {name: _moved(signature, copies) for name, signature in signatures.items()}, take


def _apart(node: NodeDef, own_container: str) -> NodeDef:
    """Return the node: a variable of its own, but the same queue, or other object of a container."""
    if "shared_name" not in node.attr:
        return node
    place = {"shared_name": node.attr["shared_name"] or node.name}
    if node.op == "variable":
        place = {"container": own_container, "shared_name": ""}
    return dataclasses.replace(node, attr={**node.attr, **place})


def _taking(trained: Tensor, handle: Tensor) -> Operation:
    with trained.graph.colocate_with(trained, ignore_existing=True):
        value = read_variable(trained)
    with trained.graph.colocate_with(handle, ignore_existing=True):
        return adopt_variable(handle, value)


def _moved(signature: Signature, copies: Mapping[Tensor, Tensor]) -> Signature:
    inputs, outputs = (
        {name: copies[tensor] for name, tensor in tensors.items()} for tensors in (signature.inputs, signature.outputs)
    )
    return dataclasses.replace(signature, inputs=inputs, outputs=outputs)
