"""What never waits becomes one coroutine: names, drops, reused buffers, errors, slices of time."""

import inspect
import re

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.context import Context
from aioflow.plan.passes.flow import Flow, Value
from aioflow.plan.passes.prune import prune
from aioflow.program import assemble as assembling
from aioflow.program.assemble import assemble
from aioflow.program.codegen import Source, compile_region
from aioflow.program.fuse import Bound
from aioflow.resources.containers import Resources

GENERATED = re.compile(
    r"async def region\(ctx(?:, a\d+)*\):"
    r"|    (?:(?:[t]\d+|_)(?:, (?:[t]\d+|_))* = )?k\d+\((?:(?:ctx|[atc]\d+)(?:, )?)*(?:out=[at]\d+(?: if .*)?)?\)"
    r"|    del [at]\d+(?:, [at]\d+)*"
    r"|    if now\(\) > ctx\.due: await pause\(\)"
    r"|    return \((?:[atc]\d+, )*\)"
)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def source_of(*fetches, feeds=()) -> Source:
    flow = prune(feeds, fetches, ())
    context = Context(np, Resources(), None)
    bound = []
    literals = {}
    for node in flow.nodes:
        if node in flow.feeds:
            continue
        kernel = node.definition.kernel_for("CPU", node.input_specs)
        if node.definition.name == "constant":
            literals[Value(node, 0)] = node.attrs["value"]
            continue
        bound.append(Bound(node, kernel, kernel.bind(node.definition, node, context.xp)))
    return Source(bound, [Value(feed, 0) for feed in flow.feeds], list(flow.fetches), literals)


def program_of(*fetches, feeds=(), targets=()):
    flow = prune(feeds, fetches, targets)
    return assemble(flow, Context(np, Resources(), None), fused=True, stream=False)


def test_the_source_holds_generated_names_only_whatever_the_user_wrote(graph):
    hostile = '"""); import os  # '
    x = af.placeholder(af.float32, [None, 2], name="import_os.system")
    y = af.check_numerics(af.tanh(x, name="exec"), hostile)
    z = af.add(y, af.constant([1.0, 2.0], name="__import__"[2:]), name="x.lambda-eval")
    text = source_of(af.reduce_sum(z), z, feeds=[x]).text
    for line in text.splitlines():
        assert GENERATED.fullmatch(line), line


def test_a_value_is_dropped_after_its_last_use():
    x = af.placeholder(af.float32, [None, 2])
    y = af.reshape(x, [-1])
    lines = source_of(af.exp(y) + af.reduce_sum(x), feeds=[x]).text.splitlines()
    assert any(line.startswith("    del ") and "a0" in line for line in lines)


def test_a_dying_buffer_of_the_same_shape_is_written_into():
    x = af.placeholder(af.float32, [None, 2])
    text = source_of(af.exp(af.tanh(x)), feeds=[x]).text
    assert "out=t" in text


def test_no_buffer_is_reused_that_someone_else_can_see():
    x = af.placeholder(af.float32, [2, 2])
    seen = af.tanh(x)
    assert "out=" not in source_of(af.exp(seen), seen, feeds=[x]).text  # fetched too
    assert "out=" not in source_of(af.exp(x), feeds=[x]).text  # the caller's own array
    viewed = af.tanh(x)
    rows = af.transpose(viewed)
    assert "out=" not in source_of(af.exp(viewed) + 1.0 * rows, feeds=[x]).text.split("del")[0]


def test_no_buffer_is_reused_if_the_shapes_may_differ():
    x, y = af.placeholder(af.float32, [None]), af.placeholder(af.float32, [None])
    assert "out=" not in source_of(af.tanh(x) + af.exp(y), feeds=[x, y]).text


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
async def test_a_buffer_of_another_order_in_memory_changes_no_bit_of_a_later_sum(graph, orders, swapped):
    given = [np.random.default_rng(seed).standard_normal((50, 20)).astype(np.float32) for seed in (1, 2)]
    x, y = (af.placeholder(af.float32, [50, 20]) for _ in given)
    operands = [af.exp(x), y]
    total = af.reduce_sum(af.add(*reversed(operands) if swapped else operands), axis=0)
    feeds = {key: array.copy(order) for key, array, order in zip((x, y), given, orders, strict=True)}
    found = []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append(await session.run(total, feeds))
    np.testing.assert_array_equal(*found, strict=True)


