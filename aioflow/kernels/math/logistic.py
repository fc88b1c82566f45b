"""The logarithm of the logistic function."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.elementwise import negative
from aioflow.kernels.nn.activation import softplus


@transactional
def log_sigmoid(x: NumberLike, name: str | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), without overflow: x far below 0, near 0 far above."""
    value = convert_to_tensor(x)
    return negative(softplus(-value), name=name or "log_sigmoid")
