"""Losses of examples as one number, under the names that TensorFlow gives them for training on replicas."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_non_negative
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.weights import align_weights
from aioflow.tensors.dtypes import FLOAT, float32, float64


@transactional
def compute_average_loss(
    per_example_loss: NumberLike,
    sample_weight: NumberLike | None = None,
    global_batch_size: NumberLike | None = None,
) -> Tensor:
    """The sum of the losses, weighted, divided by the number of examples; 0 for no examples.

    Args:
        per_example_loss: numbers whose first axis is the examples; integers count as float64.
        sample_weight: numbers that the losses are multiplied with. They may lack the last axis of the losses, or have
            one of size 1 more.
        global_batch_size: the number of examples of all replicas; that of `per_example_loss` by default.

    Raises:
        ValueError: the losses have no axis, or `global_batch_size` has one.
        TypeError: `global_batch_size` is no integer.
        InvalidArgumentError: it is negative.

    Examples:
        >>> await session.run(af.nn.compute_average_loss([1.0, 3.0], global_batch_size=4))
        np.float32(1.0)
    """
    with name_scope(None, "compute_average_loss"):
        losses = convert_to_tensor(per_example_loss, preferred_dtype=float32)
        if losses.shape.ndims == 0:
            raise ValueError(f"per_example_loss has an axis of examples, and {losses!r} has none")
        losses = losses if losses.dtype in FLOAT else cast(losses, float64)
        count = shape(losses)[0] if global_batch_size is None else _checked(convert_to_tensor(global_batch_size))
        if sample_weight is not None:
            weights = align_weights(cast(convert_to_tensor(sample_weight), losses.dtype), losses)
            losses = losses * weights
        return div_no_nan(reduce_sum(losses), cast(count, losses.dtype))


def _checked(count: Tensor) -> Tensor:
    """A number of examples. TypeError, ValueError or InvalidArgumentError if it cannot be one."""
    if not count.dtype.is_integer:
        raise TypeError(f"global_batch_size must be an integer, not {count.dtype.name}")
    if count.shape.ndims not in (None, 0):
        raise ValueError(f"global_batch_size must be one number, its shape is {count.shape}")
    check = assert_non_negative(count, message="global_batch_size must not be negative")
    made: Tensor = with_dependencies([check], count)
    return made


@transactional
def scale_regularization_loss(regularization_loss: NumberLike) -> Tensor:
    """The sum of the loss: a graph is one replica, whose share of the regularization is the whole.

    Examples:
        >>> await session.run(af.nn.scale_regularization_loss([1.0, 3.0]))
        np.float32(4.0)
    """
    return reduce_sum(convert_to_tensor(regularization_loss, preferred_dtype=float32))
