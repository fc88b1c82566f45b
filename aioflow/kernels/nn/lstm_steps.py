"""The steps of an LSTM, forward and backward, on arrays of NumPy or CuPy.

One product computes the inputs' part of the gates of all steps: large products are faster than many small ones. Only
the product with the output before belongs to a step. All other work of a step is on arrays that fit the cache.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from aioflow.resources import variable_memory
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors.dtypes import Array, Namespace

Pair = tuple[Array, Array]


class Functions:
    """The functions of arrays that the steps are made of. A subclass has faster ones."""

    def __init__(self, xp: Namespace, product: Callable[..., Array]) -> None:
        self.xp = xp
        self.product = product

    def affine(self, x: Array, kernel: Array, bias: Array, out: Array) -> None:
        """Write x @ kernel + bias to `out`."""
        self.product(x, kernel, out)
        out += bias

    def multiplier(self, matrix: Array, rows: int, adds: bool) -> Callable[[Array, Array], object]:
        """A function (a, out) for matrices `a` of that many rows: out becomes a @ matrix, or out + a @ matrix."""
        if self.xp is np and not matrix.flags.c_contiguous:
            matrix = variable_memory.copy(matrix)
        if not adds:
            return lambda a, out: self.product(a, matrix, out)
        part = self.xp.empty((rows, matrix.shape[1]), matrix.dtype)
        return lambda a, out: self.xp.add(out, self.product(a, matrix, part), out=out)

    def sigmoid(self, x: Array) -> None:
        """Replace x by its logistic function."""
        xp = self.xp
        xp.negative(x, out=x)
        xp.exp(x, out=x)
        x += 1
        xp.reciprocal(x, out=x)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of any content, which outlives the call."""
        return BUFFERS.empty(shape, np.dtype(dtype)) if self.xp is np else self.xp.empty(shape, dtype)


class Made(NamedTuple):
    """The outputs, c with tanh(c), and the gates after their functions: of all steps, or of one."""

    outputs: Array
    cells: Array
    gates: Array

    def at(self, step: int) -> "Made":
        """Those of one step."""
        return Made(self.outputs[step], self.cells[:, step], self.gates[step])


# Forward


def forward(
    by: Functions, order: str, x: Array, weights: Sequence[Array], state: Pair, lengths: Array
) -> tuple[Array, ...]:
    """The outputs, the last h and c, and for the gradient c with tanh(c), and the gates, of all steps."""
    xp, (kernel, recurrent, bias), (h, c) = by.xp, weights, state
    steps, batch, size = x.shape
    units, width = recurrent.shape
    sizes = (steps, batch, units), (2, steps, batch, units), (steps, batch, width)
    made = Made(*[by.empty(each, x.dtype) for each in sizes])
    inputs, gates = xp.ascontiguousarray(x).reshape(steps * batch, size), made.gates.reshape(steps * batch, width)
    by.affine(inputs, kernel, bias, gates)
    add_recurrent, h = by.multiplier(recurrent, batch, True), xp.ascontiguousarray(h)
    scratch = xp.empty((batch, units), x.dtype)
    for step in range(steps):
        now = made.at(step)
        add_recurrent(h, now.gates)
        _step(by, order, now, c, scratch)
        h, c = _kept_at_ends(xp, lengths, step, now, (h, c)) if lengths.size else (now.outputs, now.cells[0])
    return made.outputs, h.copy(), c.copy(), made.cells, made.gates


def _step(by: Functions, order: str, now: Made, before: Array, scratch: Array) -> None:
    """Apply the functions of the gates, and compute c and the output, given the c before."""
    xp, (i, f, candidate, o) = by.xp, _named(order, now.gates)
    cell, bent = now.cells
    xp.copyto(scratch, candidate)
    by.sigmoid(now.gates)
    xp.tanh(scratch, out=candidate)
    xp.multiply(i, candidate, out=scratch)
    xp.multiply(f, before, out=cell)
    cell += scratch
    xp.tanh(cell, out=bent)
    xp.multiply(o, bent, out=now.outputs)


def _kept_at_ends(xp: Namespace, lengths: Array, step: int, now: Made, before: Pair) -> Pair:
    """The h and c after a step. Sequences that have ended keep them, and their output is 0."""
    (h, c), ended = before, (lengths <= step)[:, None]
    h = xp.where(ended, h, now.outputs)
    xp.copyto(now.cells[0], c, where=ended)
    xp.copyto(now.outputs, 0, where=ended)
    return h, now.cells[0]


# Backward


def backward(
    by: Functions, order: str, gradients: Sequence[Array], recurrent: Array, first: Array, made: Made, lengths: Array
) -> tuple[Array, ...]:
    """The gradients for the gates of all steps, before their functions, and for the h and c before the first step.

    `first` is that c.
    """
    xp, (d_outputs, d_h, d_c) = by.xp, gradients
    d_h, d_c = d_h.copy(), d_c.copy()
    d_gates = by.empty(made.gates.shape, made.gates.dtype)
    go_back = by.multiplier(recurrent.T, len(d_h), False)
    scratch = xp.empty((2, *made.gates.shape[1:]), recurrent.dtype)
    for step in reversed(range(len(d_gates))):
        kept = (d_h.copy(), d_c.copy()) if lengths.size else None
        d_h += d_outputs[step]
        before = made.cells[0, step - 1] if step else first
        _step_back(xp, order, made.at(step), before, (d_h, d_c), d_gates[step], scratch)
        if kept is not None:
            ended = (lengths <= step)[:, None]
            xp.copyto(d_gates[step], 0, where=ended)
        go_back(d_gates[step], d_h)
        if kept is not None:
            xp.copyto(d_h, kept[0], where=ended)
            xp.copyto(d_c, kept[1], where=ended)
    return d_gates, d_h, d_c


def _step_back(
    xp: Namespace, order: str, now: Made, before: Array, state: Pair, d_gates: Array, scratch: Array
) -> None:
    """Write the gradient for the gates of a step, and make that for c the one for the c before.

    The slope of a logistic function y is (1 - y) * y, that of a hyperbolic tangent 1 - y * y. The first operation reads
    all gates in the order of memory, and the last one writes so: others, on parts of rows, find them in the cache.
    """
    (slope, found), (d_h, d_c), bent = scratch, state, now.cells[1]
    xp.subtract(1, now.gates, out=slope)
    slope *= now.gates
    i, f, candidate, o = _named(order, now.gates)
    d_i, d_f, d_candidate, d_o = _named(order, found)
    at_candidate = _named(order, slope)[2]
    xp.multiply(candidate, candidate, out=at_candidate)
    xp.subtract(1, at_candidate, out=at_candidate)
    xp.multiply(d_h, bent, out=d_o)
    d_h *= o
    d_c += d_h
    d_h *= bent
    d_h *= bent
    d_c -= d_h
    xp.multiply(d_c, candidate, out=d_i)
    xp.multiply(d_c, before, out=d_f)
    xp.multiply(d_c, i, out=d_candidate)
    d_c *= f
    xp.multiply(found, slope, out=d_gates)


def _named(order: str, gates: Array) -> list[Array]:
    """Views of i, f, the candidate and o, given rows of gates."""
    parts = gates.reshape(len(gates), 4, gates.shape[1] // 4).swapaxes(0, 1)
    return [parts[order.index(gate)] for gate in "ifco"]
