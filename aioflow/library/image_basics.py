"""The common part of functions of images: ranks, dtypes and brightness."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.casting import cast, saturate_cast
from aioflow.kernels.math.reduction import reduce_mean
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype, float32


def an_image(value: NumberLike) -> Tensor:
    """Return an image or a batch of images. ValueError for another rank."""
    tensor = convert_to_tensor(value)
    if tensor.shape.ndims not in (None, 3, 4):
        raise ValueError(f"an image has rank 3, a batch of images 4; the shape is {tensor.shape}")
    return tensor


@transactional
def convert_image_dtype(image: NumberLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None) -> Tensor:
    """Return the image in another dtype, scaled: floating pixels range from 0 to 1, integer ones from 0 to the maximum.

    With `saturate`, values beyond the limits of an integer dtype become the nearest limit.
    """
    tensor, wanted = convert_to_tensor(image), as_dtype(dtype)
    if wanted is tensor.dtype:
        return tensor
    with name_scope(name, "convert_image", [tensor]) as scope:
        if tensor.dtype.is_integer and wanted.is_integer:
            return _between_integers(tensor, wanted, saturate, scope)
        if tensor.dtype.is_floating and wanted.is_floating:
            return cast(tensor, wanted, scope)
        if tensor.dtype.is_integer:
            return multiply(cast(tensor, wanted), wanted.np.type(1 / tensor.dtype.max), name=scope)
        scaled = tensor * (int(wanted.max) + 0.5)
        return saturate_cast(scaled, wanted, scope) if saturate else cast(scaled, wanted, scope)


def _between_integers(image: Tensor, wanted: DType, saturate: bool, name: str) -> Tensor:
    """Scale by whole factors, up or down: limits of integers are a power of 2 less 1."""
    change = saturate_cast if saturate else cast
    if image.dtype.max > wanted.max:
        factor = (int(image.dtype.max) + 1) // (int(wanted.max) + 1)
        return change(image // factor, wanted, name)
    factor = (int(wanted.max) + 1) // (int(image.dtype.max) + 1)
    return multiply(change(image, wanted), factor, name=name)


def as_floats(image: Tensor) -> Tensor:
    """Return the image itself if it is floating, else as float32 from 0 to 1."""
    return image if image.dtype.is_floating else convert_image_dtype(image, float32)


@transactional
def adjust_brightness(image: NumberLike, delta: NumberLike) -> Tensor:
    """Add `delta` to all pixels, as a part of the range from 0 to 1; integers do not wrap around."""
    with name_scope(None, "adjust_brightness", [image, delta]):
        tensor = convert_to_tensor(image)
        floats = as_floats(tensor)
        brighter = add(floats, cast(convert_to_tensor(delta), floats.dtype))
        return convert_image_dtype(brighter, tensor.dtype, saturate=True)


@transactional
def adjust_contrast(images: NumberLike, contrast_factor: NumberLike) -> Tensor:
    """Scale the distance of each pixel from its channel's mean by `contrast_factor`; integers do not wrap around."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]):
        tensor = an_image(images)
        floats = as_floats(tensor)
        mean = reduce_mean(floats, [-3, -2], keepdims=True)
        changed = (floats - mean) * cast(convert_to_tensor(contrast_factor), floats.dtype) + mean
        return convert_image_dtype(changed, tensor.dtype, saturate=True)
