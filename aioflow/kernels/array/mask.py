"""Elements picked by a mask, and masks made of lengths."""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.families import CPU, costs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, DTypeLike, Namespace, Spec, TensorShape

Function = Callable[..., Any]


@op(name="boolean_mask")
def _boolean_mask(tensor: Spec, mask: Spec, axis: int = 0) -> Spec:
    """The elements of `tensor` where `mask`, which covers the axes from `axis` on, holds, in order."""
    place, covered = _covered(tensor, mask.only(dtypes.BOOL), axis)
    if tensor.sizes is None or place is None:
        return Spec(tensor.dtype)
    covered_by = TensorShape(tensor.sizes[place : place + covered])
    if not covered_by.is_compatible_with(mask.shape):
        raise ValueError(f"a mask of shape {mask.shape} does not fit {tensor.shape} from axis {axis} on")
    return Spec(tensor.dtype, TensorShape((*tensor.sizes[:place], None, *tensor.sizes[place + covered :])))


def _covered(tensor: Spec, mask: Spec, axis: int) -> tuple[int | None, int]:
    if mask.rank == 0:
        raise ValueError("a mask of rank 1 or more is needed")
    return (None, 0) if tensor.rank is None or mask.rank is None else (tensor.axis(axis), mask.rank)


@_boolean_mask.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return _boolean_mask_grad(dy, *op.inputs, op.attrs["axis"]), None


_boolean_mask.moves = True


@_boolean_mask.kernel(CPU, fresh=True, binds=True)  # how many there are depends on values
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]
    return (lambda x, mask: x[_masked(axis, x.ndim, mask)]) if axis else lambda x, mask: x[mask]


def _masked(axis: int, rank: int, mask: Array) -> Any:
    return (*[slice(None)] * dtypes.normalise_axis(axis, rank), mask)


@op(name="boolean_mask_grad")
def _boolean_mask_grad(dy: Spec, tensor: Spec, mask: Spec, axis: int) -> Spec:
    """Zeros in the shape of `tensor`, with `dy` where `mask` holds: the gradient of `boolean_mask`."""
    return Spec(dy.dtype, tensor.shape)


@_boolean_mask_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _boolean_mask(dy, op.inputs[2], op.attrs["axis"]), None, None


@_boolean_mask_grad.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]

    def placed(dy: Array, tensor: Array, mask: Array) -> Array:
        result = xp.zeros(tensor.shape, dy.dtype)
        result[_masked(axis, tensor.ndim, mask)] = dy
        return result

    return placed


@transactional
def boolean_mask(tensor: TensorLike, mask: TensorLike, name: str | None = None, axis: int | None = None) -> Tensor:
    """The elements of `tensor` where `mask`, which covers the axes from `axis` on (by default 0), holds, in order."""
    return _boolean_mask(tensor, mask, axis or 0, name=name)


@op(name="sequence_mask")
def _sequence_mask(lengths: Indices, maxlen: Ints, dtype: DType) -> Spec:
    """Row i begins with `lengths[i]` ones, and zeros follow; a negative `maxlen` is the greatest length."""
    known.integers(lengths, "lengths")
    count = known.scalar(maxlen, "maxlen")
    width = None if count is None or count < 0 else count
    return Spec(dtype, lengths.shape.concatenate([width]))


@_sequence_mask.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    lengths, most = inputs[0], int(inputs[1])
    return int(lengths.size) * int(attrs["dtype"].size) * (most if most >= 0 else int(lengths.max(initial=0)))


_sequence_mask.no_gradient("lengths are integers")


@_sequence_mask.kernel(CPU, fresh=True, binds=True)  # how wide it is may depend on values
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def mask(lengths: Array, maxlen: Array) -> Array:
        count = int(maxlen)
        if count < 0:
            count = max(int(lengths.max()), 0) if lengths.size else 0
        return (xp.arange(count) < lengths[..., None]).astype(dtype, copy=False)

    return mask


@transactional
def sequence_mask(
    lengths: NumberLike, maxlen: NumberLike | None = None, dtype: DTypeLike = dtypes.bool_, name: str | None = None
) -> Tensor:
    """Whether each of the places 0 to `maxlen` - 1 lies within each length: shape `[*lengths.shape, maxlen]`.

    `maxlen` is by default the greatest length.
    """
    return _sequence_mask(lengths, -1 if maxlen is None else maxlen, dtype, name=name)


costs(_boolean_mask, 2.0)
OPERATORS["boolean_mask"] = boolean_mask
