"""Which gradients make a step of synchronous training: decided once, here, for all variables.

A replica begins a gradient, stores its parts beside the variables they are for, and announces it when all are stored.
The first so many that are announced are the step's; whatever else was begun in it is dropped, and noted. Then somebody
applies them, says that the step is finished, and all go on to the next [P16 section 4.4].

Nobody is waited for who is gone: a step needs so many gradients as asked for, but not more than there are replicas who
have announced theirs or are still expected to. One of them leads: it applies the steps, and when it is gone another one
does. Nothing here waits; `live` does.
"""

import dataclasses
import enum
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

from aioflow import errors

REPEATED: Final = -1
"""The serial number of a gradient begun by a replica that has announced one in that step already."""
NO_STEP: Final = -1
"""The step of a gradient that may be of values which the variables had before training was opened anew."""
REMEMBERED: Final = 10_000
"""So many drops are kept for those who ask for them."""


class Reason(enum.IntEnum):
    """Why a gradient was dropped."""

    LATE = 1
    """The step was decided without it."""
    REPEATED = 2
    """The replica had announced one in that step already, in a run of which it has not heard the end."""
    ABANDONED = 3
    """The run that computed it ended before it was announced, and the replica has begun another."""
    LOST = 4
    """The replica left or was lost before it was announced."""
    RESET = 5
    """Training was opened anew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ticket:
    """One gradient on its way: whose, of which step, and a number that no other has."""

    replica: int
    step: int
    serial: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """A gradient that was computed, or begun, and is in no step.

    Attributes:
        number: the how manieth it is, from 1 on.
        replica: whose.
        step: of which step.
        examples: how many examples it is of.
        reason: why.
    """

    number: int
    replica: int
    step: int
    examples: int
    reason: Reason

    def __str__(self) -> str:
        return (
            f"the gradient of replica {self.replica} of step {self.step}, of {self.examples} examples, was dropped: "
            f"{self.reason.name.lower()}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The gradients of a step, in the order of their replicas."""

    step: int
    tickets: tuple[Ticket, ...]


