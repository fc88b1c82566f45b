"""How stale gradients may be: the decision itself, and those who wait for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow import errors
from aioflow.replication.staleness import StalenessBound
from aioflow.replication.waitable import WaitableStalenessBound
from tests.support.waiting_tasks import waits


class Race:
    """Replicas that read, compute and update in any order; who must wait waits."""

    def __init__(self, bound, replicas):
        self.turns = StalenessBound(bound)
        self.states = dict.fromkeys(range(replicas), "reading")
        self.applied = 0
        self.sees = {}
        self.tickets = {}
        self.numbers = {}
        self.stale = {}
        self.largest = 0

    def advance(self, replica):
        """The next thing that the replica does: whether it could be done."""
        match self.states[replica]:
            case "reading":
                if self.turns.read(replica) is None:
                    return False
                self.sees[replica] = self.applied
                self.tickets[replica] = self.turns.begin(replica)
                self.states[replica] = "computing"
            case "computing":
                number = self.turns.apply(replica, self.tickets[replica])
                if number is None:
                    return False
                self.numbers[replica] = number
                self.states[replica] = "allowed"
            case "allowed":
                self.stale[replica] = self.applied - self.sees[replica]
                self.applied += 1
                self.states[replica] = "updated"
            case "updated":
                measured = self.turns.finish(replica, self.numbers[replica])
                assert measured >= self.stale[replica]
                self.largest = max(self.largest, measured)
                self.states[replica] = "reading"
        return True


@given(st.integers(0, 6), st.integers(1, 5), st.lists(st.integers(0, 4), max_size=80), st.randoms())
def test_no_gradient_is_staler_than_the_bound_and_nobody_waits_for_ever(bound, replicas, order, draw):
    race = Race(bound, replicas)
    for replica in order:
        if replica in race.states:
            race.advance(replica)
        if draw.random() < 0.05 and len(race.states) > 1:
            gone = draw.choice(sorted(race.states))
            if race.states[gone] in ("reading", "computing"):
                race.states.pop(gone)
                race.turns.leave(gone)
    for _ in range(4 * len(race.states)):
        moved = [race.advance(replica) for replica in sorted(race.states)]
        assert any(moved), "all wait"
    assert race.largest <= bound


def test_without_a_bound_nobody_waits_and_staleness_is_measured():
    race = Race(None, 2)
    race.advance(1)
    for _ in range(40):
        assert race.advance(0)
    assert [race.advance(1) for _ in range(3)] == [True] * 3
    assert race.largest == 10


def test_whoever_is_too_far_ahead_waits_for_the_slowest():
    race = Race(2, 2)
    race.advance(1)
    steps = [race.advance(0) for _ in range(12)]
    assert steps == [True] * 9 + [False] * 3
    assert [race.advance(1) for _ in range(3)] == [True] * 3
    assert race.advance(0)


def test_who_has_not_read_cannot_begin():
    with pytest.raises(errors.FailedPreconditionError, match=r"replica 3 cannot begin .* local_step_init_op"):
        StalenessBound(1).begin(3)


def test_what_a_replica_has_read_is_good_for_one_gradient():
    turns = StalenessBound(0)
    turns.read(0)
    ticket = turns.begin(0)
    with pytest.raises(errors.FailedPreconditionError, match="one step at a time"):
        turns.begin(0)
    number = turns.apply(0, ticket)
    with pytest.raises(errors.FailedPreconditionError, match="one step at a time"):
        turns.begin(0)
    assert turns.finish(0, number) == 0
    turns.read(0)
    assert turns.begin(0) > ticket


def test_a_run_that_is_still_there_when_its_replica_begins_anew_updates_nothing():
    turns = StalenessBound(0)
    turns.read(0)
    ticket = turns.begin(0)
    turns.read(0)
    again = turns.begin(0)
    with pytest.raises(errors.AbortedError, match="restarted"):
        turns.apply(0, ticket)
    number = turns.apply(0, again)
    turns.read(0)
    later = turns.apply(0, turns.begin(0))
    with pytest.raises(errors.AbortedError, match="restarted"):
        turns.finish(0, number)
    assert turns.finish(0, later) == 0


async def test_who_is_too_far_ahead_goes_on_when_the_slow_one_is_gone():
    live = WaitableStalenessBound("tested", StalenessBound(0))
    slow = await waits(live.present(0))
    await live.read(0)
    ahead = await waits(live.read(1))
    slow.cancel()
    assert await ahead == 0
    assert await live.apply(1, live.turns.begin(1)) == 0
    assert live.turns.finish(1, 0) == 0
    with pytest.raises(errors.AbortedError, match="replica 1 was declared lost"):
        live.turns.finish(1, 0)
