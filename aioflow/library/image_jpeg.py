"""Images with the losses of JPEG."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.image.decode_image import decode_jpeg
from aioflow.kernels.image.jpeg_quality import encode_jpeg_of_quality
from aioflow.kernels.math.random import random_uniform
from aioflow.library.control import name_scope
from aioflow.library.image_color import convert_image_dtype
from aioflow.tensors.dtypes import int32, uint8


@transactional
def adjust_jpeg_quality(
    image: NumberLike, jpeg_quality: NumberLike, dct_method: str = "", name: str | None = None
) -> Tensor:
    """Return the image, of its own dtype, as a JPEG of that quality shows it.

    Args:
        image: [height, width, channels], of 1 or 3 channels; floating pixels range from 0 to 1.
        jpeg_quality: 0 to 100.
        dct_method: for compatibility.
        name: the name of the operation.

    Raises:
        ValueError: `image` has another rank or number of channels, or a known quality is out of range.
        InvalidArgumentError: in the run, for the same reasons.

    Examples:
        >>> (await session.run(af.image.adjust_jpeg_quality(af.fill([8, 8, 3], 0.6), 50)))[0, 0].round(1)
        array([0.6, 0.6, 0.6], dtype=float32)
    """
    if isinstance(jpeg_quality, int) and not 0 <= jpeg_quality <= 100:
        raise ValueError(f"jpeg_quality is 0 to 100, not {jpeg_quality}")
    with name_scope(name, "adjust_jpeg_quality", [image]) as scope:
        given = convert_to_tensor(image)
        pixels = convert_image_dtype(given, uint8, saturate=True)
        sizes = pixels.shape.as_list() if pixels.shape.ndims is not None else [None]
        encoded = encode_jpeg_of_quality(pixels, convert_to_tensor(jpeg_quality, int32))
        shown = decode_jpeg(encoded, sizes[-1] or 0, dct_method=dct_method)
        shown.set_shape(pixels.shape)
        return convert_image_dtype(shown, given.dtype, saturate=True, name=scope)


@transactional
def random_jpeg_quality(
    image: NumberLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Call `adjust_jpeg_quality` with a random number from `min_jpeg_quality` up to but not `max_jpeg_quality`.

    Examples:
        >>> af.image.random_jpeg_quality(af.ones([2, 2, 3]), 75, 95).shape
        TensorShape([2, 2, 3])
    """
    if not 0 <= min_jpeg_quality < max_jpeg_quality <= 100:
        raise ValueError(
            f"0 <= min_jpeg_quality < max_jpeg_quality <= 100 is needed, not {min_jpeg_quality} and {max_jpeg_quality}"
        )
    return adjust_jpeg_quality(image, random_uniform([], min_jpeg_quality, max_jpeg_quality, int32, seed))