async def test_fed_arrays_and_constants_are_never_written_to(graph):
    x = af.placeholder(af.float32, [3])
    c = af.constant([1.0, 2.0, 3.0])
    out = af.exp(af.identity(x)) + af.negative(af.identity(c))
    given = np.array([1.0, 2.0, 3.0], np.float32)
    async with af.Session(graph=graph) as session:
        first = await session.run(out, {x: given})
        np.testing.assert_array_equal(given, [1, 2, 3])
        np.testing.assert_array_equal(await session.run(out, {x: given}), first)


async def test_a_value_fed_in_between_may_have_another_shape_than_the_one_it_stands_for(graph):
    x = af.placeholder(af.float32, [None, 3])
    y = af.identity(x) + 0.0
    z = af.tanh(x) * y
    rows = np.ones((5, 3), np.float32)
    async with af.Session(graph=graph) as session:
        assert (await session.run(z, {x: rows[:1], y: rows})).shape == (5, 3)


async def test_an_error_inside_a_region_names_its_own_node_its_line_and_its_shapes(graph):
    x = af.placeholder(af.int32, [], name="index")
    table = af.constant([1.0, 2.0, 3.0])
    row = af.gather(table, x, name="lookup")
    result = af.exp(row) * 2.0
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {x: 9})
    error = caught.value
    assert (error.op, error.op_type) == ("lookup", "gather")
    assert error.shapes == ("float32[3]", "int32[]")
    assert __file__ in error.line
    assert "9" in error.message


def test_everything_that_never_waits_is_one_unit_and_a_wait_holds_back_only_what_needs_it(graph):
    x = af.placeholder(af.float32, [])
    waited = af.py_func(lambda v: v, [x], af.float32)
    beside = af.exp(x)
    after = waited + 1.0
    program = program_of(beside, after, feeds=[x])
    homes = {node.definition.name: unit for unit in program.units for node in unit.nodes}
    assert len(program.units) == 3
    assert homes["py_func"].waits
    assert homes["exp"] is not homes["add"]
    assert homes["exp"].index in program.roots


def test_a_short_region_never_looks_at_the_clock_and_a_long_one_does():
    x = af.placeholder(af.float32, [])
    y = x
    assert "now()" not in source_of(af.exp(x), feeds=[x]).text
    for _ in range(1000):
        y = af.exp(y)
    long = source_of(y, feeds=[x])
    assert "await pause()" in long.text


@pytest.mark.parametrize(("nodes", "regions"), [(1000, 1), (2900, 3), pytest.param(4500, 5, marks=pytest.mark.long)])
def test_a_graph_of_many_nodes_is_cut_into_regions_that_still_agree(graph, nodes, regions):
    x = af.placeholder(af.float32, [])
    y = x
    for _ in range(nodes):
        y = y + 1.0
    program = program_of(y, feeds=[x])
    assert len(program.units) == regions
    assert all(inspect.iscoroutinefunction(unit.begin) for unit in program.units)


async def test_a_cut_region_gives_the_right_value(graph):
    x = af.placeholder(af.float32, [])
    y = x
    for _ in range(1500):
        y = y + x
    async with af.Session(graph=graph) as session:
        assert await session.run(y, {x: 1.0}) == 1501.0


@pytest.mark.parametrize(("inputs", "longest"), [(200, 210), (1000, 1), pytest.param(3000, 1, marks=pytest.mark.long)])
async def test_a_node_of_many_inputs_is_not_compiled(graph, monkeypatch, inputs, longest):
    """To compile a call of thousands of arguments holds the interpreter for tens of milliseconds."""
    compiled = []
    monkeypatch.setattr(assembling, "compile_region", lambda *parts: compiled.append(parts) or compile_region(*parts))
    x = af.placeholder(af.float32, [2])
    total = af.add_n([x + float(number) for number in range(inputs)]) * 2.0
    found = []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append(await session.run(total, {x: [1.0, 2.0]}))
    np.testing.assert_array_equal(*found, strict=True)
    arguments = [len(node.inputs) for statements, *_ in compiled for node in (s.node for s in statements)]
    assert max(arguments) < longest + 2


def test_an_empty_flow_needs_no_region():
    assert program_of().units == ()
    assert isinstance(prune((), (), ()), Flow)
