"""Flattens and rebuilds nested lists, tuples, named tuples and dicts: TensorFlow's `tf.nest`.

Every value that is no list, tuple or mapping is a leaf. The leaves of a mapping come in the order of its sorted keys.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aioflow.lazy import Face
from aioflow.tensors.recursion import check_depth, safe_repr


def is_nested(structure: Any) -> bool:
    """Whether `structure` is a list, a tuple or a mapping, and not a leaf.

    Examples:
        >>> af.nest.is_nested([1]), af.nest.is_nested("text")
        (True, False)
    """
    return isinstance(structure, (list, tuple, Mapping))


def flatten(structure: Any) -> list[Any]:
    """Return the leaves of a structure in order. ValueError if it is too deep, or contains itself.

    Examples:
        >>> af.nest.flatten({"b": [1, (2, 3)], "a": 4})
        [4, 1, 2, 3]
    """
    check_depth(structure)
    return list(_leaves(structure))


def _leaves(structure: Any) -> Iterator[Any]:
    if not is_nested(structure):
        yield structure
        return
    for _, item in _items(structure):
        yield from _leaves(item)


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    """Return the parts of `input_tree` at the leaves of `shallow_tree`, in order. ValueError if these differ.

    Examples:
        >>> af.nest.flatten_up_to([0, 0], [1, (2, 3)])
        [1, (2, 3)]
    """
    check_depth(shallow_tree)
    return _flat_up_to(shallow_tree, input_tree)


def _flat_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    if not is_nested(shallow_tree):
        return [input_tree]
    if not is_nested(input_tree):
        raise ValueError(f"{input_tree!r} does not fit the structure {_describe(shallow_tree)}")
    mine, theirs = dict(_items(shallow_tree)), dict(_items(input_tree))
    if mine.keys() != theirs.keys():
        raise ValueError(f"{_describe(input_tree)} does not fit the structure {_describe(shallow_tree)}")
    return [leaf for key, item in mine.items() for leaf in _flat_up_to(item, theirs[key])]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Return a structure like `structure` with these leaves. ValueError if their number differs.

    Examples:
        >>> af.nest.pack_sequence_as({"a": [0, 0], "b": 0}, [1, 2, 3])
        {'a': [1, 2], 'b': 3}
    """
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(f"the structure has {count} leaves, and {len(flat_sequence)} were given: {structure!r}")
    return _pack(structure, iter(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True) -> Any:
    """Return a structure like the first one; each leaf is `func` of the corresponding leaves of all structures.

    Raises the errors of `assert_same_structure`.

    Examples:
        >>> af.nest.map_structure(lambda x: x * 10, {"a": [1, 2], "b": 3})
        {'a': [10, 20], 'b': 30}
    """
    if not structure:
        raise ValueError("map_structure needs at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    leaves = zip(*[flatten(each) for each in structure], strict=True)
    return pack_sequence_as(structure[0], [func(*each) for each in leaves])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise an error unless both have the same structure.

    Raises:
        ValueError: they differ in length, nesting or keys; the text names the position.
        TypeError: with `check_types`, two corresponding sequences differ in class.

    Examples:
        >>> af.nest.assert_same_structure([1, (2, 3)], [4, (5, 6)])
    """
    check_depth(nest1)
    check_depth(nest2)
    _compare(nest1, nest2, check_types, "")


def _items(structure: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(structure, Mapping):
        return ((key, structure[key]) for key in sorted_keys(structure))
    return iter(enumerate(structure))


def sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys in order. TypeError, with the keys, if they have none."""
    try:
        return sorted(mapping)
    except TypeError:
        keys = ", ".join(map(safe_repr, mapping))
        raise TypeError(
            f"the values of a dict are taken in the order of its keys, and {keys} have none: give keys of one type, "
            "such as names"
        ) from None


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, Mapping):
        return _rebuild_mapping(structure, {key: _pack(structure[key], leaves) for key in sorted_keys(structure)})
    items = [_pack(item, leaves) for item in structure]
    return type(structure)._make(items) if hasattr(structure, "_make") else type(structure)(items)


def _rebuild_mapping(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a mapping of the same class and order of keys; a plain dict if `mapping` is no dict."""
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
        raise ValueError(f"the structures differ{where}: {_describe(one)} against {_describe(other)}")
    for key, item in mine.items():
        _compare(item, theirs[key], check_types, f"{place}[{key!r}]")


def _describe(structure: Any) -> str:
    if isinstance(structure, Mapping):
        return f"keys {sorted_keys(structure)}"
    return f"{len(structure)} items"


__all__ = ["assert_same_structure", "flatten", "flatten_up_to", "is_nested", "map_structure", "pack_sequence_as"]
Face(__name__, {__name__: " ".join(__all__)})
