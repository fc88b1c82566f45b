"""`decode_image`, which calls the decoder of each format."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.image.decode_image import decode_any_image
from aioflow.library.image_color import convert_image_dtype
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DTypeLike, uint8


@transactional
def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: DTypeLike = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Return the pixels of a PNG, JPEG, GIF or BMP image, whichever it is.

    Args:
        contents: the encoded image, a string.
        channels: 1 for grey, 3 for RGB, 4 for RGBA; 0 or None for those of the image.
        dtype: uint8, or another one, converted by `convert_image_dtype`.
        name: the name of the operation.
        expand_animations: whether to return all images of a GIF, [images, height, width, channels], so that the rank of
            the result is unknown before the run; else the first image, [height, width, channels].

    Examples:
        >>> await session.run(af.image.decode_image(af.image.encode_png(af.constant([[[7]]], af.uint8))))
        array([[[7]]], dtype=uint8)
    """
    wanted = dtypes.as_dtype(dtype)
    if wanted is uint8:
        return decode_any_image(contents, channels or 0, expand_animations, name=name)
    return convert_image_dtype(decode_any_image(contents, channels or 0, expand_animations), wanted, name=name)
