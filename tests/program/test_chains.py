"""Chains that are cut between rows: softmax, layer norm and what is like them, with the same bits as without blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.plan import op_cost
from aioflow.program import blockwise
from tests.kernels.samples import SAMPLES
from tests.program.test_fuse import both
from tests.program.test_reductions import ODD, bits, names, run
from tests.support.evaluate import View

SHAPES = [(90, 4), (40, 9), (3, 5, 20), (4, 4), (1, 60), (150, 1), (2, 2, 2, 33), (5, 60)]
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "squared_difference")
UNARY = ("negative", "exp", "square", "abs", "rsqrt", "tanh")
REDUCTIONS = (af.reduce_sum, af.reduce_mean, af.reduce_max, af.reduce_min)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", 64)
    monkeypatch.setattr(blockwise, "SMALLEST", 128)
    monkeypatch.setattr(blockwise, "SMALLEST_BY_ROWS", 128)
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)


def function(name):
    return getattr(af, name, None) or getattr(af.nn, name)


@st.composite
def programs(draw):
    """Ops over values of one shape, of its rows, of its columns, and scalars, with reductions and gradients."""
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from([af.float32, af.float64]))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    shapes = [shape, (*shape[:-1], 1), shape[-1:], (1,) * (len(shape) - 1) + shape[-1:], shape[:-1], ()]
    arrays = [random.standard_normal(each).astype(dtype.np) for each in shapes]
    if draw(st.booleans()):
        arrays[0].reshape(-1)[random.integers(0, arrays[0].size, 3)] = random.choice(ODD, 3)
    with af.Graph().as_default() as graph:
        given_values = [af.placeholder(dtype, each) for each in shapes]
        values = [*given_values, af.tanh(given_values[0]), af.exp(given_values[1])]
        for _ in range(draw(st.integers(1, 12))):
            a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
            kind = draw(st.sampled_from(["one", "two", "two", "reduce"]))
            if kind == "one":
                values.append(function(draw(st.sampled_from(UNARY)))(a))
            elif kind == "two" and joined(a, b) in (shape, shapes[1]):
                values.append(function(draw(st.sampled_from(BINARY)))(a, b))
            elif a.shape.ndims:
                axis = draw(st.sampled_from([-1, None, 0, [a.shape.ndims - 1]]))
                values.append(draw(st.sampled_from(REDUCTIONS))(a, axis, keepdims=draw(st.booleans())))
        made = values[len(shapes) :]
        fetches = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
        if draw(st.booleans()):
            found = af.gradients(af.reduce_sum(made[-1]), [given_values[0], given_values[1]])
            fetches += [each for each in found if each is not None]
    return graph, fetches, dict(zip(given_values, arrays, strict=True))


def joined(a, b):
    """The shape to which both are broadcast, None if they cannot be."""
    try:
        return np.broadcast_shapes(a.shape.sizes, b.shape.sizes)
    except ValueError:
        return None


@given(programs())
def test_blocks_of_rows_change_no_bit(program):
    graph, fetches, feeds = program
    in_blocks, plain, _ = run(both(graph, fetches, feeds))
    for value, expected in zip(in_blocks, plain, strict=True):
        assert type(value) is type(expected)
        assert bits(value) == bits(expected)


def layer_norm(x, gain, shift):
    centred = x - af.reduce_mean(x, -1, keepdims=True)
    scale = af.rsqrt(af.reduce_mean(af.square(centred), -1, keepdims=True) + 1e-5)
    return centred * scale * gain + shift


def softmax(x, gain, shift):
    powers = af.exp(x - af.reduce_max(x, -1, keepdims=True))
    return powers / af.reduce_sum(powers, -1, keepdims=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("formula", [layer_norm, softmax])
def test_layer_norm_and_softmax_by_their_formulas_are_one_chain(formula, order):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [5, 8, 40])
        gain, shift = af.placeholder(af.float32, [40]), af.placeholder(af.float32, [40])
        y = formula(x, gain, shift)
    random = np.random.default_rng(1)
    arrays = {tensor: random.standard_normal(tensor.shape.sizes) for tensor in (x, gain, shift)}
    feeds = {tensor: np.array(value, np.float32, order=order) for tensor, value in arrays.items()}
    in_blocks, plain, (chain,) = run(both(graph, y, feeds))
    assert bits(in_blocks) == bits(plain)
    assert names(chain) == [op.type for op in graph.get_operations() if not op.type.startswith(SOURCES)]
    assert chain.results == (chain.members[-1].results[0],)


SOURCES = ("placeholder", "constant")


def test_the_gradient_of_a_mean_of_rows_is_in_the_chain_of_what_it_is_multiplied_by():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [30, 20])
        (gradient,) = af.gradients(af.reduce_sum(af.exp(af.reduce_mean(af.tanh(x), 1))), [x])
    value = np.random.default_rng(1).standard_normal((30, 20)).astype(np.float32)
    in_blocks, plain, chains = run(both(graph, gradient, {x: value}))
    assert bits(in_blocks) == bits(plain)
    assert any("spread" in names(chain) for chain in chains)


def test_a_value_that_is_both_one_for_each_row_and_one_for_each_column_ends_a_chain():
    """The gradient of a mean takes its number for each row, a sum with a matrix takes it for each column."""
    with af.Graph().as_default() as graph:
        x, row = af.placeholder(af.float32, [20, 20]), af.placeholder(af.float32, [20])
        (spread,) = af.gradients(af.reduce_sum(x, 1), [x], grad_ys=[row])
        y = af.tanh(spread) * x + row
    random = np.random.default_rng(1)
    feeds = {tensor: random.standard_normal(tensor.shape.sizes).astype(np.float32) for tensor in (x, row)}
    in_blocks, plain, chains = run(both(graph, y, feeds))
    assert bits(in_blocks) == bits(plain)
    assert [names(chain) for chain in chains] == [["spread", "tanh", "multiply"]]


def test_rows_longer_than_a_block_are_not_cut():
    with af.Graph().as_default() as graph:
        x, gain = af.placeholder(af.float32, [3, 65]), af.placeholder(af.float32, [65])
        y = af.tanh(x) * gain
    _, _, chains = run(both(graph, y, {x: np.ones((3, 65)), gain: np.ones(65)}))
    assert chains == []


BROADCASTING = sorted(
    name
    for name, op in REGISTRY.items()
    if op.elementwise and any(len(sample.inputs) == 2 for sample in SAMPLES.get(name, ()))
)


@pytest.mark.parametrize("name", BROADCASTING)
def test_an_element_wise_kernel_computes_each_row_of_a_broadcast_by_itself(name):
    for sample in SAMPLES[name]:
        arrays = [np.resize(np.asarray(value), (6, 5)) for value in sample.inputs]
        for other in (arrays[-1][:, :1], arrays[-1][0]):
            for pair in ([arrays[0], other], [other, arrays[0]]):
                _check_rows(name, sample, pair)


def _check_rows(name, sample, pair):
    with af.Graph().as_default():
        tensors = [af.placeholder(value.dtype, value.shape) for value in pair]
        try:
            result = sample.build(*tensors)
        except (TypeError, ValueError):  # it has no such broadcast
            return
    (op,) = [op for op in result.graph.get_operations() if op.type == name]
    if list(op.inputs) != tensors or op.inputs[0].dtype.is_complex:
        return
    view = View(op)
    kernel = op.definition.kernel_for("CPU", view.input_specs)
    if not kernel.out:
        return
    call = kernel.bind(op.definition, view, np)
    with np.errstate(all="ignore"):
        try:
            whole = call(*pair)
        except af.errors.InvalidArgumentError:  # the turned pair divides by 0
            return
        assert whole.flags.c_contiguous
        for begin, end in ((0, 1), (1, 6)):
            out = np.empty((end - begin, 5), whole.dtype)
            assert call(*[value[begin:end] if value.ndim > 1 else value for value in pair], out=out) is out
            np.testing.assert_array_equal(out, whole[begin:end])


@pytest.mark.parametrize(("rows", "chained"), [(31, False), (32, True)])
def test_small_matrices_are_not_cut_between_rows(monkeypatch, rows, chained):
    monkeypatch.setattr(blockwise, "SMALLEST_BY_ROWS", 160)
    with af.Graph().as_default() as graph:
        x, gain = af.placeholder(af.float32, [rows, 5]), af.placeholder(af.float32, [5])
        y = af.tanh(x) * gain
    _, _, chains = run(both(graph, y, {x: np.ones((rows, 5)), gain: np.ones(5)}))
    assert bool(chains) == chained


@pytest.mark.parametrize("more", ["nothing", "the input", "another result"])
async def test_a_chain_writes_its_only_result_into_an_input_that_nothing_reads_afterwards(monkeypatch, more):
    made, empty = [], blockwise.BUFFERS.empty
    monkeypatch.setattr(blockwise.BUFFERS, "empty", lambda shape, dtype: made.append(shape) or empty(shape, dtype))
    with af.Graph().as_default() as graph:
        x, gain = af.placeholder(af.float32, [40, 20]), af.placeholder(af.float32, [20])
        product = af.matmul(x, af.matmul(x, x, transpose_a=True))
        y = af.tanh(product) * gain + product
        fetches = {"nothing": [y], "the input": [y, product], "another result": [y, af.tanh(y)]}[more]
    value = np.random.default_rng(1).standard_normal((40, 20)).astype(np.float32)
    feeds = {x: value, gain: np.ones(20, np.float32)}
    in_blocks, plain, _ = await both(graph, fetches, feeds)
    assert [bits(each) for each in in_blocks] == [bits(each) for each in plain]
    assert ((40, 20) in made) == (more != "nothing")
