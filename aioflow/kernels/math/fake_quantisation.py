"""Numbers rounded to the steps that an integer of few bits has within limits: networks train on what will be stored.

The steps divide the range from `min` to `max` evenly, and the range is moved by less than a step so that 0 is one of
them. The gradient is that of clipping: rounding is taken for the identity.
"""

from collections.abc import Callable

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import select
from aioflow.kernels.families import CPU, GPU, sum_to_operand
from aioflow.kernels.math.comparison import greater, less, logical_or
from aioflow.tensors.dtypes import Array, Namespace, Spec, float32, float64

_REAL = frozenset((float32, float64))
BITS = range(2, 17)
"""The numbers of bits that stored integers may have."""


@op
def fake_quant(inputs: T, min: T, max: T, num_bits: int = 8, narrow_range: bool = False) -> Spec:
    """`inputs` rounded to the 2 ** num_bits steps from `min` to `max`, one less if `narrow_range`.

    `min` and `max` are numbers, or vectors with one for each place of the last axis.
    """
    _check(inputs, min, max, num_bits)
    return inputs


@op
def fake_quant_limits(min: T, max: T, num_bits: int = 8, narrow_range: bool = False) -> tuple[Spec, Spec]:
    """The least and the greatest step of `fake_quant`: `min` and `max`, moved so that 0 is a step."""
    _check(min, min, max, num_bits)
    return min, min


def _check(inputs: Spec, low: Spec, high: Spec, bits: int) -> None:
    inputs.only(_REAL).same_dtype(low, high)
    if bits not in BITS:
        raise ValueError(f"num_bits is from {BITS.start} to {BITS.stop - 1}, not {bits}")
    if not low.shape.is_compatible_with(high.shape):
        raise ValueError(f"min of shape {low.shape} and max of shape {high.shape} differ")
    if low.rank in (0, None) or inputs.rank is None:
        return
    low.with_rank(1, "min")
    if inputs.rank == 0 or not low.shape.is_compatible_with(inputs.shape[-1:]):
        raise ValueError(f"limits of shape {low.shape} do not fit the last axis of inputs of shape {inputs.shape}")


@fake_quant.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    return _gradients(dy, *op.inputs, op.attrs["num_bits"], op.attrs["narrow_range"])


fake_quant_limits.no_gradient("it is moved by whole steps, which the limits shift only as one")


