"""What one step computes: the common form of training on one device, training by a strategy, and evaluation."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from aioflow.graph.operation import Operation, Tensor
from aioflow.layers.blocks import Block
from aioflow.layers.fed import Batch
from aioflow.library.control import device

Place: TypeAlias = str | Callable[[Operation], str] | None
"""A device, or a function from an operation to its device; None leaves the choice open."""


def at(place: Place) -> contextlib.AbstractContextManager[None]:
    """Inside the block operations are built in that place."""
    return contextlib.nullcontext() if place is None else device(place)


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """What a step of training or of evaluation computes for a batch, but for metrics.

    Attributes:
        shares: the placeholders: for the whole batch, or for the share of each replica.
        batch: the whole batch.
        outputs: the outputs of the model.
        loss: the loss.
        parts: the loss of each output, before its factor; None for an output without one.
        updates: in training, change the weights and what layers update.
        equalize: gives the copies of weights on other devices their values; None without copies.
        place: where its metrics are.
    """

    shares: Sequence[Batch]
    batch: Batch
    outputs: Sequence[Tensor]
    loss: Tensor
    parts: Sequence[Tensor | None]
    updates: Sequence[Operation] = ()
    equalize: Operation | None = None
    place: Place = None

    @property
    def feeds(self) -> list[Tensor]:
        """The tensors that are fed."""
        return [tensor for share in self.shares for tensor in share.values]

    def values(self, batch: Batch) -> list[Any]:
        """The values to feed for a batch of arrays."""
        if len(self.shares) == 1:
            return batch.values
        return [value for share in batch.shares(len(self.shares)) for value in share.values]

    def feeds_of(self, block: Block) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the size of each batch of a block, and the values to feed for it."""
        if len(self.shares) > 1:
            for batch in block.batches():
                yield batch.size, self.values(batch)
            return
        arrays, most = block.elements.values, block.batch_size
        for start in range(0, block.elements.size, most):
            rows = slice(start, start + most)
            values = [array[rows] for array in arrays]
            yield len(values[0]), values

    def feeding(self, batch: Batch) -> dict[Tensor, Any]:
        """The same by tensor."""
        return dict(zip(self.feeds, self.values(batch), strict=True))
