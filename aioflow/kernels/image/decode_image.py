"""Decode PNG, JPEG, GIF and BMP strings to pixels, and encode pixels.

They need Pillow: `pip install aioflow-engine[image]`.

The ops refuse an image, before decoding, whose header states more than 89 million pixels or more than its bytes can
hold.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.op import Ints, Op, op
from aioflow.kernels.families import CPU
from aioflow.kernels.image import image_codecs
from aioflow.kernels.text.strings import each
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    SCALAR,
    STRING,
    Array,
    DType,
    Namespace,
    Spec,
    TensorShape,
    int32,
    int64,
    uint8,
    uint16,
)

_KINDS_OF_CHANNELS = {"PNG": (0, 1, 2, 3, 4), "JPEG": (0, 1, 3), "BMP": (0, 3, 4), "GIF": (3,)}


def _contents(contents: Spec) -> None:
    contents.only(STRING).with_rank(0, "contents")


def _image(channels: int, kind: str) -> TensorShape:
    allowed = _KINDS_OF_CHANNELS[kind]
    if channels not in allowed:
        raise ValueError(f"channels of a {kind} are one of {', '.join(map(str, allowed))}, not {channels}")
    return TensorShape([None, None, channels or None])


def _bytes(value: Array) -> bytes:
    return bytes(value[()] if isinstance(value, np.ndarray) else value)


# Decoding


@op
def decode_png(contents: Spec, channels: int = 0, dtype: DType = uint8) -> Spec:
    """The pixels of a PNG, [height, width, channels].

    Args:
        contents: the PNG, a string.
        channels: 1 for grey, 2 for grey and alpha, 3 for RGB, 4 for RGBA; 0 for those of the file.
        dtype: uint8 or uint16. 16-bit colour decodes to its upper 8 bits, 16-bit grey to all.

    Raises:
        InvalidArgumentError: in the run: the string is not a PNG, damaged, or too large.

    Examples:
        >>> image = af.image.decode_png(af.image.encode_png(af.constant([[[7], [9]]], af.uint8)))[..., 0]
        >>> await session.run(image)
        array([[7, 9]], dtype=uint8)
    """
    _contents(contents)
    if dtype not in (uint8, uint16):
        raise TypeError(f"a PNG is decoded to uint8 or uint16, not to {dtype.name}")
    return Spec(dtype, _image(channels, "PNG"))


@decode_png.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, channels: int, dtype: DType) -> Array:
    pixels = image_codecs.decoded(_bytes(contents), "PNG", channels)
    if dtype is uint8:
        return pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)
    return pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * np.uint16(257)


@op
def decode_jpeg(
    contents: Spec,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
) -> Spec:
    """The pixels of a JPEG, uint8 [height, width, channels].

    Args:
        contents: the JPEG, a string.
        channels: 1 for grey, 3 for RGB; 0 for those of the file.
        ratio: 2, 4 or 8 to decode it at a half, a quarter or an eighth of its size.
        fancy_upscaling: for compatibility.
        try_recover_truncated: for compatibility; a truncated one is refused.
        acceptable_fraction: for compatibility.
        dct_method: for compatibility.

    Raises:
        InvalidArgumentError: in the run: the string is not a JPEG, damaged, or too large.

    Examples:
        >>> await session.run(af.image.decode_jpeg(af.image.encode_jpeg(af.zeros([8, 8, 3], af.uint8)))[0, 0])
        array([0, 0, 0], dtype=uint8)
    """
    _contents(contents)
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio is 1, 2, 4 or 8, not {ratio}")
    return Spec(uint8, _image(channels, "JPEG"))


@decode_jpeg.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, channels: int, ratio: int) -> Array:
    return image_codecs.decoded(_bytes(contents), "JPEG", channels, ratio)


@op
def decode_and_crop_jpeg(
    contents: Spec,
    crop_window: Ints,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
) -> Spec:
    """Decodes a part of a JPEG: `crop_window` is the first row and column, and the numbers of rows and columns.

    Examples:
        >>> crop = af.image.decode_and_crop_jpeg(af.image.encode_jpeg(af.zeros([8, 8, 3], af.uint8)), [0, 0, 2, 2])
        >>> await session.run([crop[0, 0]])
        [array([0, 0, 0], dtype=uint8)]
    """
    _contents(contents)
    crop_window.with_rank(1, "crop_window").shape.merge_with([4])
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio is 1, 2, 4 or 8, not {ratio}")
    return Spec(uint8, _image(channels, "JPEG"))


@decode_and_crop_jpeg.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, crop_window: Array, *, channels: int, ratio: int) -> Array:
    pixels = image_codecs.decoded(_bytes(contents), "JPEG", channels, ratio)
    top, left, height, width = crop_window.tolist()
    whole = pixels.shape
    inside = min(top, left) >= 0 and top + height <= whole[0] and left + width <= whole[1]
    if not inside or height < 1 or width < 1:
        raise errors.InvalidArgumentError(
            f"the window {[top, left, height, width]} is not inside the image of {whole[0]} x {whole[1]} pixels"
        )
    return pixels[top : top + height, left : left + width].copy()


@op
def decode_bmp(contents: Spec, channels: int = 0) -> Spec:
    """The pixels of a BMP, uint8 [height, width, channels].

    Examples:
        >>> import struct
        >>> head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 58, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)
        >>> await session.run(af.image.decode_bmp(head + bytes([3, 2, 1, 0])))
        array([[[1, 2, 3]]], dtype=uint8)
    """
    _contents(contents)
    return Spec(uint8, _image(channels, "BMP"))


@decode_bmp.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, channels: int) -> Array:
    return image_codecs.decoded(_bytes(contents), "BMP", channels)


@op
def decode_gif(contents: Spec) -> Spec:
    """The pictures of a GIF, one after the other: uint8 [pictures, height, width, 3].

    Examples:
        >>> import base64
        >>> data = base64.b64decode("R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=")
        >>> await session.run(af.image.decode_gif(data))
        array([[[[255,   0,   0]]]], dtype=uint8)
    """
    _contents(contents)
    return Spec(uint8, TensorShape([None, None, None, 3]))


@decode_gif.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array) -> Array:
    return image_codecs.frames(_bytes(contents))


@op(name="decode_image")
def decode_any_image(contents: Spec, channels: int, expand_animations: bool) -> Spec:
    """The pixels of a PNG, JPEG, GIF or BMP, whichever it is, uint8."""
    _contents(contents)
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"channels of an image are 0, 1, 3 or 4, not {channels}")
    return Spec(uint8, TensorShape(None if expand_animations else [None, None, channels or None]))


@decode_any_image.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, channels: int, expand_animations: bool) -> Array:
    data = _bytes(contents)
    kind = image_codecs.kind_of(data)
    if kind is None:
        raise errors.InvalidArgumentError(f"neither PNG, JPEG, GIF nor BMP: the bytes begin with {data[:8]!r}")
    if kind == "GIF":
        channels = channels or 3
        return image_codecs.frames(data, channels) if expand_animations else image_codecs.decoded(data, kind, channels)
    found = image_codecs.decoded(data, kind, channels)
    return found if found.dtype == np.uint8 else (found >> 8).astype(np.uint8)


# Sizes


def _makes(made: Op[Any], kind: str) -> None:
    """Declare that the memory check before decoding reads the size of the result from the image's header."""

    @made.makes
    def _(inputs: Sequence[Array], attrs: Any) -> int:
        size = attrs["dtype"].size if made is decode_png else 1
        ratio = attrs["ratio"] if kind == "JPEG" else 1
        return size * image_codecs.bytes_of(_bytes(inputs[0]), kind, attrs["channels"], ratio)


