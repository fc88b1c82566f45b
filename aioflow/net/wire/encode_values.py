"""Values as bytes: a descriptor for the header, and a stream of raw bytes beside it.

    ["array", "float32", [2, 3], 24]     the elements in C order, little-endian
    ["scalar", "float32", 4]             a NumPy scalar, likewise
    ["strings", [2], 21]                 an array of bytes: their lengths as uint64, then all of them joined
    ["bytes", 7]                         one bytes object
    ["list", 40, 192]                    a TensorList: 40 bytes of structure, then its elements; see `arriving`
    ["plain", 7]                         None, a bool, an int, a float or a short text, whole in the header
    ["dead"]                             the mark of a value on a branch that was not taken

The sender's buffers are views of the arrays, no copies, unless these are small or not contiguous: who sends an array
lets nobody write into it until the message is sent. The receiver knows the size before it takes memory, takes it
once, and each frame is copied to where it belongs. The other side is in `arriving`.
"""

import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from aioflow import errors
from aioflow.kernels.control.control_flow import DEAD
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.plain_data import summarise
from aioflow.tensors.tensor_list import CLEARED, UNWRITTEN, TensorList

Descriptor = list[Any]
Buffer = bytes | memoryview

MOST_ELEMENTS: Final = 1 << 20
"""So many slots a list may have to be sent."""
DEEPEST: Final = 8
"""How deep lists may be nested."""
ALIGNED: Final = 64
"""At a multiple of so many bytes begins each element of a list."""
LENGTH: Final = np.dtype("<u8")
"""How the length of a string is written."""
_STACKED: Final = 4096
"""Elements of a list of at most so many bytes are sent stacked, where neighbours are alike."""
_SMALL: Final = 4096
"""Arrays of at most so many bytes are copied: a view costs more."""
_LONGEST_TEXT: Final = 4096

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("aioflow.net sends arrays as they lie in memory, which must be little-endian")


class Sent(NamedTuple):
    """A value on its way out."""

    descriptor: Descriptor
    buffers: Sequence[Buffer] = ()
    nbytes: int = 0


def describe(value: Any) -> Sent:
    """`value` as it is sent. InvalidArgumentError if it is of this process alone, as a handle is."""
    return _describe(value, 0)


def _describe(value: Any, depth: int) -> Sent:
    if isinstance(value, np.ndarray):
        return _strings(value) if value.dtype.hasobject else _array(value)
    if isinstance(value, np.generic):
        return Sent(["scalar", _name_of(value.dtype), value.nbytes], [value.tobytes()], value.nbytes)
    if isinstance(value, bytes):
        return Sent(["bytes", len(value)], [value], len(value))
    if value is DEAD:
        return Sent(["dead"])
    if isinstance(value, TensorList):
        return _list(value, depth)
    if value is None or type(value) in (bool, int, float, str):
        _check_plain(value)
        return Sent(["plain", value])
    raise errors.InvalidArgumentError(f"{summarise(value)} of type {type(value).__name__} cannot leave its process")


def _array(array: AnyArray) -> Sent:
    descriptor = ["array", _name_of(array.dtype), list(array.shape), array.nbytes]
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.nbytes <= _SMALL:
        return Sent(descriptor, [array.tobytes()], array.nbytes)
    return Sent(descriptor, [bytes_of(np.ascontiguousarray(array))], array.nbytes)


@functools.lru_cache(256)
def _name_of(dtype: np.dtype[Any]) -> str:
    name = dtypes.as_dtype(dtype).name
    if name == "string":
        raise errors.InvalidArgumentError(f"an array of NumPy's {dtype} is no tensor: texts are objects of bytes")
    return name


def bytes_of(array: AnyArray) -> memoryview:
    """The memory of an array that is contiguous."""
    return array.reshape(-1).view(np.uint8).data


def _strings(array: AnyArray) -> Sent:
    items = array.reshape(-1).tolist()
    if not all(type(item) is bytes for item in items):
        stray = next(item for item in items if type(item) is not bytes)
        raise errors.InvalidArgumentError(f"{summarise(stray)} of type {type(stray).__name__} cannot leave its process")
    lengths = np.fromiter(map(len, items), LENGTH, len(items))
    joined = b"".join(items)
    nbytes = lengths.nbytes + len(joined)
    return Sent(["strings", list(array.shape), nbytes], [bytes_of(lengths), memoryview(joined)], nbytes)


def _check_plain(value: Any) -> None:
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        raise errors.InvalidArgumentError(f"{summarise(value)} has more than 64 bits")
    if type(value) is str and len(value.encode(errors="replace")) > _LONGEST_TEXT:
        raise errors.InvalidArgumentError(f"a text of {len(value)} characters is sent as bytes or as an array")


def _list(value: TensorList, depth: int) -> Sent:
    """The elements one after the other, each aligned; runs of small ones that are alike as one array."""
    if depth >= DEEPEST:
        raise errors.InvalidArgumentError(f"lists are nested more than {DEEPEST} deep")
    if len(value) > MOST_ELEMENTS:
        raise errors.InvalidArgumentError(f"a list of {len(value)} slots cannot be sent; {MOST_ELEMENTS} are the most")
    runs: list[list[Any]] = []
    buffers: list[Buffer] = []
    nbytes = 0
    for first, items in _runs(value.elements()):
        sent = Sent(["cleared"]) if items[0] is CLEARED else _describe(_stacked(items), depth + 1)
        runs.append([first, len(items), sent.descriptor])
        padding = -sent.nbytes % ALIGNED
        buffers += [*sent.buffers, memoryview(bytes(padding))]
        nbytes += sent.nbytes + padding
    structure = msgpack.packb([len(value), runs])
    return Sent(["list", len(structure), nbytes], [memoryview(structure), *buffers], len(structure) + nbytes)


def _stacked(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else np.stack(items)


def _runs(slots: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Neighbouring slots that can be sent as one, with the first's index. Unwritten ones are left out."""
    run: list[Any] = []
    for index, item in enumerate(slots):
        if run and _alike(run[-1], item):
            run.append(item)
            continue
        if run:
            yield index - len(run), run
        run = [] if item is UNWRITTEN else [item]
    if run:
        yield len(slots) - len(run), run


def _alike(one: Any, other: Any) -> bool:
    if one is CLEARED or other is CLEARED:
        return one is other
    arrays = isinstance(one, (np.ndarray, np.generic)) and isinstance(other, (np.ndarray, np.generic))
    return arrays and one.dtype == other.dtype and one.shape == other.shape and 0 < one.nbytes <= _STACKED
