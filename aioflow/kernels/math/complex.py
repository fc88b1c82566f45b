"""Complex numbers and their parts.

The gradient of a real loss L by a complex x is dL/dRe(x) + i dL/dIm(x): a rule multiplies by the conjugate of the
derivative, and descending against the gradient lowers the loss.
"""

import numpy as np

from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, broadcast_gradient, elementwise
from aioflow.tensors.dtypes import COMPLEX, FLOAT, Array, Namespace, Spec, complex64, complex128, float32, float64


def _conj_gradient(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    return conj(dy)


_conj = elementwise("conj", _conj_gradient, "The complex conjugate of x.", COMPLEX, kernel="conjugate")


@dispatching
def conj(x: NumberLike, name: str | None = None) -> Tensor:
    """The complex conjugate of x; a real x itself.

    Examples:
        >>> await session.run(af.conj([1 + 2j]))
        array([1.-2.j])
    """
    tensor = _tensor(x)
    return _conj(tensor, name=name) if tensor.dtype.is_complex else tensor


def _tensor(value: NumberLike) -> Tensor:
    tensor = convert_to_tensor(value)
    if not tensor.dtype.is_numeric:
        raise TypeError(f"{tensor!r} is not numeric")
    return tensor


# Parts


@op(name="real")
def _real(input: Spec) -> Spec:
    """The real part."""
    return input.only(COMPLEX).with_dtype(input.dtype.real)


@op(name="imag")
def _imag(input: Spec) -> Spec:
    """The imaginary part, a real number."""
    return input.only(COMPLEX).with_dtype(input.dtype.real)


@op(name="angle")
def _angle(input: Spec) -> Spec:
    """The angle in radians between the positive real axis and the number, between -pi and pi."""
    input.only(COMPLEX, FLOAT)
    return input.with_dtype(input.dtype.real) if input.dtype.is_complex else Spec(input.dtype, input.shape)


@_real.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return complex(dy, 0)


@_imag.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return complex(0, dy)


@_angle.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    x = op.inputs[0]
    if not x.dtype.is_complex:
        return OPERATORS["zeros_like"](x)
    return OPERATORS["xdivy"](complex(-dy, 0), complex(_imag(x), _real(x)))


_real.kernel(CPU, GPU)(lambda xp, input: input.real)
_imag.kernel(CPU, GPU)(lambda xp, input: input.imag)


@_angle.kernel(CPU, GPU, out=True)
def _(xp: Namespace, input: Array, out: Array | None = None) -> Array:
    if input.dtype.kind == "c":
        return xp.arctan2(input.imag, input.real, out=out)
    return xp.arctan2(xp.zeros((), input.dtype), input, out=out)


@dispatching
def real(input: NumberLike, name: str | None = None) -> Tensor:
    """The real part; a real `input` itself.

    Examples:
        >>> await session.run(af.real([1 + 2j]))
        array([1.])
    """
    tensor = _tensor(input)
    return _real(tensor, name=name) if tensor.dtype.is_complex else tensor


@dispatching
def imag(input: NumberLike, name: str | None = None) -> Tensor:
    """The imaginary part, a real number; zeros for a real `input`.

    Examples:
        >>> await session.run(af.imag([1 + 2j]))
        array([2.])
    """
    tensor = _tensor(input)
    return _imag(tensor, name=name) if tensor.dtype.is_complex else OPERATORS["zeros_like"](tensor, name=name)


@dispatching
def angle(input: NumberLike, name: str | None = None) -> Tensor:
    """The angle in radians between the positive real axis and the number, between -pi and pi.

    That of a real number is 0, or pi if it is negative, and its gradient 0; that of an integer is float64.

    Examples:
        >>> await session.run(af.angle([1j, -1.0 + 0j]))
        array([1.57079633, 3.14159265])
    """
    tensor = _tensor(input)
    return _angle(OPERATORS["cast"](tensor, float64) if tensor.dtype.is_integer else tensor, name=name)


# The whole


@op
def complex(real: T, imag: T) -> Spec:
    """`real + i imag`, of float32 as complex64, of float64 as complex128.

    Examples:
        >>> await session.run(af.complex([1.0, 2.0], [0.5, -0.5]))
        array([1.+0.5j, 2.-0.5j], dtype=complex64)
    """
    dtype = {float32: complex64, float64: complex128}.get(real.same_dtype(imag).dtype)
    if dtype is None:
        raise TypeError(f"dtype {real.dtype.name} is not supported; use float32 or float64")
    return Spec(dtype, real.broadcast(imag))


broadcast_gradient(complex, lambda z, x, y, dz: (real(dz), imag(dz)))


@complex.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, real: Array, imag: Array) -> Array:
    shape = real.shape if real.shape == imag.shape else np.broadcast_shapes(real.shape, imag.shape)
    z = xp.empty(shape, xp.result_type(real.dtype, xp.complex64))
    z.real, z.imag = real, imag
    return z


OPERATORS.update(conj=conj, real=real, imag=imag, complex=complex)
