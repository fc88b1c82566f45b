"""Layer normalisation and its gradient by oneDNN, for float32."""

import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder, Layout, Routine
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn.onednn_normalisation import is_precise
from aioflow.tensors.dtypes import Array, Namespace

Function = Callable[..., tuple[Array, ...]]
Binding = Callable[[Namespace, NodeView], Function]

_TRAINING, _BACKWARD, _SCALE_AND_SHIFT = 64, 128, 2 | 4
_SRC, _DST, _MEAN, _VARIANCE, _SCALE, _SHIFT = 1, 17, 49, 50, 51, 52
_DIFF_SRC, _DIFF_DST, _DIFF_SCALE, _DIFF_SHIFT = 129, 145, 255, 256
_FORWARD_OF = "dnnl_layer_normalization_forward_primitive_desc_create"
_BACKWARD_OF = "dnnl_layer_normalization_backward_primitive_desc_create"
SMALL: Final = 1 << 14
"""Elements up to which NumPy is not slower."""


class Problem(NamedTuple):
    """How many rows there are, their length, and what is added to the variance."""

    rows: int
    length: int
    epsilon: float


class _Building:
    def __init__(self, build: Builder, problem: Problem) -> None:
        self.build = build
        self.rows, self.column, self.vector = [
            build.layout(Layout.dense(shape))
            for shape in ((problem.rows, problem.length), (problem.rows,), (problem.length,))
        ]
        self._how = self.column, c_float(problem.epsilon), _SCALE_AND_SHIFT
        self.forward = build.primitive(_FORWARD_OF, _TRAINING, self.rows, self.rows, *self._how)

    def backward(self) -> Any:
        return self.build.primitive(_BACKWARD_OF, _BACKWARD, *[self.rows] * 3, *self._how, self.forward)

    def arguments(self, rows: tuple[int, ...], vectors: tuple[int, ...], columns: tuple[int, ...]) -> Any:
        """Places for these arguments, in this order."""
        groups = (self.rows, rows), (self.vector, vectors), (self.column, columns)
        return {argument: self.build.array(layout) for layout, group in groups for argument in group}


def _forward(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    build.run(of.forward, of.arguments((_SRC, _DST), (_SCALE, _SHIFT), (_MEAN, _VARIANCE)))


def _backward(problem: Problem, build: Builder) -> None:
    """The gradient. Its value does not depend on the shift, which the library wants to be given all the same."""
    of = _Building(build, problem)
    vectors = _SCALE, _SHIFT, _DIFF_SCALE, _DIFF_SHIFT
    build.run(of.backward(), of.arguments((_DIFF_DST, _SRC, _DIFF_SRC), vectors, (_MEAN, _VARIANCE)))


def column_of(x: Array, scale: Array) -> tuple[int, ...]:
    """The shape of the statistics of `x`: 1 for each axis of the scale."""
    return (*x.shape[: max(0, x.ndim - scale.ndim)], *[1] * scale.ndim)


def _found(
    lib: Library, build: Callable[[Problem, Builder], None], epsilon: float, x: Array, scale: Array
) -> Routine | None:
    if not scale.ndim or x.shape[max(0, x.ndim - scale.ndim) :] != scale.shape:
        return None
    problem = Problem(x.size // scale.size, scale.size, epsilon)
    return ROUTINES.find(lib, (build, problem), functools.partial(build, problem))


def _normalise(node: NodeView, lib: Library, otherwise: Function) -> Function:
    epsilon, count = node.attrs["epsilon"], node.input_specs[0].shape.num_elements()
    if count is not None and count <= SMALL:
        return otherwise

    def compute(x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
        if x.size <= SMALL:
            return otherwise(x, scale, offset)
        routine = _found(lib, _forward, epsilon, x, scale) if offset.shape == scale.shape else None
        if routine is None:
            return otherwise(x, scale, offset)
        column = column_of(x, scale)
        y, mean, variance = onednn_kernels.result(x.shape), onednn_kernels.result(column), onednn_kernels.result(column)
        rows, *vectors = _ready(x, scale, offset)
        routine(rows, y, *vectors, mean, variance)
        return (y, mean, variance) if is_precise(mean, variance, epsilon) else otherwise(x, scale, offset)

    return compute


def _gradient(node: NodeView, lib: Library, otherwise: Function) -> Function:
    epsilon = node.attrs["epsilon"]

    def compute(dy: Array, x: Array, scale: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        if x.size <= SMALL:
            return otherwise(dy, x, scale, mean, variance)
        fits = dy.shape == x.shape and mean.shape == variance.shape == column_of(x, scale)
        routine = _found(lib, _backward, epsilon, x, scale) if fits else None
        if routine is None or not is_precise(mean, variance, epsilon):
            return otherwise(dy, x, scale, mean, variance)
        dx, dscale, doffset = (
            onednn_kernels.result(x.shape),
            onednn_kernels.result(scale.shape),
            onednn_kernels.result(scale.shape),
        )
        dy, x, scale, mean, variance = _ready(dy, x, scale, mean, variance)
        routine(dy, x, dx, scale, scale, dscale, doffset, mean, variance)
        return dx, dscale, doffset

    return compute


def _ready(*arrays: Array) -> list[Array]:
    return [np.ascontiguousarray(array) for array in arrays]


def declare(ops: tuple[Op[Any], Op[Any]], plain: tuple[Binding, Binding]) -> None:
    """Declare the kernels of layer normalisation and of its gradient, beside those by NumPy alone."""
    for op, bind, binding in zip(ops, (_normalise, _gradient), plain, strict=True):
        onednn_kernels.declare(op, bind, binding)
