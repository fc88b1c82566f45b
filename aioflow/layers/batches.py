"""Batches of a model's inputs and labels, from arrays, datasets and generators."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.checks import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from aioflow.data.dataset import Dataset
from aioflow.layers.blocks import Block, batches_in_block
from aioflow.layers.conversion import AreInputs, are_arrays, batch_of, check_rows, inputs_alone, made_of
from aioflow.layers.fed import Batch
from aioflow.layers.iteration import END, step
from aioflow.layers.numbers import number, whole


class ArrayBatches:
    """Batches of rows of arrays, in their order or in a new random one in each epoch."""

    def __init__(
        self,
        batch: Batch,
        batch_size: int,
        steps: int | None = None,
        random: np.random.Generator | None = None,
    ) -> None:
        """With `steps` an epoch has that many batches, from the beginning on, and begins anew at the end.

        `random` gives a new order in each epoch; None keeps that of the rows. ValueError if the arrays have no rows, or
        not all as many.
        """
        if not batch.values:
            raise ValueError("there are no arrays")
        check_rows(batch)
        if not batch.size:
            raise ValueError("there are no elements")
        self._batch: Final = batch
        self._batch_size: Final = batch_size
        self._random: Final = random
        self._steps: Final = steps
        self._together: Final = batches_in_block(batch, batch_size)
        self._began = self._random_state()
        self._done = 0
        """The batches of the next epoch that an earlier training has used."""
        self.count: Final[int] = -(-batch.size // batch_size) if steps is None else steps

    def changed(self, change: Callable[[Batch], Batch]) -> "ArrayBatches":
        """The same with the arrays that `change` makes of these."""
        return ArrayBatches(change(self._batch), self._batch_size, self._steps, self._random)

    def divided(self, part: float, last_steps: int | None) -> "tuple[ArrayBatches, ArrayBatches]":
        """The elements but for that part at the end, and those, `last_steps` batches of them if it is a number.

        TypeError unless `part` is a number, ValueError outside of (0, 1) or if one of both is empty.
        """
        if not 0 < number("validation_split", part) < 1:
            raise ValueError(f"validation_split is more than 0 and less than 1, not {part}")
        kept = int(self._batch.size * (1 - part))
        if not 0 < kept < self._batch.size:
            raise ValueError(f"validation_split {part} of {self._batch.size} elements leaves nothing on one side")
        first, last = self._batch.rows(slice(kept)), self._batch.rows(slice(kept, None))
        kept_batches = ArrayBatches(first, self._batch_size, self._steps, self._random)
        return kept_batches, ArrayBatches(last, self._batch_size, last_steps)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def epoch(self, what: str) -> AsyncGenerator[Block, None]:
        """Yield the batches of an epoch, in blocks."""
        self._began, done, self._done = self._random_state(), self._done, 0
        try:
            for block in self._blocks(done, self.count):
                yield block
        finally:
            self._began = self._random_state()

    def position(self) -> dict[str, Any]:
        """What the present epoch began with, or the next one between epochs, as plain data."""
        return {"random": self._began}

    def may_go_on(self, position: Mapping[str, Any]) -> bool:
        """Whether it is a position of arrays in such an order."""
        return "random" in position and (position["random"] is None) == (self._random is None)

    def go_on(self, position: Mapping[str, Any], done: int) -> None:
        """Let the next epoch be that of a position, without as many of its batches."""
        self._done = done
        if self._random is not None:
            self._random.bit_generator.state = position["random"]

    def _random_state(self) -> Any:
        """The state of the random numbers that shuffle; None without any."""
        return None if self._random is None else self._random.bit_generator.state

    def _blocks(self, first: int, end: int) -> Iterator[Block]:
        """The batches from the one of number `first` to the one before `end`, in as many passes as that takes."""
        count, size = -(-self._batch.size // self._batch_size), self._batch_size
        for passed in range(0, end, count):
            order = None if self._random is None else self._random.permutation(self._batch.size)
            last = min(count, end - passed)
            for start in range(max(0, first - passed), last, self._together):
                rows = slice(start * size, min(start + self._together, last) * size)
                taken = self._batch.rows(rows) if order is None else self._batch.taken(order[rows])
                yield Block(taken, size)


class GivenBatches:
    """Batches that an iterable, an async iterable, or an object with numbered items gives.

    A batch is inputs, or a tuple of inputs, labels and weights, or a list of these unless `are_inputs` says otherwise.

    What can be iterated again, such as a dataset, begins anew in each epoch. With `steps` it goes on in the next epoch,
    and begins anew where it ends. A generator always goes on, and is the caller's to close. Iterables that are not
    async run on a thread, one step at a time.

    Attributes:
        count: the number of batches of an epoch, if it is known.
    """

    def __init__(self, given: Any, steps: int | None, are_inputs: AreInputs = inputs_alone) -> None:
        """ValueError if it is known to have no end and `steps` is None."""
        self._given: Final = given
        self._steps: Final = steps
        self._are_inputs: Final = are_inputs
        self._is_single: Final = isinstance(given, (Iterator, AsyncIterator))
        self._iterator: Any = given if self._is_single else None
        self._epoch = 0
        self._used = self._skipped = self._done = 0
        """Batches used since it began; those to skip, used by an earlier training, in all and of the next epoch."""
        self.count: Final = _known_count(given) if steps is None else steps

    async def epoch(self, what: str) -> AsyncGenerator[Block, None]:
        """Yield the batches of an epoch, which errors call `what`, in a block for each.

        Raises:
            OutOfRangeError: there are none, or fewer than were asked for.
            ValueError: one is empty, or has other parts than the first one.
        """
        first, taken, done, self._done = None, self._done, self._done, 0
        try:
            while self._steps is None or taken < self._steps:
                element = await self._next()
                if element is END:
                    break
                taken += 1
                name = f"{what}: batch {taken}"
                batch = batch_of(element, name, self._are_inputs)
                first = first or batch
                _check(batch, first, name)
                try:
                    yield Block(batch, batch.size, name)
                finally:  # training may stop here
                    self._used += 1
        finally:
            if self._steps is None:
                await self.aclose()
        if taken == done or (self.count is not None and taken < self.count):
            wanted = f", and {self.count} were asked for" if self.count else ""
            mend = "fewer steps" if self._steps else "a number of steps, such as steps_per_epoch or validation_steps"
            raise errors.OutOfRangeError(
                f"{what} has {taken} batches{wanted}: a generator gives its elements once; give a dataset, or {mend}"
            )

    def position(self) -> dict[str, Any]:
        """How often the data were iterated to their end, and how many batches were used since, as plain data."""
        ended = self._is_single or self._iterator is None
        return {"ended": self._epoch - (not ended), "used": 0 if self._iterator is None else self._used}

    def may_go_on(self, position: Mapping[str, Any]) -> bool:
        """Whether it is a position of batches that an iterable gives."""
        return "used" in position

    def go_on(self, position: Mapping[str, Any], done: int) -> None:
        """Let the next epoch go on at a position, as if it had already given `done` batches."""
        self._epoch, self._skipped, self._done = position["ended"], position["used"], done

    async def _next(self) -> Any:
        """The next batch, or END. With `steps` it begins anew at the end, unless it has only just begun."""
        begins = self._iterator is None and not self._skipped
        if self._iterator is None:
            self._begin()
        await self._skip()
        element = await step(self._iterator)
        if element is END and not self._is_single:
            await self.aclose()
            if self._steps is not None and not begins:
                self._begin()
                element = await step(self._iterator)
        return element

    async def _skip(self) -> None:
        """Take the batches that an earlier training has used. OutOfRangeError if there are not as many."""
        while self._skipped:
            if await step(self._iterator) is END:
                raise errors.OutOfRangeError(
                    f"training is to go on after {self._used + self._skipped} batches, and the data have {self._used}"
                )
            self._used, self._skipped = self._used + 1, self._skipped - 1

    def _begin(self) -> None:
        given, self._used = self._given, 0
        if isinstance(given, Dataset):
            self._iterator = given.iterate(epoch=self._epoch)
        else:
            self._iterator = aiter(given) if isinstance(given, AsyncIterable) else iter(given)
        self._epoch += 1

    async def aclose(self) -> None:
        """End an iteration that it began itself."""
        iterator, own = self._iterator, not self._is_single
        if own and iterator is not None:
            self._iterator = None
            if hasattr(iterator, "aclose"):
                await iterator.aclose()


def _known_count(given: Any) -> int | None:
    """The number of batches of a dataset, or of what has them by number; None if it is not known."""
    if not isinstance(given, Dataset):
        return len(given) if isinstance(given, _Numbered) else None
    count = given.cardinality()
    if count == INFINITE_CARDINALITY:
        raise ValueError("the dataset has no end: give steps_per_epoch, or steps")
    return None if count == UNKNOWN_CARDINALITY else count


def _check(batch: Batch, first: Batch, name: str) -> None:
    """Raise ValueError if a batch has other parts than the first one."""
    if batch.parts != first.parts:
        raise ValueError(f"{name} has {batch.parts}, and batch 1 has {first.parts}: all batches have the same parts")


class _Numbered:
    """The batches of an object that has them by their numbers, as Keras' `PyDataset`s do.

    After the last one it is told so by its `on_epoch_end`, if it has one.
    """

    def __init__(self, given: Any) -> None:
        self._given: Final = given

    def __len__(self) -> int:
        return len(self._given)

    def __iter__(self) -> Iterator[Any]:
        for index in range(len(self._given)):
            yield self._given[index]
        end = getattr(self._given, "on_epoch_end", None)
        if end is not None:
            end()


def _is_numbered(x: Any) -> bool:
    return not isinstance(x, (AsyncIterable, Iterable)) and hasattr(x, "__getitem__") and hasattr(x, "__len__")


def batches_of(
    x: Any,
    y: Any,
    weights: Any,
    batch_size: int | None,
    steps: int | None,
    are_inputs: AreInputs,
    random: np.random.Generator | None = None,
) -> ArrayBatches | GivenBatches:
    """The batches of arrays, in random orders if there are random numbers, or of an iterable that gives them.

    Raises:
        TypeError: labels are given beside an iterable, or something is neither; a number is not whole.
        ValueError: arrays do not have as many rows, or a number is too small.
    """
    for name, given in (("batch_size", batch_size), ("the number of steps", steps)):
        if given is not None:
            whole(name, given, 1)
    if are_arrays(x):
        everything = made_of(x, y, weights)
        return ArrayBatches(everything, 32 if batch_size is None else batch_size, steps, random)
    x = _Numbered(x) if _is_numbered(x) else x
    _check_iterable(x)
    if y is not None or weights is not None:
        raise TypeError("an iterable gives labels and weights itself: give x alone")
    return GivenBatches(x, steps, are_inputs)


def _check_iterable(x: Any) -> None:
    """Raise TypeError for anything but an iterable."""
    if not isinstance(x, (AsyncIterable, Iterable)):
        raise TypeError(f"arrays or an iterable of batches are wanted, not {type(x).__name__}")
