"""Stages whose elements depend on those before them: scan, unique."""

from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls, UserFunction
from aioflow.data.elements import as_element, is_dataset, structure_of
from aioflow.data.position import Position
from aioflow.data.replay import ReplayCursor
from aioflow.data.stage import OneToOne, Run, Stage
from aioflow.data.transform import FunctionStage
from aioflow.tensors.recursion import short_repr


class _ScanCursor(ReplayCursor["Scan"]):
    def __init__(self, stage: "Scan", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._state: Any = stage.initial

    async def _make(self) -> Any:
        number, element = self.input.given, await self.input.take()
        call = self._calls.call(self.stage.function, self._state, element)
        self._state, made = await self._calls.result(number, call, self.stage.pair)
        return made

    def does(self) -> str:
        """Its function."""
        return "its function"

    async def close(self) -> None:
        """Wait for a running call, and close the input."""
        await self._calls.settle()
        await super().close()


class Scan(FunctionStage, OneToOne):
    """The second results of a function of a state and an element, whose first results are the next states.

    Attributes:
        initial: the first state.
    """

    name = "scan"
    cursor: ClassVar = _ScanCursor

    def __init__(self, source: Stage, function: UserFunction, initial: Any) -> None:
        super().__init__(source, function)
        self.initial: Final = initial

    def pair(self, made: Any) -> tuple[Any, Any]:
        """Return the next state and the element. TypeError for anything else, or a state of another structure."""
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            raise TypeError(f"scan_func returns a state and an element, not {short_repr(made)}")
        state, element = as_element(made[0]), as_element(made[1])
        if structure_of(state) != structure_of(self.initial):
            raise TypeError(f"scan_func returns a state of another structure than initial_state: {short_repr(made[0])}")
        return state, element


class _UniqueCursor(ReplayCursor["Unique"]):
    def __init__(self, stage: "Unique", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._seen: Final[set[Any]] = set()

    async def _make(self) -> Any:
        while True:
            element = await self.input.take()
            key = self._key(element)
            if key not in self._seen:
                self._seen.add(key)
                return element

    def _key(self, element: Any) -> Any:
        """Return an object that is equal for equal elements. OpError unless the element has one component."""
        if isinstance(element, (tuple, dict)) or is_dataset(element):
            refused = errors.InvalidArgumentError(f"unique compares single arrays, not {short_repr(element)}")
            raise self.stage.failed(refused, self.input.given - 1)
        if isinstance(element, bytes):
            return element
        array = np.asarray(element)
        return array.dtype.str, array.shape, tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()

    def buffered(self) -> tuple[int, int]:
        """The different elements so far, all of which it holds."""
        return len(self._seen), len(self._seen)


class Unique(Stage):
    """The elements that no element before equals."""

    name = "unique"
    cursor: ClassVar = _UniqueCursor

    def __init__(self, source: Stage) -> None:
        super().__init__(source.spec, source)
