"""A chain of nodes on images as one routine of oneDNN, in blocks of channels; see `image_chain`.

The routine computes one image. The images of a batch follow each other, because the values of one image fit the cache.
Each node has the same bits as by itself. oneDNN's maximum and rectifier pass over NaN: a value that they read, and each
result, has the mean of each channel computed too, and the caller computes node by node if one is not finite.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import (
    ROUTINES,
    AfterStep,
    Blocked,
    Builder,
    Layout,
    MemoryRef,
    Routine,
    Stop,
)
from aioflow.graph.kernel import NodeView
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn import image_chain, onednn_pooling
from aioflow.kernels.nn.channel_steps import folded, unchanged
from aioflow.kernels.nn.onednn_convolution import images_layout
from aioflow.kernels.nn.onednn_fused_convolution import Convolution, Layer, add_convolution
from aioflow.tensors.dtypes import Array

_MULTIPLY, _RELU = 0x1FFF1, 0x20
_SRC, _SRC_1, _DST = 1, 2, 17
_FLOAT32: Final = np.dtype(np.float32)
_MOST_LAYOUTS: Final = 8
"""The layouts of images for which a chain keeps its routine."""

Sizes = tuple[int, ...]
"""Of one image with channels last: [1, height, width, channels]."""


class Member(NamedTuple):
    """A node of a chain. `reads` and `target` are the numbers of its inputs and of its result."""

    op: str
    node: NodeView
    reads: Sequence[int]
    target: int

    @property
    def images(self) -> list[int]:
        """The numbers of the images that it reads."""
        return [self.reads[place] for place in image_chain.images_of(self.op, self.node)]

    @property
    def others(self) -> list[int]:
        """The numbers of its other inputs."""
        images = image_chain.images_of(self.op, self.node)
        return [number for place, number in enumerate(self.reads) if place not in images]


class _Convolve(NamedTuple):
    layer: Layer
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        x, *others = [network.place(number) for number in self.images]
        add_convolution(network.build, self.layer, x, network.place(self.y), others[0] if others else None)


class _Pool(NamedTuple):
    problem: onednn_pooling.Problem
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        slides = [(each.stride, each.window, each.before, each.after) for each in self.problem.slides]
        places = network.place(self.images[0]), network.place(self.y)
        onednn_pooling.add_pooling(network.build, self.problem.algorithm, *places, slides)


class _Steps(NamedTuple):
    """A factor and a summand for each channel, and a rectifier."""

    relu: bool
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        build, x, y = network.build, network.place(self.images[0]), network.place(self.y)
        vector = network.layout(self.y)._replace(sizes=(1, network.sizes[self.y][-1], 1, 1))
        after = [
            AfterStep.add(vector),
            *([AfterStep("dnnl_post_ops_append_eltwise", (_RELU, c_float(0), c_float(0)))] * self.relu),
        ]
        each = build.layout(vector)
        made = build.primitive(
            "dnnl_binary_primitive_desc_create", _MULTIPLY, x.descriptor, each, y.descriptor, after=after
        )
        factor, summand = build.array(each), build.array(each)
        build.run(made, {_SRC: x, _SRC_1: factor, _DST: y, AfterStep.argument(0, _SRC_1): summand})


class _Join(NamedTuple):
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        for number, begin in network.parts(self):
            if network.homes[number] != (self.y, begin):  # it is part of a later one, too
                network.build.reorder(network.place(number), network.part(self.y, begin, number))


_Step = _Convolve | _Pool | _Steps | _Join


class _Design(NamedTuple):
    """A routine: `given` are the layouts of images from outside by their numbers, `sizes` those of all images."""

    given: tuple[tuple[int, Layout], ...]
    sizes: tuple[tuple[int, Sizes], ...]
    steps: tuple[_Step, ...]
    results: tuple[int, ...]
    vector: int


class _Network:
    """Builds the routine of a design. It takes the images, the results, the means, and the arrays that stay."""

    def __init__(self, design: _Design, build: Builder) -> None:
        self.build: Final = build
        self.sizes: Final = dict(design.sizes)
        self._vector: Final = design.vector
        self._places: dict[int, MemoryRef] = {}
        given = {number: build.array(build.layout(layout)) for number, layout in design.given}
        self._joins = {step.y: step for step in design.steps if isinstance(step, _Join)}
        self.homes: Final[dict[int, tuple[int, int]]] = {}
        for join in reversed(self._joins.values()):
            for number, begin in self.parts(join):
                self.homes.setdefault(number, (join.y, begin))
        results = [build.array(build.layout(images_layout(self.sizes[number], True))) for number in design.results]
        self._watched = dict.fromkeys(self._watched_by(design))
        self._add_all(given, design.steps)
        for number, array in zip(design.results, results, strict=True):
            build.reorder(self.place(number), array)

    # Places

    def layout(self, number: int) -> Blocked:
        """The layout of a value in the chain."""
        return Blocked.of(images_layout(self.sizes[number], True), self._vector)

    def place(self, number: int) -> MemoryRef:
        """The memory of a value: part of the concatenation that reads it last, or its own."""
        if number not in self._places:
            self._places[number] = self._new_place(number)
        return self._places[number]

    def _new_place(self, number: int) -> MemoryRef:
        if number in self.homes:
            return self.part(*self.homes[number], number)
        return self.build.scratch(self.build.layout(self.layout(number)))

    def part(self, whole: int, begin: int, number: int) -> MemoryRef:
        """The part of a concatenation that begins with that channel, for a value."""
        descriptor = self.build.layout(self.layout(number))
        return self.build.part(self.place(whole), descriptor, self.layout(whole).offset(begin))

    def parts(self, join: _Join) -> Iterator[tuple[int, int]]:
        """The values of a concatenation, and their first channels in it."""
        begin = 0
        for number in join.images:
            yield number, begin
            begin += self.sizes[number][-1]

    # Steps

    def _add_all(self, given: Mapping[int, MemoryRef], steps: Sequence[_Step]) -> None:
        """Add all steps, and the mean of each watched value where it is made."""
        means = Blocked((1, sum(map(self._rounded, self._watched)), 1, 1), self._vector)
        array, kept = self.build.array(self.build.layout(means)), self.build.scratch(self.build.layout(means))
        begin = 0
        for number in self._made(given, steps):
            if number in self._watched:
                descriptor = self.build.layout(means.part(self.sizes[number][-1]))
                target = self.build.part(kept, descriptor, means.offset(begin))
                onednn_pooling.add_means(self.build, self.place(number), target, self.sizes[number][1:-1])
                begin += self._rounded(number)
        self.build.reorder(kept, array)

    def _made(self, given: Mapping[int, MemoryRef], steps: Sequence[_Step]) -> Iterator[int]:
        """Copy the images from outside to blocks, add the steps, and yield the value of each."""
        for number, array in given.items():
            if self.sizes[number][-1] < self._vector:  # a convolution takes them as they are
                self._places[number] = array
            else:
                self.build.reorder(array, self.place(number))
            yield number
        for step in steps:
            step.add(self)
            yield step.y

    def _rounded(self, number: int) -> int:
        """The channels of whole blocks."""
        return -(-self.sizes[number][-1] // self._vector) * self._vector

    def _watched_by(self, design: _Design) -> Iterator[int]:
        """The values whose means tell whether an element is NaN or infinite, which oneDNN would hide."""
        for step in design.steps:
            hides = isinstance(step, _Pool) and step.problem.algorithm == onednn_pooling.HIGHEST
            if hides or (isinstance(step, _Steps) and step.relu):
                yield from self._sources(step.images[0])
        for number in design.results:
            yield from self._sources(number)

    def _sources(self, number: int) -> Iterator[int]:
        if number not in self._joins:
            yield number
            return
        for part in self._joins[number].images:
            yield from self._sources(part)


def _build(design: _Design, build: Builder) -> None:
    _Network(design, build)


class _Prepared(NamedTuple):
    given: Sequence[Array]
    routine: Routine | None
    means: int


class ImageChain:
    """Computes a chain of nodes.

    Args:
        members: the nodes, sources first.
        images: the numbers of the images from outside.
        results: the numbers of the results.
        lib: the library.
    """

    def __init__(self, members: Sequence[Member], images: Sequence[int], results: Sequence[int], lib: Library) -> None:
        self._members: Final = members
        self._images: Final = images
        self._results: Final = results
        self._lib: Final = lib
        self._sizes: Final = dict(_sizes_of(members))
        self._others: Final = [number for member in members for number in member.others]
        self._convolutions: Final = {
            member.target: Convolution(member.node, lib) for member in members if member.op == "fused_conv2d"
        }
        self._prepared: dict[Sequence[Sizes], _Prepared] = {}

    def __call__(self, arrays: Sequence[Array], stop: Stop) -> list[Array] | None:
        """The results, given all values from outside by their numbers; None if they must be computed node by node."""
        images = [arrays[number] for number in self._images]
        count = len(images[0])
        if not count or not all(self._fits(*each, count) for each in zip(self._images, images, strict=True)):
            return None
        prepared = self._prepare(images, arrays)
        if prepared.routine is None:
            return None
        results = [onednn_kernels.result((count, *self._sizes[number][1:])) for number in self._results]
        means = np.empty((count, prepared.means), np.float32)
        for place in range(count):
            own = slice(place, place + 1)
            prepared.routine(*[array[own] for array in (*images, *results)], means[place], stop=stop)
        return results if np.isfinite(means).all() else None

    def _fits(self, number: int, array: Array, count: int) -> bool:
        lies = array.dtype is _FLOAT32 and array.flags.aligned and array.shape == (count, *self._sizes[number][1:])
        return lies and all(step > 0 and not step % array.itemsize for step in array.strides)

    def _prepare(self, images: Sequence[Array], arrays: Sequence[Array]) -> _Prepared:
        """The routine with its weights, kept for as long as these are the same arrays."""
        given, layouts = [arrays[number] for number in self._others], tuple([array.strides[1:] for array in images])
        prepared = self._prepared.get(layouts)
        if prepared is None or not unchanged(prepared.given, given):
            others = [each for each in self._prepared.items() if unchanged(each[1].given, given)]
            prepared = self._made(layouts, given, arrays)
            self._prepared = {**dict(others[1 - _MOST_LAYOUTS :]), layouts: prepared}
        return prepared

    def _made(self, layouts: Sequence[Sizes], given: Sequence[Array], arrays: Sequence[Array]) -> _Prepared:
        steps: list[_Step] = []
        stay: list[Array] = []
        for member in self._members:
            step, kept = self._step(member, [arrays[number] for number in member.others])
            if step is None:
                return _Prepared(given, None, 0)
            steps.append(step)
            stay += kept
        outside = [
            (number, _layout(self._sizes[number], strides))
            for number, strides in zip(self._images, layouts, strict=True)
        ]
        sizes = tuple(self._sizes.items())
        design = _Design(tuple(outside), sizes, tuple(steps), tuple(self._results), self._lib.floats)
        routine = ROUTINES.find(self._lib, (_build, design), functools.partial(_build, design))
        if routine is None:
            return _Prepared(given, None, 0)
        means = routine.elements(len(outside) + len(self._results))
        return _Prepared(given, routine.holding(*stay), means)

    def _step(self, member: Member, others: Sequence[Array]) -> tuple[_Step | None, Sequence[Array]]:
        """The step of a node, and the arrays that it holds."""
        images, y = tuple(member.images), member.target
        if member.op == "fused_conv2d":
            return self._convolved(member, others)
        if member.op == "channel_steps":
            attrs = member.node.attrs
            pair = folded(attrs["steps"], attrs["epsilons"], others, self._sizes[y][-1])
            return _Steps("relu" in attrs["steps"], images, y), [each.astype(np.float32) for each in pair]
        if member.op == "concat":
            return _Join(images, y), ()
        return _Pool(image_chain.pooling(member.op, member.node), images, y), ()

    def _convolved(self, member: Member, others: Sequence[Array]) -> tuple[_Step | None, Sequence[Array]]:
        convolution, shape = self._convolutions[member.target], self._sizes[member.images[0]]
        window = convolution.turned(others[0])
        layer = convolution.layer(shape, Layout.dense(shape), window.shape)
        packing = None if layer is None else convolution.packing(layer)
        if layer is None or packing is None or layer.problem.y != self._sizes[member.target]:
            return None, ()
        stay = convolution.weights(packing, layer, window, others[1:])
        return _Convolve(layer, tuple(member.images), member.target), stay


def _sizes_of(members: Sequence[Member]) -> Iterator[tuple[int, Sizes]]:
    for op, node, reads, target in members:
        for place in image_chain.images_of(op, node):
            yield reads[place], image_chain.one_image(node.input_specs[place])
        yield target, image_chain.one_image(node.output_specs[0])


def _layout(sizes: Sizes, strides: Sizes) -> Layout:
    """The layout of one image."""
    steps = [step // 4 for step in strides]
    return Layout(sizes, (sizes[1] * sizes[2] * sizes[3], *steps)).channels_second()
