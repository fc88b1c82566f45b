"""Where the parts of one step meet: a table of keyed channels.

The contract, which every implementation keeps and `tests/support/rendezvous_contract.py` checks:

- A key names one channel. Either side may come first; `send` never waits, `recv` waits until there is a value.
- Each value is received once. Of one key they are received in the order they were sent, by receivers in the order they
  came; different keys know nothing of each other.
- Any object can be sent, the dead mark and None too; it is neither copied nor looked into.
- Cancelling a `recv` gives up its place and nothing else: a value that was on its way to it is the next receiver's.
- `abort` is sticky: whoever waits, and whoever comes later to either side, gets the first error it was told. What was
  sent and not received by then is dropped.
- `close` is the abort of a step that is over, with a CancelledError, and tells what was sent and never received.

A rendezvous belongs to one step and one loop: it is used from that loop's thread alone, and needs no lock.
"""

import asyncio
import copy
import functools
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from aioflow import errors

_INCARNATION: Final = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_ITERATION: Final = re.compile(r"(?:\d{1,18}(?::\d{1,18})*)?", re.ASCII)
PUSHED: Final = "!"
"""What the names of edges begin with whose values are so small that they are sent unasked."""
TOGETHER: Final = "&"
"""What the names of edges begin with whose values are so small that several go into one message."""
_SHOWN: Final = 3
"""So many keys an error names."""


class Key(NamedTuple):
    """The name of one channel of a step.

    Attributes:
        edge: which value, by the node and the output it comes from.
        source: the device it comes from, in full.
        incarnation: the number the sending device was given when it was started, below 2**64: one that has been
            started anew has another, and never meets those who waited for the old one.
        target: the device it goes to, in full.
        iteration: the numbers of the iterations of the loops around, outermost first.
    """

    edge: str
    source: str
    incarnation: int
    target: str
    iteration: tuple[int, ...] = ()

    @property
    def together(self) -> bool:
        """Whether, from task to task, the value is asked for in one message with others."""
        return self.edge.startswith(TOGETHER)

    @property
    def pushed(self) -> bool:
        """Whether, from task to task, the value is sent as soon as it is there; otherwise when it is asked for."""
        return self.edge.startswith(PUSHED)

    def __str__(self) -> str:
        """`source;incarnation in hexadecimal;target;edge;iterations`, as `...CPU:0;1f;...CPU:1;add:0;3:1`."""
        iteration = ":".join(map(str, self.iteration))
        return f"{self.source};{self.incarnation:x};{self.target};{self.edge};{iteration}"

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The key with that text. InvalidArgumentError if no key has it."""
        head, _, iteration = text.rpartition(";")
        found = _outside_loops(head)
        if found is None or _ITERATION.fullmatch(iteration) is None:
            raise errors.InvalidArgumentError(
                f"{text[:200]!r} is not the key of a transfer: source;incarnation;target;edge;iterations"
            )
        return found if not iteration else found._replace(iteration=tuple(map(int, iteration.split(":"))))


@functools.lru_cache(1024)
def _outside_loops(head: str) -> Key | None:
    """The key with that text, but for its iterations: each step asks for the same ones. None if no key has it."""
    parts = head.split(";", 3)
    if len(parts) < 4 or not all(parts) or _INCARNATION.fullmatch(parts[1]) is None:
        return None
    source, incarnation, target, edge = parts
    return Key(edge, source, int(incarnation, 16), target)


class Waiting(NamedTuple):
    """Someone who waits: for which value, and since when, on the loop's clock."""

    key: Key
    since: float


class Rendezvous(Protocol):
    """What a step needs of one; the contract is the module's docstring."""

    def send(self, key: Key, value: Any) -> None:
        """The value can be received. Never waits."""

    async def recv(self, key: Key) -> Any:
        """The next value of that key, as soon as there is one. Cancelling gives up the place and takes nothing."""

    def abort(self, error: errors.OpError) -> None:
        """From here on all who wait, and all who come, get that error, unless an earlier one."""

    def close(self) -> tuple[Key, ...]:
        """The same with a CancelledError. Returns the keys that still had values."""

    @property
    def waiting(self) -> list[Waiting]:
        """All who wait."""

    @property
    def left(self) -> int:
        """How many values were sent and not received."""


