"""One step over the local devices: the state of one run.

`run_step` takes a plan and fed values, and returns the fetched values. However it ends, it leaves nothing of the step
except kernels that are still inside C code, which are counted.
"""

import asyncio
import contextvars
import copy
import functools
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.devices import openmp
from aioflow.devices.device import HERE, AnyDevice
from aioflow.executor import Execution, note_standing
from aioflow.kernels.context import Context, Undo
from aioflow.program.error_location import located, reraise
from aioflow.program.heavy_runs import HeavyWork
from aioflow.program.program import Begin, Outputs, Programs, RunningUnit, Unit, UnitCoroutine
from aioflow.rendezvous import Key, LocalRendezvous, Rendezvous
from aioflow.resources.journal import Journal
from aioflow.runtime.check_numerics import check_feeds, check_finite, check_promised
from aioflow.runtime.device_executor import DeviceExecutor, take_threads
from aioflow.runtime.join import run_together
from aioflow.runtime.plan_cache import DEFAULT, Planned
from aioflow.runtime.session_state import RunningProgram, SessionState
from aioflow.runtime.waiters import pending_operations
from aioflow.tensors.dtypes import Array, DeviceKind
from aioflow.tracing import RunMetadata, Trace
from aioflow.waiting.handover import Handover

_clock: Final = time.perf_counter
C = TypeVar("C")
R = TypeVar("R")


class StepShare(NamedTuple):
    """The share of one task in a step over several tasks.

    Attributes:
        step: the number of the step on all tasks.
        session: the name under which the runs of its operations are counted.
        rendezvous: the rendezvous with other tasks, which may still receive sent values when this share is over.
    """

    step: int
    session: str
    rendezvous: Rendezvous


