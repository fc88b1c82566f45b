"""The guards of the values of a graph with branches."""

import pytest

import aioflow as af
from aioflow.plan.guards import ALWAYS, Condition, Guards
from aioflow.plan.passes.flow import Value
from aioflow.plan.passes.prune import prune


@pytest.fixture
def found():
    """The nodes of a graph by their names, and their guards."""
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [], name="x")
        test, other = af.greater(x, 0.0, name="test"), af.less(x, 9.0, name="other")
        no, yes = af.switch(x, test)
        minus = af.negative(no, name="minus")
        less, more = af.switch(yes, other)
        inner, _ = af.merge([af.square(less, name="square"), af.exp(more, name="exp")], name="inner")
        outer, _ = af.merge([minus, inner], name="outer")
        odd, _ = af.merge([minus, more], name="odd")
        after = af.identity(odd, name="after")
        flow = prune((x,), (outer, after), ())
    return {node.name: node for node in flow.nodes}, Guards(flow.nodes)


def test_a_side_of_a_branch_has_the_truth_of_its_switch(found):
    nodes, guards = found
    test, other = Value(nodes["test"], 0), Value(nodes["other"], 0)
    assert guards.running[nodes["minus"]] == {Condition(test, False)}
    assert guards.running[nodes["square"]] == {Condition(test, True), Condition(other, False)}
    assert guards.running[nodes["exp"]] == {Condition(test, True), Condition(other, True)}


def test_a_merge_of_opposites_has_the_guard_of_both(found):
    nodes, guards = found
    assert guards.of(Value(nodes["inner"], 0)) == {Condition(Value(nodes["test"], 0), True)}
    assert guards.of(Value(nodes["outer"], 0)) == ALWAYS


def test_another_merge_is_alive_by_chance(found):
    nodes, guards = found
    odd = nodes["odd"]
    assert guards.is_open(odd)
    assert guards.running[odd] == ALWAYS
    assert guards.running[nodes["after"]] == {Condition(Value(odd, 0))}
