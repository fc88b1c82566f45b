"""One step over the local devices: what all runs of a session share, and what one of them needs.

`Local` owns the state, the threads and the plans of one session. `run_step` takes a plan and fed values and returns the
fetched ones; whatever ends it, nothing of the step is left, except kernels still inside C code, which are counted.
"""

import asyncio
import contextlib
import contextvars
import copy
import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.blame import located
from aioflow.config import Config, RunOptions
from aioflow.context import Context
from aioflow.devices.cpu import Cores, Threads
from aioflow.dtypes import Array
from aioflow.executor import Execution, Outputs, Program, Unit, UnitCoroutine, note_waiting
from aioflow.files import FILES
from aioflow.numerics import check_feeds, check_finite
from aioflow.plan_cache import DEFAULT, Planned, Plans
from aioflow.resources import Resources
from aioflow.slices import Slice
from aioflow.tracing import RunMetadata, Trace

CPU_NAME: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
_AT_A_TIME: Final = 32
"""So many steps are ended before the loop gets a turn."""
_clock: Final = time.perf_counter


class Local:
    """What the steps of one local session share."""

    def __init__(self, config: Config) -> None:
        self.config: Final = config
        self.resources: Final = Resources()
        self.compute: Final = Threads("aioflow-compute", config.compute_threads)
        self.cores: Final = Cores("aioflow-cores", os.cpu_count() or 1)
        self.python: Final = Threads("aioflow-py_func", 32)
        self.reading: Final = Threads("aioflow-files", 16)
        self.files = FILES
        self.steps: set[Step] = set()
        self.step_count = 0
        self.progress = 0
        """How many units have ended, in all steps."""
        self.on_stall: Callable[[], object] = lambda: None
        self._watch: asyncio.TimerHandle | None = None
        self._seen = 0
        self._counts: dict[str, int] = {}
        self.slice = Slice()
        self.quiet: Final = _quiet_context()
        self.light: Final = Step(self, (), due=math.inf)
        self._drained: asyncio.Future[None] | None = None
        unbound = Context(np, self.resources, None)  # type: ignore[arg-type]  # no step: for handles alone
        self.plans: Final = Plans(config, unbound, self.compute)

    @property
    def threads(self) -> tuple[Threads, ...]:
        """All its threads but those of the cores, by what they are for."""
        return self.compute, self.python, self.reading

    def take_counts(self, names: Sequence[str]) -> dict[str, int]:
        """How often these operations ran before; from here on they ran once more."""
        taken = {name: self._counts.get(name, 0) for name in names}
        self._counts.update({name: count + 1 for name, count in taken.items()})
        return taken

    async def pause(self) -> None:
        """Let the loop turn if inline work has used up its slice of time."""
        if self.slice.used_up():
            await asyncio.sleep(0)

    async def abort(self, error: errors.OpError) -> None:
        """End every step with `error` and wait until none is left, up to `Config(close_timeout=)` seconds.

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

    def begins(self, step: "Step") -> None:
        """A step has begun. If nothing ends for `Config(stall_report=)` seconds from then on, `on_stall` is called."""
        self.steps.add(step)
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
            self.begins(next(iter(self.steps)))

    def ended(self, step: "Step") -> None:
        """A step is over."""
        self.steps.discard(step)
        if not self.steps and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def close(self) -> list[str]:
        """Release state and threads. Returns what still runs in C code after the limit."""
        limit = self.config.close_timeout
        left = [name for threads in self.threads for name in await threads.close(limit)]
        if self._watch is not None:
            self._watch.cancel()
        self.cores.close()
        self.resources.clear()
        self.plans.clear()
        return left


class Step:
    """One run. It is the `Host` of its execution and the `StepView` of its kernels."""

    __slots__ = (
        "_cancelling", "_counts", "_execution", "_local", "_lone", "_numerics", "_task", "_trace", "context", "ended",
        "error", "id",
    )  # fmt: skip

    def __init__(
        self,
        local: Local,
        counted: Sequence[str],
        trace: Trace | None = None,
        numerics: bool = False,
        due: float | None = None,
    ) -> None:
        self._local = local
        self._trace = trace
        self._numerics = numerics
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._lone: tuple[Unit, float] | None = None
        self._execution: Execution | None = None
        self.id = local.step_count = local.step_count + 1
        self.context = Context(np, local.resources, self, local.slice.due if due is None else due)
        self.ended = False
        self.error: errors.OpError | None = None
        self._counts = local.take_counts(counted)

    def renew(self, counted: Sequence[str]) -> None:
        """Become the next step."""
        self.id = self._local.step_count = self._local.step_count + 1
        if counted:
            self._counts = self._local.take_counts(counted)

    # What kernels see

    def times_run(self, name: str) -> int:
        """How often the operation ran in this session before this step began."""
        return self._counts[name]

    def check(self) -> None:
        """CancelledError if the step has ended."""
        if self.ended:
            raise errors.CancelledError("the step has ended; its state changes are not committed")

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) for parts that make up range(size), on the device's cores at the same time."""
        self._local.cores.share_out(work, size)

    async def fed(self, index: int) -> Array:
        """Only in a partial run do kernels wait for feeds."""
        raise errors.InternalError(f"feed {index} is waited for in a run that was given all feeds")

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of `function`, run on a thread with the caller's context variables."""
        call = functools.partial(contextvars.copy_context().run, function, *args)
        return await self._local.python.run(call, getattr(function, "__qualname__", repr(function)))

    async def with_files(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of function(files, *args), run on one of the threads that read and write files."""
        call = functools.partial(function, self._local.files, *args)
        return await self._local.reading.run(call, getattr(function, "__qualname__", repr(function)))

    # What the executor needs

    clock = staticmethod(_clock)

    async def pause(self) -> None:
        """Let the loop turn if the slice of time is used up."""
        await self._local.pause()

    async def inline(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits here, letting the loop turn when its slice of time is used up."""
        spent = 0.0
        while True:
            self.context.due = self._local.slice.begin()
            start = _clock()
            try:
                self._local.quiet.run(coroutine.send, None)
            except StopIteration as done:
                unit.cost.learn(bucket, spent + _clock() - start)
                outputs: Outputs = done.value
                return outputs
            spent += _clock() - start
            await asyncio.sleep(0)

    async def offload(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits on a compute thread. Cancelling returns at once."""
        drive = functools.partial(self._local.quiet.copy().run, self._drive, unit, bucket, coroutine)
        return await self._local.compute.run(drive, repr(unit), coroutine.close)

    def _drive(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        if self._trace is not None:
            self._trace.on_thread(unit.nodes[0].name)
        start = _clock()
        try:
            while True:
                coroutine.send(None)
                if self.ended:
                    coroutine.close()
                    self.check()
        except StopIteration as done:
            unit.cost.learn(bucket, _clock() - start)
            outputs: Outputs = done.value
            return outputs

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Trace the unit and look at its outputs, if the run asked for it."""
        self._local.progress += 1
        node = unit.nodes[0] if unit.nodes else None
        if self._trace is not None and node is not None:
            self._trace.record(node.name, node.definition.name, unit.waits, start, start, outputs)
        if self._numerics and node is not None:
            check_finite(node, inputs, outputs)

    def under_way(self) -> list[tuple[Unit, float]]:
        """What has begun and not ended, and when each did, on its clock."""
        if self._execution is not None:
            return self._execution.under_way()
        return [] if self._lone is None else [self._lone]

    async def run_alone(self, unit: Unit, feeds: Outputs) -> Outputs:
        """Drive the only unit of a run, which may wait, in the caller's own task.

        Nothing is awaited after it: whoever is cancelled has not had what it waited for.
        """
        self._lone = unit, _clock()
        with self:
            try:
                outputs = await unit.begin(self.context, *feeds)
            except BaseException as error:
                note_waiting(error, [unit])
                made = located(error, unit.find, unit.nodes[0], feeds)
                raise made from made.__cause__
        self._local.progress += 1
        return outputs

    # Its life

    def abort(self, error: errors.OpError) -> None:
        """End it with `error`, from outside the task that runs it."""
        if self._task is not None and self.error is None:
            self.error = copy.copy(error)  # with a traceback of its own: many steps may end with it
            self._task.cancel()

    def __enter__(self) -> None:
        """The caller's task runs it from here on."""
        task = self._task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._local.begins(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """It is over. If `abort` ended it, that error is raised."""
        self.ended = True
        self._local.ended(self)
        task, self._task = self._task, None
        assert task is not None
        aborted = self.error is not None and isinstance(error, asyncio.CancelledError)
        if aborted and task.uncancel() <= self._cancelling:
            assert self.error is not None
            raise self.error from None

    async def run(self, program: Program, feeds: Outputs, limit: float | None) -> list[Array]:
        """Execute the program. Cancelling the caller's task ends the step and leaves nothing of it."""
        execution = self._execution = Execution(program, self)
        with self:
            if limit is None:
                return await execution.run(feeds)
            try:
                async with asyncio.timeout(limit):
                    return await execution.run(feeds)
            except TimeoutError as late:
                if isinstance(late, errors.OpError):
                    raise
                raise deadline_exceeded(limit, late) from late


def deadline_exceeded(limit: float | None, late: TimeoutError) -> errors.DeadlineExceededError:
    """The error of a run that took longer than its limit, saying what it was waiting for."""
    cause = late.__cause__ or late.__context__
    notes = "; ".join(getattr(cause, "__notes__", [])) or "the run was computing"
    where = "/job:localhost/replica:0/task:0"
    return errors.DeadlineExceededError(f"the run took longer than {limit} s on {where}: {notes}", task=where)


async def run_step(
    local: Local, planned: Planned, feeds: Outputs, options: RunOptions = DEFAULT, metadata: RunMetadata | None = None
) -> Sequence[Array]:
    """The fetched values of one run, in the order of the plan's signature."""
    program = local.plans.program(planned, options)
    trace = Trace(metadata, CPU_NAME) if options.trace and metadata is not None else None
    if options.check_numerics:
        check_feeds(planned.plan.signature.feeds, feeds)
    step = Step(local, planned.plan.counted, trace, options.check_numerics)
    if metadata is not None:
        metadata.step_id = step.id
    limit = local.config.operation_timeout if options.timeout is None else options.timeout
    return await step.run(program, feeds, limit)


def run_light(local: Local, planned: Planned, unit: Unit, feeds: Outputs) -> Outputs | None:
    """The fetched values of a run that is one light unit which never waits; None if it is not light for these feeds.

    It needs no task, no timeout and no step of its own, for nothing else can happen before it is done.
    """
    bucket = unit.cost.bucket(feeds)
    if not unit.cost.light(bucket, feeds):
        return None
    step = local.light
    step.renew(planned.plan.counted)
    local.slice.begin()
    start = _clock()
    coroutine = unit.begin(step.context, *feeds)
    try:
        local.quiet.run(coroutine.send, None)
    except StopIteration as done:
        unit.cost.learn(bucket, _clock() - start)
        outputs: Outputs = done.value
        return outputs
    except BaseException as error:
        made = located(error, unit.find, unit.nodes[0], feeds)
        raise made from made.__cause__
    raise errors.InternalError(f"{unit!r} suspended, though it never waits")


def _quiet_context() -> contextvars.Context:
    """A context in which NumPy says nothing of overflow or division by zero: values say it, and checks if asked for.

    Kernels are driven inside it; entering np.errstate in every step would cost more than a small step.
    """
    context = contextvars.Context()
    context.run(np.errstate(all="ignore").__enter__)
    return context
