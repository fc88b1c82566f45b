"""Operations on arrays of strings and other Python objects, done in slices to release the GIL.

Code that touches Python objects holds the GIL, also on a compute thread. Python releases the GIL between two of its
instructions (every 5 ms if another thread waits), but never inside a call into C. One such call over millions of
strings takes seconds, and the event loop is blocked meanwhile. So every call here handles at most SLICE_ELEMENTS
elements.

These calls into C cannot be split, and still hold the GIL:

- methods of one string: for 100 MB `strip` takes 0.1 s, `upper` 0.4 s, `split` 0.9 s;
- `json.loads` of one example: 12 ms for each MB;
- freeing an array of strings that was not made here, such as one that was fed: 10 ms for each million, more if the
  strings lie far apart;
- Python's collector, which scans all lists and dicts of a process: 0.1 s for each million elements in them.

Two things run on the loop itself and block it: encoding and decoding strings for the network, 0.4 s for each million,
and converting the feeds of a cluster's client, 0.1 s for each million strings in a list.
"""

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
SLICE_ELEMENTS: Final = 4096
"""The most elements for one call into C; the call takes less than a millisecond."""
_TURN: Final = 2e-3
"""Seconds after which a loop over slices lets other threads run."""
_REST: Final = 1e-4
"""Seconds of that pause.

A thread that waits for the GIL requests it after 5 ms without a release. NumPy releases the GIL in each slice and takes
it again before the other thread is awake. Without this pause the event loop would stand still for the whole loop.
"""
_SHARDS: Final = 256
"""The number of parts of a table. Growing or freeing one table of millions would take tens of milliseconds."""
_DIRECT: Final = 8 * SLICE_ELEMENTS
"""The most elements for one call that only moves them, which takes a few nanoseconds for each."""


class _Owner(np.ndarray[Any, Any]):
    """The memory of an array of objects, which frees the objects in slices."""

    def __del__(self) -> None:
        if self.base is None:  # a view has the owner as its base
            flat = self.view(np.ndarray).reshape(-1)
            for part in slices(flat.size):
                flat[part] = None


def slices(count: int, size: int | None = None) -> Iterator[slice]:
    """Yield slices that cover range(count), by default of SLICE_ELEMENTS.

    In a long loop over them, other threads get the GIL every few milliseconds.
    """
    turn, step = time.perf_counter(), SLICE_ELEMENTS if size is None else size
    for begin in range(0, count, step):
        yield slice(begin, min(begin + step, count))
        if time.perf_counter() - turn > _TURN:
            time.sleep(_REST)
            turn = time.perf_counter()


def empty(shape: int | Sequence[int], dtype: Any = object) -> AnyArray:
    """Return an array without values, to be filled in slices. Its objects are freed in slices too."""
    count = shape if isinstance(shape, int) else math.prod(shape)
    if dtype is not object or count <= _DIRECT:
        return np.empty(shape, dtype)
    owner = _Owner(0, object)
    for part in slices(count, _DIRECT):  # the system takes up to 20 ms to provide 8 MB, while NumPy holds the GIL
        owner.resize(part.stop, refcheck=False)
    return owner.view(np.ndarray).reshape(shape)


def full_array(shape: int | Sequence[int], value: Any) -> AnyArray:
    """Return an array of objects that are all `value`."""
    made = empty(shape)
    flat = made.reshape(-1)
    for part in slices(flat.size):
        flat[part] = value
    return made


def to_list(array: AnyArray) -> list[Any]:
    """Return the elements as a list in row-major order: `array.ravel().tolist()`."""
    flat = ravel_array(array)
    items: list[Any] = []
    for part in slices(flat.size):
        items += flat[part].tolist()
    return items


def total_length(value: Any) -> int:
    """Return the number of bytes in all strings of an array, or in one string."""
    if isinstance(value, bytes):
        return len(value)
    flat = ravel_array(value)
    return sum([sum(map(len, flat[part].tolist())) for part in slices(flat.size)])


def make_array(items: Sequence[Any], shape: Sequence[int] | None = None, dtype: Any = object) -> AnyArray:
    """Return an array of these strings or numbers, of rank 1 if no shape is given."""
    made = empty(len(items), dtype)
    for part in slices(len(items)):
        made[part] = items[part]
    return made if shape is None else made.reshape(shape)


def ravel_array(array: AnyArray) -> AnyArray:
    """Return the elements in one axis, as a view if possible."""
    if array.dtype != object or array.size <= SLICE_ELEMENTS or array.flags.c_contiguous:
        return array.reshape(-1)
    return take_elements(array, _count_from(0, array.size))


