"""The domain of classical machine learning, and the steps of optimizers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, divide, multiply, pow, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, logical_and, logical_or
from aioflow.kernels.math.elementwise import sqrt, square
from aioflow.kernels.math.reduction import argmax, reduce_any
from aioflow.kernels.math.rounding import is_nan
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import rank_of, scalar
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, float32

_ML = "ai.onnx.ml"
_TRAINING = "ai.onnx.preview.training"


@operator("ArrayFeatureExtractor", domain=_ML)
def _(call: Call, x: Tensor, places: Tensor) -> Tensor:
    rows = x if rank_of(x) > 1 else expand_dims(x, 0)
    return gather(rows, reshape(places, [-1]), axis=rank_of(rows) - 1)


@operator("Binarizer", domain=_ML)
def _(call: Call, x: Tensor) -> Tensor:
    return cast(greater(x, call.number("threshold", 0.0)), x.dtype)


@operator("LabelEncoder", since=2, domain=_ML)
def _(call: Call, x: Tensor) -> Tensor:
    """The value whose key is the element, or the default."""
    keys, values = constant(_labels(call, "keys"), x.dtype), constant(_labels(call, "values"))
    hits = equal(expand_dims(x, -1), keys)
    if x.dtype.is_floating:
        hits = logical_or(hits, logical_and(is_nan(expand_dims(x, -1)), is_nan(keys)))
    found = gather(values, argmax(cast(hits, float32), rank_of(x)))
    return select(reduce_any(hits, -1), found, constant(_default(call, values.dtype), values.dtype))


def _labels(call: Call, which: str) -> Any:
    for kind, dtype in (("strings", None), ("int64s", np.int64), ("floats", np.float32)):
        if call.has(f"{which}_{kind}"):
            return call.texts(f"{which}_{kind}") if dtype is None else np.array(call.get(f"{which}_{kind}"), dtype)
    return call.get(f"{which}_tensor")


def _default(call: Call, dtype: DType) -> Any:
    given = call.get("default_tensor")
    if given is not None:
        return given.reshape(())
    if dtype.is_integer:
        return call.integer("default_int64", -1)
    return call.number("default_float", -0.0) if dtype.is_floating else call.text("default_string", "_Unused")


# Steps of optimizers: the rate, the number of steps before, then all parameters, all gradients, all of each state

Update = Callable[[Call, Tensor, Tensor, Sequence[Tensor]], list[Tensor]]
"""(call, rate, count of steps, [parameter, gradient, *state]) -> the new parameter and state."""


def _declare(type: str, update: Update) -> None:
    @operator(type, domain=_TRAINING)
    def _(call: Call, rate: Tensor, count: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        parts = 4 if type == "Adam" else 3
        columns = len(inputs) // parts
        made = [update(call, scalar(rate), scalar(count), inputs[index::columns]) for index in range(columns)]
        return tuple([item for column in zip(*made, strict=True) for item in column])


def _regular(call: Call, x: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with that of half the squares of the parameters."""
    return add(gradient, multiply(x, call.number("norm_coefficient", 0.0)))


def _adagrad(call: Call, rate: Tensor, count: Tensor, given: Sequence[Tensor]) -> list[Tensor]:
    x, gradient, squares = given
    decayed = divide(rate, add(multiply(cast(count, x.dtype), call.number("decay_factor", 0.0)), 1.0))
    slope = _regular(call, x, gradient)
    total = add(squares, square(slope))
    change = divide(multiply(slope, decayed), add(sqrt(total), call.number("epsilon", 0.0)))
    return [subtract(x, change), total]


def _momentum(call: Call, rate: Tensor, count: Tensor, given: Sequence[Tensor]) -> list[Tensor]:
    x, gradient, before = given
    alpha, beta = call.number("alpha"), call.number("beta")
    slope = _regular(call, x, gradient)
    part = select(greater(count, constant(0, count.dtype)), constant(beta), constant(1.0))
    moving = add(multiply(before, alpha), multiply(slope, cast(part, x.dtype)))
    step = add(slope, multiply(moving, alpha)) if call.text("mode") == "nesterov" else moving
    return [subtract(x, multiply(step, rate)), moving]


def _adam(call: Call, rate: Tensor, count: Tensor, given: Sequence[Tensor]) -> list[Tensor]:
    x, gradient, mean, squares = given
    alpha, beta = call.number("alpha", 0.9), call.number("beta", 0.999)
    slope = _regular(call, x, gradient)
    mean = add(multiply(mean, alpha), multiply(slope, 1 - alpha))
    squares = add(multiply(squares, beta), multiply(square(slope), 1 - beta))
    times = cast(count, x.dtype)
    unbiased = divide(sqrt(subtract(1.0, pow(constant(beta), times))), subtract(1.0, pow(constant(alpha), times)))
    scale = select(greater(times, 0.0), multiply(rate, unbiased), rate)
    moved = subtract(x, divide(multiply(mean, scale), add(sqrt(squares), call.number("epsilon", 1e-6))))
    rest = 1 - call.number("norm_coefficient_post", 0.0)
    return [multiply(moved, rest), mean, squares]


_declare("Adagrad", _adagrad)
_declare("Momentum", _momentum)
_declare("Adam", _adam)
