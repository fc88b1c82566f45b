"""Builds a routine of oneDNN for a chain of nodes on images, in blocks of channels or with channels last.

In blocks of channels, a concatenation of one image copies nothing: the primitives that make its inputs write into it.
Maximum and rectifier of oneDNN pass over NaN. So the routine also computes the mean of each channel of the values that
they read, and of its results.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from typing import Final, NamedTuple

from aioflow.devices.onednn_primitive import AfterStep, Blocked, Builder, Layout, MemoryRef
from aioflow.kernels.nn import onednn_pooling
from aioflow.kernels.nn.onednn_convolution import images_layout
from aioflow.kernels.nn.onednn_fused_convolution import Layer, add_convolution

_INFERENCE, _MULTIPLY, _RELU = 96, 0x1FFF1, 0x20
_SRC, _SRC_1, _DST = 1, 2, 17

Sizes = tuple[int, ...]
"""The shape of images with channels last: [images, height, width, channels]."""


class Convolve(NamedTuple):
    """A convolution and the steps after it. It holds the arrays that stay for the layer."""

    layer: Layer
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        x, *others = [network.place(number) for number in self.images]
        add_convolution(network.build, self.layer, x, network.place(self.y), others[0] if others else None)


class Pool(NamedTuple):
    """A pooling."""

    problem: onednn_pooling.Problem
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        slides = [(each.stride, each.window, each.before, each.after) for each in self.problem.slides]
        places = network.place(self.images[0]), network.place(self.y)
        onednn_pooling.add_pooling(network.build, self.problem.algorithm, *places, slides)


class Steps(NamedTuple):
    """A factor and a summand for each channel, which it holds, and a rectifier."""

    relu: bool
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        build, x, y = network.build, network.place(self.images[0]), network.place(self.y)
        vector = network.in_order((1, 1, 1, network.sizes[self.y][-1]))
        after = [AfterStep.add(vector), *[AfterStep.apply(_RELU)] * self.relu]
        each = build.layout(vector)
        made = build.primitive(
            "dnnl_binary_primitive_desc_create", _MULTIPLY, x.descriptor, each, y.descriptor, after=after
        )
        factor, summand = build.array(each), build.array(each)
        build.run(made, {_SRC: x, _SRC_1: factor, _DST: y, AfterStep.argument(0, _SRC_1): summand})


class Rectify(NamedTuple):
    """A rectifier alone."""

    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        build, x, y = network.build, network.place(self.images[0]), network.place(self.y)
        create = "dnnl_eltwise_forward_primitive_desc_create"
        made = build.primitive(create, _INFERENCE, _RELU, x.descriptor, y.descriptor, c_float(0), c_float(0))
        build.run(made, {_SRC: x, _DST: y})


class Shuffle(NamedTuple):
    """A shuffle of channels between groups."""

    groups: int
    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        build, channels = network.build, network.sizes[self.y][-1]
        rows = math.prod(network.sizes[self.y][:-1])
        sizes, each = (rows, channels // self.groups, self.groups), channels // self.groups
        x, y = [
            build.view(network.place(number), build.layout(Layout(sizes, (channels, *steps))))
            for number, steps in ((self.images[0], (1, each)), (self.y, (self.groups, 1)))
        ]
        build.reorder(x, y)


class Join(NamedTuple):
    """A concatenation of channels."""

    images: Sequence[int]
    y: int

    def add(self, network: "_Network") -> None:
        """Add the step to the routine."""
        build = network.build
        for number, begin in network.parts(self):
            if network.homes.get(number) != (self.y, begin):
                sizes = images_layout(network.sizes[number], True).sizes
                build.reorder(network.place(number), build.piece(network.place(self.y), sizes, (0, begin, 0, 0)))


Step = Convolve | Pool | Steps | Rectify | Shuffle | Join


class Design(NamedTuple):
    """A routine. Values have numbers.

    Attributes:
        given: the layouts of the images from outside.
        sizes: the shapes of all images, with channels last; if there are concatenations, of one image each.
        steps: the steps in order.
        results: the numbers of the results.
        vector: the channels of a block.
    """

    given: tuple[tuple[int, Layout], ...]
    sizes: tuple[tuple[int, Sizes], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    vector: int


class _Network:
    """Builds the routine of a design. It takes the images, the results, the means, and the arrays that stay.

    `homes`: the concatenation in which a value lies, and its first channel there.
    """

    def __init__(self, design: Design, build: Builder) -> None:
        self.build: Final = build
        self.sizes: Final = dict(design.sizes)
        self._vector: Final = design.vector
        self._joins = {step.y: step for step in design.steps if isinstance(step, Join)}
        self.homes: Final = dict(self._homes())
        given = {number: build.array(build.layout(layout)) for number, layout in design.given}
        results = {
            number: build.array(build.layout(images_layout(self.sizes[number], True))) for number in design.results
        }
        self._places: dict[int, MemoryRef] = {} if self._vector else {**results}
        self._watched = dict.fromkeys(self._watched_by(design))
        self._add_all(given, design.steps)
        for number, array in results.items():
            build.copy_result(self.place(number), array)

    def _homes(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """For each value that lies in a concatenation, the last one that reads it."""
        if self._vector and all(sizes[0] == 1 for sizes in self.sizes.values()):
            for join in self._joins.values():
                for number, begin in self.parts(join):
                    yield number, (join.y, begin)

    # Places

    def in_order(self, sizes: Sizes) -> Blocked | Layout:
        """The layout of images of those sizes in the chain."""
        layout = images_layout(sizes, True)
        return Blocked.of(layout, self._vector) if self._vector else layout

    def place(self, number: int) -> MemoryRef:
        """The memory of a value: part of the concatenation that reads it last, or its own."""
        if number not in self._places:
            self._places[number] = self._new_place(number)
        return self._places[number]

    def _new_place(self, number: int) -> MemoryRef:
        descriptor = self.build.layout(self.in_order(self.sizes[number]))
        if number not in self.homes:
            return self.build.scratch(descriptor)
        whole, begin = self.homes[number]
        return self.build.part(self.place(whole), descriptor, self.in_order(self.sizes[whole]).offset(begin))

    def parts(self, join: Join) -> Iterator[tuple[int, int]]:
        """The values of a concatenation, and their first channels in it."""
        begin = 0
        for number in join.images:
            yield number, begin
            begin += self.sizes[number][-1]

    # Steps

    def _add_all(self, given: Mapping[int, MemoryRef], steps: Sequence[Step]) -> None:
        """Add all steps, and the mean of each watched value where it is made."""
        means = self.in_order((1, 1, 1, sum(map(self._rounded, self._watched))))
        array, kept = self.build.array(self.build.layout(means)), self.build.scratch(self.build.layout(means))
        begin = 0
        for number in self._made(given, steps):
            if number in self._watched:
                count, height, width, channels = self._rows(number)
                own = self.build.layout(self.in_order((count, 1, 1, channels)))
                x = self.build.view(self.place(number), self.build.layout(self.in_order(self._rows(number))))
                onednn_pooling.add_means(
                    self.build, x, self.build.part(kept, own, means.offset(begin)), (height, width)
                )
                begin += self._rounded(number)
        self.build.reorder(kept, array)

    def _made(self, given: Mapping[int, MemoryRef], steps: Sequence[Step]) -> Iterator[int]:
        """Copy the images from outside to the layout of the chain, add the steps, and yield the value of each."""
        for number, array in given.items():
            if self._takes(number, array):
                self._places[number] = array
            else:
                self.build.reorder(array, self.place(number))
            yield number
        for step in steps:
            step.add(self)
            yield step.y

    def _takes(self, number: int, array: MemoryRef) -> bool:
        """Whether the steps take images from outside as they lie: a convolution takes those of few channels."""
        build, sizes = self.build, self.sizes[number]
        return sizes[-1] < self._vector or build.library.equal(array.descriptor, build.layout(self.in_order(sizes)))

    def _rows(self, number: int) -> Sizes:
        """The shape in which the means of a value are computed: if channels are last, whole rows are channels."""
        count, height, width, channels = self.sizes[number]
        return (count, height, width, channels) if self._vector else (count, height, 1, width * channels)

    def _rounded(self, number: int) -> int:
        """The number of the means, in whole blocks."""
        count, *_, channels = self._rows(number)
        vector = self._vector or 1
        return count * -(-channels // vector) * vector

    def _watched_by(self, design: Design) -> Iterator[int]:
        """The values whose means tell whether an element is NaN or infinite, which oneDNN would hide."""
        for step in design.steps:
            hides = isinstance(step, Pool) and step.problem.algorithm == onednn_pooling.HIGHEST
            if hides or isinstance(step, Rectify) or (isinstance(step, Steps) and step.relu):
                yield from self._sources(step.images[0])
        for number in design.results:
            yield from self._sources(number)

    def _sources(self, number: int) -> Iterator[int]:
        if number not in self._joins:
            yield number
            return
        for part in self._joins[number].images:
            yield from self._sources(part)


def add_network(design: Design, build: Builder) -> None:
    """Add the steps of a design."""
    _Network(design, build)
