"""`decode_image`, which calls the decoder of each format."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.image.decode_image import decode_any_image
from aioflow.library.image_basics import convert_image_dtype
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import uint8


@transactional
def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """The pixels of a PNG, JPEG, GIF or BMP, whichever it is.

    Args:
        contents: the picture, a string.
        channels: 1 for grey, 3 for red, green, blue, 4 with opacity; 0 or None for those it has.
        dtype: uint8, or what `convert_image_dtype` makes of that.
        name: the name of the operation.
        expand_animations: whether a GIF gives all its pictures, [pictures, height, width, channels], so that the rank
            of the result is not known before the run; else it gives the first, [height, width, channels].
    """
    wanted = dtypes.as_dtype(dtype)
    if wanted is uint8:
        return decode_any_image(contents, channels or 0, expand_animations, name=name)
    return convert_image_dtype(decode_any_image(contents, channels or 0, expand_animations), wanted, name=name)
