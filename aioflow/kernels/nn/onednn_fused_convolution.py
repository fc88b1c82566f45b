"""A convolution with weights that stay the same, and the steps after it, as one primitive of oneDNN.

The steps for each channel are multiplied into the filter and added up to one bias, and the filter is copied to the
layout that the library prefers: once for as long as the weights are the same arrays. The kernel holds these arrays,
and a held value of a variable never changes. Other weights, as those that are fed, may change in place, and are
prepared in each call.

Where groups have too few channels for a vector, the library would call a product for each group and row of images.
There each group gets channels of zeros, in a copy of the images and in the filter. If that is not possible either, the
steps follow the primitive.

A node that is `blocked` computes each image alone, in blocks of channels: with the same bits as a chain of nodes on
images does, see `onednn_image_chain`.

The library's rectifier turns NaN to 0. Here it is a leaky one with slope -0, which keeps NaN, and then gives NaN for
-inf.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Blocked, Builder, Handle, Layout, MemoryRef, Routine
from aioflow.devices.onednn_routines import ROUTINES
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
_OF_SRC, _OF_WEIGHTS, _OF_DST = 129, 131, 133
_MOST_LAYOUTS: Final = 16
"""The layouts of images, such as sizes of batches, for which a kernel keeps what it has prepared."""
_SLOPE: Final = np.full(1, -0.0, np.float32)
"""The slope of the rectifier below 0: what is below 0 becomes +0."""


class Layer(NamedTuple):
    """A convolution of arrays of certain shapes, and what follows.

    `own`: the channels that each group of the images has, if the problem has more: those are zeros. `vector`: the
    channels of a block, if it computes in blocks of channels, else 0.
    """

    problem: Problem
    x: Layout
    sum: bool
    relu: bool
    own: int = 0
    vector: int = 0

    def widened(self, channels: int) -> "Layer":
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


def _described(of: Building, layer: Layer) -> Handle:
    """The primitive, with the steps after the convolution."""
    after = []
    if layer.sum:
        after.append(AfterStep.add(Blocked.of(of.y, layer.vector) if layer.vector else of.y))
    if layer.relu:
        after += _rectifier(of.build.library)
    channels = of.build.layout(Layout((of.y.sizes[1],), (1,)))
    made = of.forward(_INFERENCE, channels, after)
    by_product = layer.problem.groups > 1 and "gemm" in of.build.implementation(made)
    if by_product and (after or layer.problem.window[:2] != (1, 1)):
        of.build.refuse("a product for each group and row")
    return made


def _packing(layer: Layer, build: Builder) -> None:
    """Copy a filter to the layout that the library prefers."""
    of = Building(build, layer.problem, layer.vector)
    made = _described(of, layer)
    build.reorder(of.place(of.window), build.array(build.preferred_layout(made, _OF_WEIGHTS)))


def _convolving(layer: Layer, build: Builder) -> None:
    """Take the images, the result, the images to add, and then the arrays that stay: filter, bias, slope.

    Before these, take zeros for the images with more channels, if the layer has more.
    """
    of = Building(build, layer.problem, layer.vector)
    made = _described(of, layer)
    x = _wide(of, layer) if layer.own else of.place(layer.x)
    y = of.place(of.y)
    other = of.place(of.y) if layer.sum else None
    target = build.result_place(build.preferred_layout(made, _OF_DST), y)
    _run(of, layer, made, x, target, other)
    build.copy_result(target, y)


def add_convolution(build: Builder, layer: Layer, x: MemoryRef, y: MemoryRef, other: MemoryRef | None) -> None:
    """Add a layer that computes in blocks, from images in any layout to `y`. The arrays that stay are its next ones."""
    of = Building(build, layer.problem, layer.vector)
    _run(of, layer, _described(of, layer), x, y, other)


def _run(of: Building, layer: Layer, made: Handle, x: MemoryRef, y: MemoryRef, other: MemoryRef | None) -> None:
    build = of.build
    arguments = {_SRC: build.in_layout(x, build.preferred_layout(made, _OF_SRC)), _DST: y}
    if other is not None:
        arguments[AfterStep.argument(0, _SRC_1)] = build.in_layout(other, y.descriptor)
    arguments[_WEIGHTS] = build.array(build.preferred_layout(made, _OF_WEIGHTS))
    arguments[_BIAS] = of.place(Layout((of.y.sizes[1],), (1,)))
    if layer.relu:
        arguments[AfterStep.argument(int(layer.sum), _WEIGHTS)] = of.place(Layout((1,) * len(of.y.sizes), (1,) * 4))
    build.run(made, arguments)


def _wide(of: Building, layer: Layer) -> MemoryRef:
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


class Convolution:
    """The attributes of a node that convolves: they give the layer for images of any shape."""

    def __init__(self, node: NodeView, lib: Library) -> None:
        attrs = node.attrs
        self._lib = lib
        self._sliding = Sliding.of(attrs["strides"], attrs["padding"], "NHWC", attrs["dilations"])
        self._by_channel, self._groups = attrs["convolution"] != "conv2d", attrs["groups"]
        self._axes = attrs["filter_axes"]
        self._steps, self._epsilons = attrs["steps"], attrs["epsilons"]
        self.sum: Final = "sum" in self._steps
        self.rectifies: Final = "relu" in self._steps
        self.vector: Final = lib.floats if attrs["blocked"] else 0

    def turned(self, window: Array) -> Array:
        """The filter with its axes in the order of the convolution."""
        return window if self._axes is None else window.transpose(self._axes)

    def layer(self, shape: Sequence[int], x: Layout, window: Sequence[int]) -> Layer | None:
        """The layer for images of a shape and a filter, whose axes are turned; None if oneDNN does not compute it.

        ValueError if they do not fit.
        """
        sliding = self._sliding
        sliding.check_rank(shape)
        slides = sliding.slides(shape[1:-1], window[:2])
        outputs = shape[-1] * window[-1] if self._by_channel else window[-1]
        y = (shape[0], *[slide.output for slide in slides], outputs)
        problem = Problem(tuple(shape), tuple(window), y, True, slides, self._by_channel, self._groups)
        fits = window[-2] * self._groups == shape[-1] and not window[-1] % self._groups
        if not fits or problem.multiplications <= (0 if self.vector else SMALL):
            return None
        return Layer(problem, x.channels_second(), self.sum, self.rectifies, vector=self.vector)

    def forms(self, layer: Layer) -> Iterable[Layer]:
        """The layer itself; with more channels in each group; without the steps after the convolution."""
        vector, own = self._lib.floats, layer.problem.window[-2]
        wide = [layer.widened(vector)] if self._groups > 1 and vector // 2 <= own < vector else []
        return dict.fromkeys((layer, *wide, layer._replace(sum=False, relu=False)))

    def packing(self, layer: Layer) -> Routine | None:
        """The routine that packs the filter; None if oneDNN has no optimised convolution for it."""
        return self._routine(_packing, layer)

    def convolving(self, layer: Layer) -> Routine | None:
        """The routine that convolves."""
        return self._routine(_convolving, layer)

    def _routine(self, build: Callable[[Layer, Builder], None], layer: Layer) -> Routine | None:
        return ROUTINES.find(self._lib, (build, layer), functools.partial(build, layer))

    def weights(self, packing: Routine, layer: Layer, window: Array, vectors: Sequence[Array]) -> Sequence[Array]:
        """The arrays that stay: the packed filter with the factors in it, the bias, the slope of the rectifier."""
        factor, bias = folded(self._steps, self._epsilons, vectors, layer.problem.y[-1])
        factors = factor.reshape(window.shape[-2:] if self._by_channel else (1, -1))
        filters = np.zeros(layer.problem.window, np.float32)
        np.multiply(window, factors.astype(np.float32), out=filters[..., : window.shape[-2], :])
        packed = np.empty(packing.elements(1), np.float32)
        packing(filters, packed)
        return packed, bias.astype(np.float32), *((_SLOPE,) if layer.relu else ())


class _Kernel:
    """The kernel of one node."""

    def __init__(self, node: NodeView, lib: Library, otherwise: Function) -> None:
        self._convolution = Convolution(node, lib)
        self._otherwise = otherwise
        self._sum = self._convolution.sum
        self._rectify = held(np, float32) if self._convolution.rectifies else None
        self._keeps = node.attrs["kept"]
        self._prepared: dict[Hashable, _Prepared] = {}  # by shape and strides of the images, the newest last

    def __call__(self, x: Array, window: Array, others: Sequence[Array]) -> Array:
        """The images that the convolution and the steps make of `x`."""
        if self._convolution.vector and len(x) > 1:
            return self._image_by_image(x, window, others)
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

    def _image_by_image(self, x: Array, window: Array, others: Sequence[Array]) -> Array:
        vectors, added = (others[:-1], others[-1]) if self._sum else (others, None)
        if added is not None and len(added) != len(x):
            return self._otherwise(x, window, others)
        made = []
        for place in range(len(x)):
            own = slice(place, place + 1)
            made.append(self(x[own], window, vectors if added is None else [*vectors, added[own]]))
        return np.concatenate(made)

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
        convolution, none = self._convolution, _Prepared(given)
        window = convolution.turned(given[0])
        layout = Layout(x.shape, tuple([step // x.itemsize for step in x.strides]))
        layer = convolution.layer(x.shape, layout, window.shape)
        if layer is None or not (x.flags.aligned and min(layout.strides) > 0):  # oneDNN counts in elements
            return none
        for form in convolution.forms(layer):
            packing, routine = convolution.packing(form), convolution.convolving(form)
            if packing is not None and routine is not None:
                made = self._kept_weights(packing, form, given)
                stay = made or convolution.weights(packing, form, window, given[1:])
                apart, wide = (form.sum, form.relu) != (layer.sum, layer.relu), form.problem.x if form.own else ()
                return _Prepared(given, layer.problem.y, routine.holding(*stay), packing, stay, apart, wide)
        return none

    def _kept_weights(self, packing: Routine, layer: Layer, given: Sequence[Array]) -> Sequence[Array]:
        """The arrays that stay, if those for other images have the filter in the same layout; else none."""
        for other in self._prepared.values():
            fits = len(other.stay) == (3 if layer.relu else 2) and unchanged(other.given, given)
            if fits and other.packing is not None and other.packing.is_like(packing):
                return other.stay
        return ()


def declare(op: Op[Tensor], plain: Binding) -> None:
    """Declare the kernel beside the one that needs NumPy alone."""
    onednn_kernels.declare(op, _Kernel, plain)
