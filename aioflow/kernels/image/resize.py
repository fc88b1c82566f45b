"""Image resizing: each pixel of the result is a weighted sum of a few pixels, along the height and the width.

For each axis, two small tables give the source pixels and their weights. The gradient is a weighted sum too, by the
transposed tables.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.families import CPU, GPU, NARROW, costs
from aioflow.kernels.nn.activation import Function
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, DType, Namespace, Spec, TensorShape, float32


class Taps(NamedTuple):
    """The source elements of each result element along one axis, and their weights; both [taps, output]."""

    places: Array
    weights: Array
    size: int

    @property
    def still(self) -> bool:
        """Whether each element of the result is the one at its own place."""
        plain = len(self.places) == 1 and self.places.shape[1] == self.size and bool((self.weights == 1).all())
        return plain and bool((self.places[0] == np.arange(self.size)).all())

    def transposed(self) -> "Taps":
        """The same weights seen from the other side: which elements of the result each one is part of."""
        parts = np.broadcast_to(np.arange(self.places.shape[1]), self.places.shape)[self.weights != 0]
        places, weights = self.places[self.weights != 0], self.weights[self.weights != 0]
        order, counts = places.argsort(kind="stable"), np.bincount(places, minlength=self.size)
        which = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts), places[order]
        table = np.zeros((int(counts.max(initial=1)), self.size), np.intp)
        shares = np.zeros(table.shape)
        table[which], shares[which] = parts[order], weights[order]
        return Taps(np.where(shares == 0, table[0], table), shares, self.places.shape[1])


Tables = Callable[[int, int, bool, bool], tuple[Array, Array]]
"""(input size, output size, align_corners, half_pixel_centers) -> places, which may lie outside, and weights."""


def _scale(size: int, output: int, align: bool) -> float:
    """How far apart the pixels of the result lie, in pixels of the input."""
    return (size - 1) / (output - 1) if align and output > 1 else size / output


def _positions(size: int, output: int, align: bool, half: bool) -> Array:
    """Where the pixels of the result lie in the input."""
    places = np.arange(output) * _scale(size, output, align)
    return (np.arange(output) + 0.5) * _scale(size, output, align) - 0.5 if half else places


def _nearest(size: int, output: int, align: bool, half: bool) -> tuple[Array, Array]:
    scale = np.float32(_scale(size, output, align))  # in float32, as TensorFlow rounds positions between two pixels
    numbers = np.arange(output, dtype=np.float32)
    found = (numbers + np.float32(0.5)) * scale if half else numbers * scale
    return np.floor(found + np.float32(0.5) if align else found)[None], np.ones((1, output))


def _linear(size: int, output: int, align: bool, half: bool) -> tuple[Array, Array]:
    found = _positions(size, output, align, half)
    below = np.floor(found)
    return np.stack([below, below + 1]), np.stack([1 - (found - below), found - below])


def _cubic(size: int, output: int, align: bool, half: bool) -> tuple[Array, Array]:
    """Keys' kernel, with -0.75 for its free number as in TensorFlow, and -0.5 with half_pixel_centers."""
    a, found = (-0.5 if half else -0.75), _positions(size, output, align, half)
    below = np.floor(found)
    places = np.stack([below - 1, below, below + 1, below + 2])
    far = abs(places - found)
    inner = ((a + 2) * far - (a + 3)) * far * far + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.where(far <= 1, inner, outer)
    if half:
        weights = np.where((places >= 0) & (places < size), weights, 0)
        weights /= weights.sum(0)
    return places, weights


def _area(size: int, output: int, align: bool, half: bool) -> tuple[Array, Array]:
    """Each pixel by how much of it the larger pixel of the result covers."""
    scale = _scale(size, output, align) or 1.0  # 0 where one pixel is aligned with the corners of more
    start, stop = np.arange(output) * scale, (np.arange(output) + 1) * scale
    first = np.floor(start)
    places = first + np.arange(int(np.max(np.ceil(stop) - first, initial=1)))[:, None]
    covered = np.minimum(places + 1, stop) - np.maximum(places, start)
    return places, np.maximum(covered, 0) / scale


