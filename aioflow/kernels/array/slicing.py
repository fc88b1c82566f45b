"""Slices of a tensor: `tensor[...]` with all of Python's indexing, and `slice`.

The gradient of each is an op that pads its gradient with zeros. The index in the brackets is plain data.

An index is a tuple of entries: an integer, None for a new axis, "..." for all axes not named, or (start, stop, step)
for a slice. "?" stands for an integer known only in the run: these are inputs of the op, in the order of the index.

    x[3, ::2, None]      (3, (None, None, 2), None)
    x[..., i:j]          ("...", ("?", "?", None))     with data i, j
"""

import operator
from builtins import slice as Slice
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import CONVERTERS, NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.concat import unstack
from aioflow.kernels.array.shapes import free, shape_of
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Dimension, Known, Namespace, Sizes, Spec, TensorShape

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
    if isinstance(item, Slice):
        return tuple([None if part is None else _integer(part, data) for part in (item.start, item.stop, item.step)])
    return _integer(item, data)


def _is_mask(key: Any) -> bool:
    """Whether an index is one array or tensor of bools, not a single bool."""
    dtype = getattr(key, "dtype", None)
    return str(getattr(dtype, "name", "")) == "bool" and getattr(key, "shape", ()) != ()


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


def filled(index: Index, values: Iterable[Any]) -> Index:
    """`index` with values for "?", which stays where the value is None."""
    left = iter(values)
    return tuple([_filled(entry, left) for entry in index])


def _filled(entry: Any, left: Iterator[Any]) -> Any:
    if isinstance(entry, tuple):
        return tuple([_filled(part, left) for part in entry])
    if entry != "?":
        return entry
    value = next(left)
    return "?" if value is None else value


def native(index: Index, text: bool = False) -> Any:
    """An index without "?" as Python's own; for text one that gives an array where it picks a single element."""
    parts = [Slice(*e) if isinstance(e, tuple) else ... if e == "..." else e for e in index]
    if text and ... not in parts:
        parts.append(...)
    return parts[0] if len(parts) == 1 else tuple(parts)


def lookup(index: Index, text: bool = False) -> Callable[[Sequence[Array]], Any]:
    """The function from the data of an index to Python's own index."""
    dynamic = [(i, e) for i, e in enumerate(index) if e == "?" or (isinstance(e, tuple) and "?" in e)]
    parts = [Slice(*e) if isinstance(e, tuple) else ... if e == "..." else e for e in index]
    template = parts if ... in parts or not text else [*parts, ...]
    if len(dynamic) == 1 and (dynamic[0][1] == "?" or "?" not in dynamic[0][1][::2]):
        return _lookup_one(template, *dynamic[0])

    def find(data: Sequence[Array]) -> tuple[Any, ...]:
        found, left = template.copy(), map(int, data)
        for place, entry in dynamic:
            found[place] = next(left) if entry == "?" else Slice(*[next(left) if e == "?" else e for e in entry])
        return tuple(found)

    return find


def _lookup_one(template: Sequence[Any], place: int, entry: Any) -> Callable[[Sequence[Array]], Any]:
    """The same for an index with one number in the data: a position, or the end of a slice."""
    before, after = template[:place], template[place + 1 :]
    if entry == "?":
        return lambda data: (*before, int(data[0]), *after)
    start, _, step = entry
    return lambda data: (*before, Slice(start, int(data[0]), step), *after)


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
        return len(range(*Slice(start, stop, step).indices(size)))
    same_side = start is not None and stop is not None and (start < 0) == (stop < 0)
    return 0 if same_side and not range(start, stop, step or 1) else None


def _known(index: Index, value: Known) -> Known:
    if value is None or any(entry == "?" or (isinstance(entry, tuple) and "?" in entry) for entry in index):
        return None
    found = np.array(value, object)[native(index)]
    if not isinstance(found, np.ndarray):
        return found  # type: ignore[no-any-return]
    return known.capped(found.tolist()) if found.ndim == 1 else None if found.ndim else found.item()


Function = Callable[..., Any]


@op(name="strided_slice")
def _strided_slice(input_: Spec, index: Any) -> Spec:
    """The part of `input_` at an index that is known when the graph is built: see `parse`."""
    return apply(index, input_)


