"""Calls with objects that stand for several tensors run the rules of their class."""

import pytest

import aioflow as af
from aioflow.graph.composed import Composed, composed_in, dispatching, key_of
from aioflow.kernels.array.shapes import rank
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.lazy import Registry


class Pair(Composed):
    """Two tensors."""

    rules = Registry()

    def __init__(self, one, other):
        self.one, self.other = one, other

    @property
    def graph(self):
        return self.one.graph


@dispatching
def joined(values, separator="", name=None):
    """What a function does with tensors."""
    return "tensors"


Pair.rules[key_of(joined)] = lambda values, separator="", name=None: ("rule", separator, name)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def pair():
    return Pair(af.constant(1), af.constant(2))


def test_a_function_runs_the_rule_for_an_argument_or_an_item_of_a_list(pair):
    assert joined([af.constant(1)]) == "tensors"
    assert joined(pair, "-") == joined(values=[1, pair], separator="-") == ("rule", "-", None)
    assert joined.__doc__ == "What a function does with tensors."
    assert composed_in([1, [2, pair]]) is pair
    assert composed_in([1, {"a": pair}]) is None


def test_an_op_runs_the_rule_in_the_graph_of_the_object_and_in_a_scope(pair, graph):
    rank.of(Pair)(lambda x: x.one + x.other)
    with af.Graph().as_default():
        made = rank(pair, name="places")
    assert (made.graph, made.op.name) == (graph, "places/add")


def test_an_op_or_function_without_a_rule_converts_its_arguments(pair):
    with pytest.raises(TypeError, match="abs: argument 'x'"):
        absolute(pair)
    with pytest.raises(TypeError, match="concat"):
        af.concat([pair, pair], 0)


def test_a_rule_that_fails_leaves_the_graph_as_it_was_and_names_the_line(pair, graph):
    def fails(*args, **kwargs):
        af.constant(3)
        raise ValueError("no such pair")

    Pair.rules[key_of(af.stack)] = fails
    before = len(graph.get_operations())
    with pytest.raises(ValueError, match=r"^stack: no such pair\n  built at: .*test_composed.py"):
        af.stack([pair])
    assert len(graph.get_operations()) == before
