"""The engine of a session runs its steps: on the local devices of this process, or on the master of a cluster."""

import asyncio
import functools
import secrets
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from aioflow.config import RunOptions
from aioflow.devices.cpu import closed_meanwhile
from aioflow.devices.device import DeviceAttributes, attributes_of
from aioflow.devices.memory import MemoryUse
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.control.lossy import savings_of
from aioflow.kernels.state.resource_handles import live_queue
from aioflow.plan.pipeline import Signature
from aioflow.plan.placement.report import Placement
from aioflow.queues import Queue
from aioflow.resources.containers import drop_shared
from aioflow.runtime.attempts import Attempt, note_run
from aioflow.runtime.call import Call
from aioflow.runtime.explain import Report, explain
from aioflow.runtime.fetches import Fetches
from aioflow.runtime.partial_run import PartialRun, Streamed
from aioflow.runtime.planning_thread import plan_beside
from aioflow.runtime.run_observer import RunObserver
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.update_gate import Boundary, Handles
from aioflow.tensors.codecs import Saving
from aioflow.tensors.dtypes import Array
from aioflow.tracing import RunMetadata
from aioflow.waiting.handover import Held
from aioflow.waiting.tasks import slice_of

if TYPE_CHECKING:
    from aioflow.net.client.queue import RemoteQueue


class AnyCall(Protocol):
    """A call signature made ready."""

    async def run(
        self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None = None
    ) -> Any:
        """Check and convert the feeds, run, and shape the result.

        After the last effect of the step it either awaits nothing, or gives back the taken elements if the run is
        cancelled there. With `held`, the handover of the step is added to the list instead, and the caller settles it.
        """


class AnyPartialRun(Protocol):
    """A step that is given feeds, and gives fetches, in several calls."""

    async def call(self, fetches: Iterable[Tensor | Operation], feeds: Mapping[Tensor, Array]) -> Sequence[Array]:
        """Give feeds, and return fetches as soon as they are there."""

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left."""


class Engine(Protocol):
    """The interface between a session and its engine."""

    @property
    def devices(self) -> Sequence[DeviceAttributes]:
        """Return its devices, as far as they are known."""

    @property
    def own_container(self) -> str:
        """Return the name of the container of its session alone."""

    def beside(self, graph: Graph) -> "Engine":
        """Return an engine for another graph, which reaches the same devices, variables and other objects."""

    def call(self, fetches: Fetches, feeds: Sequence[Tensor]) -> AnyCall:
        """A call signature made ready."""

    async def begin(self, signature: Signature, limit: float | None) -> AnyPartialRun:
        """Begin a partial run."""

    def owns_partial_run(self, handle: object) -> bool:
        """Whether that is a partial run of its."""

    async def explain(self) -> Report:
        """Return the running operations and their waits, without idle queue runners."""

    async def memory(self) -> dict[str, MemoryUse]:
        """Return the live results of kernels, by device, where they are tracked."""

    async def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why."""

    async def replan(self) -> None:
        """Forget all plans."""

    async def savings(self) -> dict[str, Saving]:
        """Return the bytes that lossy codecs have saved, by edge."""

    def queue(self, handle: Tensor) -> "Queue | RemoteQueue":
        """The live queue behind a handle."""

    async def take_back(self, attempt: Attempt, tasks: Sequence[str], deadline: float | None) -> tuple[str, ...]:
        """Undo the attempt on the tasks that keep journals. Returns the names of variables and operations not undone.

        UnavailableError if one of `tasks` cannot be reached.
        """

    async def close(self) -> None:
        """End all runs, and release all state."""


class Changing:
    """A call that changes variables."""

    def __init__(self, call: AnyCall, changed: Handles, boundary: Boundary) -> None:
        self._call, self._changed, self._boundary = call, changed, boundary

    async def run(
        self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None = None
    ) -> Any:
        """Run the call as soon as its variables may be changed."""
        return await self._boundary.run(self._changed, lambda: self._call.run(values, options, metadata, held))


