"""Convolution and its gradients by oneDNN, for float32: along any number of axes, and depthwise.

Images keep their layout in memory; filters are reordered to the layout of the library's kernel, and gradients of
filters back. Where these copies are large beside the sums, `convolution_products` computes all three. NumPy computes
the cases that oneDNN refuses, such as empty arrays.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Blocked, Builder, Handle, Layout, MemoryRef, Routine, dims
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.linalg.onednn_matmul import faster
from aioflow.kernels.nn import convolution_products as products
from aioflow.kernels.nn.windows import Slide, Sliding
from aioflow.tensors.dtypes import INTEGER, Array, Namespace

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

_TRAINING: Final = 64
_INFERENCE: Final = 96
_DIRECT: Final = 1
_SRC, _DST, _WEIGHTS, _BIAS, _DIFF_SRC, _DIFF_DST, _DIFF_WEIGHTS = 1, 17, 33, 41, 129, 145, 161  # arguments
_OF_SRC, _OF_DIFF_SRC, _OF_WEIGHTS, _OF_DIFF_WEIGHTS, _OF_DST, _OF_DIFF_DST = range(129, 135)  # their layouts


_SHAPES: Final = 8
"""The pairs of shapes for which a kernel knows its routine."""
SMALL: Final = 1 << 17
"""Multiplications up to which NumPy is not slower."""
FEW: Final = 16
"""Channels below which strided filters of size 1 have their gradient by NumPy."""
SLOW_SMALL: Final = 1 << 13
"""The same where NumPy works element by element of the filter."""


class Problem(NamedTuple):
    """A convolution of arrays of certain shapes; `slides` along each axis. `by_channel`: depthwise.

    Channels and outputs may be in `groups`, convolved by themselves.
    """

    x: tuple[int, ...]
    window: tuple[int, ...]
    y: tuple[int, ...]
    channels_last: bool
    slides: tuple[Slide, ...]
    by_channel: bool
    groups: int = 1

    @property
    def multiplications(self) -> int:
        """The number of multiplications; 0 if an array is empty, which oneDNN refuses."""
        outputs = 1 if self.by_channel else self.window[-1]
        return (
            math.prod(self.y) // max(1, self.window[-1]) * math.prod(self.window[:-1]) * outputs
            if math.prod(self.x)
            else 0
        )

    @property
    def skips_with_few_channels(self) -> bool:
        """Whether a filter of size 1 skips images of few channels: oneDNN 3.2 gives wrong gradients for such filters.

        They were wrong with fewer than 8 channels, and differed from call to call.
        """
        skips = all(slide.window == 1 for slide in self.slides) and any(slide.stride > 1 for slide in self.slides)
        return skips and self.window[-2] < FEW

    @property
    def as_products(self) -> bool:
        """Whether products of matrices are faster."""
        simple = self.channels_last and not self.by_channel and self.groups == 1
        return simple and products.suits(self.window, self.y)


def images_layout(shape: Sequence[int], channels_last: bool) -> Layout:
    """Images as oneDNN numbers their axes: batch, channels, spatial ones."""
    layout = Layout.dense(shape)
    return layout.channels_second() if channels_last else layout


def _filters(shape: Sequence[int], by_channel: bool, groups: int) -> Layout:
    """Filters as oneDNN numbers their axes: outputs, inputs, spatial ones; before these, groups if there are some."""
    (*sizes, inputs, outputs), (*steps, step, _) = Layout.dense(shape)
    if by_channel:
        return Layout((inputs, outputs, 1, *sizes), (step, 1, 1, *steps))
    if groups > 1:
        each = outputs // groups
        return Layout((groups, each, inputs, *sizes), (each, 1, step, *steps))
    return Layout((outputs, inputs, *sizes), (1, step, *steps))


Argument = tuple[int, int, MemoryRef]
"""oneDNN's numbers for an argument and for the question how it should lie, and where it is."""