def _result_dtype(images: DType, keeps: bool) -> DType:
    """Integers and narrow floats become float32, unless pixels are only copied."""
    return images if keeps or (images in FLOAT and images not in NARROW) else float32


def _sized(images: Spec, size: Spec) -> TensorShape:
    wanted, sizes = known.shape(size, "size"), images.with_rank(4, "images").sizes
    assert sizes is not None
    if wanted.ndims not in (None, 2):
        raise ValueError(f"size is height and width, not {wanted.ndims} numbers")
    height, width = wanted.with_rank(2).as_list()
    if any(new == 0 or (old == 0 and new is not None) for new, old in zip((height, width), sizes[1:3], strict=True)):
        raise ValueError(f"images of shape {images.shape} cannot be resized to {wanted}")
    return TensorShape((sizes[0], height, width, sizes[3]))


class Resizing(NamedTuple):
    """How to resize one way."""

    tables: Tables
    keeps: bool

    def taps(self, size: int, output: int, align: bool, half: bool) -> Taps:
        """The tables along one axis, of places inside it. ValueError for a size that cannot be."""
        if size < 1 or output < 1:
            raise ValueError(f"{size} pixels cannot be resized to {output}")
        places, weights = self.tables(size, output, align, half)
        return Taps(np.clip(places, 0, size - 1).astype(np.intp), weights, size)


@functools.lru_cache(maxsize=256)
def _taps(how: Resizing, size: int, output: int, align: bool, half: bool) -> Taps:
    return how.taps(size, output, align, half)


@functools.lru_cache(maxsize=256)
def _back(how: Resizing, size: int, output: int, align: bool, half: bool) -> Taps:
    return _taps(how, size, output, align, half).transposed()


def resizing(
    name: str, tables: Tables, doc: str, keeps: bool = False, halves: bool = True
) -> tuple[Op[Tensor], Op[Tensor]]:
    """Declare the op that resizes images in one way, and its gradient, which has the op for its own.

    Args:
        name: the op's name.
        tables: places and weights along one axis.
        doc: its docstring.
        keeps: whether pixels are only copied, so that the dtype stays.
        halves: whether it knows `half_pixel_centers`.
    """
    how = Resizing(tables, keeps)

    def rule(
        images: Spec, size: Ints, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
    ) -> Spec:
        _check(align_corners, half_pixel_centers, halves)
        dtype = _result_dtype(images.only(FLOAT, INTEGER).dtype, keeps)
        return Spec(dtype, _sized(images, size))

    def grad_rule(
        grads: Spec, size: Ints, dtype: DType, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Spec:
        grads.only(FLOAT)
        return Spec(dtype, _sized(grads, size))

    rule.__doc__ = doc
    grad_rule.__doc__ = f"The gradient of `{name}` for images of height and width `size` and of that dtype."
    resize, grad = op(name=name)(rule), op(name=f"{name}_grad")(grad_rule)

    @resize.gradient
    def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, None]:
        x = op.inputs[0]
        return (grad(dy, _size_of(x), x.dtype, **op.attrs) if x.dtype in FLOAT else None), None

    @grad.gradient
    def _(op: Operation, dz: Tensor) -> tuple[Tensor, None]:
        attrs = {name: value for name, value in op.attrs.items() if name != "dtype"}
        return resize(dz, _size_of(op.inputs[0]), **attrs), None

    _kernels(resize, grad, how)
    costs(resize, 8)
    costs(grad, 8)
    return resize, grad


def _check(align: bool, half: bool, halves: bool) -> None:
    if half and (align or not halves):
        raise ValueError(
            "half_pixel_centers do not go with align_corners" if halves else "it has no half_pixel_centers"
        )


def _size_of(images: Tensor) -> Any:
    """Height and width of images, as a list if they are known."""
    sizes = images.spec.sizes
    return list(sizes[1:3]) if sizes is not None and None not in sizes[1:3] else shape(images)[1:3]


