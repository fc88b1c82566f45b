"""Recurrent nets: cells against NumPy, loops against written-out steps, gradients, lengths, variables, and misuse."""

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients

cells = af.nn.rnn_cell
EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])
BATCH, STEPS, INPUTS, UNITS = 3, 4, 2, 5
DRAW = np.random.default_rng(7)
X = DRAW.standard_normal((BATCH, STEPS, INPUTS))
LENGTHS = np.array([2, 4, 0])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(fetches, feeds=None, executor="regions"):
    """The fetches, after variables have got their first values."""
    async with af.Session(config=af.Config(executor=executor)) as session:
        await session.run(af.global_variables_initializer())
        return await session.run(fetches, feeds or {})


async def by_tokens(fetches, feeds):
    async with af.Session(graph=fetches[0].graph, config=af.Config(executor="tokens")) as session:
        return await session.run(fetches, feeds)


def noise(seed=0):
    return af.random_uniform_initializer(-0.7, 0.7, seed=seed)


def fed(*unknown):
    """A placeholder for X, of which the sizes at these axes are not known."""
    return af.placeholder(af.float64, [None if axis in unknown else size for axis, size in enumerate(X.shape)])


# The same in NumPy


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def basic(x, state, kernel, bias):
    output = np.tanh(np.hstack([x, state]) @ kernel + bias)
    return output, output


def gru(x, state, gate_kernel, gate_bias, kernel, bias):
    r, u = np.split(sigmoid(np.hstack([x, state]) @ gate_kernel + gate_bias), 2, axis=1)
    output = u * state + (1 - u) * np.tanh(np.hstack([x, r * state]) @ kernel + bias)
    return output, output


def lstm(x, state, kernel, bias):
    c, h = state
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, axis=1)
    c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    h = np.tanh(c) * sigmoid(o)
    return h, (c, h)


def full_lstm(x, state, kernel, bias, w_f, w_i, w_o, projection):
    c, h = state
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, axis=1)
    c = np.clip(c * sigmoid(f + 0.5 + w_f * c) + sigmoid(i + w_i * c) * np.tanh(j), -0.3, 0.3)
    h = np.clip((sigmoid(o + w_o * c) * np.tanh(c)) @ projection, -0.1, 0.1)
    return h, (c, h)


def unrolled(step, x, state, weights, lengths=None):
    """All outputs and the last state."""
    outputs = []
    for time in range(x.shape[1]):
        output, after = step(x[:, time], state, *weights)
        if lengths is not None:
            alive = (time < lengths)[:, None]
            output = output * alive
            pairs = zip(after, state, strict=True) if isinstance(state, tuple) else [(after, state)]
            after = tuple(np.where(alive, new, old) for new, old in pairs)
            after = after if isinstance(state, tuple) else after[0]
        outputs.append(output)
        state = after
    return np.stack(outputs, 1), state


def full_cell():
    return cells.LSTMCell(
        UNITS, use_peepholes=True, cell_clip=0.3, initializer=noise(), num_proj=3, proj_clip=0.1, forget_bias=0.5
    )


def zero(*sizes):
    return tuple(np.zeros((BATCH, size)) for size in sizes)


KINDS = {
    "BasicRNNCell": (lambda: cells.BasicRNNCell(UNITS), basic, zero(UNITS)[0]),
    "GRUCell": (lambda: cells.GRUCell(UNITS, kernel_initializer=noise()), gru, zero(UNITS)[0]),
    "BasicLSTMCell": (lambda: cells.BasicLSTMCell(UNITS), lstm, zero(UNITS, UNITS)),
    "LSTMCell": (lambda: cells.LSTMCell(UNITS, initializer=noise()), lstm, zero(UNITS, UNITS)),
    "a full LSTMCell": (full_cell, full_lstm, zero(UNITS, 3)),
}


