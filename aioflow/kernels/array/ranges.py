"""Numbers in a row, and indices as rows with a one in their place."""

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.constants import constant
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array, DType, DTypeLike, Namespace, Spec, TensorShape, as_dtype, float32
from aioflow.tensors.object_arrays import make_array, take_elements

Function = Callable[..., Any]

_RISING: Final = (dtypes.int32, dtypes.int64, dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)
"""The dtypes of ranges, each of which holds those before it, more or less."""
_LARGEST_CONSTANT: Final = 1 << 12


@op(name="range")
def _range(start: T, limit: T, delta: T) -> Spec:
    """`start`, `start + delta` and so on, up to but without `limit`."""
    start.only(dtypes.INTEGER, dtypes.FLOAT).same_dtype(limit, delta)
    for spec in (start, limit, delta):
        if spec.rank not in (None, 0):
            raise ValueError(f"start, limit and delta are scalars, and one has shape {spec.shape}")
    bounds = [spec.known for spec in (start, limit, delta)]
    if not start.dtype.is_integer or None in bounds:
        return Spec(start.dtype, TensorShape.vector(None))
    counted = builtins.range(*_checked(*bounds))
    return Spec(start.dtype, TensorShape.vector(len(counted)), None if len(counted) > known.LARGEST else tuple(counted))


def _checked(start: Any, limit: Any, delta: Any) -> tuple[Any, Any, Any]:
    if delta == 0:
        raise ValueError("delta cannot be 0")
    if (limit - start) * delta < 0:
        raise ValueError(f"a step of {delta} does not lead from {start} to {limit}")
    return start, limit, delta


def _count_between(start: float, limit: float, delta: float) -> float:
    """The number of elements from start to limit."""
    return abs((limit - start) / delta) + 1


@_range.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    start, limit, delta = _checked(*[value.item() for value in inputs])
    count = _count_between(start, limit, delta)
    if not math.isfinite(count):
        raise ValueError(f"a range from {start} to {limit} by {delta} has no finite length")
    return int(count * inputs[0].dtype.itemsize)


_range.no_gradient("its length depends on its inputs")


_range.on_host("start", "limit", "delta")


@_range.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype
    if dtype.is_floating:
        return lambda *bounds: xp.arange(*_checked(*map(float, bounds))).astype(dtype.np, copy=False)
    return lambda *bounds: xp.arange(*_checked(*map(int, bounds)), dtype=dtype.np)


@transactional
def range(
    start: NumberLike,
    limit: NumberLike | None = None,
    delta: NumberLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`start`, `start + delta` and so on, up to but without `limit`; `range(n)` counts from 0.

    The dtype is the highest of the arguments' (int32, int64, float32, float64) unless one is given.

    Raises:
        ValueError: delta is 0, or leads away from `limit`.

    Examples:
        >>> await session.run(af.range(2, 10, 3))
        array([2, 5, 8], dtype=int32)
    """
    start, limit = (0, start) if limit is None else (start, limit)
    wanted = _common_dtype([start, limit, delta]) if dtype is None else as_dtype(dtype)
    bounds = [_as(value, wanted) for value in (start, limit, delta)]
    values = [constant_value(bound) for bound in bounds]
    if not wanted.is_integer and all(value is not None and value.ndim == 0 for value in values):
        first, last, step = _checked(*map(float, values))
        if _count_between(first, last, step) <= _LARGEST_CONSTANT:
            return constant(np.arange(first, last, step, dtype=np.float64).astype(wanted.np), name=name)
    return _range(*bounds, name=name)


def _common_dtype(values: Iterable[Any]) -> DType:
    found = [_dtype_of(value) for value in values]
    stray = next((dtype for dtype in found if dtype not in _RISING), None)
    if stray is not None:
        raise TypeError(f"range: dtype {stray.name} is not supported; use one of {', '.join(d.name for d in _RISING)}")
    return max(found, key=_RISING.index)


def _dtype_of(value: Any) -> DType:
    """The dtype a value has as a tensor, without making it one."""
    found = getattr(value, "dtype", None)
    return found if isinstance(found, DType) else as_dtype(as_array(value).dtype)


def _as(value: Any, dtype: DType) -> Tensor:
    if isinstance(getattr(value, "dtype", None), DType):
        return OPERATORS["cast"](value, dtype)
    return convert_to_tensor(value, dtype)


@op
def linspace(start: T, stop: T, num: Ints) -> Spec:
    """`num` numbers at equal distances, the first of which is `start` and the last `stop`.

    Examples:
        >>> await session.run(af.linspace(0.0, 1.0, 5))
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    start.only(dtypes.FLOAT).same_dtype(stop)
    for spec in (start, stop):
        if spec.rank not in (None, 0):
            raise ValueError(f"start and stop are scalars, and one has shape {spec.shape}")
    count = known.scalar(num, "num")
    if count is not None and count < 1:
        raise ValueError(f"num must be 1 or more, not {count}")
    return Spec(start.dtype, TensorShape.vector(count))


@linspace.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor, None]:
    weights = linspace(constant(0.0, dy.dtype), constant(1.0, dy.dtype), op.inputs[2])
    last = OPERATORS["reduce_sum"](dy * weights)
    return OPERATORS["reduce_sum"](dy) - last, last, None