class Step:
    """One run, on one device or several. It is the `StepView` of its kernels."""

    __slots__ = (
        "_began",
        "_cancelling",
        "_common",
        "_coroutine",
        "_counts",
        "_executors",
        "_numerics",
        "_rendezvous",
        "_share",
        "_single",
        "_state",
        "_task",
        "context",
        "ended",
        "error",
        "executions",
        "id",
        "journal",
        "trace",
    )  # fmt: skip

    def __init__(
        self,
        state: SessionState,
        counted: Sequence[str],
        trace: Trace | None = None,
        numerics: bool = False,
        due: float | None = None,
        share: StepShare | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._state = state
        self.journal = journal
        self._share: Final = share
        self.trace: Final = trace
        self._numerics = numerics
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._single: Unit | None = None
        self._coroutine: UnitCoroutine | None = None
        self._common: dict[type, Any] = {}
        self._began = 0.0
        self.executions: Sequence[RunningProgram] = ()
        self._executors: Sequence[DeviceExecutor] = ()
        self._rendezvous: Rendezvous | None = None if share is None else share.rendezvous
        self.id = state.step_count = state.step_count + 1
        if share is not None:
            self.id, counted = share.step, [_counted(share, name) for name in counted]
        device = state.devices[0]
        self.context: Context = Context(
            device.xp, state.resources, self, state.slice.due if due is None else due, device
        )
        self.ended: bool = False
        self.error: errors.OpError | None = None
        self._counts = state.take_counts(counted)
        self._note_counts()

    def _note_counts(self) -> None:
        """Random operations draw the same numbers again if the run is repeated."""
        if self.journal is not None and self._counts:
            self.journal.undo(functools.partial(self._state.give_back_counts, self._counts))

    def renew(
        self, counted: Sequence[str], journal: Journal | None = None, rendezvous: Rendezvous | None = None
    ) -> None:
        """Become the next step."""
        self.journal = journal
        self._rendezvous = rendezvous
        self._state.step_count += 1
        self.id = self._state.step_count
        if self._common:
            self._common = {}
        if counted:
            named = counted if self._share is None else [_counted(self._share, name) for name in counted]
            self._counts = self._state.take_counts(named)
            self._note_counts()

    # The context of kernels

    def times_run(self, name: str) -> int:
        """How often the operation ran in this session before this step began."""
        return self._counts[name if self._share is None else _counted(self._share, name)]

    def counts(self) -> dict[str, int]:
        """How often operations ran in this session on this task, by name."""
        return self._state.counts(self._prefix)

    def recount(self, counts: Mapping[str, int]) -> None:
        """So often these operations ran in this session on this task."""
        self._state.recount(self._prefix, counts)

    @property
    def _prefix(self) -> str:
        return "" if self._share is None else _counted(self._share, "")

    def common(self, kind: type[C]) -> C:
        """Return the object of that kind that the kernels of this step share on this task."""
        found: C | None = self._common.get(kind)
        if found is None:
            found = self._common[kind] = kind()
        return found

    def check(self) -> None:
        """CancelledError if the step has ended, or ends as soon as its task runs again."""
        if self.ended or self.error is not None or self._is_cancelled():
            raise errors.CancelledError("the step has ended; its state changes are not committed")

    def _is_cancelled(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._cancelling

    @property
    def rendezvous(self) -> Rendezvous:
        """Where the parts of the step on different devices meet."""
        if self._rendezvous is None:
            self._rendezvous = LocalRendezvous()
        return self._rendezvous

    def flush(self) -> None:
        """Send values to other tasks now, unless another device of the step may send more in this turn of the loop."""
        if len(self._executors) == 1:
            self.rendezvous.flush()

    async def fed(self, index: int) -> Array:
        """Only in a partial run do kernels wait for feeds."""
        raise errors.InternalError(f"feed {index} is missing in a run that has all its feeds")

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of `function`, run on a thread with the caller's context variables."""
        call = functools.partial(contextvars.copy_context().run, function, *args)
        return await self._state.python.run(call, getattr(function, "__qualname__", repr(function)))

    def compute(self, ctx: Context, work: HeavyWork, inputs: Outputs) -> UnitCoroutine:
        """The results of kernels between two transfers, driven where they belong."""
        executor = next(each for each in self._executors if each.device is ctx.device)
        return executor.compute(ctx, work, inputs)

    def py_func(self, name: str) -> Callable[..., Any]:
        """The function that graphs may call by that name."""
        return self._state.py_func(name)

    async def with_files(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of function(files, *args), run on one of the threads that read and write files."""
        call = functools.partial(function, self._state.files, *args)
        return await self._state.reading.run(call, getattr(function, "__qualname__", repr(function)))

    # The host of its executors

    clock: ClassVar[Callable[[], float]] = staticmethod(_clock)

    def finished(self, executor: DeviceExecutor, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Trace the unit and look at its outputs, if the run asked for it."""
        self._state.progress += 1
        node = unit.nodes[0] if unit.nodes else None
        if executor.trace is not None and node is not None:
            fast = unit.kernel is not None and unit.kernel.fast
            executor.trace.record(node.name, node.definition.name, unit.waits, start, start, outputs, fast)
        if self._numerics and node is not None:
            seen = executor.seen(inputs), executor.seen(outputs)
            check_promised(node, *seen, executor.device.name)
            check_finite(node, *seen, executor.device.name)

    def under_way(self) -> list[RunningUnit]:
        """The units that have begun and not ended."""
        if self.executions:
            return [begun for execution in self.executions for begun in execution.under_way()]
        device = self.context.device.name
        return [] if self._single is None else [RunningUnit(self._single, self._began, self._coroutine, device)]

    @property
    def computes_alone(self) -> bool:
        """Whether no other step and no other device of its session computes here at the same time."""
        return len(self._executors) == 1 and len(self._state.steps) == 1

    def pending_operations(self) -> str:
        """The operations that it computes and waits for, the cause of the delay first; empty if there are none."""
        return pending_operations(self._state, self)

    async def run_alone(self, unit: Unit, feeds: Outputs) -> Outputs:
        """Drive the only unit of a run, which may wait, in the caller's own task.

        Nothing is awaited after it, so a cancelled call has taken nothing.
        """
        self._single, self._began = unit, _clock()
        with self:
            try:
                outputs = await unit.begin(self.context, *feeds)
            except BaseException as error:
                note_standing(error, self)
                reraise(located(error, unit.find, unit.nodes[0], feeds, self.context.device.name))
        self._state.progress += 1
        return outputs

    async def run_inline(self, unit: Unit, begin: Begin, feeds: Outputs) -> Outputs:
        """Drive the only unit of a run, which never waits, in the form that `inline_form` gives, in the caller's task.

        The loop turns between the slices of a light unit.
        """
        self._single, self._began = unit, _clock()
        self._coroutine = begin(self.context, *feeds)
        with self:
            try:
                outputs, spent = await self._drive(self._coroutine)
            except BaseException as error:
                note_standing(error, self)
                reraise(located(error, unit.find, unit.nodes[0], feeds, self.context.device.name))
            finally:
                self._coroutine = None
        unit.cost.learn(unit.cost.bucket(feeds), spent)
        self._state.progress += 1
        return outputs

    async def _drive(self, coroutine: UnitCoroutine) -> tuple[Outputs, float]:
        """The outputs of a coroutine that never waits, and the seconds spent in it."""
        slices, run, spent = self._state.slice, self._state.quiet.run, 0.0
        while True:
            self.context.due = slices.begin()
            start = slices.clock()
            try:
                run(coroutine.send, None)
            except StopIteration as done:
                return done.value, spent + slices.clock() - start
            spent += slices.clock() - start
            await asyncio.sleep(0)

    # Its life

    @property
    def handover(self) -> Handover:
        """The takes and puts of the step. A caller that awaits something after the step keeps it until then."""
        return self.common(Handover)

    async def before_handing_over(self, work: Awaitable[R]) -> R:
        """Await work between the end of the step and the return of its values.

        If the work fails or is cancelled, the step gives back the elements that it took.
        """
        try:
            return await work
        except BaseException as error:
            self.ended_with(error)
            raise

    def ended_with(self, error: BaseException) -> None:
        """Settle the handover after this error: the caller does not get the values of the step."""
        found: Handover | None = self._common.get(Handover)
        if found is not None:
            found.ended(error)

    def abort(self, error: errors.OpError) -> None:
        """End it with `error`, from outside the task that runs it."""
        if self._task is not None and self.error is None:
            self.error = copy.copy(error)  # a new traceback, since many steps may end with the error
            self.ended_with(self.error)  # at once: the next request finds the elements put back
            self._task.cancel()

    def __enter__(self) -> None:
        """The caller's task runs it from here on. CancelledError if the session was closed meanwhile."""
        self._state.check_open()
        task = self._task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._state.step_started(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """It is over. If `abort` ended it, that error is raised."""
        self.end(error)
        task, self._task = self._task, None
        assert task is not None
        aborted = self.error is not None and isinstance(error, asyncio.CancelledError)
        if aborted and task.uncancel() <= self._cancelling:
            assert self.error is not None
            aborting, self.error = self.error, None
            try:
                raise aborting from None
            finally:
                del aborting, error, trace  # their tracebacks lead here

    def end(self, error: BaseException | None) -> None:
        """Undo the effects of a failed step, and release what refers to the step."""
        self.ended = True
        if error is not None:
            self.common(Undo).now()
            self.ended_with(self.error or error)
        self._state.ended(self)
        self.executions = self._executors = ()
        del self.context  # both refer to this step, which is freed at once instead of by the garbage collector

    async def run(self, programs: Programs, feeds: Outputs, limit: float | None) -> list[Array]:
        """Execute the programs. Cancelling the caller's task ends the step and leaves nothing of it."""
        self._executors = [self._executor(part.device) for part in programs.parts]
        executions = [
            Execution(part.program, executor) for part, executor in zip(programs.parts, self._executors, strict=True)
        ]
        self.executions = executions
        with self:
            if limit is None:
                return await self._run_parts(executions, programs, feeds)
            try:
                async with asyncio.timeout(limit):
                    return await self._run_parts(executions, programs, feeds)
            except TimeoutError as late:
                if isinstance(late, errors.OpError):
                    raise
                raise deadline_exceeded(limit, late) from late

    def _executor(self, device: AnyDevice) -> DeviceExecutor:
        state, context = self._state, self.context
        if device is not context.device:
            context = Context(device.xp, state.resources, self, context.due, device)
        return DeviceExecutor(state, self, device, context)

    async def _settled(self) -> None:
        """Wait until all GPUs have finished the work of the step. Their errors fail the step."""
        for executor in self._executors:
            if executor.device.kind is DeviceKind.GPU:
                await executor.settled()

    async def _run_parts(self, executions: Sequence[Execution], programs: Programs, feeds: Outputs) -> list[Array]:
        if self._share is not None:
            return await self._run_share(executions, programs, feeds)
        if len(executions) == 1:
            fetched = await executions[0].run(feeds)
            await self._settled()
            return fetched
        left: Sequence[Key] = ()
        try:
            results = await run_together(executions, [part.given(feeds) for part in programs.parts], self)
            await self._settled()
        finally:
            left = [key for key in self.rendezvous.close() if not key.edge.is_credit]
        if left:
            raise errors.InternalError(f"sent and never received: {', '.join(map(str, left))}")
        return programs.joined(results)

    async def _run_share(self, executions: Sequence[Execution], programs: Programs, feeds: Outputs) -> list[Array]:
        given = [part.given(feeds) for part in programs.parts]
        if len(given) == 1:
            results = [await executions[0].run(given[0])]
        else:
            results = await run_together(executions, given, self)
        await self._settled()
        return programs.joined(results)


def _counted(share: StepShare, name: str) -> str:
    return f"{share.session}/{name}"


def deadline_exceeded(limit: float | None, late: TimeoutError) -> errors.DeadlineExceededError:
    """Return the error of a run that exceeded its time limit, with its waits."""
    cause = late.__cause__ or late.__context__
    notes = "; ".join(getattr(cause, "__notes__", [])) or "the run was computing"
    return errors.DeadlineExceededError(f"the run took longer than {limit} s on {HERE}: {notes}", task=HERE)


async def run_step(
    state: SessionState,
    planned: Planned,
    feeds: Outputs,
    options: RunOptions = DEFAULT,
    metadata: RunMetadata | None = None,
) -> tuple[Step, Sequence[Array]]:
    """One run, and its fetched values in the order of the plan's signature."""
    programs = await state.plans.programs(planned, state.plans.variant(options))
    trace = Trace(metadata, state.devices[0].name) if options.trace and metadata is not None else None
    if options.check_numerics:
        check_feeds(planned.plan.signature.feeds, feeds)
    step = Step(state, planned.plan.counted, trace, options.check_numerics)
    if metadata is not None:
        metadata.step_id = step.id
    limit = state.config.operation_timeout if options.timeout is None else options.timeout
    return step, await step.run(programs, feeds, limit)


def run_light(
    state: SessionState,
    step: Step,
    counted: Sequence[str],
    unit: Unit,
    feeds: Outputs,
    journal: Journal | None = None,
    rendezvous: Rendezvous | None = None,
) -> Outputs | None:
    """Run a single unit that never suspends, if it is light or short, and return the fetched values; else None.

    It needs no Task, no timeout and no step of its own, since nothing else can run before it is done: all light runs of
    a session share `step`, one after the other.
    """
    bucket = unit.cost.bucket(feeds)
    if unit.cost.endless or not (unit.cost.light(bucket, feeds) or unit.cost.short(bucket)):
        return None
    step.renew(counted, journal, rendezvous)
    if openmp.holders:
        take_threads(unit.cost, bucket)
    clock = state.slice.clock
    start = clock()
    coroutine = unit.begin(step.context, *feeds)
    try:
        state.quiet.run(coroutine.send, None)
    except StopIteration as done:
        unit.cost.learn(bucket, clock() - start)
        outputs: Outputs = done.value
        return outputs
    except BaseException as error:
        reraise(located(error, unit.find, unit.nodes[0], feeds, step.context.device.name))
    raise errors.InternalError(f"{unit!r} suspended, though it never waits")


def inline_form(state: SessionState, unit: Unit, feeds: Outputs) -> Begin | None:
    """The form of a unit that never waits, to run it in the caller's task. None if it belongs on a thread.

    A heavy unit that is done within one slice has its form for threads, which is faster and has no pauses, if the loop
    has just turned.
    """
    bucket = unit.cost.bucket(feeds)
    if not unit.cost.heavy(bucket, feeds):
        return unit.begin
    if not unit.cost.brief(bucket) or state.slice.used_up():
        return None
    take_threads(unit.cost, bucket)
    return unit.heavy or unit.begin


def light_step(state: SessionState, share: StepShare | None = None) -> Step:
    """A step for light runs."""
    return Step(state, (), due=math.inf, share=share)