@EXECUTORS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
async def test_cells_compute_what_their_formulas_say(graph, kind, lengths, executor):
    make, step, start = KINDS[kind]
    cell, x = make(), fed(0, 1)
    outputs, state = af.nn.dynamic_rnn(cell, x, lengths, dtype=af.float64)
    found, after, weights = await run([outputs, state, cell.variables], {x: X}, executor)
    wanted, wanted_after = unrolled(step, X, start, weights, lengths)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    for mine, theirs in zip(af.nest.flatten(after), af.nest.flatten(wanted_after), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert outputs.shape.as_list() == [None, None, wanted.shape[2]]


def stacked_cell():
    return cells.MultiRNNCell([cells.ResidualWrapper(cells.GRUCell(INPUTS)), cells.LSTMCell(UNITS)])


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.uint64, np.int8])
async def test_lengths_beyond_the_steps_are_all_of_them_in_any_dtype(graph, dtype):
    x = np.ones((2, 3, 4), np.float32)
    lengths = np.array([np.iinfo(dtype).max, 1], dtype)
    outputs, _ = af.nn.dynamic_rnn(cells.BasicLSTMCell(5), x, lengths, dtype=af.float32)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        found = await session.run(outputs)
    assert [[bool(step.any()) for step in row] for row in found] == [[True] * 3, [True, False, False]]


@pytest.mark.parametrize("lengths", [pytest.param(None, marks=pytest.mark.long), LENGTHS], ids=["all", "lengths"])
@pytest.mark.parametrize("make", [*[kind[0] for kind in KINDS.values()], stacked_cell], ids=[*KINDS, "stacked"])
async def test_a_loop_does_what_steps_written_out_do(graph, make, lengths):
    cell, x = make(), fed()
    by_loop = af.nn.dynamic_rnn(cell, x, lengths, dtype=af.float64)
    outputs, state = af.nn.static_rnn(cell, af.unstack(x, axis=1), dtype=af.float64, sequence_length=lengths)
    turned = af.nn.dynamic_rnn(cell, af.transpose(x, [1, 0, 2]), lengths, dtype=af.float64, time_major=True)
    written = (af.stack(outputs, 1), state)
    sides = [by_loop, written, (af.transpose(turned[0], [1, 0, 2]), turned[1])]
    results = [(*side, af.gradients(af.nest.flatten(side), [x, *cell.variables])) for side in sides]
    first, *others = [af.nest.flatten(result) for result in await run(results, {x: X})]
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert by_loop[0].shape == [BATCH, STEPS, cell.output_size]


