"""Numbers that users give as Python's own, as arrays, tensors or variables, made tensors of one dtype."""

from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.tensors.dtypes import DType


def as_number(value: TensorLike, dtype: DType, name: str | None = None) -> Tensor:
    """`value` as a tensor of that dtype: cast if it is a tensor, else exactly the number that was written."""
    if not hasattr(value, "graph"):
        return convert_to_tensor(value, dtype, name=name)
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype is dtype else cast(tensor, dtype, name=name)
