"""Pooling and its gradients by oneDNN, for float32 and along any number of axes.

oneDNN passes over NaN, and takes a window of -inf alone for one of the lowest finite number; NumPy's maximum does
neither. Both are rare, and seen by the mean of each channel: if one is not finite, NumPy computes. For
the gradient of the highest element the library wants to know where each window has it, which it finds out by pooling
once more; in a window that has nothing above the lowest finite number it may take the padding for that.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder, Handle, MemoryRef, Routine, dims
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn.onednn_convolution import images_layout
from aioflow.kernels.nn.windows import Slide, Sliding
from aioflow.tensors.dtypes import INTEGER, Array, Namespace, float32

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

_TRAINING: Final = 64
_INFERENCE: Final = 96
HIGHEST: Final = 0x1FF
MEAN: Final = 0x3FF
_SRC, _DST, _WORKSPACE, _DIFF_SRC, _DIFF_DST = 1, 17, 64, 129, 145
_FORWARD: Final = "dnnl_pooling_forward_primitive_desc_create"
_OF_WORKSPACE: Final = 135
_LOWEST: Final = np.finfo(np.float32).min
_SHAPES: Final = 8
"""The shapes of images for which a kernel knows its routine."""
SMALL: Final = 1 << 14
"""Elements up to which NumPy is not slower."""


class Geometry(Protocol):
    """How a node pools images."""

    sliding: Sliding

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that images of that shape are pooled to."""

    def slides(self, shape: Sequence[int]) -> Sequence[Slide]:
        """How the window slides over images of that shape."""


class Problem(NamedTuple):
    """A pooling of images of a certain shape."""

    algorithm: int
    x: tuple[int, ...]
    y: tuple[int, ...]
    channels_last: bool
    slides: tuple[Slide, ...]

    @property
    def possible(self) -> bool:
        """Whether oneDNN can do it, and faster than NumPy: it is large, and every window sees more than padding."""
        padded = any(max(slide.before, slide.after) >= slide.window for slide in self.slides)
        return math.prod(self.x) > SMALL and math.prod(self.y) > 0 and not padded


def windows(slides: Sequence[tuple[int, int, int, int]]) -> Sequence[Any]:
    """Stride, size and padding on both sides, along each axis, in oneDNN's form."""
    strides, sizes, before, after = map(dims, zip(*slides, strict=True))
    return strides, sizes, dims([0] * len(slides)), before, after


def add_pooling(build: Builder, algorithm: int, x: MemoryRef, y: MemoryRef, slides: Sequence[Any]) -> None:
    """Add a pooling of `x` to `y`; `slides` as for `windows`."""
    made = build.primitive(_FORWARD, _INFERENCE, algorithm, x.descriptor, y.descriptor, *windows(slides))
    build.run(made, {_SRC: x, _DST: y})


def add_means(build: Builder, x: MemoryRef, y: MemoryRef, sizes: Sequence[int]) -> None:
    """Add the mean of each channel of each image, of these spatial sizes. It is finite only if all elements are."""
    add_pooling(build, MEAN, x, y, [(1, size, 0, 0) for size in sizes])


class _Building:
    def __init__(self, build: Builder, problem: Problem) -> None:
        self.build = build
        self._algorithm = problem.algorithm
        self.x = build.layout(images_layout(problem.x, problem.channels_last))
        self.y = build.layout(images_layout(problem.y, problem.channels_last))
        self._geometry = windows([(each.stride, each.window, each.before, each.after) for each in problem.slides])

    def forward(self, purpose: int) -> Handle:
        return self.build.primitive(_FORWARD, purpose, self._algorithm, self.x, self.y, *self._geometry)

    def backward(self, forward: Handle) -> Handle:
        create = "dnnl_pooling_backward_primitive_desc_create"
        return self.build.primitive(create, self._algorithm, self.x, self.y, *self._geometry, forward)


