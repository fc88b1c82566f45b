"""Assigns parts of variables: `variable[1:3, 0].assign(value)`."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.building import graph_to_build_in, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import METHODS, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.slicing import apply, filled, lookup
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState
from aioflow.tensors.dtypes import Array, Spec

_SLICES: Final = "strided_slice", "dynamic_strided_slice"


@op(stateful=True)
def assign_slice_variable(handle: Spec, value: Spec, data: Sequence[Ints], index: Any) -> Spec:
    """The variable holds `value` at an index, in which `data` stand for "?"; the result is its whole new value.

    The value has the shape of that part, or is one number for all of it.
    """
    item = held(handle).same_dtype(value)
    part = apply(filled(index, [known.scalar(spec, "an index") for spec in data]), Spec(item.dtype, item.shape))
    if value.rank != 0:
        part.shape.merge_with(value.shape)
    return Spec(item.dtype, item.shape)


assign_slice_variable.no_gradient("it changes state")


@assign_slice_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState, value: Array, data: Sequence[Array], *, node: NodeView) -> Array:
    ctx.step.check()
    place = lookup(node.attrs["index"])(data)

    def put(present: Array) -> None:
        part = getattr(present[place], "shape", ())
        if value.shape not in ((), part):
            raise errors.InvalidArgumentError(
                f"a value of shape {list(value.shape)} is assigned to a part of {state.name!r} of shape {list(part)}"
            )
        present[place] = value[()] if value.shape == () else value

    return state.change(put, ctx.step.journal)


@transactional
def assign(tensor: Tensor, value: TensorLike, name: str | None) -> Tensor:
    """See `Tensor.assign`."""
    read = tensor.op.inputs[0].op if tensor.op.type in _SLICES else tensor.op
    if read is tensor.op or read.type != "read_variable":
        raise ValueError(f"{tensor!r} cannot be assigned: it is no part of a variable, as variable[1:3] is")
    handle, data, index = read.inputs[0], tensor.op.inputs[1:], tensor.op.attrs["index"]
    graph = graph_to_build_in(tensor.graph)
    with graph.as_default(), graph.colocate_with(handle, ignore_existing=True):
        return assign_slice_variable(handle, convert_to_tensor(value, tensor.dtype), data, index, name=name)


METHODS["assign"] = assign