@op(name="dynamic_strided_slice")
def _dynamic(input_: Spec, data: Sequence[Ints], index: Any) -> Spec:
    """The part of `input_` at an index in which `data` stand for "?"."""
    return apply(filled(index, [known.scalar(spec, "an index") for spec in data]), input_)


@op(name="strided_slice_grad")
def _strided_slice_grad(dy: Spec, input_: Spec, index: Any) -> Spec:
    """Zeros in the shape of `input_`, with `dy` at the index: the gradient of `strided_slice`."""
    return Spec(dy.dtype, input_.shape)


@op(name="dynamic_strided_slice_grad")
def _dynamic_grad(dy: Spec, input_: Spec, data: Sequence[Ints], index: Any) -> Spec:
    """Zeros in the shape of `input_`, with `dy` at the index in which `data` stand for "?"."""
    return Spec(dy.dtype, input_.shape)


@_strided_slice.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return _strided_slice_grad(dy, op.inputs[0], op.attrs["index"])


@_dynamic.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    rest = (None,) * (len(op.inputs) - 1)
    return _dynamic_grad(dy, op.inputs[0], op.inputs[1:], op.attrs["index"]), *rest


@_strided_slice_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return _strided_slice(dy, op.attrs["index"]), None


@_dynamic_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    rest = (None,) * (len(op.inputs) - 1)
    return _dynamic(dy, op.inputs[2:], op.attrs["index"]), *rest


@_strided_slice.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    index = native(node.attrs["index"], node.input_specs[0].dtype is dtypes.string)
    return lambda x: x[index]


@_dynamic.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    index, text = node.attrs["index"], node.input_specs[0].dtype is dtypes.string
    data = [known.constant(node, place) for place in range(1, len(node.input_specs))]
    if None in data:
        find = lookup(index, text)
        return lambda x, values: x[find(values)]
    fixed = native(filled(index, data), text)
    return lambda x, values: x[fixed]


@_strided_slice_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    index = native(node.attrs["index"])
    return lambda dy, x: _placed(xp, dy, x, index)


@_dynamic_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    find = lookup(node.attrs["index"])
    return lambda dy, x, values: _placed(xp, dy, x, find(values))


def _placed(xp: Namespace, dy: Array, like: Array, index: Any) -> Array:
    result = xp.zeros(like.shape, dy.dtype)
    result[index] = dy
    return result


@transactional
def getitem(tensor: Tensor, key: Any, name: str | None = None) -> Tensor:
    """`tensor[key]`: integers, slices with any step, None, ..., and integer scalars that a run computes; or one mask.

    Raises:
        TypeError: for a mask beside other indices, use `boolean_mask`, and for vectors of indices, use `gather`.
        ValueError: an index is out of range for a size that is known, or there are too many.
    """
    if _is_mask(key):
        return OPERATORS["boolean_mask"](tensor, key, name=name)
    index, data = parse(key)
    label = name or "strided_slice"
    return _dynamic(tensor, data, index, name=label) if data else _strided_slice(tensor, index, name=label)


@transactional
def strided_slice(
    input_: TensorLike,
    begin: NumberLike,
    end: NumberLike,
    strides: int | Sequence[int] | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    name: str | None = None,
) -> Tensor:
    """`input_[begin[0]:end[0]:strides[0], ...]`; bit i of a mask changes entry i.

    Args:
        input_: the tensor.
        begin: where each slice starts, as a vector.
        end: where each slice stops, exclusive.
        strides: the step of each slice, by default 1.
        begin_mask: start as far out as possible.
        end_mask: stop as far out as possible.
        ellipsis_mask: the entry is `...`.
        new_axis_mask: the entry is a new axis.
        shrink_axis_mask: the entry is the integer `begin[i]`, which drops the axis.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.strided_slice([0, 1, 2, 3, 4], [1], [5], [2]))
        array([1, 3], dtype=int32)
    """
    starts, stops = _items(begin), _items(end)
    steps = [1] * len(starts) if strides is None else _items(strides)
    masks = (ellipsis_mask, new_axis_mask, shrink_axis_mask)
    key: list[Any] = []
    for place, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        wide, new, single = [mask >> place & 1 for mask in masks]
        start, stop = None if begin_mask >> place & 1 and not single else start, None if end_mask >> place & 1 else stop
        key.append(... if wide else None if new else start if single else Slice(start, stop, step))
    return getitem(convert_to_tensor(input_), tuple(key), name)


