"""Parts of images: glimpses at given places, and random parts that show enough of what boxes mark."""

from collections.abc import Sequence
from typing import NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import stop_gradient
from aioflow.kernels.array.gather import gather_nd
from aioflow.kernels.array.ranges import range as numbers
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import broadcast_to, reshape, shape
from aioflow.kernels.image.crop_sampling import sample_crop
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.random import get_seed, random_normal, random_uniform
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_min
from aioflow.kernels.math.variance import reduce_std
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, Spec, TensorShape, float32, int32


@transactional
def extract_glimpse(
    input: NumberLike,
    size: NumberLike,
    offsets: NumberLike,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """A window of each image, at a place of its own: [batch, height, width, channels].

    Random numbers fill the pixels of a window that lie outside the image. Gradients flow to the pixels inside.

    Args:
        input: images [batch, height, width, channels], floating.
        size: the height and width of the windows.
        offsets: [batch, 2], the middle of each window, y and x.
        centered: whether (0, 0) is the middle of the image, else its upper left corner. Of a number of pixels from the
            middle, half counts.
        normalized: whether 1 is the height or width of the image, and if `centered` the half of it; else a pixel.
        uniform_noise: whether numbers outside are uniform between the least and the greatest of the image. Else they
            have the mean and the standard deviation of each channel, and these limits.
        name: the name of the scope.

    Raises:
        ValueError: the shapes are others.

    Examples:
        >>> image = np.arange(9.0).reshape(1, 3, 3, 1)
        >>> glimpse = af.image.extract_glimpse(image, [2, 2], [[1.0, 1.0]], centered=False, normalized=False)
        >>> (await session.run(glimpse))[0, :, :, 0]
        array([[0., 1.],
               [3., 4.]])
    """
    with name_scope(name, "extract_glimpse", [input, size, offsets]) as scope:
        images, window = convert_to_tensor(input), convert_to_tensor(size, int32)
        middles = convert_to_tensor(offsets, float32)
        batch = _checked(images, window, middles)
        whole = shape(images)
        starts = _starts(middles, cast(whole[1:3], float32), cast(window, float32), centered, normalized)
        rows, columns = [reshape(starts[:, axis], [-1, 1]) + numbers(window[axis]) for axis in (0, 1)]
        seen, inside = _pixels(images, whole, rows, columns)
        noise = _noise(images, shape(seen), uniform_noise)
        made = where(broadcast_to(inside, shape(seen)), seen, noise, name=scope)
        made.set_shape(TensorShape([*batch, *_known(window), images.shape[3]]))
        return made


def _checked(images: Tensor, window: Tensor, middles: Tensor) -> TensorShape:
    """The shape [batch]. ValueError or TypeError for other inputs than `extract_glimpse` takes."""
    Spec(images.dtype).only(FLOAT)
    images.shape.assert_has_rank(4)
    window.shape.assert_is_compatible_with([2])
    middles.shape.with_rank(2)[1:].assert_is_compatible_with([2])
    batch: TensorShape = images.shape[:1].merge_with(middles.shape[:1])
    return batch


def _known(window: Tensor) -> Sequence[int | None]:
    sizes = window.spec.known
    return sizes if isinstance(sizes, tuple) else (None, None)


def _starts(middles: Tensor, sizes: Tensor, window: Tensor, centered: bool, normalized: bool) -> Tensor:
    """The first row and column of each window, [batch, 2], int32."""
    middle = middles * sizes if normalized else middles
    if centered:
        middle = (middle + sizes) / 2
    return cast(middle - window / 2, int32)


def _pixels(images: Tensor, whole: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The pixels of those rows and columns, [batch, count], and which of them lie in the image."""
    y, x = reshape(rows, [whole[0], -1, 1]), reshape(columns, [whole[0], 1, -1])
    inside = ((y >= 0) & (y < whole[1])) & ((x >= 0) & (x < whole[2]))
    grid = shape(inside)
    images_of = reshape(numbers(whole[0]), [-1, 1, 1])
    limits = [whole[0] - 1, whole[1] - 1, whole[2] - 1]
    places = [
        broadcast_to(minimum(maximum(place, 0), limit), grid)
        for place, limit in zip((images_of, y, x), limits, strict=True)
    ]
    return gather_nd(images, stack(places, axis=-1)), reshape(inside, [grid[0], grid[1], grid[2], 1])


def _noise(images: Tensor, sizes: Tensor, uniform: bool) -> Tensor:
    """Random numbers of those sizes, within the limits of each image."""
    least, most = [reduce(images, [1, 2, 3], keepdims=True) for reduce in (reduce_min, reduce_max)]
    if uniform:
        return stop_gradient(least + (most - least) * random_uniform(sizes, dtype=images.dtype))
    mean, deviation = [reduce(images, [1, 2], keepdims=True) for reduce in (reduce_mean, reduce_std)]
    normal = mean + deviation * random_normal(sizes, dtype=images.dtype)
    return stop_gradient(minimum(maximum(normal, least), most))


class SampledBoundingBox(NamedTuple):
    """A random part of an image; see `sample_distorted_bounding_box`."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


@transactional
def sample_distorted_bounding_box(
    image_size: NumberLike,
    bounding_boxes: NumberLike,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: NumberLike = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampledBoundingBox:
    """A random part of an image that contains enough of one of its boxes; the whole image if no attempt finds one.

    Args:
        image_size: height, width and channels, integers.
        bounding_boxes: [batch, boxes, 4]: top, left, bottom and right, as shares of the height and width.
        seed: see `af.get_seed`.
        seed2: a second seed, in place of the one that `seed` gives.
        min_object_covered: the part contains at least this share of one of the boxes. 0 takes any part.
        aspect_ratio_range: the least and greatest ratio of its width to its height, 0.75 and 1.33 by default.
        area_range: the least and greatest share of the image that it is, 0.05 and 1 by default.
        max_attempts: how many parts are tried, 100 by default.
        use_image_if_no_bounding_boxes: whether without boxes the whole image counts as one; else the run fails.
        name: the name of the operation.

    Returns:
        `begin` and `size`, which `af.slice` takes, and the box of the part, [1, 1, 4], which
        `af.image.draw_bounding_boxes` takes.

    Raises:
        InvalidArgumentError: a range is empty, or in the run, if there is no box or one does not lie in the image.

    Examples:
        >>> begin, size, box = af.image.sample_distorted_bounding_box([8, 8, 3], [[[0.0, 0.0, 1.0, 1.0]]], seed=1)
        >>> part = af.slice(af.zeros([8, 8, 3]), begin, size)
        >>> (await session.run(part)).shape[2]
        3
    """
    seeds = get_seed(seed) if seed2 is None else (seed or 0, seed2)
    parts = sample_crop(
        image_size,
        convert_to_tensor(bounding_boxes, float32),
        convert_to_tensor(min_object_covered, float32),
        *seeds,
        [0.75, 1.33] if aspect_ratio_range is None else [float(number) for number in aspect_ratio_range],
        [0.05, 1.0] if area_range is None else [float(number) for number in area_range],
        100 if max_attempts is None else max_attempts,
        bool(use_image_if_no_bounding_boxes),
        name=name or "sample_distorted_bounding_box",
    )
    return SampledBoundingBox(*parts)
