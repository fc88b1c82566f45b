"""What one step computes: the common form of training on one device, training by a strategy, and evaluation."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Operation, Tensor
from aioflow.layers.fed import Batch


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """What a step of training or of evaluation computes for a batch, but for metrics.

    Attributes:
        shares: the placeholders: for the whole batch, or for the share of each replica.
        batch: the whole batch.
        outputs: the outputs of the model.
        loss: the loss.
        updates: in training, change the weights and what layers update.
        equalize: gives the copies of weights on other devices their values; None without copies.
    """

    shares: Sequence[Batch]
    batch: Batch
    outputs: Sequence[Tensor]
    loss: Tensor
    updates: Sequence[Operation] = ()
    equalize: Operation | None = None

    @property
    def feeds(self) -> list[Tensor]:
        """The tensors that are fed."""
        return [tensor for share in self.shares for tensor in share.values]

    def values(self, batch: Batch) -> list[Any]:
        """The values to feed for a batch of arrays."""
        if len(self.shares) == 1:
            return batch.values
        return [value for share in batch.shares(len(self.shares)) for value in share.values]

    def feeding(self, batch: Batch) -> dict[Tensor, Any]:
        """The same by tensor."""
        return dict(zip(self.feeds, self.values(batch), strict=True))
