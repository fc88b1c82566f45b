"""JPEGs of a quality that a run decides."""

import numpy as np

from aioflow import errors
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU
from aioflow.kernels.image import image_codecs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, uint8


@op
def encode_jpeg_of_quality(images: Spec, quality: Ints) -> Spec:
    """A uint8 image [height, width, channels], of 1 or 3 channels, as a JPEG string of a quality from 0 to 100."""
    sizes = images.only(frozenset({uint8})).with_rank(3, "images").sizes
    if sizes is not None and sizes[2] not in (1, 3, None):
        raise ValueError(f"a JPEG has 1 or 3 channels, not {sizes[2]}")
    known.scalar(quality, "quality")
    return Spec(dtypes.string, TensorShape(()))


encode_jpeg_of_quality.no_gradient("an image is a string")
encode_jpeg_of_quality.cost(lambda inputs, outputs, attrs: 1e7)


@encode_jpeg_of_quality.kernel(CPU, fresh=True)
def _(xp: Namespace, images: Array, quality: Array) -> Array:
    if not images.size or images.shape[2] not in (1, 3):
        raise errors.InvalidArgumentError(f"an image of shape {list(images.shape)} cannot be a JPEG")
    if not 0 <= quality <= 100:
        raise errors.InvalidArgumentError(f"the quality of a JPEG is 0 to 100, not {quality}")
    return np.array(image_codecs.encoded_jpeg(images, quality=int(quality), subsampling=2), object)
