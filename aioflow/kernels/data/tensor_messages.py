"""Tensors as messages and back: TensorFlow's TensorProto in bytes, in graphs and outside of them."""

import numpy as np

from aioflow import errors
from aioflow.graph.convert import TensorLike
from aioflow.graph.op import op
from aioflow.kernels.array.constants import _filled
from aioflow.kernels.data import tensor_wire
from aioflow.kernels.data.node_messages import TensorProto
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import (
    STRING,
    UNKNOWN,
    Array,
    DType,
    DTypeLike,
    Namespace,
    ShapeLike,
    Spec,
    TensorShape,
    as_dtype,
    as_shape,
)


@op
def serialize_tensor(tensor: Spec) -> Spec:
    """The tensor as a string: the bytes of TensorFlow's TensorProto, which `parse_tensor` reads.

    Examples:
        >>> data = af.serialize_tensor([[1.0, 2.0]])
        >>> await session.run(af.parse_tensor(data, af.float32))
        array([[1., 2.]], dtype=float32)
    """
    tensor.only(tensor_wire.CARRIED)
    return Spec(dtypes.string, TensorShape(()))


@op
def parse_tensor(serialized: Spec, out_type: DType) -> Spec:
    """The tensor of dtype `out_type` in a string of `serialize_tensor`, or in any TensorProto of TensorFlow.

    InvalidArgumentError if the bytes are none, or hold another dtype.

    Examples:
        >>> data = af.serialize_tensor([1, 2])
        >>> await session.run(af.parse_tensor(data, af.int32))
        array([1, 2], dtype=int32)
    """
    serialized.only(STRING).with_rank(0, "serialized")
    return Spec(out_type, UNKNOWN).only(tensor_wire.CARRIED)


serialize_tensor.no_gradient("bytes do not vary smoothly")
parse_tensor.no_gradient("bytes do not vary smoothly")
costs(serialize_tensor, TEXT)
costs(parse_tensor, 1e5)


@serialize_tensor.kernel(CPU, fresh=True)
def _(xp: Namespace, tensor: Array) -> Array:
    made = np.empty((), object)
    made[()] = tensor_wire.encode(np.asarray(tensor))
    return made


@parse_tensor.kernel(CPU, fresh=True)
def _(xp: Namespace, serialized: Array, *, out_type: DType) -> Array:
    try:
        found = tensor_wire.decode(bytes(np.asarray(serialized, object).item()))
    except ValueError as error:
        raise errors.InvalidArgumentError(f"the bytes are not a tensor: {error}") from None
    if as_dtype(found.dtype) is not out_type:
        raise errors.InvalidArgumentError(f"the tensor is of dtype {as_dtype(found.dtype).name}, not {out_type.name}")
    return found


def make_tensor_proto(
    values: TensorLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> bytes:
    """Return `values`, an array, a number, text or nested lists, as the bytes of a TensorProto.

    With a shape, the last value is repeated where there are fewer values than elements, as `constant` does, unless
    `verify_shape`. `allow_broadcast` has no effect.

    Raises:
        TypeError: the dtype cannot hold the values, or has no such message.
        ValueError: the values are ragged, or have another shape.

    Examples:
        >>> af.make_ndarray(af.make_tensor_proto([1.0, 2.0]))
        array([1., 2.], dtype=float32)
    """
    array = as_array(values, None if dtype is None else as_dtype(dtype), strict=True)
    Spec(as_dtype(array.dtype)).only(tensor_wire.CARRIED)
    return tensor_wire.encode(array if shape is None else _filled(array, as_shape(shape), verify_shape))


def make_ndarray(tensor: bytes | TensorProto) -> AnyArray:
    """Return the array in a TensorProto, or in the bytes of one. ValueError if they are none.

    Examples:
        >>> af.make_ndarray(af.make_tensor_proto([[1, 2], [3, 4]]))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return tensor_wire.decode(tensor.SerializeToString() if isinstance(tensor, TensorProto) else tensor)
