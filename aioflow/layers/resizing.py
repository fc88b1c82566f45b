"""Layers that change the sizes of space or time: zeros around, parts cut off, repeated elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.image.resize import resize_bicubic, resize_bilinear
from aioflow.layers.convolution import Sizes, layout_of
from aioflow.layers.layer import Layer, one_shape
from aioflow.layers.numbers import is_sequence, per_axis, whole
from aioflow.library.arrays import repeat
from aioflow.tensors.recursion import safe_repr

Borders = int | Sequence[int] | Sequence[Sequence[int]]


class _Resizing(Layer):
    """What they share: how many axes there are, and where."""

    _axes: int

    def __init__(self, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.data_format: Final = data_format or "channels_last"
        layout_of(self.data_format, self._axes)

    @property
    def _first(self) -> int:
        return 1 if self.data_format == "channels_last" else 2


class _ZeroPadding(_Resizing):
    """Zeros before and after each axis."""

    def __init__(self, padding: Borders = 1, data_format: str | None = None, **options: Any) -> None:
        """`padding` is one number, one for each axis, or a pair for each axis."""
        super().__init__(data_format, **options)
        self.padding: Final = borders("padding", padding, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        one_shape(inputs.shape, self._axes + 2)
        rest = [[0, 0]] * (self._axes + 2)
        rest[self._first : self._first + self._axes] = [list(pair) for pair in self.padding]
        return pad(inputs, rest)


class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after the steps.

    Examples:
        >>> af.layers.ZeroPadding1D(1)(af.ones([1, 5, 3])).shape
        TensorShape([1, 7, 3])
    """

    _axes = 1


class ZeroPadding2D(_ZeroPadding):
    """Zeros around images.

    Examples:
        >>> af.layers.ZeroPadding2D(1)(af.ones([1, 2, 2, 3])).shape
        TensorShape([1, 4, 4, 3])
    """

    _axes = 2


class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes.

    Examples:
        >>> af.layers.ZeroPadding3D(1)(af.ones([1, 2, 2, 2, 3])).shape
        TensorShape([1, 4, 4, 4, 3])
    """

    _axes = 3


class _Cropping(_Resizing):
    """Elements cut off before and after each axis."""

    def __init__(self, cropping: Borders = 1, data_format: str | None = None, **options: Any) -> None:
        """`cropping` is one number, one for each axis, or a pair for each axis."""
        super().__init__(data_format, **options)
        self.cropping: Final = borders("cropping", cropping, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank, or if nothing would be left."""
        one_shape(inputs.shape, self._axes + 2)
        for axis, (before, after) in enumerate(self.cropping, start=self._first):
            size = inputs.shape.as_list()[axis] if inputs.shape.ndims is not None else None
            if size is not None and before + after >= size:
                raise ValueError(f"{before} + {after} elements cannot be cut off axis {axis} of {inputs.shape}")
        whole = [slice(None)] * self._first
        return inputs[(*whole, *[slice(before, -after or None) for before, after in self.cropping])]


class Cropping1D(_Cropping):
    """Cuts steps off.

    Examples:
        >>> af.layers.Cropping1D(1)(af.ones([1, 5, 3])).shape
        TensorShape([1, 3, 3])
    """

    _axes = 1


class Cropping2D(_Cropping):
    """Cuts the borders of images off.

    Examples:
        >>> af.layers.Cropping2D(1)(af.ones([1, 5, 5, 3])).shape
        TensorShape([1, 3, 3, 3])
    """

    _axes = 2


class Cropping3D(_Cropping):
    """Cuts the borders of volumes off.

    Examples:
        >>> af.layers.Cropping3D(1)(af.ones([1, 5, 5, 5, 3])).shape
        TensorShape([1, 3, 3, 3, 3])
    """

    _axes = 3


class _UpSampling(_Resizing):
    """Each element several times along each axis."""

    def __init__(self, size: Sizes = 2, data_format: str | None = None, **options: Any) -> None:
        """`size` says how often: one number, or one for each axis."""
        super().__init__(data_format, **options)
        self.size: Final = per_axis("size", size, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        one_shape(inputs.shape, self._axes + 2)
        for axis, count in enumerate(self.size, start=self._first):
            inputs = repeat(inputs, count, axis)
        return inputs


class UpSampling1D(_UpSampling):
    """Each step several times.

    Examples:
        >>> af.layers.UpSampling1D(2)(af.ones([1, 5, 3])).shape
        TensorShape([1, 10, 3])
    """

    _axes = 1


_INTERPOLATIONS: Final[Mapping[str, Callable[..., Tensor]]] = {"bicubic": resize_bicubic, "bilinear": resize_bilinear}
"""What computes images of another size, but for the repetition of elements, which is "nearest"."""


class UpSampling2D(_UpSampling):
    """Each row and each column of images several times, or as many rows and columns interpolated between them.

    Interpolation is "nearest", which repeats elements, "bilinear" or "bicubic".

    Examples:
        >>> af.layers.UpSampling2D(2)(af.ones([1, 5, 5, 3])).shape
        TensorShape([1, 10, 10, 3])
    """

    _axes = 2

    def __init__(
        self, size: Sizes = 2, data_format: str | None = None, interpolation: str = "nearest", **options: Any
    ) -> None:
        """ValueError for an unknown interpolation."""
        super().__init__(size, data_format, **options)
        if interpolation not in ("nearest", *_INTERPOLATIONS):
            raise ValueError(f"interpolation is 'nearest', 'bilinear' or 'bicubic', not {safe_repr(interpolation)}")
        self.interpolation: Final = interpolation

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        if self.interpolation == "nearest":
            return super().call(inputs)
        one_shape(inputs.shape, 4)
        last = self.data_format == "channels_last"
        images = inputs if last else transpose(inputs, [0, 2, 3, 1])
        sizes = shape(images)
        wanted = stack([sizes[axis] * count for axis, count in enumerate(self.size, start=1)])
        made = _INTERPOLATIONS[self.interpolation](images, wanted, half_pixel_centers=True)
        known = images.shape.as_list()
        more = [None if size is None else size * count for size, count in zip(known[1:3], self.size, strict=True)]
        made.set_shape([known[0], *more, known[3]])
        return made if last else transpose(made, [0, 3, 1, 2])


class UpSampling3D(_UpSampling):
    """Each element of volumes several times along each axis.

    Examples:
        >>> af.layers.UpSampling3D(2)(af.ones([1, 2, 2, 2, 3])).shape
        TensorShape([1, 4, 4, 4, 3])
    """

    _axes = 3


def borders(what: str, given: Any, axes: int) -> list[tuple[int, int]]:
    """A pair of whole numbers for each axis. ValueError for another count of them, or negative ones."""
    each = [given] * axes if not is_sequence(given) else [given] if axes == 1 else list(given)
    pairs = [tuple(item) if is_sequence(item) else (item, item) for item in each]
    flat = [pair[0] if axes == 1 and is_sequence(pair[0]) else pair for pair in pairs]
    if len(flat) != axes or any(len(pair) != 2 for pair in flat):
        raise ValueError(f"{what} is a number, one for each of {axes} axes, or a pair for each, not {safe_repr(given)}")
    return [(whole(what, before, 0), whole(what, after, 0)) for before, after in flat]
