"""Batch normalisation and its gradient by oneDNN, for float32."""

import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder, Handle, Layout, Routine
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels import onednn_kernels
from aioflow.tensors.dtypes import Array, Namespace

Function = Callable[..., tuple[Array, ...]]
Binding = Callable[[Namespace, NodeView], Function]

_TRAINING, _INFERENCE, _BACKWARD = 64, 96, 128
_GIVEN, _SCALE_AND_SHIFT = 1, 2 | 4
_SRC, _DST, _MEAN, _VARIANCE, _SCALE, _SHIFT = 1, 17, 49, 50, 51, 52
_DIFF_SRC, _DIFF_DST, _DIFF_SCALE, _DIFF_SHIFT = 129, 145, 255, 256
_FEWEST_AXES, _MOST_AXES = 2, 5
SMALL: Final = 1 << 15
"""Elements up to which NumPy is not slower."""


class Problem(NamedTuple):
    """Images of one shape, and how to normalise them."""

    shape: tuple[int, ...]
    channels_last: bool
    epsilon: float
    training: bool

    @property
    def channels(self) -> int:
        """How many there are."""
        return self.shape[-1 if self.channels_last else 1]


MOST_VARIANCES: Final = 1e4
"""A mean whose square is more variances has a rounding, in float32, that changes the result visibly."""


def is_precise(mean: Array, variance: Array, epsilon: float) -> bool:
    """Whether all these means are so small beside the spread that float32 suffices to subtract them."""
    return not (mean * mean > (variance + np.float32(epsilon)) * np.float32(MOST_VARIANCES)).any()


class _Building:
    def __init__(self, build: Builder, problem: Problem) -> None:
        layout = Layout.dense(problem.shape)
        self.build = build
        self.images = build.layout(layout.channels_second() if problem.channels_last else layout)
        self.vector = build.layout(Layout.dense((problem.channels,)))
        self._epsilon = c_float(problem.epsilon)
        self._training = problem.training
        self._flags = _SCALE_AND_SHIFT | (0 if problem.training else _GIVEN)

    def forward(self) -> Handle:
        create = "dnnl_batch_normalization_forward_primitive_desc_create"
        purpose = _TRAINING if self._training else _INFERENCE
        return self.build.primitive(create, purpose, self.images, self.images, self._epsilon, self._flags)

    def backward(self) -> Handle:
        create = "dnnl_batch_normalization_backward_primitive_desc_create"
        three = (self.images,) * 3
        forward = "dnnl_batch_normalization_forward_primitive_desc_create"
        hint = self.build.primitive(forward, _TRAINING, *three[:2], self._epsilon, self._flags)
        return self.build.primitive(create, _BACKWARD, *three, self._epsilon, self._flags, hint)

    def arguments(self, images: tuple[int, ...], vectors: tuple[int, ...]) -> Any:
        """Places for these arguments, in this order."""
        places = {argument: self.build.array(self.images) for argument in images}
        return places | {argument: self.build.array(self.vector) for argument in vectors}


def _forward(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    build.run(of.forward(), of.arguments((_SRC, _DST), (_SCALE, _SHIFT, _MEAN, _VARIANCE)))


def _backward(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    vectors = (_SCALE, _MEAN, _VARIANCE, _DIFF_SCALE, _DIFF_SHIFT)
    build.run(of.backward(), of.arguments((_DIFF_DST, _SRC, _DIFF_SRC), vectors))


def _found(
    lib: Library, build: Callable[[Problem, Builder], None], problem: Problem, x: Array, *vectors: Array
) -> Routine | None:
    fits = _FEWEST_AXES <= x.ndim <= _MOST_AXES and x.size > SMALL
    if not fits or any(vector.shape != (problem.channels,) for vector in vectors):
        return None
    return ROUTINES.find(lib, (build, problem), functools.partial(build, problem))


def _normalise(node: NodeView, lib: Library, otherwise: Function) -> Function:
    epsilon, training, last = _attributes(node)

    def compute(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        problem = Problem(x.shape, last, epsilon, training)
        given, empty = () if training else (mean, variance), (mean, variance)
        routine = _found(lib, _forward, problem, x, scale, offset, *given)
        if routine is None:
            return otherwise(x, scale, offset, mean, variance)
        y = onednn_kernels.result(x.shape)
        mean, variance = _ready(*given) if given else (np.empty_like(scale), np.empty_like(scale))
        images, *vectors = _ready(x, scale, offset)
        routine(images, y, *vectors, mean, variance)
        if not training:
            return y, mean.copy(), variance.copy(), mean.copy(), variance.copy()
        if not is_precise(mean, variance, epsilon):
            return otherwise(x, scale, offset, *empty)
        count = x.size // problem.channels
        return y, mean, variance * np.float32(count / max(count - 1, 1)), mean.copy(), variance

    return compute


def _gradient(node: NodeView, lib: Library, otherwise: Function) -> Function:
    epsilon, training, last = _attributes(node)

    def compute(dy: Array, x: Array, scale: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        problem = Problem(x.shape, last, epsilon, training)
        fits = dy.shape == x.shape
        routine = _found(lib, _backward, problem, x, scale, mean, variance) if fits else None
        if routine is None or (training and not is_precise(mean, variance, epsilon)):
            return otherwise(dy, x, scale, mean, variance)
        dx, dscale, doffset = onednn_kernels.result(x.shape), np.empty_like(scale), np.empty_like(scale)
        gradients, images, *vectors = _ready(dy, x, scale, mean, variance)
        routine(gradients, images, dx, *vectors, dscale, doffset)
        return dx, dscale, doffset

    return compute


def _attributes(node: NodeView) -> tuple[float, bool, bool]:
    attrs = node.attrs
    return attrs["epsilon"], attrs["is_training"], attrs["data_format"] == "NHWC"


def _ready(*arrays: Array) -> list[Array]:
    return [np.ascontiguousarray(array) for array in arrays]


def declare(ops: tuple[Op[Any], Op[Any]], plain: tuple[Binding, Binding]) -> None:
    """Declare the kernels of batch normalisation and of its gradient, beside those by NumPy alone."""
    for op, bind, binding in zip(ops, (_normalise, _gradient), plain, strict=True):
        onednn_kernels.declare(op, bind, binding)
