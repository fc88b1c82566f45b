"""Work that is repeated beside a training: `LooperThread`, a task of a coordinator."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aioflow.tensors.recursion import safe_repr
from aioflow.train.coordinator import Coordinator
from aioflow.train.session_run_hook import finished


async def repeat(coord: Coordinator, seconds: float | None, call: Callable[[], Awaitable[object] | object]) -> None:
    """Call a function at this interval until the coordinator stops.

    The interval runs from the beginning of one call to the beginning of the next. If a call takes longer, the next one
    follows at once. Without an interval each call follows at once.
    """
    now = asyncio.get_running_loop().time
    while not coord.should_stop():
        due = now() + (seconds or 0.0)
        await finished(call())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(max(due, now())):
                await coord.wait_for_stop()


class LooperThread:
    """A task of a coordinator that calls a function again and again, until the coordinator stops.

    It has the name of TensorFlow's class and is no thread. The interval runs from the beginning of one call to the
    beginning of the next. An error requests a stop. Subclasses may define `run_loop`, `start_loop` and `stop_loop`
    instead of giving a function.

    Args:
        coord: the coordinator, which waits for the task.
        timer_interval_secs: the interval; None for calls without a pause.
        target: a function or coroutine function.
        args: its arguments.
        kwargs: its arguments by name.

    Examples:
        >>> calls = []
        >>> async with af.train.Coordinator() as coord:
        ...     looper = af.train.LooperThread.loop(coord, None, lambda: calls.append(1) or coord.request_stop())
        ...     await looper.join()
        >>> calls
        [1]
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Awaitable[object] | object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"a looper needs an af.train.Coordinator, not {safe_repr(coord)}")
        if target is None and (args or kwargs):
            raise ValueError("args and kwargs are those of a target: give one")
        self._coord: Final = coord
        self._interval: Final = timer_interval_secs
        self._target = None if target is None else functools.partial(target, *(args or ()), **(kwargs or {}))
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Awaitable[object] | object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> "LooperThread":
        """Return a looper that has been started."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def start(self) -> None:
        """Start the task. RuntimeError if it was started before."""
        if self._task is not None:
            raise RuntimeError("the looper was started before: make another one")
        self._task = self._coord.create_task(self.run(), name=f"calling {self._target or self.run_loop!r}")

    async def join(self) -> None:
        """Wait until the task has ended. Its error stays with the coordinator."""
        if self._task is None:
            raise RuntimeError("the looper was not started: call start()")
        await asyncio.wait([self._task])

    def is_alive(self) -> bool:
        """Whether the task was started and runs."""
        return self._task is not None and not self._task.done()

    async def run(self) -> None:
        """Do the work of the task."""
        await finished(self.start_loop())
        await repeat(self._coord, self._interval, self.run_loop)
        await finished(self.stop_loop())

    def start_loop(self) -> Awaitable[object] | object:
        """Called once before the first call; does nothing by default."""

    def stop_loop(self) -> Awaitable[object] | object:
        """Called once after the last call; does nothing by default."""

    def run_loop(self) -> Awaitable[object] | object:
        """One call of the function. Subclasses may define it."""
        return None if self._target is None else self._target()
