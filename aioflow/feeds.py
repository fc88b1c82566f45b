"""What a run is fed: values checked and converted once, before anything runs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from aioflow import dtypes
from aioflow.dtypes import Array, Sizes
from aioflow.graph import Graph
from aioflow.node import Tensor, describe_line
from aioflow.structure import COMPOSITES
from aioflow.values import as_array


def parse_feeds(graph: Graph, feeds: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None) -> dict[Tensor, Any]:
    """Fed tensors with the values given for them, in the order of the graph.

    Raises:
        TypeError: a key is no tensor.
        ValueError: a key is not in the graph, may not be fed, or is there twice.
    """
    found: dict[Tensor, Any] = {}
    pairs = feeds.items() if isinstance(feeds, Mapping) else feeds or ()
    for key, value in pairs:
        for tensor, part in _parts(graph, key, value):
            if tensor in found:
                raise ValueError(f"{tensor.name!r} is fed twice")
            found[tensor] = part
    return found if len(found) < 2 else dict(sorted(found.items(), key=lambda item: (item[0].op.id, item[0].index)))


def _parts(graph: Graph, key: Any, value: Any) -> Iterable[tuple[Tensor, Any]]:
    composite = COMPOSITES.get(type(key))
    if composite is None:
        return [(feedable(graph, key), value)]
    tensors = [feedable(graph, tensor) for tensor in composite.split(key)]
    return list(zip(tensors, composite.feed(key, value), strict=True))


def feedable(graph: Graph, key: Any) -> Tensor:
    """The tensor that `key` names. TypeError or ValueError, with the mend, if it cannot be fed."""
    if hasattr(key, "_as_graph_element"):
        raise TypeError(f"a variable cannot be fed: {key!r}; assign to it, or use af.placeholder_with_default")
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except TypeError as error:
        raise TypeError(f"cannot feed {key!r}: {error}") from None
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot feed {key!r}: {error.args[0]}") from None
    assert isinstance(tensor, Tensor)
    if not graph.is_feedable(tensor) or tensor.dtype is dtypes.resource:
        raise ValueError(f"{tensor!r} may not be fed")
    return tensor


def converter(tensor: Tensor) -> Callable[[Any], Array]:
    """The function that checks and converts a value for `tensor`: no copy where dtype and layout fit already.

    It raises TypeError for a value the dtype cannot hold and ValueError, naming both, for a shape that cannot be.
    """
    wanted, sizes, known = tensor.dtype.np, tensor.shape.sizes, tensor.spec.known
    scalar = tensor.dtype.np.type if tensor.dtype.is_numeric and sizes == () else None
    number = {"floating": float, "complex": complex}.get(tensor.dtype.family)
    plain = known is None and wanted.kind != "O"

    def convert(value: Any) -> Array:
        if plain and type(value) is np.ndarray and value.dtype is wanted and _fits(value.shape, sizes):
            return value
        if scalar is not None and number is not None and type(value) is number:
            return scalar(value)
        return _converted(tensor, value)

    return convert


def _fits(shape: tuple[int, ...], sizes: Sizes | None) -> bool:
    if shape == sizes or sizes is None:
        return True
    if len(shape) != len(sizes):
        return False
    for given, size in zip(shape, sizes):  # noqa: B905 (equal lengths; the hot path of every call)
        if size is not None and size != given:
            return False
    return True


def _converted(tensor: Tensor, value: Any) -> Array:
    if isinstance(value, Tensor):
        raise TypeError(f"{tensor.name!r} cannot be fed the tensor {value!r}; feed a value, such as a NumPy array{_at(tensor)}")
    try:
        array = as_array(value, tensor.dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"cannot feed {tensor.name!r} of {tensor.spec}: {error}{_at(tensor)}") from None
    if not _fits(array.shape, tensor.shape.sizes):
        raise ValueError(
            f"cannot feed a value of shape {list(array.shape)} for {tensor.name!r}, which has shape {tensor.shape}{_at(tensor)}"
        )
    if not _agrees(array, tensor.spec.known):
        raise ValueError(
            f"cannot feed {value!r} for {tensor.name!r}: shapes in the graph were built from its value "
            f"{tensor.spec.known}{_at(tensor)}"
        )
    return array


def _agrees(array: Any, known: dtypes.Known) -> bool:
    if known is None:
        return True
    if isinstance(known, int):
        return bool(array == known)
    return all(size is None or size == given for size, given in zip(known, array.tolist(), strict=True))


def _at(tensor: Tensor) -> str:
    return f"\n  built at: {describe_line(tensor.op)}"
