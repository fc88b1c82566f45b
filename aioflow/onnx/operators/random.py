"""Random numbers. They differ from those of other runtimes, whatever the seed."""

from collections.abc import Callable

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.random import multinomial, random_normal, random_uniform
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, float32, int32


def _seed(call: Call) -> int | None:
    return int(call.number("seed")) if call.has("seed") else None


def _normal(call: Call, shape: Tensor | list[int], dtype: DType) -> Tensor:
    return random_normal(shape, call.number("mean", 0.0), call.number("scale", 1.0), dtype, seed=_seed(call))


def _uniform(call: Call, shape: Tensor | list[int], dtype: DType) -> Tensor:
    return random_uniform(shape, call.number("low", 0.0), call.number("high", 1.0), dtype, seed=_seed(call))


def _declare(type: str, draw: Callable[[Call, Tensor | list[int], DType], Tensor]) -> None:
    operator(type)(lambda call: draw(call, call.integers("shape"), call.dtype("dtype", float32)))
    operator(f"{type}Like")(lambda call, x: draw(call, sizes_of(x), call.dtype("dtype", x.dtype)))


_declare("RandomNormal", _normal)
_declare("RandomUniform", _uniform)


@operator("Multinomial", since=7)
def _(call: Call, x: Tensor) -> Tensor:
    return cast(multinomial(x, call.integer("sample_size", 1), seed=_seed(call)), call.dtype("dtype", int32))


@operator("Bernoulli", since=15)
def _(call: Call, x: Tensor) -> Tensor:
    return cast(less(random_uniform(sizes_of(x), seed=_seed(call)), cast(x, float32)), call.dtype("dtype", x.dtype))
