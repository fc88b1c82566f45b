"""Checks and converts the fed values of a run, once, before anything runs."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aioflow.graph.composites import Composite, composite_of
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.subgraph import bodies_of
from aioflow.runtime.lists import as_tensor_list
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array, Known, ListSpec, Sizes, Spec
from aioflow.tensors.recursion import without_recursion_error
from aioflow.tensors.shape import TensorShape
from aioflow.tensors.tensor_list import TensorList


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """The key of a feed: one tensor, or an object that stands for several."""

    value: Any
    tensors: Sequence[Tensor]
    composite: Composite | None = None

    def split(self, value: Any) -> Sequence[Any]:
        """Return the value of each tensor. TypeError or ValueError if the value has another number of parts."""
        if self.composite is None:
            return (value,)
        try:
            parts = self.composite.split(self.value, value)
        except TypeError as error:
            raise TypeError(f"{self.value!r} cannot be fed {value!r}: {error}") from None
        if len(parts) != len(self.tensors):
            names = ", ".join(tensor.name for tensor in self.tensors)
            raise ValueError(f"{self.value!r} stands for {names} and was fed {len(parts)} values")
        return parts


def parse_feeds(graph: Graph, feeds: Mapping[Any, Any] | None) -> dict[Tensor, Any]:
    """Return the fed tensors with their values, in the order of the graph.

    Raises:
        TypeError: the feeds are not a mapping, or a key is not a tensor.
        ValueError: a key is not in the graph, may not be fed, or occurs twice.
    """
    if feeds is None:
        return {}
    check_mapping(feeds)
    keys = [feed_key(graph, key) for key in feeds]
    check_distinct(keys)
    given: dict[Tensor, Any] = {}
    for key, value in zip(keys, feeds.values(), strict=True):
        given.update(zip(key.tensors, key.split(value), strict=True))
    return {tensor: given[tensor] for tensor in in_order(given)}


def check_mapping(feeds: object) -> None:
    """TypeError if the feeds are not a mapping."""
    if not isinstance(feeds, Mapping):
        raise TypeError(f"feeds are a dict from tensors, or their names, to values, not a {type(feeds).__name__}")


def in_order(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in the order of the graph."""
    return sorted(tensors, key=lambda tensor: (tensor.op.id, tensor.index))


