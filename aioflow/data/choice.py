"""Elements of several datasets, of which another dataset, or chance, chooses one for each element."""

import bisect
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import Cursor, EndOfData, Run, Stage, Turns
from aioflow.tensors.dtypes import Spec, int64
from aioflow.tensors.recursion import short_repr
from aioflow.tensors.shape import SCALAR


class _ChooseCursor(Cursor["Choose"]):
    """Its own position: whether it has stopped, as 0 or 1, and the positions of the inputs."""

    def __init__(self, stage: "Choose", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        count = len(stage.inputs)
        stopped, places = (0, [None] * count) if self._start is None else entries(self._start, 2)
        self._stopped = as_number(stopped) > 0
        places = entries(places, count)
        self.inputs = [
            each.begin(run.at_input(number), place)
            for number, (each, place) in enumerate(zip(stage.inputs, places, strict=True))
        ]
        self._ended: Final[set[int]] = set()

    async def _next(self) -> Any:
        choices, *datasets = self.inputs
        while not self._stopped and len(self._ended) < len(datasets):
            number = self._number(await choices.take(), len(datasets))
            try:
                return await datasets[number].take()
            except EndOfData:
                self._stopped = self.stage.stops
                self._ended.add(number)
        raise EndOfData

    def _number(self, choice: Any, count: int) -> int:
        if not isinstance(choice, np.integer) or not 0 <= choice < count:
            found = errors.InvalidArgumentError(
                f"a choice is an integer from 0 to {count - 1}, not {short_repr(choice)}"
            )
            raise self.stage.failed(found, self.inputs[0].given - 1)
        return int(choice)

    def _position(self) -> Position:
        return [int(self._stopped), [cursor.position() for cursor in self.inputs]]


class Choose(Stage):
    """The next element of the input that the first input names; its first one has the number 0.

    Attributes:
        stops: whether it ends when it should take from an input that has ended; else it goes on with the next choice.
    """

    cursor: ClassVar = _ChooseCursor

    def __init__(self, name: str, choices: Stage, inputs: Sequence[Stage], stops: bool) -> None:
        same = len({str(each.spec) for each in inputs}) == 1
        super().__init__(inputs[0].spec if same else None, choices, *inputs)
        self.name = name
        self.stops: Final = stops


class _ChanceCursor(Cursor["Chance"]):
    def __init__(self, stage: "Chance", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._turns: Final = Turns()
        self._seed: Final = run.seed(stage.seed)

    async def _next(self) -> Any:
        await self._turns.turn()
        return np.int64(self.stage.choice(chance(self._seed, self.given)))


class Chance(Stage):
    """Random integers from 0 on, without an end.

    Args:
        weights: the relative frequency of each integer.
        seed: decides the integers; None for others in each iteration.
    """

    name = "random choices"
    cursor: ClassVar = _ChanceCursor

    def __init__(self, weights: Sequence[float], seed: int | None) -> None:
        super().__init__(Spec(int64, SCALAR))
        self.seed: Final = seed
        self._weights: Final = list(weights)
        self._sums: Final = list(itertools.accumulate(weights))

    def choice(self, number: float) -> int:
        """Return the integer for a number from 0 to 1."""
        return min(bisect.bisect_right(self._sums, number * self._sums[-1]), len(self._sums) - 1)

    def cardinality(self) -> float:
        """It has no end."""
        return math.inf

    def details(self) -> str:
        """The weights, and the seed."""
        return f"{self._weights}, {self.seed}"


class _RandomCursor(Cursor["RandomNumbers"]):
    def __init__(self, stage: "RandomNumbers", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._turns: Final = Turns()
        self._seed: Final = run.seed(stage.seed, stage.changes)

    async def _next(self) -> Any:
        await self._turns.turn()
        return np.int64(chance(self._seed, self.given) * (1 << 32))


class RandomNumbers(Stage):
    """Random integers from 0 to 2³² - 1, without an end.

    Attributes:
        seed: decides the integers; None for others in each iteration.
        changes: whether each epoch has others.
    """

    name = "random"
    cursor: ClassVar = _RandomCursor

    def __init__(self, seed: int | None, changes: bool) -> None:
        super().__init__(Spec(int64, SCALAR))
        self.seed: Final = seed
        self.changes: Final = changes

    def cardinality(self) -> float:
        """It has no end."""
        return math.inf

    def details(self) -> str:
        """The seed."""
        return str(self.seed)


def chance(seed: str, number: int) -> float:
    """Return a random number from 0 to 1 that follows from a seed and a number, so that a position needs no more."""
    return random.Random(f"{seed}: {number}").random()


def checked_weights(weights: Any, count: int, what: str = "datasets") -> list[float]:
    """Return `count` weights. ValueError if a weight is negative or not finite, or if all weights are 0."""
    found = [1.0] * count if weights is None else np.asarray(weights, np.float64).ravel().tolist()
    if len(found) != count:
        raise ValueError(f"there are {len(found)} weights for {count} {what}")
    if not all(0 <= weight < math.inf for weight in found) or not sum(found):
        raise ValueError(f"weights are numbers from 0 on, of which one at least is positive, not {found}")
    return found
