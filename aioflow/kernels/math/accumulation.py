"""Sums of many tensors, polynomials, and running log-sum-exp."""

import math
from collections.abc import Callable, Sequence

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.array.fill import zeros_like
from aioflow.kernels.array.select import masked
from aioflow.kernels.families import CPU, NARROW, SLOW, costs
from aioflow.kernels.math.arithmetic import add, add_n
from aioflow.kernels.math.cumulative import _shift as shifted
from aioflow.kernels.math.cumulative import recurrence
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.rounding import is_finite
from aioflow.tensors.dtypes import FLOAT, Array, DTypeLike, Namespace, ShapeLike, Spec, as_dtype, as_shape


@transactional
def accumulate_n(
    inputs: Sequence[NumberLike],
    shape: ShapeLike = None,
    tensor_dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The sum of all inputs, which must have one shape; the result's shape combines the known parts with `shape`.

    Raises:
        ValueError: `inputs` is empty, or the shapes differ.
        TypeError: the dtypes differ from each other or from `tensor_dtype`.
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("accumulate_n: a list of at least one tensor is needed")
    dtype = None if tensor_dtype is None else as_dtype(tensor_dtype)
    tensors = [convert_to_tensor(value, dtype) for value in inputs]
    if len(tensors) == 1:
        result = tensors[0] if name is None and shape is None else identity(tensors[0], name=name)
    else:
        result = add_n(tensors, name=name or "accumulate_n")
    if shape is not None:
        result.set_shape(as_shape(shape))
    return result


@transactional
def polyval(coeffs: Sequence[NumberLike], x: NumberLike, name: str | None = None) -> Tensor:
    """The polynomial of these coefficients, the highest power first, at every element of x; 0 without coefficients.

    The coefficients are numbers or tensors that broadcast with x.
    """
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"polyval: coeffs must be a list, not {type(coeffs).__name__}")
    value = convert_to_tensor(x)
    if not coeffs:
        return zeros_like(value, name=name or "polyval")
    numbers = [convert_to_tensor(number, value.dtype) for number in coeffs]
    result = numbers[0]
    for number in numbers[1:-1]:
        result = result * value + number
    if len(numbers) == 1:
        return add(zeros_like(value), result, name=name or "polyval")
    return add(result * value, numbers[-1], name=name or "polyval")


@op
def cumulative_logsumexp(x: Spec, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Spec:
    """The running log(sum(exp(x))) along an axis, without overflow: element i is that of all up to i.

    Without i itself if `exclusive`, so that the first one is -inf; counted from the end if `reverse`. On the CPU alone.
    """
    if x.rank == 0:
        raise ValueError("a scalar has no axis")
    x.axis(axis)
    return x.only(FLOAT)


@cumulative_logsumexp.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    """dx[i] = exp(x[i] - y[i]) s[i] with s[i] = dy[i] + exp(y[i] - y[i+1]) s[i+1]: no factor is above 1."""
    x, (axis, reverse) = op.inputs[0], (op.attrs["axis"], op.attrs["reverse"])
    y = op.outputs[0]
    if op.attrs["exclusive"]:
        y, dy = cumulative_logsumexp(x, axis, False, reverse), shifted(dy, axis, not reverse)
    following = shifted(y, axis, not reverse)
    kept = _share(y, following)
    return _share(x, y) * recurrence(kept, dy, axis, not reverse)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole), 0 where `part` is the logarithm of 0."""
    some = is_finite(part)
    return masked(exp(masked(part, some) - masked(whole, some)), some)


@cumulative_logsumexp.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype = node.output_specs[0].dtype
    axis, exclusive, reverse = (node.attrs[name] for name in ("axis", "exclusive", "reverse"))
    wide = xp.float32 if dtype in NARROW else dtype.np

    def running(x: Array) -> Array:
        moved = xp.moveaxis(x, axis, 0)
        moved = (moved[::-1] if reverse else moved).astype(wide, copy=False)
        result = xp.full(moved.shape, -math.inf, dtype.np)
        if exclusive:
            result[1:] = xp.logaddexp.accumulate(moved[:-1], axis=0)
        else:
            result[...] = xp.logaddexp.accumulate(moved, axis=0)
        return xp.moveaxis(result[::-1] if reverse else result, 0, axis)

    return running


costs(cumulative_logsumexp, 2 * SLOW)
