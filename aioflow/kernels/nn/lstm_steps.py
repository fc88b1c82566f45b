"""The steps of an LSTM, forward and backward, on arrays of NumPy or CuPy.

One product computes the inputs' part of the gates of all steps: large products are faster than many small ones. Only
the product with the output before belongs to a step.

Each gate multiplies one value: the input gate the candidate, the output gate tanh(c), the forget gate the c before.
The gates lie in that order in one array and those values in another, all steps of one after all of the other. So each
array of a step is contiguous, and one operation computes the factors of three gradients.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.resources import variable_memory
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors.dtypes import Array, Namespace

Pair = tuple[Array, Array]
_ORDER: Final = "iofc"
"""The order of the gates here, and last the candidate."""


class Gates(NamedTuple):
    """What the gradient needs: input, output and forget gate; and the candidate, tanh(c) and the c before.

    Each is [3, steps, batch, units], or [3, batch, units] at one step.
    """

    gates: Array
    gated: Array

    def at(self, step: int) -> "Gates":
        """Those of one step."""
        return Gates(self.gates[:, step], self.gated[:, step])


class Functions:
    """The functions of arrays that the steps are made of. A subclass has faster ones."""

    def __init__(self, xp: Namespace, product: Callable[..., Array]) -> None:
        self.xp = xp
        self.product = product

    def gates(self, order: str, x: Array, weights: Sequence[Array], made: Gates) -> Callable[[int, Array, Gates], None]:
        """A function (step, h, now) that computes the gates and the candidate of a step from the output before it."""
        xp, (kernel, recurrent, bias) = self.xp, [_ordered(order, weight) for weight in weights]
        steps, batch, size = x.shape
        inputs = self.empty((steps, batch, len(bias)), x.dtype)
        self.product(xp.ascontiguousarray(x).reshape(steps * batch, size), kernel, inputs.reshape(-1, len(bias)))
        inputs += bias
        sums = xp.empty((batch, len(bias)), x.dtype)
        scratch = xp.empty((3, batch, len(bias) // 4), x.dtype)
        *_, of_candidate = parts = sums.reshape(batch, 4, len(bias) // 4).swapaxes(0, 1)

        def compute(step: int, h: Array, now: Gates) -> None:
            self.product(h, recurrent, sums)
            xp.add(sums, inputs[step], out=sums)
            xp.tanh(of_candidate, out=now.gated[0])
            _write_logistic(xp, parts[:3], scratch, now.gates)

        return compute

    def slopes(self, made: Gates) -> Callable[[int], Pair]:
        """A function from a step to the factors of its gradients.

        The first three lead from d_c, d_h and d_c to the sums of input, output and forget gate, the others from d_c to
        the sum of the candidate, and from d_h to c. The slope of a logistic function y is (1 - y) * y, that of a
        hyperbolic tangent 1 - y * y.
        """
        xp, shape = self.xp, made.gates.shape[2:]
        logistic, tangent = [xp.empty((count, *shape), made.gates.dtype) for count in (3, 2)]

        def compute(step: int) -> Pair:
            gates, gated = made.at(step)
            xp.subtract(1, gates, out=logistic)
            xp.multiply(logistic, gates, out=logistic)
            xp.multiply(logistic, gated, out=logistic)
            xp.multiply(gated[:2], gated[:2], out=tangent)
            xp.subtract(1, tangent, out=tangent)
            xp.multiply(tangent, gates[:2], out=tangent)
            return logistic, tangent

        return compute

    def go_back(self, recurrent: Array, d_gates: Array) -> Callable[[int, Array, Array], object]:
        """A function (step, parts, d_h) that writes d_gates of a step, and makes d_h the gradient for the h before."""
        matrix = variable_memory.copy(recurrent.T) if self.xp is np else recurrent.T
        _, batch, width = d_gates.shape

        def compute(step: int, parts: Array, d_h: Array) -> None:
            self.xp.copyto(d_gates[step].reshape(batch, 4, width // 4), parts.swapaxes(0, 1))
            self.product(d_gates[step], matrix, d_h)

        return compute

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of any content, which outlives the call."""
        return BUFFERS.empty(shape, np.dtype(dtype)) if self.xp is np else self.xp.empty(shape, dtype)


def _write_logistic(xp: Namespace, x: Array, scratch: Array, out: Array) -> None:
    """Write the logistic function of x. Between these arrays with gaps, `scratch` has none."""
    xp.negative(x, out=scratch)
    xp.exp(scratch, out=scratch)
    scratch += 1
    xp.reciprocal(scratch, out=out)


