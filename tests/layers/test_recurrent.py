"""Recurrent layers: cells and layers are the same, in loops and unrolled; states stay; `oracle/` has the numbers."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers

RANDOM = np.random.default_rng(6)
X = RANDOM.standard_normal((2, 5, 3)).astype(np.float32)
MASK = np.array([[True, True, False, True, True], [True, True, True, False, False]])


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def like(session, one, other):
    """Give a layer the weights of another."""
    await session.run([mine.assign(theirs) for mine, theirs in zip(one.weights, other.weights, strict=True)])


@pytest.mark.parametrize("name", ["SimpleRNN", "LSTM", "GRU"])
@pytest.mark.parametrize("given", [{}, {"mask": MASK}, {"sequence_length": [5, 3]}], ids=["all", "mask", "lengths"])
@pytest.mark.parametrize("options", [{"return_sequences": True}, {"go_backwards": True}], ids=["all", "last"])
async def test_a_layer_its_cell_repeated_and_the_unrolled_one_agree(name, given, options):
    options = {**options, "return_state": True}
    whole = getattr(layers, name)(4, **options)
    cells = layers.RNN(getattr(layers, f"{name}Cell")(4), **options)
    unrolled = getattr(layers, name)(4, unroll=True, **options)
    made = [layer(X, **given) for layer in (whole, cells, unrolled)]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        await like(session, cells, whole)
        await like(session, unrolled, whole)
        first, *others = await session.run(made)
    for other in others:
        for one, another in zip(first, other, strict=True):
            np.testing.assert_allclose(one, another, rtol=1e-5, atol=1e-6)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("options", "given", "op"),
    [
        ({}, {}, "lstm"),
        ({"go_backwards": True, "use_bias": False, "dropout": 0.5}, {"sequence_length": [5, 3]}, "lstm"),
        ({"recurrent_dropout": 0.5}, {}, "while_loop"),
        ({"activation": "relu"}, {}, "while_loop"),
        ({"recurrent_activation": "hard_sigmoid"}, {}, "while_loop"),
        ({}, {"mask": MASK}, "while_loop"),
        ({"unroll": True}, {}, "matmul"),
    ],
)
def test_all_steps_of_a_usual_lstm_are_one_operation(graph, options, given, op):
    layers.LSTM(4, **options)(X, training=True, **given)
    types = {operation.type for operation in graph.get_operations()}
    assert types & {"lstm", "while_loop", op} == {op}


async def test_stacked_cells_are_layers_one_on_the_other():
    stacked = layers.RNN([layers.LSTMCell(4), layers.GRUCell(2)], return_state=True)
    lower, upper = layers.LSTM(4, return_sequences=True), layers.GRU(2)
    output, states, last = stacked(X)
    apart = upper(lower(X))
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        await session.run([a.assign(b) for a, b in zip([*lower.weights, *upper.weights], stacked.weights, strict=True)])
        one, (memory, _), two, other = await session.run([output, states, last, apart])
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(one, two)
    assert memory.shape == (2, 4)


async def test_a_cell_of_ones_own_is_repeated_from_the_states_that_it_is_given():
    class Adding(layers.Layer):
        state_size, output_size = 3, 3

        def call(self, inputs, states, training=False):
            total = states[0] + inputs
            return total * 2.0, [total]

    made = layers.RNN(Adding(), return_sequences=True, return_state=True)(X, initial_state=np.ones((2, 3), np.float32))
    async with af.Session() as session:
        outputs, state = await session.run(made)
    np.testing.assert_allclose(outputs, 2 * (1 + X.cumsum(1)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state, 1 + X.sum(1), rtol=1e-5, atol=1e-5)


async def test_the_same_places_are_dropped_in_all_steps():
    ones = np.ones((2, 6, 40), np.float32)
    options = {"use_bias": False, "activation": "linear", "kernel_initializer": "identity"}
    plain = layers.RNN(
        layers.SimpleRNNCell(40, recurrent_initializer="zeros", dropout=0.5, seed=1, **options), return_sequences=True
    )
    found = plain(ones, training=True)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        outputs = await session.run(found)
    assert set(np.unique(outputs)) == {0, 2}
    assert (outputs == outputs[:, :1]).all()


async def test_a_stateful_layer_goes_on_where_the_run_before_ended():
    async with af.Sequential([layers.Input([5, 3], batch_size=2), layers.LSTM(4, stateful=True)]) as model:
        (layer,) = model.layers
        whole = layers.LSTM(4)
        both = whole(np.concatenate([X, X], 1))
        first, second = await model.predict(X), await model.predict(X)
        await model.reset_states()
        again, values = await model.predict(X), await model.get_weights()
        async with af.Session() as session:
            for weight, value in zip(whole.weights, values[:3], strict=True):
                await session.run(weight.assign(value))
            expected = await session.run(both)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-6)
    assert [weight.op.name for weight in layer.non_trainable_weights] == ["lstm/state_0", "lstm/state_1"]


async def test_a_convolutional_lstm_with_windows_of_one_is_an_lstm_at_each_place():
    films = RANDOM.standard_normal((2, 5, 4, 3)).astype(np.float32)
    convolutional, plain = layers.ConvLSTM1D(2, 1), layers.LSTM(2)
    made, rows = convolutional(films), plain(films.transpose(0, 2, 1, 3).reshape(8, 5, 3))
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        kernels = await session.run(plain.weights)
        for weight, value in zip(convolutional.weights, kernels, strict=True):
            await session.run(weight.assign(value.reshape(weight.shape.as_list())))
        one, other = await session.run([made, rows])
    np.testing.assert_allclose(one, other.reshape(2, 4, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: layers.RNN(3), TypeError, "a cell is a layer with a state_size, such as LSTMCell"),
        (lambda: layers.RNN([]), ValueError, "cells is a list of one cell or more"),
        (lambda: layers.StackedRNNCells(layers.LSTMCell(2)), TypeError, "cells is a list of cells"),
        (lambda: layers.LSTM(2, return_state="yes"), TypeError, "return_state is True or False, not 'yes'"),
        (
            lambda: layers.LSTM(2)(X, initial_state=X[:, 0]),
            ValueError,
            "initial_state has 1 states, and the layer has 2",
        ),
        (lambda: layers.GRUCell(2)(X[:, 0], [X[:, 0], X[:, 0]]), ValueError, "1 states are wanted, not 2"),
        (
            lambda: layers.GRU(2, stateful=True)(af.placeholder(af.float32, [None, 5, 3])),
            ValueError,
            "a stateful layer needs a known size of batches",
        ),
        (
            lambda: layers.Bidirectional(
                layers.GRU(2, return_sequences=True), backward_layer=layers.GRU(2, go_backwards=True)
            ),
            ValueError,
            "one layer returns the outputs of all steps",
        ),
        (lambda: layers.TimeDistributed(layers.Dense(2))(X[0]), ValueError, "rank 3 or more is wanted"),
        (lambda: layers.ConvLSTM2D(2, 3)(X), ValueError, "rank 5 is wanted"),
    ],
)
def test_cells_states_and_inputs_that_do_not_fit_are_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()
