"""The rendezvous of one step: a table of keyed channels that joins Send and Recv [P15 section 3.2.2].

Every implementation keeps this contract, and `tests/support/rendezvous_contract.py` checks it:

- A key names one channel. Either side may come first. `send` never waits; `recv` waits until there is a value.
- Each value is received once. The values of one key are received in the order of their sends, by the receivers in the
  order of their calls. Channels of different keys are independent.
- `send` takes any object, also the dead mark and None, and neither copies nor reads it.
- A cancelled `recv` takes no value. Its value goes to the next receiver.
- `abort` is sticky: every present and later call on either side raises the first error given to it. Values that are
  not received by then are dropped.
- `close` aborts the finished step with a CancelledError and returns the keys whose values were never received.

A rendezvous belongs to one step and one event loop. Only the thread of that loop uses it, so it needs no lock.
"""

import asyncio
import copy
import functools
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol

from aioflow import errors
from aioflow.graph.device_spec import task_of

PUSHED: Final = "!"
"""The prefix of an edge whose values the sender pushes to the other task without a request."""
TOGETHER: Final = "&"
"""The prefix of an edge whose values are not large: the receiver requests several of them in one message."""
CREDIT: Final = "~"
"""The sign of an edge whose values limit how far a sender in a loop is ahead. The last ones need not be received."""
_NAME: Final = re.compile(r"([!&]?)(~?)(\d{1,9}) .+", re.ASCII | re.DOTALL)
_NUMBER_BITS: Final = 32
_SHOWN: Final = 3
"""The most keys that an error names."""


_OVER: Final = "the step is over"
_CLOSED: Final = errors.CancelledError(_OVER)
"""The error of a finished step, of which each call raises a copy."""


class Edge(int):
    """The way of a value from one device to another, in each step of a plan.

    All tasks learn the edges of a plan when they register their shares. From then on a number stands for an edge: its
    own number in the plan, together with the incarnation of the sending device. An edge is that integer. So a table
    finds the value of an edge by the numbers in a message, and compares no texts.

    Attributes:
        name: its number in the plan, after the prefixes for the way that it goes, and the name of the value.
        source: the full name of the sending device.
        incarnation: the number of the sending device, below 2**64. A restarted device has a new one, so that its
            values never reach a receiver that waits for the old device.
        target: the full name of the receiving device.
        sender: the task of the sending device.
        receiver: the task of the receiving device.
        number: its number in the plan.
        pushed: whether the sender pushes the value to another task at once; otherwise the receiver requests it.
        together: whether a receiver on another task requests the value in one message with others.
        is_credit: whether the value only limits a sender, and is not needed at the end of a loop.
    """

    name: str
    source: str
    incarnation: int
    target: str
    sender: str
    receiver: str
    number: int
    pushed: bool
    together: bool
    is_credit: bool

    def __new__(cls, name: str, source: str, incarnation: int, target: str) -> "Edge":
        """InvalidArgumentError if the name does not begin with a number."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise errors.InvalidArgumentError(f"{name[:200]!r} is not the name of an edge: a number, a space, a value")
        way, credit, number = found.groups()
        edge = super().__new__(cls, number_of(incarnation, int(number)))
        edge.name, edge.source, edge.incarnation, edge.target = name, source, incarnation, target
        edge.sender, edge.receiver, edge.number = task_of(source), task_of(target), int(number)
        edge.pushed, edge.together, edge.is_credit = way == PUSHED, way == TOGETHER, bool(credit)
        return edge

    def __repr__(self) -> str:
        return f"<Edge {self}>"

    def __str__(self) -> str:
        """`source;incarnation in hexadecimal;target;name`."""
        return f"{self.source};{self.incarnation:x};{self.target};{self.name}"


edge_of: Final = functools.lru_cache(1 << 14)(Edge)
"""Returns the edge with these attributes. Cached, since each step uses the edges of its plan again."""


def number_of(incarnation: int, number: int) -> int:
    """The integer that an edge is, by the incarnation of its sending device and its number in the plan."""
    return incarnation << _NUMBER_BITS | number


class Key(NamedTuple):
    """The name of one channel of a step.

    Attributes:
        edge: the edge. In the key of a value or request from another task it is only the integer, which is equal.
        iteration: the iterations of the enclosing loops, outermost first.
    """

    edge: Edge
    iteration: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The edge, and after a semicolon the iterations, as `...CPU:0;1f;...CPU:1;5 add:0;3:1`."""
        return f"{self.edge};{':'.join(map(str, self.iteration))}"


