"""Constants, placeholders and identities, and tensors filled by shape: zeros, ones, `fill`, `eye`."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import CONVERTERS, NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.shapes import broadcast_to, reshape
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU, keeps_zeros
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import (
    Array,
    DType,
    DTypeLike,
    ListSpec,
    Namespace,
    ShapeLike,
    Spec,
    TensorShape,
    as_dtype,
    as_shape,
    float32,
    int32,
)
from aioflow.tensors.fixed_memory import is_fixed
from aioflow.tensors.object_arrays import full_array

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
        value: a number, text, an array, or nested lists of these. The array is copied, unless it is fixed.
        dtype: by default float32, int32, bool, complex128 or string for Python's values, an array's own else.
        shape: the shape; a value with fewer elements fills it by repeating its last.
        name: the name of the operation.
        verify_shape: whether a value of another shape is an error instead.

    Raises:
        TypeError: the dtype cannot hold the value.
        ValueError: the value is ragged, or has more elements than the shape.

    Examples:
        >>> await session.run(af.constant([[1, 2], [3, 4]], af.float32))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    array = as_array(value, None if dtype is None else as_dtype(dtype), strict=True)
    if shape is not None:
        array = _filled(array, as_shape(shape), verify_shape)
    return _constant(array if is_fixed(array) else _read_only_copy(array), name=name)


def _read_only_copy(array: AnyArray) -> AnyArray:
    copied = np.array(array, copy=True, order="C")
    copied.flags.writeable = False
    return copied


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
def _placeholder(dtype: DType, shape: TensorShape, is_list: bool = False) -> Spec:
    """A value that every run must be fed: a tensor, or a list of tensors of that dtype and shape."""
    spec = Spec(dtype, TensorShape(shape))
    return ListSpec.record(spec) if is_list else spec


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
    """A tensor that every run which needs it must be fed; its shape may be open in part or whole.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> await session.run(2 * x, {x: [1, 2]})
        array([2., 4.], dtype=float32)
    """
    return _placeholder(dtype, shape, name=name)


def list_placeholder(dtype: DTypeLike, shape: ShapeLike = None, name: str | None = None) -> Tensor:
    """A list of tensors that every run which needs it must be fed; a run sets its length."""
    return _placeholder(dtype, shape, is_list=True, name=name)


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
    """`input`, unless a run feeds another value of a shape compatible with `shape`.

    Examples:
        >>> rate = af.placeholder_with_default(0.1, [])
        >>> await session.run(rate), await session.run(rate, {rate: 0.5})
        (np.float32(0.1), np.float32(0.5))
    """
    if not input.shape.is_compatible_with(shape):
        raise ValueError(f"the default has shape {input.shape}, which is not compatible with {shape}")
    return Spec(input.dtype, TensorShape(shape))


@placeholder_with_default.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


@op
def identity(input: Spec) -> Spec:
    """`input` unchanged.

    Examples:
        >>> await session.run(af.identity([1, 2]))
        array([1, 2], dtype=int32)
    """
    return input


keeps_zeros(identity)


@identity.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


@op
def stop_gradient(input: Spec) -> Spec:
    """`input` unchanged, as a constant to the gradient.

    Examples:
        >>> await session.run(af.stop_gradient([1.0, 2.0]))
        array([1., 2.], dtype=float32)
    """
    return input


stop_gradient.no_gradient("stopping it is its purpose")


@op
def prevent_gradient(input: Spec, message: str = "") -> Spec:
    """`input` unchanged; building a gradient through it raises LookupError with `message`.

    Examples:
        >>> await session.run(af.prevent_gradient([1.0]))
        array([1.], dtype=float32)
    """
    return input


@prevent_gradient.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    message = op.attrs["message"]
    raise LookupError(f"the gradient through {op.name!r} is prevented" + (f": {message}" if message else ""))


for _op in (placeholder_with_default, identity, stop_gradient, prevent_gradient):
    _op.kernel(CPU, GPU, scalar="{0}")(lambda xp, x: x)


@op
def no_op() -> None:
    """Nothing: a place for control inputs to meet.

    Examples:
        >>> await session.run(af.no_op())
    """


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
    """All inputs unchanged in a list, each available only when all are.

    Examples:
        >>> await session.run(af.identity_n([1, [2.0, 3.0]]))
        [np.int32(1), array([2., 3.], dtype=float32)]
    """
    return list(_identity_n(input, name=name))


Function = Callable[..., Any]

_LARGEST_CONSTANT: Final = 1 << 16
"""Elements up to which zeros and ones of known shape are kept in the graph; more are made by each run or folded."""


@op
def fill(dims: Ints, value: Spec) -> Spec:
    """A tensor of shape `dims` in which every element is `value`, a scalar.

    Examples:
        >>> await session.run(af.fill([2, 3], 7))
        array([[7, 7, 7],
               [7, 7, 7]], dtype=int32)
    """
    whole = known.shape(dims, "dims")
    if value.rank not in (None, 0):
        raise ValueError(f"the value must be a scalar, its shape is {value.shape}")
    count = whole.num_elements() if whole.ndims == 1 else None
    repeats = count is not None and count <= known.LARGEST and isinstance(value.known, int)
    return Spec(value.dtype, whole, (value.known,) * count if repeats else None)  # type: ignore[operator, arg-type]


@fill.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, Tensor]:
    return None, OPERATORS["reduce_sum"](dy)


@fill.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    sizes, dtype = known.constant(node, 0), node.output_specs[0].dtype.np

    if dtype.hasobject:
        return lambda dims, value: full_array(dims.tolist() if sizes is None else sizes, value)

    def full(dims: Array, value: Array) -> Array:
        result = xp.empty(dims.tolist() if sizes is None else sizes, dtype)
        result[...] = value
        return result

    return full


def _alike(name: str, number: int) -> Op[Tensor]:
    """The op that has one number for each element of its input, whose shape alone it needs."""

    def rule(tensor: Spec, dtype: DType | None = None) -> Spec:
        wanted = tensor.dtype if dtype is None else as_dtype(dtype)
        if wanted is dtypes.resource or (number and wanted is dtypes.string):
            raise TypeError(f"{wanted.name} has no {number}")
        return Spec(wanted, tensor.shape)

    rule.__doc__ = f"A {number} for each element of `tensor`, in its shape; of another dtype if one is given."
    made: Op[Tensor] = op(name=name)(rule)
    made.no_gradient("it does not depend on the values of the elements")

    @made.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        dtype = node.output_specs[0].dtype.np
        if dtype.hasobject:
            return lambda x: full_array(x.shape, b"")
        make = xp.ones if number else xp.zeros
        return lambda x: make(x.shape, dtype)

    return made


_zeros_like, _ones_like = _alike("zeros_like", 0), _alike("ones_like", 1)


@transactional
@dispatching
def zeros_like(
    tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Zeros in the shape of `tensor`; False for bool, the empty text for strings.

    With `optimize`, a constant if the shape is known and not large.

    Examples:
        >>> await session.run(af.zeros_like([[1, 2], [3, 4]]))
        array([[0, 0],
               [0, 0]], dtype=int32)
    """
    return _like(_zeros_like, 0, convert_to_tensor(tensor), dtype, name, optimize)


