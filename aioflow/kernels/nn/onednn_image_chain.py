"""A chain of nodes on images as one routine of oneDNN; see `image_chain`.

Each node has the same bits as by itself. In blocks of channels the routine computes several images, because then the
filters are read only once, and those of a large batch follow each other. With channels last it computes the whole
batch, as each node does. Where an element is not finite, the caller computes node by node.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Layout, Routine, Stop
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn import image_chain
from aioflow.kernels.nn.channel_steps import folded, unchanged
from aioflow.kernels.nn.onednn_fused_convolution import Convolution, Layer
from aioflow.kernels.nn.onednn_image_network import (
    Convolve,
    Design,
    Join,
    Pool,
    Rectify,
    Shuffle,
    Sizes,
    Step,
    Steps,
    add_network,
)
from aioflow.tensors.dtypes import Array

_FLOAT32: Final = np.dtype(np.float32)
_MOST_LAYOUTS: Final = 8
"""The layouts of images for which a chain keeps its routine."""
_TOGETHER: Final = 8
"""The most images that a routine computes in blocks."""
_LARGEST: Final = 32 << 20
"""The most bytes of a value of such images: a thread keeps the memory of two."""


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


class _Packed(NamedTuple):
    """The arrays that stay for a convolution: those that a routine makes of the `given` ones."""

    given: Sequence[Array]
    packing: Routine
    stay: Sequence[Array]


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
        self._convolutions: Final = {
            member.target: Convolution(member.node, lib) for member in members if member.op == "fused_conv2d"
        }
        self._vector: Final = max(convolution.vector for convolution in self._convolutions.values())
        self._bytes: Final = 4 * max(map(math.prod, self._sizes.values()))
        self._others: Final = [number for member in members for number in member.others]
        self._packed: dict[int, _Packed] = {}
        self._prepared: dict[Sequence[Layout], _Prepared] = {}

    def __call__(self, arrays: Sequence[Array], stop: Stop) -> list[Array] | None:
        """The results, given all values from outside by their numbers; None if they must be computed node by node."""
        images = [arrays[number] for number in self._images]
        batch = len(images[0])
        count = self._count(batch)
        if not count or not all(self._fits(*each, batch) for each in zip(self._images, images, strict=True)):
            return None
        prepared = self._prepare(tuple([_layout(array, count) for array in images]), arrays)
        if prepared.routine is None:
            return None
        results = [onednn_kernels.result((batch, *self._sizes[number])) for number in self._results]
        means = np.empty((batch // count, prepared.means), np.float32)
        for place, own in enumerate(means):
            some = slice(place * count, (place + 1) * count)
            prepared.routine(*[array[some] for array in (*images, *results)], own, stop=stop)
        return results if np.isfinite(means).all() else None

    def _count(self, batch: int) -> int:
        """How many images of a batch the routine computes; 0 if none does."""
        most = _LARGEST // self._bytes
        if batch and self._vector:
            return math.gcd(batch, 1 << min(_TOGETHER, max(1, most)).bit_length() - 1)
        return batch if batch <= most else 0

    def _fits(self, number: int, array: Array, batch: int) -> bool:
        lies = array.dtype is _FLOAT32 and array.flags.aligned and array.shape == (batch, *self._sizes[number])
        return lies and all(step > 0 and not step % array.itemsize for step in array.strides)

    def _prepare(self, layouts: Sequence[Layout], arrays: Sequence[Array]) -> _Prepared:
        """The routine with its weights, kept for as long as these are the same arrays."""
        given = [arrays[number] for number in self._others]
        prepared = self._prepared.get(layouts)
        if prepared is None or not unchanged(prepared.given, given):
            others = [each for each in self._prepared.items() if unchanged(each[1].given, given)]
            prepared = self._made(layouts, given, arrays)
            self._prepared = {**dict(others[1 - _MOST_LAYOUTS :]), layouts: prepared}
        return prepared

    def _made(self, layouts: Sequence[Layout], given: Sequence[Array], arrays: Sequence[Array]) -> _Prepared:
        sizes = {number: (layouts[0].sizes[0], *own) for number, own in self._sizes.items()}
        steps: list[Step] = []
        stay: list[Array] = []
        for member in self._members:
            step, kept = self._step(member, sizes, [arrays[number] for number in member.others])
            if step is None:
                return _Prepared(given, None, 0)
            steps.append(step)
            stay += kept
        outside = tuple(zip(self._images, layouts, strict=True))
        design = Design(outside, tuple(sizes.items()), tuple(steps), tuple(self._results), self._vector)
        routine = ROUTINES.find(self._lib, (add_network, design), functools.partial(add_network, design))
        if routine is None:
            return _Prepared(given, None, 0)
        return _Prepared(given, routine.holding(*stay), routine.elements(len(outside) + len(self._results)))

    def _step(
        self, member: Member, sizes: dict[int, Sizes], others: Sequence[Array]
    ) -> tuple[Step | None, Sequence[Array]]:
        """The step of a node, and the arrays that it holds; None if oneDNN does not compute it."""
        images, y = tuple(member.images), member.target
        if member.op == "fused_conv2d":
            shape, convolution = sizes[images[0]], self._convolutions[y]
            layer = convolution.layer(shape, Layout.dense(shape), convolution.turned(others[0]).shape)
            stay = None if layer is None or layer.problem.y != sizes[y] else self._weights(y, layer, others)
            return (None, ()) if layer is None or stay is None else (Convolve(layer, images, y), stay)
        if member.op == "channel_steps":
            attrs = member.node.attrs
            pair = folded(attrs["steps"], attrs["epsilons"], others, sizes[y][-1])
            return Steps("relu" in attrs["steps"], images, y), [each.astype(np.float32) for each in pair]
        if member.op == "relu":
            return Rectify(images, y), ()
        if member.op == "channel_shuffle":
            return Shuffle(member.node.attrs["groups"], images, y), ()
        if member.op == "concat":
            return Join(images, y), ()
        return Pool(image_chain.pooling(member.op, member.node), images, y), ()

    def _weights(self, target: int, layer: Layer, given: Sequence[Array]) -> Sequence[Array] | None:
        """The arrays that stay for a layer: those for other images, if the filter has the same layout there."""
        convolution, kept = self._convolutions[target], self._packed.get(target)
        packing = convolution.packing(layer)
        if packing is None:
            return None
        if kept is not None and unchanged(kept.given, given) and packing.is_like(kept.packing):
            return kept.stay
        stay = convolution.weights(packing, layer, convolution.turned(given[0]), given[1:])
        self._packed[target] = _Packed(given, packing, stay)
        return stay


def _sizes_of(members: Sequence[Member]) -> Iterator[tuple[int, Sizes]]:
    """The height, width and channels of each value."""
    for op, node, reads, target in members:
        for place in image_chain.images_of(op, node):
            yield reads[place], image_chain.one_image(node.input_specs[place])[1:]
        yield target, image_chain.one_image(node.output_specs[0])[1:]


def _layout(array: Array, count: int) -> Layout:
    """The layout of some of the images. The distance of images does not matter where there is one."""
    sizes, (far, *steps) = (count, *array.shape[1:]), array.strides
    distance = far // 4 if count > 1 else math.prod(sizes)
    return Layout(sizes, (distance, *[step // 4 for step in steps])).channels_second()
