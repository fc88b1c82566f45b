"""Prune, order, simplify, dedupe, fold, verify."""

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.state import variables
from aioflow.plan.passes.flow import Flow, Node, Value, every_node, verify
from aioflow.plan.passes.optimise import dedupe, fold, optimise, simplify
from aioflow.plan.passes.order import order
from aioflow.plan.passes.prune import prune


def flow_of(*fetches, feeds=(), targets=()):
    return verify(prune(feeds, fetches, targets))


def types(flow: Flow) -> list[str]:
    return [node.definition.name for node in flow.nodes]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_every_node_comes_after_all_that_it_keeps_alive():
    x = af.placeholder(af.float32, [])

    def body(i, y):
        return i + 1, af.cond(y > 0.0, lambda: af.tanh(y), lambda: af.exp(af.exp(y)))

    flow = flow_of(af.exp(af.while_loop(lambda i, _: i < 3, body, [0, x])[1]))
    places = {node: place for place, node in enumerate(every_node(flow.nodes))}
    assert len(places) == sum(len(list(node.everything())) for node in flow.nodes)
    for node, place in places.items():
        kept = [*[source for source, _ in node.inputs], *[each for block in node.blocks for each in block.flow.nodes]]
        assert all(places[each] < place for each in kept)


def test_pruning_keeps_only_what_the_fetches_need():
    x = af.placeholder(af.float32, [])
    wanted = af.tanh(x)
    af.exp(x)
    assert types(flow_of(wanted)) == ["placeholder", "tanh"]


def test_a_fed_tensor_hides_what_computes_it():
    x = af.placeholder(af.float32, [])
    middle = af.tanh(x)
    assert types(flow_of(af.exp(middle), feeds=[middle])) == ["feed", "exp"]


def test_a_control_edge_from_a_fed_placeholder_is_dropped_and_from_a_fed_op_kept():
    x = af.placeholder(af.float32, [])
    middle = af.tanh(x)
    with af.control_dependencies([x]):
        after_placeholder = af.no_op()
    with af.control_dependencies([middle]):
        after_tanh = af.no_op()
    assert types(flow_of(targets=[after_placeholder], feeds=[x])) == ["feed", "no_op"]
    assert "tanh" in types(flow_of(targets=[after_tanh], feeds=[x, middle]))


def test_equal_nodes_are_merged_whatever_the_order_of_commuting_inputs():
    x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    flow = dedupe(flow_of(af.add(x, y), af.add(y, x), af.subtract(x, y), af.subtract(y, x)))
    assert sorted(types(flow)) == ["add", "placeholder", "placeholder", "subtract", "subtract"]


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, 1.0), (True, 1), (np.float32(1), np.float64(1))])
def test_constants_that_can_be_told_apart_are_not_merged(a, b):
    x, y = af.constant(a), af.constant(b)
    assert types(dedupe(flow_of(x, y))) == ["constant", "constant"]


def test_nodes_whose_attributes_can_be_told_apart_are_not_merged():
    x = af.placeholder(af.float32, [])
    found = types(dedupe(flow_of(*[af.nn.leaky_relu(x, alpha) for alpha in (0.0, -0.0, 0.5)])))
    assert found.count("leaky_relu") == 3


def test_equal_nodes_that_wait_for_different_ones_are_not_merged():
    x, variable = af.placeholder(af.float32, []), af.Variable(1.0)
    before = af.tanh(x)
    with af.control_dependencies([variable.assign(5.0)]):
        after = af.tanh(x)
    found = types(dedupe(flow_of(before, after)))
    assert (found.count("tanh"), found.count("assign_variable")) == (2, 1)


def test_state_and_random_numbers_are_never_merged():
    variable = af.Variable(1.0)
    reads = [variable.read_value(), variable.read_value()]
    draws = [af.random_uniform([2], seed=1), af.random_uniform([2], seed=1)]
    found = types(dedupe(flow_of(*reads, *draws)))
    assert found.count("read_variable") == 2
    assert found.count("random_uniform") == 2


def test_a_factor_of_one_that_waits_for_something_is_waited_for():
    x = af.placeholder(af.float32, [])
    with af.control_dependencies([af.no_op()]):
        one = af.constant(1.0)
    assert "multiply" in types(simplify(flow_of(x * one)))
    assert "multiply" not in types(simplify(flow_of(x * af.constant(1.0))))


