"""The wait-for graph of running steps as plain data, and the search for cycles of waiting operations.

A waiter is an operation under way. It ends by itself, or it needs an event: an element is put into a queue, a lock is
released, a value is sent. A promise is an operation that causes an event as soon as the waiters before it in its step
have ended. One kept promise is enough for an event. So an event is out of reach only if two things hold: each of its
promises waits for stuck waiters, and no other operation has caused this event before, because such an operation may run
again. In doubt a waiter counts as one that ends by itself, so a slow producer is in no cycle.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple


class Waiter(NamedTuple):
    """A running operation.

    Attributes:
        key: identifies its step among those of all sessions, with the same key on all tasks of a cluster.
        operation: the name of the operation.
        op_type: its type.
        line: the user's line that built it.
        place: the device it runs on.
        what: the action that it waits to do; empty if it computes.
        needs: the event it waits for; empty if it may end by itself.
        computes: whether it computes and waits for nothing.
        iteration: a text with the iterations of the loops around it; empty outside of loops.
        awaited: the numbers of the iterations of the value that it waits to receive, outermost first.
    """

    key: str
    operation: str
    op_type: str
    line: str
    place: str
    what: str
    needs: str
    computes: bool
    iteration: str
    awaited: tuple[int, ...] = ()

    def is_met(self, sent: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the value that it waits for was sent, or one of a later iteration."""
        return self.needs in sent and self.awaited <= sent[self.needs]

    def __str__(self) -> str:
        return described(self.operation, self.op_type, self.iteration, self.place)


class Promise(NamedTuple):
    """An operation that will cause an event.

    Attributes:
        event: the event.
        key: identifies its step.
        operation: the name of the operation.
        waiters: the numbers, in the graph, of the waiters that come before it.
    """

    event: str
    key: str
    operation: str
    waiters: tuple[int, ...]

    def moved(self, by: int) -> "Promise":
        """The same promise in a graph with `by` more waiters in front."""
        return self._replace(waiters=tuple([place + by for place in self.waiters]))


class Edge(NamedTuple):
    """One operation of a cycle, with the operation that it waits for and the next one of the cycle delays.

    Attributes:
        step: the number of its step; 0 for a step of another session.
        operation: its name.
        op_type: its type.
        line: the user's line that built it.
        place: the device it runs on.
        what: the action that it waits to do.
        awaited: the operation that would wake it, and that runs after the next one of the cycle.
        awaited_step: the number of that operation's step.
    """

    step: int
    operation: str
    op_type: str
    line: str
    place: str
    what: str
    awaited: str
    awaited_step: int

    def __str__(self) -> str:
        return (
            f"{named(self.step)}: {self.operation!r} ({self.op_type}) on {self.place} waits to {self.what}, "
            f"which needs {self.awaited!r} of {named(self.awaited_step)}\n    at {self.line}"
        )


class Cycle(NamedTuple):
    """A deadlock: each operation waits for the next one, and the last one for the first."""

    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        count = len(self.edges)
        head = "deadlock: an operation waits for itself" if count == 1 else f"deadlock: a cycle of {count} operations"
        return "\n".join([head, *[f"  {edge}".replace("\n", "\n  ") for edge in self.edges]])


def named(step: int) -> str:
    """The text for a step; 0 stands for a step of another session."""
    return f"step {step}" if step else "a step of another session"


def described(operation: str, op_type: str, iteration: str, place: str) -> str:
    """The text for an operation: its name, type, iteration and device."""
    return f"{operation!r} ({op_type}){' ' * bool(iteration)}{iteration} on {place}"


class WaitGraph(NamedTuple):
    """The waiters and promises at one moment, in one process or in several.

    Attributes:
        waiters: the operations under way.
        promises: the operations that will cause the events that waiters need.
        served: for each event that happened before, the operations that caused it.
        sent: for each event that is a value for another task, the iteration of the last one that was sent.
    """

    waiters: Sequence[Waiter]
    promises: Sequence[Promise]
    served: Mapping[str, Sequence[str]]
    sent: Mapping[str, tuple[int, ...]] = MappingProxyType({})

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> "WaitGraph":
        """The graph that another task sent as lists and maps. ValueError or TypeError if they are malformed."""
        rows, promised, served, last = plain
        waiters = [Waiter(*row)._replace(awaited=tuple(row[-1])) for row in rows]
        sent = {event: tuple(iteration) for event, iteration in last.items()}
        promises = [Promise(event, key, operation, tuple(places)) for event, key, operation, places in promised]
        texts = [text for waiter in waiters for text in (*waiter[:7], waiter.iteration)]
        texts += [text for promise in promises for text in promise[:-1]]
        texts += [name for event, names in served.items() for name in (event, *names)]
        texts += list(sent)
        places = [place for promise in promises for place in promise.waiters]
        numbers = [number for each in (*sent.values(), *[waiter.awaited for waiter in waiters]) for number in each]
        if not all(type(number) is int for number in numbers):
            raise ValueError("the number of an iteration in the wait-for graph is not an integer")
        if not all(type(text) is str for text in texts):
            raise ValueError("a name in the wait-for graph is not text")
        if not all(type(place) is int and 0 <= place < len(waiters) for place in places):
            raise ValueError(f"a waiter's number in the wait-for graph is not below {len(waiters)}")
        return cls(waiters, promises, served, sent)

    @classmethod
    def joined(cls, graphs: Iterable["WaitGraph"]) -> "WaitGraph":
        """The graphs of several tasks joined to one.

        A waiter for a value that was sent, and has not arrived, ends by itself. The tasks reported one after the other,
        so a value may have been sent and received between two reports.
        """
        graphs = list(graphs)
        sent = {event: iteration for graph in graphs for event, iteration in graph.sent.items()}
        waiters: list[Waiter] = []
        promises: list[Promise] = []
        served: dict[str, Sequence[str]] = {}
        for graph in graphs:
            first = len(waiters)
            waiters += [each._replace(needs="") if each.is_met(sent) else each for each in graph.waiters]
            promises += [each.moved(first) for each in graph.promises]
            served |= graph.served
        return cls(waiters, promises, served, sent)

    def cycles(self, steps: Mapping[str, int]) -> list[Cycle]:
        """The cycles of waiters that only waiters of the cycle could wake. No waiter is in two of them.

        Args:
            steps: the numbers of the steps of the session, by their keys.
        """
        return _Search(self, steps).cycles()

    def culprits(self, key: str) -> list[Waiter]:
        """The waiters of a step and those they wait for: first the computing ones, then each before its dependents."""
        promised = _by_event(self.promises)
        own = [place for place, waiter in enumerate(self.waiters) if waiter.key == key]
        found, left = dict.fromkeys(own), deque(own)
        while left:
            for promise in promised.get(self.waiters[left.popleft()].needs, ()):
                left += [place for place in promise.waiters if place not in found]
                found |= dict.fromkeys(promise.waiters)
        return sorted([self.waiters[place] for place in reversed(found)], key=_rank)