class Waiting(NamedTuple):
    """A receiver that waits for the value of a key, since a time on the clock of the loop."""

    key: Key
    since: float


class Rendezvous(Protocol):
    """The interface that a step uses; the contract is the docstring of the module."""

    def send(self, key: Key, value: Any) -> None:
        """Make a value available to a receiver. Never waits. Raises the error of an aborted rendezvous."""

    async def recv(self, key: Key) -> Any:
        """Wait for the next value of a key and take it. Cancelling takes nothing."""

    def flush(self) -> None:
        """Send the values to other tasks now that would leave when the loop turns."""

    def abort(self, error: errors.OpError) -> None:
        """Make every present and later call raise this error, unless an earlier abort has set another."""

    def close(self) -> tuple[Key, ...]:
        """Abort with a CancelledError, and return the keys whose values were not received."""

    @property
    def waiting(self) -> list[Waiting]:
        """The receivers that wait."""

    @property
    def unreceived(self) -> int:
        """The number of values that were sent and not received."""

    @property
    def last_sent(self) -> Mapping[int, tuple[int, ...]]:
        """For each edge the iteration of the last value sent, where values may be on their way to other tasks."""


class LocalRendezvous:
    """A rendezvous in one process. `recv` does not suspend if the value is in the table.

    A value stays in the table until its receiver runs; `send` only wakes the receiver. A receiver that is cancelled
    between the two has taken nothing, and nothing has to be undone.
    """

    __slots__ = ("_error", "_receivers", "_values")

    def __init__(self) -> None:
        self._values: dict[Key, deque[Any]] = {}
        self._receivers: dict[Key, deque[_Receiver]] = {}
        self._error: errors.OpError | None = None

    def send(self, key: Key, value: Any) -> None:
        """Make a value available to a receiver. Never waits. Raises the error of an aborted rendezvous."""
        if self._error is not None:
            raise self._error_copy()
        values = self._values.get(key)
        if values is None:
            self._values[key] = deque((value,))
        else:
            values.append(value)
        if self._receivers:
            self._wake(key)

    async def recv(self, key: Key) -> Any:
        """Wait for the next value of a key and take it. Cancelling takes nothing."""
        if key in self._receivers:  # others have waited for longer
            return (await self.recv_any((key,)))[0][1]
        if key in self._values:
            return self._take(key)
        self.check()
        loop = asyncio.get_running_loop()
        receiver = _Receiver(loop.create_future(), loop.time())
        self._receivers[key] = deque((receiver,))
        try:
            await receiver.woken
            self.check()
            return self._take(key)
        finally:
            self._remove(key, receiver)

    def flush(self) -> None:
        """No value leaves the process."""

    async def recv_any(
        self, keys: Sequence[Key], fits: Callable[[Any], bool] = lambda value: True
    ) -> list[tuple[int, Any]]:
        """Wait until any of the keys has a value, and take the next value of each key that has one.

        Returns pairs of the index of a key and its value. `fits` decides for each value in turn whether it is taken
        with those before; the first is always taken. Cancelling takes nothing.
        """
        self.check()
        loop = asyncio.get_running_loop()
        receiver = _Receiver(loop.create_future(), loop.time())
        for key in keys:
            self._receivers.setdefault(key, deque()).append(receiver)
        try:
            found = self._take_available(receiver, keys, fits)
            if not found:
                await receiver.woken
                self.check()
                found = self._take_available(receiver, keys, fits)
            return found
        finally:
            for key in keys:
                self._remove(key, receiver)

    @property
    def ended(self) -> bool:
        """Whether the rendezvous was aborted or closed."""
        return self._error is not None

    def check(self) -> None:
        """Raise the error of an aborted rendezvous."""
        if self._error is not None:
            raise self._error_copy()

    def _take(self, key: Key) -> Any:
        values = self._values[key]
        if len(values) == 1:
            del self._values[key]
        return values.popleft()

    def _take_available(
        self, receiver: "_Receiver", keys: Sequence[Key], fits: Callable[[Any], bool]
    ) -> list[tuple[int, Any]]:
        """Take the available values of the keys at which this receiver is the first to wait."""
        found: list[tuple[int, Any]] = []
        for index, key in enumerate(keys):
            if (
                key in self._values
                and self._receivers[key][0] is receiver
                and (fits(self._values[key][0]) or not found)
            ):
                found.append((index, self._take(key)))
        return found

    def _remove(self, key: Key, receiver: "_Receiver") -> None:
        """Remove a receiver from a key, and wake the next one if there is a value for it."""
        line = self._receivers[key]
        line.remove(receiver)
        if line:
            self._wake(key)
        else:
            del self._receivers[key]

    def _wake(self, key: Key) -> None:
        """Wake as many receivers of the key as there are values."""
        for receiver in islice(self._receivers.get(key, ()), len(self._values.get(key, ()))):
            if not receiver.woken.done():
                receiver.woken.set_result(None)

    def abort(self, error: errors.OpError) -> None:
        """Make every present and later call raise this error, unless an earlier abort has set another.

        Each call raises a copy. The error itself is not kept, because its traceback may refer to the step.
        """
        if self._error is None:
            self._end(copy.copy(error))

    def _end(self, error: errors.OpError) -> None:
        self._error = error
        self._values.clear()
        for line in self._receivers.values():
            for receiver in line:
                if not receiver.woken.done():
                    receiver.woken.set_result(None)

    def close(self) -> tuple[Key, ...]:
        """Abort with a CancelledError that names the keys whose values were not received, and return these keys."""
        keys = tuple(self._values)
        if self._error is None:
            self._end(errors.CancelledError(_OVER + _never_received(keys)) if keys else _CLOSED)
        return keys

    def _error_copy(self) -> errors.OpError:
        """Return a copy of the error with a new traceback."""
        assert self._error is not None
        return copy.copy(self._error)

    @property
    def waiting(self) -> list[Waiting]:
        """The receivers that wait, by key."""
        receivers = self._receivers.items()
        return [Waiting(key, each.since) for key, line in receivers for each in line if not each.woken.done()]

    @property
    def unreceived(self) -> int:
        """The number of values that were sent and not received."""
        return sum(map(len, self._values.values()))

    @property
    def last_sent(self) -> Mapping[int, tuple[int, ...]]:
        """Empty: no value is on its way in one process."""
        return {}

    @property
    def values(self) -> Iterator[Any]:
        """The values that were sent and not received."""
        return chain.from_iterable(self._values.values())

    def __repr__(self) -> str:
        ended = "" if self._error is None else f", ended by {type(self._error).__name__}"
        return f"<LocalRendezvous {self.unreceived} sent, {len(self.waiting)} waiting{ended}>"


class _Receiver:
    """A call of `recv_any`: when it began to wait, and the future that wakes it."""

    __slots__ = ("since", "woken")

    def __init__(self, woken: "asyncio.Future[None]", since: float) -> None:
        self.woken: Final = woken
        self.since: Final = since


def _never_received(keys: tuple[Key, ...]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return "; sent and never received: " + ", ".join(map(str, keys[:_SHOWN])) + more
