"""The batches of an epoch of training, which one worker takes, or several at the same time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aioflow.layers.fed import Batch


class BatchLine:
    """Batches in their order. Each is taken once, and none is made before a worker asks for it.

    Attributes:
        number: the number of the next batch.
        ended: whether all batches are taken, or no more are wanted.
    """

    def __init__(
        self, batches: AsyncIterator[Batch], first: Batch, number: int, pauses: Callable[[int], bool],
        is_over: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Begin with a batch of that number.

        Args:
            batches: gives the batches after the first one.
            first: the first one.
            number: its number.
            pauses: whether workers are to pause before the batch of a number.
            is_over: whether no more batches are wanted.
        """
        self._batches: Final = batches
        self._held: Batch | None = first
        self._pauses: Final = pauses
        self._is_over: Final = is_over
        self._lock: Final = asyncio.Lock()
        self._resumed_at = number
        self.number: int = number
        self.ended: bool = False

    async def take(self) -> tuple[int, Batch] | None:
        """The next batch and its number; None at the end, and where workers are to pause before it."""
        async with self._lock:
            if self.ended or not await self._has_next():
                self.ended = True
                return None
            if self.number != self._resumed_at and self._pauses(self.number):
                return None
            number, batch = self.number, self._held
            assert batch is not None  # `_has_next` has found it
            self.number, self._held = number + 1, None
            return number, batch

    def resume(self) -> None:
        """Give out the batch before which workers have paused."""
        self._resumed_at = self.number

    async def _has_next(self) -> bool:
        if self._held is None and not self._is_over():
            self._held = await anext(self._batches, None)
        return self._held is not None
