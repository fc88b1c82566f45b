"""All steps of an LSTM in one operation: where it takes the place of a loop, and that it computes the same."""

import numpy as np
import pytest

import aioflow as af

cells = af.nn.rnn_cell
DRAW = np.random.default_rng(11)
BATCH, STEPS, INPUTS, UNITS = 3, 5, 4, 6
X = DRAW.standard_normal((BATCH, STEPS, INPUTS))
LENGTHS = np.array([2, 5, 0])


class Repeated(cells.LSTMCell):
    """The same cell, which only a loop can repeat: a subclass may compute something else."""


class RepeatedBasic(cells.BasicLSTMCell):
    """The same for the other cell."""


def noise():
    return af.random_uniform_initializer(-0.7, 0.7, seed=3)


def types(graph):
    return {operation.type for operation in graph.get_operations()}


async def trained(make, dtype, lengths, **options):
    """Outputs, states, gradients by all weights, and the types of the graph's operations."""
    with af.Graph().as_default() as graph, af.variable_scope("net", initializer=noise()):
        cell, x = make(), af.placeholder(dtype, [None, None, INPUTS])
        outputs, state = af.nn.dynamic_rnn(cell, x, lengths, dtype=dtype, **options)
        ends = [outputs, *af.nest.flatten(state)]
        weighted = [
            end * af.cast(af.cos(af.cast(af.range(af.size(end)), dtype)), dtype)
            for end in (af.reshape(end, [-1]) for end in ends)
        ]
        found = [*ends, *af.gradients(weighted, [x, *cell.variables])]
        names = [variable.op.name for variable in cell.variables]
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            fed = X.swapaxes(0, 1) if options.get("time_major") else X
            return names, await session.run(found, {x: fed.astype(dtype.as_numpy_dtype)}), types(graph)


SIDES = {
    "LSTMCell": (lambda kind: kind(UNITS, forget_bias=0.5, name="c"), cells.LSTMCell, Repeated),
    "BasicLSTMCell": (lambda kind: kind(UNITS, name="c"), cells.BasicLSTMCell, RepeatedBasic),
    "one tensor": (
        lambda kind: kind(UNITS, state_is_tuple=False, name="c"), cells.BasicLSTMCell, RepeatedBasic,
    ),
    "stacked": (
        lambda kind: cells.MultiRNNCell([kind(UNITS, name="c"), kind(3, name="d")]), cells.LSTMCell, Repeated,
    ),
    "a bias that is a tensor": (
        lambda kind: kind(UNITS, forget_bias=af.constant(2.0, af.float32), name="c"), cells.BasicLSTMCell,
        RepeatedBasic,
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(
    ("side", "dtype", "lengths", "options"),
    [
        ("LSTMCell", af.float64, None, {}),
        ("LSTMCell", af.float32, LENGTHS, {"time_major": True}),
        ("BasicLSTMCell", af.float64, LENGTHS, {"parallel_iterations": 1}),
        ("one tensor", af.float64, LENGTHS, {}),
        ("stacked", af.float64, LENGTHS, {}),
        ("a bias that is a tensor", af.float32, None, {}),
    ],
)
async def test_one_operation_computes_what_the_loop_does(side, dtype, lengths, options):
    make, plain, repeated = SIDES[side]
    names, ours, used = await trained(lambda: make(plain), dtype, lengths, **options)
    others, theirs, loops = await trained(lambda: make(repeated), dtype, lengths, **options)
    assert ("lstm" in used, "while_loop" in used) == (True, False)
    assert ("lstm" in loops, "while_loop" in loops) == (False, True)
    assert names == others
    tolerance = 1e-12 if dtype is af.float64 else 2e-5
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda: cells.LSTMCell(UNITS, use_peepholes=True), {}),
        (lambda: cells.LSTMCell(UNITS, cell_clip=1.0), {}),
        (lambda: cells.LSTMCell(UNITS, num_proj=2), {}),
        (lambda: cells.LSTMCell(UNITS, activation=af.nn.relu), {}),
        (lambda: cells.LSTMCell(UNITS, forget_bias=af.ones([1, UNITS])), {}),
        (lambda: cells.DropoutWrapper(cells.LSTMCell(UNITS), 0.5), {}),
        (lambda: cells.GRUCell(UNITS), {}),
        (lambda: cells.MultiRNNCell([cells.LSTMCell(UNITS), cells.GRUCell(UNITS)]), {}),
        (lambda: cells.LSTMCell(UNITS), {"swap_memory": True}),
        (lambda: cells.LSTMCell(UNITS), {"kind": af.float16}),
    ],
)
def test_other_cells_are_repeated_by_a_loop(make, options):
    kind = options.pop("kind", af.float32)
    with af.Graph().as_default() as graph:
        af.nn.dynamic_rnn(make(), af.zeros([2, 3, INPUTS], kind), dtype=kind, **options)
        assert "lstm" not in types(graph)
        assert "while_loop" in types(graph)