class Quorum:
    """The replicas that train together, and the step they are in.

    Args:
        required: how many gradients make a step; None for one of each replica that is there.
        total: how many replicas are expected from the start.
    """

    def __init__(self, required: int | None, total: int) -> None:
        self.required: Final = required
        self.step: int | None = None
        self._expected: Final = set(range(total))
        self._left: Final[set[int]] = set()
        self._leader: int | None = None
        self._tokens: Final[dict[int, int]] = {}
        self._begun: Final[dict[int, tuple[Ticket, int]]] = {}
        self._announced: Final[dict[int, tuple[Ticket, int]]] = {}
        self._accepted: Final[dict[int, int]] = {}
        self._decision: Decision | None = None
        self._broken: str | None = None
        self._failure = ""
        self._applying = False
        self._holds: Final[set[int]] = set()
        self._serials: Final = itertools.count(1)
        self._drops: Final[deque[Dropped]] = deque(maxlen=REMEMBERED)
        self._dropped = 0

    # The life of training

    def open(self, step: int) -> None:
        """Training begins, or goes on, with that step. What was begun before is dropped.

        AbortedError if that step begins where a run that applied the one before it did not finish: some variables may
        have changed, and others not.
        """
        if self._decision is not None and step == self._decision.step + 1:
            raise self._stop_short(self._decision.step)
        for ticket, examples in (*self._announced.values(), *self._begun.values()):
            self._drop(ticket, examples, Reason.RESET)
        self._announced.clear()
        self._begun.clear()
        self._accepted.clear()
        self._tokens.update(dict.fromkeys(self._tokens, NO_STEP))
        self._decision = self._broken = self._leader = None
        self._applying, self._failure = False, ""
        self.step = step

    def lead(self, replica: int) -> Decision | None:
        """The gradients of the present step, for that replica to apply. None as long as it is open, or another leads.

        Who has been given a decision leads until it is gone; asking again gives the same one.

        Raises:
            af.errors.OutOfRangeError: the replica has left.
            af.errors.AbortedError: the step cannot be applied.
        """
        self._check()
        if replica in self._left:
            raise errors.OutOfRangeError(f"replica {replica} has left")
        if self._decision is None or self._leader not in (None, replica) or (self._holds and not self._applying):
            return None
        self._leader, self._applying = replica, True
        return self._decision

    def confirm(self, step: int, global_step: int) -> None:
        """The decision may be applied, for nobody has begun to: the global step is still that of the decision.

        AbortedError if it is not, now and for all who come, until training is opened anew.
        """
        self._check()
        if self._decision is None or self._decision.step != step:
            raise errors.AbortedError(f"step {step} is not to be applied any more: training was opened anew")
        if global_step != step:
            self._broken = str(self._stop_short(step)) if global_step == step + 1 else (
                f"step {step} cannot be applied: the global step is {global_step}, as something else has changed it"
            )  # fmt: skip
            self._check()

    def finish(self, step: int) -> None:
        """The decision was applied, and the next step begins. AbortedError if training was opened anew meanwhile."""
        if self._decision is None or self._decision.step != step:
            raise errors.AbortedError(f"step {step} was applied too late: training was opened anew meanwhile")
        self._announced.clear()
        self._decision = None
        self._applying, self._failure = False, ""
        self.step = step + 1
        if self._leader in self._left:
            self._leader = None

    def fail(self, replica: int, why: str) -> None:
        """A run by which the replica was to apply a step has failed: whoever cannot go on for that is told why."""
        if self._leader in (None, replica):
            self._failure = f" ({why})"

    def hold(self, mark: int) -> None:
        """Until that mark is released, no step begins to be applied."""
        self._holds.add(mark)

    def release(self, mark: int) -> None:
        """The mark holds nothing any more."""
        self._holds.discard(mark)

    def held(self, mark: int) -> bool:
        """Whether the mark holds, and no step is being applied: the variables are those of a step boundary.

        AbortedError if a step was applied in part.
        """
        self._check()
        return mark in self._holds and not self._applying

    def _stop_short(self, step: int) -> errors.AbortedError:
        return errors.AbortedError(
            f"step {step} was applied in part by a run that did not finish{self._failure}: restore the variables, "
            "with the global step, and run chief_init_op"
        )

    def _check(self) -> None:
        if self._broken is not None:
            raise errors.AbortedError(self._broken)

    # Who is there

    def join(self, replica: int) -> None:
        """The replica is waited for."""
        self._expected.add(replica)
        self._left.discard(replica)

    def leave(self, replica: int) -> None:
        """The replica is not waited for any more. What it has announced stays in the step.

        If it is applying a step, it goes on to the end of that.
        """
        self._expected.discard(replica)
        self._left.add(replica)
        if self._leader == replica and self._decision is None:
            self._leader = None
        self._abandon(replica, Reason.LOST)
        self._decide()

    def lose(self, replica: int) -> None:
        """The replica is gone, whatever it was about."""
        if self._leader == replica:
            self._leader = None
        self.leave(replica)
        self._left.discard(replica)

    @property
    def members(self) -> Sequence[int]:
        """The replicas that are waited for."""
        return sorted(self._expected)

    # One gradient

    def admit(self, replica: int) -> int | None:
        """The step that the replica may begin, None as long as there is none. From then on it is waited for."""
        token = self._admit(replica)
        if token is not None:
            self.join(replica)
        return token

    def _admit(self, replica: int) -> int | None:
        self._check()
        if self.step is None or self._decision is not None:
            return None
        self._tokens[replica] = self.step
        return self.step

    def begin(self, replica: int, examples: int) -> Ticket:
        """The replica computes a gradient, of the step that it was admitted to. FailedPreconditionError if to none."""
        self._check()
        token = self._tokens.get(replica)
        if token is None or self.step is None:
            raise errors.FailedPreconditionError(
                f"replica {replica} cannot begin a step before it is admitted: run local_step_init_op of its "
                "SyncReplicasOptimizer after chief_init_op of the chief's, or use make_session_run_hook()"
            )
        self._abandon(replica, Reason.ABANDONED)
        present = self._announced.get(replica)
        repeated = present is not None and present[0].step == token
        ticket = Ticket(replica, token, REPEATED if repeated else next(self._serials))
        self._begun[replica] = ticket, examples
        return ticket

    def announce(self, ticket: Ticket) -> None:
        """All parts of the gradient are stored. It is the step's, or dropped."""
        self._check()
        begun = self._begun.get(ticket.replica)
        if begun is None or begun[0] != ticket:  # it was dropped before, and that is noted
            return
        del self._begun[ticket.replica]
        if ticket.serial == REPEATED:
            self._drop(*begun, Reason.REPEATED)
        elif ticket.step != self.step or self._decision is not None:
            self._drop(*begun, Reason.RESET if ticket.step == NO_STEP else Reason.LATE)
        else:
            self._announced[ticket.replica] = begun
            self._decide()

    def settle(self, ticket: Ticket) -> bool | None:
        """Whether the gradient was the step's, once that is known and the next step has begun; None before.

        The replica may begin that step then. AbortedError if the step is decided, and nobody is there to apply it.
        """
        self._check()
        if self._decision is not None and self._leader is None and not self._expected:
            raise errors.AbortedError(
                f"step {self._decision.step} is not applied, for no replica is there any more{self._failure}"
            )
        if ticket.replica in self._announced or self._admit(ticket.replica) is None:
            return None
        return self._accepted.get(ticket.replica) == ticket.serial

    def _decide(self) -> None:
        """The step is decided if as many gradients are announced as it needs."""
        if self.step is None or self._decision is not None or not self._announced:
            return
        there = len(self._expected | self._announced.keys())
        if len(self._announced) >= (there if self.required is None else min(self.required, there)):
            tickets = tuple([self._announced[replica][0] for replica in sorted(self._announced)])
            self._decision = Decision(self.step, tickets)
            self._accepted.update({ticket.replica: ticket.serial for ticket in tickets})

    # What was dropped

    def _abandon(self, replica: int, reason: Reason) -> None:
        begun = self._begun.pop(replica, None)
        if begun is not None:
            self._drop(*begun, reason)

    def _drop(self, ticket: Ticket, examples: int, reason: Reason) -> None:
        self._dropped += 1
        self._drops.append(Dropped(self._dropped, ticket.replica, ticket.step, examples, reason))

    def dropped(self, since: int = 0) -> list[Dropped]:
        """What was dropped after the first `since` gradients, oldest first, as far as it is remembered."""
        return [drop for drop in self._drops if drop.number > since]

    def __repr__(self) -> str:
        state = "not open" if self.step is None else f"step {self.step}"
        return f"<Quorum {state}, replicas {self.members}, announced {sorted(self._announced)}>"
