"""Reductions at the end of chains of element-wise kernels: the same bits as over whole arrays."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.plan import op_cost
from aioflow.program import blockwise
from aioflow.program.reductions import halves
from aioflow.testing import VirtualTimeLoop
from tests.program.test_fuse import both

BLOCK = 160
SHAPES = [(1000,), (5000,), (321,), (7, 151), (333, 3), (3, 400), (5, 40, 9), (40, 1), (1, 700), (2, 2, 160)]
REDUCTIONS = (af.reduce_sum, af.reduce_mean, af.reduce_max, af.reduce_min)
AXES = st.sampled_from([None, -1, 0, [0], "all"])
ODD = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 3e38, -1.0]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", BLOCK)
    monkeypatch.setattr(blockwise, "SMALLEST", 2 * BLOCK)
    monkeypatch.setattr(blockwise, "SMALLEST_BY_ROWS", 2 * BLOCK)
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)


def run(program):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(program)


def names(chain):
    return [node.definition.name for node in chain.nodes]


def bits(value):
    """The bits of an array; one NaN is like another."""
    array = np.where(np.isnan(value), np.float32(np.nan), value)
    return array.dtype, array.shape, array.tobytes()


@st.composite
def programs(draw):
    """A chain with some reductions of its values; most of them can be part of the chain."""
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from([af.float32, af.float64]))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    array = (random.standard_normal(shape) * 10.0 ** random.uniform(-4, 4, shape)).astype(dtype.np)
    if draw(st.booleans()):
        array.reshape(-1)[random.integers(0, array.size, 3)] = random.choice(ODD, 3)
    with af.Graph().as_default() as graph:
        x = af.placeholder(dtype, shape)
        values, reduced = [x, x * 2.0, af.tanh(x)], []
        for _ in range(draw(st.integers(1, 8))):
            value = draw(st.sampled_from(values))
            if draw(st.booleans()):
                values.append(value * draw(st.sampled_from(values)) + 0.25)
                continue
            axis = draw(AXES)
            axis = list(range(len(shape))) if axis == "all" else axis
            reduced.append(draw(st.sampled_from(REDUCTIONS))(value, axis, keepdims=draw(st.booleans())))
            if draw(st.booleans()) and reduced[-1].shape.ndims == 0:
                values.append(value - reduced[-1])
    fetches = [*reduced, *draw(st.lists(st.sampled_from(values[1:]), max_size=2))] or [values[-1]]
    return graph, fetches, x, array


@given(programs(), st.booleans())
def test_blocks_change_no_bit_of_a_reduction(program, transposed):
    graph, fetches, x, array = program
    in_blocks, plain, _ = run(both(graph, fetches, {x: np.asfortranarray(array) if transposed else array}))
    for value, expected in zip(in_blocks, plain, strict=True):
        assert type(value) is type(expected)
        assert bits(value) == bits(expected)


@pytest.mark.parametrize("axis", [None, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_several_reductions_are_part_of_one_chain(axis, keepdims):
    with af.Graph().as_default() as graph:
        x, y = af.placeholder(af.float32, [50, 20]), af.placeholder(af.float32, [50, 20])
        error = af.square(x - y)
        fetches = [af.reduce_mean(error, axis, keepdims), af.reduce_sum(error + 1.0, axis, keepdims), error]
    arrays = np.random.default_rng(1).standard_normal((2, 50, 20)).astype(np.float32)
    in_blocks, plain, chains = run(both(graph, fetches, {x: arrays[0], y: arrays[1]}))
    assert sorted(names(chains[0])) == ["add", "reduce_mean", "reduce_sum", "square", "subtract"]
    assert len(chains) == 1
    for value, expected in zip(in_blocks, plain, strict=True):
        assert bits(value) == bits(expected)


@pytest.mark.parametrize(
    ("reduce", "chained"),
    {
        "along the first axis": (lambda x: af.reduce_sum(x, 0), False),
        "along the last axis": (lambda x: af.reduce_max(x, -1), True),
        "the largest of all, whose sign may depend on the order": (af.reduce_max, False),
        "of integers": (lambda x: af.reduce_sum(af.cast(x, af.int32)), False),
        "of narrow floats": (lambda x: af.reduce_sum(af.cast(x, af.float16)), False),
        "a product": (lambda x: af.reduce_prod(x, -1), False),
    }.values(),
)
def test_only_reductions_that_blocks_do_not_change_are_part_of_a_chain(reduce, chained):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [50, 20])
        result = reduce(af.tanh(x * 0.5))
    value = np.random.default_rng(1).standard_normal((50, 20)).astype(np.float32)
    in_blocks, plain, chains = run(both(graph, result, {x: value}))
    assert bits(in_blocks) == bits(plain)
    assert any(name.startswith("reduce") for chain in chains for name in names(chain)) == chained


def test_a_value_that_needs_a_reduction_is_computed_after_it():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [1000])
        y = af.exp(af.tanh(x))
        result = y / af.reduce_sum(y) * 2.0
    value = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    in_blocks, plain, chains = run(both(graph, result, {x: value}))
    assert bits(in_blocks) == bits(plain)
    assert names(chains[0]) == ["tanh", "exp", "reduce_sum"]


def test_a_value_that_needs_a_reduction_of_its_unit_is_not_in_its_chain(monkeypatch):
    """The unit is a whole one: the estimates of costs are the real ones."""
    monkeypatch.undo()
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [600, 700])
        y = af.exp(af.tanh(x))
        result = (y / af.reduce_sum(y) * 2.0 - af.reduce_mean(y)) * y
    value = np.random.default_rng(1).standard_normal((600, 700)).astype(np.float32)
    in_blocks, plain, chains = run(both(graph, result, {x: value}))
    assert bits(in_blocks) == bits(plain)
    assert "reduce_sum" in names(chains[0])
    assert "divide" not in names(chains[0])


@pytest.mark.whole
@pytest.mark.parametrize("reduce", [af.reduce_sum, af.reduce_max])
@pytest.mark.parametrize("axis", [None, -1])
def test_columns_one_after_the_other_in_memory_are_reduced_as_without_blocks(reduce, axis):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [50, 20])
        result = reduce(af.tanh(x * 0.5), axis)
    value = np.asfortranarray(np.random.default_rng(1).standard_normal((50, 20)).astype(np.float32))
    in_blocks, plain, _ = run(both(graph, result, {x: value}))
    assert bits(in_blocks) == bits(plain)


@pytest.mark.parametrize("size", [1, 128, 129, 160, 161, 1000, 12_345])
def test_halves_cover_all_elements_in_blocks(size):
    found = halves(size, BLOCK)
    assert [begin for begin, _ in found] == [0, *[end for _, end in found[:-1]]]
    assert found[-1][1] == size
    assert max(end - begin for begin, end in found) <= BLOCK
    assert all(begin % 8 == 0 for begin, _ in found)