def _rank(waiter: Waiter) -> int:
    """The rank of a waiter: computing ones first; last those that wait for an operation of their own step."""
    return 0 if waiter.computes else _LAST.get(waiter.op_type, 1)


_STARTS: Final = 64
"""The most waiters of a cycle from which a shorter cycle is searched."""
_LAST: Final = {"recv": 2, "keep_variable_lock": 3}


def _by_event(promises: Iterable[Promise]) -> dict[str, list[Promise]]:
    found: dict[str, list[Promise]] = {}
    for promise in promises:
        found.setdefault(promise.event, []).append(promise)
    return found


class _Search:
    """The search for cycles."""

    def __init__(self, graph: WaitGraph, steps: Mapping[str, int]) -> None:
        self._steps = steps
        self._waiters = graph.waiters
        self._promised = {
            event: promises
            for event, promises in _by_event(graph.promises).items()
            if event and set(graph.served.get(event, ())) <= {promise.operation for promise in promises}
        }
        self._stuck = {place for place, waiter in enumerate(self._waiters) if waiter.needs in self._promised}
        self._free_those_who_are_served()
        self._after = {event: self._kept_by(event) for event in {self._waiters[place].needs for place in self._stuck}}

    def _free_those_who_are_served(self) -> None:
        """Keep as stuck only waiters whose event no promise can cause."""
        left = dict(self._promised)
        while True:
            served = {event for event, promises in left.items() if any(map(self._is_free, promises))}
            if not served:
                return
            left = {event: promises for event, promises in left.items() if event not in served}
            self._stuck -= {place for place in self._stuck if self._waiters[place].needs in served}

    def _is_free(self, promise: Promise) -> bool:
        """Whether all waiters before it end by themselves."""
        return self._stuck.isdisjoint(promise.waiters)

    def _kept_by(self, event: str) -> dict[int, Promise]:
        """The stuck waiters that delay the event, each with the promise after it."""
        return {
            place: promise for promise in self._promised[event] for place in promise.waiters if place in self._stuck
        }

    def cycles(self) -> list[Cycle]:
        """The cycles found by following each stuck waiter to one that delays it."""
        found: list[Cycle] = []
        seen: set[int] = set()
        for start in sorted(self._stuck):
            path = () if start in seen else self._walk(start, seen)
            if path:
                found.append(Cycle(tuple(self._edges(self._shortened(path)))))
        return found

    def _walk(self, start: int, seen: set[int]) -> tuple[int, ...]:
        """Follow stuck waiters until one repeats, and return the cycle; empty if it was found before."""
        path: dict[int, None] = {}
        place = start
        while place not in seen:
            seen.add(place)
            path[place] = None
            place = next(iter(self._after[self._waiters[place].needs]))
        walked = list(path)
        return tuple(walked[walked.index(place) :]) if place in path else ()

    def _shortened(self, cycle: Sequence[int]) -> Sequence[int]:
        """A shortest cycle through one of the waiters of a cycle."""
        return min([self._shortest(start) for start in cycle[:_STARTS]], key=len)

    def _shortest(self, start: int) -> list[int]:
        """A shortest cycle through a waiter; the waiter must be in a cycle."""
        left = deque([start])
        before: dict[int, int] = {}
        while True:
            place = left.popleft()
            for following in self._after[self._waiters[place].needs]:
                if following == start:
                    return _path(before, place)
                if following not in before:
                    before[following] = place
                    left.append(following)

    def _edges(self, cycle: Sequence[int]) -> Iterator[Edge]:
        for place, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            waiter = self._waiters[place]
            promise = self._after[waiter.needs][following]
            step, awaited = self._steps.get(waiter.key, 0), self._steps.get(promise.key, 0)
            yield Edge(step, *waiter[1:6], promise.operation, awaited)


def _path(before: Mapping[int, int], place: int) -> list[int]:
    path = [place]
    while path[-1] in before:
        path.append(before[path[-1]])
    return path[::-1]
