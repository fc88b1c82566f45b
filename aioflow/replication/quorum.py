"""Decides which gradients make a step of synchronous training, once for all variables.

A replica begins a gradient, stores its parts beside their variables, and announces it when all parts are stored. The
first `required` announced gradients make the step. The other gradients begun in that step are dropped and recorded.
Then one replica, the leader, applies the gradients and finishes the step, and all replicas go on to the next step [P16
section 4.4].

A lost replica does not hold up the others: a step never needs more gradients than there are replicas that have
announced one or are still expected to. When the leader is lost, another replica leads. Nothing here waits; `waitable`
does.

The gradients of one variable, kept apart by replica until a decision says which of them make the step.
"""

import dataclasses
import enum
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec, TensorShape

REPEATED: Final = -1
"""The serial number of a gradient of a replica that has already announced one in the same step."""
NO_STEP: Final = -1
"""The step of a gradient that may belong to the values before a reset of training."""
REMEMBERED: Final = 10_000
"""Number of dropped gradients that are remembered."""


class Reason(enum.IntEnum):
    """The reason for dropping a gradient."""

    LATE = 1
    """The step was decided without it."""
    REPEATED = 2
    """The replica announced an earlier gradient in this step, in a run whose end it has not learned."""
    ABANDONED = 3
    """Its run ended before announcing it, and the replica has begun another gradient."""
    LOST = 4
    """The replica left or was lost before announcing it."""
    RESET = 5
    """Training was restarted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ticket:
    """A gradient in progress: its replica, its step, and a unique serial number."""

    replica: int
    step: int
    serial: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """A gradient that belongs to no step.

    Attributes:
        number: its number among the dropped gradients, from 1.
        replica: its replica.
        step: its step.
        examples: number of examples in its batch.
        reason: the reason for dropping it.
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
    """The gradients of a step, ordered by replica."""

    step: int
    tickets: tuple[Ticket, ...]


