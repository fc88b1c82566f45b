"""The steps of a session whose values the client has not acknowledged, as its master has them.

A step that has taken elements is over for its tasks only when the client has its values. Until then each task keeps
what it takes to put them back. The client acknowledges a step by its token. It may refuse a step that still runs, for a
cancel and an answer may pass each other. Tasks are told at once, so that what the client asks next finds the elements.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

MOST: Final = 10_000
"""So many steps of a session are in doubt at most. When there are more, the oldest counts as acknowledged."""
REMEMBERED: Final = 1_000
"""So many tokens are remembered that were refused and belong to no step yet."""


class Doubt(NamedTuple):
    """A step in doubt: its number, and the tasks that keep something of it."""

    step: int
    tasks: Sequence[str]


Settle = Callable[[Doubt, bool], None]
"""Tells the tasks of a step whether the client has its values."""


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
            self._settle(self._open.popitem(last=False)[1], True)
        return True

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
        """The client is gone: what it has not acknowledged it does not have."""
        while self._open:
            self._settle(self._open.popitem()[1], False)


__all__ = ["Doubt", "Doubts"]
