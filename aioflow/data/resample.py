"""Elements left out by chance, so that their classes have wanted frequencies."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.data.calls import Calls, UserFunction
from aioflow.data.choice import chance
from aioflow.data.elements import arguments
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import Cursor, Run, Stage
from aioflow.data.transform import FunctionStage
from aioflow.tensors.dtypes import Spec, int64
from aioflow.tensors.recursion import short_repr
from aioflow.tensors.shape import SCALAR


class _ResampleCursor(Cursor["Resample"]):
    """Its own position: that of the input, and the number of elements of each class, each plus one."""

    def __init__(self, stage: "Resample", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        count = len(stage.target)
        place, seen = (None, [1] * count) if self._start is None else entries(self._start, 2)
        self._seen: Final = list(map(as_number, entries(seen, count)))
        self._calls: Final = Calls(stage)
        self._seed: Final = run.seed(stage.seed)
        self._input: Final = stage.inputs[0].begin(run.at_input(0), place)
        self.inputs = (self._input,)

    async def _next(self) -> Any:
        while True:
            number, element = self._input.given, await self._input.take()
            call = self._calls.call(self.stage.function, *arguments(element))
            label = await self._calls.result(number, call, self.stage.as_label)
            self._seen[label] += 1
            if chance(self._seed, number) < self.stage.share(label, self._seen):
                return np.int64(label), element

    def _position(self) -> Position:
        return [self._input.position(), [*self._seen]]

    def does(self) -> str:
        """Its function."""
        return "its function"

    async def close(self) -> None:
        """Wait for a running call, and close the input."""
        await self._calls.settle()
        await super().close()


class Resample(FunctionStage):
    """Pairs of a class and an element of it; drops elements so that the classes have their target frequencies.

    Attributes:
        target: the wanted frequency of each class.
        seed: sets the random numbers that decide which elements are dropped.

    Args:
        source: the stage before.
        function: returns the number of the class of an element.
        target: the wanted frequencies.
        initial: the frequencies of the input; None to estimate them from the elements so far.
        seed: the seed; None for other elements in each iteration.
    """

    name = "rejection_resample"
    cursor: ClassVar = _ResampleCursor

    def __init__(
        self,
        source: Stage,
        function: UserFunction,
        target: Sequence[float],
        initial: Sequence[float] | None,
        seed: int | None,
    ) -> None:
        super().__init__(source, function, (Spec(int64, SCALAR), source.spec))
        self.target: Final = target
        self.seed: Final = seed
        self._initial: Final = initial

    def share(self, label: int, seen: Sequence[int]) -> float:
        """Return the share of the elements of a class that stay, given the number of elements of each."""
        known = zip(self.target, self._initial or seen, strict=True)
        ratios = [wanted / found if found else 0.0 for wanted, found in known]
        return ratios[label] / (max(ratios) or 1.0)

    def as_label(self, value: Any) -> int:
        """Return the number of a class. TypeError or ValueError if it is none."""
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "iu":
            raise TypeError(f"class_func returns an integer, not {short_repr(value)}")
        if not 0 <= array < len(self.target):
            raise ValueError(f"class_func returns a class from 0 to {len(self.target) - 1}, not {int(array)}")
        return int(array)

    def details(self) -> str:
        """The wanted frequencies, and the seed."""
        return f"{list(self.target)}, {self.seed}"