@decode_gif.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    return image_codecs.bytes_of_frames(_bytes(inputs[0]))


@decode_any_image.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    data, channels = _bytes(inputs[0]), attrs["channels"]
    kind = image_codecs.kind_of(data)
    if kind == "GIF" and attrs["expand_animations"]:
        return image_codecs.bytes_of_frames(data, channels or 3)
    return image_codecs.bytes_of(data, kind, channels)


_makes(decode_png, "PNG")
_makes(decode_bmp, "BMP")
for _op in (decode_jpeg, decode_and_crop_jpeg):
    _makes(_op, "JPEG")


# Specs


@op
def is_jpeg(contents: Spec) -> Spec:
    """Whether a string begins as a JPEG does.

    Examples:
        >>> await session.run(af.image.is_jpeg("no picture"))
        np.False_
    """
    return contents.only(STRING).with_dtype(dtypes.bool_)


is_jpeg.kernel(CPU, fresh=True, binds=True)(
    lambda xp, node: each(lambda data: image_codecs.kind_of(data) == "JPEG", dtypes.bool_)
)


@op
def extract_jpeg_shape(contents: Spec, output_type: DType = int32) -> Spec:
    """Height, width and channels of a JPEG, of its header alone.

    Examples:
        >>> await session.run(af.image.extract_jpeg_shape(af.image.encode_jpeg(af.zeros([4, 8, 3], af.uint8))))
        array([4, 8, 3], dtype=int32)
    """
    _contents(contents)
    if output_type not in (int32, int64):
        raise TypeError(f"output_type is int32 or int64, not {output_type.name}")
    return Spec(output_type, TensorShape([3]))


