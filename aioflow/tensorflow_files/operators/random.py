"""Random numbers. They are not TensorFlow's: the generators differ."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.random import multinomial, random_normal, random_shuffle, random_uniform, truncated_normal
from aioflow.tensorflow_files.call import Call, known_integer
from aioflow.tensorflow_files.registry import operator
from aioflow.tensors.dtypes import int64


def _seed(call: Call) -> int | None:
    """A seed if the graph has one: equal runs of it draw equal numbers."""
    return call.integer("seed", 0) << 32 ^ call.integer("seed2", 0) or None


@operator("RandomUniform")
def _(call: Call, shape: Tensor) -> Tensor:
    return random_uniform(shape, dtype=call.dtype("dtype"), seed=_seed(call), name=call.name)


@operator("RandomUniformInt")
def _(call: Call, shape: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return random_uniform(shape, low, high, low.dtype, _seed(call), name=call.name)


@operator("RandomStandardNormal")
def _(call: Call, shape: Tensor) -> Tensor:
    return random_normal(shape, dtype=call.dtype("dtype"), seed=_seed(call), name=call.name)


@operator("TruncatedNormal")
def _(call: Call, shape: Tensor) -> Tensor:
    return truncated_normal(shape, dtype=call.dtype("dtype"), seed=_seed(call), name=call.name)


@operator("RandomShuffle")
def _(call: Call, value: Tensor) -> Tensor:
    return random_shuffle(value, _seed(call), name=call.name)


@operator("Multinomial")
def _(call: Call, logits: Tensor, count: Tensor) -> Tensor:
    dtype = call.dtype("output_dtype", int64)
    return multinomial(
        logits, known_integer(count, "number of samples"), _seed(call), output_dtype=dtype, name=call.name
    )