def _kernels(resize: Op[Tensor], grad: Op[Tensor], how: Resizing) -> None:
    def ready(node: NodeView) -> tuple[Any, Any]:
        return (node.attrs["align_corners"], node.attrs["half_pixel_centers"]), node.output_specs[0].dtype.np

    @resize.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        flags, dtype = ready(node)

        def compute(x: Array, size: Array) -> Array:
            along = [_taps(how, *pair, *flags) for pair in zip(x.shape[1:3], size.tolist(), strict=True)]
            return _resized(xp, x.astype(dtype, copy=False), along, x, how.keeps)

        return compute

    @grad.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        flags, dtype = ready(node)
        wide = np.dtype(np.float32) if node.output_specs[0].dtype in NARROW else dtype

        def compute(dy: Array, size: Array) -> Array:
            along = [_back(how, *pair, *flags) for pair in zip(size.tolist(), dy.shape[1:3], strict=True)]
            return _resized(xp, dy.astype(wide, copy=False), along, dy).astype(dtype, copy=False)

        return compute


def _resized(xp: Namespace, x: Array, along: Sequence[Taps], given: Array, keeps: bool = False) -> Array:
    """The weighted sums along height and width, that first which leaves less; never the given array itself."""
    for taps, axis in sorted(zip(along, (1, 2), strict=True), key=lambda pair: pair[0].places.shape[1] / pair[0].size):
        if not taps.still:
            x = x.take(xp.asarray(taps.places[0]), axis) if keeps else _summed(xp, x, taps, axis)
    return x.copy() if x is given else x


def _summed(xp: Namespace, x: Array, taps: Taps, axis: int) -> Array:
    """The weighted sum along one axis."""
    places = xp.asarray(taps.places)
    weights = xp.asarray(taps.weights.astype(x.dtype)).reshape(len(taps.weights), -1, *[1] * (x.ndim - 1 - axis))
    total = x.take(places[0], axis)
    total *= weights[0]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        part = x.take(place, axis)
        part *= weight
        total += part
    return total


_BY_NAME: dict[str, Resizing] = {
    "nearest": Resizing(_nearest, True), "bilinear": Resizing(_linear, False), "bicubic": Resizing(_cubic, False),
    "area": Resizing(_area, False),
}  # fmt: skip
INTERPOLATIONS: tuple[str, ...] = tuple(_BY_NAME)
"""The names of the ways to resize."""


def resized_image(image: Array, height: int, width: int, interpolation: str) -> Array:
    """An image [height, width, channels] of another size, as float32; the centers of pixels are half a pixel in."""
    how = _BY_NAME[interpolation]
    along = [_taps(how, *pair, False, True) for pair in zip(image.shape[:2], (height, width), strict=True)]
    given = image[None].astype(np.float32)
    return _resized(np, given, along, given, how.keeps)[0]


resize_nearest_neighbor, resize_nearest_neighbor_grad = resizing(
    "resize_nearest_neighbor", _nearest, """Images of height and width `size`, of which each pixel is the nearest one.

    Examples:
        >>> await session.run(af.image.resize_nearest_neighbor([[[[0], [1]]]], [1, 4])[0, 0, :, 0])
        array([0, 0, 1, 1], dtype=int32)
    """,
    keeps=True,
)  # fmt: skip
resize_bilinear, resize_bilinear_grad = resizing(
    "resize_bilinear", _linear,
    """Images of height and width `size`, of which each pixel is interpolated linearly between four.

    Examples:
        >>> await session.run(af.image.resize_bilinear([[[[0.0], [1.0]]]], [1, 4])[0, 0, :, 0])
        array([0. , 0.5, 1. , 1. ], dtype=float32)
    """,
)  # fmt: skip
resize_bicubic, resize_bicubic_grad = resizing(
    "resize_bicubic", _cubic,
    """Images of height and width `size`, of which each pixel is interpolated between sixteen by cubic polynomials.

    Examples:
        >>> await session.run(af.image.resize_bicubic(af.ones([1, 2, 2, 1]), [1, 3])[0, 0, :, 0])
        array([1., 1., 1.], dtype=float32)
    """,
)  # fmt: skip
resize_area, resize_area_grad = resizing(
    "resize_area", _area, """Images of height and width `size`, of which each pixel is the mean of those it covers.

    Examples:
        >>> await session.run(af.image.resize_area([[[[1.0], [3.0]]]], [1, 1])[0, 0, :, 0])
        array([2.], dtype=float32)
    """,
    halves=False,
)  # fmt: skip
