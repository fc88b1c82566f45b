"""A convolution with weights that stay the same, and the steps after it, as one primitive of oneDNN.

The steps for each channel are multiplied into the filter and added up to one bias, and the filter is copied to the
layout that the library prefers: once for as long as the weights are the same arrays. The kernel holds these arrays,
and a held value of a variable never changes. Other weights, as those that are fed, may change in place, and are
prepared in each call.

Where groups have too few channels for a vector, the library would call a product for each group and row of images.
There each group gets channels of zeros, in a copy of the images and in the filter. If that is not possible either, the
steps follow the primitive.

The library's rectifier turns NaN to 0. Here it is a leaky one with slope -0, which keeps NaN, and then gives NaN for
-inf.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import ROUTINES, AfterStep, Builder, Handle, Layout, MemoryRef, Routine
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn.activation import held
from aioflow.kernels.nn.channel_steps import folded, unchanged
from aioflow.kernels.nn.onednn_convolution import SMALL, Building, Problem
from aioflow.kernels.nn.windows import Sliding
from aioflow.tensors.dtypes import Array, Namespace, float32

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

_INFERENCE: Final = 96
_SRC, _SRC_1, _DST, _WEIGHTS, _BIAS = 1, 2, 17, 33, 41
_OF_WEIGHTS: Final = 131
_MOST_LAYOUTS: Final = 16
"""The layouts of images, such as sizes of batches, for which a kernel keeps what it has prepared."""
_SLOPE: Final = np.full(1, -0.0, np.float32)
"""The slope of the rectifier below 0: what is below 0 becomes +0."""


class _Layer(NamedTuple):
    """A convolution of arrays of certain shapes, and what follows.

    `own`: the channels that each group of the images has, if the problem has more: those are zeros.
    """

    problem: Problem
    x: Layout
    sum: bool
    relu: bool
    own: int = 0

    def widened(self, channels: int) -> "_Layer":
        """The layer with these numbers of channels in each group of the images and of the filter."""
        (*images, _), (*sizes, own, outputs) = self.problem.x, self.problem.window
        x, window = (*images, channels * self.problem.groups), (*sizes, channels, outputs)
        return self._replace(problem=self.problem._replace(x=x, window=window), own=own)

    def groups_of(self, images: Layout) -> Layout:
        """Images whose channels are in groups: of each group the channels that are its own."""
        (batch, channels, *sizes), (far, step, *steps) = images
        groups = self.problem.groups
        return Layout((batch, groups, self.own, *sizes), (far, channels // groups * step, step, *steps))


def _rectifier(library: Library) -> Sequence[AfterStep]:
    """The steps of the rectifier, which keeps NaN, and gives NaN for -inf.

    The sign of its zeros was not tried with AVX-512, so 0 is added there.
    """
    leaky = AfterStep.rectify()
    return (leaky, AfterStep.plus_zero()) if library.avx512 else (leaky,)


def _described(of: Building, layer: _Layer) -> Handle:
    """The primitive, with the steps after the convolution."""
    after = []
    if layer.sum:
        after.append(AfterStep.add(of.y))
    if layer.relu:
        after += _rectifier(of.build.library)
    channels = of.build.layout(Layout((of.y.sizes[1],), (1,)))
    made = of.forward(_INFERENCE, channels, after)
    by_product = layer.problem.groups > 1 and "gemm" in of.build.implementation(made)
    if by_product and (after or layer.problem.window[:2] != (1, 1)):
        of.build.refuse("a product for each group and row")
    return made


def _packing(layer: _Layer, build: Builder) -> None:
    """Copy a filter to the layout that the library prefers."""
    of = Building(build, layer.problem)
    made = _described(of, layer)
    build.reorder(of.place(of.window), build.array(build.preferred_layout(made, _OF_WEIGHTS)))


def _convolving(layer: _Layer, build: Builder) -> None:
    """Take the images, the result, the images to add, and then the arrays that stay: filter, bias, slope.

    Before these, take zeros for the images with more channels, if the layer has more.
    """
    of = Building(build, layer.problem)
    made = _described(of, layer)
    x = _wide(of, layer) if layer.own else build.in_layout(of.place(layer.x), build.layout(of.x))
    arguments = {_SRC: x, _DST: of.place(of.y)}
    if layer.sum:
        arguments[AfterStep.argument(0, _SRC_1)] = of.place(of.y)
    arguments[_WEIGHTS] = build.array(build.preferred_layout(made, _OF_WEIGHTS))
    arguments[_BIAS] = of.place(Layout((of.y.sizes[1],), (1,)))
    if layer.relu:
        arguments[AfterStep.argument(int(layer.sum), _WEIGHTS)] = of.place(Layout((1,) * len(of.y.sizes), (1,) * 4))
    build.run(made, arguments)


def _wide(of: Building, layer: _Layer) -> MemoryRef:
    """Copy the images to the zeros, group by group."""
    build = of.build
    zeros, x = of.place(of.x), of.place(layer.x)
    source, target = [build.layout(layer.groups_of(images)) for images in (layer.x, of.x)]
    build.reorder(build.view(x, source), build.view(zeros, target))
    return zeros


class _Prepared(NamedTuple):
    """How images that lie in one way are convolved with these arrays: by the routine, or by NumPy if there is none.

    `packing`, `stay`: the routine that packs the filter, and the arrays that the other routine holds. `apart`: the sum
    and the rectifier follow the routine. `wide`: the shape of the images with more channels, if the routine wants zeros
    of that shape.
    """

    given: Sequence[Array]
    y: tuple[int, ...] = ()
    routine: Routine | None = None
    packing: Routine | None = None
    stay: Sequence[Array] = ()
    apart: bool = False
    wide: tuple[int, ...] = ()


class _Kernel:
    """The kernel of one node."""

    def __init__(self, node: NodeView, lib: Library, otherwise: Function) -> None:
        attrs = node.attrs
        self._lib = lib
        self._otherwise = otherwise
        self._sliding = Sliding.of(attrs["strides"], attrs["padding"], "NHWC", attrs["dilations"])
        self._by_channel, self._groups = attrs["convolution"] != "conv2d", attrs["groups"]
        self._axes = attrs["filter_axes"]
        self._steps, self._epsilons = attrs["steps"], attrs["epsilons"]
        self._sum = "sum" in self._steps
        self._rectify = held(np, float32) if "relu" in self._steps else None
        self._keeps = attrs["kept"]
        self._prepared: dict[Hashable, _Prepared] = {}  # by shape and strides of the images, the newest last

    def __call__(self, x: Array, window: Array, others: Sequence[Array]) -> Array:
        """The images that the convolution and the steps make of `x`."""
        given = window, *(others[:-1] if self._sum else others)
        prepared = self._prepared.get((x.shape, x.strides))
        if prepared is None or not unchanged(prepared.given, given):
            prepared = self._prepare(x, given)
            if self._keeps:
                self._keep((x.shape, x.strides), prepared)
        if prepared.routine is None or (self._sum and others[-1].shape != prepared.y):
            return self._otherwise(x, window, others)
        y = onednn_kernels.result(prepared.y)
        images = (np.zeros(prepared.wide, np.float32), x) if prepared.wide else (x,)
        if prepared.apart:
            prepared.routine(*images, y)
            self._follow(y, others)
        elif self._sum:
            prepared.routine(*images, y, np.ascontiguousarray(others[-1]))
        else:
            prepared.routine(*images, y)
        return y

    def _keep(self, layout: Hashable, prepared: _Prepared) -> None:
        """Keep it beside the newest ones for other images and the same weights."""
        others = [(at, each) for at, each in self._prepared.items() if unchanged(each.given, prepared.given)]
        self._prepared = {**dict(others[1 - _MOST_LAYOUTS :]), layout: prepared}

    def _follow(self, y: Array, others: Sequence[Array]) -> None:
        """Take the sum and the rectifier as steps of their own."""
        if self._sum:
            np.add(y, others[-1], out=y)
        if self._rectify is not None:
            self._rectify(y, out=y)

    def _prepare(self, x: Array, given: Sequence[Array]) -> _Prepared:
        """The routine, unless NumPy must compute it or is as fast, with its weights in the layout of the library."""
        window = given[0] if self._axes is None else given[0].transpose(self._axes)
        layer, none = self._layer(x, window), _Prepared(given)
        fits = window.shape[-2] * self._groups == x.shape[-1] and not window.shape[-1] % self._groups
        lies = x.flags.aligned and min(layer.x.strides) > 0  # oneDNN counts in elements
        if not fits or layer.problem.multiplications <= SMALL or not lies:
            return none
        for form in self._forms(layer):
            packing, routine = self._routine(_packing, form), self._routine(_convolving, form)
            if packing is not None and routine is not None:
                stay = self._kept_weights(packing, form, given) or self._weights(packing, form, window, given[1:])
                apart, wide = (form.sum, form.relu) != (layer.sum, layer.relu), form.problem.x if form.own else ()
                return _Prepared(given, layer.problem.y, routine.holding(*stay), packing, stay, apart, wide)
        return none

    def _forms(self, layer: _Layer) -> Iterable[_Layer]:
        """The layer itself; with more channels in each group; without the steps after the convolution."""
        vector, own = (16 if self._lib.avx512 else 8), layer.problem.window[-2]
        wide = [layer.widened(vector)] if self._groups > 1 and vector // 2 <= own < vector else []
        return dict.fromkeys((layer, *wide, layer._replace(sum=False, relu=False)))

    def _routine(self, build: Callable[[_Layer, Builder], None], layer: _Layer) -> Routine | None:
        return ROUTINES.find(self._lib, (build, layer), functools.partial(build, layer))

    def _kept_weights(self, packing: Routine, layer: _Layer, given: Sequence[Array]) -> Sequence[Array]:
        """The arrays that stay, if those for other images have the filter in the same layout; else none."""
        for other in self._prepared.values():
            fits = len(other.stay) == (3 if layer.relu else 2) and unchanged(other.given, given)
            if fits and other.packing is not None and other.packing.is_like(packing):
                return other.stay
        return ()

    def _weights(self, packing: Routine, layer: _Layer, window: Array, vectors: Sequence[Array]) -> Sequence[Array]:
        """The arrays that stay: the packed filter with the factors in it, the bias, the slope of the rectifier."""
        factor, bias = folded(self._steps, self._epsilons, vectors, layer.problem.y[-1])
        factors = factor.reshape(window.shape[-2:] if self._by_channel else (1, -1))
        filters = np.zeros(layer.problem.window, np.float32)
        np.multiply(window, factors.astype(np.float32), out=filters[..., : window.shape[-2], :])
        packed = np.empty(packing.elements(1), np.float32)
        packing(filters, packed)
        return packed, bias.astype(np.float32), *((_SLOPE,) if layer.relu else ())

    def _layer(self, x: Array, window: Array) -> _Layer:
        """ValueError if they do not fit."""
        sliding = self._sliding
        sliding.check_rank(x.shape)
        slides = sliding.slides(x.shape[1:-1], window.shape[:2])
        outputs = x.shape[-1] * window.shape[-1] if self._by_channel else window.shape[-1]
        y = (x.shape[0], *[slide.output for slide in slides], outputs)
        problem = Problem(x.shape, window.shape, y, True, slides, self._by_channel, self._groups)
        layout = Layout(x.shape, tuple([step // x.itemsize for step in x.strides])).channels_second()
        return _Layer(problem, layout, self._sum, self._rectify is not None)


def declare(op: Op[Tensor], plain: Binding) -> None:
    """Declare the kernel beside the one that needs NumPy alone."""
    onednn_kernels.declare(op, _Kernel, plain)
