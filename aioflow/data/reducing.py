"""One element for each key: what three functions make of all elements with that key."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls, UserFunction, as_components
from aioflow.data.elements import arguments, as_element, structure_of
from aioflow.data.groups import as_integer
from aioflow.data.position import Position
from aioflow.data.replay import ReplayCursor
from aioflow.data.stage import EndOfData, Run, Stage
from aioflow.tensors.recursion import short_repr


class Reducer:
    """Makes one element of all elements with the same key, for `group_by_reducer`.

    Args:
        init_func: returns the first state for a key.
        reduce_func: returns the next state for a state and an element, which is one argument.
        finalize_func: returns the element of the new dataset for the last state; the items of a tuple are its
            arguments.

    Examples:
        >>> counts = af.data.experimental.Reducer(lambda key: 0, lambda count, element: count + 1, lambda count: count)
        >>> transform = af.data.experimental.group_by_reducer(lambda number: number % 2, counts)
        >>> [int(count) async for count in af.data.Dataset.range(5).apply(transform)]
        [3, 2]
    """

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ) -> None:
        self._init: Final = UserFunction(init_func, "init_func")
        self._reduce: Final = UserFunction(reduce_func, "reduce_func")
        self._finalize: Final = UserFunction(finalize_func, "finalize_func")

    @property
    def init_func(self) -> UserFunction:
        """The function that returns the first state."""
        return self._init

    @property
    def reduce_func(self) -> UserFunction:
        """The function that returns the next state."""
        return self._reduce

    @property
    def finalize_func(self) -> UserFunction:
        """The function that returns the element."""
        return self._finalize


class _ReducerCursor(ReplayCursor["GroupByReducer"]):
    def __init__(self, stage: "GroupByReducer", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._states: Final[dict[int, Any]] = {}
        self._keys: list[int] | None = None

    async def _make(self) -> Any:
        if self._keys is None:
            await self._reduce_all()
            self._keys = sorted(self._states, reverse=True)
        if not self._keys:
            raise EndOfData
        state = self._states.pop(self._keys.pop())
        call = self._calls.call(self.stage.reducer.finalize_func, *arguments(state))
        return await self._calls.result(self.made, call, as_components)

    async def _reduce_all(self) -> None:
        while True:
            number = self.input.given
            try:
                element = await self.input.take()
            except EndOfData:
                return
            call = self._calls.call(self.stage.key, *arguments(element))
            key = await self._calls.result(number, call, as_integer)
            if key not in self._states:
                first = self._calls.call(self.stage.reducer.init_func, np.int64(key))
                self._states[key] = await self._calls.result(number, first, as_components)
            state = self._states[key]
            following = self._calls.call(self.stage.reducer.reduce_func, state, element)
            self._states[key] = await self._calls.result(number, following, functools.partial(_like, state))

    def does(self) -> str:
        """Its functions."""
        return "its functions"

    def buffered(self) -> tuple[int, int]:
        """The states that it holds, one for each key so far."""
        return len(self._states), len(self._states)

    async def close(self) -> None:
        """Wait for a running call, and close the input."""
        await self._calls.settle()
        await super().close()


class GroupByReducer(Stage):
    """What a reducer makes of all elements of each key, by rising keys.

    Attributes:
        key: returns the key of an element.
        reducer: the reducer.
    """

    name = "group_by_reducer"
    cursor: ClassVar = _ReducerCursor

    def __init__(self, source: Stage, key: UserFunction, reducer: Reducer) -> None:
        super().__init__(None, source)
        self.key: Final = key
        self.reducer: Final = reducer


def _like(state: Any, made: Any) -> Any:
    """Return the next state. InvalidArgumentError if it has another structure than the state before."""
    found = as_element(tuple(made) if isinstance(made, list) else made)
    if structure_of(found) != structure_of(state):
        raise errors.InvalidArgumentError(f"reduce_func returns a state of another structure: {short_repr(made)}")
    return found