@extract_jpeg_shape.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, output_type: DType) -> Array:
    return np.array(image_codecs.checked_size(_bytes(contents), "JPEG"), output_type.np)


# Encoding


def _pixels(image: Spec, kind: str, channels: Sequence[int]) -> None:
    sizes = image.with_rank(3, "image").sizes
    if sizes is not None and sizes[2] not in (None, *channels):
        raise ValueError(f"a {kind} has {', '.join(map(str, channels))} channels, the image has {sizes[2]}")


@op
def encode_png(image: Spec, compression: int = -1) -> Spec:
    """Encodes an image as a PNG string: uint8 with 1 to 4 channels, or uint16 with one.

    `compression` is 0 (none) to 9 (smallest), or -1 for zlib's default.

    Examples:
        >>> image = af.image.decode_png(af.image.encode_png(af.constant([[[7], [9]]], af.uint8)))[..., 0]
        >>> await session.run(image)
        array([[7, 9]], dtype=uint8)
    """
    image.only(frozenset({uint8, uint16}))
    _pixels(image, "PNG", (1, 2, 3, 4) if image.dtype is uint8 else (1,))
    if compression not in range(-1, 10):
        raise ValueError(f"compression is -1 to 9, not {compression}")
    return Spec(dtypes.string, SCALAR)


@encode_png.kernel(CPU, fresh=True)
def _(xp: Namespace, image: Array, *, compression: int) -> Array:
    _check_pixels(image, "PNG", (1, 2, 3, 4) if image.dtype == np.uint8 else (1,))
    return np.array(image_codecs.encoded_png(image, compression), object)


def _check_pixels(image: Array, kind: str, channels: Sequence[int]) -> None:
    if not image.size or image.shape[2] not in channels:
        raise errors.InvalidArgumentError(f"an image of shape {list(image.shape)} cannot be a {kind}")


@op
def encode_jpeg(
    image: Spec,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
) -> Spec:
    """Encodes a uint8 image as a JPEG string.

    Args:
        image: [height, width, channels], of 1 or 3 channels.
        format: "grayscale" or "rgb" to require 1 or 3 channels.
        quality: 0 to 100.
        progressive: whether to write a progressive JPEG.
        optimize_size: whether to spend more time on a smaller file.
        chroma_downsampling: whether to store colour at half the resolution.
        density_unit: the unit of the densities: pixels per "in" or "cm".
        x_density: pixels per unit across.
        y_density: pixels per unit down.
        xmp_metadata: XMP to store with it.

    Examples:
        >>> await session.run(af.image.is_jpeg(af.image.encode_jpeg(af.zeros([8, 8, 3], af.uint8))))
        np.True_
    """
    image.only(frozenset({uint8}))
    channels = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}.get(format)
    if channels is None:
        raise ValueError(f"format is '', 'grayscale' or 'rgb', not {format!r}")
    _pixels(image, "JPEG", channels)
    if not 0 <= quality <= 100:
        raise ValueError(f"quality is 0 to 100, not {quality}")
    if density_unit not in ("in", "cm"):
        raise ValueError(f"density_unit is 'in' or 'cm', not {density_unit!r}")
    return Spec(dtypes.string, SCALAR)


@encode_jpeg.kernel(CPU, fresh=True)
def _(
    xp: Namespace,
    image: Array,
    *,
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: str,
    x_density: int,
    y_density: int,
    xmp_metadata: str,
) -> Array:
    _check_pixels(image, "JPEG", (1, 3))
    per_inch = 1.0 if density_unit == "in" else 2.54
    options: dict[str, Any] = {"dpi": (round(x_density * per_inch), round(y_density * per_inch))}
    if xmp_metadata:
        options["xmp"] = xmp_metadata.encode()
    data = image_codecs.encoded_jpeg(
        image, quality=quality, progressive=progressive, optimize=optimize_size,
        subsampling=2 if chroma_downsampling else 0, **options,
    )  # fmt: skip
    return np.array(data, object)


_DECODERS: list[Op[Any]] = [decode_png, decode_jpeg, decode_and_crop_jpeg, decode_bmp, decode_gif, decode_any_image]
for _op in (*_DECODERS, encode_png, encode_jpeg, is_jpeg, extract_jpeg_shape):
    _op.no_gradient("bytes do not vary smoothly")
for _op in (*_DECODERS, encode_png, encode_jpeg):
    _op.cost(lambda inputs, outputs, attrs: 1e7)
