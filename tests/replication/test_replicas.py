"""Which gradients make a step: the decision itself, those who wait for it, and what is stored meanwhile."""

import asyncio
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from aioflow import errors
from aioflow.replication.quorum import REPEATED, DenseGradientStore, Quorum, Reason, RowGradientStore, Rows, Ticket
from aioflow.replication.waitable import WaitableQuorum
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Spec, TensorShape
from tests.support.scale import amount
from tests.support.waiting_tasks import waits

# The quorum


def opened(required, total, step=0):
    quorum = Quorum(required, total)
    quorum.open(step)
    for replica in range(total):
        assert quorum.admit(replica) == step
    return quorum


def announced(quorum, *replicas):
    tickets = [quorum.begin(replica, 10) for replica in replicas]
    for ticket in tickets:
        quorum.announce(ticket)
    return tickets


def drops(quorum):
    return [(drop.replica, drop.step, drop.examples, drop.reason) for drop in quorum.dropped()]


def test_the_first_so_many_that_are_announced_make_the_step_in_the_order_of_replicas():
    quorum = opened(2, 3)
    late, second, first = announced(quorum, 2, 0, 1)[::-1]
    assert quorum.lead(0).tickets == (second, first)
    assert drops(quorum) == [(late.replica, 0, 10, Reason.LATE)]


def test_nobody_goes_on_before_the_step_is_finished_and_then_all_know_what_became_of_their_gradient():
    quorum = opened(2, 3)
    tickets = announced(quorum, 0, 1, 2)
    assert [quorum.settle(ticket) for ticket in tickets] == [None] * 3
    assert quorum.admit(2) is None
    quorum.confirm(0, 0)
    quorum.finish(0)
    assert [quorum.settle(ticket) for ticket in tickets] == [True, True, False]
    assert quorum.step == 1


def test_no_step_begins_to_be_applied_while_a_step_boundary_is_held():
    quorum = opened(1, 1)
    quorum.hold(7)
    announced(quorum, 0)
    assert quorum.held(7)
    assert not quorum.held(8)
    assert quorum.lead(0) is None
    quorum.release(7)
    assert quorum.lead(0).step == 0


def test_a_step_boundary_comes_when_the_step_that_is_being_applied_is():
    quorum = opened(1, 1)
    announced(quorum, 0)
    decision = quorum.lead(0)
    quorum.hold(7)
    assert not quorum.held(7)
    assert quorum.lead(0) == decision
    quorum.confirm(0, 0)
    quorum.finish(0)
    assert quorum.held(7)


def test_there_is_no_step_boundary_where_a_step_was_applied_in_part():
    quorum = opened(1, 2)
    announced(quorum, 0)
    quorum.lead(0)
    quorum.hold(7)
    quorum.lose(0)
    assert not quorum.held(7)
    assert quorum.lead(1).step == 0
    with pytest.raises(errors.AbortedError, match="applied in part"):
        quorum.confirm(0, 1)
    with pytest.raises(errors.AbortedError, match="applied in part"):
        quorum.held(7)


async def test_a_hold_ends_with_the_wait_that_it_is():
    live = WaitableQuorum("quorum", opened(1, 1))
    holding = asyncio.ensure_future(live.hold(7))
    await live.held(7)
    with live.changing():
        announced(live.quorum, 0)
    leading = asyncio.ensure_future(live.lead(0))
    await asyncio.sleep(1)
    assert not leading.done()
    holding.cancel()
    assert (await leading).step == 0


def test_a_gradient_of_an_earlier_step_is_dropped():
    quorum = opened(1, 2)
    slow = quorum.begin(1, 7)
    announced(quorum, 0)
    quorum.lead(0)
    quorum.finish(0)
    quorum.announce(slow)
    assert drops(quorum) == [(1, 0, 7, Reason.LATE)]
    assert quorum.settle(slow) is False
    assert announced(quorum, 1) == [Ticket(1, 1, 3)]
    assert quorum.lead(0).step == 1


def test_a_replica_that_repeats_a_step_gives_it_one_gradient():
    quorum = opened(2, 2)
    (first,) = announced(quorum, 0)
    (again,) = announced(quorum, 0)
    assert again.serial == REPEATED
    assert drops(quorum) == [(0, 0, 10, Reason.REPEATED)]
    assert quorum.lead(0) is None
    assert quorum.settle(again) is None
    (other,) = announced(quorum, 1)
    assert quorum.lead(0).tickets == (first, other)


