"""The state of sessions, registered graphs and steps in a worker."""

import functools
from collections.abc import Hashable, Sequence
from typing import Final

from aioflow.graph.memo import Memo
from aioflow.graph.operation import BODY_WORK
from aioflow.kernels.context import Undo
from aioflow.net.peer.serving import Requester
from aioflow.net.worker.plan_shares import Senders, handed_over, lasting, lasts, pushed_to, senders_to
from aioflow.net.worker.registration import Registration
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous
from aioflow.plan.partition import Part
from aioflow.program.program import Programs
from aioflow.runtime.plan_cache import LONG_PLAN, Variant
from aioflow.runtime.planning_thread import plan_on
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step
from aioflow.tensors.dtypes import Spec
from aioflow.waiting.handover import Handover


class Registered:
    """A graph that can be run."""

    def __init__(
        self, state: SessionState, registration: Registration, takes: bool, memo: Memo | None, key: Hashable
    ) -> None:
        parts = registration.parts
        self._state: Final = state
        self._parts: Final = parts
        self._memo: Final = memo
        self._key: Final = key
        self.takes: Final = takes
        """Whether a part of its plan takes elements, here or on another task."""
        self.below: Final = registration.below
        """The tasks that this one asks to run their shares in a step."""
        self._programs: Final[dict[Variant, tuple[int, Programs]]] = {}
        self.counted: Final = registration.counted
        self.feeds: Final = _specs(parts)
        """Its feeds in order, with their names in errors."""
        self.senders: Final = senders_to(parts)
        """The tasks that send something unasked."""
        self.lasts: Final = lasts(parts)
        """Whether other tasks get something of it, or may undo it, so that a step is not over when it has run."""
        self.pushed_to: Final = pushed_to(parts)
        """The tasks to which it sends something unasked; None if it also sends what is asked for, or may be undone."""

    @property
    def nodes(self) -> int:
        """The number of its nodes, without those inside of branches and loops."""
        return sum([len(part.flow.nodes) for part in self._parts])

    @functools.cached_property
    def lasting(self) -> Sequence[str]:
        """The names of its operations whose effects cannot be undone."""
        return lasting(self._parts)

    @functools.cached_property
    def handed_over(self) -> Sequence[str]:
        """The names of its operations with takes and puts that a step can give back."""
        return handed_over(self._parts)

    def known(self, variant: Variant) -> Programs | None:
        """Its programs for such runs, if they were made and are still valid.

        They hold variables and queues, and are made anew once such were dropped.
        """
        drops, programs = self._programs.get(variant, (-1, None))
        return programs if drops == self._state.resources.drops else None

    def programs(self, variant: Variant) -> Programs:
        """Return its programs for runs of this variant, made now if they are missing."""
        return self.known(variant) or self._made(variant)

    async def ready(self, variant: Variant) -> Programs:
        """The same; if making them takes long, they are made on a compute thread."""
        found = self.known(variant)
        if found is not None or not self._is_long:
            return found or self._made(variant)
        return await plan_on(self._state.compute, functools.partial(self._made, variant))

    def _made(self, variant: Variant) -> Programs:
        drops = self._state.resources.drops
        made = self._state.plans.assembled(self._parts, variant, self._memo, self._key)
        self._programs[variant] = drops, made
        return made

    @functools.cached_property
    def _is_long(self) -> bool:
        nodes = [inner for part in self._parts for node in part.flow.nodes for inner in node.everything()]
        return sum([1 + BODY_WORK * len(node.blocks) for node in nodes]) > LONG_PLAN


class WorkerSession:
    """The state of a session in a worker.

    A master that has lost any task makes the session anew on all of them. On those that it did not lose, steps that
    began before may still be under way to their shares: these find the graphs of the session `before`.
    """

    def __init__(self, owner: Requester | None, counts: str, before: "WorkerSession | None" = None) -> None:
        self.owner: Final = owner
        self.counts: Final = counts
        """The name under which the runs of operations are counted."""
        self.graphs: Final[dict[int, Registered]] = {}
        self._before: dict[int, Registered] = {}
        if before is not None and before.owner is owner:
            self._before = before.graphs or before._before  # no step has registered a graph in between
        self.light: Step | None = None
        """The step that all of its light runs are, one after the other."""

    def graph(self, number: int) -> Registered | None:
        """Return a graph; None if it is not registered."""
        return self.graphs.get(number) or self._before.get(number)

    def forget(self, number: int) -> None:
        """Forget a graph."""
        self.graphs.pop(number, None)
        self._before.pop(number, None)

    def forget_before(self) -> None:
        """Forget the graphs of the session before, which may hold memory of dropped variables."""
        self._before = {}


class WorkerStep:
    """The state of a step in a worker. Requests of other tasks may create it before the step begins."""

    def __init__(self, rendezvous: RemoteRendezvous) -> None:
        self.rendezvous: Final = rendezvous
        self.owner: Requester | None = None
        self.step: Step | None = None
        self.undo: Undo = Undo()
        """Undoes its changes on this task, after it has run."""
        self.handover: Handover = Handover()
        """The handover of its takes and puts, once it has run; the master reports when to settle it."""
        self.only_puts = False
        """Whether it takes nothing on any task, so that the loss of the master undoes nothing once it has run."""
        self.senders: Senders = {}
        self.pushers: Final[set[Requester]] = set()
        """The tasks that push values."""
        self.begun = False
        """Whether the step has begun here, or never will."""
        self.early = 0
        """Bytes that came unasked before it began here."""
        self.ahead = 0
        """Bytes that came unasked since; received ones are subtracted now and then."""
        self.asking = 0

    @property
    def held(self) -> Handover:
        """The handover of its takes and puts so far."""
        return self.handover if self.step is None else self.step.handover

    @property
    def stays(self) -> bool:
        """Whether it has run, and keeps its takes and puts if the master is lost."""
        return bool(self.handover) and (self.only_puts or self.handover.is_committed)


def _specs(parts: Sequence[Part]) -> list[tuple[str, Spec]]:
    found = {index: feed for part in parts for index, feed in zip(part.feeds, part.flow.feeds, strict=True)}
    return [(found[index].name, found[index].output_specs[0]) for index in sorted(found)]


def is_lost(peer: Requester | None) -> bool:
    """Whether the peer was connected and is lost."""
    return peer is not None and peer.end is not None


def is_same(peer: Requester | None, other: Requester | None) -> bool:
    """Whether both are connections to one process; None is this one."""
    if peer is None or other is None:
        return peer is other
    return peer.remote == other.remote
