"""Layers of several inputs: sums, products, concatenations.

Inputs are broadcast together, where they may differ. Those of lower rank get axes of size 1 after the batch, so that
elements of the batch stay beside each other.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones_like, zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, squeeze
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.arithmetic import add, maximum, minimum, multiply, subtract
from aioflow.kernels.math.comparison import logical_and, logical_or
from aioflow.kernels.math.reduction import reduce_any
from aioflow.layers.layer import Layer
from aioflow.layers.masks import with_axes
from aioflow.layers.numbers import is_sequence, switch, whole
from aioflow.library.nn_functions import l2_normalize
from aioflow.tensors.dtypes import bool_
from aioflow.tensors.recursion import safe_repr


class _Merge(Layer):
    """A function of two tensors, applied from the first input to the last."""

    supports_masking = True
    _function: ClassVar[Callable[..., Tensor]]

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result. ValueError for fewer than two inputs."""
        return functools.reduce(type(self)._function, _of_one_rank(several(inputs)))

    def compute_mask(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor | None:
        """The steps that one of the inputs keeps."""
        return either(mask)


class Add(_Merge):
    """The sum of the inputs.

    Examples:
        >>> await session.run(af.layers.Add()([af.ones([2]), af.ones([2])]))
        array([2., 2.], dtype=float32)
    """

    _function = staticmethod(add)


class Multiply(_Merge):
    """The product of those inputs that are not masked there; 0 where all are.

    Examples:
        >>> await session.run(af.layers.Multiply()([af.fill([2], 3.0), af.fill([2], 2.0)]))
        array([6., 6.], dtype=float32)
    """

    _function = staticmethod(multiply)

    def call(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor:
        """The result. ValueError for fewer than two inputs."""
        if mask is None:
            return super().call(inputs)
        factors = [_kept_or(one, own, ones_like(one)) for one, own in zip(several(inputs), mask, strict=True)]
        product = super().call(factors)
        return _kept_or(product, either(mask), zeros_like(product))


class _Extreme(_Merge):
    """An extreme element of those inputs that are not masked there."""

    def call(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor:
        """The result. ValueError for fewer than two inputs."""
        first, *rest = several(inputs)
        if mask is None:
            return super().call(inputs)
        result, kept = first, mask[0]
        for one, own in zip(rest, mask[1:], strict=True):
            one = _kept_or(one, own, result)
            result = type(self)._function(_kept_or(result, kept, one), one)
            kept = either([kept, own])
        return result


class Maximum(_Extreme):
    """The largest of the inputs, element by element.

    Examples:
        >>> await session.run(af.layers.Maximum()([af.zeros([2]), af.ones([2])]))
        array([1., 1.], dtype=float32)
    """

    _function = staticmethod(maximum)


class Minimum(_Extreme):
    """The smallest of the inputs, element by element.

    Examples:
        >>> await session.run(af.layers.Minimum()([af.zeros([2]), af.ones([2])]))
        array([0., 0.], dtype=float32)
    """

    _function = staticmethod(minimum)


class Subtract(Layer):
    """The first of two inputs less the second.

    Examples:
        >>> await session.run(af.layers.Subtract()([af.fill([2], 3.0), af.fill([2], 2.0)]))
        array([1., 1.], dtype=float32)
    """

    supports_masking = True

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result. ValueError unless there are two inputs."""
        one, other = _of_one_rank(several(inputs, 2))
        return subtract(one, other)

    def compute_mask(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor | None:
        """The steps that one of the inputs keeps."""
        return either(mask)


class Average(Layer):
    """The mean of the inputs, element by element.

    Examples:
        >>> await session.run(af.layers.Average()([af.zeros([2]), af.ones([2])]))
        array([0.5, 0.5], dtype=float32)
    """

    supports_masking = True

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result. ValueError for fewer than two inputs."""
        total: Tensor = functools.reduce(add, _of_one_rank(several(inputs)))
        return total / float(len(inputs))

    def compute_mask(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor | None:
        """The steps that one of the inputs keeps."""
        return either(mask)


class Concatenate(Layer):
    """The inputs one after the other along `axis`.

    Examples:
        >>> af.layers.Concatenate()([af.ones([2, 3]), af.ones([2, 4])]).shape
        TensorShape([2, 7])
    """

    supports_masking = True

    def __init__(self, axis: int = -1, **options: Any) -> None:
        """TypeError for an axis that is no whole number."""
        super().__init__(**options)
        self.axis: Final = whole("axis", axis, None)

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result. ValueError if the inputs differ along another axis, or there are fewer than two."""
        return concat(several(inputs), self.axis)

    def compute_mask(self, inputs: Sequence[Tensor], mask: Any = None) -> Tensor | None:
        """The places where an element along the last axis is kept; those of an input without a mask are."""
        if mask is None:
            return None
        each = [_whole_mask(one, kept) for one, kept in zip(inputs, mask, strict=True)]
        return reduce_any(concat(each, self.axis), -1)


class Dot(Layer):
    """The sums of products of two inputs along an axis of each, for each element of the batch.

    Args:
        axes: the axis of both inputs, or one for each.
        normalize: whether the vectors along these axes have length 1 first: the result is the cosine of their angle.

    Examples:
        >>> await session.run(af.layers.Dot(axes=1)([af.constant([[1.0, 2.0]]), af.constant([[3.0, 4.0]])]))
        array([[11.]], dtype=float32)
    """

    def __init__(self, axes: int | tuple[int, int], normalize: bool = False, **options: Any) -> None:
        """TypeError for axes that are no whole numbers, ValueError for another count of them."""
        super().__init__(**options)
        given: Any = axes
        each = tuple(given) if is_sequence(given) else (given, given)
        if len(each) != 2:
            raise ValueError(f"axes is one axis, or one of each input, not {safe_repr(axes)}")
        self.axes: Final = tuple([whole("axes", axis, None) for axis in each])
        self.normalize: Final = switch("normalize", normalize)

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result. ValueError unless there are two inputs of rank 2 or 3."""
        given = list(zip(several(inputs, 2), self.axes, strict=True))
        one, other = [_rows(tensor, axis, self.normalize) for tensor, axis in given]
        flat = [place for place, (tensor, _) in enumerate(given, start=1) if tensor.shape.ndims == 2]
        product: Tensor = matmul(one, other, transpose_b=True)
        if len(flat) == 2:
            return squeeze(product, [2])
        return squeeze(product, flat) if flat else product


def _rows(tensor: Tensor, axis: int, normalize: bool) -> Tensor:
    """[batch, vectors, size], with the given axis last; one vector for an input of rank 2."""
    rank = tensor.shape.ndims
    if rank not in (2, 3) or not -rank < axis < rank or axis == 0:
        raise ValueError(
            f"inputs of a dot product have rank 2 or 3 and an axis after the batch, not {tensor.shape}, {axis}"
        )
    if normalize:
        tensor = l2_normalize(tensor, axis)
    if rank == 2:
        return expand_dims(tensor, 1)
    return transpose(tensor, [0, 2, 1]) if axis % rank == 1 else tensor


def either(masks: Sequence[Tensor | None] | None) -> Tensor | None:
    """What one of the masks keeps; None if an input has none, which keeps all."""
    if masks is None or any(mask is None for mask in masks):
        return None
    return functools.reduce(logical_or, masks)


def _kept_or(one: Tensor, mask: Tensor | None, other: Tensor) -> Tensor:
    """An input, and another one where it is masked."""
    return one if mask is None else where(with_axes(mask, one), one, other)


def _whole_mask(one: Tensor, mask: Tensor | None) -> Tensor:
    """A mask with the shape of the input."""
    everything = ones_like(one, bool_)
    return everything if mask is None else logical_and(with_axes(mask, one), everything)


def _of_one_rank(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The inputs with as many axes as the one with the most; unchanged if a rank is not known."""
    ranks = [len(one.shape.as_list()) for one in inputs if one.shape.ndims is not None]
    if len(ranks) < len(inputs):
        return inputs
    return [
        functools.reduce(expand_dims, [1] * (max(ranks) - rank), one) for one, rank in zip(inputs, ranks, strict=True)
    ]


def several(inputs: Any, count: int | None = None) -> Sequence[Tensor]:
    """The inputs, which are a list. ValueError for another number of them."""
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if len(given) < 2 or count not in (None, len(given)):
        raise ValueError(f"{'at least two' if count is None else count} inputs are wanted, in a list, not {len(given)}")
    return given