def arrangement(keys: Sequence[Key], places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """A function that puts the caller's values into the order of the plan's feeds; None if they are in order."""
    if all(key.composite is None for key in keys):
        in_place = list(places) == list(range(len(places)))
        return None if in_place else lambda values: [values[place] for place in places]

    def arrange(values: Sequence[Any]) -> Sequence[Any]:
        flat = [part for key, value in zip(keys, values, strict=True) for part in key.split(value)]
        return [flat[place] for place in places]

    return arrange


def check_distinct(keys: Iterable[Key]) -> None:
    """ValueError if two keys stand for the same tensor."""
    seen: set[Tensor] = set()
    for key in keys:
        for tensor in key.tensors:
            if tensor in seen:
                raise ValueError(f"{tensor.name!r} is fed twice{_at(tensor)}")
            seen.add(tensor)


@without_recursion_error
def feed_key(graph: Graph, key: Any) -> Key:
    """Return the tensors behind `key`. TypeError or ValueError, with the mend, if it cannot be fed."""
    if type(key) is Tensor:
        return Key(key, (_feedable(graph, key),))
    composite = composite_of(key)
    if composite is None and isinstance(key, tuple):
        return _tuple_key([feed_key(graph, item) for item in key], key)
    if composite is None:
        return Key(key, (_feedable(graph, key),))
    return Key(key, [_feedable(graph, tensor) for tensor in composite.tensors(key)], composite)


def _tuple_key(items: Sequence[Key], key: Any) -> Key:
    """Return the key of a tuple, such as the state of a recurrent cell, which stands for the tensors of its items."""
    tensors = [tensor for item in items for tensor in item.tensors]

    def split(key: Any, value: Any) -> Sequence[Any]:
        if not isinstance(value, (tuple, list)) or len(value) != len(items):
            raise TypeError(f"it takes a tuple or list of {len(items)} values")
        return [part for item, given in zip(items, value, strict=True) for part in item.split(given)]

    return Key(key, tensors, Composite(lambda key: tensors, lambda key, values: values, split))


def _feedable(graph: Graph, key: Any) -> Tensor:
    if hasattr(key, "_as_graph_element"):
        raise TypeError(f"a variable cannot be fed: {key!r}; assign to it, or use af.placeholder_with_default")
    if isinstance(key, Operation):
        outputs = ", ".join(repr(tensor.name) for tensor in key.outputs) or "none"
        raise TypeError(f"cannot feed the operation {key.name!r}; feed one of its outputs: {outputs}")
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except TypeError as error:
        raise TypeError(f"cannot feed {key!r}: {error}") from None
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot feed {key!r}: {error.args[0]}") from None
    assert isinstance(tensor, Tensor)
    if tensor.dtype is dtypes.resource and not isinstance(tensor.spec, ListSpec):
        raise ValueError(f"{tensor.name!r} is a handle and cannot be fed; feed what is read from it{_at(tensor)}")
    if not graph.is_feedable(tensor):
        raise ValueError(f"{tensor.name!r} may not be fed: the graph prevents it{_at(tensor)}")
    return tensor


def converter(tensor: Tensor, sizes: Sizes | None = None) -> Callable[[Any], Array]:
    """The function that checks and converts a value for `tensor`: no copy where dtype and layout fit already.

    It raises TypeError for a value the dtype cannot hold and ValueError, naming both, for a shape that cannot be.

    Args:
        tensor: the fed tensor.
        sizes: the shape of the values, if it is not that of the tensor: those of a part of a batch.
    """
    if isinstance(tensor.spec, ListSpec):
        return functools.partial(_converted_list, tensor)
    wanted = tensor.dtype.np
    sizes = tensor.shape.sizes if sizes is None else sizes
    plain = tensor.spec.known is None and wanted.kind != "O"
    limit = float(np.finfo(wanted).max) if wanted.kind == "f" and sizes == () else None
    scalar = wanted.type
    own = scalar if plain and sizes == () and wanted.kind in "bif" else None
    row = known_row(sizes)

    def convert(value: Any) -> Array:
        if plain and type(value) is np.ndarray and value.dtype is wanted:
            shape = value.shape
            if shape == sizes or shape[1:] == row or fits(shape, sizes):
                return value
        if own is not None and type(value) is own:
            return value
        if limit is not None and type(value) is float and -limit <= value <= limit:  # NumPy warns of larger values
            return scalar(value)
        return _converted(tensor, value, sizes)

    return convert


def known_row(sizes: Sizes | None) -> Sizes | None:
    """All sizes but the first, if only that one is unknown: the usual shape of a batch, and quick to compare with."""
    return sizes[1:] if sizes and len(sizes) > 1 and sizes[0] is None and None not in sizes[1:] else None


def fits(shape: tuple[int, ...], sizes: Sizes | None) -> bool:
    """Whether a value may have that shape, where sizes are known; None for any shape."""
    if shape == sizes or sizes is None:
        return True
    if len(shape) != len(sizes):
        return False
    for given, size in zip(shape, sizes, strict=True):  # noqa: SIM110 (all() is slower, and this is in every call)
        if size is not None and size != given:
            return False
    return True


@without_recursion_error
def _converted(tensor: Tensor, value: Any, sizes: Sizes | None) -> Array:
    if isinstance(value, (Tensor, Operation)) or hasattr(value, "_as_graph_element"):
        mend = f"which a graph holds; feed a value, such as a NumPy array{_at(tensor)}"
        raise TypeError(f"{tensor.name!r} cannot be fed {value!r}, {mend}")
    try:
        array = as_array(value, tensor.dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"cannot feed {tensor.name!r} of {tensor.spec}: {error}{_at(tensor)}") from None
    if not fits(array.shape, sizes):
        shapes = f"a value of shape {list(array.shape)} for {tensor.name!r}, which has shape {TensorShape(sizes)}"
        raise ValueError(f"cannot feed {shapes}{_at(tensor)}")
    if not _agrees(array, tensor.spec.known) and _is_built_upon(tensor):
        raise ValueError(
            f"cannot feed {value!r} for {tensor.name!r}: other operations were built from its value "
            f"{tensor.spec.known}; build them from a placeholder instead{_at(tensor)}"
        )
    return array


@without_recursion_error
def _converted_list(tensor: Tensor, value: Any) -> TensorList:
    try:
        return as_tensor_list(value, ListSpec.check(tensor.spec))
    except (TypeError, ValueError) as error:
        raise type(error)(f"cannot feed {tensor.name!r}, a {tensor.spec}: {error}{_at(tensor)}") from None


def _agrees(array: Any, known: Known) -> bool:
    if known is None:
        return True
    if isinstance(known, int):
        return bool(array == known)
    return all(size is None or size == given for size, given in zip(known, array.tolist(), strict=True))


def _is_built_upon(tensor: Tensor) -> bool:
    """Whether an operation would be another one, had the value of `tensor` not been known when it was built."""
    return any(
        _inferred(op) != _inferred(op, unknown=tensor) or any(map(_is_built_upon, _stand_ins(op, tensor)))
        for op in tensor.consumers()
    )


def _stand_ins(operation: Operation, tensor: Tensor) -> list[Tensor]:
    """Return the tensors that represent an input of the operation in its branches or its loop."""
    return [
        argument
        for body in bodies_of(operation)
        for argument, place in zip(body.arguments, body.takes, strict=True)
        if operation.inputs[place] is tensor
    ]


def _inferred(operation: Operation, unknown: Tensor | None = None) -> list[Any] | None:
    specs = [Spec(t.dtype, t.shape) if t is unknown else t.spec for t in operation.inputs]
    try:
        outputs = operation.definition.infer(specs, operation.attrs)
    except (TypeError, ValueError):
        return None
    return [(spec.sizes, spec.known) for spec in outputs]


def _at(tensor: Tensor) -> str:
    return f"\n  built at: {describe_line(tensor.op)}"
