"""Elements in a random order.

A buffer holds the next elements of the input, and gives any of them. Its order follows from the seed alone, so a
position is the number of elements given: a cursor at a position takes the elements before it from its input anew, and
drops them.
"""

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from aioflow.data.position import Position
from aioflow.data.replay import ReplayCursor
from aioflow.data.stage import EndOfData, OneToOne, Run, Stage
from aioflow.waiting.stores import Shuffled


class _ShuffleCursor(ReplayCursor["Shuffle"]):
    def __init__(self, stage: "Shuffle", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._buffer: Final = Shuffled(random.Random(stage.seed_of(run)))
        self._ended = False

    async def _make(self) -> Any:
        await self._fill()
        if not self._buffer:
            raise EndOfData
        ((element,),) = self._buffer.take()
        return element

    async def _fill(self) -> None:
        size = self.stage.buffer_size
        while not self._ended and (size is None or len(self._buffer) < size):
            try:
                self._buffer.add((await self.input.take(),))
            except EndOfData:
                self._ended = True

    def _at_hand(self, most: int) -> list[Any]:
        found: list[Any] = []
        size, buffer = self.stage.buffer_size, self._buffer
        while len(found) < most and self.made == self.given + len(found):
            if not self._ended and size is not None and len(buffer) < size:
                for element in self.input.take_at_hand(size - len(buffer)):
                    buffer.add((element,))
            if not buffer or not (self._ended or len(buffer) == size):
                break
            ((element,),) = buffer.take()
            found.append(element)
            self.made += 1
        return found

    def buffered(self) -> tuple[int, int] | None:
        """The elements in the buffer, and its size."""
        size = self.stage.buffer_size
        return len(self._buffer), len(self._buffer) if size is None else size


class Shuffle(OneToOne):
    """The elements in a random order.

    Args:
        source: the stage before.
        buffer_size: the most elements in the buffer; None for all elements of the input.
        seed: decides the order; None for another order in each iteration.
        reshuffle: whether each epoch has another order.
    """

    name = "shuffle"
    cursor: ClassVar = _ShuffleCursor

    def __init__(self, source: Stage, buffer_size: int | None, seed: int | None, reshuffle: bool) -> None:
        super().__init__(source.spec, source)
        self.buffer_size: Final = buffer_size
        self._seed: Final = seed
        self._reshuffle: Final = reshuffle

    def seed_of(self, run: Run) -> str:
        """Return the text that seeds the order of one epoch."""
        return run.seed(self._seed, self._reshuffle)

    def details(self) -> str:
        """The size of the buffer, and the seed."""
        return f"{self.buffer_size}, {self._seed}"


def shuffled(numbers: Iterable[int], stage: Shuffle, run: Run) -> Iterator[int]:
    """Yield numbers in the order in which the cursor of a stage gives its elements."""
    source, buffer = iter(numbers), Shuffled(random.Random(stage.seed_of(run)))
    for number in itertools.islice(source, stage.buffer_size):
        buffer.add((number,))
    while buffer:
        ((number,),) = buffer.take()
        yield number
        for further in itertools.islice(source, 1):
            buffer.add((further,))
