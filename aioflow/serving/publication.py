"""Serves variables while they are trained: requests see all of them as they were at one moment between steps.

The graph of the training gets copies of what the signatures need, with variables of their own; queues and other objects
are those of the training. One copy serves. To publish, another one takes the present values of the trained variables
between two steps, and then serves in its turn. There are two, and further ones while requests use the others.
Nothing is copied: both variables hold one array, and the next update of the trained one is made elsewhere, since the
array has another holder. Requests that run go on with the copy that they began with.
"""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Mapping
from typing import Any, Final, cast

from aioflow import errors
from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.import_graph_def import import_graph_def
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.checkpoint import adopt_variable
from aioflow.kernels.state.variables import read_variable
from aioflow.saved_model.export import Exported, export
from aioflow.saved_model.signature import Signature
from aioflow.serving.batching import Batching
from aioflow.serving.choice import VersionChoice
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.signature_runner import SignatureRunner, make_runners
from aioflow.serving.status import VersionStatus
from aioflow.session import Session
from aioflow.session.request_batcher import BatchObserver

_log: Final = logging.getLogger("aioflow.serving")
_PATIENCE: Final = 10.0
"""Seconds within which a moment between steps must come."""
_MOST_COPIES: Final = 4


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


class Publication:
    """The versions of a model that is being trained. `Models.publish` makes it.

    Attributes:
        choice: the version that is served.
        every: the number of steps from one version to the next.

    Examples:
        >>> v, x = af.Variable(2.0), af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": v * x})
        >>> await session.run(v.initializer)
        >>> async with af.serving.Models() as models:
        ...     publication = await models.publish("scale", session, {"serving_default": signature}, every=100)
        ...     print(await models.find("scale").infer({"x": np.array([3.0], np.float32)}))
        {'y': array([6.], dtype=float32)}
    """

    def __init__(
        self,
        name: str,
        session: Session,
        signatures: Mapping[str, Signature],
        every: int,
        batching: Batching | None,
        observer: BatchObserver | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"every is {every} steps, and must be at least 1")
        if not signatures or any(signature.graph is not session.graph for signature in signatures.values()):
            raise ValueError("a publication needs signatures, all of the graph of the session that trains")
        self.choice: Final = VersionChoice(name, random.Random())
        self.every: Final = every
        self._name: Final = name
        self._session: Final = session
        self._signatures: Final = dict(signatures)
        self._batching: Final = batching
        self._observer: Final = observer
        self._copies: list[_Copy] = []
        self._exported: Exported | None = None
        self._publishing: Final = asyncio.Lock()
        self._steps = self._number = 0
        self._closed = False

    async def step(self) -> None:
        """Count a step of the training. After each `every` steps it publishes."""
        self._steps += 1
        if not self._steps % self.every:
            await self.publish()

    async def publish(self) -> int:
        """Serve the present values from now on. Returns the number of the version.

        Waits until no step is changing the variables, but for no request. If steps do not end for 10 s, or requests use
        four versions, the last version stays, and the log says so.

        Raises:
            FailedPreconditionError: a variable has no value, or there is no version that could stay.
            UnavailableError: the model is served no longer.
        """
        async with self._publishing:
            if self._closed:
                raise errors.UnavailableError(f"model {self._name!r} is served no longer, and takes no further version")
            copy = await self._unused_copy()
            if copy is not None and await self._take(copy):
                self._serve(copy)
            return self._number

    async def _unused_copy(self) -> _Copy | None:
        """Return a copy that no request uses, perhaps a new one; None if there are too many."""
        for copy in self._copies:
            if copy.version is None:
                return copy
            if copy.version.version != self._number and not copy.version.is_used:
                await copy.version.end()
                return copy
        if len(self._copies) == _MOST_COPIES:
            _log.warning("requests use %d versions of model %r, which keeps its version", _MOST_COPIES, self._name)
            return None
        return await self._build_copy()

    async def _take(self, copy: _Copy) -> bool:
        assert self._exported is not None
        trained = frozenset(self._exported.variables.values())
        async with self._session.boundary.between(trained, _PATIENCE) as reached:
            if reached:
                await self._session.run(copy.take)
                return True
        if not self._number:
            raise errors.FailedPreconditionError(
                f"steps that change the variables of {self._name!r} are never all done"
            )
        _log.warning("steps that change variables are never all done: model %r keeps its version", self._name)
        return False

    def _serve(self, copy: _Copy) -> None:
        """Let the copy serve all further requests."""
        for version in self.choice.available.values():
            version.state = "ending"
        self.choice.available.clear()
        self._number += 1
        copy.version = ServedVersion(self._name, self._number, copy.runners)
        copy.version.state = "available"
        self.choice.available[self._number] = copy.version
        self.choice.newest = self._number

    async def _build_copy(self) -> _Copy:
        if self._exported is None:
            self._exported = await asyncio.to_thread(export, self._signatures)
        scope = f"published/{len(self._copies)}"
        signatures, take = await asyncio.to_thread(_copied, self._session, self._exported, self._signatures, scope)
        copy = _Copy(make_runners(signatures, self._session, self._batching, self._observer), take)
        self._copies.append(copy)
        return copy

    # A source of versions for `Models`

    def status(self) -> list[VersionStatus]:
        """Return the state of the versions that have not ended, newest first."""
        versions = [copy.version for copy in self._copies if copy.version is not None]
        shown = [VersionStatus(each.version, each.state) for each in versions if each.state != "ended"]
        return sorted(shown, key=lambda status: -status.version)

    async def refresh(self, retry_failed: bool = True) -> list[errors.OpError]:
        """New versions come by `publish` alone."""
        return []

    async def set_label(self, label: str, version: int | None) -> None:
        """Raise FailedPreconditionError: each version gives its place to the next one."""
        raise errors.FailedPreconditionError(
            f"model {self._name!r} is being trained, so a label cannot keep a version: save it, and add the directory"
        )

    async def close(self) -> None:
        """Publish no further version, and wait for the requests that run."""
        self._closed = True
        async with self._publishing:
            self.choice.available.clear()
            for copy in self._copies:
                if copy.version is not None:
                    await copy.version.end()


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
