"""Stages that choose or number elements: take, skip, shard, enumerate, ignore_errors."""

import dataclasses
import math
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.data.position import Position
from aioflow.data.stage import EndOfData, OneInput, OnError, OneToOne, Run, Stage
from aioflow.tensors.dtypes import Spec, int64
from aioflow.tensors.shape import SCALAR


class _TakeCursor(OneInput["Take"]):
    async def _next(self) -> Any:
        if 0 <= self.stage.count <= self.given:
            raise EndOfData
        return await self.input.take()

    def _at_hand(self, most: int) -> list[Any]:
        left = most if self.stage.count < 0 else min(most, self.stage.count - self.given)
        return self.input.take_at_hand(left)


class Counted(Stage):
    """A stage with a number of elements.

    Attributes:
        count: the number.
    """

    def __init__(self, source: Stage, count: int) -> None:
        super().__init__(source.spec, source)
        self.count: Final = count

    def details(self) -> str:
        """The number."""
        return str(self.count)


class Take(Counted):
    """The first elements; all if the number is negative."""

    name = "take"
    cursor: ClassVar = _TakeCursor

    def cardinality(self) -> float | None:
        """The number of elements that it takes: all of the input, if that has fewer."""
        size = self.inputs[0].cardinality()
        return size if size is None or self.count < 0 else min(size, self.count)


class _SkipCursor(OneInput["Skip"]):
    async def _next(self) -> Any:
        while self.stage.count < 0 or self.input.given < self.stage.count:
            await self.input.take()
        return await self.input.take()

    def _at_hand(self, most: int) -> list[Any]:
        return self.input.take_at_hand(most) if self.given else []


class Skip(Counted):
    """All but the first elements; none if the number is negative."""

    name = "skip"
    cursor: ClassVar = _SkipCursor

    def cardinality(self) -> float | None:
        """The number of the other elements."""
        size = self.inputs[0].cardinality()
        return 0 if self.count < 0 else None if size is None else max(0, size - self.count)


class _ShardCursor(OneInput["Shard"]):
    async def _next(self) -> Any:
        while True:
            number, element = self.input.given, await self.input.take()
            if number % self.stage.shards == self.stage.index:
                return element


class Shard(Stage):
    """One of every `shards` elements, those whose number leaves the rest `index`."""

    name = "shard"
    cursor: ClassVar = _ShardCursor

    def __init__(self, source: Stage, shards: int, index: int) -> None:
        super().__init__(source.spec, source)
        self.shards: Final = shards
        self.index: Final = index

    def cardinality(self) -> float | None:
        """The number of elements of the shard."""
        size = self.inputs[0].cardinality()
        return size if size in (None, math.inf) else max(0, -((self.index - size) // self.shards))

    def details(self) -> str:
        """The number of shards, and the number of this one."""
        return f"{self.shards}, {self.index}"


class _EnumerateCursor(OneInput["Enumerate"]):
    async def _next(self) -> Any:
        return np.int64(self.stage.start + self.given), await self.input.take()

    def _at_hand(self, most: int) -> list[Any]:
        first = self.stage.start + self.given
        return [(np.int64(number), element) for number, element in enumerate(self.input.take_at_hand(most), first)]


class Enumerate(OneToOne):
    """Pairs of a number, as int64, and an element."""

    name = "enumerate"
    cursor: ClassVar = _EnumerateCursor

    def __init__(self, source: Stage, start: int) -> None:
        super().__init__((Spec(int64, SCALAR), source.spec), source)
        self.start: Final = start


class _IgnoreErrorsCursor(OneInput["IgnoreErrors"]):
    def __init__(self, stage: "IgnoreErrors", run: Run, position: Position) -> None:
        super().__init__(stage, dataclasses.replace(run, on_error=stage.on_error), position)

    async def _next(self) -> Any:
        return await self.input.take()

    def _at_hand(self, most: int) -> list[Any]:
        return self.input.take_at_hand(most)


class IgnoreErrors(Stage):
    """The elements, without those for which a function of `map` or `filter` fails.

    Attributes:
        on_error: what happens to these.
    """

    name = "ignore_errors"
    cursor: ClassVar = _IgnoreErrorsCursor

    def __init__(self, source: Stage, log_warning: bool) -> None:
        super().__init__(source.spec, source)
        self.on_error: Final = OnError.WARN if log_warning else OnError.DROP
