"""Pictures in files."""

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.math.casting import cast
from aioflow.kernels.text.strings import reduce_join
from aioflow.library.decoding import decode_image
from aioflow.onnx.call import Call
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int32


@operator("ImageDecoder", since=20)
def _(call: Call, data: Tensor) -> Tensor:
    """The pixels of a PNG, JPEG, BMP or GIF, given as the bytes of its file: [height, width, channels]."""
    layout = call.text("pixel_format", "RGB")
    letters = constant(np.array([bytes([number]) for number in range(256)], object))
    contents = reduce_join(gather(letters, cast(data, int32)))
    pixels = decode_image(contents, channels=1 if layout == "Grayscale" else 3, expand_animations=False)
    pixels.set_shape([None, None, None])
    return reverse(pixels, [2]) if layout == "BGR" else pixels