class LocalRendezvous:
    """A rendezvous within one process and one loop. Receiving a value that is there does not suspend.

    A value stays in the table until its receiver runs, who is only told that there is one: so nothing has to be undone
    for a receiver that is cancelled in between.
    """

    __slots__ = ("_error", "_lines", "_values")

    def __init__(self) -> None:
        self._values: dict[Key, deque[Any]] = {}
        self._lines: dict[Key, deque[_Place]] = {}
        self._error: errors.OpError | None = None

    def send(self, key: Key, value: Any) -> None:
        """The value can be received. Never waits."""
        if self._error is not None:
            raise self._again()
        values = self._values.get(key)
        if values is None:
            self._values[key] = deque((value,))
        else:
            values.append(value)
        if self._lines:
            self._tell(key)

    async def recv(self, key: Key) -> Any:
        """The next value of that key, as soon as there is one. Cancelling gives up the place and takes nothing."""
        if key in self._lines or key not in self._values:
            return (await self.recv_any((key,)))[0][1]
        return self._take(key)

    async def recv_any(
        self, keys: Sequence[Key], fits: Callable[[Any], bool] = lambda value: True
    ) -> list[tuple[int, Any]]:
        """The next values of those of the keys that have one, with the places of these, as soon as any has.

        Asked of each in turn whether it `fits` with those before it: who does not stays, but the first is taken in any
        case. Cancelling gives up the places and takes nothing.
        """
        self.check()
        loop = asyncio.get_running_loop()
        place = _Place(loop.create_future(), loop.time())
        for key in keys:
            self._lines.setdefault(key, deque()).append(place)
        try:
            found = self._take_for(place, keys, fits)
            if not found:
                await place.told
                self.check()
                found = self._take_for(place, keys, fits)
            return found
        finally:
            for key in keys:
                self._leave(key, place)

    @property
    def ended(self) -> bool:
        """Whether it was aborted or closed."""
        return self._error is not None

    def check(self) -> None:
        """Raise what it was aborted with, if it was."""
        if self._error is not None:
            raise self._again()

    def _take(self, key: Key) -> Any:
        values = self._values[key]
        if len(values) == 1:
            del self._values[key]
        return values.popleft()

    def _take_for(self, place: "_Place", keys: Sequence[Key], fits: Callable[[Any], bool]) -> list[tuple[int, Any]]:
        """What is there of these keys for the one at that place, where it is the first in line."""
        found: list[tuple[int, Any]] = []
        for index, key in enumerate(keys):
            if key in self._values and self._lines[key][0] is place and (fits(self._values[key][0]) or not found):
                found.append((index, self._take(key)))
        return found

    def _leave(self, key: Key, place: "_Place") -> None:
        """Give up the place; if a value is left by the one who had it, the next may take that."""
        line = self._lines[key]
        line.remove(place)
        if line:
            self._tell(key)
        else:
            del self._lines[key]

    def _tell(self, key: Key) -> None:
        """As many of those who wait for the key know that there is a value as there are values."""
        for place in islice(self._lines.get(key, ()), len(self._values.get(key, ()))):
            if not place.told.done():
                place.told.set_result(None)

    def abort(self, error: errors.OpError) -> None:
        """From here on all who wait, and all who come, get that error, unless an earlier one.

        Each gets a copy; the error itself is not kept, for its traceback may lead back to the step.
        """
        if self._error is None:
            self._end(copy.copy(error))

    def _end(self, error: errors.OpError) -> None:
        self._error = error
        self._values.clear()
        for line in self._lines.values():
            for place in line:
                if not place.told.done():
                    place.told.set_result(None)

    def close(self) -> tuple[Key, ...]:
        """The same with a CancelledError that names what was left. Returns the keys that still had values."""
        left = tuple(self._values)
        if self._error is None:
            self._end(errors.CancelledError("the step is over" + _never_received(left)))
        return left

    def _again(self) -> errors.OpError:
        """The error for one more who gets it, with a traceback of its own."""
        assert self._error is not None
        return copy.copy(self._error)

    @property
    def waiting(self) -> list[Waiting]:
        """All who wait, key by key."""
        lines = self._lines.items()
        return [Waiting(key, place.since) for key, line in lines for place in line if not place.told.done()]

    @property
    def left(self) -> int:
        """How many values were sent and not received."""
        return sum(map(len, self._values.values()))

    def __repr__(self) -> str:
        ended = "" if self._error is None else f", ended by {type(self._error).__name__}"
        return f"<LocalRendezvous {self.left} sent, {len(self.waiting)} waiting{ended}>"


class _Place:
    """Someone's place in line."""

    __slots__ = ("since", "told")

    def __init__(self, told: "asyncio.Future[None]", since: float) -> None:
        self.told: Final = told
        self.since: Final = since


def _never_received(keys: tuple[Key, ...]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return "; sent and never received: " + ", ".join(map(str, keys[:_SHOWN])) + more
