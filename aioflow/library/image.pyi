"""`af.image`: images resized, cropped, padded, rotated and adjusted.

An image is [height, width, channels], or a batch of them; the ops come from kernels.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.kernels.nn.patches import extract_image_patches as extract_image_patches
from aioflow.library.decoding import decode_image as decode_image
from aioflow.library.image_boxes import combined_non_max_suppression as combined_non_max_suppression
from aioflow.library.image_boxes import draw_bounding_boxes as draw_bounding_boxes
from aioflow.library.image_boxes import non_max_suppression as non_max_suppression
from aioflow.library.image_boxes import non_max_suppression_overlaps as non_max_suppression_overlaps
from aioflow.library.image_boxes import non_max_suppression_padded as non_max_suppression_padded
from aioflow.library.image_boxes import non_max_suppression_with_scores as non_max_suppression_with_scores
from aioflow.library.image_color import adjust_brightness as adjust_brightness
from aioflow.library.image_color import adjust_contrast as adjust_contrast
from aioflow.library.image_color import adjust_gamma as adjust_gamma
from aioflow.library.image_color import adjust_hue as adjust_hue
from aioflow.library.image_color import adjust_saturation as adjust_saturation
from aioflow.library.image_color import convert_image_dtype as convert_image_dtype
from aioflow.library.image_color import grayscale_to_rgb as grayscale_to_rgb
from aioflow.library.image_color import hsv_to_rgb as hsv_to_rgb
from aioflow.library.image_color import image_gradients as image_gradients
from aioflow.library.image_color import psnr as psnr
from aioflow.library.image_color import random_brightness as random_brightness
from aioflow.library.image_color import random_contrast as random_contrast
from aioflow.library.image_color import random_flip_left_right as random_flip_left_right
from aioflow.library.image_color import random_flip_up_down as random_flip_up_down
from aioflow.library.image_color import random_hue as random_hue
from aioflow.library.image_color import random_saturation as random_saturation
from aioflow.library.image_color import rgb_to_grayscale as rgb_to_grayscale
from aioflow.library.image_color import rgb_to_hsv as rgb_to_hsv
from aioflow.library.image_color import rgb_to_yiq as rgb_to_yiq
from aioflow.library.image_color import rgb_to_yuv as rgb_to_yuv
from aioflow.library.image_color import sobel_edges as sobel_edges
from aioflow.library.image_color import total_variation as total_variation
from aioflow.library.image_color import yiq_to_rgb as yiq_to_rgb
from aioflow.library.image_color import yuv_to_rgb as yuv_to_rgb
from aioflow.library.image_geometry import ResizeMethod as ResizeMethod
from aioflow.library.image_geometry import central_crop as central_crop
from aioflow.library.image_geometry import crop_and_resize as crop_and_resize
from aioflow.library.image_geometry import crop_to_bounding_box as crop_to_bounding_box
from aioflow.library.image_geometry import extract_patches as extract_patches
from aioflow.library.image_geometry import flip_left_right as flip_left_right
from aioflow.library.image_geometry import flip_up_down as flip_up_down
from aioflow.library.image_geometry import pad_to_bounding_box as pad_to_bounding_box
from aioflow.library.image_geometry import per_image_standardization as per_image_standardization
from aioflow.library.image_geometry import resize as resize
from aioflow.library.image_geometry import resize_image_with_crop_or_pad as resize_image_with_crop_or_pad
from aioflow.library.image_geometry import resize_image_with_pad as resize_image_with_pad
from aioflow.library.image_geometry import resize_images as resize_images
from aioflow.library.image_geometry import resize_with_crop_or_pad as resize_with_crop_or_pad
from aioflow.library.image_geometry import rot90 as rot90
from aioflow.library.image_geometry import transpose as transpose
from aioflow.library.image_geometry import transpose_image as transpose_image
from aioflow.library.image_jpeg import adjust_jpeg_quality as adjust_jpeg_quality
from aioflow.library.image_jpeg import random_jpeg_quality as random_jpeg_quality
from aioflow.library.image_parts import extract_glimpse as extract_glimpse
from aioflow.library.image_parts import sample_distorted_bounding_box as sample_distorted_bounding_box
from aioflow.library.image_similarity import ssim as ssim
from aioflow.library.image_similarity import ssim_multiscale as ssim_multiscale
from aioflow.library.random import random_crop as random_crop

__all__ = ["ResizeMethod", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_jpeg_quality",
    "adjust_saturation", "central_crop", "combined_non_max_suppression", "convert_image_dtype", "crop_and_resize",
    "crop_to_bounding_box", "decode_and_crop_jpeg", "decode_bmp", "decode_gif", "decode_image", "decode_jpeg",
    "decode_png", "decode_webp", "draw_bounding_boxes", "encode_jpeg", "encode_png", "extract_glimpse",
    "extract_image_patches", "extract_jpeg_shape", "extract_patches", "flip_left_right", "flip_up_down",
    "grayscale_to_rgb", "hsv_to_rgb", "image_gradients", "is_jpeg", "non_max_suppression",
    "non_max_suppression_overlaps", "non_max_suppression_padded", "non_max_suppression_with_scores",
    "pad_to_bounding_box", "per_image_standardization", "psnr", "random_brightness", "random_contrast", "random_crop",
    "random_flip_left_right", "random_flip_up_down", "random_hue", "random_jpeg_quality", "random_saturation", "resize",
    "resize_area", "resize_bicubic", "resize_bilinear", "resize_image_with_crop_or_pad", "resize_image_with_pad",
    "resize_images", "resize_nearest_neighbor", "resize_with_crop_or_pad", "rgb_to_grayscale", "rgb_to_hsv",
    "rgb_to_yiq", "rgb_to_yuv", "rot90", "sample_distorted_bounding_box", "sobel_edges", "ssim", "ssim_multiscale",
    "total_variation", "transpose", "transpose_image", "yiq_to_rgb", "yuv_to_rgb"]

def decode_and_crop_jpeg(
    contents: TextLike,
    crop_window: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decodes a part of a JPEG: `crop_window` is the first row and column, and the numbers of rows and columns.

    Examples:
        >>> crop = af.image.decode_and_crop_jpeg(af.image.encode_jpeg(af.zeros([8, 8, 3], af.uint8)), [0, 0, 2, 2])
        >>> await session.run([crop[0, 0]])
        [array([0, 0, 0], dtype=uint8)]
    """


