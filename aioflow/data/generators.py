"""Elements from a generator or an async generator of the user.

A position is the number of elements given: a cursor at a position calls the function anew, and drops the elements
before it. An ordinary generator runs on threads of the loop's executor, one step at a time.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.data.calls import Calls, UserFunction
from aioflow.data.elements import as_element, leaves_of, map_leaves, shapes_of, with_leaves
from aioflow.data.position import Position
from aioflow.data.stage import Cursor, EndOfData, Run, Stage, Turns
from aioflow.tensors import nest
from aioflow.tensors.dtypes import Spec, as_dtype
from aioflow.tensors.object_arrays import copy_array
from aioflow.tensors.recursion import short_repr
from aioflow.tensors.shape import as_shape
from aioflow.waiting.element_spec import Elements

_END: Final = object()


class _GeneratorCursor(Cursor["Generator"]):
    def __init__(self, stage: "Generator", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._turns: Final = Turns()
        self._items: AsyncIterator[Any] | Iterator[Any] | None = None
        self._stepped = 0

    async def _next(self) -> Any:
        if self._items is None:
            made = self._calls.call(self.stage.generator, *self.stage.args)
            self._items = await self._calls.result(0, made, _items_of)
        while self._stepped < self.given:
            await self._repeated(self._step())
        return await self._step()

    async def _step(self) -> Any:
        """Return the next element of the generator. EndOfData if there is none."""
        await self._turns.turn()
        element = await self._calls.result(self._stepped, self._next_value(), self.stage.as_element)
        if element is _END:
            raise EndOfData
        self._stepped += 1
        return element

    async def _next_value(self) -> Any:
        if isinstance(self._items, AsyncIterator):
            return await anext(self._items, _END)
        return await self._calls.on_thread(next, self._items, _END)

    def does(self) -> str:
        """Its generator."""
        return "its generator"

    async def close(self) -> None:
        """Close the generator. OpError if it raises an error, or goes on."""
        items, self._items = self._items, None
        close = getattr(items, "aclose", None) or getattr(items, "close", None)
        if await self._calls.settle() and close is not None:
            closing = close() if isinstance(items, AsyncIterator) else self._calls.on_thread(close)
            await self._calls.result(self._stepped, closing, lambda nothing: None)


class Generator(Stage):
    """The elements of a generator.

    Args:
        generator: returns an iterable or an async iterable; it is called anew for each iteration.
        types: a structure of the dtypes of the components, to which values are converted; None if values decide.
        shapes: a structure of the shapes of the components; None if they are unknown.
        args: the arguments of the function.
        name: the name of the stage.
    """

    cursor: ClassVar = _GeneratorCursor

    def __init__(
        self, generator: UserFunction, types: Any, shapes: Any, args: Sequence[Any], name: str = "from_generator"
    ) -> None:
        super().__init__(None if types is None else _specs(types, shapes))
        self.name = name
        self.generator: Final = generator
        self.args: Final = tuple(args)
        self._elements: Final = None if types is None else Elements(leaves_of(self.spec))

    def as_element(self, value: Any) -> Any:
        """Return the element for a value of the generator. TypeError or ValueError if it does not fit."""
        if value is _END:
            return value
        if self._elements is None:
            return map_leaves(_copied, as_element(value))
        parts = nest.flatten_up_to(self.spec, value)
        return with_leaves(self.spec, self._elements.item(parts))


def _specs(types: Any, shapes: Any) -> Any:
    dtypes = [as_dtype(dtype) for dtype in leaves_of(types)]
    sizes = [None] * len(dtypes) if shapes is None else shapes_of(shapes)
    if len(sizes) != len(dtypes):
        raise ValueError(f"output_types has {len(dtypes)} dtypes, output_shapes has {len(sizes)} shapes")
    return with_leaves(types, [Spec(dtype, as_shape(size)) for dtype, size in zip(dtypes, sizes, strict=True)])


def _items_of(found: Any) -> Any:
    """Return an iterator or an async iterator of the elements. TypeError if there is none."""
    if isinstance(found, AsyncIterable):
        return aiter(found)
    if isinstance(found, Iterable):
        return iter(found)
    raise TypeError(f"a generator function returns an iterable or an async iterable, not {short_repr(found)}")


def _copied(leaf: Any) -> Any:
    """Return a copy of an array, which the generator may use again."""
    return copy_array(leaf) if isinstance(leaf, np.ndarray) else leaf
