"""A partial run: one step whose feeds arrive, and whose fetches are asked for, in several calls [P15 section 4.2].

Step after step as an async iterator, with the next steps under way while one is looked at.
"""

import asyncio
import contextlib
import copy
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.effects import takes_or_puts
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.control.control_flow import DEAD
from aioflow.plan.frame_levels import ROOT
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.pipeline import Plan
from aioflow.program.error_location import clear_frames, reraise
from aioflow.program.program import Outputs, Programs, Unit
from aioflow.runtime.device_executor import DeviceExecutor
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step, StepShare, deadline_exceeded
from aioflow.tensors.dtypes import Array
from aioflow.waiting.handover import Held


class Streamed(Step):
    """A step that runs in its own asyncio task and receives its feeds meanwhile.

    Attributes:
        given: a future of the value of each feed.
        made: a future of the value of each fetch; the dead mark for a fetch without a value.
        failure: the error that ended it; None if it did not fail.
        runner: the asyncio task.
    """

    __slots__ = ("_places", "_programs", "failure", "given", "made", "runner")

    def __init__(self, state: SessionState, plan: Plan, programs: Programs, share: StepShare | None = None) -> None:
        super().__init__(state, plan.counted, share=share)
        loop = asyncio.get_running_loop()
        self._programs: Final = programs
        self.given: Final = {tensor: loop.create_future() for tensor in plan.signature.feeds}
        self.made: Final = {tensor: loop.create_future() for tensor in plan.signature.fetches}
        self._places: dict[tuple[str, int], list[Tensor]] = {}
        for part in programs.parts:
            for index, slot in zip(part.fetches, part.program.fetches, strict=True):
                self._places.setdefault((part.device.name, slot), []).append(plan.signature.fetches[index])
        self.failure: errors.OpError | None = None
        self.runner: Final = loop.create_task(self._execute())

    async def _execute(self) -> None:
        try:
            await self.run(self._programs, (), None)
        except (Exception, asyncio.CancelledError) as error:
            self.failure = _failure(error)
            for future in self.made.values():
                if not future.done():
                    future.set_result(DEAD)
        finally:
            del self  # an error's traceback leads here, and it has the error

    async def fed(self, index: int) -> Array:
        """The value of a feed, once a call has given it."""
        value: Array = await list(self.given.values())[index]
        return value

    def finished(self, executor: DeviceExecutor, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Return each fetched value as soon as it is there."""
        super().finished(executor, unit, inputs, outputs, start)
        if unit.route.target != ROOT:
            return
        for slot, value in zip(unit.outputs, outputs, strict=True):
            for tensor in self._places.get((executor.device.name, slot), ()):
                if not self.made[tensor].done() and value is not DEAD:
                    self.made[tensor].set_result(value)

    async def value(self, fetch: Tensor) -> Array:
        """Wait for the value of a fetch. Raises the error of the step if it ends before."""
        value = await self.made[fetch]
        if value is DEAD:
            self.check_failure()
        return value

    def check_failure(self) -> None:
        """Raise the error that ended it, if there is one."""
        if self.failure is not None:
            reraise(_again(self.failure))

    def returned(self) -> None:
        """A call returns values that depend on taken elements. The step no longer gives back elements taken so far."""
        self.handover.forget()

    @property
    def has_feeds(self) -> bool:
        """Whether all were given."""
        return all(future.done() for future in self.given.values())

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left."""
        self.runner.cancel()
        await asyncio.wait([self.runner])

    def abandon(self) -> None:
        """End it soon if feeds are missing, since its handle is gone. May be called on any thread."""
        if not self.has_feeds:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self.runner.get_loop().call_soon_threadsafe(self.runner.cancel)


class PartialRun:
    """The handle of a step that callers feed and fetch from by and by. Made by `partial_run_setup`.

    Every feed and every fetch is used once. It is over when all are used, when a call of it is cancelled or takes too
    long, on an error, which every later call raises, and when the handle is gone before all was fed.
    """

    __slots__ = ("__weakref__", "_calls", "_fetched", "_needs", "_timeout", "step")

    def __init__(self, step: Streamed, plan: Plan, timeout: float | None = None) -> None:
        self._timeout: Final = timeout
        self._fetched: set[Tensor] = set()
        self._needs = dict(zip(plan.signature.fetches, _needs(plan.flow), strict=True))
        self._calls = 0
        self.step: Final = step
        weakref.finalize(self, self.step.abandon).atexit = False

    @property
    def runner(self) -> asyncio.Task[None]:
        """The task it runs in."""
        return self.step.runner

    # Its calls

    async def call(self, fetches: Iterable[Tensor | Operation], feeds: Mapping[Tensor, Array]) -> list[Array]:
        """Feed values, and return fetches as soon as they are there. A cancelled call ends the whole partial run.

        Raises:
            af.errors.InvalidArgumentError: the run is over, or a feed or fetch is not one of its own, was used before,
                or needs a missing feed. Then nothing is fed.
        """
        self.step.check_failure()
        if self.used_up and self.runner.done():
            raise errors.InvalidArgumentError("the partial run is over: must run partial_run_setup again")
        self._check_feeds(feeds)
        tensors = self._checked(fetches, feeds)
        for tensor, value in feeds.items():
            self.step.given[tensor].set_result(value)
        self._fetched.update(tensors)
        self._calls += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await self._take(tensors)
        except TimeoutError as late:
            if isinstance(late, errors.OpError):
                raise
            raise deadline_exceeded(self._timeout, late) from late
        finally:
            self._calls -= 1

    async def _take(self, tensors: Sequence[Tensor]) -> list[Array]:
        """The values. The call that leaves nothing to do waits for the end of the step, and raises its error."""
        try:
            values = [await self.step.value(tensor) for tensor in tensors]
            if self.used_up and self._calls == 1:
                await asyncio.wait([self.runner])
                self.step.check_failure()
        except asyncio.CancelledError as cancelled:
            await self.stop()
            for note in getattr(self.step.failure, "__notes__", ()):
                cancelled.add_note(note)
            raise
        if self.hands_over(tensors):
            self.step.returned()
        return values

    def hands_over(self, tensors: Iterable[Tensor]) -> bool:
        """Whether one of these fetches depends on an operation that takes or puts elements."""
        return any(self._needs[tensor] >> len(self.step.given) & 1 for tensor in tensors)

    def _check_feeds(self, feeds: Iterable[Tensor]) -> None:
        for tensor in feeds:
            if tensor not in self.step.given:
                raise errors.InvalidArgumentError(f"{tensor.name!r} is not among the feeds of this partial run")
            if self.step.given[tensor].done():
                raise errors.InvalidArgumentError(f"{tensor.name!r} has already been fed in this partial run")

    def _checked(self, fetches: Iterable[Tensor | Operation], feeds: Iterable[Tensor]) -> list[Tensor]:
        given = {tensor for tensor, future in self.step.given.items() if future.done()}.union(feeds)
        tensors = []
        for element in fetches:
            if isinstance(element, Operation):
                raise errors.InvalidArgumentError(only_tensors(element))
            if element not in self.step.made:
                raise errors.InvalidArgumentError(f"{element.name!r} is not among the fetches of this partial run")
            if element in self._fetched:
                raise errors.InvalidArgumentError(f"{element.name!r} has already been fetched in this partial run")
            missing = [tensor.name for tensor in self._needed(element) if tensor not in given]
            if missing:
                raise errors.InvalidArgumentError(
                    f"{element.name!r} cannot be fetched yet: it depends on {missing[0]!r}, which has not been fed"
                )
            tensors.append(element)
        return tensors

    def _needed(self, fetch: Tensor) -> list[Tensor]:
        return [tensor for place, tensor in enumerate(self.step.given) if self._needs[fetch] >> place & 1]

    @property
    def used_up(self) -> bool:
        """Whether every feed was given and every fetch asked for."""
        return len(self._fetched) == len(self.step.made) and self.step.has_feeds

    async def stop(self) -> None:
        """Cancel the step if it still runs, and wait for its end.

        Give back the elements taken since a call returned a fetch that depends on taken elements.
        """
        await self.step.stop()
        self.step.handover.give_back()

    def __repr__(self) -> str:
        step = self.step
        given = sum(future.done() for future in step.given.values())
        feeds, fetches = f"{given} of {len(step.given)} fed", f"{len(self._fetched)} of {len(step.made)} fetched"
        return f"<af.PartialRun {step.id}: {feeds}, {fetches}{', over' if self.runner.done() else ''}>"


def only_tensors(operation: Operation) -> str:
    """Why an operation cannot be asked for."""
    return f"{operation.name!r} is an operation: it runs as soon as it can, and only tensors can be fetched"


def _failure(error: BaseException) -> errors.OpError:
    """Return the error that calls raise, with the notes about waits. Its traceback does not refer to the step."""
    if not isinstance(error, asyncio.CancelledError):
        left: BaseException | None = error
        while left is not None:
            clear_frames(left.__traceback__)
            left = left.__context__
        return errors.from_exception(error)
    made = errors.CancelledError("the partial run was cancelled: must run partial_run_setup again")
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def _again(failure: errors.OpError) -> errors.OpError:
    """Return a copy for one more caller, whose frames its traceback will refer to."""
    made = copy.copy(failure).with_traceback(failure.__traceback__)
    made.__cause__ = failure.__cause__
    return made


def _needs(flow: Flow) -> list[int]:
    """For each fetch, a bit for every feed that it depends on, and one if it depends on an op that takes or puts."""
    feeds = {node: 1 << place for place, node in enumerate(flow.feeds)}
    own = {node: 1 << len(feeds) for node in flow.nodes if any(takes_or_puts(n.definition) for n in node.everything())}
    bits = dict(feeds)
    changed = True
    while changed:  # a loop leads back
        changed = False
        for node in flow.nodes:
            found = feeds.get(node, 0) or _all_of(node, bits) | own.get(node, 0)
            changed |= found != bits.get(node)
            bits[node] = found
    return [bits[value.node] for value in flow.fetches]


def _all_of(node: Node, bits: Mapping[Node, int]) -> int:
    found = 0
    for source in (*[source for source, _ in node.inputs], *node.controls):
        found |= bits.get(source, 0)
    return found


Run = Callable[[Held], Awaitable[Any]]
"""Runs a step, and adds its handover to the list."""


async def stream(run: Run, read_ahead: int) -> AsyncGenerator[Any, None]:
    """The results of run after run, in order, until one raises OutOfRangeError; other errors are raised.

    Up to `read_ahead` further runs are under way while the caller uses a result. Closing the iterator cancels them.
    Elements taken by runs whose results were not yielded are put back.
    """
    if not isinstance(read_ahead, int) or read_ahead < 0:
        raise ValueError(f"read_ahead is a number of runs, not {read_ahead!r}")
    under_way: deque[_Ahead] = deque()
    try:
        while True:
            while len(under_way) <= read_ahead:
                under_way.append(_Ahead(run))
            try:
                value = await under_way[0].task
            except errors.OutOfRangeError:
                return
            for handover in under_way[0].held:
                await handover.commit()
            for handover in under_way.popleft().held:
                handover.forget()
            yield value
    finally:
        await _end(under_way)


class _Ahead:
    """A run under way.

    Attributes:
        task: the task of the run.
        held: the handover of its takes and puts, once it is done.
    """

    def __init__(self, run: Run) -> None:
        self.held: Final[Held] = []
        self.task: Final[asyncio.Future[Any]] = asyncio.ensure_future(run(self.held))


async def _end(runs: deque[_Ahead]) -> None:
    """Cancel the runs, wait until all have ended, and give back the elements they took, those of the last run first."""
    for run in runs:
        run.task.cancel()
    try:
        left = [run.task for run in runs if not run.task.done()]
        if left:
            await asyncio.wait(left)
    finally:
        for run in reversed(runs):
            for handover in run.held:
                handover.give_back()
    for run in runs:
        if not run.task.cancelled():
            run.task.exception()  # mark errors after the end, or after the first error, as retrieved
