"""The loss of rows of labels whose places in time are not known."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.constants import fill
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn.ctc import labels_loss
from aioflow.library.losses.objectives import Loss
from aioflow.tensors.dtypes import int32


class CTC(Loss):
    """Connectionist temporal classification: minus the logarithm of the probability of each row of labels.

    Labels are classes [batch, most labels], filled up with 0; predictions are logits [batch, time, classes], of which
    class 0 is the blank.

    Examples:
        >>> await session.run(af.losses.CTC()([[1, 2]], af.zeros([1, 3, 3])))
        np.float32(1.6863991)
    """

    def _labels(self, labels: Tensor, predictions: Tensor) -> Tensor:
        labels.spec.with_rank(2, "labels")
        predictions.spec.with_rank(3, "predictions")
        return cast(labels, int32)

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each row."""
        lengths = reduce_sum(cast(not_equal(labels, 0), int32), 1)
        sizes = shape(predictions)
        return labels_loss(transpose(predictions, [1, 0, 2]), labels, lengths, fill(sizes[:1], sizes[1]), 0)