def test_a_gradient_that_was_given_up_is_reported_when_the_replica_begins_another():
    quorum = opened(1, 1)
    given_up = quorum.begin(0, 3)
    (ticket,) = announced(quorum, 0)
    quorum.announce(given_up)
    assert quorum.lead(0).tickets == (ticket,)
    assert drops(quorum) == [(0, 0, 3, Reason.ABANDONED)]


def test_a_step_needs_no_more_gradients_than_there_are_replicas_that_can_give_one():
    quorum = opened(3, 4)
    announced(quorum, 0)
    quorum.begin(1, 5)
    quorum.leave(1)
    quorum.leave(2)
    assert quorum.lead(0) is None
    assert drops(quorum) == [(1, 0, 5, Reason.LOST)]
    quorum.leave(3)
    assert [ticket.replica for ticket in quorum.lead(0).tickets] == [0]


def test_what_a_lost_replica_has_announced_stays_and_does_not_stand_for_another():
    quorum = opened(3, 3)
    announced(quorum, 0)
    quorum.lose(0)
    announced(quorum, 1)
    assert quorum.lead(1) is None
    announced(quorum, 2)
    assert [ticket.replica for ticket in quorum.lead(1).tickets] == [0, 1, 2]


def test_a_replica_that_comes_is_waited_for():
    quorum = opened(None, 1)
    assert quorum.admit(5) == 0
    announced(quorum, 0)
    assert quorum.lead(0) is None
    announced(quorum, 5)
    assert [ticket.replica for ticket in quorum.lead(0).tickets] == [0, 5]
    assert quorum.members == [0, 5]


def test_one_leads_until_it_is_gone():
    quorum = opened(2, 2)
    announced(quorum, 0, 1)
    decision = quorum.lead(1)
    assert quorum.lead(0) is None
    assert quorum.lead(1) == decision
    quorum.lose(1)
    assert quorum.lead(0) == decision


def test_a_leader_that_leaves_applies_its_step_first_and_leads_no_more():
    quorum = opened(2, 2)
    announced(quorum, 0, 1)
    quorum.lead(1)
    quorum.leave(1)
    assert quorum.lead(0) is None
    quorum.finish(0)
    quorum.admit(0)
    announced(quorum, 0)
    assert quorum.lead(0).step == 1
    with pytest.raises(errors.OutOfRangeError, match="replica 1 has left"):
        quorum.lead(1)


def test_a_step_that_was_applied_in_part_is_not_applied_again_and_training_does_not_go_on_from_it():
    quorum = opened(1, 1)
    announced(quorum, 0)
    quorum.lead(0)
    quorum.confirm(0, 0)
    with pytest.raises(errors.AbortedError, match="step 0 was applied in part"):
        quorum.confirm(0, 1)
    for ask in (lambda: quorum.lead(0), lambda: quorum.admit(0), lambda: quorum.begin(0, 1), lambda: quorum.open(1)):
        with pytest.raises(errors.AbortedError, match="restore the variables"):
            ask()
    quorum.open(0)
    assert quorum.admit(0) == 0


def test_who_waits_for_a_step_that_nobody_is_there_to_apply_is_told_why():
    quorum = opened(2, 2)
    ticket, _ = announced(quorum, 0, 1)
    quorum.lead(1)
    quorum.fail(0, "it does not lead")
    quorum.fail(1, "no disk")
    quorum.lose(1)
    assert quorum.settle(ticket) is None
    quorum.leave(0)
    with pytest.raises(errors.AbortedError, match=r"step 0 cannot be applied: no replica is left \(no disk"):
        quorum.settle(ticket)
    quorum.admit(0)
    quorum.join(0)
    assert quorum.settle(ticket) is None
    with pytest.raises(errors.AbortedError, match=r"did not finish \(no disk\): restore"):
        quorum.confirm(0, 1)


def test_a_leader_that_leaves_in_good_order_may_wait_for_the_step_that_it_applies():
    quorum = opened(1, 1)
    (ticket,) = announced(quorum, 0)
    quorum.lead(0)
    quorum.leave(0)
    assert quorum.settle(ticket) is None
    quorum.finish(0)
    assert quorum.settle(ticket) is True


