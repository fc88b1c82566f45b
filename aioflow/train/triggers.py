"""Timers by steps or by seconds."""

import asyncio
from typing import Final


class SecondOrStepTimer:
    """Tells when a periodic action is due: first at once, then every `every_secs` seconds or `every_steps` steps.

    Seconds are those of the running loop.

    Args:
        every_secs: seconds from one action to the next.
        every_steps: steps from one action to the next.

    Raises:
        ValueError: not exactly one of the two is given, or it is not above 0.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if (every_secs is None) is (every_steps is None):
            raise ValueError("give either seconds or steps between two actions")
        every = every_steps if every_secs is None else every_secs
        if every is not None and every <= 0:
            raise ValueError(f"the interval must be above 0, not {every:g}")
        self._secs: Final = every_secs
        self._steps: Final = every_steps
        self._last: tuple[float, int] | None = None

    def reset(self) -> None:
        """Make the action due at once, as at first."""
        self._last = None

    def last_triggered_step(self) -> int | None:
        """The step of the last action; None before the first."""
        return None if self._last is None else self._last[1]

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether the action is due at that step; never twice at the same step."""
        if self._last is None:
            return True
        time, last = self._last
        if step == last:
            return False
        if self._secs is not None:
            return _now() >= time + self._secs
        assert self._steps is not None
        return step >= last + self._steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Record an action at that step. Returns the seconds and steps since the last one; None, None at first."""
        before, self._last = self._last, (_now(), step)
        return (None, None) if before is None else (self._last[0] - before[0], step - before[1])


def _now() -> float:
    return asyncio.get_running_loop().time()
