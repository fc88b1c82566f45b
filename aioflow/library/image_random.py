"""Random changes of images, to augment training data."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.random import random_uniform
from aioflow.library.control import name_scope
from aioflow.library.image_basics import adjust_brightness, adjust_contrast, an_image
from aioflow.library.image_color import adjust_hue, adjust_saturation
from aioflow.tensors.dtypes import float32


def _flip_randomly(image: NumberLike, axis: int, seed: int | None, name: str) -> Tensor:
    """Flip each image along an axis, counted from the end, with probability 1/2."""
    with name_scope(None, name, [image]) as scope:
        tensor = an_image(image)
        rank = tensor.shape.ndims
        if rank is None:
            raise ValueError("the rank of the images must be known")
        sizes: Any = [] if rank == 3 else stack([shape(tensor)[0], 1, 1, 1])
        turned = less(random_uniform(sizes, dtype=float32, seed=seed), 0.5)
        return select(turned, reverse(tensor, [rank + axis]), tensor, name=scope)


@transactional
def random_flip_left_right(image: NumberLike, seed: int | None = None) -> Tensor:
    """Flip each image of a batch, or the one, horizontally with probability 1/2."""
    return _flip_randomly(image, -2, seed, "random_flip_left_right")


@transactional
def random_flip_up_down(image: NumberLike, seed: int | None = None) -> Tensor:
    """Flip each image of a batch, or the one, vertically with probability 1/2."""
    return _flip_randomly(image, -3, seed, "random_flip_up_down")


@transactional
def random_brightness(image: NumberLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Call `adjust_brightness` with a random number between -max_delta and max_delta."""
    if max_delta < 0:
        raise ValueError(f"max_delta cannot be negative: {max_delta}")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@transactional
def random_contrast(image: NumberLike, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Call `adjust_contrast` with a random factor between `lower` and `upper`."""
    return adjust_contrast(image, _factor(lower, upper, seed))


@transactional
def random_saturation(image: NumberLike, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Call `adjust_saturation` with a random factor between `lower` and `upper`."""
    return adjust_saturation(image, _factor(lower, upper, seed))


def _factor(lower: float, upper: float, seed: int | None) -> Tensor:
    if not 0 <= lower < upper:
        raise ValueError(f"lower {lower} must be from 0 on and below upper {upper}")
    return random_uniform([], lower, upper, seed=seed)


@transactional
def random_hue(image: NumberLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Call `adjust_hue` with a random number between -max_delta and max_delta, which is at most 0.5."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be from 0 to 0.5, not {max_delta}")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))
