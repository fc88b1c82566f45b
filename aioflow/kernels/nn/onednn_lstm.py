"""The steps of an LSTM with products and the logistic function by oneDNN, for float32.

oneDNN's own LSTM primitive is no faster without AVX-512, where its products are those of dnnl_sgemm. It keeps a
workspace for the gradient, three times as large, that only the same library on the same processor can read.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels import onednn_kernels
from aioflow.kernels.linalg import onednn_packed
from aioflow.kernels.linalg.onednn_matmul import faster
from aioflow.kernels.math.onednn_elementwise import write_logistic
from aioflow.kernels.nn import lstm_steps
from aioflow.tensors.dtypes import Array, Namespace, int32

Function = Callable[..., tuple[Array, ...]]
Binding = Callable[[Namespace, NodeView], Function]

SMALL: Final = 1 << 11
"""The number of elements up to which NumPy's logistic function is not slower than a call of the library."""
_ALONE: Final = 1 << 14
"""The number of elements up to which one thread computes it as fast as several."""


class _Functions(lstm_steps.Functions):
    """Products, and the logistic function, of oneDNN. Its tanh is slower than NumPy's."""

    def __init__(self, xp: Namespace, library: Library) -> None:
        super().__init__(xp, faster(library, np.dot))
        self._library = library

    def affine(self, x: Array, kernel: Array, bias: Array, out: Array) -> None:
        """Write x @ kernel + bias to `out`."""
        if not onednn_packed.affine(self._library, x, np.ascontiguousarray(kernel), np.ascontiguousarray(bias), out):
            super().affine(x, kernel, bias, out)

    def multiplier(self, matrix: Array, rows: int, adds: bool) -> Callable[[Array, Array], object]:
        """A function (a, out) for matrices `a` of that many rows: out becomes a @ matrix, or out + a @ matrix."""
        packed = onednn_packed.multiplier(self._library, matrix, rows, adds)
        return super().multiplier(matrix, rows, adds) if packed is None else packed

    def sigmoid(self, x: Array) -> None:
        """Replace x by its logistic function."""
        if x.size <= SMALL or not write_logistic(self._library, x, x, alone=x.size <= _ALONE):
            super().sigmoid(x)


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
