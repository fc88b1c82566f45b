"""Stages that call a function of the user for one element after the other: map, filter, reduce."""

import contextlib
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.brief_calls import BriefCalls
from aioflow.data.calls import Calls, UserFunction, as_components
from aioflow.data.elements import as_element
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import EndOfData, OneInput, OneToOne, Run, Stage
from aioflow.tensors.recursion import short_repr


def as_bool(value: Any) -> bool:
    """Return the answer of a predicate. TypeError if it is neither True nor False."""
    if np.ndim(value) != 0 or np.asarray(value).dtype != bool:
        raise TypeError(f"a predicate returns True or False, not {short_repr(value)}")
    return bool(value)


class CallingCursor(OneInput["FunctionStage"]):
    """A cursor that calls a function for one element after the other."""

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


class EachCursor(CallingCursor):
    """A cursor whose calls depend on one element each, and of which brief ones are made several at a time."""

    def __init__(self, stage: "FunctionStage", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._brief: Final = BriefCalls(self.input, self._calls, stage.function, self._convert)

    def _convert(self, made: Any) -> Any:
        """Return the result for what a call returns: the answer of a predicate."""
        return as_bool(made)

    async def _result(self) -> tuple[Any, Any]:
        """Return the next element of the input, and the converted result of the function."""
        while self._given_before:
            await self._repeated(self.input.take())
            self._given_before -= 1
        while True:
            await self._brief.call_ahead()
            try:
                return await self._brief.next()
            except errors.OpError as error:
                if not self.run.leaves_out(error):
                    raise

    def _input_start(self) -> Position:
        place, given = (None, 0) if self._start is None else entries(self._start, 2)
        self._place: Position = place
        self._given_before: int = as_number(given)
        return place

    def _position(self) -> Position:
        return [self._place, self._given_before] if self._given_before else self._brief.position()

    def buffered(self) -> tuple[int, int] | None:
        """The elements taken from the input ahead, and the most of them, if the function has proved brief."""
        return (self._brief.size, self._brief.most) if self._brief.most > 1 else None

    async def close(self) -> None:
        """Wait for running calls, drop results, and close the input."""
        self._brief.close()
        await super().close()


class _MapCursor(EachCursor):
    def _convert(self, made: Any) -> Any:
        return as_components(made)

    def _at_hand(self, most: int) -> list[Any]:
        return [made for _, made in self._brief.at_hand(most)]

    async def _next(self) -> Any:
        _, made = await self._result()
        return made


class _FilterCursor(EachCursor):
    def _at_hand(self, most: int) -> list[Any]:
        return [element for element, chosen in self._brief.at_hand(most) if chosen]

    async def _next(self) -> Any:
        while True:
            element, chosen = await self._result()
            if chosen:
                return element


class _TakeWhileCursor(EachCursor):
    _last: Position = None

    async def _next(self) -> Any:
        before = self._position()
        element, goes_on = await self._result()
        if not goes_on:
            self._last = before
            raise EndOfData
        return element

    def _position(self) -> Position:
        """Return the position; after the end, that before the element which ended it."""
        return self._last or super()._position()


class _ReduceCursor(CallingCursor):
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


class TakeWhile(FunctionStage):
    """The elements before the first one for which a function returns false."""

    name = "take_while"
    cursor: ClassVar = _TakeWhileCursor


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
