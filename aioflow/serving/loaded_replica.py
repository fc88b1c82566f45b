"""A version of a model in one session of a cluster."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.graph.effects import STATES
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.state.variables import assign_variable, is_variable_initialized, read_variable, variable
from aioflow.plan.pipeline import Signature as CallSignature
from aioflow.runtime.update_gate import effects_of
from aioflow.saved_model.export import needed_operations
from aioflow.saved_model.loading import LoadedModel, load_stored
from aioflow.saved_model.reading import StoredModel
from aioflow.saved_model.signature import Signature
from aioflow.saved_model.tables import with_content
from aioflow.serving.replica import Replica
from aioflow.serving.signature_runner import Outputs, SignatureRunner
from aioflow.session import Session
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import TensorShape

MakeRunners = Callable[[Mapping[str, Signature], Session], Mapping[str, SignatureRunner]]


class LoadedReplica:
    """A version that is loaded into a session, with variables of its own, until that session loses a task.

    Attributes:
        runners: its signatures by name.
    """

    def __init__(
        self, session: Session, runners: Mapping[str, SignatureRunner], probes: Sequence[Tensor], pure: Set[str]
    ) -> None:
        """A version in a session. The probes tell whether it has its variables; runs of `pure` change nothing."""
        self.runners: Final = runners
        self._session: Final = session
        self._look: Final = session.make_callable(probes)
        self._pure: Final = pure

    def is_pure(self, signature: str) -> bool:
        """Whether a run of a signature changes nothing, so that it may be done twice."""
        return signature in self._pure

    async def run(self, signature: str, *request: Any) -> Outputs:
        """Return the outputs of a request. Raises as `ServedVersion.infer`."""
        return await self.runners[signature].run(*request)

    async def look(self) -> None:
        """Raise the error by which it is lost: its tasks do not answer, or have restarted."""
        if not all(await self._look()):
            raise errors.AbortedError("a task has restarted, and has lost the variables or tables of the model")

    async def abort(self, error: errors.OpError) -> None:
        """End the requests that wait, and those that run, and close the session."""
        for runner in self.runners.values():
            runner.abort(error)
        await self._session.close()

    @staticmethod
    async def load(
        replica: Replica, stored: StoredModel, config: Config | None, make_runners: MakeRunners
    ) -> "LoadedReplica":
        """Load a version, and warm it up. Raises as `saved_model.load`, or if the tasks cannot be reached.

        Its vocabulary files are read here, since the tasks may have no such files, or may not use them.
        """
        nodes = await asyncio.to_thread(with_content, stored.graph_def, stored.manifest.vocabularies)
        stored = dataclasses.replace(stored, graph_def=nodes)
        config = dataclasses.replace(config or Config(), device_filters=replica.tasks)
        session = Session(replica.target, graph=Graph(), config=config)
        try:
            model = await load_stored(stored, session, None, replica.keep_devices, session.own_container)
            marks = await asyncio.to_thread(_marks, session)
            if marks:
                await session.run(list(marks.values()))
            signatures = await asyncio.to_thread(_guarded, model.signatures, marks)
            examined = await asyncio.to_thread(_examine, session.graph, model, marks.values())
            loaded = LoadedReplica(session, make_runners(signatures, session), *examined)
            for request in model.warmup:
                await loaded.runners[request.signature].run(request.inputs, None, 0)
            await loaded.look()
        except BaseException:
            await session.close()
            raise
        return loaded


def _marks(session: Session) -> dict[Operation, Operation]:
    """Return what gives a value to a variable beside each table. A task that restarts loses both. Blocks."""
    graph, found = session.graph, dict[Operation, Operation]()
    tables = [each for each in graph.get_operations() if each.type in STATES and each.type != "variable"]
    for table in tables:
        with graph.as_default(), graph.colocate_with(table, ignore_existing=True):
            mark = variable(dtypes.bool_, TensorShape([]), container=session.own_container)
            found[table] = assign_variable(mark, True).op
    return found


def _guarded(signatures: Mapping[str, Signature], marks: Mapping[Operation, Operation]) -> dict[str, Signature]:
    """Return the signatures, whose runs fail without the marks of their tables. Blocks.

    A variable that a restarted task has lost fails a run by itself, but an empty table answers with defaults.
    """
    return {name: _guarded_one(signature, marks) if marks else signature for name, signature in signatures.items()}


def _guarded_one(signature: Signature, marks: Mapping[Operation, Operation]) -> Signature:
    needed = needed_operations(signature)
    with signature.graph.as_default():
        present = [_read(mark.inputs[0]).op for table, mark in marks.items() if table in needed]
        with signature.graph.control_dependencies(present):
            outputs = {name: identity(tensor) for name, tensor in signature.outputs.items()}
    return dataclasses.replace(signature, outputs=outputs)


def _read(handle: Tensor) -> Tensor:
    with handle.graph.colocate_with(handle, ignore_existing=True):
        return read_variable(handle)


def _examine(graph: Graph, model: LoadedModel, marks: Iterable[Operation]) -> tuple[list[Tensor], Set[str]]:
    """Return what tells whether each variable has a value, and the names of the signatures that change nothing.

    Among the variables are those that mark tables. A model without any has a probe that is true wherever it runs.
    Blocks.
    """
    with graph.as_default():
        probes = [constant(True)]
        for handle in (*[each.handle for each in model.variables.values()], *[mark.inputs[0] for mark in marks]):
            with graph.colocate_with(handle, ignore_existing=True):
                probes.append(is_variable_initialized(handle))
    return probes, {name for name, signature in model.signatures.items() if not _changes_state(signature)}


def _changes_state(signature: Signature) -> bool:
    return bool(effects_of(CallSignature(tuple(signature.inputs.values()), tuple(signature.outputs.values()), ())))
