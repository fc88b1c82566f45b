"""Blocks: the elements of consecutive batches, taken from the data at once and then cut into batches.

To take and to convert the elements of a small batch costs about as much as for many batches together, so arrays give
their batches in blocks. A generator or dataset gives a block for each batch.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from aioflow.layers.fed import Batch

_BYTES: Final = 1 << 20
"""The bytes of a block of several batches, at most: its elements stay in the cache until the steps read them."""


class Block(NamedTuple):
    """The elements of consecutive batches.

    Attributes:
        elements: those of all batches.
        batch_size: the number of elements in each batch; the last one may have fewer.
        place: its place in the data, which errors name; empty for blocks of arrays, which are all alike.
    """

    elements: Batch
    batch_size: int
    place: str = ""

    @property
    def batch_count(self) -> int:
        """The number of batches."""
        return -(-self.elements.size // self.batch_size)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches, as views."""
        if self.batch_count == 1:
            yield self.elements
            return
        for start in range(0, self.elements.size, self.batch_size):
            yield self.elements.rows(slice(start, start + self.batch_size))

    def divided(self, count: int) -> "tuple[Block, Block | None]":
        """The first batches, as many as `count`, and the others; None if there are no others."""
        if count >= self.batch_count:
            return self, None
        end = count * self.batch_size
        first, others = self.elements.rows(slice(end)), self.elements.rows(slice(end, None))
        return self._replace(elements=first), self._replace(elements=others)


def batches_in_block(elements: Batch, batch_size: int) -> int:
    """The number of batches in a block of these elements: as many as fit into the cache, and one at least."""
    row: int = sum([array.nbytes for array in elements.values]) // elements.size
    return max(1, _BYTES // max(1, row * batch_size))
