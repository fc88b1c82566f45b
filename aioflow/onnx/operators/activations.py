"""Activations, softmax, and dropout."""

from collections.abc import Callable

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, ones_like, zeros_like
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.arithmetic import add, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less
from aioflow.kernels.math.elementwise import expm1, reciprocal
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.nn.activation import elu, leaky_relu, relu, softplus, softsign
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.library.branches import cond
from aioflow.library.nn_functions import gelu
from aioflow.onnx.call import Call
from aioflow.onnx.operators.normalisation import by_channel
from aioflow.onnx.operators.shaping import flattened
from aioflow.onnx.operators.values import axis_of, known_number, rank_of, scalar, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import bool_, float32

operator("Relu")(lambda call, x: relu(x) if x.dtype.is_floating else maximum(x, constant(0, x.dtype)))
operator("Softplus")(lambda call, x: softplus(x))
operator("Softsign")(lambda call, x: softsign(x))
operator("LeakyRelu")(lambda call, x: leaky_relu(x, call.number("alpha", 0.01)))
operator("Gelu", since=20)(lambda call, x: gelu(x, call.text("approximate", "none") == "tanh"))
operator("Elu")(lambda call, x: scaled_elu(x, call.number("alpha", 1.0)))
operator("HardSigmoid")(lambda call, x: hard_sigmoid(x, call.number("alpha", 0.2), call.number("beta", 0.5)))
operator("Identity")(lambda call, x: x)


def scaled_elu(x: Tensor, alpha: float) -> Tensor:
    """`x` where it is 0 or greater, else alpha (e^x - 1)."""
    if alpha == 1:
        return elu(x)
    zero = constant(0, x.dtype)
    return add(maximum(x, zero), multiply(expm1(minimum(x, zero)), alpha))


@operator("Selu")
def _(call: Call, x: Tensor) -> Tensor:
    return multiply(
        scaled_elu(x, call.number("alpha", 1.67326319217681884765625)), call.number("gamma", 1.05070102214813232421875)
    )


@operator("PRelu")
def _(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    if call.version < 7:
        slope = by_channel(slope, x)
    return select(less(x, constant(0, x.dtype)), multiply(x, slope), x)


def hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    """A line, alpha x + beta, between 0 and 1."""
    line = add(multiply(x, alpha), beta)
    return minimum(maximum(line, constant(0, x.dtype)), constant(1, x.dtype))


def _declare_softmax(type: str, function: Callable[..., Tensor]) -> None:
    @operator(type, since=13)
    def _(call: Call, x: Tensor) -> Tensor:
        return function(x, axis_of(call.integer("axis", -1), rank_of(x)))

    @operator(type)
    def _(call: Call, x: Tensor) -> Tensor:
        axis, rank = axis_of(call.integer("axis", 1), rank_of(x)), rank_of(x)
        if axis == rank - 1:
            return function(x, axis)
        return reshape(function(flattened(x, axis), 1), sizes_of(x))


_declare_softmax("Softmax", softmax)
_declare_softmax("LogSoftmax", log_softmax)


@operator("Dropout")
def _(call: Call, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`x` itself, and true everywhere; in training as much of it as the ratio says is 0, and the rest grows."""
    if training is None or known_number(training) is False:
        return x, ones_like(x, bool_)
    rate = constant(0.5) if ratio is None else cast(scalar(ratio), float32)
    made: tuple[Tensor, Tensor] = cond(scalar(training), lambda: _dropped(x, rate), lambda: (x, ones_like(x, bool_)))
    return made


def _dropped(x: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    kept = greater_equal(random_uniform(sizes_of(x)), rate)
    grown = multiply(x, cast(reciprocal(subtract(constant(1.0), rate)), x.dtype))
    return select(kept, grown, zeros_like(x)), kept
