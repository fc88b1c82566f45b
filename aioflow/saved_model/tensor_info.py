"""`TensorInfo`: the name, dtype and shape of a tensor, as signatures of TensorFlow describe it."""

from collections.abc import Mapping
from typing import ClassVar

from aioflow.files.dtype_numbers import NUMBERS
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.data.message import Field, Message
from aioflow.kernels.data.node_messages import DATA_TYPE, DimensionSize, TensorShapeProto
from aioflow.tensors.recursion import safe_repr


class TensorInfo(Message):
    """The name, dtype and shape of a tensor, with the bytes of TensorFlow's message.

    Attributes:
        name: the name of the tensor in its graph.
        dtype: the number of its dtype in TensorFlow's DataType.
        tensor_shape: its shape.

    Examples:
        >>> info = af.saved_model.build_tensor_info(af.placeholder(af.float32, [None, 3], name="x"))
        >>> info.name, [dimension.size for dimension in info.tensor_shape.dim]
        ('x:0', [-1, 3])
        >>> af.TensorInfo.FromString(info.SerializeToString()) == info
        True
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "name": Field(1, "string", oneof="encoding"),
        "dtype": Field(2, "enum", enum=DATA_TYPE),
        "tensor_shape": Field(3, TensorShapeProto),
    }
    name: str
    dtype: int
    tensor_shape: TensorShapeProto

    def __init__(
        self, name: str | None = None, dtype: int | None = None, tensor_shape: TensorShapeProto | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype, tensor_shape=tensor_shape)


def build_tensor_info(tensor: Tensor) -> TensorInfo:
    """Return the description of a tensor, which signatures take in its place.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> inputs = {"x": af.saved_model.build_tensor_info(x)}
        >>> af.saved_model.build_signature_def(inputs, {"y": x + 1.0}).describe()
        '(x: float32[?]) -> (y: float32[?])'
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"build_tensor_info describes a tensor, not {safe_repr(tensor)}")
    if tensor.dtype not in NUMBERS:
        raise TypeError(f"TensorFlow's messages have no number for {tensor.dtype.name}, the dtype of {tensor.name!r}")
    return TensorInfo(tensor.name, NUMBERS[tensor.dtype], _shape_info(tensor))


def _shape_info(tensor: Tensor) -> TensorShapeProto:
    if tensor.shape.rank is None:
        return TensorShapeProto(unknown_rank=True)
    return TensorShapeProto(dim=[DimensionSize(-1 if size is None else size) for size in tensor.shape.as_list()])


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Tensor:
    """Return the tensor that a description names.

    Args:
        tensor_info: the description.
        graph: the graph of the tensor; the default one by default.
        import_scope: the name scope that the graph of the description was imported under.

    Raises:
        KeyError: the graph has no such tensor.
        ValueError: the description has no name.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> af.saved_model.get_tensor_from_tensor_info(af.saved_model.build_tensor_info(x)) is x
        True
    """
    if not isinstance(tensor_info, TensorInfo):
        raise TypeError(f"tensor_info is an af.TensorInfo, not {safe_repr(tensor_info)}")
    if not tensor_info.name:
        raise ValueError("the TensorInfo has no name: it describes a tensor of several parts, or none")
    scope = f"{import_scope.rstrip('/')}/" if import_scope else ""
    return (graph or get_default_graph()).get_tensor_by_name(f"{scope}{tensor_info.name}")
