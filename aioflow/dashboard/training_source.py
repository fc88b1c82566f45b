"""Listens to training in a session: to the reports of `fit` and of the hooks of monitored sessions."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Epoch, Event, Histogram, Picture, Points, Summaries, Training, clip
from aioflow.dashboard.monitor import Pace
from aioflow.dashboard.summaries import read_summaries
from aioflow.session import Session
from aioflow.session.training_report import TrainingReport
from aioflow.train.progress import Speed

T = TypeVar("T")
_EPOCHS: Final = 200
_VALUES: Final = 24
_TAGS: Final = 12
_UNREAD: Final = 4
"""The most reports whose summaries are read at one look: the newest ones."""


class TrainingSource:
    """Listens to the training of a session.

    Args:
        current: the session, another one after a recovery; None when it is over.
        clock: the time of day.
    """

    def __init__(self, current: Callable[[], Session | None], clock: Callable[[], float] = time.time) -> None:
        self._current: Final = current
        self._clock: Final = clock
        self._state: Final = _State()

    async def watch(self, board: Board) -> None:
        """Post the progress twice a second, if there is any, and events at once."""

        def hear(report: TrainingReport) -> None:
            if report.event:
                board.post(Event(self._clock(), report.level, clip(report.event)))
            self._state.take(report, self._clock())

        session, pace = None, Pace()
        try:
            while (found := self._current()) is not None:
                session = found
                session.listeners.add(hear)
                await pace.rest()
                with pace.look():
                    self._state.post(board, self._clock())
        finally:
            if session is not None:
                session.listeners.discard(hear)


class _State:
    """The newest reports of the training, as one state."""

    def __init__(self) -> None:
        self._speed: Final = Speed()
        self._last = TrainingReport()
        self._values: dict[str, float] = {}
        self._scalars: dict[str, float] = {}
        self._epochs: Final[deque[Epoch]] = deque(maxlen=_EPOCHS)
        self._histograms: Final[dict[str, Histogram]] = {}
        self._pictures: Final[dict[str, Picture]] = {}
        self._unread: Final[deque[tuple[bytes, int]]] = deque(maxlen=_UNREAD)
        self._has_news = False

    def take(self, report: TrainingReport, now: float) -> None:
        """Take the report. Summaries without a step belong to the last one."""
        if report.step is not None:
            self._take_step(report, report.step, now)
        if report.summaries:
            self._unread.append((report.summaries, self._last.step or 0))
            self._has_news = True

    def _take_step(self, report: TrainingReport, step: int, now: float) -> None:
        last = self._last
        self._has_news = True
        if report.epoch is not None:
            self._begin_again(report.epoch)
        self._last = TrainingReport(
            step, last.steps if report.steps is None and report.epoch is None else report.steps,
            last.epoch if report.epoch is None else report.epoch, report.epochs or last.epochs,
        )  # fmt: skip
        self._speed.reached(now, step)
        self._values |= _few(report.values)
        if report.ends_epoch and report.epoch is not None:
            self._epochs.append(Epoch(report.epoch, _few(report.values)))

    def _begin_again(self, epoch: int) -> None:
        """Forget what came after an epoch that begins again, as in another training of the session."""
        if self._epochs and self._epochs[-1].number >= epoch:
            self._values.clear()
        while self._epochs and self._epochs[-1].number >= epoch:
            self._epochs.pop()

    def _read_summaries(self) -> bool:
        """Read the summaries of the last reports. Returns whether there are histograms or pictures among them."""
        found = [each for data, step in self._unread for each in read_summaries(data, step)]
        self._unread.clear()
        for each in found:
            match each:
                case Histogram():
                    _keep(self._histograms, each.tag, each)
                case Picture():
                    _keep(self._pictures, each.tag, each)
                case (tag, value):
                    self._scalars[tag] = value
        return any(not isinstance(each, tuple) for each in found)

    def post(self, board: Board, now: float) -> None:
        """Post the state, if a report has come since the last call."""
        if not self._has_news:
            return
        self._has_news = False
        has_pictures = self._read_summaries()
        last, speed = self._last, self._speed.steps_per_second
        left = None if last.steps is None or not speed or last.step is None else (last.steps - last.step) / speed
        board.post(
            Training(now, last.step, last.steps, last.epoch, last.epochs, left, dict(self._values), tuple(self._epochs))
        )
        numbers = {f"train:{name}": value for name, value in self._values.items()}
        scalars = {f"value:{name}": value for name, value in self._scalars.items()}
        board.post(Points(now, {**numbers, **scalars, "train:step": float(last.step or 0)}))
        if has_pictures:
            board.post(Summaries(tuple(self._histograms.values()), tuple(self._pictures.values())))


def _few(values: Mapping[str, float]) -> dict[str, float]:
    return {clip(name): float(value) for name, value in [*values.items()][:_VALUES]}


def _keep(known: dict[str, T], tag: str, found: T) -> None:
    """Keep the newest summary of a tag, if there is room for the tag."""
    if tag in known or len(known) < _TAGS:
        known[tag] = found
