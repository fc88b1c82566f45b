"""Ops that take a snapshot: the values of many variables, queues and readers at one moment.

A step first marks every object of the snapshot. When all are marked, the first `cut_...` op of a task takes the values
of all objects marked on that task, at one moment. The devices of the variables do not matter, and the ops need only
their handles.

Nothing is copied: a value that was read never changes, and a later update writes to its own copy (`VariableState`).
"""

import threading
from typing import Any, Final, Protocol

from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState, read_together
from aioflow.tensors.dtypes import Array, DeviceKind, Spec

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


class HasContents(Protocol):
    """An object with contents that a snapshot can take: a queue, a reader."""

    def contents(self) -> Any:
        """The contents, sufficient to make an equal object."""


class Cut:
    """The objects that one step has marked on one task, and their contents after the snapshot."""

    def __init__(self) -> None:
        self._marked: Final[set[VariableState | HasContents]] = set()
        self._taken: dict[VariableState | HasContents, Any] = {}
        self._lock = threading.Lock()

    def mark(self, thing: VariableState | HasContents) -> None:
        """Include the object in the snapshot."""
        self._marked.add(thing)

    def value(self, thing: VariableState | HasContents) -> Any:
        """The object's contents in the snapshot; the first call takes the snapshot of all marked objects."""
        with self._lock:
            if thing not in self._taken:
                self._take(self._marked - self._taken.keys() | {thing})
            return self._taken[thing]

    def _take(self, things: set[VariableState | HasContents]) -> None:
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
    """The variable's value in the step's snapshot, which no later update changes.

    FailedPreconditionError if a variable that was marked on the task is not initialized.
    """
    return held(handle)


@cut_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState) -> Array:
    value: Array = ctx.step.common(Cut).value(state)
    return value


mark_variable.no_gradient("it marks a variable")
cut_variable.no_gradient("it is for checkpoints; gradients flow to the reads of the variable")