def named(order: str, columns: Array) -> list[Array]:
    """Views of the columns of input, output and forget gate and the candidate, which have the order `order`."""
    parts = columns.reshape(*columns.shape[:-1], 4, columns.shape[-1] // 4)
    return [parts[..., order.index(gate), :] for gate in _ORDER]


def _ordered(order: str, columns: Array) -> Array:
    """A copy with the columns in the order of this module."""
    parts = columns.reshape(*columns.shape[:-1], 4, columns.shape[-1] // 4)
    return parts[..., [order.index(gate) for gate in _ORDER], :].reshape(columns.shape)


# Forward


def forward(
    by: Functions, order: str, x: Array, weights: Sequence[Array], state: Pair, lengths: Array
) -> tuple[Array, ...]:
    """The outputs, the last h and c, and for the gradient the gates with the values that they multiply."""
    xp, (h, c) = by.xp, state
    steps, (batch, units) = len(x), h.shape
    outputs = by.empty((steps, batch, units), x.dtype)
    made = Gates(*[by.empty((3, steps, batch, units), x.dtype) for _ in "12"])
    compute_gates, h = by.gates(order, x, weights, made), xp.ascontiguousarray(h)
    scratch, last = [xp.empty((batch, units), x.dtype) for _ in "12"]
    cells = [*made.gated[2], last]
    cells[0][...] = c
    for step, output in enumerate(outputs):
        now = made.at(step)
        compute_gates(step, h, now)
        _step(xp, now, cells[step + 1], output, scratch)
        h = _kept_at_ends(xp, lengths <= step, h, cells[step : step + 2], output) if lengths.size else output
    return outputs, h.copy(), last, *made


def _step(xp: Namespace, now: Gates, cell: Array, output: Array, scratch: Array) -> None:
    """Compute c and the output of a step from its gates."""
    (i, o, f), (candidate, bent, before) = now
    xp.multiply(i, candidate, out=scratch)
    xp.multiply(f, before, out=cell)
    cell += scratch
    xp.tanh(cell, out=bent)
    xp.multiply(o, bent, out=output)


def _kept_at_ends(xp: Namespace, ended: Array, h: Array, cells: Sequence[Array], output: Array) -> Array:
    """The h after a step. Sequences that have ended keep h and c, and their output is 0."""
    ended = ended[:, None]
    h = xp.where(ended, h, output)
    xp.copyto(cells[1], cells[0], where=ended)
    xp.copyto(output, 0, where=ended)
    return h


# Backward


def backward(
    by: Functions, order: str, gradients: Sequence[Array], recurrent: Array, made: Gates, lengths: Array
) -> tuple[Array, ...]:
    """The gradients for the gates of all steps, before their functions, and for the h and c before the first step."""
    xp, (d_outputs, d_h, d_c) = by.xp, gradients
    steps, batch, units = d_outputs.shape
    d_h, d_c = d_h.copy(), d_c.copy()
    d_gates = by.empty((steps, batch, 4 * units), d_outputs.dtype)
    parts, scratch = xp.empty((4, batch, units), d_c.dtype), xp.empty_like(d_c)
    d_parts = [parts[order.index(gate)] for gate in _ORDER]
    slopes, go_back = by.slopes(made), by.go_back(recurrent, d_gates)
    for step in reversed(range(steps)):
        kept = (d_h.copy(), d_c.copy()) if lengths.size else None
        d_h += d_outputs[step]
        _step_back(xp, slopes(step), made.gates[2, step], (d_h, d_c), d_parts, scratch)
        go_back(step, parts, d_h)
        if kept is not None:
            ended = (lengths <= step)[:, None]
            for changed, value in ((d_gates[step], 0), (d_h, kept[0]), (d_c, kept[1])):
                xp.copyto(changed, value, where=ended)
    return d_gates, d_h, d_c


def _step_back(
    xp: Namespace, slopes: Pair, forget: Array, state: Pair, d_parts: Sequence[Array], scratch: Array
) -> None:
    """Write the gradients for the gates of a step, and make that for c the one for the c before."""
    (d_h, d_c), (of_gates, (of_candidate, of_c)) = state, slopes
    xp.multiply(d_h, of_c, out=scratch)
    d_c += scratch
    xp.multiply(d_h, of_gates[1], out=d_parts[1])
    for part, slope in ((0, of_gates[0]), (2, of_gates[2]), (3, of_candidate)):
        xp.multiply(d_c, slope, out=d_parts[part])
    d_c *= forget
