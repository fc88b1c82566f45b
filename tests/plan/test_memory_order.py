"""The order of nodes that takes the least memory, and how much memory is simulated to be taken."""

import numpy as np
import pytest
from hypothesis import given

import aioflow as af
from aioflow.plan.passes import memory_order as passes
from aioflow.plan.passes.flow import Flow, verify
from aioflow.plan.passes.liveness import Liveness, peak
from aioflow.plan.passes.memory_order import memory_order
from aioflow.plan.passes.order import order
from aioflow.plan.passes.prune import prune
from tests.support.doubles import gated, light
from tests.support.graphs import built_graphs
from tests.support.parts import A, World, parts_of

SIZE = 256 * 256 * 4


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def matrix() -> af.Tensor:
    return af.placeholder(af.float32, [256, 256])


def flow_of(*fetches: af.Tensor, targets=(), feeds=()) -> Flow:
    """What is fetched and run, with updates in order; placeholders are fed."""
    graph = af.get_default_graph()
    fed = [op.outputs[0] for op in graph.get_operations() if op.type == "placeholder"]
    return verify(order(prune((*fed, *feeds), fetches, targets)))


def names(flow: Flow) -> list[str]:
    return [node.name for node in flow.nodes]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x: af.tanh(x), 1),
        (lambda x: af.tanh(af.exp(x)), 1),  # written into what it read
        (lambda x: af.matmul(x, af.matmul(x, x)), 2),
        (lambda x: af.reduce_sum(af.transpose(af.exp(x)), axis=1), 1 + 1 / 256),  # a view has no memory of its own
        (lambda x: af.exp(x) + af.matmul(x, x), 2),
        (lambda x: af.identity(x), 0),  # the caller's
        (lambda x: af.constant(np.ones((256, 256), np.float32)), 0),
        (lambda x: af.Variable(np.ones((256, 256), np.float32)).read_value(), 0),
        (lambda x: af.cond(x[0, 0] > 0, lambda: af.matmul(x, af.matmul(x, x)), lambda: af.exp(x)), 2),  # its branch's
    ],
)
def test_the_memory_that_is_simulated_is_what_is_alive_at_a_time(build, expected):
    assert peak(flow_of(build(matrix()))) == pytest.approx(expected * SIZE, abs=64)


def test_a_loop_that_goes_on_as_long_as_a_variable_says_so_has_the_guessed_number_of_iterations():
    flow = flow_of(
        af.while_loop(
            lambda going, rows: going,
            lambda going, rows: (af.reduce_sum(rows.read(0)) < 9.0, rows.write(rows.size(), af.exp(rows.read(0)))),
            [
                af.constant(True),
                af.TensorArray(af.float32, 0, True, False, element_shape=[256, 256]).write(0, matrix()),
            ],
        )[1].size()
    )
    assert peak(flow, guess=20) - peak(flow, guess=10) == pytest.approx(10 * SIZE, abs=640)


def test_what_is_reduced_is_reduced_before_the_next_is_made():
    x = matrix()
    large = [af.matmul(x, af.constant(float(k), shape=[256, 256])) for k in range(16)]
    total = af.add_n([af.reduce_sum(value) for value in large])
    flow = flow_of(total)
    found = verify(memory_order(flow))
    assert peak(flow) >= 16 * SIZE
    assert peak(found) <= 2 * SIZE


def test_what_is_built_early_and_used_late_is_made_late():
    x = matrix()
    masks = [af.matmul(x, x, name=f"mask_{k}") for k in range(8)]
    value = x
    for mask in masks:
        value = af.tanh(af.matmul(value, mask))
    assert peak(memory_order(flow_of(value))) <= 3 * SIZE


def test_gradients_are_applied_as_soon_as_the_variable_is_needed_no_more():
    value = x = matrix()
    for layer in range(8):
        value = af.tanh(af.matmul(value[:4], af.Variable(np.eye(256, dtype=np.float32), name=f"w{layer}")))
    train = af.train.GradientDescentOptimizer(0.1).minimize(af.reduce_sum(value))
    flow = flow_of(targets=[train])
    found = verify(memory_order(flow))
    assert peak(flow) >= 8 * SIZE
    assert peak(found) <= 3 * SIZE
    order = names(found)
    for node in found.nodes:
        if node.definition.name == "apply_gradient_descent":
            reads = [each for each in found.nodes if any(v.node.name == node.inputs[0].node.name for v in each.inputs)]
            users = [each for each in found.nodes if any(v.node in reads for v in each.inputs)]
            assert all(order.index(each.name) <= order.index(node.name) for each in users)
    assert x is not None