def _gradients(
    dy: Tensor, x: Tensor, low: Tensor, high: Tensor, num_bits: int, narrow_range: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradient of elements between the limits, and the sums of the others: below them, and above them."""
    least, greatest = fake_quant_limits(low, high, num_bits, narrow_range)
    below, above, nothing = less(x, least), greater(x, greatest), zeros_like(dy)
    return (
        select(logical_or(below, above), nothing, dy),
        sum_to_operand(low, select(below, dy, nothing)),
        sum_to_operand(high, select(above, dy, nothing)),
    )


@fake_quant.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    bits, narrow = node.attrs["num_bits"], node.attrs["narrow_range"]

    def rounded(x: Array, low: Array, high: Array) -> Array:
        least, greatest, step = _limits(xp, low, high, bits, narrow)
        y = xp.clip(x, least, greatest)
        y -= least
        with np.errstate(divide="ignore", invalid="ignore"):
            y *= 1 / step
            y += x.dtype.type(0.5)
            y = xp.floor(y, out=y if y.ndim else None)
            return xp.where(step == 0, x.dtype.type(0), y * step + least)

    return rounded


@fake_quant_limits.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., tuple[Array, Array]]:
    bits, narrow = node.attrs["num_bits"], node.attrs["narrow_range"]
    return lambda low, high: _limits(xp, low, high, bits, narrow)[:2]


def _limits(xp: Namespace, low: Array, high: Array, bits: int, narrow: bool) -> tuple[Array, Array, Array]:
    """The least step, the greatest, and the distance of two. ValueError if the limits are out of order."""
    if (low > high).any():
        raise ValueError(f"min is above max: {low} and {high}")
    first, last = low.dtype.type(narrow), low.dtype.type(2**bits - 1)
    step = (high - low) / (last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = xp.where(step == 0, first, first - low / step)  # the step that stands for 0
    whole = xp.floor(zero)
    zero = xp.clip(whole + (zero - whole >= 0.5), first, last)
    return (first - zero) * step, (last - zero) * step, step


# For users


@transactional
def fake_quant_with_min_max_args(
    inputs: NumberLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """`inputs` rounded to the 2 ** num_bits steps from the number `min` to the number `max`, and clipped to these.

    With `narrow_range` there is one step less. ValueError unless `min` is below `max`.

    Examples:
        >>> await session.run(af.quantization.fake_quant_with_min_max_args([0.3, 2.2, 9.0], 0, 3, num_bits=2))
        array([0., 2., 3.], dtype=float32)
    """
    x = convert_to_tensor(inputs)
    return fake_quant(x, *_numbers(x, min, max), num_bits, narrow_range, name=name)


@transactional
def fake_quant_with_min_max_args_gradient(
    gradients: NumberLike,
    inputs: NumberLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """`gradients` where `inputs` lie between the limits of `fake_quant_with_min_max_args`, 0 elsewhere.

    Examples:
        >>> await session.run(af.quantization.fake_quant_with_min_max_args_gradient([5.0, 5.0], [1.0, 9.0]))
        array([5., 0.], dtype=float32)
    """
    x = convert_to_tensor(inputs)
    return _of_vars(gradients, x, *_numbers(x, min, max), num_bits, narrow_range)[0]


def _numbers(x: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    if not low < high:
        raise ValueError(f"min must be below max, not {low} and {high}")
    return convert_to_tensor(low, x.dtype), convert_to_tensor(high, x.dtype)


@transactional
def fake_quant_with_min_max_vars(
    inputs: NumberLike,
    min: NumberLike,
    max: NumberLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """`inputs` rounded to the 2 ** num_bits steps from `min` to `max`, which are scalars, and clipped to these.

    With `narrow_range` there is one step less. The limits are moved by less than a step, so that 0 is one; all of
    `inputs` become 0 where the limits are equal. The gradient of an element outside the limits goes to its limit.

    Raises:
        InvalidArgumentError: in the run, if `min` is above `max`.

    Examples:
        >>> await session.run(af.quantization.fake_quant_with_min_max_vars([0.3, 2.2, 9.0], 0.0, 3.0, num_bits=2))
        array([0., 2., 3.], dtype=float32)
    """
    x, low, high = _operands(inputs, min, max, 0)
    return fake_quant(x, low, high, num_bits, narrow_range, name=name)


@transactional
def fake_quant_with_min_max_vars_gradient(
    gradients: NumberLike,
    inputs: NumberLike,
    min: NumberLike,
    max: NumberLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `fake_quant_with_min_max_vars` with respect to `inputs`, `min` and `max`.

    Examples:
        >>> await session.run(af.quantization.fake_quant_with_min_max_vars_gradient([5.0, 7.0], [1.0, 9.0], -6.0, 6.0))
        (array([5., 0.], dtype=float32), 0.0, 7.0)
    """
    return _of_vars(gradients, *_operands(inputs, min, max, 0), num_bits, narrow_range)


@transactional
def fake_quant_with_min_max_vars_per_channel(
    inputs: NumberLike,
    min: NumberLike,
    max: NumberLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """As `fake_quant_with_min_max_vars`, with limits for each place of the last axis: `min` and `max` are vectors.

    Examples:
        >>> x = [[0.3, 2.2], [9.0, 9.0]]
        >>> await session.run(af.quantization.fake_quant_with_min_max_vars_per_channel(x, [0.0, 0.0], [3.0, 6.0], 2))
        array([[0., 2.],
               [3., 6.]], dtype=float32)
    """
    x, low, high = _operands(inputs, min, max, 1)
    return fake_quant(x, low, high, num_bits, narrow_range, name=name)


@transactional
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: NumberLike,
    inputs: NumberLike,
    min: NumberLike,
    max: NumberLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `fake_quant_with_min_max_vars_per_channel` with respect to `inputs`, `min` and `max`.

    Examples:
        >>> found = af.quantization.fake_quant_with_min_max_vars_per_channel_gradient
        >>> await session.run(found([[5.0, 7.0]], [[1.0, 9.0]], [-6.0, -6.0], [6.0, 6.0])[2])
        array([0., 7.], dtype=float32)
    """
    return _of_vars(gradients, *_operands(inputs, min, max, 1), num_bits, narrow_range)


def _operands(inputs: NumberLike, low: NumberLike, high: NumberLike, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    x = convert_to_tensor(inputs)
    limits = convert_to_tensor(low, x.dtype), convert_to_tensor(high, x.dtype)
    for each, what in zip(limits, ("min", "max"), strict=True):
        each.spec.with_rank(rank, what)
    return x, *limits


def _of_vars(
    gradients: NumberLike, x: Tensor, low: Tensor, high: Tensor, num_bits: int, narrow_range: bool
) -> tuple[Tensor, Tensor, Tensor]:
    dy = convert_to_tensor(gradients, x.dtype)
    if not dy.shape.is_compatible_with(x.shape):
        raise ValueError(f"gradients of shape {dy.shape} do not fit inputs of shape {x.shape}")
    fake_quant.infer([x.spec, low.spec, high.spec], {"num_bits": num_bits, "narrow_range": narrow_range})
    dx, dlow, dhigh = _gradients(dy, x, low, high, num_bits, narrow_range)
    assert dlow is not None
    assert dhigh is not None
    return dx, dlow, dhigh
