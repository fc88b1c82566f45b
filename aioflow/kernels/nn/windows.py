"""How a window slides over images: the geometry of convolution and pooling."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aioflow.tensors.dtypes import Array, Namespace, Sizes, Spec

Padding = str | tuple[int, int]
"""The padding of an axis: "SAME" (output size = input size / stride, rounded up), "VALID" (none), or two numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slide:
    """How a window slides along one axis of `size` elements, to `output` places; `before` elements of padding."""

    size: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int
    output: int

    @property
    def still(self) -> bool:
        """Whether the window is one element that visits every element, so that no gather is needed."""
        return self.window == 1 and self.output == self.size and not self.before and not self.after

    def tap(self, index: int) -> tuple[slice, slice]:
        """The places where element `index` of the window is not on padding, and the input elements under it."""
        offset = index * self.dilation - self.before
        first = max(-(offset // self.stride), 0)
        count = min((self.size - 1 - offset) // self.stride + 1, self.output) - first
        start = first * self.stride + offset
        if count <= 0:
            return slice(0, 0), slice(0, 0)
        return slice(first, first + count), slice(start, start + (count - 1) * self.stride + 1, self.stride)


@functools.lru_cache(maxsize=1024)
def slide(size: int, window: int, stride: int, dilation: int, padding: Padding) -> Slide:
    """The Slide along one axis. ValueError if the window is larger than the axis with its padding."""
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        before, after = total // 2, total - total // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        if size + before + after < reach:
            raise ValueError(
                f"negative dimension size: a window that reaches over {reach} does not fit into size {size} with "
                f"padding {padding}"
            )
    output = (size + before + after - reach) // stride + 1
    return Slide(size, window, stride, dilation, before, after, output)


Slides = Sequence[Slide]
"""How a window slides along each spatial axis."""


def taps(slides: Slides) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For each element of the window: its index, the places where it is not on padding, and the elements under it."""
    every = slice(None)
    along = [[(i, *slide.tap(i)) for i in range(slide.window)] for slide in slides]
    for element in itertools.product(*along):
        index, places, seen = zip(*element, strict=True)
        yield index, (every, *places), (every, *seen)


FORMATS: Final = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
"""By number of spatial axes: the formats in which channels are last, and in which they come before these axes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sliding:
    """Strides, dilations and padding along the spatial axes, and whether channels are the last axis."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[Padding, ...]
    channels_last: bool

    @classmethod
    def of(cls, strides: Any, padding: Any, data_format: str, dilations: Any = None, axes: int = 2) -> "Sliding":
        """From an op's attributes, for that many spatial axes. ValueError if they are malformed."""
        if data_format not in FORMATS[axes]:
            raise ValueError(f"data_format is {FORMATS[axes][0]!r} or {FORMATS[axes][1]!r}, not {data_format!r}")
        last = data_format == FORMATS[axes][0]
        distances = (1,) * axes if dilations is None else spatial(dilations, last, "dilations", axes)
        return cls(spatial(strides, last, "strides", axes), distances, _paddings(padding, last, axes), last)

    def places(self, size: Sizes, window: Sizes) -> Sizes:
        """The output's spatial sizes, as far as they are known."""
        return tuple(
            None if at is None or over is None else slide(at, over, *rest).output
            for at, over, *rest in zip(size, window, self.strides, self.dilations, self.padding, strict=True)
        )

    def slides(self, size: Sequence[int], window: Sequence[int]) -> tuple[Slide, ...]:
        """How a window slides over each spatial axis."""
        return tuple(map(slide, size, window, self.strides, self.dilations, self.padding))

    def nhwc(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """Batch, spatial sizes and channels, from sizes in the op's own order."""
        batch, *image = sizes
        return (batch, *image) if self.channels_last else (batch, *image[1:], image[0])

    def own(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """The op's own order, from batch, spatial sizes and channels."""
        batch, *image, channels = sizes
        return (batch, *image, channels) if self.channels_last else (batch, channels, *image)

    def take(self, xp: Namespace, x: Array) -> Array:
        """Images as they are computed with: channels last, without gaps in memory."""
        self.check_rank(x.shape)
        return xp.ascontiguousarray(x if self.channels_last else xp.moveaxis(x, 1, -1))

    def give(self, xp: Namespace, x: Array) -> Array:
        """Computed images as the op promises them."""
        return x if self.channels_last else xp.ascontiguousarray(xp.moveaxis(x, -1, 1))

    def check_rank(self, shape: Sequence[int]) -> None:
        """ValueError unless images have that many axes."""
        if len(shape) != len(self.strides) + 2:
            raise ValueError(f"images have {len(self.strides) + 2} axes, not the shape {list(shape)}")


def spatial(values: Any, channels_last: bool, what: str, axes: int = 2) -> tuple[int, ...]:
    """The spatial ones of a number per axis. ValueError unless these are positive and the others 1."""
    rank = axes + 2
    if not isinstance(values, tuple) or len(values) != rank or not all(isinstance(value, int) for value in values):
        raise ValueError(f"{what} are {rank} integers, one per axis, not {values!r}")
    image = values[1:-1] if channels_last else values[2:]
    channels = values[-1] if channels_last else values[1]
    if (values[0], channels) != (1, 1) or min(image) < 1:
        raise ValueError(f"{what} {list(values)} must be positive, and 1 for batch and channels")
    return image


def _paddings(padding: Any, channels_last: bool, axes: int) -> tuple[Padding, ...]:
    if padding in ("SAME", "VALID"):
        return (padding,) * axes
    try:
        pairs = [(int(before), int(after)) for before, after in padding]
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) != axes + 2 or isinstance(padding, str) or min(map(min, pairs)) < 0:
        raise ValueError(f"padding is 'SAME', 'VALID' or {axes + 2} pairs of sizes, one per axis, not {padding!r}")
    if any(pairs[0]) or any(pairs[-1 if channels_last else 1]):
        raise ValueError(f"padding {pairs} of batch and channels must be 0")
    return tuple(pairs[1:-1] if channels_last else pairs[2:])


def per_axis(values: Any, data_format: str, axes: int = 2) -> Any:
    """A number per axis, from one number, or one for each spatial axis; anything else is left as it is."""
    given = (values,) if isinstance(values, int) else tuple(values) if isinstance(values, (list, tuple)) else values
    if not isinstance(given, tuple) or len(given) not in (1, axes):
        return values
    image = given * axes if len(given) == 1 else given
    return (1, 1, *image) if data_format == FORMATS[axes][1] else (1, *image, 1)


def images_of(spec: Spec, sliding: Sliding) -> Sizes:
    """Batch, spatial sizes and channels of images. ValueError for another rank."""
    sizes = spec.with_rank(len(sliding.strides) + 2, "images").sizes
    assert sizes is not None
    return sliding.nhwc(sizes)


def either(first: Any, second: Any, names: str) -> Any:
    """The one of two arguments that is given. ValueError unless exactly one is."""
    if (first is None) == (second is None):
        raise ValueError(f"give one of {names}")
    return second if first is None else first
