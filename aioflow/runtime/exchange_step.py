"""A task's share of a step over several tasks that is one unit, run by callbacks of the loop.

Such a unit often computes for microseconds between the values that it receives. An asyncio task, and the coroutines
between the task and the unit, would take longer than the unit. Its heavy kernels run on a thread where they would in an
asyncio task.
"""

import asyncio
import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

from aioflow import errors
from aioflow.program.error_location import located
from aioflow.program.program import Outputs, Program, RunningUnit, Unit
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step, StepShare

OnEnd = Callable[[Any], None]
"""Called with the fetched values of a step, or with its error."""


class ExchangeStep(Step):
    """The step. Reports see it as a program with one unit under way.

    Attributes:
        program: the program of the unit.
        is_ready: False, since the unit has begun.
    """

    __slots__ = ("_awaited", "_must_cancel", "_on_end", "program")
    is_ready = False

    def __init__(self, state: SessionState, counted: Sequence[str], share: StepShare, program: Program) -> None:
        super().__init__(state, counted, share=share)
        self.program: Program = program
        self._awaited: asyncio.Future[Any] | None = None
        """The future for which the unit waits."""
        self._must_cancel = False
        """Whether the unit is cancelled when it goes on."""
        self._on_end: OnEnd | None = None

    def start(self, unit: Unit, feeds: Outputs, on_end: OnEnd) -> None:
        """Run the unit until it waits. `on_end` is called once, perhaps before this returns."""
        self._single, self._began, self._on_end = unit, time.perf_counter(), on_end
        self._coroutine = unit.begin(self.context, *feeds)
        self.executions = (self,)
        self._executors = (self._executor(self._state.devices[0]),)
        self._state.step_started(self)
        self._go_on()

    def under_way(self) -> list[RunningUnit]:
        """The unit."""
        assert self._single is not None
        return [RunningUnit(self._single, self._began, self._coroutine, self.context.device.name)]

    def abort(self, error: errors.OpError) -> None:
        """End it with `error`, in a later turn of the loop: the unit is cancelled once, as an asyncio task would be."""
        if self.ended or self.error is not None:
            return
        self.error = copy.copy(error)
        self.ended_with(self.error)
        self._must_cancel = self._awaited is None or not self._awaited.cancel()

    def _go_on(self, _: "asyncio.Future[Any] | None" = None) -> None:
        """Run the unit until it waits again."""
        if self.ended:
            return
        coroutine, run = self._coroutine, self._state.quiet.run
        assert coroutine is not None
        self._awaited, self.context.due = None, self._state.slice.begin()
        try:
            if self._must_cancel:
                self._must_cancel = False
                awaited = run(coroutine.throw, asyncio.CancelledError())
            else:
                awaited = run(coroutine.send, None)
            self.rendezvous.flush()
        except StopIteration as done:
            self._finish(done.value)
        except (KeyboardInterrupt, SystemExit) as error:
            self._fail(error)
            raise  # out of the loop, as from an asyncio task
        except BaseException as error:
            self._fail(error)
        else:
            self._wait_for(awaited)

    def _wait_for(self, awaited: "asyncio.Future[Any] | None") -> None:
        """Go on when that future is done, or in the next turn of the loop if there is none."""
        if awaited is None:
            asyncio.get_running_loop().call_soon(self._go_on)
            return
        awaited._asyncio_future_blocking = False  # as an asyncio task says that it has seen the future
        self._awaited = awaited
        awaited.add_done_callback(self._go_on)
        if self._must_cancel:  # the step was aborted while the unit ran
            self._must_cancel = not awaited.cancel()

    def _finish(self, outputs: Outputs) -> None:
        if self.error is not None:
            self._end_with(self.error)
            return
        self._state.progress += 1
        self.end(None)
        self._tell(outputs)

    def _fail(self, error: BaseException) -> None:
        if self.error is not None and isinstance(error, asyncio.CancelledError):
            self._end_with(self.error)
            return
        unit = self._single
        assert unit is not None
        self._end_with(located(error, unit.find, unit.nodes[0], (), self.context.device.name))

    def _end_with(self, error: BaseException) -> None:
        self.end(error)
        self._tell(error)

    def _tell(self, outcome: Any) -> None:
        on_end, self._on_end, self._coroutine = self._on_end, None, None
        assert on_end is not None
        on_end(outcome)