async def test_an_initial_state_goes_before_the_first_step(graph):
    cell, x = cells.LSTMCell(UNITS), fed(0, 1)
    start = tuple(DRAW.standard_normal((BATCH, UNITS)) for _ in range(2))
    halves = af.nn.dynamic_rnn(cell, x[:, :2], initial_state=cells.LSTMStateTuple(*start))
    rest = af.nn.dynamic_rnn(cell, x[:, 2:], initial_state=halves[1])
    whole = af.nn.dynamic_rnn(cell, x, initial_state=start)
    found, wanted = await run([(af.concat([halves[0], rest[0]], 1), tuple(rest[1])), whole], {x: X})
    for mine, theirs in zip(af.nest.flatten(found), af.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


async def test_states_that_are_no_tuples_hold_the_same_side_by_side(graph):
    x = fed()
    single, both = [cells.BasicLSTMCell(UNITS, state_is_tuple=each, name="cell") for each in (False, True)]
    stacked = cells.MultiRNNCell([cells.BasicRNNCell(2), cells.GRUCell(3)], state_is_tuple=False)
    one, flat = af.nn.dynamic_rnn(single, x, dtype=af.float64)
    with af.variable_scope(af.get_variable_scope(), reuse=True):
        two, state = af.nn.dynamic_rnn(both, x, dtype=af.float64)
    three, wide = af.nn.dynamic_rnn(stacked, x, dtype=af.float64, scope="stacked")
    one, flat, two, state, three, wide = await run([one, flat, two, state, three, wide], {x: X})
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(flat, np.hstack(state))
    assert (single.state_size, stacked.state_size, wide.shape) == (2 * UNITS, 5, (BATCH, 5))
    np.testing.assert_array_equal(three[:, -1], wide[:, 2:])


async def test_no_steps_leave_the_state_as_it_was(graph):
    x = af.placeholder(af.float64, [BATCH, None, INPUTS])
    outputs, state = af.nn.dynamic_rnn(cells.GRUCell(UNITS), x, initial_state=np.ones([BATCH, UNITS]))
    found, after = await run([outputs, state], {x: X[:, :0]})
    assert found.shape == (BATCH, 0, UNITS)
    np.testing.assert_array_equal(after, np.ones([BATCH, UNITS]))


# Gradients


def small_lstm(x, kernel, bias, lengths=None):
    cell = cells.LSTMCell(2, initializer=lambda shape, dtype=None: af.zeros(shape, dtype))
    cell._kernel, cell._bias, cell.built = kernel, bias, True
    outputs, state = af.nn.dynamic_rnn(cell, x, lengths, dtype=af.float64)
    return [outputs, *state]


WEIGHTS = [DRAW.standard_normal((4, 8)), DRAW.standard_normal(8)]


@pytest.mark.parametrize("lengths", [pytest.param(None, marks=pytest.mark.long), [1, 3]])
async def test_gradients_of_an_lstm_are_right_to_the_second_order(lengths):
    await check_gradients(lambda *given: small_lstm(*given, lengths), [X[:2, :3], *WEIGHTS])


@pytest.mark.slow
@pytest.mark.long
async def test_gradients_of_an_lstm_are_right_with_tokens():
    await check_gradients(lambda x: small_lstm(x, *WEIGHTS), [X[:1, :2]], compute=by_tokens)


async def test_training_lowers_the_loss(graph):
    outputs, _ = af.nn.dynamic_rnn(cells.LSTMCell(8), af.constant(X, af.float32), dtype=af.float32)
    loss = af.reduce_mean(af.square(outputs[:, 1:, :2] - af.constant(X[:, :-1], af.float32)))
    train = af.train.AdamOptimizer(0.05).minimize(loss)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        losses = [(await session.run([loss, train]))[0] for _ in range(40)]
    assert losses[-1] < losses[0] / 3


# Both directions


@EXECUTORS
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
async def test_both_directions_are_two_nets(graph, lengths, executor):
    x = fed(0, 1)
    forward, backward = cells.GRUCell(UNITS), cells.BasicLSTMCell(2)
    outputs, states = af.nn.bidirectional_dynamic_rnn(forward, backward, x, lengths, dtype=af.float64)
    found, after, weights = await run([outputs, states, [forward.variables, backward.variables]], {x: X}, executor)
    ends = np.full(BATCH, STEPS) if lengths is None else lengths
    turned = lambda values: np.stack([[*v[:n][::-1], *v[n:]] for v, n in zip(values, ends, strict=True)])  # noqa: E731
    first, first_state = unrolled(gru, X, zero(UNITS)[0], weights[0], lengths)
    second, second_state = unrolled(lstm, turned(X), zero(2, 2), weights[1], lengths)
    np.testing.assert_allclose(found[0], first, atol=1e-12)
    np.testing.assert_allclose(found[1], turned(second), atol=1e-12)
    np.testing.assert_allclose(after[0], first_state, atol=1e-12)
    np.testing.assert_allclose(after[1], second_state, atol=1e-12)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
async def test_both_directions_written_out_are_the_same(graph, lengths):
    x, both = fed(), [cells.BasicRNNCell(2), cells.BasicRNNCell(3)]
    loop, (forward, backward) = af.nn.bidirectional_dynamic_rnn(*both, x, lengths, dtype=af.float64)
    written, *states = af.nn.static_bidirectional_rnn(
        *both, af.unstack(x, axis=1), dtype=af.float64, sequence_length=lengths
    )
    found = await run([af.concat(loop, 2), af.stack(written, 1), [forward, backward], states], {x: X})
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    for mine, theirs in zip(*found[2:], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


# Inputs made on the way


@EXECUTORS
async def test_a_raw_net_does_what_its_function_says(graph, executor):
    x, cell = fed(0), cells.LSTMCell(UNITS)
    rows = af.TensorArray(af.float64, STEPS, clear_after_read=False).unstack(af.transpose(x, [1, 0, 2]))

    def loop_fn(time, output, state, loop_state):
        after = cell.zero_state(af.shape(x)[0], af.float64) if output is None else state
        finished = time >= LENGTHS
        following = af.cond(af.reduce_all(finished), lambda: x[:, 0], lambda: rows.read(time))
        following.set_shape([None, INPUTS])
        return finished, following, after, output, 0 if loop_state is None else loop_state + 1

    emitted, state, count = af.nn.raw_rnn(cell, loop_fn)
    found, after, count, weights = await run([emitted.stack(), state, count, cell.variables], {x: X}, executor)
    outputs, last = unrolled(lstm, X, zero(UNITS, UNITS), weights, LENGTHS)
    np.testing.assert_allclose(found.swapaxes(0, 1), outputs, atol=1e-12)
    np.testing.assert_allclose(after, last, atol=1e-12)
    assert count == max(LENGTHS)


async def test_a_raw_net_may_emit_something_else(graph):
    cell = cells.BasicRNNCell(2)

    def loop_fn(time, output, state, loop_state):
        emitted = {"sum": af.zeros([], af.float64), "time": af.constant(0)}
        if output is not None:
            emitted = {"sum": af.reduce_sum(output, 1), "time": af.fill([BATCH], time)}
        after = af.ones([BATCH, 2], af.float64) if output is None else state
        return af.fill([BATCH], time >= 3), af.constant(X[:, 0]), after, emitted, None

    emitted, state, nothing = af.nn.raw_rnn(cell, loop_fn)
    sums, times, last = await run([emitted["sum"].stack(), emitted["time"].stack(), state])
    assert nothing is None
    assert times.tolist() == [[number] * BATCH for number in (1, 2, 3)]
    np.testing.assert_allclose(sums[-1], last.sum(1))


# Variables


NAMES = {
    "BasicRNNCell": ["basic_rnn_cell/kernel", "basic_rnn_cell/bias"],
    "GRUCell": [f"gru_cell/{part}/{name}" for part in ("gates", "candidate") for name in ("kernel", "bias")],
    "BasicLSTMCell": ["basic_lstm_cell/kernel", "basic_lstm_cell/bias"],
    "LSTMCell": ["lstm_cell/kernel", "lstm_cell/bias"],
    "a full LSTMCell": [
        f"lstm_cell/{name}" for name in ("kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag", "projection/kernel")
    ],
}


def names():
    return [variable.op.name for variable in af.trainable_variables()]


@pytest.mark.parametrize("unroll", ["dynamic", "static"])
@pytest.mark.parametrize("kind", KINDS)
def test_variables_have_tensorflows_names(graph, kind, unroll):
    cell, x = KINDS[kind][0](), fed()
    if unroll == "dynamic":
        af.nn.dynamic_rnn(cell, x, dtype=af.float64)
    else:
        af.nn.static_rnn(cell, af.unstack(x, axis=1), dtype=af.float64)
    assert names() == [f"rnn/{name}" for name in NAMES[kind]]
    assert cell.trainable_variables == cell.weights == af.trainable_variables()
    assert {variable.dtype for variable in cell.variables} == {af.float64}


def test_scopes_around_and_inside_are_in_the_names(graph):
    x = fed()
    stacked = cells.MultiRNNCell([cells.DropoutWrapper(cells.GRUCell(2)), cells.ResidualWrapper(cells.LSTMCell(2))])
    with af.variable_scope("model"):
        af.nn.dynamic_rnn(stacked, x, dtype=af.float64)
        af.nn.bidirectional_dynamic_rnn(cells.LSTMCell(2), cells.LSTMCell(2), x, dtype=af.float64)
        af.nn.dynamic_rnn(cells.LSTMCell(2, name="mine"), x, dtype=af.float64, scope="decoder")
    kernels = [name for name in names() if name.endswith("kernel")]
    assert kernels == [
        "model/rnn/multi_rnn_cell/cell_0/gru_cell/gates/kernel",
        "model/rnn/multi_rnn_cell/cell_0/gru_cell/candidate/kernel",
        "model/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel",
        "model/bidirectional_rnn/fw/lstm_cell/kernel",
        "model/bidirectional_rnn/bw/lstm_cell/kernel",
        "model/decoder/mine/kernel",
    ]
    assert len(stacked.variables) == 6


def test_cells_called_by_themselves_have_scopes_of_their_own(graph):
    x, state = af.zeros([1, 2]), af.zeros([1, 3])
    first, second = cells.BasicRNNCell(3), cells.BasicRNNCell(3)
    first(x, state)
    second(x, state)
    first(x, state)
    cells.GRUCell(3)(x, state, scope="given")
    assert [name for name in names() if name.endswith("kernel")] == [
        "basic_rnn_cell/kernel", "basic_rnn_cell_1/kernel", "given/gates/kernel", "given/candidate/kernel",
    ]  # fmt: skip


async def test_variables_are_shared_where_scopes_reuse(graph):
    x = fed()

    def build(reuse):
        with af.variable_scope("model", reuse=reuse):
            return af.nn.dynamic_rnn(cells.LSTMCell(UNITS), x, dtype=af.float64)[0]

    made = [build(None), build(True), build(af.AUTO_REUSE)]
    made.append(af.nn.dynamic_rnn(cells.LSTMCell(UNITS, reuse=True), x, dtype=af.float64, scope="model/rnn")[0])
    assert names() == ["model/rnn/lstm_cell/kernel", "model/rnn/lstm_cell/bias"]
    first, *others = await run(made, {x: X})
    for other in others:
        np.testing.assert_array_equal(first, other)
    with pytest.raises(ValueError, match=r"'model/rnn/lstm_cell/kernel' exists already; did you mean reuse"):
        build(None)
    with pytest.raises(ValueError, match=r"'other/rnn/lstm_cell/kernel' does not exist"), af.variable_scope("other"):
        af.nn.dynamic_rnn(cells.LSTMCell(UNITS, reuse=True), x, dtype=af.float64)


def test_a_cell_that_could_not_be_built_is_built_the_next_time(graph):
    cell, x = cells.LSTMCell(UNITS), fed()
    with pytest.raises(ValueError, match="differ in structure"):
        af.nn.dynamic_rnn(cell, x, initial_state=[np.zeros([BATCH, UNITS])] * 3)
    with pytest.raises(TypeError, match=r"float64 is needed; use af\.cast"):
        af.nn.dynamic_rnn(cell, x, dtype=af.float32)
    assert (names(), cell.built, cell.variables) == ([], False, [])
    af.nn.dynamic_rnn(cell, x, dtype=af.float64)
    assert names() == ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"]


def test_a_cell_is_of_one_graph(graph):
    cell = cells.LSTMCell(UNITS)
    af.nn.dynamic_rnn(cell, fed(), dtype=af.float64)
    with af.Graph().as_default(), pytest.raises(ValueError, match="'lstm_cell'> are in another graph: make another"):
        af.nn.dynamic_rnn(cell, fed(), dtype=af.float64)


class Counter(cells.RNNCell):
    """A user's cell: what it puts out is a nested structure, and its state counts."""

    @property
    def state_size(self):
        return {"sum": UNITS, "count": af.TensorShape([])}

    @property
    def output_size(self):
        return UNITS, af.TensorShape([2, 2])

    def call(self, inputs, state):
        weights = af.get_variable("weights", [INPUTS, UNITS], af.float64)
        total = state["sum"] + af.matmul(inputs["a"], weights)
        return (total, inputs["b"]), {"sum": total, "count": state["count"] + 1}


async def test_users_cells_have_nested_inputs_outputs_and_states(graph):
    cell, x = Counter(), fed(0)
    inputs = {"a": x, "b": af.ones([BATCH, STEPS, 2, 2], af.float64)}
    start = {"sum": af.zeros([BATCH, UNITS], af.float64), "count": af.zeros([BATCH], af.float64)}
    outputs, state = af.nn.dynamic_rnn(cell, inputs, LENGTHS, initial_state=start)
    assert names() == ["rnn/counter/weights"]
    found, after, (weights,) = await run([outputs, state, cell.variables], {x: X})
    np.testing.assert_allclose(found[0][1], np.cumsum(X[1], 0) @ weights)
    assert found[1].sum((1, 2, 3)).tolist() == (4 * LENGTHS).tolist()
    assert after["count"].tolist() == LENGTHS.tolist()


# Wrappers


async def test_dropout_drops_what_it_is_told_to(graph):
    x = af.ones([200, STEPS, INPUTS], af.float64)
    plain = cells.LSTMCell(UNITS, initializer=noise())
    thin = [
        cells.DropoutWrapper(plain, output_keep_prob=0.5, seed=1),
        cells.DropoutWrapper(plain, state_keep_prob=af.constant(0.5, af.float64), seed=1),
        cells.DropoutWrapper(plain, output_keep_prob=0.5, variational_recurrent=True, dtype=af.float64, seed=1),
    ]
    results = [af.nn.dynamic_rnn(cell, x, dtype=af.float64) for cell in (plain, *thin)]
    (whole, _), (dropped, _), (_, state), (same, _) = await run(results)
    kept = dropped != 0
    assert 0.45 < kept.mean() < 0.55
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept])
    assert 0.4 < (state.h == 0).mean() < 0.6
    assert (state.c != 0).all()
    lost = same == 0
    assert (lost == lost[:1, :1]).all()
    assert kept.std(1).any()


