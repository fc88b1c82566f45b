"""The global step: the variable that counts updates, one per graph, and its value at the end of a run.

Also the boundary between two steps of several replicas, which a consistent checkpoint waits for, and timers by steps or
by seconds.
"""

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import numpy as np

from aioflow.graph.building import get_default_graph
from aioflow.graph.default_session import Runner
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.session.training_report import ReportPace, TrainingReport
from aioflow.tensors import dtypes
from aioflow.tensors.recursion import safe_repr
from aioflow.train.recovery import Recovery
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

_log: Final = logging.getLogger("aioflow.train")


def get_global_step(graph: Graph | None = None) -> Variable | Tensor | None:
    """Return the global step: the tensor in the graph's GLOBAL_STEP collection, else its variable `global_step`.

    None if there is none, or if the collection has several.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is not a scalar.

    Examples:
        >>> step = af.train.create_global_step()
        >>> af.train.get_global_step() is step
        True
    """
    graph = graph or get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if not found:
        variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        found = [variable for variable in variables if variable.op.name == GraphKeys.GLOBAL_STEP]
    if len(found) != 1:
        return None
    step: Variable | Tensor = found[0]
    assert_global_step(step)
    return step


def create_global_step(graph: Graph | None = None) -> Variable:
    """Create the graph's global step, an int64 that begins at 0. ValueError if there is one already.

    Examples:
        >>> step = af.train.create_global_step()
        >>> train = af.train.GradientDescentOptimizer(0.1).minimize(af.square(af.Variable(1.0)), global_step=step)
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> await session.run(step)
        np.int64(1)
    """
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError("the graph has a global step already: use get_or_create_global_step()")
    keys = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP]
    with graph.as_default(), graph.name_scope(None):
        return Variable(np.int64(0), trainable=False, collections=keys, name=GraphKeys.GLOBAL_STEP)


def get_or_create_global_step(graph: Graph | None = None) -> Variable | Tensor:
    """Return the graph's global step, created if there is none.

    Examples:
        >>> af.train.get_or_create_global_step() is af.train.get_or_create_global_step()
        True
    """
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError unless it is a variable or tensor of integers, ValueError unless it is a scalar.

    Examples:
        >>> af.train.assert_global_step(af.train.create_global_step())
    """
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f"a global step is a variable or a tensor, not {safe_repr(global_step_tensor)}")
    if not global_step_tensor.dtype.is_integer:
        raise TypeError(f"a global step is an integer, not {global_step_tensor.dtype.name}: {global_step_tensor!r}")
    if not global_step_tensor.shape.is_compatible_with(dtypes.SCALAR):
        raise ValueError(f"a global step is a scalar, not of shape {global_step_tensor.shape}: {global_step_tensor!r}")


async def global_step(sess: Runner, global_step_tensor: Variable | Tensor) -> int:
    """Return the present value of the global step in that session.

    Examples:
        >>> step = af.train.create_global_step()
        >>> await session.run(step.initializer)
        >>> await af.train.global_step(session, step)
        0
    """
    return int(await sess.run(global_step_tensor))


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


def needed_step_read(user: str) -> Tensor:
    """Return the same. RuntimeError if there is no global step."""
    read = global_step_read()
    if read is None:
        raise RuntimeError(f"{user} needs a global step: build one by af.train.get_or_create_global_step()")
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
        self._reports: Final = ReportPace()

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
            if run_context.session.listeners and self._reports.is_due:
                self._reports.told()
                run_context.session.tell(TrainingReport(self.step))

    def after_recovery(self, session: Session, recovery: Recovery) -> None:
        """Tell those that watch the session."""
        session.tell(TrainingReport(self.step, event=str(recovery)))

    def end(self, session: Session) -> None:
        """Tell those that watch the session the last step."""
        session.tell(TrainingReport(self.step))

    async def read(self, session: Session) -> int | None:
        """The present step; None if there is none."""
        return None if self._read is None else int(await session.run(self._read))


@dataclasses.dataclass(frozen=True, slots=True)
class StepBoundary:
    """The operations by which a session keeps replicas from applying a step.

    Attributes:
        mark: the number of the hold.
        hold: keeps replicas from applying steps while it runs.
        ready: done when no step is being applied and none can begin.
    """

    mark: Tensor
    hold: Operation
    ready: Operation

    @contextlib.asynccontextmanager
    async def held(self, session: Session) -> AsyncIterator[None]:
        """Let no step be applied inside the block. If the session is lost, nothing is blocked.

        AbortedError if a step was applied in part.
        """
        feeds = {self.mark: secrets.randbits(62)}
        holding = asyncio.ensure_future(session.run(self.hold, feeds))
        ready = asyncio.ensure_future(session.run(self.ready, feeds))
        try:
            await asyncio.wait((holding, ready), return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
            await ready
            yield
        finally:
            for running in (ready, holding):
                running.cancel()
            await asyncio.gather(ready, holding, return_exceptions=True)


_PATIENCE: Final = 10.0
"""Seconds within which a step boundary must come for a consistent checkpoint."""


@contextlib.asynccontextmanager
async def between_steps(session: Session, graph: Graph, handles: frozenset[Operation]) -> AsyncIterator[bool]:
    """Let no step change the variables of these handles inside the block. Yields False if a step may."""
    async with contextlib.AsyncExitStack() as held:
        boundaries: list[StepBoundary] = graph.get_collection(GraphKeys.STEP_BOUNDARIES)
        for boundary in boundaries:
            await held.enter_async_context(boundary.held(session))
        if boundaries:
            yield True
            return
        reached = await held.enter_async_context(session.boundary.between(handles, _PATIENCE))
        if not reached:
            _log.warning("steps that change variables are never all done: a checkpoint is taken amid them")
        yield reached


class SecondOrStepTimer:
    """Tells when a periodic action is due: first at once, then every `every_secs` seconds or `every_steps` steps.

    Seconds are those of the running loop.

    Args:
        every_secs: seconds from one action to the next.
        every_steps: steps from one action to the next.

    Raises:
        ValueError: not exactly one of the two is given, or it is not above 0.

    Examples:
        >>> timer = af.train.SecondOrStepTimer(every_steps=10)
        >>> timer.should_trigger_for_step(0)
        True
        >>> timer.update_last_triggered_step(0)
        (None, None)
        >>> timer.should_trigger_for_step(5), timer.should_trigger_for_step(10)
        (False, True)
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if (every_secs is None) is (every_steps is None):
            raise ValueError("give either seconds or steps between two actions")
        every = every_steps if every_secs is None else every_secs
        if every is not None and every <= 0:
            raise ValueError(f"the interval must be above 0, not {every:g}")
        self._secs: Final = every_secs
        self._steps: Final = every_steps
        self._last: tuple[float, int] | None = None

    def reset(self) -> None:
        """Make the action due at once, as at first."""
        self._last = None

    def last_triggered_step(self) -> int | None:
        """The step of the last action; None before the first."""
        return None if self._last is None else self._last[1]

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether the action is due at that step; never twice at the same step."""
        if self._last is None:
            return True
        time, last = self._last
        if step == last:
            return False
        if self._secs is not None:
            return _now() >= time + self._secs
        assert self._steps is not None
        return step >= last + self._steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Record an action at that step. Returns the seconds and steps since the last one; None, None at first."""
        before, self._last = self._last, (_now(), step)
        return (None, None) if before is None else (self._last[0] - before[0], step - before[1])


def _now() -> float:
    return asyncio.get_running_loop().time()
