"""The logarithm of the logistic function."""

from aioflow.convert import TensorLike, convert_to_tensor
from aioflow.graph import transactional
from aioflow.kernels.activation import softplus
from aioflow.kernels.math import negative
from aioflow.node import Tensor


@transactional
def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), without overflow: x far below 0, near 0 far above."""
    value = convert_to_tensor(x)
    return negative(softplus(-value), name=name or "log_sigmoid")


__all__ = ["log_sigmoid"]