def test_what_depends_on_constants_alone_is_computed_while_planning():
    flow = fold(flow_of(af.constant(2.0) * 3.0 + 1.0))
    assert types(flow) == ["constant"]
    assert flow.nodes[0].attrs["value"] == 7.0


def test_the_shape_of_a_tensor_of_known_sizes_is_folded_though_its_value_is_open():
    x = af.placeholder(af.float32, [2, 3])
    assert types(fold(flow_of(af.shape(x)))) == ["constant"]


def test_folding_keeps_control_edges_of_what_it_replaces():
    variable = af.Variable(1.0)
    with af.control_dependencies([variable.assign(5.0)]):
        held = af.constant(2.0) * 3.0
    assert "assign_variable" in types(fold(flow_of(held)))


def test_what_fails_while_folding_is_left_for_the_run_to_report():
    bad = af.floordiv(af.constant(1), af.constant(0))
    assert "floordiv" in types(fold(flow_of(bad)))


def test_large_results_are_not_folded():
    assert "fill" in types(fold(flow_of(af.fill([3000, 1000], 1.0))))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x * 1.0,
        lambda x: 1.0 * x,
        lambda x: x - 0.0,
        lambda x: x / 1.0,
        lambda x: af.negative(af.negative(x)),
        lambda x: af.identity(x),
        lambda x: af.stop_gradient(x),
        lambda x: x**1.0,
    ],
)
def test_expressions_that_change_nothing_are_removed(build):
    x = af.placeholder(af.float32, [None, 3])
    assert types(simplify(flow_of(build(x)))) == ["placeholder"]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x * np.ones((2, 1), np.float32),
        lambda x: x * np.ones((1, 1), np.float32),
        lambda x: x + 0.0,  # -0.0 + 0.0 is 0.0
        lambda x: x - np.float32(-0.0),
    ],
)
def test_an_expression_that_broadcasts_or_may_change_a_sign_is_kept(build):
    x = af.placeholder(af.float32, [3])
    assert len(types(simplify(flow_of(build(x))))) > 1


def test_an_identity_pinned_to_another_device_is_a_copy_and_stays():
    x = af.placeholder(af.float32, [])
    with af.device("/device:GPU:0"):
        copy = af.identity(x)
    assert "identity" in types(simplify(flow_of(copy)))


def test_an_update_waits_for_the_reads_built_before_it_and_later_reads_wait_for_it():
    variable = af.Variable(1.0)
    early = variable.read_value()
    update = variable.assign(2.0)
    late = variable.read_value()
    flow = order(flow_of(early, late, targets=[update.op]))
    by_name = {node.name: node for node in flow.nodes}
    assert by_name[early.op.name] in by_name[update.op.name].controls
    assert by_name[update.op.name] in by_name[late.op.name].controls


def test_two_handles_of_one_shared_name_are_one_variable_to_the_order():
    first = af.Variable(1.0, name="a")
    handles = [variables.variable(af.float32, [], shared_name="s") for _ in range(2)]
    write = variables.assign_variable(handles[0], 1.0)
    read = variables.read_variable(handles[1])
    flow = order(flow_of(read, targets=[write.op]))
    assert [node.name for node in flow.nodes if node.controls] == [read.op.name]
    assert first is not None


def test_an_illegal_flow_is_named():
    x = af.placeholder(af.float32, [])
    y = af.tanh(x)
    flow = flow_of(y)
    with pytest.raises(af.errors.InternalError, match="'tanh'"):
        verify(Flow(list(reversed(flow.nodes)), flow.feeds, flow.fetches, flow.targets))
    stray = Node(y.op, y.op.definition, "stray", (Value(flow.nodes[0], 3),), (), {}, [y.spec])
    with pytest.raises(af.errors.InternalError, match="has no output 3"):
        verify(Flow([*flow.nodes, stray], flow.feeds, flow.fetches, flow.targets))


def test_optimising_changes_no_value_and_leaves_a_legal_flow():
    x = af.placeholder(af.float32, [None, 2])
    y = (af.identity(x) * 1.0 + x) * (x + x) - (x + x)
    flow = verify(optimise(flow_of(y)))
    assert types(flow) == ["placeholder", "add", "multiply", "subtract"]