async def test_a_residual_wrapper_adds_the_inputs(graph):
    x, cell = fed(), cells.GRUCell(INPUTS)
    plain, _ = af.nn.dynamic_rnn(cell, x, dtype=af.float64)
    added, _ = af.nn.dynamic_rnn(cells.ResidualWrapper(cell), x, dtype=af.float64)
    other, _ = af.nn.dynamic_rnn(cells.ResidualWrapper(cell, lambda i, o: i * o), x, dtype=af.float64)
    plain, added, other = await run([plain, added, other], {x: X})
    np.testing.assert_allclose(added, plain + X)
    np.testing.assert_allclose(other, plain * X)


def test_a_device_wrapper_asks_for_its_device(graph):
    cell = cells.DeviceWrapper(cells.BasicRNNCell(2), "/cpu:0")
    output, _ = cell(af.zeros([1, 2]), cell.zero_state(1, af.float32))
    assert "CPU:0" in output.op.device.upper()


# What is refused


def lstm_of(units=UNITS, **options):
    return cells.LSTMCell(units, **options)


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda x: af.nn.dynamic_rnn(5, x), TypeError, "cell must be a cell, .* not 5: it has no state_size"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x), ValueError, "an initial_state, or the dtype"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x[0, 0], dtype=x.dtype), ValueError, "axes for batch and time"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x[0], dtype=x.dtype), ValueError, r"\[batch, features\], not \[4\]"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x, [1, 2], dtype=x.dtype), ValueError, "2 lengths for a batch of 3"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x, [1.0] * 3, dtype=x.dtype), TypeError, "integers, not float32"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x, [[1]], dtype=x.dtype), ValueError, r"a vector .* not \[1, 1\]"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), (x, x[:2]), dtype=x.dtype), ValueError, "one batch size, .* 2, 3"),
        (lambda x: af.nn.dynamic_rnn(lstm_of(), x, initial_state=x), ValueError, "state_size and initial_state differ"),
        (
            lambda x: af.nn.dynamic_rnn(cells.GRUCell(UNITS), x, initial_state=np.zeros([4, UNITS])),
            ValueError,
            r"^dynamic_rnn: initial_state \(.*\) has batch 4, inputs have 3: its shape is \[4, ",
        ),
        (
            lambda x: af.nn.static_rnn(lstm_of(), [x[:, 0]], (np.zeros([3, UNITS]), np.zeros([1, UNITS]))),
            ValueError,
            r"^static_rnn: initial_state\[1\] .* has batch 1, inputs have 3",
        ),
        (
            lambda x: af.nn.bidirectional_dynamic_rnn(lstm_of(), lstm_of(), x[0], dtype=x.dtype),
            ValueError,
            "^bidirectional_dynamic_rnn: dynamic_rnn: .*, features]",
        ),
        (lambda x: af.nn.static_rnn(lstm_of(), x, dtype=x.dtype), TypeError, "inputs must be a list"),
        (lambda x: af.nn.static_rnn(lstm_of(), [], dtype=x.dtype), ValueError, "inputs is empty"),
        (lambda x: af.nn.bidirectional_dynamic_rnn(lstm_of(), 3, x), TypeError, "cell_bw must be a cell"),
        (lambda x: af.nn.raw_rnn(lstm_of(), 3), TypeError, "loop_fn must be a function"),
        (lambda x: af.nn.raw_rnn(lstm_of(), lambda *_: 3), ValueError, r"loop_fn must return \(finished, .* not 3"),
        (lambda x: cells.LSTMCell(0), ValueError, "num_units must be at least 1, not 0"),
        (lambda x: cells.GRUCell("8"), TypeError, "num_units must be an int, not '8'"),
        (lambda x: cells.GRUCell(8, activation=1), TypeError, "activation must be a function"),
        (lambda x: cells.MultiRNNCell(lstm_of()), TypeError, "list or tuple of cells"),
        (lambda x: cells.MultiRNNCell([]), ValueError, "cells is empty"),
        (lambda x: cells.MultiRNNCell([lstm_of()], False), ValueError, "cannot be tuples"),
        (lambda x: cells.MultiRNNCell([lstm_of()])(x[:, 0], ()), ValueError, "a tuple of 1 states"),
        (lambda x: cells.DropoutWrapper(3), TypeError, "cell must be a cell"),
        (lambda x: cells.DropoutWrapper(lstm_of(), 0.0), ValueError, "input_keep_prob must be above 0 and up to 1"),
        (lambda x: cells.DropoutWrapper(lstm_of(), variational_recurrent=True), ValueError, "needs the dtype"),
        (
            lambda x: cells.DropoutWrapper(lstm_of(), 0.5, variational_recurrent=True, dtype=x.dtype),
            ValueError,
            "needs the input_size",
        ),
        (lambda x: lstm_of()(x[:, 0], x[:, 0]), ValueError, "the state of an LSTM cell is a pair"),
        (lambda x: cells.ResidualWrapper(lstm_of())(x[:, 0], (np.zeros([3, 5]),) * 2), ValueError, "cannot be added"),
        (lambda x: lstm_of().get_initial_state(), ValueError, "needs inputs, or a batch_size and a dtype"),
        (lambda x: cells.RNNCell().state_size, NotImplementedError, "RNNCell has no state_size"),
        (lambda x: cells.RNNCell()(x, x), NotImplementedError, "no call"),
        (lambda x: cells.LSTMStateTuple(x, af.constant(1.0)).dtype, TypeError, "c is float64 and h is float32"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    x = af.constant(X)
    with pytest.raises(kind, match=text):
        build(x)
    assert names() == []


def test_the_number_of_features_must_be_known(graph):
    with pytest.raises(ValueError, match=r"number of features of the inputs must be known, their shape is \[3, \?\]"):
        af.nn.dynamic_rnn(cells.LSTMCell(UNITS), fed(2), dtype=af.float64)


@EXECUTORS
async def test_lengths_of_another_batch_are_an_error_in_the_run(graph, executor):
    x, lengths = fed(0), af.placeholder(af.int64, [None])
    outputs, _ = af.nn.dynamic_rnn(cells.GRUCell(UNITS), x, lengths, dtype=af.float64)
    assert (await run(outputs, {x: X, lengths: LENGTHS}, executor)).shape == (BATCH, STEPS, UNITS)
    with pytest.raises(af.errors.InvalidArgumentError, match="a length for each sequence"):
        await run(outputs, {x: X, lengths: [2]}, executor)


async def test_activations_are_known_by_name(graph):
    inputs = af.constant(X[:, 0])
    by_name, by_function = [
        cells.BasicRNNCell(UNITS, activation=each, name=f"cell_{i}", dtype=af.float64)
        for i, each in enumerate(["relu", af.nn.relu])
    ]
    state = af.zeros([BATCH, UNITS], af.float64)
    named, plain = [cell(inputs, state)[0].op.type for cell in (by_name, by_function)]
    assert named == plain
    with pytest.raises(ValueError, match="'softly' is no activation; the names are elu, exponential"):
        cells.GRUCell(UNITS, activation="softly")
