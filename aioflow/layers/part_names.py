"""The names of a model's inputs and outputs: dicts of arrays, losses and metrics tell by them which part is meant."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow.graph.operation import Operation, Tensor
from aioflow.layers.calls import made_by
from aioflow.tensors import nest

_INPUTS: Final = "__layer_input_names"
"""The collection of a graph that holds the names that inputs were given: those of operations are made unique."""


def name_input(tensor: Tensor, name: str) -> Tensor:
    """The input, which has that name in dicts from now on."""
    _given(tensor)[tensor.op] = name
    return tensor


Names = Sequence[str] | None
"""The names of inputs or of outputs in their order; None for a tensor by itself, for which any key will do."""


def input_names(inputs: Any) -> Names:
    """The keys of inputs, the names that `Input` was given, or those of their operations."""
    return _names(inputs, lambda tensor: _given(tensor).get(tensor.op, tensor.op.name))


def output_names(outputs: Any) -> Names:
    """The keys of outputs, or the names of the layers or operations that made them."""
    return _names(outputs, _maker)


def by_names(what: str, given: Mapping[Any, Any], names: Names) -> list[Any]:
    """The values of a dict in the order of the names, None for a name that is no key. ValueError for another key."""
    if names is None:
        if len(given) != 1:
            raise ValueError(f"{what} has {len(given)} keys, and the model has one output")
        return list(given.values())
    for key in given:
        if key not in names:
            raise ValueError(f"{what} has the key {key!r}, and the names of the model are {', '.join(names)}")
    return [given.get(name) for name in names]


def unused(name: str, names: Iterable[str]) -> str:
    """The name, with a number behind it if it is among the names."""
    taken, found, count = set(names), name, 1
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    return found


def _maker(tensor: Tensor) -> str:
    call = made_by(tensor)
    return tensor.op.name if call is None else call.layer.name


def _names(structure: Any, name_of: Callable[[Tensor], str]) -> Names:
    if not nest.is_nested(structure):
        return None
    found: list[str] = []
    for name, tensor in _named(structure):
        found.append(unused(name or name_of(tensor), found))
    return found


def _named(structure: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of a structure, each with its keys on the way to it; with "" for one that no key leads to."""
    if not nest.is_nested(structure):
        return [(path, structure)]
    if isinstance(structure, Mapping):
        items = [(f"{path}_{key}" if path else str(key), structure[key]) for key in nest.sorted_keys(structure)]
    else:
        items = [(f"{path}_{number}" if path else "", item) for number, item in enumerate(structure, 1)]
    return [leaf for key, item in items for leaf in _named(item, key)]


def _given(tensor: Tensor) -> dict[Operation, str]:
    kept = tensor.graph.root.get_collection_ref(_INPUTS)
    if not kept:
        kept.append({})
    names: dict[Operation, str] = kept[0]
    return names
