"""Constants, shapes, and the parts and orders of arrays."""

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.arrays import reverse, tile, transpose
from aioflow.kernels.array.concat import concat, split, stack, unstack
from aioflow.kernels.array.constants import (
    constant,
    identity_n,
    no_op,
    placeholder,
    placeholder_with_default,
)
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.partition import dynamic_partition, dynamic_stitch, ensure_shape
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.sequence import reverse_sequence, setdiff1d, unique_with_counts
from aioflow.kernels.array.shapes import expand_dims, shape, shape_n, size, squeeze
from aioflow.kernels.array.slicing import strided_slice
from aioflow.kernels.array.sorting import in_top_k, top_k, unique
from aioflow.kernels.array.space_to_batch import batch_to_space_nd, depth_to_space, space_to_batch_nd, space_to_depth
from aioflow.tensorflow_files.call import Call, known, known_integer, known_list
from aioflow.tensorflow_files.registry import operator, same
from aioflow.tensors.dtypes import UNKNOWN, int32

same(
    "Identity=identity Snapshot=identity StopGradient=stop_gradient PreventGradient=prevent_gradient "
    "ZerosLike=zeros_like OnesLike=ones_like Fill=fill Reshape=reshape Rank=rank Slice=slice GatherNd=gather_nd "
    "ScatterNd=scatter_nd TensorScatterUpdate=tensor_scatter_update TensorScatterAdd=tensor_scatter_add "
    "TensorScatterSub=tensor_scatter_sub Where=where InvertPermutation=invert_permutation Range=range "
    "LinSpace=linspace BroadcastArgs=broadcast_dynamic_shape "
    "MatrixBandPart=matrix_band_part Diag=diag DiagPart=diag_part MatrixDiag=matrix_diag "
    "MatrixDiagPart=matrix_diag_part"
)


@operator("Const")
def _(call: Call) -> Tensor:
    return constant(call.array("value"), name=call.name)


@operator("Placeholder", "PlaceholderV2")
def _(call: Call) -> Tensor:
    return placeholder(call.dtype("dtype"), call.shape("shape", UNKNOWN), name=call.name)


@operator("PlaceholderWithDefault")
def _(call: Call, default: Tensor) -> Tensor:
    return placeholder_with_default(default, call.shape("shape"), name=call.name)


@operator("NoOp")
def _(call: Call) -> Operation:
    return no_op(name=call.name)


@operator("IdentityN")
def _(call: Call, *inputs: Tensor) -> list[Tensor]:
    return identity_n(inputs, name=call.name)


@operator("Shape")
def _(call: Call, x: Tensor) -> Tensor:
    return shape(x, name=call.name, out_type=call.dtype("out_type", int32))


@operator("ShapeN")
def _(call: Call, *inputs: Tensor) -> list[Tensor]:
    return [*shape_n(inputs, out_type=call.dtype("out_type", int32), name=call.name)]


@operator("Size")
def _(call: Call, x: Tensor) -> Tensor:
    return size(x, name=call.name, out_type=call.dtype("out_type", int32))


@operator("EnsureShape")
def _(call: Call, x: Tensor) -> Tensor:
    return ensure_shape(x, call.shape("shape"), name=call.name)


@operator("ExpandDims")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    return expand_dims(x, known_integer(axis, "axis"), name=call.name)


@operator("Squeeze")
def _(call: Call, x: Tensor) -> Tensor:
    return squeeze(x, call.integers("squeeze_dims", []) or None, name=call.name)


@operator("Transpose")
def _(call: Call, x: Tensor, order: Tensor) -> Tensor:
    return transpose(x, known_list(order, "order of axes"), name=call.name)


