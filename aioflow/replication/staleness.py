"""Measures how stale gradients are in asynchronous training, and bounds the staleness.

The staleness of a gradient is the number of other updates between the reading of the variables and the gradient's own
update. Updates are numbered when they are allowed. A replica that reads the variables notes which updates it certainly
sees: all before the first unfinished one. Updates that are allowed at the same time may happen in any order, so all
updates that were allowed meanwhile count as earlier: the measured staleness is never less than the real one. A reading
serves one gradient. A run takes a ticket before it computes a gradient, and no other run of the same replica can take
one until the replica has read again.

With the largest staleness `bound`, a replica's own update must be among the next `bound + 1` updates: it has a
deadline. An update is allowed if, after it, all other replicas can still meet their deadlines one after the other,
earliest first, and if it makes no unfinished update too stale. So the slowest replica may always go on, the fastest
ones wait, and no replica waits for ever [stale synchronous parallel: Ho et al., 2013]. Nothing here waits; `waitable`
does.
"""

import itertools
from typing import Final

from aioflow import errors


class StalenessBound:
    """The active replicas, their readings, and the updates that are allowed.

    Args:
        bound: the largest staleness; None for no limit, so that no replica waits.
    """

    def __init__(self, bound: int | None = None) -> None:
        self.bound: Final = bound
        self._next = 0
        self._read: Final[dict[int, int]] = {}
        self._tickets_by_replica: Final[dict[int, int]] = {}
        """{replica: ticket of the gradient that it has begun since its last reading}."""
        self._tickets: Final = itertools.count(1)
        self._updating: Final[dict[int, tuple[int, int]]] = {}
        """{replica with an unfinished update: (number of the update, its reading)}."""

    @property
    def seen(self) -> int:
        """The number of updates that a reading now certainly sees."""
        return min([number for number, _ in self._updating.values()], default=self._next)

    def read(self, replica: int) -> int | None:
        """Let the replica read the variables. Returns the number of updates that it sees; None if it must wait.

        A replica does one thing at a time: its earlier reading or update no longer counts.
        """
        self.leave(replica)
        if not self._feasible([*self._read.values(), self.seen], self._next):
            return None
        self._read[replica] = self.seen
        return self._read[replica]

    def begin(self, replica: int) -> int:
        """Begin a gradient of the replica's reading, and return its ticket.

        FailedPreconditionError without a reading, or if a gradient of this reading was begun before. Of several runs at
        once, only one can use the reading.
        """
        if replica not in self._read or replica in self._tickets_by_replica:
            raise errors.FailedPreconditionError(
                f"replica {replica} cannot begin a gradient: it runs one step at a time. Before its first, and after "
                "one that failed, run local_step_init_op of its AsyncReplicasOptimizer, or use make_session_run_hook()"
            )
        self._tickets_by_replica[replica] = next(self._tickets)
        return self._tickets_by_replica[replica]

    def apply(self, replica: int, ticket: int) -> int | None:
        """Let the replica update the variables. Returns the number of the update; None if it must wait.

        AbortedError if the replica was declared lost or has restarted since it took the ticket.
        """
        read = self._read.get(replica)
        if read is None or self._tickets_by_replica.get(replica) != ticket:
            raise self._lost(replica)
        others = [stamp for other, stamp in self._read.items() if other != replica]
        if not self._feasible(others, self._next + 1) or not self._keeps_others_fresh(self._next):
            return None
        del self._read[replica]
        number, self._next = self._next, self._next + 1
        self._updating[replica] = number, read
        return number

    def finish(self, replica: int, number: int) -> int:
        """Note that the update is done; later readings see it. Returns an upper bound of the gradient's staleness.

        AbortedError if the replica was declared lost or has restarted meanwhile.
        """
        done, read = self._updating.get(replica, (None, 0))
        if done != number:
            raise self._lost(replica)
        del self._updating[replica]
        return self._next - 1 - read

    def _lost(self, replica: int) -> errors.AbortedError:
        return errors.AbortedError(
            f"replica {replica} was declared lost, or restarted, before its gradient was applied: restart it"
        )

    def leave(self, replica: int) -> None:
        """Remove the replica, so that no other waits for it."""
        self._updating.pop(replica, None)
        self._read.pop(replica, None)
        self._tickets_by_replica.pop(replica, None)

    lose = leave

    def _feasible(self, stamps: list[int], number: int) -> bool:
        """Whether updates from `number` on, one per reading in `stamps`, can all stay within the bound."""
        if self.bound is None:
            return True
        return all(number + place - stamp <= self.bound for place, stamp in enumerate(sorted(stamps)))

    def _keeps_others_fresh(self, number: int) -> bool:
        """Whether every unfinished update stays within the bound if it happens after this one."""
        return self.bound is None or all(number - read <= self.bound for _, read in self._updating.values())

    def __repr__(self) -> str:
        return f"<Turns {self._next} updates, {len(self._read)} replicas under way, bound {self.bound}>"