def test_a_global_step_that_somebody_else_changes_is_an_error():
    quorum = opened(1, 1)
    announced(quorum, 0)
    with pytest.raises(errors.AbortedError, match="the global step is 7"):
        quorum.confirm(0, 7)


def test_opening_anew_drops_what_was_there_and_who_was_about_it_goes_on_from_there():
    quorum = opened(2, 2, step=5)
    waiting, computing = *announced(quorum, 0), quorum.begin(1, 4)
    quorum.open(3)
    quorum.announce(computing)
    assert drops(quorum) == [(0, 5, 10, Reason.RESET), (1, 5, 4, Reason.RESET)]
    assert [quorum.settle(ticket) for ticket in (waiting, computing)] == [False, False]
    with pytest.raises(errors.AbortedError, match="applied too late"):
        quorum.finish(5)
    announced(quorum, 0, 1)
    assert quorum.lead(0).step == 3


def test_who_was_admitted_before_training_was_opened_anew_may_have_read_other_values():
    quorum = opened(1, 1)
    quorum.open(0)
    (ticket,) = announced(quorum, 0)
    assert drops(quorum) == [(0, -1, 10, Reason.RESET)]
    assert quorum.settle(ticket) is False
    assert announced(quorum, 0)[0].step == 0
    assert quorum.lead(0) is not None


def test_nobody_begins_before_being_admitted():
    quorum = Quorum(1, 1)
    assert quorum.admit(0) is None
    quorum.open(0)
    with pytest.raises(errors.FailedPreconditionError, match=r"replica 0 .* local_step_init_op"):
        quorum.begin(0, 1)


class Steps(RuleBasedStateMachine):
    """Replicas come, go, die and repeat; every gradient is in one step or dropped once, and no step hangs."""

    def __init__(self):
        super().__init__()
        self.quorum = Quorum(2, 3)
        self.quorum.open(0)
        self.there = set(range(3))
        self.computing, self.all, self.used = {}, [], []

    @rule(replica=st.integers(0, 3))
    def begin(self, replica):
        if self.quorum.admit(replica) is None:
            return
        self.there.add(replica)
        self.computing[replica] = self.quorum.begin(replica, len(self.all) + 1)
        self.all.append(self.computing[replica])

    @rule(replica=st.integers(0, 3))
    def announce(self, replica):
        ticket = self.computing.pop(replica, None)
        if ticket is not None:
            self.quorum.announce(ticket)

    @rule(replica=st.integers(0, 3), lost=st.booleans())
    def go(self, replica, lost):
        self.there.discard(replica)
        (self.quorum.lose if lost else self.quorum.leave)(replica)

    @rule(replica=st.integers(0, 3))
    def apply(self, replica):
        try:
            decision = self.quorum.lead(replica)
        except errors.OutOfRangeError:
            return
        if decision is not None:
            replicas = [ticket.replica for ticket in decision.tickets]
            assert replicas == sorted(set(replicas))
            assert {ticket.step for ticket in decision.tickets} == {decision.step} == {self.quorum.step}
            assert len(decision.tickets) <= 2
            self.used += decision.tickets
            self.quorum.finish(decision.step)
            assert all(self.quorum.settle(ticket) for ticket in decision.tickets)

    @rule()
    @precondition(lambda self: self.quorum.step < 3)
    def open(self):
        self.quorum.lose(0)  # whoever led
        self.there.discard(0)
        self.quorum.open(self.quorum.step)

    @invariant()
    def nothing_is_lost(self):
        pending = {*self.computing.values(), *[ticket for ticket, _ in self.quorum._announced.values()]}
        numbers = [drop.examples for drop in self.quorum.dropped()]
        assert len(numbers) == len(set(numbers))
        gone = {self.all[number - 1] for number in numbers}
        assert set(self.all) == gone | set(self.used) | pending
        assert not gone & set(self.used)

    @invariant()
    def no_step_waits_for_who_is_gone(self):
        ready = set(self.quorum._announced)
        if ready and not (self.there - ready):
            assert self.quorum._decision is not None


def test_every_gradient_is_in_one_step_or_dropped_once_and_no_step_waits_for_who_is_gone():
    run_state_machine_as_test(Steps, settings=settings(max_examples=amount(12, 200)))


# Those who wait for it