def _items(vector: Any) -> Sequence[Any]:
    tensor = convert_to_tensor(vector, preferred_dtype=dtypes.int32)
    value = constant_value(tensor)
    return unstack(tensor) if value is None else value.tolist()


@op(name="slice")
def _slice(input_: Spec, begin: Ints, size: Ints) -> Spec:
    """The part of `input_` that begins at `begin` and has the shape `size`, in which -1 means all that is left.

    ValueError, or InvalidArgumentError in a run, if it does not lie wholly within `input_`.

    Examples:
        >>> await session.run(af.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [2, 2]))
        array([[2, 3],
               [5, 6]], dtype=int32)
    """
    starts, counts = known.vector(begin, "begin"), known.vector(size, "size")
    rank = next((len(found) for found in (input_.sizes, starts, counts) if found is not None), None)
    if rank is None:
        return Spec(input_.dtype)
    unknown = (None,) * rank
    sizes, starts, counts = input_.sizes or unknown, starts or unknown, counts or unknown
    if not len(sizes) == len(starts) == len(counts):
        raise ValueError(f"rank {len(sizes)} needs as many begins and sizes, not {len(starts)} and {len(counts)}")
    if set(starts) <= {0} and set(counts) <= {-1}:
        return input_
    left = [_part(axis, *part) for axis, part in enumerate(zip(sizes, starts, counts, strict=True))]
    return Spec(input_.dtype, TensorShape(left), _known_part(input_, starts, left))


def _part(axis: int, size: int | None, start: int | None, count: int | None) -> int | None:
    """The number of elements taken from one axis, if known. ValueError if the axis has fewer."""
    if (start is not None and start < 0) or (count is not None and count < -1):
        raise ValueError(f"begin {start} and size {count} of axis {axis} cannot be negative")
    least = (start or 0) + max(count or 0, 0)
    if size is not None and least > size:
        raise ValueError(f"axis {axis} has {size} elements, and begin {start} with size {count} needs {least}")
    if count != -1:
        return count
    return None if size is None or start is None else size - start


def _known_part(spec: Spec, starts: Sizes, counts: Sequence[int | None]) -> dtypes.Known:
    if not isinstance(spec.known, tuple) or None in (*starts, *counts):
        return None
    return spec.known[starts[0] :][: counts[0]]


@_slice.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _slice_grad(dy, op.inputs[0], op.inputs[1]), None, None


@_slice.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    begin, size = known.constant(node, 1), known.constant(node, 2)
    if begin is None or size is None or node.input_specs[0].sizes is None:
        return lambda x, begin, size: x[_checked(x, begin.tolist(), size.tolist())]
    index = _index(begin, size)
    parts = enumerate(zip(node.input_specs[0].sizes, begin, size, strict=True))
    ends = [(axis, part) for axis, part in parts if part[0] is None and part[1:] != (0, -1)]
    if not ends:
        return lambda x, begin, size: x[index]

    def cut(x: Array, begin: Array, size: Array) -> Array:
        for axis, (_, start, count) in ends:
            _part(axis, x.shape[axis], start, count)
        return x[index]

    return cut


def _index(begin: Sequence[int], size: Sequence[int]) -> tuple[Any, ...]:
    pairs = zip(begin, size, strict=True)
    return (*[Slice(start, None if count == -1 else start + count) for start, count in pairs], ...)


def _checked(x: Array, begin: Sequence[int], size: Sequence[int]) -> tuple[Any, ...]:
    for axis, part in enumerate(zip(x.shape, begin, size, strict=True)):
        _part(axis, *part)
    return _index(begin, size)


@op(name="slice_grad")
def _slice_grad(dy: Spec, input_: Spec, begin: Ints) -> Spec:
    """Zeros in the shape of `input_`, with `dy` at `begin`: the gradient of `slice`."""
    return Spec(dy.dtype, input_.shape)


@_slice_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _slice(dy, op.inputs[2], shape_of(op.inputs[0])), None, None


@_slice_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    start = known.constant(node, 2)
    return lambda dy, x, begin: _placed(xp, dy, x, _index(begin.tolist() if start is None else start, dy.shape))


for _op in (_strided_slice, _dynamic, _slice):
    free(_op)
slice = _slice
OPERATORS.update(getitem=getitem, slice=slice, strided_slice=strided_slice)
