"""Fourier transforms along the last axes, under TensorFlow's names, and shifts of their frequencies.

Numbers are complex64 or complex128, real ones float32 or float64. Inverses divide by the number of elements.
"""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.sequence import roll
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.fourier import (
    Axes,
    fourier_transform,
    real_fourier_transform,
    real_from_fourier_transform,
)
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import COMPLEX, complex64, float32

Size = Any
"""A Python integer or a scalar tensor."""
_NORMS: Final = ("backward", "ortho", "forward")

# Along the last axes


@transactional
def fft(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the Fourier transform of complex numbers along the last axis.

    Examples:
        >>> await session.run(af.fft([1.0 + 0j, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return fourier_transform(_complex(input), (-1,), name=name)


@transactional
def ifft(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the inverse Fourier transform of complex numbers along the last axis.

    Examples:
        >>> await session.run(af.ifft([4.0 + 0j, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return fourier_transform(_complex(input), (-1,), inverse=True, name=name)


@transactional
def fft2d(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the Fourier transform of complex numbers along the last two axes.

    Examples:
        >>> await session.run(af.fft2d([[1.0 + 0j, 0.0], [0.0, 0.0]]))
        array([[1.+0.j, 1.+0.j],
               [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return fourier_transform(_complex(input), (-2, -1), name=name)


@transactional
def ifft2d(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the inverse Fourier transform of complex numbers along the last two axes.

    Examples:
        >>> await session.run(af.ifft2d([[4.0 + 0j, 0.0], [0.0, 0.0]]))
        array([[1.+0.j, 1.+0.j],
               [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return fourier_transform(_complex(input), (-2, -1), inverse=True, name=name)


@transactional
def fft3d(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the Fourier transform of complex numbers along the last three axes.

    Examples:
        >>> af.fft3d(af.ones([2, 2, 2], af.complex64)).shape
        TensorShape([2, 2, 2])
    """
    return fourier_transform(_complex(input), (-3, -2, -1), name=name)


@transactional
def ifft3d(input: NumberLike, name: str | None = None) -> Tensor:
    """Return the inverse Fourier transform of complex numbers along the last three axes.

    Examples:
        >>> af.ifft3d(af.ones([2, 2, 2], af.complex64)).shape
        TensorShape([2, 2, 2])
    """
    return fourier_transform(_complex(input), (-3, -2, -1), inverse=True, name=name)


@transactional
def rfft(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the first half of the frequencies of real numbers along the last axis.

    The last axis gets n // 2 + 1 elements; the rest are the conjugates of these.

    Args:
        input_tensor: real numbers.
        fft_length: a number, to which the input is cut off, or filled with zeros, before.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.signal.rfft([1.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _real("rfft", input_tensor, fft_length, (-1,), name)


@transactional
def irfft(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the real numbers of which `rfft` has made the input.

    Args:
        input_tensor: frequencies, complex numbers.
        fft_length: a number, the sizes of the result, for which the input is cut off, or filled with zeros, before.
            By default the last is the even number 2 * (n - 1) for n frequencies, the others are those of the input.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.signal.irfft([4.0 + 0j, 0.0, 0.0]))
        array([1., 1., 1., 1.], dtype=float32)
    """
    return _inverse_real("irfft", input_tensor, fft_length, (-1,), name)


@transactional
def rfft2d(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the first half of the frequencies of real numbers along the last two axes.

    The last axis gets n // 2 + 1 elements; the rest are the conjugates of these.

    Args:
        input_tensor: real numbers.
        fft_length: two numbers, to which the input is cut off, or filled with zeros, before.
        name: the name of the operation.

    Examples:
        >>> af.signal.rfft2d(af.ones([4, 4])).shape
        TensorShape([4, 3])
    """
    return _real("rfft2d", input_tensor, fft_length, (-2, -1), name)


@transactional
def irfft2d(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the real numbers of which `rfft2d` has made the input.

    Args:
        input_tensor: frequencies, complex numbers.
        fft_length: two numbers, the sizes of the result, for which the input is cut off, or filled with zeros, before.
            By default the last is the even number 2 * (n - 1) for n frequencies, the others are those of the input.
        name: the name of the operation.

    Examples:
        >>> af.signal.irfft2d(af.ones([4, 3], af.complex64)).shape
        TensorShape([4, 4])
    """
    return _inverse_real("irfft2d", input_tensor, fft_length, (-2, -1), name)


@transactional
def rfft3d(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the first half of the frequencies of real numbers along the last three axes.

    The last axis gets n // 2 + 1 elements; the rest are the conjugates of these.

    Args:
        input_tensor: real numbers.
        fft_length: three numbers, to which the input is cut off, or filled with zeros, before.
        name: the name of the operation.

    Examples:
        >>> af.signal.rfft3d(np.ones((2, 4, 8), np.float32)).shape
        TensorShape([2, 4, 5])
    """
    return _real("rfft3d", input_tensor, fft_length, (-3, -2, -1), name)


@transactional
def irfft3d(input_tensor: NumberLike, fft_length: NumberLike | None = None, name: str | None = None) -> Tensor:
    """Return the real numbers of which `rfft3d` has made the input.

    Args:
        input_tensor: frequencies, complex numbers.
        fft_length: three numbers, the sizes of the result, for which the input is cut off, or filled with zeros,
            before. By default the last is the even number 2 * (n - 1) for n frequencies, and the others are those
            of the input.
        name: the name of the operation.

    Examples:
        >>> spectrum = af.signal.rfft3d(np.ones((2, 2, 2), np.float32))
        >>> (await session.run(af.signal.irfft3d(spectrum)))[0]
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    return _inverse_real("irfft3d", input_tensor, fft_length, (-3, -2, -1), name)


# Along axes that are chosen, with a choice of factors


@transactional
def fftnd(
    input_tensor: NumberLike,
    fft_length: NumberLike | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the Fourier transform of complex numbers along `axes`.

    Args:
        input_tensor: complex numbers.
        fft_length: the size to which each axis is cut off, or filled with zeros, before.
        axes: all axes by default, or the last ones if `fft_length` has fewer numbers.
        norm: which direction divides: "backward" (the default) the inverse by the number n of elements, "forward"
            this one by n, "ortho" both by its root.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.fftnd(np.eye(2, dtype=np.complex64), [2, 2], [0, 1]))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    return _along_axes("fftnd", input_tensor, fft_length, axes, norm, False, name)


@transactional
def ifftnd(
    input_tensor: NumberLike,
    fft_length: NumberLike | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the inverse of `fftnd` with the same arguments.

    Examples:
        >>> spectrum = np.array([[2, 0], [0, 2]], np.complex64)
        >>> await session.run(af.ifftnd(spectrum, [2, 2], [0, 1]))
        array([[1.+0.j, 0.+0.j],
               [0.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _along_axes("ifftnd", input_tensor, fft_length, axes, norm, True, name)


@transactional
def rfftnd(
    input_tensor: NumberLike,
    fft_length: NumberLike | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the first half of the frequencies of real numbers along `axes`, half of the last of these.

    The arguments are those of `fftnd`.

    Examples:
        >>> await session.run(af.rfftnd(np.ones((2, 2), np.float32), [2, 2], [0, 1]))
        array([[4.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    with name_scope(name, "rfftnd"):
        x = convert_to_tensor(input_tensor, preferred_dtype=float32)
        places = _places(x, fft_length, axes)
        x = _resized(x, fft_length, places)
        return _scaled(real_fourier_transform(x, places), _count(x, places), norm, inverse=False)


@transactional
def irfftnd(
    input_tensor: NumberLike,
    fft_length: NumberLike | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the inverse of `rfftnd` with the same arguments.

    Examples:
        >>> spectrum = np.array([[4, 0], [0, 0]], np.complex64)
        >>> await session.run(af.irfftnd(spectrum, [2, 2], [0, 1]))
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    with name_scope(name, "irfftnd"):
        x = _complex(input_tensor)
        places = _places(x, fft_length, axes)
        made = _inverse_real("irfftnd", x, fft_length, places, None)
        return _scaled(made, _count(made, places), norm, inverse=True)


def _along_axes(
    function: str,
    input: Any,
    lengths: Any,
    axes: Sequence[int] | None,
    norm: str | None,
    inverse: bool,
    name: str | None,
) -> Tensor:
    with name_scope(name, function):
        x = _complex(input)
        places = _places(x, lengths, axes)
        x = _resized(x, lengths, places)
        return _scaled(fourier_transform(x, places, inverse), _count(x, places), norm, inverse)


def _places(x: Tensor, lengths: Any, axes: Sequence[int] | None) -> Axes:
    """The axes, counted from the end."""
    rank = x.shape.ndims
    if rank is None:
        raise ValueError(f"the rank of {x!r} must be known")
    if axes is None:
        return tuple(range(-rank if lengths is None else -len(_split(lengths)), 0))
    return tuple([x.spec.axis(axis) - rank for axis in axes])


def _scaled(made: Tensor, count: Size, norm: str | None, inverse: bool) -> Tensor:
    """The result of a transform whose inverse divides, with the factors of `norm`."""
    if norm not in (None, *_NORMS):
        raise ValueError(f"norm is one of {', '.join(_NORMS)}, not {norm!r}")
    if norm in (None, "backward"):
        return made
    number = cast(count, made.dtype.real)
    factor = cast(sqrt(number) if norm == "ortho" else number, made.dtype)
    return made * factor if inverse else made / factor


def _count(x: Tensor, axes: Axes) -> Size:
    count: Size = 1
    for axis in axes:
        count = count * size_of(x, axis)
    return convert_to_tensor(count)


# Of real numbers


def _real(function: str, input: Any, lengths: Any, axes: Axes, name: str | None) -> Tensor:
    with name_scope(name, function) as scope:
        x = _resized(convert_to_tensor(input, preferred_dtype=float32), lengths, axes)
        return real_fourier_transform(x, axes, name=scope)


def _inverse_real(function: str, input: Any, lengths: Any, axes: Axes, name: str | None) -> Tensor:
    with name_scope(name, function) as scope:
        x = _complex(input)
        if lengths is None:
            return real_from_fourier_transform(x, (size_of(x, axes[-1]) - 1) * 2, axes, name=scope)
        *others, last = _split(lengths, len(axes))
        x = _resized(x, [*others, last // 2 + 1], axes)
        return real_from_fourier_transform(x, last, axes, name=scope)


def _complex(value: NumberLike) -> Tensor:
    tensor = convert_to_tensor(value, preferred_dtype=complex64)
    tensor.spec.only(COMPLEX)
    return tensor


# Sizes


def size_of(x: Tensor, axis: int) -> Size:
    """The size of an axis: a number if it is known, else a scalar tensor."""
    known = None if x.shape.ndims is None else x.shape.as_list()[axis]
    return shape(x)[axis] if known is None else known


def _split(lengths: Any, count: int | None = None) -> list[Size]:
    """The numbers of a list or a vector, of which there must be `count`."""
    numbers = [*lengths] if isinstance(lengths, list | tuple) else [*_unstacked(convert_to_tensor(lengths))]
    if count is not None and len(numbers) != count:
        raise ValueError(f"fft_length has {len(numbers)} numbers, and {count} are needed")
    return numbers


def _unstacked(vector: Tensor) -> list[Size]:
    size = vector.shape.num_elements()
    if vector.shape.ndims != 1 or size is None:
        raise ValueError(f"fft_length is a vector of known size, not of shape {vector.shape}")
    value = constant_value(vector)
    return [vector[place] for place in range(size)] if value is None else value.tolist()


def _resized(x: Tensor, lengths: Any, axes: Axes) -> Tensor:
    return x if lengths is None else resized(x, _split(lengths, len(axes)), axes)


def resized(x: Tensor, sizes: Sequence[Size], axes: Axes) -> Tensor:
    """`x` cut off, or filled with zeros at the end, to `sizes` along `axes`, which count from the end."""
    if x.shape.ndims is None:
        raise ValueError(f"the rank of {x!r} must be known to change its size")
    keys, paddings = [slice(None)] * x.shape.ndims, [[0, 0] for _ in range(x.shape.ndims)]
    for size, axis in zip(sizes, axes, strict=True):
        keys[axis] = slice(None, size)
        paddings[axis] = [0, _lack(size_of(x, axis), size)]
    cut = x[tuple(keys)]
    return cut if paddings == [[0, 0]] * len(paddings) else pad(cut, paddings)


def _lack(present: Size, wanted: Size) -> Size:
    if isinstance(present, int) and isinstance(wanted, int):
        return max(wanted - present, 0)
    return maximum(wanted - present, 0)


# Order


@transactional
def fftshift(x: NumberLike, axes: int | Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """Return `x` with the frequency 0 moved from the first place of `axes`, by default all, to the middle.

    Examples:
        >>> await session.run(af.signal.fftshift([0, 1, 2, 3]))
        array([2, 3, 0, 1], dtype=int32)
    """
    with name_scope(name, "fftshift") as scope:
        tensor = convert_to_tensor(x)
        places = _shifted_axes(tensor, axes)
        return roll(tensor, [size_of(tensor, axis) // 2 for axis in places], places, name=scope)


@transactional
def ifftshift(x: NumberLike, axes: int | Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """Return the `x` of which `fftshift` has made this one.

    Examples:
        >>> await session.run(af.signal.ifftshift([2, 3, 0, 1]))
        array([0, 1, 2, 3], dtype=int32)
    """
    with name_scope(name, "ifftshift") as scope:
        tensor = convert_to_tensor(x)
        places = _shifted_axes(tensor, axes)
        return roll(tensor, [-(size_of(tensor, axis) // 2) for axis in places], places, name=scope)


def _shifted_axes(x: Tensor, axes: int | Sequence[int] | None) -> list[int]:
    if axes is not None:
        return [axes] if isinstance(axes, int) else [*axes]
    if x.shape.ndims is None:
        raise ValueError(f"the rank of {x!r} must be known, or the axes given")
    return [*range(x.shape.ndims)]