async def test_replicas_wait_for_the_step_and_nobody_behind_another():
    live = WaitableQuorum("tested", Quorum(2, 3))
    admitted = await waits(live.admit(0))
    with live.changing():
        live.quorum.open(4)
    assert await admitted == 4
    assert await live.admit(1) == await live.admit(2) == 4
    with live.changing():
        tickets = announced(live.quorum, 0, 2)
    settled = [await waits(live.settle(ticket)) for ticket in tickets]
    decision = await live.lead(1)
    assert decision.tickets == tuple(tickets)
    standby = await waits(live.lead(0))
    with live.changing():
        live.quorum.finish(4)
    assert [await each for each in settled] == [(5, True), (5, True)]
    live.leave(0)
    with pytest.raises(errors.OutOfRangeError):
        await standby


async def test_a_replica_is_there_as_long_as_its_presence_lasts():
    live = WaitableQuorum("tested", Quorum(None, 2))
    with live.changing():
        live.quorum.open(0)
    await asyncio.gather(live.admit(0), live.admit(1))
    present = await waits(live.present(1))
    with live.changing():
        announced(live.quorum, 0)
    leads = await waits(live.lead(0))
    present.cancel()
    assert [ticket.replica for ticket in (await leads).tickets] == [0]
    assert live.quorum.members == [0]


async def test_a_replica_that_is_begun_twice_is_there_once():
    live = WaitableQuorum("tested", Quorum(None, 2))
    first, second = await waits(live.present(1)), await waits(live.present(1))
    with live.changing():
        live.quorum.open(0)
    with pytest.raises(errors.AbortedError, match="replica 1 is now present elsewhere"):
        await first
    assert live.quorum.members == [0, 1]
    second.cancel()
    await asyncio.wait((second,))
    assert live.quorum.members == [0]


async def test_all_who_wait_hear_that_a_step_was_applied_in_part():
    live = WaitableQuorum("tested", Quorum(1, 2))
    with live.changing():
        live.quorum.open(0)
    await live.admit(0)
    with live.changing():
        (ticket,) = announced(live.quorum, 0)
    await live.lead(0)
    waiting = [await waits(live.settle(ticket)), await waits(live.lead(1))]
    with pytest.raises(errors.AbortedError), live.changing():
        live.quorum.confirm(0, 1)
    for each in waiting:
        with pytest.raises(errors.AbortedError, match="restore the variables"):
            await each


async def test_who_waits_when_the_container_is_reset_is_told():
    live = WaitableQuorum("tested", Quorum(1, 1))
    waiting = [await waits(live.admit(0)), await waits(live.present(0))]
    live.release()
    for each in waiting:
        with pytest.raises(errors.CancelledError, match="'tested' is gone"):
            await each


# What is stored


def spec(dtype, *sizes):
    return Spec(dtype, TensorShape(sizes))


def stored(shares, *gradients, step=0):
    tickets = [Ticket(replica, step, 100 + replica) for replica in range(len(gradients))]
    for ticket, gradient in zip(tickets, gradients, strict=True):
        shares.put(ticket, lambda gradient=gradient: gradient)
    return [(ticket.replica, ticket.serial) for ticket in tickets]


def test_gradients_are_added_in_the_order_of_replicas_whoever_came_first():
    draw = np.random.default_rng(0)
    gradients = draw.normal(size=(5, 1000)).astype(np.float32)
    expected = ((((gradients[0] + gradients[1]) + gradients[2]) + gradients[3]) + gradients[4]) / np.float32(5)
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 7):
        shares = DenseGradientStore("tested", spec(dtypes.float32, 1000))
        for replica in order:
            shares.put(Ticket(replica, 0, 50 - replica), lambda replica=replica: gradients[replica])
        found = shares.mean(shares.take(0, [(replica, 50 - replica) for replica in range(5)]))
        np.testing.assert_array_equal(found, expected)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e3, 1e3, width=32)), max_size=6), min_size=1))
