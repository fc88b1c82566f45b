"""Ops that take the values of many variables, and what queues and readers hold, at one moment: a cut.

In a step every variable of the cut is marked first, and then, when all are, its value is taken. The first of a task
that is taken takes those of all that were marked on that task, at one moment. So it does not matter on which devices
the variables are, and nothing has to be told of them but their handles.

Nothing is copied: what was read never changes, a later update works on a copy of its own (`VariableState`).
"""

import threading
from typing import Any, Final, Protocol

from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState, read_together
from aioflow.tensors.dtypes import Array, DeviceKind, Spec

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


class Takes(Protocol):
    """What has contents that can be taken at a moment: a queue, a reader."""

    def contents(self) -> Any:
        """What makes another like it."""


class Cut:
    """What one step has marked on one task, and what it held once that is taken."""

    def __init__(self) -> None:
        self._marked: Final[set[VariableState | Takes]] = set()
        self._taken: dict[VariableState | Takes, Any] = {}
        self._lock = threading.Lock()

    def mark(self, thing: VariableState | Takes) -> None:
        """What it holds will be taken with what the others hold."""
        self._marked.add(thing)

    def value(self, thing: VariableState | Takes) -> Any:
        """What it held at the moment of the cut, which is now for all if nothing was taken before."""
        with self._lock:
            if thing not in self._taken:
                self._take(self._marked - self._taken.keys() | {thing})
            return self._taken[thing]

    def _take(self, things: set[VariableState | Takes]) -> None:
        values = read_together({thing for thing in things if isinstance(thing, VariableState)})
        for thing in things:
            self._taken[thing] = values[thing] if isinstance(thing, VariableState) else thing.contents()


@op(stateful=True)
def mark_variable(handle: Spec) -> None:
    """The variable's value will be taken together with that of all that the step has marked on the task by then."""
    held(handle)


@mark_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState) -> None:
    ctx.step.common(Cut).mark(state)


@op(stateful=True)
def cut_variable(handle: Spec) -> Spec:
    """The variable's value at the moment of the step's cut, which no later update changes.

    FailedPreconditionError if a variable that was marked on the task has none.
    """
    return held(handle)


@cut_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState) -> Array:
    value: Array = ctx.step.common(Cut).value(state)
    return value


mark_variable.no_gradient("it marks a variable")
cut_variable.no_gradient("it is for checkpoints; gradients go to what reads the variable")