def test_small_flows_and_orders_that_are_hardly_better_stay_as_they_are():
    x = matrix()
    chain = flow_of(af.matmul(af.matmul(x, x), x))
    assert memory_order(chain, least=0) is chain
    sums = flow_of(af.add_n([af.reduce_sum(af.exp(x * float(k))) for k in range(3)]))
    assert memory_order(sums, least=3 * SIZE) is sums


def test_effects_that_no_edge_puts_in_order_keep_theirs_and_what_waits_comes_first():
    x = matrix()
    large = [af.matmul(x, af.constant(float(k), shape=[256, 256])) for k in range(16)]
    effects = [light(af.reduce_sum(value), name=f"effect_{15 - k}") for k, value in enumerate(reversed(large))]
    waits = gated(x[0, 0], af.testing.Gate(), name="waits")
    found = memory_order(flow_of(af.add_n([*effects, waits])))
    order = names(found)
    assert [name for name in order if name.startswith("effect")] == [f"effect_{15 - k}" for k in range(16)]
    assert order.index("waits") < order.index("matmul")
    assert peak(found) <= 2 * SIZE


def test_primitives_of_control_flow_keep_their_order():
    x = matrix()
    no, yes = af.switch(x, x[0, 0] > 0)
    large = [af.matmul(no, yes * float(k)) for k in range(8)]
    flow = flow_of(af.add_n([af.reduce_sum(value) for value in large]))
    assert memory_order(flow) is flow


def test_where_sizes_are_open_an_order_is_good_for_small_and_large_ones():
    value = af.placeholder(af.float32, [None, 512])
    for layer in range(12):
        weights = af.Variable(np.zeros((512, 512), np.float32), name=f"w{layer}")
        value = af.nn.relu(af.matmul(value, weights))
    train = af.train.GradientDescentOptimizer(0.1).minimize(af.reduce_sum(value))
    flow = flow_of(targets=[train])
    found = memory_order(flow)
    assert peak(found, guess=32) < peak(flow, guess=32) / 2
    assert peak(found, guess=2048) <= peak(flow, guess=2048)


@given(built_graphs())
async def test_in_another_order_every_value_is_the_same(built):
    wanted = built.tensors[-4:]
    with built.graph.as_default():
        (part,) = parts_of(wanted, list(built.feeds), dict.fromkeys(built.graph.get_operations(), A))
    flow = order(part.flow)
    found = verify(memory_order(flow, least=0))
    values = [list(built.feeds.values())[index] for index in part.feeds]
    expected = await states(built, part, flow, values)
    for one, other in zip(expected, await states(built, part, found, values), strict=True):
        np.testing.assert_array_equal(one, other)


async def states(built, part, flow, values):
    """What is fetched after the variables are initialised, in a world of its own."""
    world = World(lambda *_: 0.0, lambda *_: 0.0)
    with built.graph.as_default():
        init = prune((), (), (built.init,))
    await world.run([part.__class__(A, init, (), ())], {A: init}, 0)
    return await world.run([part], {A: flow}, len(flow.fetches), dict(zip(part.feeds, values, strict=True)))


@pytest.mark.parametrize("least", [0, 4 * SIZE], ids=["ordered", "left as it is"])
def test_the_tables_of_the_search_are_freed_piece_by_piece_before_it_returns(monkeypatch, least):
    """All at once, those of a large flow would hold the loop for tens of milliseconds."""
    made, rows = [], matrix()
    monkeypatch.setattr(passes, "Liveness", lambda *parts: made.append(Liveness(*parts)) or made[-1])
    memory_order(flow_of(af.reduce_sum(af.exp(rows) * 2.0 + af.tanh(rows)), feeds=[rows]), least=least)
    tables = [table for each in made for table in (each.makes, each.reads, each.readers, each.reuses, each.owners)]
    assert tables
    assert not any(tables)
