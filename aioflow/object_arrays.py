"""Arrays of strings and other Python objects, worked on in slices.

Whatever touches Python objects holds the GIL, also on a compute thread. Python hands the GIL over between two of its
own instructions (every 5 ms, if another thread waits for it), but never inside of a call into C, and one such call over
an array of millions of strings takes seconds, for which the event loop stands still. So no call here is given more than
SLICE elements.

What still holds the GIL in one call, because C code of others gives no way to cut it:

- one string at a time: `upper`, `split`, `decode` and so on of a string of 100 MB take about 0.1 s;
- `json.loads` of one example, about 10 ms for each MB;
- freeing an array of strings when its last reference goes: about 10 ms for each million.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
SLICE: Final = 4096
"""The most elements that one call into C handles: it takes less than a millisecond."""


def slices(count: int) -> Iterator[slice]:
    """Slices that make up range(count)."""
    for begin in range(0, count, SLICE):
        yield slice(begin, min(begin + SLICE, count))


def listed(array: AnyArray) -> list[Any]:
    """The elements in a list, those of the last axis after one another: `array.ravel().tolist()`."""
    flat = raveled(array)
    if flat.size <= SLICE:
        return flat.tolist()
    items: list[Any] = []
    for part in slices(flat.size):
        items += flat[part].tolist()
    return items


def array_of(items: Sequence[Any], shape: Sequence[int] | None = None, dtype: Any = object) -> AnyArray:
    """An array of these strings or numbers, of rank 1 if no shape is given."""
    made = np.empty(len(items), dtype)
    for part in slices(len(items)):
        made[part] = items[part]
    return made if shape is None else made.reshape(shape)


def raveled(array: AnyArray) -> AnyArray:
    """The elements in one axis: a view if there can be one."""
    if array.dtype != object or array.size <= SLICE or array.flags.c_contiguous:
        return array.reshape(-1)
    return taken(array, np.arange(array.size))


def taken(array: AnyArray, places: AnyArray) -> AnyArray:
    """The elements at these places, counted as if the array had one axis."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    wanted = places.reshape(-1)
    made = np.empty(wanted.size, array.dtype)
    for part in slices(wanted.size):
        made[part] = flat[wanted[part]]
    return made.reshape(places.shape)


def copied(array: AnyArray) -> AnyArray:
    """A copy."""
    if array.dtype != object or array.size <= SLICE:
        return array.copy()
    flat = raveled(array)
    made = np.empty(array.shape, object)
    into = made.reshape(-1)
    for part in slices(array.size):
        into[part] = flat[part]
    return made


def mapped(function: Callable[..., Any], dtype: Any, *arrays: AnyArray) -> AnyArray:
    """`function` of the elements at each place of the arrays, which are broadcast together."""
    count = len(arrays)
    made = np.frompyfunc(function, count, 1)
    whole = np.broadcast_arrays(*arrays) if count > 1 else arrays
    shape = whole[0].shape
    if whole[0].size <= SLICE:
        return np.asarray(made(*whole), object).astype(dtype, copy=False)
    result = np.empty(whole[0].size, dtype)
    flat = [raveled(array) for array in whole]
    for part in slices(result.size):
        result[part] = made(*[array[part] for array in flat])
    return result.reshape(shape)


def kinds_of(array: AnyArray) -> set[type]:
    """The types of the elements."""
    flat = raveled(array)
    found: set[type] = set()
    for part in slices(flat.size):
        found.update(map(type, flat[part].tolist()))
    return found


def joined(separator: bytes, items: Iterable[bytes]) -> bytes:
    """The strings, one after the other, with the separator between two."""
    each = iter(items)
    parts = []
    while part := list(itertools.islice(each, SLICE)):
        parts.append(separator.join(part))
    return separator.join(parts)


def rising(items: Iterable[Any]) -> list[Any]:
    """The elements in rising order: `sorted(items)`."""
    each = iter(items)
    runs = []
    while part := list(itertools.islice(each, SLICE)):
        runs.append(sorted(part))
    return runs[0] if len(runs) == 1 else list(heapq.merge(*runs))


def firsts(array: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Where each distinct element of a vector stands first, rising; for each element which of these it is like."""
    seen: dict[Any, int] = {}
    places: list[int] = []
    which = np.empty(array.size, np.int64)
    for part in slices(array.size):
        found = []
        for place, item in enumerate(array[part].tolist(), part.start):
            number = seen.setdefault(item, len(places))
            if number == len(places):
                places.append(place)
            found.append(number)
        which[part] = found
    return array_of(places, dtype=np.int64), which


__all__ = [
    "SLICE", "AnyArray", "array_of", "copied", "firsts", "joined", "kinds_of", "listed", "mapped", "raveled", "rising",
    "slices", "taken",
]  # fmt: skip
