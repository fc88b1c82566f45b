"""Numbers rounded to the steps of few bits, with limits that are numbers, scalars or vectors; and the gradients."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.fake_quantisation import fake_quant, fake_quant_gradients
from aioflow.library.control import name_scope


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
    with name_scope(name, "FakeQuantWithMinMaxArgsGradient"):
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
        (array([5., 0.], dtype=float32), np.float32(0.0), np.float32(7.0))
    """
    with name_scope(name, "FakeQuantWithMinMaxVarsGradient"):
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
    with name_scope(name, "FakeQuantWithMinMaxVarsPerChannelGradient"):
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
    dx, dlow, dhigh = fake_quant_gradients(dy, x, low, high, num_bits, narrow_range)
    assert dlow is not None
    assert dhigh is not None
    return dx, dlow, dhigh
