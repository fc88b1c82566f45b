"""An LSTM in one op: what its samples cannot express. `tests/library/test_lstm.py` compares it with loops."""

import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.nn.lstm import lstm
from aioflow.plan.op_cost import HEAVY, seconds
from aioflow.tensors.dtypes import float32, int32
from tests.support.evaluate import evaluate
from tests.support.onednn import agree, needs_library, numbers

WHOLE = np.zeros(0, np.int32)


def drawn(steps=5, batch=3, size=4, units=2):
    """The inputs of an op, but for the lengths."""
    shapes = (steps, batch, size), (size, 4 * units), (units, 4 * units), (4 * units,), (batch, units), (batch, units)
    return [numbers(*shape, seed=seed) / 2 for seed, shape in enumerate(shapes)]


@needs_library
@pytest.mark.whole
@pytest.mark.parametrize(
    ("sizes", "lengths", "gates"),
    [
        ((7, 36, 60, 64), WHOLE, "icfo"),
        ((7, 36, 60, 64), np.array([7, 0, 3] * 12, np.int32), "ifco"),
        ((16, 32, 2, 128), WHOLE, "ifco"),
        ((19, 32, 2, 128), np.array([19, 0, 3, 8] * 8, np.int32), "oifc"),
        ((3, 2, 4, 8), WHOLE, "ocif"),
    ],
    ids=["all", "lengths", "blocks", "no blocks", "small"],
)
def test_onednn_computes_what_numpy_does(sizes, lengths, gates):
    def build(*given):
        return concat([reshape(end, [-1]) for end in lstm(*given, lengths, gates=gates)[:3]], 0)

    x, kernel, recurrent_kernel, *rest = drawn(*sizes)
    agree(build, x, kernel, recurrent_kernel * np.float32(16 / sizes[3]), *rest)


def test_steps_after_the_end_of_a_sequence_are_not_looked_at():
    inputs, lengths = drawn(), np.array([2, 5, 0], np.int32)
    spoilt = inputs[0].copy()
    for row, end in enumerate(lengths):
        spoilt[end:, row] = np.nan
    found = []
    for x in (inputs[0], spoilt):
        with Graph().as_default():
            outputs, h, c, *_ = lstm(x, *inputs[1:], lengths)
            found.append(evaluate([outputs, h, c]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    outputs, h, c = found[0]
    assert not outputs[2:, 0].any()
    np.testing.assert_array_equal(h[:2], [outputs[1, 0], outputs[4, 1]])
    np.testing.assert_array_equal([h[2], c[2]], [inputs[4][2], inputs[5][2]])


@pytest.mark.whole
@pytest.mark.parametrize(
    ("place", "value", "kind", "text"),
    [
        (0, np.zeros((5, 3, 4), int), TypeError, "int64"),
        (0, np.zeros((5, 3, 4), np.float16), TypeError, "float16"),
        (0, np.zeros((3, 4), np.float32), ValueError, r"x has rank 3, and its shape is \[3, 4\]"),
        (1, np.zeros((5, 8), np.float32), ValueError, r"kernel has shape \[5, 8\], where 4 is wanted for 5"),
        (2, np.zeros((2, 6), np.float32), ValueError, r"recurrent_kernel has shape \[2, 6\], where 8 is wanted"),
        (4, np.zeros((4, 2), np.float32), ValueError, r"h has shape \[4, 2\], where 3 is wanted for 4"),
        (5, np.zeros((3, 3), np.float32), ValueError, r"c has shape \[3, 3\], where 2 is wanted for 3"),
        (6, np.zeros(2, np.int32), ValueError, r"as many as the 3 sequences, or none, and their shape is \[2\]"),
        (6, np.zeros(3, np.int64), TypeError, "lengths is a vector of int32, not int64"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_when_the_op_is_built(place, value, kind, text):
    inputs = [*drawn(), WHOLE]
    inputs[place] = value
    with Graph().as_default(), pytest.raises(kind, match=text):
        lstm(*inputs)


def test_units_and_gates_that_do_not_fit_are_refused():
    inputs = drawn()
    with Graph().as_default():
        with pytest.raises(ValueError, match="3 units have kernels of 12 columns, not 8"):
            lstm(*inputs[:2], np.zeros((3, 8), np.float32), inputs[3], *[np.zeros((3, 3), np.float32)] * 2, WHOLE)
        with pytest.raises(ValueError, match="an order of the four letters 'ifco', not 'ifgo'"):
            lstm(*inputs, WHOLE, gates="ifgo")


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (1, np.zeros((5, 8), np.float32), r"kernel has shape \[5, 8\], where 4 is wanted for 5"),
        (4, np.zeros((1, 2), np.float32), r"h has shape \[1, 2\], where 3 is wanted for 1"),
        (6, np.zeros(2, np.int32), r"as many as the 3 sequences, or none, and their shape is \[2\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_the_run(place, value, text):
    inputs = [*drawn(), WHOLE]
    inputs[place] = value
    with Graph().as_default():
        feeds = {placeholder(int32 if index == 6 else float32): array for index, array in enumerate(inputs)}
        with pytest.raises(errors.InvalidArgumentError, match=text):
            evaluate(list(lstm(*feeds)[:3]), feeds)


def test_what_is_saved_for_the_gradient_has_none():
    with Graph().as_default():
        x, *rest = drawn()
        given = placeholder(float32, x.shape)
        made = lstm(given, *rest, WHOLE)
        with pytest.raises(ValueError, match="the outputs for the gradient have no gradient themselves"):
            gradients(made[3], given)


def test_the_gradient_for_the_inputs_costs_nothing_if_it_is_not_asked_for():
    with Graph().as_default() as graph:
        x, kernel, *rest = [placeholder(float32, value.shape) for value in drawn()]
        outputs, *_ = lstm(x, kernel, *rest, WHOLE)
        (d_kernel,) = gradients(outputs, kernel)
        needed, waiting = set(), [d_kernel.op]
        while waiting:
            operation = waiting.pop()
            needed.add(operation)
            waiting += [tensor.op for tensor in operation.inputs if tensor.op not in needed]
        products = [operation for operation in graph.get_operations() if operation.type == "matmul"]
        assert len(products) == 2
        assert len(needed.intersection(products)) == 1


@pytest.mark.parametrize("backward", [False, True])
def test_long_sequences_are_worth_a_thread_and_short_ones_are_not(backward):
    def heavy(*sizes):
        with Graph().as_default() as graph:
            given = [placeholder(float32, value.shape) for value in drawn(*sizes)]
            gradients(lstm(*given, WHOLE)[0], given)
            name = "lstm_grad" if backward else "lstm"
            (made,) = [each for each in graph.get_operations() if each.type == name]
            inputs, outputs = ([tensor.spec for tensor in tensors] for tensors in (made.inputs, made.outputs))
            return seconds(made, inputs, outputs) > HEAVY

    assert heavy(50, 32, 256, 256)
    assert not heavy(3, 2, 4, 8)
