"""What a session tells of itself: devices, memory, placement, costs, plans, and operations that wait."""

import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors
from aioflow.devices.device import DeviceAttributes
from aioflow.devices.memory import MemoryUse
from aioflow.graph.graph import Graph
from aioflow.plan.cost_model import CostModel
from aioflow.plan.pipeline import Signature
from aioflow.plan.placement.report import Placement
from aioflow.runtime.engine import LocalEngine
from aioflow.runtime.explain import Report, with_idle_runners
from aioflow.runtime.feeds import feed_key, in_order
from aioflow.runtime.fetches import parse_fetches
from aioflow.runtime.run_observer import RunObserver
from aioflow.runtime.session_state import SessionState
from aioflow.session.training_report import TrainingListener, TrainingReport
from aioflow.tensors.codecs import Saving

if TYPE_CHECKING:
    from aioflow.net.client.client import Address, RemoteEngine


class SessionReports(abc.ABC):
    """The methods of a session that report, of which all but `replan` change nothing.

    Attributes:
        listeners: are told by `tell` how training in the session goes on.
    """

    def __init__(self, graph: Graph, engine: "LocalEngine | RemoteEngine") -> None:
        self.graph: Final = graph
        self._engine: Final = engine
        self.listeners: Final[set[TrainingListener]] = set()

    @abc.abstractmethod
    def _check(self) -> None:
        """RuntimeError if the session is closed or used on another loop than before."""

    async def explain(self) -> Report:
        """Return the running operations with their waits, since when, and the user's lines that built them.

        The report also names the queue runners of the graph that never started. `str` gives it as text.
        """
        self._check()
        return with_idle_runners(await self._engine.explain(), self, self.graph)

    def tell(self, report: TrainingReport) -> None:
        """Tell the listeners of the session how its training goes on."""
        for listener in list(self.listeners):
            listener(report)

    @property
    def run_count(self) -> int:
        """The runs that have begun, also those that failed."""
        return self._engine.runs

    def observe_next_run(self, observer: RunObserver | None) -> None:
        """Let an observer run around the next run; None for nobody, also if the next run has not come yet."""
        self._engine.observer = observer

    def list_devices(self) -> list[DeviceAttributes]:
        """Return its devices. Those of a cluster are known after the first run."""
        return list(self._engine.devices)

    async def memory(self) -> dict[str, MemoryUse]:
        """Return the live results of kernels, by the names of the devices that track them.

        Feeds count after a kernel returns them, constants after their first use. Memory that kernels allocate and free
        does not count.

        Raises:
            ValueError: no device tracks them: set `Config(track_memory=True)` or a memory limit.
        """
        self._check()
        found = await self._engine.memory()
        if not found:
            raise ValueError("no device accounts for its memory: open the session with af.Config(track_memory=True)")
        return found

    async def placement(self, fetches: Any, feeds: Iterable[Any] = ()) -> Placement:
        """Where each node of a run would be put, and why; `str` of it is a table. Nothing runs.

        Args:
            fetches: as for `run`.
            feeds: the tensors that would be fed.
        """
        self._check()
        keys = [feed_key(self.graph, feed) for feed in feeds]
        tensors = tuple(in_order(tensor for key in keys for tensor in key.tensors))
        parsed = parse_fetches(self.graph, fetches)
        computed = tuple([tensor for tensor in parsed.tensors if tensor not in tensors])
        return await self._engine.placement(Signature(tensors, computed, parsed.operations))

    async def savings(self) -> dict[str, Saving]:
        """Return the bytes that lossy codecs have saved so far, by edge between devices."""
        self._check()
        return await self._engine.savings()

    @property
    def cost_model(self) -> CostModel:
        """The costs of operations and transfers, for placement; each traced run adds its measured times."""
        return self._state.plans.model

    async def replan(self) -> None:
        """Forget all plans, so that each call is placed again with the measured costs. State stays.

            await session.run(train, feeds, af.RunOptions(trace=True))
            await session.replan()

        Another session can use a saved model: `af.Config(cost_model=af.CostModel.load(path))`.
        """
        self._check()
        await self._engine.replan()

    @property
    def cached_plans(self) -> list[Signature]:
        """The call signatures whose plans are kept, the least recently used first."""
        return self._state.plans.signatures

    @property
    def detached_kernels(self) -> list[str]:
        """Kernels that still run in C code although their run was cancelled."""
        return [name for threads in self._state.threads for name in threads.detached]

    @property
    def local_state(self) -> SessionState | None:
        """The shared state of its local steps; None if they run on a cluster."""
        return self._engine.state if isinstance(self._engine, LocalEngine) else None

    @property
    def master(self) -> "Address | None":
        """Where the master of its cluster is; None if its steps are local."""
        return None if isinstance(self._engine, LocalEngine) else self._engine.address

    @property
    def _state(self) -> SessionState:
        """The shared state of its local steps. UnimplementedError if they run on a cluster."""
        if isinstance(self._engine, LocalEngine):
            return self._engine.state
        raise errors.UnimplementedError("a session of a cluster has this with its master, and it is not shown")
