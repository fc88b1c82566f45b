"""The wait-for graph as data: its stuck waiters, its cycles, and the waiters that cause a delay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.runtime.wait_graph import Promise, Waiter, WaitGraph

STEPS = {f":{number}": number for number in range(1, 50)}


def waiter(step, needs="", op_type="queue_dequeue", computes=False):
    what = f"have {needs}" if needs else ""
    return Waiter(f":{step}", f"op{step}", op_type, "file.py:1", "cpu", what, needs, computes, "")


def graph(needs, promises, served=()):
    """A graph in which waiter i needs needs[i]. A promise is its event and the numbers of the waiters before it."""
    waiters = [waiter(place + 1, event) for place, event in enumerate(needs)]
    made = [Promise(event, f":{40 + n}", f"promise{n}", tuple(before)) for n, (event, before) in enumerate(promises)]
    return WaitGraph(waiters, made, dict(served))


def members(found):
    return [{edge.step for edge in cycle.edges} for cycle in found.cycles(STEPS)]


@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_waiters_that_wait_for_each_other_are_one_cycle_in_order(count):
    numbers = {f":{number}": number for number in range(1, count + 1)}
    found = graph([f"e{place}" for place in range(count)], [(f"e{n}", [(n + 1) % count]) for n in range(count)])
    (cycle,) = found.cycles(numbers)
    assert [edge.step for edge in cycle.edges] == list(range(1, count + 1))
    assert "deadlock" in str(cycle)
    assert str(cycle).count("file.py:1") == count


@pytest.mark.parametrize(
    ("needs", "promises", "served"),
    [
        (["a", ""], [("a", [1])], {}),  # a computing waiter ends by itself
        (["a", "b"], [("a", [1])], {}),  # no promise of b is known: the application may serve it
        (["a", "b"], [("a", [1]), ("b", [0]), ("b", [])], {}),  # a promise of b waits for nothing
        (["a", "b"], [("a", [1]), ("b", [0])], {"b": [""]}),  # the application has served b before
        (
            ["a", "b"],
            [("a", [1]), ("b", [0])],
            {"b": ["promise1", "another"]},
        ),  # another operation, which may run again, has served b
        (["a", "b", ""], [("a", [1]), ("b", [0]), ("a", [2])], {}),  # one of two promises can be kept
        (["a", "b", "c"], [("a", [1]), ("b", [2])], {}),  # a chain
    ],
)
def test_a_waiter_that_may_continue_is_in_no_cycle(needs, promises, served):
    assert members(graph(needs, promises, served)) == []


def test_a_waiter_for_a_cycle_is_not_in_it():
    found = graph(["a", "b", "a", "c"], [("a", [1]), ("b", [0]), ("c", [2])])
    assert members(found) == [{1, 2}]


def test_a_stuck_operation_that_served_before_breaks_no_cycle():
    assert members(graph(["a", "b"], [("a", [1]), ("b", [0])], {"a": ["promise0"], "b": ["promise1"]})) == [{1, 2}]


def test_two_cycles_are_found_each_by_its_shortest_path():
    found = graph(["a", "b", "c", "d", "e"], [("a", [1]), ("b", [2]), ("c", [0]), ("b", [0]), ("d", [4]), ("e", [3])])
    assert sorted(map(sorted, members(found))) == [[1, 2], [4, 5]]


def test_graphs_of_several_tasks_are_joined_by_their_events():
    one, two = graph(["a"], [("b", [0])]), graph(["b"], [("a", [0])])
    assert members(one) == members(two) == []
    assert len(WaitGraph.joined([one, two]).cycles(STEPS)) == 1


def test_a_step_of_another_session_has_no_number():
    (cycle,) = graph(["a"], [("a", [0])]).cycles({})
    assert "a step of another session" in str(cycle)


def test_the_cause_of_a_delay_comes_before_its_dependents():
    waiters = [
        waiter(1, "a", "recv"), waiter(1, "r", "keep_variable_lock"), waiter(1, "b"), waiter(2, "c"),
        waiter(3, computes=True), waiter(4, computes=True),
    ]  # fmt: skip
    promises = [Promise("a", ":1", "p", (2,)), Promise("b", ":2", "p", (3,)), Promise("c", ":3", "p", (4,))]
    found = WaitGraph(waiters, promises, {}).culprits(":1")
    assert [(each.key, each.op_type) for each in found] == [
        (":3", "queue_dequeue"), (":2", "queue_dequeue"), (":1", "queue_dequeue"), (":1", "recv"),
        (":1", "keep_variable_lock"),
    ]  # fmt: skip


ROW = [":1", "a", "b", "c", "d", "e", "f", False, "", [4]]
GOOD = [[ROW], [["f", ":1", "p", [0]]], {"f": ["p"]}, {"f": [3]}]


def test_a_graph_is_the_same_after_transfer_from_another_task():
    found = WaitGraph.from_plain(GOOD)
    assert [
        [[*each[:-1], list(each.awaited)] for each in found.waiters],
        [[*each[:3], list(each[3])] for each in found.promises],
        found.served,
        {event: list(iteration) for event, iteration in found.sent.items()},
    ] == GOOD
    assert len(found.cycles({})) == 1


DAMAGED = [
    [], GOOD[:3], [*GOOD, {}], [[[":1"]], [], {}, {}], [[[1, *ROW[1:]]], [], {}, {}],
    [[[*ROW[:6], [], *ROW[7:]]], [], {}, {}], [[[*ROW[:-1], ["4"]]], [], {}, {}], [[[*ROW[:-1], 4]], [], {}, {}],
    *[[GOOD[0], [["f", ":1", "p", [place]]], {}, {}] for place in (1, -1, 0.0, [])],
    [GOOD[0], [[[], ":1", "p", [0]]], {}, {}], [*GOOD[:2], {"f": [[]]}, {}], [*GOOD[:2], {"f": 1}, {}],
    [*GOOD[:3], {"f": 3}], [*GOOD[:3], {"f": ["3"]}], [*GOOD[:3], {3: [3]}],
]  # fmt: skip


@pytest.mark.parametrize("graph", DAMAGED)
def test_a_damaged_graph_is_refused(graph):
    with pytest.raises((ValueError, TypeError)):
        WaitGraph.from_plain(graph)


EVENTS = st.sampled_from(["", "a", "b", "c", "d", "e"])


@given(st.data())
def test_a_cycle_exists_exactly_if_a_waiter_is_stuck_after_all_others_continued(data):
    needs = data.draw(st.lists(EVENTS, min_size=1, max_size=8))
    places = st.lists(st.integers(0, len(needs) - 1), max_size=3)
    promises = data.draw(st.lists(st.tuples(EVENTS.filter(bool), places), max_size=10))
    served = data.draw(st.dictionaries(EVENTS.filter(bool), st.just([""]), max_size=1))
    happened = {event for event in needs if event not in {each for each, _ in promises}} | set(served) | {""}
    while new := {event for event, before in promises if all(needs[place] in happened for place in before)} - happened:
        happened |= new
    stuck = {place + 1 for place, event in enumerate(needs) if event not in happened}
    found = graph(needs, promises, served)
    cycles = found.cycles(STEPS)
    assert bool(cycles) == bool(stuck)
    named = [edge.step for cycle in cycles for edge in cycle.edges]
    assert set(named) <= stuck
    for cycle in cycles:
        for edge, following in zip(cycle.edges, cycle.edges[1:] + cycle.edges[:1], strict=True):
            event, before = promises[int(edge.awaited.removeprefix("promise"))]
            assert event == needs[edge.step - 1]
            assert following.step - 1 in before


@pytest.mark.parametrize(("sent", "stuck"), [({}, 2), ({"e0": (3,)}, 2), ({"e0": (4,)}, 0), ({"e1": (0,)}, 2)])
def test_a_value_that_was_sent_and_has_not_arrived_frees_its_receiver(sent, stuck):
    first, second = graph(["e0"], [("e1", [0])]), graph(["e1"], [("e0", [0])])
    waiters = [[each._replace(awaited=(4,)) for each in part.waiters] for part in (first, second)]
    parts = first._replace(waiters=waiters[0]), second._replace(waiters=waiters[1], sent=sent)
    found = WaitGraph.joined(parts).cycles(STEPS | {":41": 41})
    assert sum(len(cycle.edges) for cycle in found) == stuck
