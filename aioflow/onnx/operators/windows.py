"""How windows slide over images: the attributes that convolution and pooling share."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.pad import pad
from aioflow.kernels.math.arithmetic import floordiv
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import size_at

FORMATS: Final = {2: "NCHW", 3: "NCDHW"}
_MOST_ELEMENTS: Final = 1 << 24
_MOST_TAPS: Final = 1 << 10
"""The most elements of a window along an axis that operations are built for one by one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """For each spatial axis the size of a window, its step, the distance of its elements, and the padding.

    `pads` is None for the padding "SAME" of images whose sizes are known only in the run. `extra` is how much padding
    comes after that of the model, so that sizes are rounded up.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]] | None
    extra: list[int]

    @property
    def padding(self) -> list[tuple[int, int]] | Literal["SAME"]:
        """The padding of all axes, batch and channels too, with what rounds sizes up."""
        return "SAME" if self.pads is None else self.numbers

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """The same in numbers. ValueError if they depend on open sizes."""
        if self.pads is None:
            raise ValueError("the sizes of images must be known when the graph is built, and some are not")
        spatial = [(before, after + more) for (before, after), more in zip(self.pads, self.extra, strict=True)]
        return [(0, 0), (0, 0), *spatial]

    @property
    def dilated(self) -> bool:
        """Whether a window has gaps."""
        return any(distance > 1 for distance in self.dilations)


def windows_of(call: Call, x: Tensor, kernel: Sequence[int]) -> Windows:
    """The windows of a node over images [batch, channels, ...]."""
    axes = len(kernel)
    if x.spec.rank != axes + 2:
        raise ValueError(f"windows of {axes} axes need images of {axes + 2} axes, their shape is {x.shape}")
    if math.prod(kernel) > _MOST_ELEMENTS or min(kernel) < 1:
        raise ValueError(f"a window has 1 to {_MOST_ELEMENTS} elements, not the sizes {list(kernel)}")
    strides, dilations = call.integers("strides", [1] * axes), call.integers("dilations", [1] * axes)
    reach = [(size - 1) * distance + 1 for size, distance in zip(kernel, dilations, strict=True)]
    sizes = list((x.spec.sizes or [])[2:])
    pads = _pads(call, sizes, reach, strides)
    extra = [0] * axes
    if call.flag("ceil_mode") and pads is not None:
        extra = [_extra(*each) for each in zip(sizes, reach, strides, pads, strict=True)]
    return Windows(list(kernel), strides, dilations, pads, extra)


def _pads(
    call: Call, sizes: Sequence[int | None], reach: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]] | None:
    mode = call.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        # With strides of 1 every size has the same padding.
        sizes = [1 if size is None and by == 1 else size for size, by in zip(sizes, strides, strict=True)]
        if None in sizes and mode == "SAME_UPPER":
            return None
        return [_same(*each, mode == "SAME_UPPER") for each in zip(_known(sizes), reach, strides, strict=True)]
    if mode == "VALID":
        return [(0, 0)] * len(reach)
    pads = call.integers("pads", [0] * 2 * len(reach))
    return list(zip(pads[: len(reach)], pads[len(reach) :], strict=True))


def _known(sizes: Sequence[int | None]) -> list[int]:
    if None in sizes:
        raise ValueError(f"the sizes of images must be known when the graph is built, and they are {list(sizes)}")
    return [size for size in sizes if size is not None]


def _same(size: int, reach: int, stride: int, upper: bool) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


def _extra(size: int | None, reach: int, stride: int, pads: tuple[int, int]) -> int:
    """How much more padding lets a window see the rest of an axis; none if it would see padding alone.

    It is enough for any size if only the run knows the size.
    """
    if size is None:
        return stride - 1
    before, after = pads
    count = -(-(size + before + after - reach) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return max((count - 1) * stride + reach - size - before - after, 0)


def without_empty(pooled: Tensor, x: Tensor, windows: Windows) -> Tensor:
    """The results of windows over `x`, but for those that see padding alone, where only the run knows the size."""
    for axis, more in enumerate(windows.extra):
        if more and windows.pads is not None and isinstance(size := size_at(x, 2 + axis), Tensor):
            count = floordiv(size + (windows.pads[axis][0] - 1), windows.strides[axis]) + 1
            pooled = pooled[(slice(None),) * (2 + axis) + (slice(0, count),)]
    return pooled


def folded(x: Tensor, windows: Windows, combine: Callable[[Tensor, Tensor], Tensor], neutral: float) -> Tensor:
    """The combination of all elements under each window: along one axis after the other, part by part."""
    x = pad(x, windows.numbers, constant_values=neutral)
    for axis in range(len(windows.kernel)):
        x = _folded(x, windows, axis, combine)
    return x


def _folded(x: Tensor, windows: Windows, axis: int, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    parts = [part_of(x, windows, axis, tap) for tap in taps(windows.kernel[axis])]
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def taps(count: int) -> range:
    """The numbers of `length` elements. ValueError if `length` is too large to build operations for each."""
    if count > _MOST_TAPS:
        raise ValueError(f"windows of at most {_MOST_TAPS} elements are built one by one, not of {count}")
    return range(count)


def part_of(x: Tensor, windows: Windows, axis: int, tap: int) -> Tensor:
    """The elements that lie under one element of the windows along a spatial axis of padded images."""
    sizes = x.spec.sizes
    assert sizes is not None
    size, stride, distance = _known(sizes[2 + axis : 3 + axis])[0], windows.strides[axis], windows.dilations[axis]
    count = (size - (windows.kernel[axis] - 1) * distance - 1) // stride + 1
    first = tap * distance
    return x[(slice(None),) * (2 + axis) + (slice(first, first + (count - 1) * stride + 1, stride),)]