linspace.on_host("start", "stop")


@linspace.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def spaced(start: Array, stop: Array, num: Array) -> Array:
        count = int(num)
        if count < 1:
            raise ValueError(f"num must be 1 or more, not {count}")
        return xp.linspace(float(start), float(stop), count).astype(dtype, copy=False)

    return spaced


@op(name="one_hot")
def _one_hot(indices: Indices, depth: Ints, on_value: T, off_value: T, axis: int = -1) -> Spec:
    """`on_value` where the place along the new axis of size `depth` is the index, `off_value` elsewhere."""
    known.integers(indices, "indices")
    on_value.same_dtype(off_value)
    for spec in (on_value, off_value):
        if spec.rank not in (None, 0):
            raise ValueError(f"on_value and off_value are scalars, and one has shape {spec.shape}")
    count = known.scalar(depth, "depth")
    if count is not None:
        _depth(count)
    if indices.sizes is None:
        return Spec(on_value.dtype)
    place = dtypes.normalise_axis(axis, len(indices.sizes) + 1)
    return Spec(on_value.dtype, TensorShape((*indices.sizes[:place], count, *indices.sizes[place:])))


def _depth(count: int) -> int:
    if count < 0:
        raise ValueError(f"depth cannot be negative: {count}")
    return count


@_one_hot.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    indices, depth, on, _ = op.inputs
    if not on.dtype.is_differentiable:
        return None, None, None, None
    chosen = OPERATORS["reduce_sum"](dy * one_hot(indices, depth, axis=op.attrs["axis"], dtype=dy.dtype))
    return None, None, chosen, OPERATORS["reduce_sum"](dy) - chosen


@_one_hot.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, dtype = node.attrs["axis"], node.output_specs[0].dtype.np
    depth, on, off = [known.constant(node, place) for place in (1, 2, 3)]
    kept = depth is not None and depth <= _LARGEST_CONSTANT
    row = xp.arange(depth, dtype=node.input_specs[0].dtype.np if depth < 128 else None) if kept else None
    every = slice(None)
    index = (..., None, *[every] * (-axis - 1)) if axis < 0 else (*[every] * axis, None)

    def hot(indices: Array, depth: Array, on: Array, off: Array) -> Array:
        new = indices[index]
        after = -axis - 1 if axis < 0 else new.ndim - axis - 1
        places = xp.arange(_depth(int(depth))) if row is None else row
        return new == (places.reshape((-1,) + (1,) * after) if after else places)

    if (on, off) == (1, 0):
        return lambda *inputs: hot(*inputs).astype(dtype)
    if dtype.hasobject:
        return lambda *inputs: take_elements(make_array([inputs[3], inputs[2]]), hot(*inputs).astype(np.intp))
    return lambda *inputs: xp.where(hot(*inputs), *inputs[2:])


@transactional
@dispatching
def one_hot(
    indices: NumberLike,
    depth: NumberLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`on_value` (by default 1) where the place along a new axis of size `depth` is the index, else `off_value` (0).

    An index outside has `off_value` everywhere. The new axis is the last, or `axis`. The dtype is that of the values,
    by default float32.

    Raises:
        TypeError: the values have another dtype than `dtype`, or differ.

    Examples:
        >>> await session.run(af.one_hot([0, 2], 3))
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    given = [value for value in (on_value, off_value) if value is not None]
    tensors = [value for value in given if isinstance(getattr(value, "dtype", None), DType)]
    inferred = _dtype_of((tensors or given)[0]) if given else float32
    wanted = inferred if dtype is None else as_dtype(dtype)
    on = convert_to_tensor(1 if on_value is None else on_value, wanted)
    off = convert_to_tensor(0 if off_value is None else off_value, wanted)
    return _one_hot(indices, depth, on, off, -1 if axis is None else axis, name=name)


OPERATORS.update(range=range, one_hot=one_hot)
