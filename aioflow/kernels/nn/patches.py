"""The patches of images as the channels of new ones."""

import math
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import shape_of
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn.activation import Function, wide
from aioflow.kernels.nn.convolution import patches
from aioflow.kernels.nn.windows import Sliding, either, per_axis, spatial, taps
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Spec, TensorShape


def _patched(images: Spec, ksizes: Any, strides: Any, rates: Any, padding: Any) -> TensorShape:
    sliding, window = _sliding(ksizes, strides, rates, padding)
    sizes = images.with_rank(4, "images").sizes
    assert sizes is not None
    channels = None if sizes[3] is None else sizes[3] * math.prod(window)
    return TensorShape((sizes[0], *sliding.places(sizes[1:3], window), channels))


def _sliding(ksizes: Any, strides: Any, rates: Any, padding: Any) -> tuple[Sliding, tuple[int, ...]]:
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding is 'SAME' or 'VALID', not {padding!r}")
    return Sliding.of(strides, padding, "NHWC", rates), spatial(ksizes, True, "ksizes")


@op(name="extract_image_patches")
def _extract_image_patches(images: Spec, ksizes: Any, strides: Any, rates: Any, padding: Any) -> Spec:
    """The pixels of each patch as the channels of one: [batch, places, places, height * width * channels]."""
    return images.only(NUMERIC).with_shape(_patched(images, ksizes, strides, rates, padding))


@op
def extract_image_patches_grad(
    input_sizes: Ints, grad: Spec, ksizes: Any, strides: Any, rates: Any, padding: Any
) -> Spec:
    """Each pixel of each patch added to where it came from, in images of shape `input_sizes`."""
    whole = grad.only(NUMERIC).with_shape(known.shape(input_sizes, "input_sizes").with_rank(4))
    _patched(whole, ksizes, strides, rates, padding).merge_with(grad.shape)
    return whole


@_extract_image_patches.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return extract_image_patches_grad(shape_of(op.inputs[0]), dy, **op.attrs)


@extract_image_patches_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor]:
    return None, _extract_image_patches(dz, **op.attrs)


@_extract_image_patches.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    sliding, window = _sliding(**node.attrs)

    def compute(x: Array) -> Array:
        x = sliding.take(xp, x)
        seen = patches(xp, x, sliding.slides(x.shape[1:3], window))
        return seen.copy().reshape(*seen.shape[:3], math.prod(seen.shape[3:]))

    return compute


@wide(extract_image_patches_grad)
def _(xp: Namespace, node: NodeView) -> Function:
    sliding, window = _sliding(**node.attrs)

    def compute(sizes: Array, dy: Array) -> Array:
        whole = sizes.tolist()
        slides = sliding.slides(whole[1:3], window)
        expected = [whole[0], *[slide.output for slide in slides], math.prod(window) * whole[3]]
        if list(dy.shape) != expected:
            raise ValueError(f"patches of {whole} have shape {expected}, not {list(dy.shape)}")
        dx, split = xp.zeros(whole, dy.dtype), dy.reshape(*dy.shape[:3], *window, whole[3])
        for index, places, seen in taps(slides):
            dx[seen] += split[(*places, *index)]
        return dx

    return compute


def extract_image_patches(
    images: NumberLike,
    ksizes: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    rates: int | Sequence[int] | None = None,
    padding: Any = None,
    name: str | None = None,
    sizes: int | Sequence[int] | None = None,
) -> Tensor:
    """The pixels of each patch as the channels of one: [batch, places, places, height * width * channels].

    Args:
        images: images [batch, height, width, channels].
        ksizes: the size of a patch: one number, one for height and width each, or one per axis of `images`.
        strides: by how much the patches lie apart, given as `ksizes` is.
        rates: the distance between pixels of a patch, given likewise.
        padding: "SAME" or "VALID".
        name: the name of the operation.
        sizes: another name for `ksizes`.

    Examples:
        >>> image = np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1)
        >>> patches = af.extract_image_patches(image, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
        >>> (await session.run(patches))[0, 0]
        array([[0., 1., 4., 5.],
               [2., 3., 6., 7.]], dtype=float32)
    """
    window = per_axis(either(ksizes, sizes, "ksizes, sizes"), "NHWC")
    steps, distances = per_axis(strides, "NHWC"), per_axis(1 if rates is None else rates, "NHWC")
    return _extract_image_patches(images, window, steps, distances, padding, name=name)