def _pool(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    x, y = build.array(of.x), build.array(of.y)
    build.run(of.forward(_INFERENCE), {_SRC: x, _DST: y})


def _pool_with_means(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    x, y = build.array(of.x), build.array(of.y)
    build.run(of.forward(_INFERENCE), {_SRC: x, _DST: y})
    means = images_layout(means_of(problem.x, problem.channels_last), problem.channels_last)
    sizes = problem.x[1:-1] if problem.channels_last else problem.x[2:]
    add_means(build, x, build.array(build.layout(means)), sizes)


def means_of(x: tuple[int, ...], channels_last: bool) -> tuple[int, ...]:
    """The shape of the mean of each channel of each image."""
    ones = (1,) * (len(x) - 2)
    return (x[0], *ones, x[-1]) if channels_last else (x[0], x[1], *ones)


def _highest_grad(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    x, dy, dx = build.array(of.x), build.array(of.y), build.array(of.x)
    forward = of.forward(_TRAINING)
    where = build.scratch(build.preferred_layout(forward, _OF_WORKSPACE))
    build.run(forward, {_SRC: x, _DST: build.scratch(of.y), _WORKSPACE: where})
    build.run(of.backward(forward), {_DIFF_DST: dy, _DIFF_SRC: dx, _WORKSPACE: where})


def _mean_grad(problem: Problem, build: Builder) -> None:
    of = _Building(build, problem)
    dy, dx = build.array(of.y), build.array(of.x)
    build.run(of.backward(of.forward(_TRAINING)), {_DIFF_DST: dy, _DIFF_SRC: dx})


def _found(lib: Library, build: Callable[[Problem, Builder], None], problem: Problem) -> Routine | None:
    if not problem.possible:
        return None
    return ROUTINES.find(lib, (build, problem), functools.partial(build, problem))


def problem_of(algorithm: int, geometry: Geometry, x: Sequence[int]) -> Problem:
    """How a node pools images of that shape."""
    return Problem(algorithm, tuple(x), geometry.sizes(x), geometry.sliding.channels_last, tuple(geometry.slides(x)))


Pooling = Callable[[tuple[int, ...]], tuple[Routine | None, tuple[int, ...]]]


def _pooling(build: Callable[[Problem, Builder], None], algorithm: int, geometry: Geometry, lib: Library) -> Pooling:
    """A function that returns the routine for images of a shape, and the shape of the result.

    It remembers the last shapes.
    """

    @functools.lru_cache(_SHAPES)
    def find(shape: tuple[int, ...]) -> tuple[Routine | None, tuple[int, ...]]:
        problem = problem_of(algorithm, geometry, shape)
        return _found(lib, build, problem), problem.y

    return find


def _highest(geometry: Geometry, lib: Library, otherwise: Function) -> Function:
    last = geometry.sliding.channels_last
    find = _pooling(_pool_with_means, HIGHEST, geometry, lib)

    def compute(x: Array) -> Array:
        routine, shape = find(x.shape)
        if routine is None:
            return otherwise(x)
        y, means = onednn_kernels.result(shape), np.empty(means_of(x.shape, last), np.float32)
        routine(np.ascontiguousarray(x), y, means)
        return y if np.isfinite(means).all() else otherwise(x)

    return compute


def _gradient_of_highest(geometry: Geometry, lib: Library, otherwise: Function) -> Function:
    def compute(x: Array, y: Array, dy: Array) -> Array:
        problem = problem_of(HIGHEST, geometry, x.shape)
        routine = _found(lib, _highest_grad, problem) if problem.y == y.shape == dy.shape else None
        if routine is None or not y.min() > _LOWEST:  # as it is for NaN, too
            return otherwise(x, y, dy)
        dx = onednn_kernels.result(problem.x)
        routine(np.ascontiguousarray(x), np.ascontiguousarray(dy), dx)
        return dx

    return compute


def _mean(geometry: Geometry, lib: Library, otherwise: Function) -> Function:
    find = _pooling(_pool, MEAN, geometry, lib)

    def compute(x: Array) -> Array:
        routine, shape = find(x.shape)
        if routine is None:
            return otherwise(x)
        y = onednn_kernels.result(shape)
        routine(np.ascontiguousarray(x), y)
        return y

    return compute


def _gradient_of_mean(geometry: Geometry, lib: Library, otherwise: Function) -> Function:
    def compute(sizes: Array, dy: Array) -> Array:
        problem = problem_of(MEAN, geometry, sizes.tolist())
        routine = _found(lib, _mean_grad, problem) if problem.y == dy.shape else None
        if routine is None:
            return otherwise(sizes, dy)
        dx = onednn_kernels.result(problem.x)
        routine(np.ascontiguousarray(dy), dx)
        return dx

    return compute


Bind = Callable[[Geometry, Library, Function], Function]


def _declare(op: Op[Tensor], bind: Bind, plain: Binding, geometry: Callable[[NodeView], Geometry]) -> None:
    def bind_node(node: NodeView, lib: Library, otherwise: Function) -> Function:
        return bind(geometry(node), lib, otherwise) if node.output_specs[0].dtype is float32 else otherwise

    onednn_kernels.declare(op, bind_node, plain, beside=INTEGER)


def declare(
    highest: bool,
    ops: tuple[Op[Tensor], Op[Tensor]],
    plain: tuple[Binding, Binding],
    geometry: Callable[[NodeView], Geometry],
) -> None:
    """Declare the kernels of pooling by the highest element or by the mean, and of its gradient.

    Args:
        highest: which of the two.
        ops: the pooling and its gradient.
        plain: the kernels that need NumPy alone.
        geometry: how a node pools.
    """
    binds = (_highest, _gradient_of_highest) if highest else (_mean, _gradient_of_mean)
    for op, bind, binding in zip(ops, binds, plain, strict=True):
        _declare(op, bind, binding, geometry)
