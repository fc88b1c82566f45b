"""The index in the brackets of `tensor[...]`, as plain data.

An index is a tuple of entries: an integer, None for a new axis, "..." for all axes not named, or (start, stop, step)
for a slice. "?" stands for an integer known only in the run: these are inputs of the op, in the order of the index.

    x[3, ::2, None]      (3, (None, None, 2), None)
    x[..., i:j]          ("...", ("?", "?", None))     with data i, j
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import CONVERTERS, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.tensors.dtypes import Array, Dimension, Known, Sizes, Spec, TensorShape

Index = tuple[Any, ...]

ALL: Final = (None, None, None)
"""The slice that takes a whole axis."""


def parse(key: Any) -> tuple[Index, list[Tensor]]:
    """The index of a Python subscript, and its tensors. TypeError for an invalid subscript."""
    data: list[Tensor] = []
    index = tuple([_entry(item, data) for item in (key if isinstance(key, tuple) else (key,))])
    if index.count("...") > 1:
        raise ValueError("an index can have only one Ellipsis (...)")
    return index, data


def _entry(item: Any, data: list[Tensor]) -> Any:
    if item is None:
        return None
    if item is ...:
        return "..."
    if isinstance(item, slice):
        return tuple([None if part is None else _integer(part, data) for part in (item.start, item.stop, item.step)])
    return _integer(item, data)


def _integer(item: Any, data: list[Tensor]) -> Any:
    dtype = getattr(item, "dtype", None)
    if isinstance(item, (bool, np.bool_)) or str(getattr(dtype, "name", "")) == "bool" or _holds_bool(item):
        raise TypeError(
            "the run decides the number of elements under a mask: use af.boolean_mask(tensor, mask), or af.where"
        )
    if isinstance(item, Dimension) and item.value is None:
        raise ValueError("a size is not known when the graph is built: take it from af.shape(x), not from x.shape")
    if not isinstance(item, Tensor) and hasattr(item, "__index__") and np.ndim(item) == 0:
        return operator.index(item)
    if isinstance(item, Tensor) or type(item) in CONVERTERS.keys() - {list, tuple}:
        tensor = convert_to_tensor(item)
        if tensor.dtype.is_integer and tensor.spec.rank in (None, 0):
            return _from_tensor(tensor, data)
    raise TypeError(
        f"{item!r} is not a valid index: use integers, integer scalars, slices, ... or None; af.gather takes vectors"
    )


def _holds_bool(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and (isinstance(item[0], bool) or _holds_bool(item[0]))


def _from_tensor(tensor: Tensor, data: list[Tensor]) -> Any:
    value = constant_value(tensor)
    if value is not None:
        return int(value)
    data.append(tensor)
    return "?"


def filled(index: Index, values: Iterable[int | None]) -> Index:
    """`index` with values for "?", which stays where the value is None."""
    left = iter(values)
    return tuple([_filled(entry, left) for entry in index])


def _filled(entry: Any, left: Iterator[int | None]) -> Any:
    if isinstance(entry, tuple):
        return tuple([_filled(part, left) for part in entry])
    if entry != "?":
        return entry
    value = next(left)
    return "?" if value is None else value


def native(index: Index, text: bool = False) -> Any:
    """An index without "?" as Python's own; for text one that gives an array where it picks a single element."""
    parts = [slice(*e) if isinstance(e, tuple) else ... if e == "..." else e for e in index]
    if text and ... not in parts:
        parts.append(...)
    return parts[0] if len(parts) == 1 else tuple(parts)


def lookup(index: Index, text: bool = False) -> Callable[[Sequence[Array]], Any]:
    """The function from the data of an index to Python's own index."""
    dynamic = [(i, e) for i, e in enumerate(index) if e == "?" or (isinstance(e, tuple) and "?" in e)]
    parts = [slice(*e) if isinstance(e, tuple) else ... if e == "..." else e for e in index]
    template = parts if ... in parts or not text else [*parts, ...]

    def find(data: Sequence[Array]) -> tuple[Any, ...]:
        found, left = template.copy(), map(int, data)
        for place, entry in dynamic:
            found[place] = next(left) if entry == "?" else slice(*[next(left) if e == "?" else e for e in entry])
        return tuple(found)

    return find


def apply(index: Index, spec: Spec) -> Spec:
    """The Spec of the indexed tensor. ValueError if the index does not fit it."""
    if spec.sizes is None:
        return Spec(spec.dtype)
    entries = expanded(index, len(spec.sizes))
    if all(isinstance(e, tuple) and e[:2] in ((None, None), (0, None)) and e[2] in (None, 1) for e in entries):
        return spec
    return Spec(spec.dtype, TensorShape(list(_sizes(entries, spec.sizes))), _known(index, spec.known))


def expanded(index: Index, rank: int) -> Index:
    """`index` with an entry for each axis. ValueError if it names more than there are."""
    named = sum(entry is not None and entry != "..." for entry in index)
    if named > rank:
        raise ValueError(f"{named} axes are indexed, and the rank is {rank}")
    place = index.index("...") if "..." in index else len(index)
    return (*index[:place], *[ALL] * (rank - named), *index[place + 1 :])


def _sizes(entries: Index, sizes: Sizes) -> Iterator[int | None]:
    axis = 0
    for entry in entries:
        if entry is None:
            yield 1
            continue
        if isinstance(entry, tuple):
            yield _length(entry, sizes[axis])
        elif entry != "?":
            _check(entry, axis, sizes[axis])
        axis += 1


def _check(index: int, axis: int, size: int | None) -> None:
    if size is not None and not -size <= index < size:
        raise ValueError(f"index {index} is out of range for axis {axis} of size {size}")


def _length(entry: tuple[Any, Any, Any], size: int | None) -> int | None:
    start, stop, step = entry
    if step == 0:
        raise ValueError("the step of a slice cannot be 0")
    if "?" in entry:
        return None
    if size is not None:
        return len(range(*slice(start, stop, step).indices(size)))
    same_side = start is not None and stop is not None and (start < 0) == (stop < 0)
    return 0 if same_side and not range(start, stop, step or 1) else None


def _known(index: Index, value: Known) -> Known:
    if value is None or any(entry == "?" or (isinstance(entry, tuple) and "?" in entry) for entry in index):
        return None
    found = np.array(value, object)[native(index)]
    if not isinstance(found, np.ndarray):
        return found  # type: ignore[no-any-return]
    return known.capped(found.tolist()) if found.ndim == 1 else None if found.ndim else found.item()
