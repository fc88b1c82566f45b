"""The steps of a session whose values the client has not acknowledged, as its master has them.

A step that has taken elements is over for its tasks only when the client has its values. Until then each task keeps
what it takes to put them back. The client acknowledges a step by its token. It may refuse a step that still runs, for a
cancel and an answer may pass each other. Tasks are told at once, so that what the client asks next finds the elements.

A lost connection hides whether its last messages have come. So before the client hands over values for which something
was taken, it commits the step, and the master has each task commit it. A step that is not committed is given back when
the client or the master is lost: the client cannot hand over its values any more. One that is committed is given back
only if the client says itself that it has not handed them over. So no element is given back that the client has.

The client hands over at once the values of a step that has only put something. In doubt, what it has put stays.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from aioflow import errors

MOST: Final = 10_000
"""So many steps of a session are in doubt at most. When there are more, the oldest is settled as if the client were
lost."""
REMEMBERED: Final = 1_000
"""So many tokens are remembered that were refused and belong to no step yet."""


class Doubt(NamedTuple):
    """A step in doubt, or the values of one call of a partial run.

    Attributes:
        step: its number.
        tasks: the tasks that keep something of it.
        uncommitted: whether the client has to commit it.
        settled: of a partial run, is told whether the client has the values, or may have them; None for other steps.
    """

    step: int
    tasks: Sequence[str]
    uncommitted: bool = True
    settled: Callable[[bool], None] | None = None


Settle = Callable[[Doubt, bool], None]
"""Tells the tasks of a step whether the client has its values, or may have them."""
Commit = Callable[[Doubt], Awaitable[object]]
"""Returns when all tasks of a step have committed it."""


class Doubts:
    """Those of one session."""

    def __init__(self, settle: Settle) -> None:
        self._settle: Final = settle
        self._running: Final[dict[int, Doubt]] = {}
        self._open: Final[OrderedDict[int, Doubt]] = OrderedDict()
        self._refused: Final[OrderedDict[int, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def running(self, token: int, doubt: Doubt) -> Iterator[None]:
        """Inside the block the step runs on these tasks."""
        self._running[token] = doubt
        try:
            yield
        finally:
            self._running.pop(token, None)

    def begin(self, token: int, doubt: Doubt) -> bool:
        """The client is sent the values of a step. False if it has refused them already; then they are given back.

        Token 0 is that of a client that acknowledges nothing.
        """
        received = token not in self._refused
        if not token or not received:
            self._refused.pop(token, None)
            self._settle(doubt, received)
            return received
        self._open[token] = doubt
        if len(self._open) > MOST:
            self._abandon(next(iter(self._open)))
        return True

    async def commit(self, token: int, commit: Commit) -> None:
        """From here on the step of that token is given back only if the client refuses it.

        Cancelled, or when a task fails to commit it, the step is given back. AbortedError if it was before.
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
            raise errors.AbortedError("the master has given back what the step took: nobody waits for its values")
        self._open[token] = doubt._replace(uncommitted=False)

    def end(self, token: int, received: bool) -> None:
        """The client has the values of the step of that token, or nobody will ever have them."""
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
        """The client is gone: it does not have what it has not committed, and may have what it has."""
        while self._open:
            self._abandon(next(reversed(self._open)))

    def _abandon(self, token: int) -> None:
        doubt = self._open.pop(token)
        self._settle(doubt, not doubt.uncommitted)


__all__ = ["Commit", "Doubt", "Doubts"]
