"""Sequences whose length only the run knows, as `TensorArray`s; a sequence of known length is a Python list."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from aioflow import errors
from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.control.list_edits import tensor_list_erase, tensor_list_insert, tensor_list_loosen
from aioflow.kernels.control.tensor_lists import tensor_list_put_pieces
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.library.loops import while_loop
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Value
from aioflow.onnx.model import ValueType
from aioflow.onnx.operators.values import from_front, rank_of, scalar
from aioflow.tensors.dtypes import UNKNOWN, DType, ListSpec, Spec, TensorShape, int32, int64

Result = TypeVar("Result")


class EmptySequence(list[Value]):
    """A sequence without elements, which has a dtype nevertheless."""

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        self.dtype = dtype


def element_spec(declared: ValueType | None) -> Spec | None:
    """The Spec of the elements of a declared sequence; models state rank 0 for elements of any rank."""
    if declared is not None and declared.kind == "optional":
        return element_spec(declared.element)
    element = None if declared is None else declared.element
    if element is None or element.dtype is None:
        return None
    return Spec(element.dtype, element.shape if element.shape.ndims else UNKNOWN)


def as_array(items: Value, declared: ValueType | None = None) -> TensorArray:
    """A sequence as a TensorArray. `declared` is the type of a sequence that has no elements.

    UnimplementedError for optionals, and sequences of sequences; ValueError if the dtype of an empty sequence is
    nowhere stated.
    """
    if isinstance(items, TensorArray):
        return items
    if not isinstance(items, list) or not all(isinstance(item, Tensor) for item in items):
        raise errors.UnimplementedError("a sequence whose length only the run knows has tensors alone")
    spec = _common([item.spec for item in items if isinstance(item, Tensor)]) or _ofempty_list(items, declared)
    found = empty_list(spec)
    for index, item in enumerate(items):
        found = found.write(index, item)  # type: ignore[arg-type]
    return found


def empty_list(spec: Spec) -> TensorArray:
    """A sequence without elements, to which tensors of that dtype and shape are added."""
    return TensorArray(
        spec.dtype, 0, dynamic_size=True, clear_after_read=False, infer_shape=False, element_shape=spec.shape
    )


def _common(specs: Sequence[Spec]) -> Spec | None:
    """The dtype of all elements and what their shapes have in common; None without elements."""
    shape = specs[0].same_dtype(*specs).shape if specs else UNKNOWN
    for spec in specs:
        shape = shape.most_specific_compatible_shape(spec.shape)
    return Spec(specs[0].dtype, shape) if specs else None


def _ofempty_list(items: Sequence[Value], declared: ValueType | None) -> Spec:
    spec = element_spec(declared)
    if spec is None and isinstance(items, EmptySequence):
        spec = Spec(items.dtype)
    if spec is None:
        raise ValueError("the dtype of an empty sequence must be stated by the type of the input that takes it")
    return spec


def loosened(array: TensorArray, shape: TensorShape) -> TensorArray:
    """The same sequence, of whose elements' shapes only so much is known."""
    return array.with_flow(tensor_list_loosen(array.flow, shape))


def index_in(array: TensorArray, position: Tensor) -> Tensor:
    """A position that may count from the end, counted from the front."""
    return from_front(scalar(position), array.size())


def inserted(array: TensorArray, item: Value, position: Tensor | None) -> TensorArray:
    """The sequence with one more element, at the end by default."""
    index = array.size() if position is None else index_in(array, position)
    return array.with_flow(tensor_list_insert(array.flow, index, item))


def erased(array: TensorArray, position: Tensor | None) -> TensorArray:
    """The sequence without one of its elements, the last by default."""
    index = array.size() - 1 if position is None else index_in(array, position)
    return array.with_flow(tensor_list_erase(array.flow, index))


def length(array: TensorArray) -> Tensor:
    """The number of elements."""
    return cast(array.size(), int64)


def stacked(array: TensorArray, axis: int) -> Tensor:
    """The elements side by side along a new axis."""
    whole = array.stack()
    return whole if axis == 0 else with_first_at(whole, axis)


def joined(array: TensorArray, axis: int) -> Tensor:
    """The elements joined along one of their axes."""
    if axis == 0:
        return array.concat()
    (turned,) = mapped([array], lambda items: [with_first(items[0], axis)])
    return with_first_at(turned.concat(), axis)


def split_up(x: Tensor, lengths: Tensor, axis: int) -> TensorArray:
    """The parts of `x` along one axis that have these lengths."""
    parts = list_of(tensor_list_put_pieces(with_first(x, axis), lengths))
    return mapped([parts], lambda items: [with_first_at(items[0], axis)])[0] if axis else parts


def list_of(flow: Tensor) -> TensorArray:
    """The sequence that a list of tensors is."""
    return TensorArray(ListSpec.check(flow.spec).element.dtype, flow=flow)


def tensors(values: Sequence[Value]) -> list[Tensor]:
    """The values, all of which must be tensors. UnimplementedError for others."""
    for value in values:
        if not isinstance(value, Tensor):
            raise errors.UnimplementedError("only tensors can be joined to one, and no sequences or optionals")
    return list(values)  # type: ignore[arg-type]


def with_first(x: Tensor, axis: int) -> Tensor:
    """`x` with that axis moved to the front."""
    rank = rank_of(x)
    return transpose(x, [axis % rank, *[each for each in range(rank) if each != axis % rank]]) if axis else x


def with_first_at(x: Tensor, axis: int) -> Tensor:
    """`x` with its first axis moved to that place."""
    rank = rank_of(x)
    place = axis % rank
    return transpose(x, [*range(1, place + 1), 0, *range(place + 1, rank)]) if place else x


def mapped(arrays: Sequence[TensorArray], build: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> list[TensorArray]:
    """The sequences of what `build` makes of the elements at one place, for each place.

    The run fails if one of them has fewer elements than another.
    """
    specs = on_trial(lambda: [made.spec for made in build(_read(arrays, placeholder(int32, [])))])
    count = functools.reduce(maximum, [array.size() for array in arrays])

    def step(index: Tensor, parts: Sequence[TensorArray]) -> tuple[Tensor, list[TensorArray]]:
        made = build(_read(arrays, index))
        return index + 1, [part.write(index, item) for part, item in zip(parts, made, strict=True)]

    _, parts = while_loop(lambda index, _: less(index, count), step, (constant(0, int32), list(map(empty_list, specs))))
    return list(parts)


def _read(arrays: Sequence[TensorArray], index: Tensor) -> list[Tensor]:
    return [array.read(index) for array in arrays]


class _Undone(Exception):
    """Ends a trial, so that its operations are taken back."""


def on_trial(build: Callable[[], Result]) -> Result:
    """What `build` returns; the operations that it makes are taken back."""
    found: list[Result] = []
    with contextlib.suppress(_Undone), get_default_graph().transaction():
        found.append(build())
        raise _Undone
    return found[0]
