"""Chains of element-wise kernels: the same results as one kernel after the other, in blocks and on several cores."""

import asyncio
import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.plan import op_cost
from aioflow.program import blockwise, fuse
from aioflow.program.blocks import chained
from aioflow.testing import VirtualTimeLoop
from tests.kernels import samples
from tests.support.evaluate import View

for module in pkgutil.iter_modules(samples.__path__):
    importlib.import_module(f"tests.kernels.samples.{module.name}")

UNARY = ("negative", "tanh", "square", "abs", "exp", "sigmoid", "relu", "softplus")
BINARY = ("add", "subtract", "multiply", "maximum", "squared_difference", "greater")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Everything is heavy and large, so that chains are made of what Hypothesis draws, and worked on in blocks."""
    monkeypatch.setattr(blockwise, "BLOCK", 4)
    monkeypatch.setattr(blockwise, "SMALLEST", 8)
    monkeypatch.setattr(blockwise, "SMALLEST_BY_ROWS", 8)
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)


def function(name):
    return getattr(af, name, None) or getattr(af.nn, name)


async def both(graph, fetches, feeds):
    """The fetches with blocks and without, and the chains that were made."""
    async with (
        af.Session(graph=graph) as blocks,
        af.Session(graph=graph, config=af.Config(fuse_elementwise=False)) as plain,
    ):
        found = await blocks.run(fetches, feeds), await plain.run(fetches, feeds)
        fused = [planned.variants["fused"] for planned in blocks._state.plans._plans.values()]
        units = [unit for programs in fused for unit in programs.parts[0].program.units]
        chains = [s for u in units if u.heavy for s in chained(u.heavy._compiling.args[0], u.heavy._compiling.args[2])]
        return *found, [chain for chain in chains if isinstance(chain, fuse.Chain)]


@st.composite
def programs(draw):
    """A graph of element-wise ops over one shape, scalars among them, with some of its values to fetch."""
    graph = af.Graph()
    shape = draw(st.sampled_from([(7,), (8,), (9,), (3, 5), (2, 3, 4)]))
    with graph.as_default():
        open_shape = [None, *shape[1:]] if draw(st.booleans()) else shape
        x = af.placeholder(af.float32, open_shape)
        values = [x, af.tanh(x), af.constant(0.5)]
        for _ in range(draw(st.integers(1, 12))):
            a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
            made = function(draw(st.sampled_from(UNARY)))(a) if draw(st.booleans()) else None
            if made is None:
                made = function(draw(st.sampled_from(BINARY)))(a, b)
                made = af.cast(made, af.float32) if made.dtype is af.bool else made
            values.append(made)
    fetches = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3))
    array = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32)
    return graph, fetches, x, array


@given(programs(), st.booleans())
def test_blocks_change_no_bit_of_any_result(program, transposed):
    graph, fetches, x, array = program
    given_array = np.asfortranarray(array) if transposed else array
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        in_blocks, plain, _ = runner.run(both(graph, fetches, {x: given_array}))
    for value, expected in zip(in_blocks, plain, strict=True):
        np.testing.assert_array_equal(value, expected, strict=True)


async def test_a_run_over_one_shape_is_one_chain_that_makes_only_what_is_read_after_it():
    with af.Graph().as_default() as graph:
        x, y, z = (af.placeholder(af.float32, [10]) for _ in range(3))
        result = af.tanh(x * y + z) * af.sigmoid(x)
        total = af.reduce_sum(result)
    feeds = {tensor: np.linspace(-1, 1, 10, dtype=np.float32) for tensor in (x, y, z)}
    in_blocks, plain, chains = await both(graph, total, feeds)
    assert in_blocks == plain
    assert [[node.definition.name for node in chain.nodes] for chain in chains] == [
        ["multiply", "add", "tanh", "sigmoid", "multiply", "reduce_sum"]
    ]
    assert len(chains[0].results) == 1
    assert len(set(chains[0].call._buffers.values())) <= 2


async def test_another_broadcast_or_an_op_that_is_not_element_wise_ends_a_chain():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2, 4, 4])
        middle = af.placeholder(af.float32, [4, 4])
        y = af.exp(af.tanh(x))
        product = af.matmul(y, y)
        z = af.tanh(product + middle)
    _, _, chains = await both(graph, z, {x: np.ones([2, 4, 4]), middle: np.eye(4)})
    assert [[node.definition.name for node in chain.nodes] for chain in chains] == [["tanh", "exp"]]


async def test_small_arrays_are_not_cut_up(monkeypatch):
    monkeypatch.setattr(blockwise, "SMALLEST", 1000)
    monkeypatch.setattr(blockwise.Blockwise, "_by_blocks", None)
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None])
        y = af.exp(af.tanh(x))
    in_blocks, plain, chains = await both(graph, y, {x: np.ones(10)})
    np.testing.assert_array_equal(in_blocks, plain)
    assert len(chains) == 1


@pytest.mark.parametrize(("shape", "size"), [([None], 6), ([None], 20), ([20], 20)])
async def test_an_error_in_a_chain_names_its_operation_and_the_shapes(monkeypatch, shape, size):
    asked = []
    failed = blockwise.Blockwise.failed
    monkeypatch.setattr(blockwise.Blockwise, "failed", lambda *given: asked.append(given) or failed(*given))
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.int32, shape)
        quotient = af.floordiv(x + 1, x, name="quotient")
        y = af.square(quotient - 3)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="division by zero") as caught:
            await session.run(y, {x: np.arange(size, dtype=np.int32)})
    assert len(asked) == 1
    assert caught.value.op == "quotient"
    assert caught.value.shapes == (f"int32[{size}]",) * 2


ELEMENTWISE = sorted(name for name, op in REGISTRY.items() if op.elementwise and name in samples.SAMPLES)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_kernel_said_to_be_element_wise_is(name):
    """Its result on a part of flat arrays is that part of its result on the whole."""
    for sample in samples.SAMPLES[name]:
        with af.Graph().as_default():
            feeds = {af.placeholder(v.dtype, v.shape): v for v in map(np.asarray, sample.inputs)}
            result = sample.build(*feeds)
        for op in [op for op in result.graph.get_operations() if op.definition.elementwise] if feeds else []:
            shapes = {tensor.shape.sizes for tensor in op.inputs if tensor.shape.ndims}
            real = not any(tensor.dtype.is_complex for tensor in op.inputs)
            if real and len(shapes) == 1 and all(tensor in feeds for tensor in op.inputs):
                _check_parts(op, [np.asarray(feeds[tensor]) for tensor in op.inputs])


def _check_parts(op, arrays):
    view = View(op)
    kernel = op.definition.kernel_for("CPU", view.input_specs)
    if not kernel.out:
        return
    call = kernel.bind(op.definition, view, np)
    with np.errstate(all="ignore"):
        whole = np.asarray(call(*arrays)).reshape(-1)
        flat = [array.reshape(-1) if array.ndim else array for array in arrays]
        for begin, end in ((0, whole.size // 2), (whole.size // 2, whole.size)):
            parts = [array[begin:end] if array.ndim else array for array in flat]
            out = np.empty(end - begin, whole.dtype)
            assert call(*parts, out=out) is out
            np.testing.assert_array_equal(out, whole[begin:end])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_kernel_said_to_be_element_wise_keeps_the_order_in_memory(name):
    """So a sum of its result has the same bits with blocks and without."""
    for sample in samples.SAMPLES[name]:
        with af.Graph().as_default():
            feeds = {af.placeholder(v.dtype, v.shape): v for v in map(np.asarray, sample.inputs)}
            result = sample.build(*feeds)
        for op in [op for op in result.graph.get_operations() if op.definition.elementwise] if feeds else []:
            if all(tensor in feeds for tensor in op.inputs):
                _check_order(op, [np.asarray(feeds[tensor]) for tensor in op.inputs])


def _check_order(op, arrays):
    view = View(op)
    kernel = op.definition.kernel_for("CPU", view.input_specs)
    sizes = {array.shape for array in arrays if array.ndim}
    if not kernel.out or len(sizes) != 1 or len(*sizes) < 2 or min(*sizes) < 2:
        return
    with np.errstate(all="ignore"):
        found = kernel.bind(op.definition, view, np)(*map(np.asfortranarray, arrays))
    assert found.flags.f_contiguous


async def test_reads_of_variables_do_not_break_a_chain():
    graph = af.Graph()
    with graph.as_default():
        x, y, z = (af.Variable(np.linspace(-1, start, 40, dtype=np.float32)) for start in (1, 2, 3))
        result = af.tanh(x * y + z) * af.sigmoid(x)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await session.run(result)
        (unit,) = next(iter(reversed(session._state.plans._plans.values()))).variants["fused"].parts[0].program.units
    statements = chained(unit.heavy._compiling.args[0], unit.heavy._compiling.args[2])
    assert [type(statement) for statement in statements] == [fuse.Bound] * 4 + [fuse.Chain]
