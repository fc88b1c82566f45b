"""Describes the elements of queues: components with dtypes, and with shapes as far as they are declared.

Elements are checked and copied when they are put, and converted if application code puts them. So a taken element
belongs to its taker.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import Array, Sizes, Spec
from aioflow.tensors.object_arrays import concatenate_arrays, copy_array, make_array, to_list

Item = tuple[Any, ...]
"""One element: its components."""


class Elements:
    """Elements with these components.

    Args:
        specs: dtype and shape of each component.
        padded: whether a batch of components of different sizes is filled up with zeros, or empty text.
    """

    def __init__(self, specs: Sequence[Spec], padded: bool = False) -> None:
        self.specs: Final = tuple(specs)
        self.padded: Final = padded
        self._dtypes: Final = [spec.dtype.np for spec in specs]
        self._sizes: Final = [spec.sizes for spec in specs]

    def item(self, components: Sequence[Any]) -> Item:
        """The element with these components, as it is kept.

        Raises:
            TypeError: a value cannot be held by the dtype of its component.
            ValueError: there are more or fewer components, or one has another shape.
        """
        self._check_count(components)
        return tuple([self._component(place, value) for place, value in enumerate(components)])

    def rows(self, columns: Sequence[Any]) -> list[Item]:
        """The elements of a batch: of each component all of them, stacked. TypeError or ValueError as for `item`."""
        return list(zip(*map(_split, self.columns(columns)), strict=True))

    def columns(self, columns: Sequence[Any]) -> list[Array]:
        """A batch as it is, converted. TypeError or ValueError as for `item`."""
        self._check_count(columns)
        arrays = [self._converted(place, value) for place, value in enumerate(columns)]
        for place, array in enumerate(arrays):
            if not array.ndim or len(array) != len(arrays[0]):
                shapes = ", ".join(str(list(each.shape)) for each in arrays)
                raise ValueError(f"a batch has as many rows of each component; their shapes are {shapes}")
            self._check_sizes(place, array.shape[1:], "the rows of a batch")
        return arrays

    def batch(self, items: Sequence[Item]) -> tuple[Array, ...]:
        """Elements component by component, stacked. ValueError if their shapes differ and are not to be padded."""
        if not items:
            return tuple([self._empty(place) for place in range(len(self.specs))])
        columns = zip(*items, strict=True)
        return tuple([self._stack(place, column) for place, column in enumerate(columns)])

    # One component

    def _component(self, place: int, value: Any) -> Any:
        if type(value) is bytes and self._sizes[place] == () and self._dtypes[place].kind == "O":
            return value
        array = self._converted(place, value)
        self._check_sizes(place, array.shape, "component" if len(self.specs) == 1 else f"component {place}")
        return array[()] if isinstance(array, np.generic) or not array.ndim else copy_array(array)

    def _converted(self, place: int, value: Any) -> Any:
        """An array or NumPy scalar of the component's dtype; the value itself if it is one."""
        dtype = self._dtypes[place]
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtype and dtype.kind != "O":
            return value
        try:
            return as_array(value, self.specs[place].dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(f"component {place} is {self.specs[place]}: {error}") from None

    def _check_count(self, components: Sequence[Any]) -> None:
        if len(components) != len(self.specs):
            wanted = ", ".join(map(str, self.specs))
            raise ValueError(f"{len(components)} components were given, an element has {len(self.specs)}: {wanted}")

    def _check_sizes(self, place: int, shape: tuple[int, ...], what: str) -> None:
        if not _fits(shape, self._sizes[place]):
            raise ValueError(f"{what} must have shape {self.specs[place].shape}, not {list(shape)}")

    def _empty(self, place: int) -> Array:
        sizes = self._sizes[place] or ()
        return np.empty((0, *[size or 0 for size in sizes]), self._dtypes[place])

    def _stack(self, place: int, column: Sequence[Any]) -> Array:
        dtype, sizes = self._dtypes[place], self._sizes[place]
        if sizes == () or not np.ndim(column[0]):
            return _vector(column, dtype)
        if sizes is None or None in sizes:
            shapes = {value.shape for value in column}
            if len(shapes) > 1:
                return self._pad(place, column, shapes)
        joined = concatenate_arrays(column) if dtype.kind == "O" else np.concatenate(column)
        return joined.reshape(len(column), *column[0].shape)

    def _pad(self, place: int, column: Sequence[AnyArray], shapes: Iterable[tuple[int, ...]]) -> Array:
        if not self.padded:
            found = " and ".join(str(list(shape)) for shape in sorted(shapes)[:2])
            raise ValueError(f"component {place} has elements of shapes {found}, which make no batch")
        dtype = self._dtypes[place]
        filled = np.full((len(column), *map(max, zip(*shapes, strict=True))), b"" if dtype.kind == "O" else 0, dtype)
        for row, value in zip(filled, column, strict=True):
            row[tuple(map(slice, value.shape))] = value
        return filled


class TakesItems(Protocol):
    """Something that elements are taken from."""

    async def take(self) -> Item:
        """Take the next element. OutOfRangeError if there are no more."""


async def each_item(source: TakesItems) -> AsyncIterator[Any]:
    """Element after element, as long as there are any: the components, or the only one."""
    while True:
        try:
            item = await source.take()
        except errors.OutOfRangeError:
            return
        yield item[0] if len(item) == 1 else item


def _vector(column: Sequence[Any], dtype: np.dtype[Any]) -> AnyArray:
    if dtype.kind == "O":
        return make_array(column)
    made = np.empty(len(column), dtype)
    made[:] = column
    return made


def _split(array: AnyArray) -> Iterable[Any]:
    """Yield the rows, each in new memory, so that a kept row does not keep the others alive."""
    if array.ndim > 1:
        return [copy_array(row) for row in array]
    return to_list(array) if array.dtype == object else list(array)


def _fits(shape: tuple[int, ...], sizes: Sizes | None) -> bool:
    if sizes is None or shape == sizes:
        return True
    return len(shape) == len(sizes) and all(size in (None, given) for given, size in zip(shape, sizes, strict=True))
