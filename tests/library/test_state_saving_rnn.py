"""Recurrent nets whose state an object keeps: library/state_saving_rnn.py."""

import numpy as np
import pytest

import aioflow as af

cells = af.nn.rnn_cell
X = np.random.default_rng(3).standard_normal((6, 2, 3))


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Kept:
    """Keeps each state in a variable."""

    def __init__(self, *names):
        self.states = {name: af.Variable(np.zeros([2, 4]), trainable=False) for name in names}

    def state(self, name):
        return self.states[name].value()

    def save_state(self, name, value):
        return self.states[name].assign(value, read_value=False)


@pytest.mark.parametrize(
    ("make", "names"),
    [(lambda: cells.BasicRNNCell(4), "h"), (lambda: cells.LSTMCell(4), ("c", "h"))],
)
async def test_parts_one_after_the_other_are_the_whole(graph, make, names):
    cell, saver, x = make(), Kept(*names), af.placeholder(af.float64, [3, 2, 3])
    outputs, state = af.nn.static_state_saving_rnn(cell, af.unstack(x), saver, names)
    with af.variable_scope(af.get_variable_scope(), reuse=True):
        whole, last = af.nn.static_rnn(cell, af.unstack(af.constant(X)), dtype=af.float64)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        parts = [await session.run(outputs, {x: part}) for part in (X[:3], X[3:])]
        expected, states = await session.run([whole, af.nest.flatten(last)])
        np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-12)
        for name, wanted in zip(names, states, strict=True):
            np.testing.assert_allclose(await session.run(saver.states[name]), wanted, atol=1e-12)
        before = await session.run(saver.states[names[0]])
        await session.run(state, {x: X[:3]})
        assert (await session.run(saver.states[names[0]]) != before).any()


@pytest.mark.parametrize(
    ("make", "names", "message"),
    [
        (lambda: cells.LSTMCell(4), "c", "a tuple of names, one for each part of the state, not 'c'"),
        (lambda: cells.LSTMCell(4), ("c",), "the cell has 2 states, and 1 names are given"),
        (lambda: cells.BasicRNNCell(4), ("c",), "must be one name"),
    ],
)
def test_names_that_do_not_fit_the_state_are_refused(make, names, message):
    with pytest.raises(ValueError, match=message):
        af.nn.static_state_saving_rnn(make(), [af.ones([2, 3])], Kept("c"), names)
