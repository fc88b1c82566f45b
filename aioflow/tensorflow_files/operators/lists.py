"""TensorArrays of TensorFlow 1, and lists of tensors of TensorFlow 2, as aioflow's TensorArrays.

A TensorArray of TensorFlow has a handle and a flow; here both are the list itself, as it is at that point.
"""

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.array.ranges import range
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control import tensor_array as arrays
from aioflow.tensorflow_files.call import Call, known_list
from aioflow.tensorflow_files.registry import operator
from aioflow.tensors.dtypes import UNKNOWN, TensorShape


@operator("TensorArrayV3", results="handle flow")
def _(call: Call, size: Tensor) -> tuple[Tensor, Tensor]:
    element = call.dtype("dtype"), call.shape("element_shape", UNKNOWN)
    flags = call.flag("dynamic_size", False), call.flag("clear_after_read", True)
    made = arrays.tensor_array(size, *element, *flags, call.flag("identical_element_shapes", False), name=call.name)
    return made, made


@operator("TensorArrayWriteV3")
def _(call: Call, handle: Tensor, index: Tensor, value: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_write(flow, index, value, name=call.name)


@operator("TensorArrayReadV3")
def _(call: Call, handle: Tensor, index: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_read(flow, index, name=call.name)


@operator("TensorArrayGatherV3")
def _(call: Call, handle: Tensor, indices: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_gather(flow, indices, name=call.name)


@operator("TensorArrayScatterV3")
def _(call: Call, handle: Tensor, indices: Tensor, value: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_scatter(flow, indices, value, name=call.name)


@operator("TensorArraySplitV3")
def _(call: Call, handle: Tensor, value: Tensor, lengths: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_split(flow, value, lengths, name=call.name)


@operator("TensorArrayConcatV3", results="value lengths")
def _(call: Call, handle: Tensor, flow: Tensor) -> tuple[Tensor, ...]:
    return arrays.tensor_array_concat(flow, name=call.name)


@operator("TensorArraySizeV3")
def _(call: Call, handle: Tensor, flow: Tensor) -> Tensor:
    return arrays.tensor_array_size(flow, name=call.name)


@operator("TensorArrayCloseV3")
def _(call: Call, handle: Tensor) -> Operation:
    return no_op(name=call.name)


# Lists of TensorFlow 2


def _element(sizes: Tensor) -> TensorShape:
    """The shape of elements: a vector of sizes, -1 where they are open, or the number -1 where nothing is known."""
    if sizes.spec.rank == 0:
        return UNKNOWN
    return TensorShape([None if size < 0 else size for size in known_list(sizes, "shape of elements")])


@operator("TensorListReserve")
def _(call: Call, sizes: Tensor, count: Tensor) -> Tensor:
    return arrays.tensor_array(count, call.dtype("element_dtype"), _element(sizes), False, False, False, name=call.name)


@operator("TensorListFromTensor")
def _(call: Call, value: Tensor, sizes: Tensor) -> Tensor:
    count = shape(value)[0]
    made = arrays.tensor_array(count, call.dtype("element_dtype"), _element(sizes), False, False, False)
    return arrays.tensor_array_scatter(made, range(count), value, name=call.name)


@operator("TensorListSetItem")
def _(call: Call, flow: Tensor, index: Tensor, value: Tensor) -> Tensor:
    return arrays.tensor_array_write(flow, index, value, name=call.name)


@operator("TensorListGetItem")
def _(call: Call, flow: Tensor, index: Tensor, sizes: Tensor) -> Tensor:
    return arrays.tensor_array_read(flow, index, name=call.name)


@operator("TensorListStack")
def _(call: Call, flow: Tensor, sizes: Tensor) -> Tensor:
    return arrays.tensor_array_gather(flow, range(arrays.tensor_array_size(flow)), name=call.name)


@operator("TensorListLength")
def _(call: Call, flow: Tensor) -> Tensor:
    return arrays.tensor_array_size(flow, name=call.name)
