"""How a window slides over images: the geometry of convolution and pooling."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from aioflow.dtypes import Array, Namespace, Sizes, Spec

Padding = str | tuple[int, int]
"""Of one axis: "SAME" (output size = input size / stride, rounded up), "VALID" (none), or how much before and after."""


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
        """Whether the window is one element that comes to every element, so that nothing is to be gathered."""
        return self.window == 1 and self.output == self.size and not self.before and not self.after

    def tap(self, index: int) -> tuple[slice, slice]:
        """The places whose element `index` of the window is no padding, and where in the input they see it."""
        offset = index * self.dilation - self.before
        first = max(-(offset // self.stride), 0)
        count = min((self.size - 1 - offset) // self.stride + 1, self.output) - first
        start = first * self.stride + offset
        if count <= 0:
            return slice(0, 0), slice(0, 0)
        return slice(first, first + count), slice(start, start + (count - 1) * self.stride + 1, self.stride)


@functools.lru_cache(maxsize=1024)
def slide(size: int, window: int, stride: int, dilation: int, padding: Padding) -> Slide:
    """The Slide along one axis. ValueError if the window does not fit."""
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        before, after = total // 2, total - total // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
    output = (size + before + after - reach) // stride + 1
    if output < 0:
        raise ValueError(f"a window that reaches over {reach} does not fit into size {size} with padding {padding}")
    return Slide(size, window, stride, dilation, before, after, output)


@dataclasses.dataclass(frozen=True, slots=True)
class Sliding:
    """Strides, dilations and padding along height and width, and whether channels are the last axis."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[Padding, Padding]
    channels_last: bool

    @classmethod
    def of(cls, strides: Any, padding: Any, data_format: str, dilations: Any = (1, 1, 1, 1)) -> "Sliding":
        """What an op's attributes say. ValueError if they are malformed."""
        if data_format not in ("NHWC", "NCHW"):
            raise ValueError(f"data_format is 'NHWC' or 'NCHW', not {data_format!r}")
        last = data_format == "NHWC"
        steps, distances = spatial(strides, last, "strides"), spatial(dilations, last, "dilations")
        return cls(steps, distances, _paddings(padding, last), last)

    def places(self, size: Sizes, window: Sizes) -> tuple[int | None, int | None]:
        """The output's height and width, as far as they are known."""
        height, width = [
            None if at is None or over is None else slide(at, over, *rest).output
            for at, over, *rest in zip(size, window, self.strides, self.dilations, self.padding, strict=True)
        ]
        return height, width

    def slides(self, size: Sequence[int], window: Sequence[int]) -> tuple[Slide, Slide]:
        """How a window slides over height and width."""
        rows, columns = map(slide, size, window, self.strides, self.dilations, self.padding)
        return rows, columns

    def nhwc(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """Batch, height, width and channels, from sizes in the op's own order."""
        batch, *image = sizes
        return (batch, *image) if self.channels_last else (batch, *image[1:], image[0])

    def own(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """The op's own order, from batch, height, width and channels."""
        batch, height, width, channels = sizes
        return (batch, height, width, channels) if self.channels_last else (batch, channels, height, width)

    def take(self, xp: Namespace, x: Array) -> Array:
        """Images as they are computed with: channels last, without gaps in memory."""
        if x.ndim != 4:
            raise ValueError(f"images have 4 axes, not the shape {list(x.shape)}")
        return xp.ascontiguousarray(x if self.channels_last else x.transpose(0, 2, 3, 1))

    def give(self, xp: Namespace, x: Array) -> Array:
        """Computed images as the op promises them."""
        return x if self.channels_last else xp.ascontiguousarray(x.transpose(0, 3, 1, 2))


def spatial(values: Any, channels_last: bool, what: str) -> tuple[int, int]:
    """The height's and the width's of four numbers. ValueError unless these are positive and the others 1."""
    if not isinstance(values, tuple) or len(values) != 4 or not all(isinstance(value, int) for value in values):
        raise ValueError(f"{what} are 4 integers, one per axis, not {values!r}")
    batch, first, second, third = values
    height, width, channels = (first, second, third) if channels_last else (second, third, first)
    if (batch, channels) != (1, 1) or min(height, width) < 1:
        raise ValueError(f"{what} {list(values)} must be positive, and 1 for batch and channels")
    return height, width


def _paddings(padding: Any, channels_last: bool) -> tuple[Padding, Padding]:
    if padding in ("SAME", "VALID"):
        return padding, padding
    try:
        pairs = [(int(before), int(after)) for before, after in padding]
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) != 4 or isinstance(padding, str) or min(map(min, pairs)) < 0:
        raise ValueError(f"padding is 'SAME', 'VALID' or 4 pairs of sizes, one per axis, not {padding!r}")
    height, width = pairs[1:3] if channels_last else pairs[2:]
    if any(pairs[0]) or any(pairs[3 if channels_last else 1]):
        raise ValueError(f"padding {pairs} of batch and channels must be 0")
    return height, width


def four(values: Any, data_format: str) -> Any:
    """A number per axis, from one number for height and width, or one for each; four are left as they are."""
    given = (values,) if isinstance(values, int) else tuple(values) if isinstance(values, (list, tuple)) else values
    if not isinstance(given, tuple) or len(given) not in (1, 2):
        return values
    height, width = given * 2 if len(given) == 1 else given
    return (1, 1, height, width) if data_format == "NCHW" else (1, height, width, 1)


def images_of(spec: Spec, sliding: Sliding) -> Sizes:
    """Batch, height, width and channels of images. ValueError for another rank."""
    sizes = spec.with_rank(4).sizes
    assert sizes is not None
    return sliding.nhwc(sizes)


def either(first: Any, second: Any, names: str) -> Any:
    """The one of two arguments that is given. ValueError unless exactly one is."""
    if (first is None) == (second is None):
        raise ValueError(f"give one of {names}")
    return second if first is None else first
