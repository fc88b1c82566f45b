"""The state that pages show: the newest message of each kind, the last steps and events, and the history of numbers.

A message has a revision, the number of its change. A page gets the messages after the revision that it has seen, so a
page that reads slowly gets the newest state and no queue grows. Graphs and traced steps are large: pages get a notice,
and ask for them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from aioflow.dashboard.history import SeriesTable
from aioflow.dashboard.messages import Event, Graph, GraphSummary, History, Message, Points, Step, StepSummary, Subject

STEPS: Final = 16
"""Traced steps that are kept."""
EVENTS: Final = 200
"""Events that are kept."""
_RECENT: Final = 64
"""Moments whose numbers a page gets one by one; a page that lags further behind gets the history."""

Listener = Callable[[Message], object]


class Board:
    """The state of the watched program, made of the messages that sources have posted.

    Attributes:
        revision: the number of changes so far.
        graph: the newest graph; None if there is none.
        steps: the last traced steps, by number.
    """

    def __init__(self) -> None:
        self.revision: int = 0
        self.graph: Graph | None = None
        self.steps: Final[dict[int, Step]] = {}
        self._newest: Final[dict[type, tuple[int, Message]]] = {}
        self._summaries: Final[deque[tuple[int, Message]]] = deque(maxlen=STEPS)
        self._events: Final[deque[tuple[int, Message]]] = deque(maxlen=EVENTS)
        self._points: Final[deque[tuple[int, Message]]] = deque(maxlen=_RECENT)
        self._series: Final = SeriesTable()
        self._restarted = 0
        self._listeners: Final[list[Listener]] = []
        self._changed: Final[set[asyncio.Future[None]]] = set()

    def post(self, message: Message) -> None:
        """Take a message, and wake those that wait for a change."""
        match message:
            case Points(time, values):
                message = Points(time, self._series.known(values))
                self._series.add(time, message.values)
                self._keep(self._points, message)
            case History():
                self._series.restart(message)
                self._points.clear()
                self._restarted = self.revision = self.revision + 1
            case Event():
                self._keep(self._events, message)
            case Step():
                self._keep_step(message)
            case Graph(version, nodes, left_out):
                self.graph = message
                self._replace(GraphSummary(version, len(nodes) + left_out))
            case _:
                self._replace(message)
        for listener in self._listeners:
            listener(message)
        for waiting in self._changed:
            if not waiting.done():
                waiting.set_result(None)
        self._changed.clear()

    def _keep(self, where: deque[tuple[int, Message]], message: Message) -> None:
        self.revision += 1
        where.append((self.revision, message))

    def _keep_step(self, step: Step) -> None:
        self.steps[step.number] = step
        while len(self.steps) > STEPS:
            del self.steps[next(iter(self.steps))]
        self._keep(self._summaries, summary_of(step))

    def _replace(self, message: Message) -> None:
        self.revision += 1
        self._newest[type(message)] = self.revision, message

    def newest(self, kind: type) -> Message | None:
        """The newest message of a kind of which only one is kept."""
        found = self._newest.get(kind)
        return None if found is None else found[1]

    def since(self, revision: int) -> list[Message]:
        """The messages that bring a page up to date that has seen that revision; 0 for a page that has seen none."""
        kept = [*self._newest.values(), *self._summaries, *self._events]
        return [*self._numbers_since(revision), *[message for number, message in sorted(kept, key=_revision)
                                                  if number > revision]]  # fmt: skip

    def _numbers_since(self, revision: int) -> list[Message]:
        lost = len(self._points) == _RECENT and self._points[0][0] > revision
        if revision < max(1, self._restarted) or lost:
            return [self._series.message()]
        return [message for number, message in self._points if number > revision]

    def everything(self) -> list[Message]:
        """The messages that make another board like this one, the `Subject` first."""
        found = [message for message in self.since(0) if not isinstance(message, (StepSummary, GraphSummary))]
        found.sort(key=lambda message: not isinstance(message, Subject))
        return [*found, *([] if self.graph is None else [self.graph]), *self.steps.values()]

    def listen(self, listener: Listener) -> Callable[[], object]:
        """Call the listener with each message from now on. Returns the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def changed(self, revision: int) -> None:
        """Return when the board has changed since that revision."""
        if self.revision == revision:
            waiting = asyncio.get_running_loop().create_future()
            self._changed.add(waiting)
            try:
                await waiting
            finally:
                self._changed.discard(waiting)


def summary_of(step: Step) -> StepSummary:
    """The part of a traced step that each page gets without asking for the step."""
    return StepSummary(step.number, step.time, step.seconds, step.compute, step.wire, step.wait, step.fetches)


def _revision(kept: tuple[int, Message]) -> int:
    return kept[0]