@operator("ReverseV2")
def _(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    return reverse(x, known_list(axis, "axes"), name=call.name)


@operator("ReverseSequence")
def _(call: Call, x: Tensor, lengths: Tensor) -> Tensor:
    return reverse_sequence(x, lengths, call.integer("seq_dim"), call.integer("batch_dim", 0), name=call.name)


@operator("Tile")
def _(call: Call, x: Tensor, multiples: Tensor) -> Tensor:
    return tile(x, multiples, name=call.name)


@operator("ConcatV2")
def _(call: Call, *inputs: Tensor) -> Tensor:
    *values, axis = inputs
    return concat(values, known_integer(axis, "axis"), name=call.name)


@operator("Concat")
def _(call: Call, axis: Tensor, *values: Tensor) -> Tensor:
    return concat(list(values), known_integer(axis, "axis"), name=call.name)


@operator("Split")
def _(call: Call, axis: Tensor, value: Tensor) -> list[Tensor]:
    return split(value, call.integer("num_split"), known_integer(axis, "axis"), name=call.name)


@operator("SplitV")
def _(call: Call, value: Tensor, sizes: Tensor, axis: Tensor) -> list[Tensor]:
    return split(value, sizes, known_integer(axis, "axis"), call.integer("num_split"), name=call.name)


@operator("Pack")
def _(call: Call, *values: Tensor) -> Tensor:
    return stack(values, call.integer("axis", 0), name=call.name)


@operator("Unpack")
def _(call: Call, value: Tensor) -> list[Tensor]:
    return [*unstack(value, call.integer("num"), call.integer("axis", 0), name=call.name)]


@operator("StridedSlice")
def _(call: Call, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    return strided_slice(x, begin, end, known_list(strides, "strides"), **strided_masks(call), name=call.name)


def strided_masks(call: Call) -> dict[str, int]:
    """The masks of a strided slice."""
    names = "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"
    return {name: call.integer(name, 0) for name in names}


@operator("Gather", "GatherV2")
def _(call: Call, rows: Tensor, indices: Tensor, axis: Tensor | None = None) -> Tensor:
    along = 0 if axis is None else known_integer(axis, "axis")
    return gather(rows, indices, axis=along, batch_dims=call.integer("batch_dims", 0), name=call.name)


@operator("OneHot")
def _(call: Call, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor) -> Tensor:
    return one_hot(indices, depth, on, off, call.integer("axis", -1), name=call.name)


@operator("Pad", "PadV2")
def _(call: Call, x: Tensor, paddings: Tensor, value: Tensor | None = None) -> Tensor:
    filled = 0 if value is None else known(value, "padding").item()
    return pad(x, paddings, constant_values=filled, name=call.name)


@operator("MirrorPad")
def _(call: Call, x: Tensor, paddings: Tensor) -> Tensor:
    return pad(x, paddings, call.text("mode"), name=call.name)


@operator("TopKV2", results="values indices")
def _(call: Call, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = top_k(x, known_integer(k, "k"), call.flag("sorted", True), name=call.name)
    return values, indices


@operator("InTopKV2")
def _(call: Call, predictions: Tensor, targets: Tensor, k: Tensor) -> Tensor:
    return in_top_k(predictions, targets, known_integer(k, "k"), name=call.name)


@operator("Unique", results="y idx")
def _(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = unique(x, call.dtype("out_idx", int32), name=call.name)
    return values, places


@operator("UniqueWithCounts", results="y idx count")
def _(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(unique_with_counts(x, call.dtype("out_idx", int32)))


@operator("ListDiff", results="out idx")
def _(call: Call, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    values, places = setdiff1d(x, y, call.dtype("out_idx", int32), name=call.name)
    return values, places


@operator("DynamicPartition")
def _(call: Call, x: Tensor, partitions: Tensor) -> list[Tensor]:
    return [*dynamic_partition(x, partitions, call.integer("num_partitions"), name=call.name)]


@operator("DynamicStitch", "ParallelDynamicStitch")
def _(call: Call, *inputs: Tensor) -> Tensor:
    half = len(inputs) // 2
    return dynamic_stitch(list(inputs[:half]), list(inputs[half:]), name=call.name)


@operator("DepthToSpace")
def _(call: Call, x: Tensor) -> Tensor:
    return depth_to_space(x, call.integer("block_size"), data_format=call.text("data_format", "NHWC"), name=call.name)


@operator("SpaceToDepth")
def _(call: Call, x: Tensor) -> Tensor:
    return space_to_depth(x, call.integer("block_size"), data_format=call.text("data_format", "NHWC"), name=call.name)


@operator("SpaceToBatchND")
def _(call: Call, x: Tensor, block: Tensor, paddings: Tensor) -> Tensor:
    return space_to_batch_nd(x, block, paddings, name=call.name)


@operator("BatchToSpaceND")
def _(call: Call, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    return batch_to_space_nd(x, block, crops, name=call.name)
