"""The functions of the gates of recurrent layers: by name, with the parameters that some of them take."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import select
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.comparison import greater_equal
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.kernels.nn.activation import leaky_relu, relu, softplus, softsign
from aioflow.onnx.call import Call
from aioflow.onnx.operators.activations import hard_sigmoid, scaled_elu

Function = Callable[[Tensor], Tensor]

_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], Mapping[str, float | None]]]] = {
    "affine": (lambda x, alpha, beta: add(multiply(x, alpha), beta), {"alpha": None, "beta": None}),
    "elu": (scaled_elu, {"alpha": 1.0}),
    "hardsigmoid": (hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (leaky_relu, {"alpha": 0.01}),
    "relu": (relu, {}),
    "scaledtanh": (lambda x, alpha, beta: multiply(tanh(multiply(x, beta)), alpha), {"alpha": None, "beta": None}),
    "sigmoid": (sigmoid, {}),
    "softplus": (softplus, {}),
    "softsign": (softsign, {}),
    "tanh": (tanh, {}),
    "thresholdedrelu": (lambda x, alpha: select(greater_equal(x, alpha), x, zeros_like(x)), {"alpha": 1.0}),
}
"""{name: (the function, the defaults of its parameters, None for one without a default)}"""


def gate_functions(call: Call, usual: Sequence[str]) -> list[Function]:
    """The functions of a node's gates, in all directions; those of the names `usual` by default.

    A function with parameters takes the next numbers of `activation_alpha` and `activation_beta`.
    """
    numbers = {key: iter(call.numbers(f"activation_{key}")) for key in ("alpha", "beta")}
    return [_function(name, numbers) for name in call.texts("activations") or [*usual] * 2]


def _function(name: str, numbers: Mapping[str, Iterator[float]]) -> Function:
    if name.lower() not in _FUNCTIONS:
        raise errors.UnimplementedError(f"activation {name} of recurrent layers is not implemented")
    function, defaults = _FUNCTIONS[name.lower()]
    parameters = {key: next(numbers[key], default) for key, default in defaults.items()}
    missing = [f"activation_{key}" for key, number in parameters.items() if number is None]
    if missing:
        raise ValueError(f"activation {name} needs a number of {' and of '.join(missing)}")
    return (lambda x: function(x, *parameters.values())) if parameters else function
