"""A dataset for each element, and the elements of several of these in turn: interleave, flat_map.

The open datasets are the slots of a cycle. The position of a slot is that of the input before the slot's element, and
that of its dataset: a cursor at a position makes these datasets anew.
"""

import asyncio
from typing import Any, ClassVar, Final

from aioflow.data.calls import Calls, UserFunction
from aioflow.data.checks import stage_of
from aioflow.data.elements import arguments
from aioflow.data.position import Position, as_number, entries
from aioflow.data.prefetch import Prefetch, PrefetchCursor
from aioflow.data.stage import Cursor, EndOfData, Run, Stage


class _Slot:
    """An open dataset."""

    def __init__(self, before: Position, cursor: Cursor[Any]) -> None:
        self.before: Final = before
        self.cursor: Final = cursor
        self.after: Position = cursor.position()


class _InterleaveCursor(Cursor["Interleave"]):
    def __init__(self, stage: "Interleave", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        empty = [None] * stage.cycle_length
        place, cycle, block, slots = (None, 0, 0, empty) if self._start is None else entries(self._start, 4)
        self._input: Final = stage.inputs[0].begin(run.at_input(0), place)
        self._cycle, self._block = as_number(cycle) % stage.cycle_length, as_number(block)
        self._saved: list[Position] | None = entries(slots, stage.cycle_length)
        self._slots: list[_Slot | None] = [None] * stage.cycle_length
        self._calls: Final = Calls(stage)
        self._free: Final = asyncio.Semaphore(stage.parallel or 1)
        self.inputs = (self._input,)

    async def _next(self) -> Any:
        await self._reopen()
        while True:
            slot = self._slots[self._cycle]
            if slot is None and await self._open():
                continue
            if slot is not None:
                try:
                    element = await slot.cursor.take()
                except EndOfData:
                    await slot.cursor.close()
                    self._put(self._cycle, None)
                else:
                    self._count(slot, 1)
                    return element
            elif not any(self._slots):
                raise EndOfData
            self._advance()

    def _at_hand(self, most: int) -> list[Any]:
        slot = None if self._saved is not None else self._slots[self._cycle]
        if slot is None:
            return []
        left = self.stage.block_length - self._block
        elements = slot.cursor.take_at_hand(most if self.stage.cycle_length == 1 else min(most, left))
        if elements:
            self._count(slot, len(elements))
        return elements

    def _count(self, slot: _Slot, count: int) -> None:
        """Note that elements were taken from the dataset in turn."""
        slot.after = slot.cursor.position()
        self._block += count
        if self._block >= self.stage.block_length:
            self._advance()

    def _advance(self) -> None:
        self._cycle, self._block = (self._cycle + 1) % self.stage.cycle_length, 0

    async def _open(self) -> bool:
        """Open the dataset of the next element in the present slot. Returns False if the input has ended."""
        before = self._input.position()
        try:
            self._put(self._cycle, await self._opened(self._input, before, None))
        except EndOfData:
            return False
        return True

    async def _opened(self, source: Cursor[Any], before: Position, place: Position) -> _Slot:
        number, element = source.given, await source.take()
        call = self._calls.call(self.stage.function, *arguments(element))
        stage = await self._calls.result(number, call, stage_of)
        if self.stage.parallel:
            stage = _Limited(stage, self.stage.block_length, self._free)
        return _Slot(before, stage.begin(self.run.at_input(1).in_epoch(number), place))

    async def _reopen(self) -> None:
        """Open the datasets of a saved position."""
        if self._saved is None:
            return
        for number, saved in enumerate(self._saved):
            if saved is not None:
                before, after = entries(saved, 2)
                source = self.stage.inputs[0].begin(self.run.at_input(0), before)
                try:
                    self._put(number, await self._repeated(self._opened(source, before, after)))
                finally:
                    await source.close()
        self._saved = None

    def _put(self, number: int, slot: _Slot | None) -> None:
        self._slots[number] = slot
        self.inputs = (self._input, *[each.cursor for each in self._slots if each is not None])

    def _position(self) -> Position:
        if self._saved is not None:
            return [self._input.position(), self._cycle, self._block, self._saved]
        slots = [None if slot is None else [slot.before, slot.after] for slot in self._slots]
        return [self._input.position(), self._cycle, self._block, slots]

    def does(self) -> str:
        """Its function."""
        return "its function"

    async def close(self) -> None:
        """Wait for a running call, and close all inputs."""
        await self._calls.settle()
        await super().close()


class Interleave(Stage):
    """The elements of the datasets that a function makes of elements, some of each in turn.

    Attributes:
        function: returns a dataset for an element.
        cycle_length: the most datasets that are open at a time.
        block_length: the number of elements taken from one of them before the next one has its turn.
        parallel: the most open datasets that make an element ahead at a time; 0 if only the one in turn makes elements.
    """

    name = "interleave"
    cursor: ClassVar = _InterleaveCursor

    def __init__(
        self,
        source: Stage,
        function: UserFunction,
        cycle_length: int = 1,
        block_length: int = 1,
        parallel: int = 0,
        spec: Any = None,
    ) -> None:
        super().__init__(spec, source)
        self.function: Final = function
        self.cycle_length: Final = cycle_length
        self.block_length: Final = block_length
        self.parallel: Final = parallel

    def details(self) -> str:
        """The lengths of cycle and block."""
        return f"{self.cycle_length}, {self.block_length}"


class FlatMap(Interleave):
    """The elements of the datasets that a function makes of elements, one dataset after the other."""

    name = "flat_map"


class _LimitedCursor(PrefetchCursor):
    async def _take(self) -> tuple[Any, Position]:
        assert isinstance(self.stage, _Limited)
        async with self.stage.free:
            return await super()._take()


class _Limited(Prefetch):
    """The elements of an open dataset, made ahead while no more than `parallel` are making one."""

    cursor: ClassVar = _LimitedCursor

    def __init__(self, source: Stage, size: int, free: asyncio.Semaphore) -> None:
        super().__init__(source, size, source.line)
        self.free: Final = free