@transactional
@dispatching
def ones_like(
    tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Ones in the shape of `tensor`; True for bool. With `optimize`, a constant if the shape is known and not large.

    Examples:
        >>> await session.run(af.ones_like([[1, 2], [3, 4]]))
        array([[1, 1],
               [1, 1]], dtype=int32)
    """
    return _like(_ones_like, 1, convert_to_tensor(tensor), dtype, name, optimize)


def _like(made: Op[Tensor], number: int, tensor: Tensor, dtype: Any, name: str | None, optimize: bool) -> Tensor:
    count = tensor.shape.num_elements()
    if not optimize or count is None or count > _LARGEST_CONSTANT or tensor.dtype is dtypes.resource:
        return made(tensor, None if dtype is None else as_dtype(dtype), name=name)
    return _full(tensor.shape.as_list(), number, tensor.dtype if dtype is None else as_dtype(dtype), name)


@transactional
def zeros(shape: NumberLike, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """Zeros of that shape; False for bool, the empty text for strings.

    Examples:
        >>> await session.run(af.zeros([2], af.int32))
        array([0, 0], dtype=int32)
    """
    return _full(shape, 0, as_dtype(dtype), name)


@transactional
def ones(shape: NumberLike, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """Ones of that shape; True for bool. TypeError for strings.

    Examples:
        >>> await session.run(af.ones([2, 2], af.int32))
        array([[1, 1],
               [1, 1]], dtype=int32)
    """
    return _full(shape, 1, as_dtype(dtype), name)


def _full(shape: Any, number: int, dtype: DType, name: str | None) -> Tensor:
    whole, value = _static_shape(shape), _number(number, dtype)
    if whole is not None and not whole.is_fully_defined():
        raise ValueError(f"shape {whole} is not fully defined: take open sizes from af.shape(x), not from x.shape")
    count = None if whole is None else whole.num_elements()
    if whole is None or count is None or count > _LARGEST_CONSTANT:
        dims = convert_to_tensor(shape, preferred_dtype=int32)
        return fill(reshape(dims, [-1]) if dims.spec.rank == 0 else dims, constant(value, dtype), name=name)
    return constant(np.full(whole.as_list(), value, dtype.np), dtype, name=name)


def _static_shape(shape: Any) -> TensorShape | None:
    """The shape, if it is made of numbers alone."""
    if isinstance(shape, Tensor):
        value = constant_value(shape)
        return None if value is None else TensorShape(value.tolist())
    try:
        return TensorShape(shape)
    except (TypeError, AttributeError):  # a tensor is part of it
        return None


def _number(number: int, dtype: DType) -> Any:
    if dtype is dtypes.string and not number:
        return b""
    if dtype in (dtypes.string, dtypes.resource):
        raise TypeError(f"{dtype.name} has no {number}")
    return dtype.np.type(number)


@op(name="eye")
def _eye(num_rows: Ints, num_columns: Ints, dtype: DType) -> Spec:
    """A matrix with ones on its diagonal and zeros elsewhere."""
    sizes = (known.scalar(num_rows, "num_rows"), known.scalar(num_columns, "num_columns"))
    if any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"a matrix cannot have {sizes[0]} rows and {sizes[1]} columns")
    return Spec(dtype, TensorShape(sizes))


_eye.no_gradient("it depends on sizes alone")


@_eye.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, num_rows: Array, num_columns: Array, *, dtype: DType) -> Array:
    return xp.eye(int(num_rows), int(num_columns), dtype=dtype.np)


@transactional
def eye(
    num_rows: NumberLike,
    num_columns: NumberLike | None = None,
    batch_shape: NumberLike | None = None,
    dtype: DTypeLike = float32,
    name: str | None = None,
) -> Tensor:
    """A matrix with ones on its diagonal and zeros elsewhere, by default square; `batch_shape` puts axes in front.

    Examples:
        >>> await session.run(af.eye(2))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    rows = convert_to_tensor(num_rows, preferred_dtype=int32)
    columns = rows if num_columns is None else convert_to_tensor(num_columns, preferred_dtype=int32)
    matrix = _eye(rows, columns, dtype, name=name if batch_shape is None else None)
    if batch_shape is None:
        return matrix
    batch = convert_to_tensor(batch_shape, preferred_dtype=int32)
    whole = OPERATORS["concat"]([batch, OPERATORS["cast"](OPERATORS["stack"]([rows, columns]), batch.dtype)], 0)
    return broadcast_to(matrix, whole, name=name)


OPERATORS.update(fill=fill, zeros=zeros, ones=ones, zeros_like=zeros_like, ones_like=ones_like)
