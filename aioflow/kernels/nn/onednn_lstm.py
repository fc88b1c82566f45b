"""The steps of an LSTM with products and functions by oneDNN, for float32.

A product adds to the inputs' part of the gates, and applies their function before it writes them. The factors of the
gradients are computed for all steps at once, on all cores.

oneDNN's own LSTM primitive keeps a workspace for the gradient that only the same library on the same processor can
read.
"""

import functools
from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Builder, Layout, Routine
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels import onednn_kernels
from aioflow.kernels.linalg import onednn_packed
from aioflow.kernels.linalg.onednn_matmul import SMALL, faster
from aioflow.kernels.linalg.onednn_packed import Product
from aioflow.kernels.nn import lstm_steps
from aioflow.kernels.nn.lstm_steps import Gates, Pair, named
from aioflow.tensors.dtypes import Array, Namespace, int32

Function = Callable[..., tuple[Array, ...]]
Binding = Callable[[Namespace, NodeView], Function]

_LOGISTIC, _TANH = 0x29, 0x21
_LOGISTIC_OF_RESULT, _TANH_OF_RESULT = 0x104, 0x101
"""oneDNN's numbers of the same functions, where gradients are computed from their results."""
_TRAINING: Final = 64
_DST, _DIFF_SRC, _DIFF_DST = 17, 129, 145
BLOCK: Final = 1 << 16
"""The outputs of a block of steps: the factors of their gradients fit the cache. Of fewer NumPy computes them."""


class _Functions(lstm_steps.Functions):
    """Those of oneDNN where NumPy is slower."""

    def __init__(self, xp: Namespace, library: Library) -> None:
        super().__init__(xp, faster(library, np.dot))
        self._library = library

    def gates(self, order: str, x: Array, weights: Sequence[Array], made: Gates) -> Callable[[int, Array, Gates], None]:
        """A function (step, h, now) that computes the gates and the candidate of a step from the output before it."""
        steps, batch, units = made.gates.shape[1:]
        if not x.size or batch * weights[1].size <= SMALL:
            return super().gates(order, x, weights, made)
        kernels, recurrent, biases = [named(order, weight) for weight in weights]
        strides, total = (steps * batch * units, units, 1), AfterStep.sum()
        add = onednn_packed.multiplier(
            self._library,
            Product(recurrent[:3], Layout((3, batch, units), strides), (total, AfterStep.apply(_LOGISTIC))),
            Product(recurrent[3:], Layout((1, batch, units), strides), (total, AfterStep.apply(_TANH))),
        )
        if add is None:
            return super().gates(order, x, weights, made)
        inputs = np.ascontiguousarray(x).reshape(steps * batch, -1)
        for kernel, bias, part in zip(kernels, biases, [*made.gates, made.gated[0]], strict=True):
            self._affine(inputs, kernel, bias.copy(), part.reshape(steps * batch, units))
        return lambda step, h, now: add(h, now.gates[0], now.gated[0])

    def _affine(self, x: Array, kernel: Array, bias: Array, out: Array) -> None:
        """Write x @ kernel + bias to `out`."""
        if not onednn_packed.affine(self._library, x, kernel, bias, out):
            self.product(x, kernel, out)
            out += bias

    def slopes(self, made: Gates) -> Callable[[int], Pair]:
        """A function from a step to the factors of its gradients. It computes those of a block of steps at once."""
        steps, batch, units = made.gates.shape[1:]
        if steps * batch * units < BLOCK:
            return super().slopes(made)
        block = _block(steps, batch * units)
        of_logistic, of_tanh = [
            self._found(_slopes, function, block * batch * units) for function in (_LOGISTIC_OF_RESULT, _TANH_OF_RESULT)
        ]
        if of_logistic is None or of_tanh is None:
            return super().slopes(made)
        gates, gated = map(np.ascontiguousarray, made)
        logistic, tangent = [np.empty((count, block, batch, units), np.float32) for count in (3, 2)]

        def compute(step: int) -> Pair:
            place = step % block
            if place == block - 1:
                now = slice(step - place, step + 1)
                for y, factor, out in zip(gates, gated, logistic, strict=True):
                    of_logistic(y[now], factor[now], out)
                for y, factor, out in zip(gated[:2], gates[:2], tangent, strict=True):
                    of_tanh(y[now], factor[now], out)
            return logistic[:, place], tangent[:, place]

        return compute

    def go_back(self, recurrent: Array, d_gates: Array) -> Callable[[int, Array, Array], object]:
        """A function (step, parts, d_h) that writes d_gates of a step, and makes d_h the gradient for the h before."""
        _, batch, width = d_gates.shape
        if batch * recurrent.size <= SMALL:
            return super().go_back(recurrent, d_gates)
        gather = self._found(_columns, batch, width)
        product = Product([recurrent.T], Layout.dense((1, batch, len(recurrent))))
        multiply = onednn_packed.multiplier(self._library, product)
        if gather is None or multiply is None:
            return super().go_back(recurrent, d_gates)

        def compute(step: int, parts: Array, d_h: Array) -> None:
            gather(parts, d_gates[step])
            multiply(d_gates[step], d_h)

        return compute

    def _found(self, build: Callable[..., None], *sizes: int) -> Routine | None:
        return ROUTINES.find(self._library, (build, *sizes), functools.partial(build, *sizes))


def _block(steps: int, outputs: int) -> int:
    """The steps of a block, given the outputs of each. They divide all steps, and are all steps if few divide those."""
    most = min(steps, max(1, BLOCK // outputs))
    best = max(count for count in range(1, most + 1) if not steps % count)
    return best if 4 * best > most else steps


def _slopes(function: int, size: int, build: Builder) -> None:
    """Take the results of a function, factors of its slopes, and their products."""
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    hint = build.primitive(
        "dnnl_eltwise_forward_primitive_desc_create", _TRAINING, function, layout, layout, zero, zero
    )
    made = build.primitive(
        "dnnl_eltwise_backward_primitive_desc_create", function, layout, layout, layout, zero, zero, hint
    )
    build.run(made, {place: build.array(layout) for place in (_DST, _DIFF_DST, _DIFF_SRC)})


def _columns(batch: int, width: int, build: Builder) -> None:
    """Take four matrices, and the matrix whose columns are theirs."""
    sizes = 4, batch, width // 4
    parts, whole = Layout.dense(sizes), Layout(sizes, (width // 4, width, 1))
    build.reorder(build.array(build.layout(parts)), build.array(build.layout(whole)))


def declare(
    ops: tuple[Op[Any], Op[Any]],
    bind: tuple[Callable[[lstm_steps.Functions, NodeView], Function], ...],
    plain: tuple[Binding, Binding],
) -> None:
    """Declare the kernels of an LSTM and of its gradient, beside those by NumPy alone."""
    for op, bound, binding in zip(ops, bind, plain, strict=True):

        def bind_node(node: NodeView, library: Library, otherwise: Function, bound: Any = bound) -> Function:
            made: Function = bound(_Functions(np, library), node)
            return made

        onednn_kernels.declare(op, bind_node, binding, beside={int32})