def take_elements(array: AnyArray, places: AnyArray) -> AnyArray:
    """Return the elements at these positions of the flattened array."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    wanted = places.reshape(-1)
    made = empty(wanted.size, object if array.dtype == object else array.dtype)
    for part in slices(wanted.size):
        made[part] = flat[wanted[part]]
    return made.reshape(places.shape)


def put_elements(array: AnyArray, places: AnyArray, values: Any) -> None:
    """Set the elements at these positions of a vector to the values, or all to the one value."""
    if array.dtype != object:
        array[places] = values
        return
    for part in slices(len(places)):
        array[places[part]] = values[part] if np.ndim(values) else values


def concatenate_arrays(arrays: Sequence[AnyArray]) -> AnyArray:
    """Return the elements of all arrays in one axis."""
    made = empty(sum([array.size for array in arrays]))
    begin = 0
    for flat in map(ravel_array, arrays):
        for part in slices(flat.size):
            made[begin + part.start : begin + part.stop] = flat[part]
        begin += flat.size
    return made


def move_positions(move: Callable[..., Any], texts: Sequence[bool], gap: bytes = b"") -> Callable[..., Any]:
    """Wrap `move`, a function that only moves elements: it then moves positions in place of large arrays of strings.

    NumPy moves positions without the GIL. `texts` says which inputs are strings; if one is, all outputs are strings.
    Positions count from 1, and a 0 in a result stands for `gap`.
    """
    if not any(texts):
        return move

    def moved(*inputs: Any, **out: Any) -> Any:
        given = [np.asarray(x, object) for x, text in zip(inputs, texts, strict=True) if text]
        total = sum([array.size for array in given])
        if total <= _DIRECT:
            return move(*inputs, **out)
        ends = np.cumsum([array.size for array in given]).tolist()
        numbers = iter([
            _count_from(end - array.size + 1, array.size).reshape(array.shape)
            for end, array in zip(ends, given, strict=True)
        ])  # fmt: skip
        found = move(*[next(numbers) if text else x for x, text in zip(inputs, texts, strict=True)])
        flat = ravel_array(given[0]) if len(given) == 1 else concatenate_arrays(given)
        if isinstance(found, (list, tuple)):
            return tuple([_take_numbered(flat, numbers, gap) for numbers in found])
        return _take_numbered(flat, found, gap)

    return moved


def _count_from(first: int, count: int) -> AnyArray:
    """Return `count` integers from `first` on."""
    made = np.empty(count, np.intp)
    for part in slices(count):
        made[part] = np.arange(first + part.start, first + part.stop)
    return made


def _take_numbered(flat: AnyArray, numbers: AnyArray, gap: bytes) -> AnyArray:
    """Return the elements with these numbers, which count from 1, and `gap` for each 0."""
    wanted = numbers.reshape(-1)
    made = empty(wanted.size)
    for part in slices(wanted.size):
        places = wanted[part]
        made[part] = flat[places - 1]
        made[part][places == 0] = gap
    return made.reshape(numbers.shape)


def copy_array(array: AnyArray) -> AnyArray:
    """A copy."""
    if array.dtype != object or array.size <= SLICE_ELEMENTS:
        return array.copy()
    if not array.flags.c_contiguous:
        return ravel_array(array).reshape(array.shape)
    made, flat = empty(array.shape), array.reshape(-1)
    into = made.reshape(-1)
    for part in slices(array.size):
        into[part] = flat[part]
    return made


def apply_ufunc(function: Callable[..., AnyArray], dtype: Any, *arrays: Any) -> AnyArray:
    """Apply the ufunc `function` to the arrays, which are broadcast together."""
    given = [array if isinstance(array, np.ndarray) else np.asarray(array, object) for array in arrays]
    if math.prod([array.size for array in given]) <= SLICE_ELEMENTS:
        made = function(*given)
        return (made if isinstance(made, np.ndarray) else np.asarray(made, object)).astype(dtype, copy=False)
    shape = np.broadcast_shapes(*[array.shape for array in given])
    result = empty(math.prod(shape), dtype)
    flat = [array.reshape(()) if array.size == 1 else ravel_array(np.broadcast_to(array, shape)) for array in given]
    for part in slices(result.size):
        result[part] = function(*[array[part] if array.ndim else array for array in flat])
    return result.reshape(shape)


def map_elements(function: Callable[..., Any], dtype: Any, *arrays: Any) -> AnyArray:
    """Apply `function` elementwise to the arrays, which are broadcast together. Twice as fast as `np.frompyfunc`."""

    def each(*parts: AnyArray) -> AnyArray:
        shape = parts[0].shape if len(parts) == 1 else np.broadcast_shapes(*[part.shape for part in parts])
        items = [(part if part.shape == shape else np.broadcast_to(part, shape)).reshape(-1).tolist() for part in parts]
        made = np.empty(len(items[0]), object)
        made[:] = list(map(function, *items))
        return made.reshape(shape)

    return apply_ufunc(each, dtype, *arrays)


def element_types(array: AnyArray) -> set[type]:
    """Return the Python types of the elements."""
    flat = ravel_array(array)
    found: set[type] = set()
    for part in slices(flat.size):
        found.update(map(type, flat[part].tolist()))
    return found


def distinct_elements(array: AnyArray) -> set[Any]:
    """Return the elements as a set."""
    found: set[Any] = set()
    for part in slices(array.size):
        found.update(array[part].tolist())
    return found


def join_strings(separator: bytes, items: Iterable[bytes]) -> bytes:
    """Return `separator.join(items)`."""
    each = iter(items)
    parts = []
    while part := list(itertools.islice(each, SLICE_ELEMENTS)):
        parts.append(separator.join(part))
    return separator.join(parts)


def sort_items(items: Iterable[Any]) -> list[Any]:
    """Return `sorted(items)`."""
    each = iter(items)
    runs = []
    while part := list(itertools.islice(each, SLICE_ELEMENTS)):
        runs.append(sorted(part))
    return list(heapq.merge(*runs)) if len(runs) > 1 else [item for run in runs for item in run]


def first_places(array: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the rising first positions of a vector's distinct elements, and each element's number among them."""
    seen: list[dict[Any, int]] = [{} for _ in range(_SHARDS)]
    places, count = [np.empty(0, np.int64)], 0
    which = np.empty(array.size, np.int64)
    for part in slices(array.size):
        found, new = [], []
        for place, item in enumerate(array[part].tolist(), part.start):
            number = seen[hash(item) % _SHARDS].setdefault(item, count)
            if number == count:
                new.append(place)
                count += 1
            found.append(number)
        which[part] = found
        places.append(np.array(new, np.int64))
    while seen:
        seen.pop()
    return np.concatenate(places), which
