"""Discrete Fourier transforms along axes: of complex numbers, of real numbers, and back to these.

The forward transform sums without a factor, the inverse divides by the number of elements. The transform of real
numbers has the first half of the frequencies alone, n // 2 + 1 of them along the last axis, since the rest are their
conjugates.
"""

import functools
import operator
from collections.abc import Callable
from typing import Final

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.families import CPU, GPU, SLOW, costs
from aioflow.tensors.dtypes import (
    COMPLEX,
    Array,
    DType,
    Namespace,
    Spec,
    complex64,
    complex128,
    float32,
    float64,
)

REAL: Final = frozenset((float32, float64))
"""The dtypes of real numbers that are transformed; narrower floats have no complex numbers of their precision."""
_COMPLEX_OF: Final = {float32: complex64, float64: complex128}
_PER_ELEMENT: Final = 8 * SLOW
"""The cost of an element in additions: some for each doubling of the number of elements."""
Axes = tuple[int, ...]
"""Axes counted from the end, the last of which has half of the frequencies where the transform is of real numbers."""


@op
def fourier_transform(input: Spec, axes: Axes = (-1,), inverse: bool = False) -> Spec:
    """The discrete Fourier transform of complex numbers along `axes`, or its inverse."""
    _check_axes(input, axes)
    return input.only(COMPLEX)


@op
def real_fourier_transform(input: Spec, axes: Axes = (-1,)) -> Spec:
    """The first half of the frequencies of real numbers along `axes`."""
    _check_axes(input, axes)
    dtype = _COMPLEX_OF[input.only(REAL).dtype]
    size = known.size_at(input, axes[-1])
    return _resized(Spec(dtype, input.shape), axes[-1], None if size is None else size // 2 + 1)


@op
def real_from_fourier_transform(input: Spec, length: Ints, axes: Axes = (-1,)) -> Spec:
    """The real numbers, `length` along the last of `axes`, of which `input` is the first half of the frequencies.

    `length` is a scalar, and `input` has length // 2 + 1 elements along that axis.
    """
    _check_axes(input, axes)
    size, count = known.scalar(length, "length"), known.size_at(input, axes[-1])
    if size is not None:
        _check_half(size, count)
    return _resized(Spec(input.only(COMPLEX).dtype.real, input.shape), axes[-1], size)


def _check_axes(input: Spec, axes: Axes) -> None:
    places = [input.axis(axis) for axis in axes]
    if not axes or any(axis >= 0 for axis in axes) or len({*places}) < len(places):
        raise ValueError(f"axes are different and count from the end, as (-2, -1), not {axes}")
    for axis in axes:
        if known.size_at(input, axis) == 0:
            raise ValueError(f"axis {axis} of shape {input.shape} has no elements to transform")


def _check_half(length: int, count: int | None) -> None:
    if length < 1:
        raise ValueError(f"length must be 1 or more, not {length}")
    if count not in (None, length // 2 + 1):
        raise ValueError(f"{length} real numbers have {length // 2 + 1} frequencies, not {count}")


def _resized(spec: Spec, axis: int, size: int | None) -> Spec:
    if spec.sizes is None:
        return spec
    return spec.with_shape(known.replaced(spec.sizes, axis % len(spec.sizes), size))


# Gradients: each is the adjoint of a linear function.


@fourier_transform.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    axes, inverse = op.attrs["axes"], op.attrs["inverse"]
    count, back = _count(dy, axes), fourier_transform(dy, axes, not inverse)
    return back / count if inverse else back * count


@real_fourier_transform.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    x, axes = op.inputs[0], op.attrs["axes"]
    length = _size(x, axes[-1])
    halves = dy / _times(dy, axes[-1], length)
    return real_from_fourier_transform(halves, length, axes) * _count(x, axes)


@real_from_fourier_transform.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    (x, length), axes = op.inputs, op.attrs["axes"]
    return real_fourier_transform(dy / _count(dy, axes), axes) * _times(x, axes[-1], length), None


def _times(half: Tensor, axis: int, length: Tensor) -> Tensor:
    """How often each of half of the frequencies occurs among all, 1 or 2, in a shape to multiply with `half`."""
    places = OPERATORS["range"](_size(half, axis))
    alone = OPERATORS["logical_or"](OPERATORS["equal"](places, 0), OPERATORS["equal"](places * 2, length))
    times = 2 - _cast(alone, half.dtype)
    return OPERATORS["reshape"](times, (-1,) + (1,) * (-axis - 1))


def _size(x: Tensor, axis: int) -> Tensor:
    return OPERATORS["getitem"](OPERATORS["shape"](x), axis)


def _count(x: Tensor, axes: Axes) -> Tensor:
    """The number of elements that are transformed together, in the dtype of `x`."""
    return _cast(functools.reduce(operator.mul, [_size(x, axis) for axis in axes]), x.dtype)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return OPERATORS["cast"](x, dtype)


# Kernels


@fourier_transform.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axes, dtype = node.attrs["axes"], node.output_specs[0].dtype.np
    function = xp.fft.ifftn if node.attrs["inverse"] else xp.fft.fftn
    return lambda x: function(x, axes=axes).astype(dtype, copy=False)


@real_fourier_transform.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axes, dtype = node.attrs["axes"], node.output_specs[0].dtype.np
    return lambda x: xp.fft.rfftn(x, axes=axes).astype(dtype, copy=False)


@real_from_fourier_transform.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    axes, dtype = node.attrs["axes"], node.output_specs[0].dtype.np

    def transformed(x: Array, length: Array) -> Array:
        size = int(length)
        _check_half(size, x.shape[axes[-1]])
        sizes = [*(x.shape[axis] for axis in axes[:-1]), size]
        return xp.fft.irfftn(x, sizes, axes).astype(dtype, copy=False)

    return transformed


_OPS: Final[tuple[Op[Tensor], ...]] = (fourier_transform, real_fourier_transform, real_from_fourier_transform)
for _each in _OPS:
    costs(_each, _PER_ELEMENT)