def test_rows_are_added_as_one_process_does_that_has_all_of_them(gradients):
    rows = [
        Rows(np.array([row for row, _ in each], np.int64), np.array([[value] for _, value in each], np.float32))
        for each in [*gradients, [(2, 1.0)]]
    ]
    rows = [each._replace(values=each.values.reshape(-1, 1)) for each in rows]
    expected = np.zeros((6, 1), np.float32)
    for each in rows:
        for row, value in zip(each.indices, each.values, strict=True):
            expected[row] += value
    found = RowGradientStore("tested", spec(dtypes.float32, 6, 1)).mean(rows)
    assert sorted({row for each in rows for row in each.indices}) == found.indices.tolist()
    np.testing.assert_array_equal(found.values, (expected / np.float32(len(rows)))[found.indices])


def test_narrow_floats_are_added_as_float32():
    shares = DenseGradientStore("tested", spec(dtypes.float16, 1))
    gradients = [np.array([2048.0], np.float16), np.array([1.0], np.float16), np.array([1.0], np.float16)]
    assert shares.mean(gradients).tolist() == [np.float16(2050 / 3)]


def test_of_each_replica_one_gradient_is_kept_and_none_that_no_step_wants():
    shares = DenseGradientStore("tested", spec(dtypes.float32))
    one, two = np.float32(1), np.float32(2)
    shares.put(Ticket(0, 3, 1), lambda: one)
    shares.put(Ticket(0, 3, 2), lambda: two)
    shares.put(Ticket(0, 3, 1), lambda: one)
    shares.put(Ticket(0, 3, REPEATED), lambda: one)
    assert shares.stored == [Ticket(0, 3, 2)]
    shares.put(Ticket(1, 4, 3), lambda: one)
    assert shares.take(3, [(0, 2)]) == [two]
    shares.put(Ticket(2, 3, 9), lambda: pytest.fail("it is made, and nobody wants it"))
    assert shares.stored == [Ticket(1, 4, 3)]
    shares.reset()
    assert shares.stored == []


def test_what_is_not_there_is_not_taken_and_nothing_is_taken_twice():
    shares = DenseGradientStore("tested", spec(dtypes.float32))
    (ticket,) = stored(shares, np.float32(1), step=2)
    with pytest.raises(errors.AbortedError, match=r"'tested' of step 2 of replicas \[4\] are missing"):
        shares.take(2, [ticket, (4, 7)])
    assert shares.take(2, [ticket]) == [np.float32(1)]
    with pytest.raises(errors.AbortedError, match="taken before"):
        shares.take(2, [ticket])


@pytest.mark.parametrize(
    ("shares", "gradient", "what"),
    [
        (DenseGradientStore("tested", spec(dtypes.float32, 3)), np.zeros(4), r"shape \[3\], not \[4\]"),
        (DenseGradientStore("tested", spec(dtypes.float32, 3)), np.zeros(()), r"shape \[3\], not \[\]"),
        (DenseGradientStore("tested", spec(dtypes.float32, 3)), np.zeros((1, 3)), r"shape \[3\], not \[1, 3\]"),
        (
            RowGradientStore("tested", spec(dtypes.float32, 4, 2)),
            Rows(np.array([1, 4]), np.zeros((2, 2))),
            "index 4 is out",
        ),
        (
            RowGradientStore("tested", spec(dtypes.float32, 4, 2)),
            Rows(np.array([-1]), np.zeros((1, 2))),
            "index -1 is out",
        ),
        (
            RowGradientStore("tested", spec(dtypes.float32, None, 2)),
            Rows(np.array([-9]), np.zeros((1, 2))),
            "index -9 is out",
        ),
        (
            RowGradientStore("tested", spec(dtypes.float32, 4, 2)),
            Rows(np.array([1]), np.zeros((2, 2))),
            r"1 rows .* \[1, 2\]",
        ),
    ],
)
def test_a_gradient_that_does_not_fit_the_variable_is_not_stored(shares, gradient, what):
    with pytest.raises(errors.InvalidArgumentError, match=what):
        shares.put(Ticket(0, 0, 1), lambda: gradient)
    assert shares.stored == []


def test_a_gradient_fits_a_variable_of_which_less_is_known():
    dense, rows = (
        DenseGradientStore("tested", Spec(dtypes.float32)),
        RowGradientStore("tested", spec(dtypes.float32, None, None)),
    )
    dense.put(Ticket(0, 0, 1), lambda: np.zeros(4))
    rows.put(Ticket(0, 0, 1), lambda: Rows(np.array([1 << 40]), np.zeros((1, 2))))
    assert dense.stored == rows.stored == [Ticket(0, 0, 1)]