def decode_bmp(contents: TextLike, channels: int = 0, name: str | None = None) -> Tensor:
    """The pixels of a BMP, uint8 [height, width, channels].

    Examples:
        >>> import struct
        >>> head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 58, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)
        >>> await session.run(af.image.decode_bmp(head + bytes([3, 2, 1, 0])))
        array([[[1, 2, 3]]], dtype=uint8)
    """


def decode_gif(contents: TextLike, name: str | None = None) -> Tensor:
    """The pictures of a GIF, one after the other: uint8 [pictures, height, width, 3].

    Examples:
        >>> import base64
        >>> data = base64.b64decode("R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=")
        >>> await session.run(af.image.decode_gif(data))
        array([[[[255,   0,   0]]]], dtype=uint8)
    """


def decode_jpeg(
    contents: TextLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
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


def decode_png(contents: TextLike, channels: int = 0, dtype: DTypeLike = ..., name: str | None = None) -> Tensor:
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


def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
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


def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Tensor:
    """Encodes an image as a PNG string: uint8 with 1 to 4 channels, or uint16 with one.

    `compression` is 0 (none) to 9 (smallest), or -1 for zlib's default.

    Examples:
        >>> image = af.image.decode_png(af.image.encode_png(af.constant([[[7], [9]]], af.uint8)))[..., 0]
        >>> await session.run(image)
        array([[7, 9]], dtype=uint8)
    """


def extract_jpeg_shape(contents: TextLike, output_type: DTypeLike = ..., name: str | None = None) -> Tensor:
    """Height, width and channels of a JPEG, of its header alone.

    Examples:
        >>> await session.run(af.image.extract_jpeg_shape(af.image.encode_jpeg(af.zeros([4, 8, 3], af.uint8))))
        array([4, 8, 3], dtype=int32)
    """


def is_jpeg(contents: TextLike, name: str | None = None) -> Tensor:
    """Whether a string begins as a JPEG does.

    Examples:
        >>> await session.run(af.image.is_jpeg("no picture"))
        np.False_
    """


def resize_area(
    images: NumberLike,
    size: NumberLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of height and width `size`, of which each pixel is the mean of those it covers.

    Examples:
        >>> await session.run(af.image.resize_area([[[[1.0], [3.0]]]], [1, 1])[0, 0, :, 0])
        array([2.], dtype=float32)
    """


def resize_bicubic(
    images: NumberLike,
    size: NumberLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of height and width `size`, of which each pixel is interpolated between sixteen by cubic polynomials.

    Examples:
        >>> await session.run(af.image.resize_bicubic(af.ones([1, 2, 2, 1]), [1, 3])[0, 0, :, 0])
        array([1., 1., 1.], dtype=float32)
    """


def resize_bilinear(
    images: NumberLike,
    size: NumberLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of height and width `size`, of which each pixel is interpolated linearly between four.

    Examples:
        >>> await session.run(af.image.resize_bilinear([[[[0.0], [1.0]]]], [1, 4])[0, 0, :, 0])
        array([0. , 0.5, 1. , 1. ], dtype=float32)
    """


def resize_nearest_neighbor(
    images: NumberLike,
    size: NumberLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of height and width `size`, of which each pixel is the nearest one.

    Examples:
        >>> await session.run(af.image.resize_nearest_neighbor([[[[0], [1]]]], [1, 4])[0, 0, :, 0])
        array([0, 0, 1, 1], dtype=int32)
    """


def decode_webp(contents: TextLike, channels: int = 0, dtype: DTypeLike = ..., name: str | None = None) -> Tensor:
    """The pixels of the pictures of a WebP, uint8 [pictures, height, width, channels]: one without animation.

    Args:
        contents: the WebP, a string.
        channels: 3 for RGB, 4 for RGB and opacity, which must be those of the file; 0 for either. An animation has 4.
        dtype: uint8.

    Raises:
        ValueError: `channels` is another number.
        InvalidArgumentError: in the run: the string is not a WebP, damaged, too large, or has other channels.

    Examples:
        >>> import base64
        >>> data = base64.b64decode("UklGRhwAAABXRUJQVlA4TA8AAAAvAAAAAAcQ/Y/+ByKi/wEA")
        >>> await session.run(af.image.decode_webp(data))
        array([[[[255,   0,   0]]]], dtype=uint8)
    """

