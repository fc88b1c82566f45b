"""Stages and cursors: the parts of a dataset, and the place of one iteration in each of them.

A stage is an immutable description: its inputs, its parameters, and the user's line that made it. `begin` returns a
cursor, which gives the elements of one iteration. A cursor is pulled: it takes from its inputs what it needs for the
next element, and nothing before it is asked. Only the cursors of `ahead` run tasks, which work ahead up to a bound.

A cursor gives the same elements whenever it begins at the same position with the same `Run`.
"""

import abc
import asyncio
import contextlib
import dataclasses
import enum
import logging
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from aioflow import errors
from aioflow.data.position import Position, as_number, entries
from aioflow.graph.operation import user_line
from aioflow.waiting.tasks import Slice, slice_of

_log: Final = logging.getLogger("aioflow.input")


class EndOfData(Exception):
    """A stage has no further element."""


class OnError(enum.Enum):
    """What happens to an element for which a function fails."""

    RAISE = enum.auto()
    DROP = enum.auto()
    WARN = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What decides the order of shuffles in one iteration, and whether elements are left out.

    Attributes:
        entropy: a number for the shuffles without a seed.
        place: the way from the last stage to this one, so that two shuffles without a seed differ.
        epochs: the number of the epoch in the iteration, and in each `repeat` around the stage.
        on_error: what happens to an element for which a function of `map` or `filter` fails.
    """

    entropy: int
    place: tuple[int, ...] = ()
    epochs: tuple[int, ...] = (0,)
    on_error: OnError = OnError.RAISE

    def at_input(self, number: int) -> "Run":
        """Return the run of an input of the stage."""
        return dataclasses.replace(self, place=(*self.place, number))

    def in_epoch(self, number: int) -> "Run":
        """Return the run of an epoch of a `repeat`."""
        return dataclasses.replace(self, epochs=(*self.epochs, number))

    def seed(self, seed: int | None, reshuffle: bool = True) -> str:
        """Return the text that seeds the chance of a stage in one epoch; the same in each unless `reshuffle`."""
        text = f"{self.entropy} at {self.place}" if seed is None else seed
        return f"{text} in {self.epochs if reshuffle else ()}"

    def once(self, entropy: int) -> "Run":
        """Return the run of a result that is made once for all epochs, and kept: no element is left out of it."""
        return dataclasses.replace(self, entropy=entropy, epochs=(), on_error=OnError.RAISE)

    def leaves_out(self, error: errors.OpError) -> bool:
        """Whether the element that has this error is left out. The log warns of it, if that was asked."""
        if self.on_error is OnError.WARN:
            _log.warning("an element is left out: %s", error)
        return self.on_error is not OnError.RAISE


class Stage:
    """One stage of a dataset.

    Attributes:
        name: the method or class that makes such stages.
        cursor: the class of its cursors.
        spec: a structure with the dtype and shape of each component of an element; None if a function decides them.
        inputs: the stages from which it takes.
        line: the user's line that made it.
    """

    name: str
    cursor: "ClassVar[type[Cursor[Any]]]"

    def __init__(self, spec: Any, *inputs: "Stage", line: str | None = None) -> None:
        self.spec: Final = spec
        self.inputs: Final = inputs
        self.line: Final = user_line_text() if line is None else line

    def begin(self, run: Run, position: Position = None) -> "Cursor[Any]":
        """Return a cursor at a position; at the first element for None. ValueError if it is no position of it."""
        return self.cursor(self, run, position)

    def cardinality(self) -> float | None:
        """The number of its elements: infinity if it never ends, None if only an iteration can tell."""
        return None

    def details(self) -> str:
        """Its parameters as text, if a position depends on them."""
        return ""

    def __str__(self) -> str:
        """The stage and its inputs as text."""
        return f"{self.name}({', '.join(filter(None, [*map(str, self.inputs), self.details()]))})"

    def failed(self, error: BaseException, number: int | None = None) -> errors.OpError:
        """Return the OpError for an exception, at an element if that is known, with the name and line of the stage."""
        made = errors.from_exception(error)
        if made.op is None and number is not None:
            made.message = f"element {number}: {made.message}"
        return made.at(self.name, "dataset", line=self.line or None, device=None, shapes=())


class OneToOne(Stage):
    """A stage that has as many elements as its only input."""

    def cardinality(self) -> float | None:
        """The number of elements of the input."""
        return self.inputs[0].cardinality()


def user_line_text() -> str:
    """Return the innermost line of the call stack outside of aioflow; empty if there is none."""
    line = user_line()
    return "" if line is None else f"{line[0]}:{line[1]} in {line[2]}"


S = TypeVar("S", bound=Stage)
E = TypeVar("E")


class Cursor(abc.ABC, Generic[S]):
    """The place of one iteration in a stage.

    One task at a time takes from it. A cursor whose `take` failed is at no position, and can only be closed.

    Attributes:
        stage: its stage.
        run: decides the order of shuffles.
        given: the number of elements that it has given.
        busy: whether it is making an element.
        inputs: the cursors from which it takes now.
    """

    def __init__(self, stage: S, run: Run, position: Position) -> None:
        given, own = (0, None) if position is None else entries(position, 2)
        self.stage: Final[S] = stage
        self.run: Final = run
        self.given: int = as_number(given)
        self.busy: bool = False
        self._has_ended = False
        self.inputs: Sequence[Cursor[Any]] = ()
        self._start: Final = own

    async def take(self) -> Any:
        """Return the next element. EndOfData if there is none, also when it is asked again."""
        if self._has_ended:
            raise EndOfData
        self.busy = True
        try:
            element = await self._next()
        except EndOfData:
            self._has_ended = True
            raise
        finally:
            self.busy = False
        self.given += 1
        return element

    async def _repeated(self, made: Awaitable[E]) -> E:
        """Return what was made before its position was saved. FailedPreconditionError if the data has ended before."""
        try:
            return await made
        except EndOfData:
            changed = errors.FailedPreconditionError("its data ends before the saved position: it has changed since")
            raise self.stage.failed(changed) from None

    @abc.abstractmethod
    async def _next(self) -> Any:
        """Return the next element. EndOfData if there is none."""

    def take_at_hand(self, most: int) -> list[Any]:
        """Return the next elements that are there already, as `take` would one after the other; `most` at most."""
        elements = self._at_hand(most)
        self.given += len(elements)
        return elements

    def _at_hand(self, most: int) -> list[Any]:
        """Return the next elements that are there already; none if it makes each when it is asked for."""
        return []

    def position(self) -> Position:
        """Return the position after the last element that it has given."""
        return [self.given, self._position()]

    def _position(self) -> Position:
        """Return its own part of the position."""
        return None

    async def close(self) -> None:
        """End its tasks and calls, and close its files, generators and inputs, even if closing one of them fails."""
        async with contextlib.AsyncExitStack() as stack:
            for cursor in self.inputs:
                stack.push_async_callback(cursor.close)

    def waits_for(self) -> str:
        """What a busy cursor waits for: inputs that are busy, or what it does itself."""
        return ", ".join([cursor.stage.name for cursor in self.inputs if cursor.busy]) or self.does()

    def does(self) -> str:
        """What it waits for besides its inputs."""
        return "its turn"

    def buffered(self) -> tuple[int, int] | None:
        """The number of elements that it holds, and the most that it may hold; None if it never holds any."""
        return None

    def walk(self, depth: int = 0) -> "Iterator[tuple[int, Cursor[Any]]]":
        """Yield this cursor and those before it, with their distances."""
        yield depth, self
        for cursor in self.inputs:
            yield from cursor.walk(depth + 1)


class OneInput(Cursor[S]):
    """A cursor whose position is that of its only input.

    Attributes:
        input: the cursor of the only input.
    """

    def __init__(self, stage: S, run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self.input: Final = stage.inputs[0].begin(run.at_input(0), self._input_start())
        self.inputs = (self.input,)

    def _input_start(self) -> Position:
        """Return the position of the input at which it begins."""
        return self._start

    def _position(self) -> Position:
        return self.input.position()


class Turns:
    """Gives the loop a turn when elements from memory have held it for the length of a slice."""

    def __init__(self) -> None:
        self._slice: Slice | None = None

    async def turn(self) -> None:
        """Called before each element."""
        if self._slice is None:
            self._slice = slice_of(asyncio.get_running_loop())
        self._slice.begin()
        if self._slice.used_up():
            await asyncio.sleep(0)
