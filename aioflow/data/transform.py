"""Stages that call a function of the user for one element after the other: map, filter, reduce."""

import contextlib
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.data.calls import Calls, UserFunction
from aioflow.data.elements import arguments, as_element
from aioflow.data.position import Position
from aioflow.data.stage import EndOfData, OneInput, OneToOne, Run, Stage
from aioflow.tensors.recursion import short_repr


class _CallingCursor(OneInput["FunctionStage"]):
    """A cursor that calls a function for one element at a time."""

    def __init__(self, stage: "FunctionStage", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)

    def does(self) -> str:
        """Its function."""
        return "its function"

    async def close(self) -> None:
        """Wait for a running call, and close the input."""
        await self._calls.settle()
        await super().close()


class _MapCursor(_CallingCursor):
    async def _next(self) -> Any:
        return await self._calls.element(self.stage.function, self.given, await self.input.take())


class _FilterCursor(_CallingCursor):
    async def _next(self) -> Any:
        while True:
            number, element = self.input.given, await self.input.take()
            call = self._calls.call(self.stage.function, *arguments(element))
            if await self._calls.result(number, call, _as_bool):
                return element


class _ReduceCursor(_CallingCursor):
    async def _next(self) -> Any:
        if self.given:
            raise EndOfData
        assert isinstance(self.stage, Reduce)
        state = self.stage.initial
        with contextlib.suppress(EndOfData):
            while True:
                number, element = self.input.given, await self.input.take()
                call = self._calls.call(self.stage.function, state, element)
                state = await self._calls.result(number, call, as_element)
        return state


class FunctionStage(Stage):
    """A stage with a function of the user.

    Attributes:
        function: the function.
    """

    def __init__(self, source: Stage, function: UserFunction, spec: Any = None) -> None:
        super().__init__(spec, source)
        self.function: Final = function


class Map(FunctionStage, OneToOne):
    """A function of each element."""

    name = "map"
    cursor: ClassVar = _MapCursor


class Filter(FunctionStage):
    """The elements for which a function returns true."""

    name = "filter"
    cursor: ClassVar = _FilterCursor


class Reduce(FunctionStage):
    """One element: the last state of a function that makes the next state of a state and an element.

    Attributes:
        initial: the first state.
    """

    name = "reduce"
    cursor: ClassVar = _ReduceCursor

    def __init__(self, source: Stage, function: UserFunction, initial: Any) -> None:
        super().__init__(source, function)
        self.initial: Final = initial


def _as_bool(value: Any) -> bool:
    if np.ndim(value) != 0 or np.asarray(value).dtype != bool:
        raise TypeError(f"the predicate of a filter returns True or False, not {short_repr(value)}")
    return bool(value)