class Building:
    """The shared parts of the three routines of one problem.

    `vector`: the channels of a block if images are computed in blocks of channels, else 0.
    """

    def __init__(self, build: Builder, problem: Problem, vector: int = 0) -> None:
        self.build = build
        self.problem = problem
        self._vector = vector
        self.x: Layout = images_layout(problem.x, problem.channels_last)
        self.y: Layout = images_layout(problem.y, problem.channels_last)
        self.window: Layout = _filters(problem.window, problem.by_channel, problem.groups)
        slides = problem.slides
        strides, dilations = [slide.stride for slide in slides], [slide.dilation - 1 for slide in slides]
        pads = [slide.before for slide in slides], [slide.after for slide in slides]
        self.geometry = [dims(values) for values in (strides, dilations, *pads)]

    def wish(self, layout: Layout) -> Handle:
        """How images may lie: in blocks of channels, as they do if channels are last, else as the library likes."""
        if self._vector and layout.sizes[1] >= self._vector:
            return self.build.layout(Blocked.of(layout, self._vector))
        as_given = self.problem.channels_last and not self._vector
        return self.build.layout(layout) if as_given else self.build.any_layout(layout.sizes)

    def described(self, kind: str, *arguments: Any, after: Sequence[AfterStep] = ()) -> Handle:
        """The descriptor of a primitive."""
        return self.build.primitive(f"dnnl_convolution_{kind}_primitive_desc_create", *arguments, after=after)

    def forward(self, purpose: int, bias: Handle | None = None, after: Sequence[AfterStep] = ()) -> Handle:
        """The convolution itself, and the steps after it."""
        filters = self.build.any_layout(self.window.sizes)
        images = self.wish(self.x), filters, bias, self.wish(self.y)
        return self.described("forward", purpose, _DIRECT, *images, *self.geometry, after=after)

    def place(self, layout: Layout) -> MemoryRef:
        """The next array of the call."""
        return self.build.array(self.build.layout(layout))

    def finish(
        self,
        primitive: Handle,
        inputs: Sequence[Argument],
        output: Argument,
        others: Mapping[int, MemoryRef] | None = None,
    ) -> None:
        """Let it run, with inputs and output in the layouts it wants."""
        build = self.build
        arguments = {
            argument: build.in_layout(place, build.preferred_layout(primitive, query))
            for argument, query, place in inputs
        }
        argument, query, place = output
        target = build.result_place(build.preferred_layout(primitive, query), place)
        build.run(primitive, {**arguments, **(others or {}), argument: target})
        build.copy_result(target, place)


def _forward(problem: Problem, build: Builder) -> None:
    of = Building(build, problem)
    x, window, y = of.place(of.x), of.place(of.window), of.place(of.y)
    inputs = (_SRC, _OF_SRC, x), (_WEIGHTS, _OF_WEIGHTS, window)
    of.finish(of.forward(_INFERENCE), inputs, (_DST, _OF_DST, y))


def _forward_with_bias(problem: Problem, build: Builder) -> None:
    of = Building(build, problem)
    channels = Layout((problem.window[-1],), (1,))
    x, window, bias, y = of.place(of.x), of.place(of.window), of.place(channels), of.place(of.y)
    inputs = (_SRC, _OF_SRC, x), (_WEIGHTS, _OF_WEIGHTS, window)
    of.finish(of.forward(_INFERENCE, bias.descriptor), inputs, (_DST, _OF_DST, y), {_BIAS: bias})


def _backprop_input(problem: Problem, build: Builder) -> None:
    of = Building(build, problem)
    window, dy, dx = of.place(of.window), of.place(of.y), of.place(of.x)
    filters = build.any_layout(of.window.sizes)
    made = of.described(
        "backward_data", _DIRECT, of.wish(of.x), filters, of.wish(of.y), *of.geometry, of.forward(_TRAINING)
    )
    inputs = (_WEIGHTS, _OF_WEIGHTS, window), (_DIFF_DST, _OF_DIFF_DST, dy)
    of.finish(made, inputs, (_DIFF_SRC, _OF_DIFF_SRC, dx))


def _backprop_filter(problem: Problem, build: Builder) -> None:
    of = Building(build, problem)
    x, dy, window = of.place(of.x), of.place(of.y), of.place(of.window)
    filters = build.any_layout(of.window.sizes)
    made = of.described(
        "backward_weights", _DIRECT, of.wish(of.x), filters, None, of.wish(of.y), *of.geometry, of.forward(_TRAINING)
    )
    inputs = (_SRC, _OF_SRC, x), (_DIFF_DST, _OF_DIFF_DST, dy)
    of.finish(made, inputs, (_DIFF_WEIGHTS, _OF_DIFF_WEIGHTS, window))


Find = Callable[[tuple[int, ...], tuple[int, ...]], tuple[Problem, Routine | None]]
"""(shape of the images, shape of the filter) -> the problem, and its routine; None if that is not to be used."""


def _found(lib: Library, build: Callable[[Problem, Builder], None], problem: Problem) -> Routine | None:
    """The routine for a problem; None if NumPy must compute it, or is as fast, or if products of matrices are."""
    if problem.as_products or (build is _backprop_filter and problem.skips_with_few_channels):
        return None
    if problem.multiplications <= (SLOW_SMALL if problem.by_channel or build is _backprop_input else SMALL):
        return None
    return ROUTINES.find(lib, (build, problem), functools.partial(build, problem))


