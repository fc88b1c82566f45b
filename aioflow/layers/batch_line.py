"""The batches of an epoch of training, which one worker takes, or several at the same time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aioflow.layers.blocks import Block


class BatchLine:
    """Batches in their order, in blocks. Each is taken once, and no block is made before a worker asks for it.

    Attributes:
        number: the number of the next batch.
        ended: whether all batches are taken, or no more are wanted.
    """

    def __init__(
        self, blocks: AsyncIterator[Block], first: Block, number: int, next_pause: Callable[[int], int | None],
        is_over: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Begin with a batch of that number.

        Args:
            blocks: gives the blocks after the first one.
            first: the first one.
            number: the number of its first batch.
            next_pause: gives the number, from a given one on, of the next batch before which workers are to pause;
                None for none.
            is_over: whether no more batches are wanted.
        """
        self._blocks: Final = blocks
        self._held: Block | None = first
        self._next_pause: Final = next_pause
        self._is_over: Final = is_over
        self._lock: Final = asyncio.Lock()
        self._begun_at = self._resumed_at = number
        self.number: int = number
        self.ended: bool = False

    async def take(self, most: int | None = None) -> tuple[int, Block] | None:
        """A block of the next batches, at most that many, and the number of its first one.

        None at the end, and where workers are to pause before the next batch.
        """
        async with self._lock:
            if self.ended or not await self._has_next():
                self.ended = True
                return None
            number, held = self.number, self._held
            pause = self._next_pause(number + (number == self._resumed_at))
            if pause == number:
                return None
            assert held is not None  # `_has_next` has found it
            block, self._held = held.divided(_least(held.batch_count, most, None if pause is None else pause - number))
            self.number += block.batch_count
            return number, block

    def resume(self) -> None:
        """Give out the batch before which workers have paused."""
        self._resumed_at = self.number

    async def _has_next(self) -> bool:
        """Whether there is a batch, and it is wanted; the first one always is."""
        if self.number != self._begun_at and self._is_over():
            return False
        if self._held is None:
            self._held = await anext(self._blocks, None)
        return self._held is not None


def _least(count: int, *limits: int | None) -> int:
    """The count, within limits."""
    return min([count, *[limit for limit in limits if limit is not None]])
