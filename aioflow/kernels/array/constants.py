"""Values that come from outside a run or pass through it: constants, placeholders, identities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import CONVERTERS, TensorLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.context import Context
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import (
    Array,
    DeviceKind,
    DType,
    DTypeLike,
    Namespace,
    ShapeLike,
    Spec,
    TensorShape,
    as_dtype,
    as_shape,
)

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU

_LARGEST_KNOWN = 64


@op(name="constant")
def _constant(value: Any) -> Spec:
    """A value that is part of the graph."""
    return Spec(as_dtype(value.dtype), TensorShape(value.shape), _known(value))


_constant.no_gradient("a constant depends on nothing")


@_constant.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Any:
    value = xp.asarray(node.attrs["value"]) if node.output_specs[0].dtype is not dtypes.string else node.attrs["value"]
    return lambda: value


def _known(value: AnyArray) -> dtypes.Known:
    if value.dtype.kind not in "iu" or value.ndim > 1 or value.size > _LARGEST_KNOWN:
        return None
    return int(value) if value.ndim == 0 else tuple(value.tolist())


@transactional
def constant(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike = None,
    name: str | None = None,
    verify_shape: bool = False,
) -> Tensor:
    """A tensor whose value is part of the graph.

    Args:
        value: a number, text, an array, or nested lists of these. The array is copied.
        dtype: by default float32, int32, bool, complex128 or string for Python's values, an array's own else.
        shape: the shape; a value with fewer elements fills it by repeating its last.
        name: the name of the operation.
        verify_shape: whether a value of another shape is an error instead.

    Raises:
        TypeError: the dtype cannot hold the value.
        ValueError: the value is ragged, or has more elements than the shape.
    """
    array = as_array(value, None if dtype is None else as_dtype(dtype), strict=True)
    if shape is not None:
        array = _filled(array, as_shape(shape), verify_shape)
    array = np.array(array, copy=True, order="C")
    array.flags.writeable = False
    return _constant(array, name=name)


def _filled(array: AnyArray, shape: TensorShape, verify: bool) -> AnyArray:
    count = shape.num_elements()
    if count is None:
        raise ValueError(f"the shape of a constant must be known, not {shape}")
    if shape.sizes == array.shape:
        return array
    if verify or array.size > count or (array.size == 0 and count):
        raise ValueError(f"a value of shape {list(array.shape)} does not have shape {shape}")
    flat = array.ravel()
    padding = np.repeat(flat[-1:], count - array.size)
    return np.concatenate([flat, padding]).reshape(shape.as_list())  # type: ignore[arg-type]


OPERATORS["constant"] = constant
CONVERTERS[object] = lambda value, dtype: constant(value, dtype)
CONVERTERS[TensorShape] = CONVERTERS[dtypes.Dimension] = lambda value, dtype: constant(value, dtype)


@op(name="placeholder")
def _placeholder(dtype: DType, shape: TensorShape) -> Spec:
    """A value that every run must be fed."""
    return Spec(dtype, TensorShape(shape))


_placeholder.no_gradient("a placeholder depends on nothing")


@_placeholder.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Any:
    def missing() -> Array:
        raise missing_feed(node)

    return missing


def missing_feed(node: NodeView) -> errors.InvalidArgumentError:
    """The error of a run that was not fed a placeholder it needs."""
    return errors.InvalidArgumentError(
        f"placeholder {node.name!r} must be fed a value of {node.output_specs[0]}: pass feeds={{{node.name}: ...}}"
    )


def placeholder(dtype: DTypeLike, shape: ShapeLike = None, name: str | None = None) -> Tensor:
    """A tensor that every run which needs it must be fed; its shape may be open in part or whole."""
    return _placeholder(dtype, shape, name=name)


@op(stateful=True)
def feed(dtype: DType, shape: TensorShape, index: int) -> Spec:
    """A value that the caller feeds for one run; plans put it in the place of a fed tensor."""
    return Spec(dtype, TensorShape(shape))


feed.no_gradient("plans alone contain it")


@feed.kernel(CPU, GPU)
async def _(ctx: Context, *, index: int) -> Array:
    return await ctx.step.fed(index)


@op
def placeholder_with_default(input: Spec, shape: TensorShape) -> Spec:
    """`input`, unless a run feeds another value of a shape compatible with `shape`."""
    if not input.shape.is_compatible_with(shape):
        raise ValueError(f"the default has shape {input.shape}, which is not compatible with {shape}")
    return Spec(input.dtype, TensorShape(shape))


@placeholder_with_default.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


@op
def identity(input: Spec) -> Spec:
    """`input` unchanged."""
    return input


@identity.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


@op
def stop_gradient(input: Spec) -> Spec:
    """`input` unchanged, as a constant to the gradient."""
    return input


stop_gradient.no_gradient("stopping it is its purpose")


@op
def prevent_gradient(input: Spec, message: str = "") -> Spec:
    """`input` unchanged; building a gradient through it raises LookupError with `message`."""
    return input


@prevent_gradient.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    message = op.attrs["message"]
    raise LookupError(f"the gradient through {op.name!r} is prevented" + (f": {message}" if message else ""))


for _op in (placeholder_with_default, identity, stop_gradient, prevent_gradient):
    _op.kernel(CPU, GPU)(lambda xp, x: x)


@op
def no_op() -> None:
    """Nothing: a place for control inputs to meet."""


no_op.no_gradient("it has no inputs")
no_op.kernel(CPU, GPU)(lambda xp: None)


@op(name="identity_n")
def _identity_n(input: Sequence[Spec]) -> tuple[Spec, ...]:
    """All inputs unchanged, each available only when all are."""
    return tuple(input)


@_identity_n.gradient
def _(op: Operation, *dy: Tensor) -> Sequence[Tensor]:
    return dy


_identity_n.kernel(CPU, GPU)(lambda xp, values: tuple(values) if len(values) > 1 else values[0])


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """All inputs unchanged in a list, each available only when all are."""
    return list(_identity_n(input, name=name))