class Quorum:
    """The replicas that train together, and their current step.

    Args:
        required: number of gradients that make a step; None for one of each expected replica.
        total: number of replicas that are expected from the start.
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
        """Begin or resume training with that step. Drops all gradients that were begun before.

        AbortedError if an unfinished run applied a part of the step before it: some variables may have changed, others
        not.
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
        """Return the gradients of the current step for that replica to apply; None if undecided or another one leads.

        A replica that received a decision leads until it leaves or is lost. Asking again returns the same decision.

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
        """Check that no replica has begun to apply the decision: the global step is still the one of the decision.

        AbortedError otherwise, for every caller, until training is restarted.
        """
        self._check()
        if self._decision is None or self._decision.step != step:
            raise errors.AbortedError(f"step {step} cannot be applied: training was restarted")
        if global_step != step:
            self._broken = str(self._stop_short(step)) if global_step == step + 1 else (
                f"step {step} cannot be applied: the global step is {global_step}; something else changed it"
            )  # fmt: skip
            self._check()

    def finish(self, step: int) -> None:
        """Note that the decision was applied, and begin the next step. AbortedError if training was restarted."""
        if self._decision is None or self._decision.step != step:
            raise errors.AbortedError(f"step {step} was applied too late: training was restarted")
        self._announced.clear()
        self._decision = None
        self._applying, self._failure = False, ""
        self.step = step + 1
        if self._leader in self._left:
            self._leader = None

    def fail(self, replica: int, why: str) -> None:
        """Record why a run of the leading replica failed. Errors of replicas that cannot go on state this reason."""
        if self._leader in (None, replica):
            self._failure = f" ({why})"

    def hold(self, mark: int) -> None:
        """Let no step begin to be applied until that mark is released."""
        self._holds.add(mark)

    def release(self, mark: int) -> None:
        """Remove the mark."""
        self._holds.discard(mark)

    def held(self, mark: int) -> bool:
        """Whether the mark is set and no step is being applied, so that the variables are those of a step boundary.

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

    # Membership

    def join(self, replica: int) -> None:
        """Expect gradients of the replica."""
        self._expected.add(replica)
        self._left.discard(replica)

    def leave(self, replica: int) -> None:
        """Stop expecting gradients of the replica. Its announced gradient stays in the step.

        A replica that is applying a step finishes it.
        """
        self._expected.discard(replica)
        self._left.add(replica)
        if self._leader == replica and self._decision is None:
            self._leader = None
        self._abandon(replica, Reason.LOST)
        self._decide()

    def lose(self, replica: int) -> None:
        """Remove the replica at once, even if it leads."""
        if self._leader == replica:
            self._leader = None
        self.leave(replica)
        self._left.discard(replica)

    @property
    def members(self) -> Sequence[int]:
        """The expected replicas."""
        return sorted(self._expected)

    # One gradient

    def admit(self, replica: int) -> int | None:
        """Return the step that the replica may begin, None if there is none yet. A step makes the replica expected."""
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
        """Begin a gradient of the step that the replica was admitted to. FailedPreconditionError without a step."""
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
        """Note that all parts of the gradient are stored. Adds it to the step or drops it."""
        self._check()
        begun = self._begun.get(ticket.replica)
        if begun is None or begun[0] != ticket:  # it was dropped and recorded before
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
        """Whether the gradient was accepted, once the next step has begun; None before.

        The replica may then begin the next step. AbortedError if the step is decided and no replica is left to apply
        it.
        """
        self._check()
        if self._decision is not None and self._leader is None and not self._expected:
            raise errors.AbortedError(
                f"step {self._decision.step} cannot be applied: no replica is left{self._failure}"
            )
        if ticket.replica in self._announced or self._admit(ticket.replica) is None:
            return None
        return self._accepted.get(ticket.replica) == ticket.serial

    def _decide(self) -> None:
        """Decide the step if enough gradients are announced."""
        if self.step is None or self._decision is not None or not self._announced:
            return
        there = len(self._expected | self._announced.keys())
        if len(self._announced) >= (there if self.required is None else min(self.required, there)):
            tickets = tuple([self._announced[replica][0] for replica in sorted(self._announced)])
            self._decision = Decision(self.step, tickets)
            self._accepted.update({ticket.replica: ticket.serial for ticket in tickets})

    # Drops

    def _abandon(self, replica: int, reason: Reason) -> None:
        begun = self._begun.pop(replica, None)
        if begun is not None:
            self._drop(*begun, reason)

    def _drop(self, ticket: Ticket, examples: int, reason: Reason) -> None:
        self._dropped += 1
        self._drops.append(Dropped(self._dropped, ticket.replica, ticket.step, examples, reason))

    def dropped(self, since: int = 0) -> list[Dropped]:
        """Return the remembered dropped gradients after number `since`, oldest first."""
        return [drop for drop in self._drops if drop.number > since]

    def __repr__(self) -> str:
        state = "not open" if self.step is None else f"step {self.step}"
        return f"<Quorum {state}, replicas {self.members}, announced {sorted(self._announced)}>"


G = TypeVar("G")


class Rows(NamedTuple):
    """A gradient of some rows: `values[i]` belongs to row `indices[i]`; rows may repeat."""

    indices: AnyArray
    values: AnyArray


