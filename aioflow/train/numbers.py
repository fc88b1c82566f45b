"""Converts numbers of users, Python's own, arrays, tensors or variables, to tensors of one dtype."""

from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.tensors.dtypes import DType


def as_number(value: TensorLike, dtype: DType, name: str | None = None) -> Tensor:
    """Return `value` as a tensor of that dtype: a tensor is cast, other numbers are converted exactly."""
    if not hasattr(value, "graph"):
        return convert_to_tensor(value, dtype, name=name)
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype is dtype else cast(tensor, dtype, name=name)