def _ready(x: Array) -> Array:
    return np.ascontiguousarray(x)


class Kernels:
    """The kernels of convolution along `axes` axes.

    Args:
        axes: the number of spatial axes.
        sizes: (images, filter, sliding) -> images of the result, all as NHWC; ValueError if they do not fit.
        by_channel: whether it is depthwise.
    """

    def __init__(self, axes: int, sizes: Callable[..., Any], by_channel: bool = False) -> None:
        self._axes = axes
        self._sizes = sizes
        self._by_channel = by_channel

    def declare(self, op: Op[Tensor], bind: Callable[[Sliding, Library, Function], Function], plain: Binding) -> None:
        """Declare a kernel for float32 that falls back to `plain` where oneDNN cannot compute."""

        def bind_node(node: NodeView, lib: Library, otherwise: Function) -> Function:
            return bind(Sliding.of(**node.attrs, axes=self._axes), lib, otherwise)

        onednn_kernels.declare(op, bind_node, plain, beside=INTEGER)

    def _problem(self, sliding: Sliding, x: Sequence[int], window: Sequence[int]) -> Problem:
        """ValueError if they do not fit."""
        sliding.check_rank(x)
        whole = sliding.nhwc(x)
        y = sliding.own(self._sizes(whole, window, sliding))
        slides = sliding.slides(whole[1:-1], window[: self._axes])
        return Problem(tuple(x), tuple(window), y, sliding.channels_last, slides, self._by_channel)

    def _finder(self, sliding: Sliding, lib: Library, build: Callable[[Problem, Builder], None]) -> Find:
        """A function that remembers the routines for the last shapes."""

        @functools.lru_cache(_SHAPES)
        def find(x: tuple[int, ...], window: tuple[int, ...]) -> tuple[Problem, Routine | None]:
            problem = self._problem(sliding, x, window)
            return problem, _found(lib, build, problem)

        return find

    def forward(self, sliding: Sliding, lib: Library, otherwise: Function) -> Function:
        """The convolution."""
        product, find = faster(lib, np.dot), self._finder(sliding, lib, _forward)

        def compute(x: Array, window: Array) -> Array:
            problem, routine = find(x.shape, window.shape)
            if problem.as_products:
                return products.forward(product, problem.slides, x, _ready(window), problem.y)
            if routine is None:
                return otherwise(x, window)
            y = onednn_kernels.result(problem.y)
            routine(_ready(x), _ready(window), y)
            return y

        return compute

    def forward_with_bias(self, sliding: Sliding, lib: Library, otherwise: Function) -> Function:
        """The convolution, and a number added to each channel."""
        find = self._finder(sliding, lib, _forward_with_bias)

        def compute(x: Array, window: Array, bias: Array) -> Array:
            problem, routine = find(x.shape, window.shape)
            if routine is None or bias.shape != (window.shape[-1],):
                return otherwise(x, window, bias)
            y = onednn_kernels.result(problem.y)
            routine(_ready(x), _ready(window), _ready(bias), y)
            return y

        return compute

    def backprop_input(self, sliding: Sliding, lib: Library, otherwise: Function) -> Function:
        """Its gradient for the images."""
        product, find = faster(lib, np.dot), self._finder(sliding, lib, _backprop_input)

        def compute(sizes: Array, window: Array, dy: Array) -> Array:
            problem, routine = find(tuple(sizes.tolist()), window.shape)
            if problem.as_products and problem.y == dy.shape:
                return products.backprop_input(product, problem.slides, problem.x, _ready(window), dy)
            if routine is None or problem.y != dy.shape:
                return otherwise(sizes, window, dy)
            dx = onednn_kernels.result(problem.x)
            routine(_ready(window), _ready(dy), dx)
            return dx

        return compute

    def backprop_filter(self, sliding: Sliding, lib: Library, otherwise: Function) -> Function:
        """Its gradient for the filters."""
        product, find = faster(lib, np.dot), self._finder(sliding, lib, _backprop_filter)

        def compute(x: Array, sizes: Array, dy: Array) -> Array:
            problem, routine = find(x.shape, tuple(sizes.tolist()))
            if problem.as_products and problem.y == dy.shape:
                return products.backprop_filter(product, problem.slides, x, problem.window, dy)
            if routine is None or problem.y != dy.shape:
                return otherwise(x, sizes, dy)
            window = np.empty(problem.window, np.float32)
            routine(_ready(x), _ready(dy), window)
            return window

        return compute
