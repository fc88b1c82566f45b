"""All that one kernel call may see besides its inputs."""

from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from aioflow import errors
from aioflow.devices.memory import Ledger
from aioflow.rendezvous import Rendezvous
from aioflow.resources.containers import Resources
from aioflow.resources.journal import Journal
from aioflow.tensors.dtypes import DeviceKind, Namespace
from aioflow.tracing import Trace
from aioflow.waiting.handover import GiveBack, Handover, TakeOut

C = TypeVar("C")


class Undo:
    """Undoes the changes that a step has made on this task, if it fails, on this or another task: one of `common`.

    May be used on any thread.
    """

    def __init__(self) -> None:
        self._left: Final[deque[Callable[[], object]]] = deque()
        self._failed = False

    def add(self, change: Callable[[], object]) -> None:
        """This is called once if the step fails, at once if it has."""
        self._left.append(change)
        if self._failed:
            self.now()

    def now(self) -> None:
        """Undo all changes, and all later ones as they are added."""
        self._failed = True
        while True:
            try:
                change = self._left.pop()
            except IndexError:  # another thread may have taken the last one
                return
            change()


class Stop:
    """Stops a computation on a compute thread: the loop sets it, the thread reads it between two kernels.

    Attributes:
        asked: whether the computation must stop.
    """

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: bool = False

    def check(self) -> None:
        """Raise CancelledError if the computation must stop."""
        if self.asked:
            raise errors.CancelledError("the run has ended; its computation stops here")


class StepView(Protocol):
    """The part of a step that kernels see."""

    id: int
    journal: Journal | None
    """The journal of the step's changes; None if the run is not repeatable."""

    def times_run(self, name: str) -> int:
        """How often the operation ran in this session before this step began."""

    def counts(self) -> dict[str, int]:
        """How often operations ran in this session on this task, by name: those that ask for it."""

    def recount(self, counts: Mapping[str, int]) -> None:
        """From here on these operations ran so often in this session on this task."""

    def common(self, kind: type[C]) -> C:
        """The object of that type that the kernels of this step share on this task, made at first use."""

    def check(self) -> None:
        """CancelledError if the step has ended or is being ended: kernels ask before they commit a change."""

    @property
    def rendezvous(self) -> Rendezvous:
        """Where the parts of the step on different devices meet."""

    @property
    def trace(self) -> Trace | None:
        """The trace of the run, or None."""

    async def fed(self, index: int) -> Any:
        """The value of a feed, once the caller has given it: in a partial run that may be later."""

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of `function`, run on a new thread with the caller's context variables."""

    def compute(self, ctx: "Context", work: Any, inputs: Sequence[Any]) -> Coroutine[Any, Any, Sequence[Any]]:
        """The results of kernels that never wait, driven on the loop or on a compute thread of the context's device."""

    def py_func(self, name: str) -> Callable[..., Any]:
        """The function that graphs may call by that name. PermissionDeniedError if none is registered."""

    async def with_files(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of function(files, *args), run on one of the threads that read and write files."""


class DeviceView(Protocol):
    """The part of a device that kernels see."""

    @property
    def name(self) -> str:
        """Its full name."""

    @property
    def kind(self) -> DeviceKind:
        """The kind of kernels it can run."""

    @property
    def accounts(self) -> Ledger | None:
        """The ledger of the memory of its kernels' outputs, or None."""

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) for parts that make up range(size), on the device's cores at the same time."""


_NEVER: Final = Stop()
"""For computations on the loop: these stop by cancellation while they pause."""


class Context:
    """The device and its array namespace, named state, and the step; `due` ends the slice of time.

    Attributes:
        stop: stops the computation before its next kernel, if it runs on a compute thread.
        iteration: the numbers of the iterations of the loops around, outermost first.
    """

    __slots__ = ("device", "due", "iteration", "resources", "step", "stop", "xp")

    def __init__(
        self, xp: Namespace, resources: Resources, step: StepView, due: float = 0.0, device: DeviceView | None = None
    ) -> None:
        self.due: float = due
        self.stop: Stop = _NEVER
        self.iteration: tuple[int, ...] = ()
        self.xp: Final = xp
        self.resources: Final = resources
        self.step: Final = step
        self.device: Final[DeviceView] = device  # type: ignore[assignment]  # tests of single kernels have none

    @property
    def kind(self) -> DeviceKind:
        """The kind of kernels the device can run."""
        return DeviceKind.CPU if self.device is None else self.device.kind

    def at(self, iteration: tuple[int, ...]) -> "Context":
        """The same inside that iteration. Its slice of time is this one's."""
        return _Inside(self, iteration)

    def stoppable(self) -> "Context":
        """A copy with its own `stop`, for one computation on a compute thread."""
        made = _Inside(self, self.iteration)
        made.stop = Stop()
        return made

    def took(self, give_back: GiveBack) -> None:
        """Register elements that the kernel took. `give_back` is called if the step's values are lost."""
        self.step.common(Handover).took(give_back, bool(self.iteration))

    def put(self, take_out: TakeOut) -> None:
        """Register elements that the kernel put. `take_out` is called if the step's values are lost."""
        self.step.common(Handover).put(take_out, bool(self.iteration))


class _Inside(Context):
    """A Context inside a loop."""

    __slots__ = ("_outside",)

    def __init__(self, outside: Context, iteration: tuple[int, ...]) -> None:
        self._outside = outside
        super().__init__(outside.xp, outside.resources, outside.step, outside.due, outside.device)
        self.stop = outside.stop
        self.iteration = iteration

    @property
    def due(self) -> float:
        """When the slice of time ends."""
        return self._outside.due

    @due.setter
    def due(self, due: float) -> None:
        self._outside.due = due

    def at(self, iteration: tuple[int, ...]) -> Context:
        """The same inside that iteration."""
        return _Inside(self._outside, iteration)
