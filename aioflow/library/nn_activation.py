"""Activation functions composed of other ops."""

import math

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.elementwise import negative, sigmoid, tanh
from aioflow.kernels.math.erf import erf
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.activation import relu
from aioflow.library.control import name_scope


@transactional
def gelu(features: NumberLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """Return `features` times the probability that a normal number is smaller [Hendrycks 2016].

    `approximate` computes 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) instead.
    """
    with name_scope(name, "gelu", [features]) as scope:
        x = convert_to_tensor(features)
        bent = x * (1 + x * x * 0.044715) if approximate else x
        inner = tanh(bent * math.sqrt(2 / math.pi)) if approximate else erf(x * math.sqrt(0.5))
        return multiply(x * 0.5, inner + 1, name=scope)


@transactional
def swish(features: NumberLike, name: str | None = None) -> Tensor:
    """Return `features` times their sigmoid [Ramachandran 2017]."""
    with name_scope(name, "swish", [features]) as scope:
        x = convert_to_tensor(features)
        return multiply(x, sigmoid(x), name=scope)


@transactional
def crelu(features: NumberLike, name: str | None = None, axis: int = -1) -> Tensor:
    """Concatenate the positive parts of `features` and of -`features` along `axis`, which doubles."""
    with name_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features)
        return relu(concat([x, negative(x)], axis), name=scope)


@transactional
def hard_sigmoid(x: NumberLike, name: str | None = None) -> Tensor:
    """Return 0.2 * x + 0.5, clipped to the range from 0 to 1: a piecewise linear sigmoid."""
    with name_scope(name, "hard_sigmoid", [x]) as scope:
        return clip_by_value(convert_to_tensor(x) * 0.2 + 0.5, 0.0, 1.0, name=scope)
