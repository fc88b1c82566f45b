"""The rendezvous of one process: the contract, keys and their text, and a plain model under cancellation."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from aioflow import errors
from aioflow.rendezvous import Edge, LocalRendezvous, number_of
from tests.support.edges import edge, edge_key
from tests.support.machines import PLACES, WaitingMachine
from tests.support.rendezvous_contract import CAUSE, CPU_0, CPU_1, KEY, OTHERS, Ends, RendezvousTests
from tests.support.scale import amount


class TestLocalRendezvous(RendezvousTests):
    @pytest.fixture
    def ends(self):
        table = LocalRendezvous()
        yield Ends(table, table)
        table.close()

    async def test_what_is_there_is_received_without_suspending(self, ends):
        value = object()
        ends.sender.send(KEY, value)
        with pytest.raises(StopIteration) as done:
            ends.receiver.recv(KEY).send(None)
        assert done.value.value is value

    async def test_of_several_keys_whatever_is_there_is_received(self, ends):
        keys = [KEY, OTHERS["edge"], KEY, OTHERS["depth"]]
        for number in range(3):
            ends.sender.send(KEY, number)
        ends.sender.send(OTHERS["depth"], "depth")
        assert await ends.receiver.recv_any(keys) == [(0, 0), (2, 1), (3, "depth")]
        assert await ends.receiver.recv(KEY) == 2

    async def test_of_several_keys_the_first_is_taken_and_of_the_others_what_fits(self, ends):
        keys = [KEY, OTHERS["edge"], OTHERS["depth"], OTHERS["incarnation"]]
        for number, key in enumerate(keys[1:]):
            ends.sender.send(key, number)
        assert await ends.receiver.recv_any(keys, lambda value: value == 2) == [(1, 0), (3, 2)]
        assert await ends.receiver.recv(OTHERS["depth"]) == 1

    async def test_who_waits_for_several_keys_is_told_of_the_first_and_leaves_the_others(self, ends):
        any_of_them = asyncio.ensure_future(ends.receiver.recv_any(list(OTHERS.values())))
        await self.arrive()
        assert {waiting.key for waiting in ends.receiver.waiting} == set(OTHERS.values())
        async with self.receiving(ends, OTHERS["edge"]) as (behind,):
            ends.sender.send(OTHERS["incarnation"], 1)
            assert await any_of_them == [(list(OTHERS).index("incarnation"), 1)]
            ends.sender.send(OTHERS["edge"], 2)
            assert await behind == 2
        assert not ends.receiver.waiting

    async def test_who_waits_for_several_keys_comes_after_those_before_it_in_each(self, ends):
        async with self.receiving(ends, KEY) as (before,):
            any_of_them = asyncio.ensure_future(ends.receiver.recv_any([KEY, OTHERS["edge"]]))
            await self.arrive()
            for number in range(2):
                ends.sender.send(KEY, number)
            assert await before == 0
            assert await any_of_them == [(0, 1)]

    @pytest.mark.parametrize("how", ["abort", "cancel"])
    async def test_who_waits_for_several_keys_takes_nothing_if_it_is_stopped(self, ends, how):
        any_of_them = asyncio.ensure_future(ends.receiver.recv_any([KEY, OTHERS["edge"]]))
        await self.arrive()
        if how == "cancel":
            any_of_them.cancel()
            ends.sender.send(KEY, 5)
        else:
            ends.sender.abort(CAUSE)
        with pytest.raises(asyncio.CancelledError if how == "cancel" else errors.DataLossError):
            await any_of_them
        assert not ends.receiver.waiting
        if how == "cancel":
            assert await ends.receiver.recv(KEY) == 5

    async def test_none_can_be_sent(self, ends):
        ends.sender.send(KEY, None)
        assert await ends.receiver.recv(KEY) is None

    async def test_it_says_how_it_is(self, ends):
        ends.sender.send(KEY, 1)
        async with self.receiving(ends, OTHERS["edge"]):
            assert repr(ends.sender) == "<LocalRendezvous 1 sent, 1 waiting>"
        ends.sender.abort(CAUSE)
        assert repr(ends.sender) == "<LocalRendezvous 0 sent, 0 waiting, ended by DataLossError>"

    async def test_closing_names_a_few_of_many_keys(self, ends):
        for number in range(5):
            ends.sender.send(KEY._replace(iteration=(number,)), number)
        assert len(ends.sender.close()) == 5
        with pytest.raises(errors.CancelledError, match=r"add:0;0, .*add:0;1, .*add:0;2 and 2 more"):
            await ends.receiver.recv(KEY)

    async def test_an_aborted_one_holds_on_to_no_step(self, ends):
        """The traceback of its error leads to whatever ran then."""

        class Step:
            def __init__(self):
                self.rendezvous = ends.sender

            def fail(self):
                raise errors.DataLossError("a cause")

        step = Step()
        gone = weakref.ref(step)
        try:
            step.fail()
        except errors.DataLossError as error:
            ends.sender.abort(error)
        gc.disable()
        try:
            del step
            assert gone() is None
        finally:
            gc.enable()


# Edges and keys

NAMES = st.text("abc/:;_0-9 \n", min_size=1)
NUMBERS, INCARNATIONS = st.integers(0, 10**9 - 1), st.integers(0, 2**64 - 1)


@given(NUMBERS, INCARNATIONS, NUMBERS, INCARNATIONS, NAMES, NAMES)
def test_edges_are_equal_if_their_numbers_and_the_incarnations_of_their_sources_are(
    number, incarnation, other_number, other_incarnation, name, other_name
):
    one = edge(number, CPU_0, CPU_1, incarnation, name=name)
    other = edge(other_number, CPU_0, CPU_1, other_incarnation, name=other_name)
    assert (one == other) is ((number, incarnation) == (other_number, other_incarnation))
    assert one == number_of(incarnation, number)
    assert hash(one) == hash(number_of(incarnation, number))


def test_an_edge_knows_its_way():
    ways = [Edge(f"{way}7 add:0", CPU_0, 31, CPU_1) for way in ("", "!", "&", "!~")]
    assert [(each.number, each.pushed, each.together, each.is_credit) for each in ways] == [
        (7, False, False, False), (7, True, False, False), (7, False, True, False), (7, True, False, True),
    ]  # fmt: skip
    assert {(each.sender, each.receiver) for each in ways} == {("/job:localhost/replica:0/task:0",) * 2}


def test_the_text_of_a_key_has_five_parts():
    assert str(edge_key(5, "/job:a", "/job:b", 31)) == "/job:a;1f;/job:b;5 x:0;"
    assert str(edge_key(5, "/job:a", "/job:b", 31, (3, 1), way="!")) == "/job:a;1f;/job:b;!5 x:0;3:1"


@pytest.mark.parametrize("name", ["", "add:0", "5", "5 ", "5add:0", "!!5 add:0", "-5 add:0", "² add:0", "9" * 5000])
def test_an_edge_whose_name_begins_with_no_number_is_refused(name):
    with pytest.raises(errors.InvalidArgumentError, match="is not the name of an edge") as caught:
        Edge(name, CPU_0, 1, CPU_1)
    assert len(str(caught.value)) < 400


# Against a plain model

SOME_KEYS = st.sampled_from([KEY, OTHERS["iteration"]])


class _Table(LocalRendezvous):
    def release(self):
        self.close()


class Meetings(WaitingMachine):
    """Sends and receives of two keys, cancelled at any moment, against a list per key. Values count up."""

    def __init__(self):
        super().__init__()
        self.values = {KEY: [], OTHERS["iteration"]: []}
        self.number = 0
        self.ended = None

    def make(self):
        return _Table()

    def served(self, entry):
        if self.ended is not None:
            return self.ended
        values = self.values[entry.key]
        return values.pop(0) if values else None

    def given_back(self, entry):
        """All who came later and have not heard yet move up by one value."""
        if self.ended is None:
            later = [other for other in self.unheard if other.key == entry.key]
            values = sorted([entry.outcome, *(other.outcome for other in later), *self.values[entry.key]])
            for other in later:
                other.outcome = values.pop(0)
            self.values[entry.key] = values

    def send(self, key):
        self.live.send(key, self.number)
        self.values[key].append(self.number)
        self.number += 1

    def end(self, kind):
        """Who was told of a value and has not run yet gets the error, too."""
        if self.ended is None:
            self.ended = kind
            for values in self.values.values():
                values.clear()
            for entry in self.unheard:
                entry.outcome = kind
        self.settle()

    @rule(key=SOME_KEYS, count=st.integers(1, 3), cancel=PLACES)
    def send_some(self, key, count, cancel):
        if self.ended is not None:
            with pytest.raises(self.ended):
                self.live.send(key, None)
            return
        for _ in range(count):
            self.send(key)
        self.settle()
        self.cancel_now(cancel)

    @rule(keys=st.lists(SOME_KEYS, min_size=1, max_size=3), cancel=PLACES)
    def receive(self, keys, cancel):
        self.join_all([(self.live.recv(key), {"key": key}) for key in keys], cancel)

    @rule(kind=st.sampled_from([errors.DataLossError, errors.AbortedError]), often=st.integers(0, 9))
    def abort(self, kind, often):
        if not often:
            self.live.abort(kind("over"))
            self.end(kind)

    @rule(often=st.integers(0, 9))
    def close(self, often):
        if not often:
            self.turn()
            assert set(self.live.close()) == {key for key, values in self.values.items() if values}
            self.end(errors.CancelledError)

    @invariant()
    def nothing_is_lost_or_doubled(self):
        if not self.unheard:
            assert self.live.unreceived == sum(map(len, self.values.values()))

    def teardown(self):
        self.turn()
        self.live.close()
        self.end(errors.CancelledError)
        super().teardown()
        assert (self.live.unreceived, self.live.waiting, self.live._receivers) == (0, [], {})


def test_a_rendezvous_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Meetings, settings=settings(max_examples=amount(25, 200), stateful_step_count=40, deadline=None)
    )


async def test_nothing_is_left_after_random_cancels():
    table = LocalRendezvous()
    keys = [KEY._replace(iteration=(number % 10,)) for number in range(300)]
    tasks = [asyncio.create_task(table.recv(key)) for key in keys]
    await asyncio.sleep(0)
    for number, key in enumerate(keys):
        table.send(key, number)
        tasks[number * 7 % 300].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    heard = [value for value in found if not isinstance(value, asyncio.CancelledError)]
    rest = [await table.recv(key) for key in keys[: table.unreceived]] if table.unreceived else []
    assert sorted([*heard, *rest]) == list(range(300))
    assert (table.unreceived, table.waiting) == (0, [])
