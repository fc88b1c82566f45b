"""A loss of differences between the elements of one example."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.losses.collected import Collections, add_loss
from aioflow.library.losses.elements import float_operands, float_weights
from aioflow.library.losses.reduction import weighted_ones
from aioflow.library.weights import fit_weights


@transactional
def mean_pairwise_squared_error(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
) -> Tensor:
    """Return the sum over the batch of the mean squared error of the differences within an example: a float32.

    For an example with the elements a, b, c the differences are a - b, a - c and b - c, of labels and of predictions.
    An example with one element has the loss 0.

    Args:
        labels: the true values, the batch along the first axis.
        predictions: the predicted values, of the shape of `labels`.
        weights: a scalar, or a tensor of the same rank whose size in each axis is 1 or that of the predictions. An
            element whose weight is 0 does not count among those of its example.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.

    Raises:
        ValueError: the shapes do not fit, or the rank is unknown.
        InvalidArgumentError: in the run, if the weights do not fit the predictions.

    Examples:
        >>> await session.run(af.losses.mean_pairwise_squared_error([[0.0, 0.0]], [[1.0, 3.0]]))
        np.float32(4.0)
    """
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        truth, guess = float_operands(labels, predictions)
        difference = guess - truth
        each = fit_weights(float_weights(weights), difference)
        loss = reduce_sum(_of_examples(difference, weighted_ones(difference, each)) * each, name="value")
        add_loss(loss, loss_collection)
        return loss


def _of_examples(difference: Tensor, present: Tensor) -> Tensor:
    """Return the loss of each example, with the rank of `difference`.

    Of n elements d, the sum of (d[i] - d[j])² over all i and j is 2 * n * the sum of d² - 2 * the square of the sum.
    """
    rank = difference.spec.rank
    if rank is None:
        raise ValueError("labels and predictions have unknown rank: set the shape of one of them")
    axes = tuple(range(1, rank))
    count = reduce_sum(present, axes, keepdims=True)
    squares = reduce_sum(square(difference), axes, keepdims=True)
    total = reduce_sum(difference, axes, keepdims=True)
    others = maximum(count - 1, 0.0)
    return 2 * div_no_nan(squares, others) - 2 * div_no_nan(square(total), count * others)
