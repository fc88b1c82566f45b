"""The shared state of the steps of one session in this process: devices, variables, threads, plans, time limits."""

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from aioflow import errors
from aioflow.config import Config
from aioflow.devices import blas
from aioflow.devices.cpu import Threads, closed_meanwhile
from aioflow.devices.device import HERE, Device, local_devices
from aioflow.devices.memory import MemoryUse
from aioflow.files.filesystem import FILES, Files
from aioflow.program.program import Program, RunningUnit
from aioflow.rendezvous import Rendezvous
from aioflow.resources.containers import Resources
from aioflow.runtime.plan_cache import Plans
from aioflow.runtime.run_observer import RunObserver
from aioflow.waiting.tasks import Slice

_AT_A_TIME: Final = 32
"""So many steps are ended before the loop gets a turn."""


class RunningProgram(Protocol):
    """The run of a program on one device."""

    @property
    def program(self) -> Program:
        """The program."""

    @property
    def is_ready(self) -> bool:
        """Whether some unit is ready and has not begun."""

    def under_way(self) -> list[RunningUnit]:
        """The units that have begun and not ended."""


class Running(Protocol):
    """A step, as far as its session goes."""

    id: int

    def abort(self, error: errors.OpError) -> None:
        """End it with `error`."""

    def under_way(self) -> list[RunningUnit]:
        """The units that have begun and not ended."""

    @property
    def executions(self) -> Sequence[RunningProgram]:
        """Its executions, one for each device; empty if it runs a single unit."""

    def clock(self) -> float:
        """Its clock."""

    @property
    def rendezvous(self) -> Rendezvous:
        """Where its parts on different devices meet."""


_session_states: Final["weakref.WeakSet[SessionState]"] = weakref.WeakSet()


class SessionState:
    """The shared state of the steps of one local session."""

    def __init__(
        self, config: Config, task: str = HERE, py_funcs: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    ) -> None:
        self.config: Final = config
        self.task: Final = task
        self.py_funcs: Final = py_funcs
        """The functions that graphs may call by name."""
        self.resources: Final = Resources(shared=task == HERE)
        self.devices: Final = local_devices(config, task)
        first = self.devices[0]
        assert isinstance(first, Device)
        self.compute: Final = first.compute
        """Threads for work that belongs to no device."""
        self.python: Final = Threads("aioflow-py_func", 32)
        self.reading: Final = Threads("aioflow-files", 16)
        self.files: Final = FILES if config.file_roots is None else Files(config.file_roots)
        self.steps: dict[Running, None] = {}
        self.step_count = 0
        self.is_closed = False
        """Whether it is being closed, or was: no step begins."""
        self.light: Any = None
        """The step that light runs are, once there has been one."""
        self.observer: RunObserver | None = None
        """The observer of the next run."""
        self.progress = 0
        """How many units have ended, in all steps."""
        self.on_stall: Callable[[], object] = lambda: None
        self._watch: asyncio.TimerHandle | None = None
        self._seen = 0
        self._counts: dict[str, int] = {}
        self.slice: Slice = Slice()
        self.quiet: Final = _quiet_context()
        self._drained: asyncio.Future[None] | None = None
        self._blas = None if config.blas_threads is None else blas.limit_threads(config.blas_threads)
        self.plans: Final = Plans(config, self.devices, self.resources, self.compute)
        _session_states.add(self)

    @property
    def neighbours(self) -> "list[SessionState]":
        """The local sessions of its loop, which may share containers, and itself; on a server only itself."""
        if self.task != HERE:
            return [self]
        return [other for other in list(_session_states) if other.task == HERE and other.slice is self.slice]

    @property
    def threads(self) -> tuple[Threads, ...]:
        """All its threads except those of the cores, by purpose."""
        compute = [device.compute for device in self.devices if isinstance(device, Device)]
        return *compute, self.python, self.reading

    def py_func(self, name: str) -> Callable[..., Any]:
        """Return the function that graphs may call by that name. PermissionDeniedError if it is not registered."""
        found = self.py_funcs.get(name)
        if found is None:
            known = ", ".join(map(repr, sorted(self.py_funcs))) or "none"
            raise errors.PermissionDeniedError(f"no py_func {name!r} is registered with {self.task}, which has {known}")
        return found

    def take_counts(self, names: Sequence[str]) -> dict[str, int]:
        """How often these operations ran before; from here on they ran once more."""
        taken = {name: self._counts.get(name, 0) for name in names}
        self._counts.update({name: count + 1 for name, count in taken.items()})
        return taken

    def give_back_counts(self, taken: Mapping[str, int]) -> None:
        """Undo `take_counts` for these operations, except those that have run again since."""
        self._counts.update({name: count for name, count in taken.items() if self._counts.get(name) == count + 1})

    def counts(self, prefix: str) -> dict[str, int]:
        """How often operations ran whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): n for name, n in self._counts.items() if name.startswith(prefix)}

    def recount(self, prefix: str, counts: Mapping[str, int]) -> None:
        """So often these operations ran."""
        self._counts.update({prefix + name: count for name, count in counts.items()})

    async def pause(self) -> None:
        """Let the loop turn if inline work has used up its slice of time."""
        if self.slice.used_up():
            await asyncio.sleep(0)

    def check_open(self) -> None:
        """CancelledError if the session was closed since the run began."""
        if self.is_closed:
            raise closed_meanwhile()

    async def abort(self, error: errors.OpError) -> None:
        """End every step with `error`, and wait up to `Config(close_timeout=)` seconds until all have ended.

        The loop gets a turn after every few steps.
        """
        left = list(self.steps)
        try:
            while left:
                for _ in range(min(_AT_A_TIME, len(left))):
                    left.pop().abort(error)
                await asyncio.sleep(0)
        finally:
            for step in left:
                step.abort(error)
        if self.steps:
            self._drained = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.config.close_timeout):
                    await self._drained

    def step_started(self, step: Running) -> None:
        """A step has begun. If nothing ends for `Config(stall_report=)` seconds from then on, `on_stall` is called."""
        self.steps[step] = None
        if self._watch is None and self.config.stall_report is not None:
            self._seen = self.progress
            self._watch = asyncio.get_running_loop().call_later(self.config.stall_report, self._look)

    def _look(self) -> None:
        self._watch = None
        if not self.steps:
            return
        if self.progress == self._seen:
            self.on_stall()
        else:
            self.step_started(next(iter(self.steps)))

    def ended(self, step: Running) -> None:
        """A step is over."""
        self.steps.pop(step, None)
        if not self.steps and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def memory(self) -> dict[str, MemoryUse]:
        """What kernels have made and is still alive, by the devices that account for it."""
        return {device.name: device.memory.use() for device in self.devices if device.accounts is not None}

    async def close(self) -> list[str]:
        """Release state and threads. Returns the kernels that still run in C code after the limit."""
        limit = self.config.close_timeout
        await self.resources.end_iterations()
        left = [name for threads in self.threads for name in await threads.close(limit)]
        if self._watch is not None:
            self._watch.cancel()
        left += [device.name for device in self.devices if not await device.shut_down(limit)]
        if self._blas is not None:
            self._blas.release()
        self.resources.clear()
        self.plans.clear()
        return left


def _quiet_context() -> contextvars.Context:
    """Return a context in which NumPy does not warn of overflow or division by zero, which the values show.

    Kernels are driven inside it; entering np.errstate in every step would cost more than a small step.
    """
    context = contextvars.Context()
    context.run(np.errstate(all="ignore").__enter__)
    return context