class GradientStore(Generic[G]):
    """The gradients of one variable that replicas have stored. Safe to use from any thread.

    Args:
        name: its name in errors.
        spec: dtype and shape of the gradient.
        signature: the arguments of its creation, compared when it is opened again.
    """

    def __init__(self, name: str, spec: Spec, signature: Any = None) -> None:
        self.name: Final = name
        self.spec: Final = spec
        self.signature: Final = signature
        self._stored: dict[int, tuple[Ticket, G]] = {}
        self._taken: int | None = None
        self._lock: Final = threading.Lock()

    def put(self, ticket: Ticket, make: Callable[[], G]) -> None:
        """Store the gradient until its step is taken. It replaces an earlier one of the same replica.

        Does not call `make` if no step can use the gradient. InvalidArgumentError if the gradient does not fit the
        variable; otherwise the step would fail for all replicas.
        """
        if not self._is_wanted(ticket):
            return
        gradient = make()
        self._check(gradient)
        with self._lock:
            if self._is_wanted(ticket):
                self._stored[ticket.replica] = ticket, gradient

    def _is_wanted(self, ticket: Ticket) -> bool:
        present = self._stored.get(ticket.replica)
        newer = present is None or present[0].serial < ticket.serial
        return ticket.serial != REPEATED and newer and (self._taken is None or ticket.step > self._taken)

    def _check(self, gradient: G) -> None:
        """Raise InvalidArgumentError if the gradient does not fit the variable."""
        raise NotImplementedError

    def take(self, step: int, tickets: Sequence[tuple[int, int]]) -> list[G]:
        """Return the gradients with these replicas and serial numbers, in that order. Deletes those of steps up to it.

        AbortedError, without a change, if one is missing or the step was taken before.
        """
        with self._lock:
            if self._taken is not None and step <= self._taken:
                raise errors.AbortedError(f"the gradients of {self.name!r} of step {step} were taken before")
            found = [self._find(replica, serial) for replica, serial in tickets]
            if any(gradient is None for gradient in found):
                missing = [place[0] for place, each in zip(tickets, found, strict=True) if each is None]
                raise errors.AbortedError(
                    f"the gradients of {self.name!r} of step {step} of replicas {missing} are missing: the task that "
                    "kept them has restarted"
                )
            self._taken = step
            self._stored = {key: kept for key, kept in self._stored.items() if kept[0].step > step}
        return [gradient for gradient in found if gradient is not None]

    def _find(self, replica: int, serial: int) -> G | None:
        ticket, gradient = self._stored.get(replica, (None, None))
        return gradient if ticket is not None and ticket.serial == serial else None

    def reset(self) -> None:
        """Delete all gradients, and forget the last step."""
        with self._lock:
            self._stored, self._taken = {}, None

    def release(self) -> None:
        """Delete all gradients, since the container was reset or the session closed."""
        self.reset()

    @property
    def stored(self) -> list[Ticket]:
        """The tickets of the stored gradients."""
        with self._lock:
            return [ticket for ticket, _ in self._stored.values()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.spec}, {len(self._stored)} stored>"


class DenseGradientStore(GradientStore[AnyArray]):
    """Dense gradients."""

    def _check(self, gradient: AnyArray) -> None:
        if not self.spec.shape.is_compatible_with(gradient.shape):
            raise errors.InvalidArgumentError(
                f"a gradient of {self.name!r} must have shape {self.spec.shape}, not {TensorShape(gradient.shape)}"
            )

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        """Return the mean, adding in the given order. Narrow floats are added as float32."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        first, *others = gradients
        total = np.array(first, np.float32 if narrow else None)
        for gradient in others:
            np.add(total, gradient, out=total)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return total.astype(self.spec.dtype.np, copy=False)


class RowGradientStore(GradientStore[Rows]):
    """Gradients of some rows only."""

    def _check(self, gradient: Rows) -> None:
        indices, values = gradient
        whole = self.spec.shape
        rows = TensorShape([len(indices)]).concatenate(whole[1:])
        if not rows.is_compatible_with(values.shape):
            raise errors.InvalidArgumentError(
                f"{len(indices)} rows of a gradient of {self.name!r} must have shape {rows}, not "
                f"{TensorShape(values.shape)}"
            )
        count = whole.sizes[0] if whole.sizes else None
        strays = indices[(indices < 0) | (indices > (np.iinfo(np.int64).max if count is None else count - 1))]
        if strays.size:
            raise errors.InvalidArgumentError(
                f"index {strays[0]} is out of range for a gradient of {self.name!r}, of shape {self.spec.shape}"
            )

    def mean(self, gradients: Sequence[Rows]) -> Rows:
        """Return the sum of each row, added in the given order, divided by the number of gradients."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        indices = np.concatenate([gradient.indices for gradient in gradients])
        values = np.concatenate([gradient.values for gradient in gradients])
        found, places = np.unique(indices, return_inverse=True)
        total = np.zeros((len(found), *values.shape[1:]), np.float32 if narrow else values.dtype)
        np.add.at(total, places.reshape(-1), values)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return Rows(found, total.astype(self.spec.dtype.np, copy=False))
