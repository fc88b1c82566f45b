"""How stale gradients are in asynchronous training, and who must wait so that none is staler than it may be.

A gradient's staleness is the number of other updates between the reading of the variables and its own update. Updates
are numbered as they are allowed. A replica that reads notes which updates it surely sees: all before the first that is
not finished. Updates that are allowed at the same time may come in any order, so until one is finished all that were
allowed meanwhile count as before it: what is measured is never less than the truth. What was read is for one gradient:
a run that computes one begins by taking a ticket, and no other run of that replica can until it has read again.

If `bound` is the largest staleness, a replica's own update must be among the next `bound + 1`: it has a deadline. An
update is allowed if all others under way can still meet their deadlines after it, one after the other, the earliest
first, and if it makes none that is not finished too stale. So whoever is farthest behind may always go on, and nobody
waits for ever: who is too far ahead waits [stale synchronous parallel: Ho et al., 2013]. Nothing here waits; `live`
does.
"""

import itertools
from typing import Final

from aioflow import errors


class Turns:
    """The replicas under way, what they have read, and the updates that are allowed.

    Args:
        bound: the largest staleness; None if there is none, so that nobody waits.
    """

    def __init__(self, bound: int | None = None) -> None:
        self.bound: Final = bound
        self._next = 0
        self._read: Final[dict[int, int]] = {}
        self._out: Final[dict[int, int]] = {}
        """Of each replica that computes a gradient, or has since it last read, the ticket of that."""
        self._tickets: Final = itertools.count(1)
        self._updating: Final[dict[int, tuple[int, int]]] = {}
        """Of each replica whose update is allowed and not finished, its number, and what the replica had read."""

    @property
    def seen(self) -> int:
        """So many updates whoever reads now surely sees."""
        return min([number for number, _ in self._updating.values()], default=self._next)

    def read(self, replica: int) -> int | None:
        """The replica may read the variables: so many updates it sees. None as long as it must wait.

        It does one thing at a time: what it had read, or was about to update, before does not count any more.
        """
        self.leave(replica)
        if not self._feasible([*self._read.values(), self.seen], self._next):
            return None
        self._read[replica] = self.seen
        return self._read[replica]

    def begin(self, replica: int) -> int:
        """The replica computes a gradient of what it has read: the ticket of that.

        FailedPreconditionError if it has computed one of that before, or has not read: of several runs at once only one
        can be of what it has read.
        """
        if replica not in self._read or replica in self._out:
            raise errors.FailedPreconditionError(
                f"replica {replica} cannot begin a gradient: it runs one step at a time. Before its first, and after "
                "one that failed, run local_step_init_op of its AsyncReplicasOptimizer, or use make_session_run_hook()"
            )
        self._out[replica] = next(self._tickets)
        return self._out[replica]

    def apply(self, replica: int, ticket: int) -> int | None:
        """The replica may update the variables: the number of its update. None as long as it must wait.

        AbortedError if it was taken for lost, or has begun anew, since it took the ticket.
        """
        read = self._read.get(replica)
        if read is None or self._out.get(replica) != ticket:
            raise self._lost(replica)
        others = [stamp for other, stamp in self._read.items() if other != replica]
        if not self._feasible(others, self._next + 1) or not self._spares(self._next):
            return None
        del self._read[replica]
        number, self._next = self._next, self._next + 1
        self._updating[replica] = number, read
        return number

    def finish(self, replica: int, number: int) -> int:
        """That update is done, and whoever reads from now on sees it. The staleness of its gradient, at most.

        AbortedError if the replica was taken for lost, or has begun anew, meanwhile.
        """
        done, read = self._updating.get(replica, (None, 0))
        if done != number:
            raise self._lost(replica)
        del self._updating[replica]
        return self._next - 1 - read

    def _lost(self, replica: int) -> errors.AbortedError:
        return errors.AbortedError(
            f"replica {replica} was taken for lost, or begun anew, before its gradient was applied: let it begin anew"
        )

    def leave(self, replica: int) -> None:
        """The replica is gone: nobody waits for it."""
        self._updating.pop(replica, None)
        self._read.pop(replica, None)
        self._out.pop(replica, None)

    lose = leave

    def _feasible(self, stamps: list[int], number: int) -> bool:
        """Whether updates from that number on, one of each who has read so much, are all within the bound."""
        if self.bound is None:
            return True
        return all(number + place - stamp <= self.bound for place, stamp in enumerate(sorted(stamps)))

    def _spares(self, number: int) -> bool:
        """Whether all updates that are not finished may come after that one, too."""
        return self.bound is None or all(number - read <= self.bound for _, read in self._updating.values())

    def __repr__(self) -> str:
        return f"<Turns {self._next} updates, {len(self._read)} replicas under way, bound {self.bound}>"
