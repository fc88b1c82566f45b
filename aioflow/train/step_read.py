"""Reads the global step at the end of a run."""

from typing import Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.step_counter import get_global_step

_READS: Final = "global_step_read_op_cache"
"""TensorFlow's collection for this tensor."""


def global_step_read() -> Tensor | None:
    """Return the default graph's global step after the updates built so far; None if there is no global step.

    Within a run, reads and updates of one variable happen in the order they were built, so the tensor has the step
    after the run.
    """
    graph = get_default_graph()
    found: list[Tensor] = graph.get_collection(_READS)
    step = get_global_step(graph)
    if found or step is None:
        return found[0] if found else None
    with graph.name_scope(None), graph.control_dependencies(None):
        read = step.value() if isinstance(step, Variable) else step
    graph.add_to_collection(_READS, read)
    return read


def needed_step_read(whom: str) -> Tensor:
    """Return the same. RuntimeError if there is no global step."""
    read = global_step_read()
    if read is None:
        raise RuntimeError(f"{whom} needs a global step: build one by af.train.get_or_create_global_step()")
    return read


class StepReadHook(SessionRunHook):
    """Tracks the global step.

    Attributes:
        step: the step after the last successful run; None if it is unknown.
        name: the name of its operation; None if the graph has no global step.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.name: str | None = None
        self._read: Tensor | None = None

    def begin(self) -> None:
        """Build the read."""
        self._read, variable = global_step_read(), get_global_step()
        self.name = None if variable is None else variable.op.name

    async def after_create_session(self, session: Session, coord: object) -> None:
        """Record the first step."""
        self.step = await self.read(session)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the step."""
        return None if self._read is None else SessionRunArgs(self._read)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Record the step."""
        if self._read is not None:
            self.step = int(run_values.results)

    async def read(self, session: Session) -> int | None:
        """The present step; None if there is none."""
        return None if self._read is None else int(await session.run(self._read))
