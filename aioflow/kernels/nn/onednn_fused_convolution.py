"""A convolution with weights that stay the same, and the steps after it, as one primitive of oneDNN.

The steps for each channel are multiplied into the filter and added up to one bias, and the filter is copied to the
layout that the library prefers: once for as long as the weights are the same arrays. The kernel holds these arrays,
and a held value of a variable never changes.

The library's rectifier turns NaN to 0. Here it is a leaky one with slope 0, which keeps NaN, and then gives NaN for
-inf. Adding 0 makes +0 of its -0.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library, available, library
from aioflow.devices.onednn_primitive import ROUTINES, AfterStep, Builder, Handle, Layout, Routine
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU
from aioflow.kernels.nn.channel_steps import folded, unchanged
from aioflow.kernels.nn.onednn_convolution import SMALL, Building, Problem
from aioflow.kernels.nn.windows import Sliding
from aioflow.tensors.dtypes import Array, Namespace, float32

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

_INFERENCE: Final = 96
_SRC, _SRC_1, _DST, _WEIGHTS, _BIAS = 1, 2, 17, 33, 41
_OF_WEIGHTS: Final = 131
_NOTHING: Final = np.zeros(1, np.float32)
"""The slope of the rectifier below 0."""


class _Layer(NamedTuple):
    """A convolution of arrays of certain shapes, and what follows."""

    problem: Problem
    x: Layout
    sum: bool
    relu: bool


def _described(of: Building, layer: _Layer) -> Handle:
    """The primitive, with the steps after the convolution."""
    after = []
    if layer.sum:
        after.append(AfterStep.add(of.y))
    if layer.relu:
        after += [AfterStep.rectify(), AfterStep.plus_zero()]
    channels = of.build.layout(Layout((of.y.sizes[1],), (1,)))
    made = of.forward(_INFERENCE, channels, after)
    if layer.problem.groups > 1 and "gemm" in of.build.implementation(made):
        of.build.refuse("a product for each group and row")
    return made


def _packing(layer: _Layer, build: Builder) -> None:
    """Copy a filter to the layout that the library prefers."""
    of = Building(build, layer.problem)
    made = _described(of, layer)
    build.reorder(of.place(of.window), build.array(build.preferred_layout(made, _OF_WEIGHTS)))


def _convolving(layer: _Layer, build: Builder) -> None:
    of = Building(build, layer.problem)
    made = _described(of, layer)
    x = of.place(layer.x)
    window = build.array(build.preferred_layout(made, _OF_WEIGHTS))
    bias, y = of.place(Layout((of.y.sizes[1],), (1,))), of.place(of.y)
    arguments = {_SRC: build.in_layout(x, build.layout(of.x)), _WEIGHTS: window, _BIAS: bias, _DST: y}
    if layer.sum:
        arguments[AfterStep.argument(0, _SRC_1)] = of.place(of.y)
    if layer.relu:
        arguments[AfterStep.argument(int(layer.sum), _WEIGHTS)] = of.place(Layout((1,) * len(of.y.sizes), (1,) * 4))
    build.run(made, arguments)


class _Prepared(NamedTuple):
    """The routine for images that lie so, and its weights in the layout of the library, made of the arrays `given`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    given: Sequence[Array]
    y: tuple[int, ...]
    routine: Routine
    window: Array
    bias: Array

    def fits(self, x: Array, given: Sequence[Array]) -> bool:
        """Whether it is for such images, and for these arrays, which have not changed since."""
        return x.shape == self.shape and x.strides == self.strides and unchanged(self.given, given)


class _Kernel:
    """The kernel of one node."""

    def __init__(self, lib: Library, node: NodeView, otherwise: Function) -> None:
        attrs = node.attrs
        self._lib = lib
        self._otherwise = otherwise
        self._sliding = Sliding.of(attrs["strides"], attrs["padding"], "NHWC", attrs["dilations"])
        self._by_channel, self._groups = attrs["convolution"] != "conv2d", attrs["groups"]
        self._steps, self._epsilons = attrs["steps"], attrs["epsilons"]
        self._sum, self._relu = "sum" in self._steps, "relu" in self._steps
        self._prepared: _Prepared | None = None

    def __call__(self, x: Array, window: Array, others: Sequence[Array]) -> Array:
        """The images that the convolution and the steps make of `x`."""
        given = window, *(others[:-1] if self._sum else others)
        prepared = self._prepared
        if prepared is None or not prepared.fits(x, given):
            prepared = self._prepared = self._prepare(x, given)
        if prepared is None or (self._sum and others[-1].shape != prepared.y):
            return self._otherwise(x, window, others)
        y = np.empty(prepared.y, np.float32)
        images = (np.ascontiguousarray(others[-1]),) if self._sum else ()
        prepared.routine(x, prepared.window, prepared.bias, y, *images, *((_NOTHING,) if self._relu else ()))
        return y

    def _prepare(self, x: Array, given: Sequence[Array]) -> _Prepared | None:
        """None if NumPy must compute it, or is as fast."""
        window, layer = given[0], self._layer(x, given[0])
        fits = window.shape[-2] * self._groups == x.shape[-1] and not window.shape[-1] % self._groups
        if not fits or layer.problem.multiplications <= SMALL or min(layer.x.strides) < 1:
            return None
        find = functools.partial(ROUTINES.find, self._lib)
        packing = find((_packing, layer), functools.partial(_packing, layer))
        routine = find((_convolving, layer), functools.partial(_convolving, layer))
        if packing is None or routine is None:
            return None
        factor, bias = folded(self._steps, self._epsilons, given[1:], layer.problem.y[-1])
        factors = factor.reshape(window.shape[-2:] if self._by_channel else (1, -1))
        packed = np.empty(self._lib.size(packing.memories[1].descriptor) // 4, np.float32)
        packing(np.ascontiguousarray(window * factors.astype(np.float32)), packed)
        return _Prepared(x.shape, x.strides, given, layer.problem.y, routine, packed, bias.astype(np.float32))

    def _layer(self, x: Array, window: Array) -> _Layer:
        """ValueError if they do not fit."""
        sliding = self._sliding
        sliding.check_rank(x.shape)
        slides = sliding.slides(x.shape[1:-1], window.shape[:2])
        outputs = x.shape[-1] * window.shape[-1] if self._by_channel else window.shape[-1]
        y = (x.shape[0], *[slide.output for slide in slides], outputs)
        problem = Problem(x.shape, window.shape, y, True, slides, self._by_channel, self._groups)
        layout = Layout(x.shape, tuple([step // x.itemsize for step in x.strides])).channels_second()
        return _Layer(problem, layout, self._sum, self._relu)


def declare(op: Op[Tensor], plain: Binding) -> None:
    """Declare the kernel beside the one that needs NumPy alone."""

    @op.kernel(CPU, fresh=True, binds=True, only={float32}, priority=2, when=available)
    def _(xp: Namespace, node: NodeView) -> Function:
        lib, otherwise = library(), plain(xp, node)
        return otherwise if lib is None else _Kernel(lib, node, otherwise)