class Unexamined:
    """A call of a large graph, of which its first run finds out on a thread what variables it changes."""

    def __init__(self, call: AnyCall, examine: Callable[[], Handles], boundary: Boundary) -> None:
        self._call, self._examine = call, examine
        self._changing: Final = functools.partial(Changing, call, boundary=boundary)
        self._found: AnyCall | None = None

    async def run(
        self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None = None
    ) -> Any:
        """Run the call as soon as its variables may be changed."""
        if self._found is None:
            changed = await plan_beside(self._examine)
            self._found = self._changing(changed) if changed else self._call
        return await self._found.run(values, options, metadata, held)


class LocalEngine:
    """Runs steps by the local devices.

    Attributes:
        state: the shared state of its steps.
    """

    def __init__(self, state: SessionState) -> None:
        self.state: Final = state
        self._partial: Final[set[Streamed]] = set()
        self._handles: Final[weakref.WeakSet[PartialRun]] = weakref.WeakSet()

    @property
    def runs(self) -> int:
        """The runs that have begun."""
        return self.state.step_count

    @property
    def observer(self) -> RunObserver | None:
        """The observer of the next run."""
        return self.state.observer

    @observer.setter
    def observer(self, observer: RunObserver | None) -> None:
        self.state.observer = observer

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """It is used on this loop."""
        self.state.slice = slice_of(loop)

    @property
    def devices(self) -> Sequence[DeviceAttributes]:
        """Return its devices."""
        return [attributes_of(device) for device in self.state.devices]

    @property
    def own_container(self) -> str:
        """Return the name of its default container."""
        return ""

    def beside(self, graph: Graph) -> "EngineBeside":
        """Return an engine for another graph, which runs its steps by the same devices and state."""
        return EngineBeside(self.state)

    def call(self, fetches: Fetches, feeds: Sequence[Tensor]) -> Call:
        """A call signature made ready."""
        return Call(self.state, fetches, feeds)

    async def begin(self, signature: Signature, limit: float | None) -> PartialRun:
        """Begin a partial run. `limit` is for each call of it."""
        note_run(signature)
        planned = await self.state.plans.plan(signature)
        programs = await self.state.plans.programs(planned, "streamed")
        self.state.check_open()
        step = Streamed(self.state, planned.plan, programs)
        self._partial.add(step)
        step.runner.add_done_callback(lambda runner: self._partial.discard(step))
        handle = PartialRun(step, planned.plan, limit)
        self._handles.add(handle)
        return handle

    def owns_partial_run(self, handle: object) -> bool:
        """Whether that is a partial run of its."""
        return handle in self._handles

    async def explain(self) -> Report:
        """Return the running operations and their waits."""
        return explain(self.state)

    async def memory(self) -> dict[str, MemoryUse]:
        """Return the live results of kernels, by device, where they are tracked."""
        return self.state.memory()

    async def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why."""
        return await self.state.plans.placement(signature)

    async def replan(self) -> None:
        """Forget all plans."""
        self.state.plans.clear()

    async def savings(self) -> dict[str, Saving]:
        """Return the bytes that lossy codecs have saved, by edge."""
        return savings_of(self.state.resources).edges

    def queue(self, handle: Tensor) -> Queue:
        """The live queue behind a handle."""
        return live_queue(self.state.resources, handle)

    async def take_back(self, attempt: Attempt, tasks: Sequence[str], deadline: float | None) -> tuple[str, ...]:
        """Nothing: a session of this process keeps no journal."""
        return ()

    def __repr__(self) -> str:
        return f"{len(self.state.steps)} steps running"

    async def close(self) -> None:
        """End all runs with CancelledError, and release state and threads."""
        try:
            self.state.is_closed = True
            await self.state.abort(closed_meanwhile())
            await self._stop_partial_runs()
        finally:
            await self.state.close()

    async def _stop_partial_runs(self) -> None:
        await asyncio.gather(*[step.stop() for step in self._partial])


class EngineBeside(LocalEngine):
    """Runs the steps of another graph by the state of an engine. It has only a container of its own."""

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self._own_container: Final = f"beside-{secrets.token_hex(8)}"

    @property
    def own_container(self) -> str:
        """Return the name of a container that is dropped with it."""
        return self._own_container

    async def close(self) -> None:
        """Release the objects in its container. Its runs have ended, or end with the engine of the state."""
        try:
            await self._stop_partial_runs()
        finally:
            self.state.resources.forget(self._own_container)
            for container in drop_shared([self._own_container]):
                container.clear()
