"""Deeply nested branches and loops: planned in linear time, run, and named in errors and reports."""

import sys

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.config import RunOptions
from aioflow.graph.subgraph import bodies_of
from aioflow.plan.passes import flow as flows
from aioflow.plan.pipeline import Signature
from aioflow.runtime.plan_cache import LONG_PLAN
from tests.support.scale import amount, some


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def loops(depth, x):
    if not depth:
        return af.tanh(x)
    return af.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, loops(depth - 1, v * 1.01)), [0, x])[1]


def branches(depth, x):
    if not depth:
        return af.tanh(x)
    return af.cond(x > -1e9, lambda: branches(depth - 1, x * 1.01), lambda: x * 2.0)


def maps(depth, x):
    if not depth:
        return af.tanh(x)
    return af.reshape(af.map_fn(lambda row: maps(depth - 1, row * 1.01), af.reshape(x, [1])), [])


def mixed(depth, x):
    """A branch in a loop in a branch ..."""
    if not depth:
        return af.tanh(x)
    if depth % 2:
        return af.cond(x > -1e9, lambda: mixed(depth - 1, x * 1.01), lambda: x * 2.0)
    return af.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, mixed(depth - 1, v * 1.01)), [0, x])[1]


NESTS = [loops, branches, maps, mixed]
DEEP = [pytest.param(depth, marks=pytest.mark.long) for depth in (14, 15, 16, 17, 40)]


@pytest.mark.parametrize(
    "depth", [pytest.param(1, marks=pytest.mark.long), 13, pytest.param(31, marks=pytest.mark.long), *DEEP]
)
@pytest.mark.parametrize("build", NESTS)
async def test_a_nest_of_any_depth_has_the_values_and_gradients_of_a_shallow_graph(build, depth, graph):
    x = af.placeholder(af.float32, [])
    y = build(depth, x)
    (slope,) = af.gradients(y, x)
    values = {}
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            values[executor] = await session.run([y, slope], {x: 0.3})
    scale = 1.01**depth
    value = np.tanh(0.3 * scale)
    for found in values.values():
        np.testing.assert_allclose(found, [value, scale * (1 - value**2)], rtol=1e-5)


class Calls:
    """Counts the calls of Python functions of aioflow."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _called(self, frame, event, _):
        self.count += event == "call" and "aioflow" in frame.f_code.co_filename


def effects(depth, x):
    """Loops that update a variable at each level, and carry an unused value."""
    total = af.Variable(0.0)

    def level(depth, v):
        def step(i, v, unused):
            made = level(depth - 1, v) if depth > 1 else af.tanh(v)
            with af.control_dependencies([total.assign_add(1.0)]):
                return i + 1, made, af.identity(unused + 1.0)

        return af.while_loop(lambda i, *_: i < 1, step, [0, v, 1.0])[1]

    return level(depth, x)


def waits(depth, x):
    """Loops with a waiting operation, so that all of them are lowered."""
    queue = af.FIFOQueue(1, [af.float32], shapes=[[]])

    def level(depth, v):
        inner = (lambda v: level(depth - 1, v)) if depth > 1 else (lambda v: v + queue.dequeue())
        return af.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, inner(v)), [0, v])[1]

    return level(depth, x)


def extent(graph):
    """The number of operations, inputs and outputs in a graph and in its bodies."""
    found, graphs = 0, [graph]
    while graphs:
        for operation in graphs.pop().get_operations():
            found += 1 + len(operation.inputs) + len(operation.outputs)
            graphs += [body.graph for body in bodies_of(operation)]
    return found


def work(build, depth, with_gradient, **config):
    """The calls of functions to plan and compile a nest, per operation and edge."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        y = build(depth, x)
        fetch = af.gradients(y, x)[0] if with_gradient else y
        plans = af.Session(graph=graph, config=af.Config(**config))._engine.state.plans
        signature = Signature((x,), (fetch,), ())
        with Calls() as calls:
            planned = plans.planned(signature)
            plans._assembled(planned.plan, plans.variant(RunOptions()))
        return calls.count / extent(graph)


def planned_flow(session):
    plans = session._engine.state.plans
    return plans.known(plans.signatures[-1]).plan.flow.nodes


CONFIGS = {
    "by default": {},
    "node by node": {"executor": "tokens"},
    "on two devices": {"device_count": {"CPU": 2}},
    "recomputing": {"recompute": True},
}


@pytest.mark.parametrize("config", some(CONFIGS, 1))
@pytest.mark.parametrize(
    ("build", "with_gradient"), [*[(build, True) for build in (*NESTS, effects)], (effects, False), (waits, False)]
)
def test_the_work_of_planning_grows_with_the_operations_and_not_with_the_depth(build, with_gradient, config):
    work(build, 2, with_gradient, **CONFIGS[config])  # fill the caches of the process first
    shallow, deep = [work(build, depth, with_gradient, **CONFIGS[config]) for depth in (5, amount(10, 20))]
    assert deep < 1.3 * shallow


async def test_an_error_deep_inside_names_its_operation_and_all_iterations(graph):
    x = af.placeholder(af.float32, [])

    def nest(depth, v):
        if not depth:
            return af.check_numerics(v, "deep")
        return af.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, nest(depth - 1, v)), [0, v])[1]

    y = nest(33, x)
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="deep") as caught:
            await session.run(y, {x: np.nan})
    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert text.count("in iteration 0 of ") == 33


def test_the_planning_work_of_a_graph_counts_bodies_and_the_operations_in_them(graph):
    def body(i, v):
        for _ in range(LONG_PLAN):
            v = v + 1.0
        return i + 1, v

    before = graph.planning_work
    af.while_loop(lambda i, v: i < 2, body, [0, af.constant(1.0)])
    assert graph.planning_work - before > LONG_PLAN
    before = graph.planning_work
    branches(4, af.placeholder(af.float32, []))
    assert graph.planning_work - before > LONG_PLAN > len(graph.get_operations())


def test_every_node_of_a_deep_nest_is_listed_once(graph, monkeypatch):
    x = af.placeholder(af.float32, [])
    y = branches(40, x)
    monkeypatch.setattr("aioflow.runtime.plan_cache.LONG_PLAN", 1 << 60)
    session = af.Session(graph=graph)
    session.make_callable(y, [x])
    nodes = [inner for node in planned_flow(session) for inner in node.everything()]
    assert len(nodes) == len(set(nodes)) > 80
    assert isinstance(nodes[0], flows.Node)