async def test_a_graph_read_from_data_has_the_gradients_of_all_orders():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float64, [STEPS, 2, 2], name="x")
        kernels = [DRAW.standard_normal(size) for size in ((2, 8), (2, 8), (8,))]
        af.identity(af.nn.lstm(x, *kernels, sequence_length=[3, 5])[0], name="y")

    async def derived():
        x, y = (af.get_default_graph().get_tensor_by_name(f"{name}:0") for name in "xy")
        (first,) = af.gradients(y, x)
        (second,) = af.gradients(af.square(first), x)
        async with af.Session() as session:
            return await session.run([y, first, second], {x: X[:2, :, :2].swapaxes(0, 1)})

    with graph.as_default():
        expected = await derived()
    with af.Graph().as_default():
        af.import_graph_def(graph.as_graph_def(), name="")
        found = await derived()
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert expected[2].any()


async def test_a_step_of_a_loop_may_be_a_whole_lstm():
    """A loop feeds the outputs of an LSTM back as its inputs: gradients pass through all rounds."""
    kernels = [DRAW.standard_normal(size) / 2 for size in ((2, 8), (2, 8), (8,))]
    given = DRAW.standard_normal((STEPS, 1, 2))
    with af.Graph().as_default():
        x = af.constant(given)
        weights = [af.constant(kernel) for kernel in kernels]
        _, looped = af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, af.nn.lstm(y, *weights)[0]), [0, x])
        written = x
        for _ in range(3):
            written = af.nn.lstm(written, *weights)[0]
        sides = [[y, *af.gradients(y, [x, *weights])] for y in (looped, written)]
        async with af.Session() as session:
            for one, other in zip(*await session.run(sides), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


async def test_states_and_inputs_may_be_of_any_size_in_the_run():
    """The batch and the number of steps are open; the states begin as zeros, or as they are given."""
    kernels = [DRAW.standard_normal(size) for size in ((2, 8), (2, 8), (8,))]
    with af.Graph().as_default():
        x = af.placeholder(af.float64, [None, None, 2])
        outputs, h, c = af.nn.lstm(x, *kernels)
        assert (outputs.shape.as_list(), h.shape.as_list()) == ([None, None, 2], [None, 2])
        halves = af.nn.lstm(x[2:], *kernels, *af.nn.lstm(x[:2], *kernels)[1:])
        async with af.Session() as session:
            ends = await session.run([outputs[2:], h, c, *halves], {x: X[:, :, :2].swapaxes(0, 1)})
            none = await session.run([outputs, h], {x: np.zeros((0, 2, 2))})
    for one, other in zip(ends[:3], ends[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert [value.shape for value in none] == [(0, 2, 2), (2, 2)]
    assert not none[1].any()


async def test_lists_as_kernels_have_the_dtype_of_the_inputs():
    with af.Graph().as_default() as graph:
        made = af.nn.lstm(np.ones((2, 1, 2)), np.ones((2, 4)), [[1.0, 1.0, 1.0, 1.0]], [0.0, 0.0, 0.0, 0.0])
        async with af.Session(graph=graph) as session:
            outputs, _, _ = await session.run(made)
    assert outputs.dtype == np.float64


@pytest.mark.parametrize("gates", [None, ("i", "f", "c", "o")])
def test_an_order_of_gates_that_is_no_text_is_refused_by_name(gates):
    with af.Graph().as_default(), pytest.raises(TypeError, match="gates is a text"):
        af.nn.lstm(np.ones((2, 1, 2)), np.ones((2, 4)), np.ones((1, 4)), np.ones(4), gates=gates)
