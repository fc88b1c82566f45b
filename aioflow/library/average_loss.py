"""Losses of examples as one number, under the names that TensorFlow gives them for training on replicas."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, float32


@transactional
def compute_average_loss(
    per_example_loss: NumberLike,
    sample_weight: NumberLike | None = None,
    global_batch_size: NumberLike | None = None,
) -> Tensor:
    """The sum of the losses, weighted, divided by the number of examples; 0 for no examples.

    Args:
        per_example_loss: a floating tensor whose first axis is the examples.
        sample_weight: numbers that the losses are multiplied with.
        global_batch_size: the number of examples of all replicas; that of `per_example_loss` by default.

    Examples:
        >>> await session.run(af.nn.compute_average_loss([1.0, 3.0], global_batch_size=4))
        np.float32(1.0)
    """
    with name_scope(None, "compute_average_loss"):
        losses = convert_to_tensor(per_example_loss, preferred_dtype=float32)
        if losses.dtype not in FLOAT or losses.shape.ndims == 0:
            raise ValueError(f"per_example_loss is a floating tensor with an axis of examples, not {losses!r}")
        count = shape(losses)[0] if global_batch_size is None else convert_to_tensor(global_batch_size)
        if sample_weight is not None:
            losses = losses * cast(convert_to_tensor(sample_weight), losses.dtype)
        return div_no_nan(reduce_sum(losses), cast(count, losses.dtype))


@transactional
def scale_regularization_loss(regularization_loss: NumberLike) -> Tensor:
    """The sum of the loss: a graph is one replica, whose share of the regularization is the whole.

    Examples:
        >>> await session.run(af.nn.scale_regularization_loss([1.0, 3.0]))
        np.float32(4.0)
    """
    return reduce_sum(convert_to_tensor(regularization_loss, preferred_dtype=float32))
