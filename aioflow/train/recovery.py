"""Recovery from lost peers: the waiting time for their return, and the result of a recovery."""

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from aioflow import errors

T = TypeVar("T")
LOSSES: Final = (errors.AbortedError, errors.UnavailableError)
"""Errors that indicate a lost or restarted peer: trying again may succeed."""
_FIRST_PAUSE: Final = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery of a monitored session.

    Attributes:
        error: the error that indicated the loss.
        checkpoint: the restored checkpoint; None if there was none.
        restored: the names of the variables that got their values from it.
        initialized: the names of the variables that got their initial values.
        step_before: the global step after the last successful run; None if the graph has none.
        step_after: the global step of the new values: 0 for initial ones, and `step_before` if no value was lost; None
            if it is unknown.
        examples_per_step: number of examples in a step, if the session knows it.
        seconds: from the loss until the session was ready again.
        repeated: the names of variables and operations whose effect of the failed run was not undone, so that it may
            happen twice: something else has changed the variable meanwhile, its checkpoint includes the run, or the
            effect of the operation cannot be undone, like one on a queue. For all other variables the run happens once.

    Examples:
        >>> v = af.Variable(1.0)
        >>> async with af.train.MonitoredSession() as monitored:
        ...     print(monitored.recoveries)
        []
    """

    error: errors.OpError
    checkpoint: str | None
    restored: tuple[str, ...]
    initialized: tuple[str, ...]
    step_before: int | None
    step_after: int | None
    examples_per_step: int | None
    seconds: float
    repeated: tuple[str, ...] = ()

    @property
    def steps(self) -> int | None:
        """The number of lost steps, if variables were restored; None if it is unknown."""
        if self.step_before is None or self.step_after is None:
            return None
        return max(0, self.step_before - self.step_after)

    @property
    def examples(self) -> int | None:
        """The number of lost examples; None if it is unknown."""
        steps = self.steps
        return None if steps is None or self.examples_per_step is None else steps * self.examples_per_step

    def __str__(self) -> str:
        return (
            f"recovered in {self.seconds:.3f} s from a loss: {self.error.message}; {self._values()}; "
            f"lost: {self._lost()}{self._twice()}"
        )

    def _values(self) -> str:
        parts = [f"{len(self.restored)} variables restored from {self.checkpoint}"] if self.restored else []
        parts += [f"{len(self.initialized)} variables initialized anew"] if self.initialized else []
        return " and ".join(parts) or "no variable needed a restore"

    def _twice(self) -> str:
        return f"; may have happened twice: {', '.join(self.repeated)}" if self.repeated else ""

    def _lost(self) -> str:
        steps = "an unknown number of steps" if self.steps is None else f"{self.steps} steps"
        return steps if self.examples is None else f"{steps}, {self.examples} examples"


_NUMBER: Final = re.compile(r"-(\d+)$")


def step_of_checkpoint(path: str) -> int | None:
    """Return the global step in a checkpoint's name, 1234 for `model.ckpt-1234`; None if there is none."""
    found = _NUMBER.search(path.rstrip("/"))
    return None if found is None else int(found[1])


class Patience:
    """Decides how long to wait before each new attempt, and when to give up. The caller waits.

    Args:
        seconds: the whole time for attempts.
        longest: the longest pause between two attempts, in seconds.
        began: start of that time; by default the first failure after a success.

    Attributes:
        failures: number of failures since the last success.
    """

    def __init__(self, seconds: float, longest: float, began: float | None = None) -> None:
        self.seconds: Final = seconds
        self._longest: Final = longest
        self._began: Final = began
        self.failures: int = 0
        self._until = self._pause = 0.0

    def failed(self, now: float) -> float | None:
        """Return the seconds until the next attempt: 0 after a first failure, then longer, and shorter near the end.

        Returns None when the time is over.
        """
        if not self.failures:
            self._until, self._pause = (now if self._began is None else self._began) + self.seconds, 0.0
        self.failures += 1
        pause, self._pause = self._pause, min(max(2 * self._pause, _FIRST_PAUSE), self._longest)
        left = self._until - now
        return None if left <= 0 else min(pause, max(left / 2, _FIRST_PAUSE), left)

    def succeeded(self) -> None:
        """Count the next failure as a first one."""
        self.failures = 0


async def patiently(
    attempt: Callable[[], Awaitable[T]],
    what: str,
    seconds: float,
    longest: float,
    retried: tuple[type[Exception], ...] = LOSSES,
) -> T:
    """Return the result of the attempt, repeated until every task that it needs is reachable.

    Args:
        attempt: repeated after each error of these classes.
        what: the name of the attempt, for the error.
        seconds: the time limit.
        longest: the longest pause between two attempts, in seconds.
        retried: by default the errors that indicate a loss.

    Raises:
        af.errors.DeadlineExceededError: the time is over; the error names the tasks that were missing last.
    """
    now = asyncio.get_running_loop().time
    patience, last = Patience(seconds, longest, began=now()), None
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            while True:
                try:
                    return await attempt()
                except retried as error:
                    last = error
                except errors.DeadlineExceededError as error:
                    if last is None:
                        raise
                    text = f"{what} was not ready in time: {_text(last)}; then: {error.message}"
                    raise errors.DeadlineExceededError(text) from error
                pause = patience.failed(now())
                if pause is None:
                    break
                await asyncio.sleep(pause)
    except TimeoutError as error:
        if not limit.expired() or isinstance(error, errors.OpError):
            raise
    reason = "it did not answer" if last is None else _text(last)
    raise errors.DeadlineExceededError(f"{what} was not ready in {seconds:g} s: {reason}") from last


def _text(error: Exception) -> str:
    return error.message if isinstance(error, errors.OpError) else str(error)
