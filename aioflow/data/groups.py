"""Windows of elements with the same key, and datasets made of these."""

import bisect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls, UserFunction
from aioflow.data.checks import stage_of
from aioflow.data.elements import arguments, map_leaves
from aioflow.data.position import Position
from aioflow.data.replay import ReplayCursor
from aioflow.data.sources import Values
from aioflow.data.stage import Cursor, EndOfData, Run, Stage
from aioflow.tensors.recursion import short_repr
from aioflow.tensors.shape import as_shape

Size = int | UserFunction
"""The number of elements of a window, or a function of its key that returns it."""


class _GroupCursor(ReplayCursor["GroupByWindow"]):
    def __init__(self, stage: "GroupByWindow", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._groups: Final[dict[int, list[Any]]] = {}
        self._sizes: Final[dict[int, int]] = {}
        self._windows = 0
        self._has_all = False

    async def _make(self) -> Any:
        while True:
            for current in self.inputs[1:]:
                try:
                    return await current.take()
                except EndOfData:
                    await current.close()
                    self.inputs = (self.input,)
            await self._open(await self._full())

    async def _full(self) -> int:
        """Return the key of a window that is complete. EndOfData if there is none."""
        while not self._has_all:
            number = self.input.given
            try:
                element = await self.input.take()
            except EndOfData:
                self._has_all = True
                break
            call = self._calls.call(self.stage.key, *arguments(element))
            key: int = await self._calls.result(number, call, self.stage.as_key)
            group = self._groups.setdefault(key, [])
            group.append(element)
            if len(group) >= await self._size(number, key):
                return key
        if not self._groups:
            raise EndOfData
        return min(self._groups)

    async def _size(self, number: int, key: int) -> int:
        """Return the number of elements of a window with this key."""
        size = self.stage.size
        if isinstance(size, int):
            return size
        if key not in self._sizes:
            call = self._calls.call(size, np.int64(key))
            self._sizes[key] = await self._calls.result(number, call, _as_size)
        return self._sizes[key]

    async def _open(self, key: int) -> None:
        """Begin the dataset that is made of a window."""
        number, window = self.input.given - 1, self.stage.window(self._groups.pop(key))
        call = self._calls.call(self.stage.function, np.int64(key), window)
        made = await self._calls.result(number, call, stage_of)
        self.inputs = (self.input, made.begin(self.run.at_input(1).in_epoch(self._windows)))
        self._windows += 1

    def buffered(self) -> tuple[int, int]:
        """The elements in windows that are not complete."""
        held = sum(map(len, self._groups.values()))
        return held, held

    def does(self) -> str:
        """Its functions."""
        return "its functions"

    async def close(self) -> None:
        """Wait for a running call, and close all inputs."""
        await self._calls.settle()
        await super().close()


class GroupByWindow(Stage):
    """The elements of the datasets that a function makes of windows of elements with the same key.

    Attributes:
        key: returns the key of an element.
        function: returns a dataset for a key and the dataset of a window.
        size: the size of windows.
        as_key: makes the key of what `key` returns.

    Args:
        dataset: makes a dataset of its last stage.
    """

    cursor: ClassVar[type[Cursor[Any]]] = _GroupCursor

    def __init__(
        self,
        name: str,
        source: Stage,
        key: UserFunction,
        function: UserFunction,
        size: Size,
        dataset: Callable[[Stage], Any],
        as_key: Callable[[Any], int] | None = None,
    ) -> None:
        super().__init__(None, source)
        self.name = name
        self.key: Final = key
        self.function: Final = function
        self.size: Final = size
        self.as_key: Final = as_key or as_integer
        self._dataset: Final = dataset

    def window(self, elements: list[Any]) -> Any:
        """Return the dataset of a window."""
        return self._dataset(Values(elements, self.line))


class Buckets:
    """The buckets of lengths: bucket number n has those from `boundaries[n - 1]` up to below `boundaries[n]`.

    ValueError unless boundaries rise, and there is one more size than boundaries.
    """

    def __init__(self, boundaries: Sequence[int], sizes: Sequence[int]) -> None:
        self._boundaries: Final = [int(boundary) for boundary in boundaries]
        self._sizes: Final = [int(size) for size in sizes]
        if sorted(set(self._boundaries)) != self._boundaries:
            raise ValueError(f"bucket_boundaries rise from one to the next, unlike {self._boundaries}")
        if len(self._sizes) != len(self._boundaries) + 1 or min(self._sizes) < 1:
            count = len(self._boundaries) + 1
            raise ValueError(f"bucket_batch_sizes has {count} positive numbers here, not {self._sizes}")

    def of_length(self, length: Any) -> int:
        """Return the number of the bucket of a length."""
        return bisect.bisect_right(self._boundaries, as_integer(length))

    def size(self, bucket: int) -> int:
        """Return the number of elements of a batch of a bucket."""
        return self._sizes[bucket]

    def shapes(self, bucket: int, shapes: Any) -> Any:
        """Return shapes whose unknown sizes are the largest length of a bucket.

        InvalidArgumentError for the last bucket, whose lengths have no end.
        """
        if bucket >= len(self._boundaries):
            raise errors.InvalidArgumentError(
                f"an element is as long as the last boundary, {self._boundaries[-1]}, up to which all are padded"
            )
        longest = self._boundaries[bucket] - 1
        return map_leaves(
            lambda shape: [longest if size is None else size for size in as_shape(shape).as_list()], shapes
        )


def as_integer(value: Any) -> int:
    """Return a key or a length. TypeError if it is no integer."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iu":
        raise TypeError(f"a key or a length is an integer, not {short_repr(value)}")
    return int(array)


def _as_size(value: Any) -> int:
    size = as_integer(value)
    if size < 1:
        raise errors.InvalidArgumentError(f"a window has at least one element, not {size}")
    return size
