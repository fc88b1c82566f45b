"""Keeps, in the master, the steps of a session whose values the client has not acknowledged.

A step that has taken elements is over for its tasks only when the client has its values. Until then each task keeps the
data for putting the elements back. The client acknowledges a step by its token. It may refuse a step that still runs,
because a cancellation and an answer may cross. The master tells the tasks at once, so that the client's next request
finds the elements.

After a connection is lost, neither end knows whether its last messages arrived. So before the client hands over values
of a step that took elements, it commits the step, and the master commits it on each task. When the client or the master
is lost, the tasks give back uncommitted steps, because the client can no longer hand over their values. A committed
step is given back only if the client reports that it has not handed over the values. So no element goes back that the
client has.

If a step has only put elements, the client hands over its values at once. In doubt, these elements stay.

A master tells the tasks of a session that steps are over, or that their values are handed over.

These are notes. A task that is not connected needs none: it forgets the steps of a master that it has lost.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow import errors
from aioflow.net.peer.peers import Peers
from aioflow.net.wire.worker_verbs import CleanupGraph

MOST: Final = 10_000
"""The most steps of a session in doubt. If there are more, the oldest is settled as if the client were lost."""
REMEMBERED: Final = 1_000
"""The most refused tokens that are kept for steps that have not ended yet."""


class Doubt(NamedTuple):
    """A step in doubt, or the values of one call of a partial run.

    Attributes:
        step: its number.
        tasks: the tasks with takes or puts of it.
        uncommitted: whether the client must commit it.
        settled: for a partial run, a function that is called when the doubt ends, with whether the client has the
            values, or may have them; None for other steps.
    """

    step: int
    tasks: Sequence[str]
    uncommitted: bool = True
    settled: Callable[[bool], None] | None = None


Settle = Callable[[Doubt, bool], None]
"""Tells the tasks of a step whether the client has, or may have, its values."""
Commit = Callable[[Doubt], Awaitable[object]]
"""Returns when all tasks of a step have committed it."""


class Doubts:
    """The steps in doubt of one session."""

    def __init__(self, settle: Settle) -> None:
        self._settle: Final = settle
        self._running: Final[dict[int, Doubt]] = {}
        self._open: Final[OrderedDict[int, Doubt]] = OrderedDict()
        self._refused: Final[OrderedDict[int, None]] = OrderedDict()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def running(self, token: int, doubt: Doubt) -> Iterator[None]:
        """Record, inside the block, that the step runs on these tasks."""
        self.step_started(token, doubt)
        try:
            yield
        finally:
            self.step_ended(token)

    def step_started(self, token: int, doubt: Doubt) -> None:
        """Record that the step runs on these tasks, until it `step_ended`."""
        self._running[token] = doubt

    def step_ended(self, token: int) -> None:
        """Record that the step runs no more."""
        self._running.pop(token, None)

    def begin(self, token: int, doubt: Doubt) -> bool:
        """Record that the client gets the values of a step. False if it has refused them; then the step is given back.

        Token 0 stands for a client that acknowledges nothing. A step that ends after `close` is settled as those before
        it.
        """
        received = token not in self._refused and not (self._is_closed and doubt.uncommitted)
        if not token or not received or self._is_closed:
            self._refused.pop(token, None)
            self._settle(doubt, received)
            return received
        self._open[token] = doubt
        if len(self._open) > MOST:
            self._abandon(next(iter(self._open)))
        return True

    async def commit(self, token: int, commit: Commit) -> None:
        """Commit the step of that token: from now on it is given back only if the client refuses it.

        If this is cancelled, or a task fails to commit, the step is given back. AbortedError if it was given back
        before.
        """
        doubt = self._open.get(token)
        if doubt is not None and doubt.uncommitted:
            try:
                await commit(doubt)
            except BaseException:
                if self._open.pop(token, None) is not None:
                    self._settle(doubt, False)
                raise
        if self._open.get(token) is not doubt or doubt is None:
            raise errors.AbortedError(
                "the client refused the values of the step, so the master has put its elements back"
            )
        self._open[token] = doubt._replace(uncommitted=False)

    def end(self, token: int, received: bool) -> None:
        """Settle the step of that token: the client has received its values, or it never will."""
        doubt = self._open.pop(token, None)
        if doubt is not None:
            self._settle(doubt, received)
        elif not received:
            if token in self._running:
                self._settle(self._running[token], False)
            self._refused[token] = None
            if len(self._refused) > REMEMBERED:
                self._refused.popitem(last=False)

    def close(self) -> None:
        """Settle all steps of a lost client: give back the uncommitted ones, and keep the committed ones."""
        self._is_closed = True
        while self._open:
            self._abandon(next(reversed(self._open)))

    def _abandon(self, token: int) -> None:
        doubt = self._open.pop(token)
        self._settle(doubt, not doubt.uncommitted)


_TOGETHER: Final = 0.02
"""Seconds in which steps that are over are gathered, at least."""
_TOGETHER_OF_EACH: Final = 0.0005
"""The same, for each task of the session: the notes to them take a twentieth of this time."""


class StepCleanup:
    """The notes to the tasks of one session about its steps."""

    def __init__(self, peers: Peers, tasks: int) -> None:
        self._peers: Final = peers
        self._together: Final = max(_TOGETHER, tasks * _TOGETHER_OF_EACH)
        self._over: dict[str, list[int]] = {}
        """By task, the steps of which it does not know yet that they are over."""
        self._timer: asyncio.TimerHandle | None = None

    def schedule_end(self, step: int, tasks: Iterable[str]) -> None:
        """Tell these tasks soon that the step is over; one note is for several steps."""
        for task in tasks:
            self._over.setdefault(task, []).append(step)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._together, self._send)

    def over(self, step: int, tasks: Iterable[str]) -> None:
        """The step is over, and the client has its values."""
        self._note(dict.fromkeys(tasks, (step,)))

    def refused(self, step: int, tasks: Iterable[str]) -> None:
        """End a step whose values the client does not have: the tasks put back its elements."""
        self._note(dict.fromkeys(tasks, (step,)), received=False)

    def handed_over(self, step: int, tasks: Iterable[str]) -> None:
        """The client has the values that the step, a partial run, has given so far."""
        self._note(dict.fromkeys(tasks, (step,)), over=False)

    def _send(self) -> None:
        self._timer = None
        over, self._over = self._over, {}
        self._note(over)

    def _note(self, steps: Mapping[str, Sequence[int]], received: bool = True, over: bool = True) -> None:
        for task, numbers in steps.items():
            peer = self._peers.connected(task)
            if peer is not None:
                with contextlib.suppress(errors.OpError):
                    peer.notify(CleanupGraph(tuple(numbers), received, over))

    def close(self) -> None:
        """Send the pending notes now."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()
