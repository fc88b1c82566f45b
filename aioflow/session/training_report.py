"""The reports of a training to the watchers of its session."""

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Final

_EVERY: Final = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingReport:
    """The progress of training, or something that happened to it.

    Attributes:
        step: the steps that are done; None if unknown.
        steps: all steps; None if unknown.
        epoch: the number of the epoch, from 0; None if there are none.
        epochs: the number of all epochs.
        ends_epoch: whether these are the values of the whole epoch.
        values: losses, metrics and the like by name.
        summaries: serialized summaries; empty for none.
        event: what happened; empty for nothing.
        level: whether that is "good", "info" or "bad".
    """

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    ends_epoch: bool = False
    values: Mapping[str, float] = dataclasses.field(default_factory=dict)
    summaries: bytes = b""
    event: str = ""
    level: str = "info"


TrainingListener = Callable[[TrainingReport], object]


class ReportPace:
    """The pace of reports about single steps: at most four a second, so that a watched step costs no more than others.

    Needs a running event loop.
    """

    def __init__(self) -> None:
        self._next = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the last report is long enough ago."""
        return asyncio.get_running_loop().time() >= self._next

    def told(self) -> None:
        """Record that a report was given now."""
        self._next = asyncio.get_running_loop().time() + _EVERY
