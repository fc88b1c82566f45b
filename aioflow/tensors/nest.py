"""Nested lists, tuples, records and dicts, taken apart and put together: TensorFlow's `tf.nest`.

What is no list, tuple or mapping is a leaf. Leaves come in the order of the structure, those of a mapping in the order
of its sorted keys.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aioflow.lazy import Face
from aioflow.tensors.recursion import check_depth


def is_nested(structure: Any) -> bool:
    """Whether it is a list, a tuple or a mapping, and so no leaf."""
    return isinstance(structure, (list, tuple, Mapping))


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure in order; for a leaf, only itself. ValueError if it is too deep, or contains itself."""
    check_depth(structure)
    return list(_leaves(structure))


def _leaves(structure: Any) -> Iterator[Any]:
    if not is_nested(structure):
        yield structure
        return
    for _, item in _items(structure):
        yield from _leaves(item)


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    """What `input_tree` has where `shallow_tree` has leaves, in order. ValueError if it has no such places."""
    check_depth(shallow_tree)
    return _flat_up_to(shallow_tree, input_tree)


def _flat_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    if not is_nested(shallow_tree):
        return [input_tree]
    if not is_nested(input_tree):
        raise ValueError(f"{input_tree!r} stands against {_outline(shallow_tree)}")
    mine, theirs = dict(_items(shallow_tree)), dict(_items(input_tree))
    if mine.keys() != theirs.keys():
        raise ValueError(f"{_outline(input_tree)} stand against {_outline(shallow_tree)}")
    return [leaf for key, item in mine.items() for leaf in _flat_up_to(item, theirs[key])]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """A structure like `structure`, with these leaves. ValueError if their number is another."""
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(f"the structure has {count} leaves, and {len(flat_sequence)} were given: {structure!r}")
    return _packed(structure, iter(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True) -> Any:
    """A structure like the first, each leaf `func` of the leaves at its place in all.

    Raises what `assert_same_structure` does.
    """
    if not structure:
        raise ValueError("map_structure needs at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    leaves = zip(*[flatten(each) for each in structure], strict=True)
    return pack_sequence_as(structure[0], [func(*each) for each in leaves])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Return if both have the same structure.

    Raises:
        ValueError: they differ in number, nesting or keys; the place where is named.
        TypeError: with `check_types`, a sequence of one stands against one of another class.
    """
    check_depth(nest1)
    check_depth(nest2)
    _compare(nest1, nest2, check_types, "")


def _items(structure: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(structure, Mapping):
        return ((key, structure[key]) for key in sorted(structure))
    return iter(enumerate(structure))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, Mapping):
        return _like(structure, {key: _packed(structure[key], leaves) for key in sorted(structure)})
    items = [_packed(item, leaves) for item in structure]
    return type(structure)._make(items) if hasattr(structure, "_make") else type(structure)(items)


def _like(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same class and order of keys; a plain dict for what is no dict."""
    made = copy.copy(mapping) if isinstance(mapping, dict) else dict.fromkeys(mapping)
    made.update(items)
    return made


def _compare(one: Any, other: Any, check_types: bool, place: str) -> None:
    where = f" at {place}" if place else ""
    if is_nested(one) != is_nested(other):
        raise ValueError(f"the structures differ{where}: {one!r} against {other!r}")
    if not is_nested(one):
        return
    if check_types and type(one) is not type(other):
        raise TypeError(f"the structures differ{where}: {type(one).__name__} against {type(other).__name__}")
    mine, theirs = dict(_items(one)), dict(_items(other))
    if mine.keys() != theirs.keys():
        raise ValueError(f"the structures differ{where}: {_outline(one)} against {_outline(other)}")
    for key, item in mine.items():
        _compare(item, theirs[key], check_types, f"{place}[{key!r}]")


def _outline(structure: Any) -> str:
    if isinstance(structure, Mapping):
        return f"keys {sorted(structure)}"
    return f"{len(structure)} items"


__all__ = ["assert_same_structure", "flatten", "flatten_up_to", "is_nested", "map_structure", "pack_sequence_as"]
Face(__name__, {__name__: " ".join(__all__)})
