"""SGD steps of an LSTM of 256 units over 50 steps: `dynamic_rnn`, a jitted scan, and PyTorch's nn.LSTM.

The loss is the mean square of all outputs, and the gradients are by the kernel and the bias. aioflow and PyTorch have
one op for all steps. TensorFlow runs its v1 while_loop with TensorArrays for the inputs and outputs of iterations; its
cell is defined below, since Keras 2 removed the original. aioflow is also measured with such a loop. If aioflow finds
oneDNN, it is measured with and without. The losses of the first three steps must agree on all sides.
"""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import onednn, peers, training_sides
from benchmarks.harness import Step, alternate
from benchmarks.report import Row, timed_row

UNITS, INPUTS, STEPS, BATCH = 256, 256, 50, 32
RATE = 10.0
LOOP = "aioflow, while_loop"
DRAW = np.random.default_rng(1)
SEQUENCES = DRAW.standard_normal((BATCH, STEPS, INPUTS), np.float32)
KERNEL = DRAW.standard_normal((INPUTS + UNITS, 4 * UNITS), np.float32) / np.float32(np.sqrt(INPUTS + UNITS))
"""Rows for inputs and then for the previous output; columns for input gate, candidate, forget gate and output gate."""


async def rows() -> AsyncIterator[Row]:
    """Measure the LSTM."""
    sides = onednn.sides(functools.partial(training_sides.aioflow, _in_aioflow, SEQUENCES)) | {
        LOOP: training_sides.aioflow(_in_a_loop, SEQUENCES),
        peers.TENSORFLOW: training_sides.tensorflow(_in_tensorflow, SEQUENCES),
        peers.TORCH: torch(),
        peers.JAX: jax(),
    }
    timing = await alternate(sides, agree=1e-4)
    claims = onednn.claims(timing, 1)
    yield timed_row(f"LSTM {UNITS}, {STEPS} steps, batch {BATCH}, SGD step", timing, claims)


def _in_aioflow(af: Any) -> tuple[Any, Any, Any]:
    return training(af, af.nn.rnn_cell.LSTMCell(UNITS, initializer=af.constant_initializer(KERNEL)))


def _in_a_loop(af: Any) -> tuple[Any, Any, Any]:
    class Repeated(af.nn.rnn_cell.LSTMCell):  # type: ignore[misc]
        """A cell that might compute something else in each step, so that a loop calls it."""

    return training(af, Repeated(UNITS, initializer=af.constant_initializer(KERNEL)))


def _in_tensorflow(tf: Any) -> tuple[Any, Any, Any]:
    return training(tf, Cell(tf))


def training(module: Any, cell: Any) -> tuple[Any, Any, Any]:
    """Build the placeholder for sequences, the loss, and a training step, in the current graph."""
    sequences = module.placeholder(module.float32, SEQUENCES.shape)
    outputs, _ = module.nn.dynamic_rnn(cell, sequences, dtype=module.float32)
    loss = module.reduce_mean(module.square(outputs))
    return sequences, loss, module.train.GradientDescentOptimizer(RATE).minimize(loss)


class Cell:
    """Computes like TensorFlow's LSTMCell, in the form that its dynamic_rnn takes."""

    state_size = (UNITS, UNITS)
    output_size = UNITS

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._kernel = tf.Variable(KERNEL).read_value()
        self._bias = tf.Variable(tf.zeros([4 * UNITS])).read_value()

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the initial state."""
        return (self._tf.zeros([batch_size, UNITS], dtype),) * 2

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Return the output and the state after one step."""
        tf, (memory, output) = self._tf, state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, output], 1), self._kernel), self._bias)
        write, candidate, keep, show = tf.split(gates, 4, axis=1)
        memory = tf.sigmoid(keep + 1.0) * memory + tf.sigmoid(write) * tf.tanh(candidate)
        output = tf.sigmoid(show) * tf.tanh(memory)
        return output, (memory, output)


@asynccontextmanager
async def torch() -> AsyncIterator[Step]:
    """Yield a step that trains PyTorch's LSTM once on the sequences and returns its loss."""
    module = peers.torch()
    lstm = torch_lstm(module)
    optimizer = module.optim.SGD([each for each in lstm.parameters() if each.requires_grad], lr=RATE)
    sequences = module.from_numpy(SEQUENCES)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        outputs, _ = lstm(sequences)
        loss = outputs.square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    yield step


def torch_lstm(module: Any) -> Any:
    """Return nn.LSTM with the kernel. Its second bias is constant: 1 for the forget gate."""
    lstm = module.nn.LSTM(INPUTS, UNITS, batch_first=True)
    write, candidate, keep, show = np.split(KERNEL, 4, axis=1)
    weights = np.concatenate([write, keep, candidate, show], axis=1).T
    with module.no_grad():
        lstm.weight_ih_l0.copy_(module.from_numpy(weights[:, :INPUTS]))
        lstm.weight_hh_l0.copy_(module.from_numpy(weights[:, INPUTS:]))
        lstm.bias_ih_l0.zero_()
        lstm.bias_hh_l0.zero_()
        lstm.bias_hh_l0[UNITS : 2 * UNITS] = 1
    lstm.bias_hh_l0.requires_grad_(False)
    return lstm


@asynccontextmanager
async def jax() -> AsyncIterator[Step]:
    """Yield a jitted step that scans over the sequences."""
    module = peers.jax()
    update = peers.jax_sgd(jax_loss, RATE)
    parameters = module.device_put((KERNEL, np.zeros(4 * UNITS, np.float32)))

    def step() -> float:
        nonlocal parameters
        value, parameters = update(parameters, SEQUENCES)
        return float(value)

    yield step


def jax_loss(parameters: Any, sequences: Any) -> Any:
    """Return the mean square of all outputs."""
    module, (kernel, bias) = peers.jax(), parameters

    def cell(state: Any, inputs: Any) -> Any:
        memory, output = state
        gates = module.numpy.concatenate([inputs, output], 1) @ kernel + bias
        write, candidate, keep, show = module.numpy.split(gates, 4, axis=1)
        memory = module.nn.sigmoid(keep + 1) * memory + module.nn.sigmoid(write) * module.numpy.tanh(candidate)
        output = module.nn.sigmoid(show) * module.numpy.tanh(memory)
        return (memory, output), output

    start = (module.numpy.zeros((BATCH, UNITS)),) * 2
    _, outputs = module.lax.scan(cell, start, sequences.swapaxes(0, 1))
    return (outputs**2).mean()
