"""Name maps: the names of the tensors of a file, as variables have them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aioflow.tensors.recursion import safe_repr

NameMap = Mapping[str, str | None] | Callable[[str], str | None] | Sequence[tuple[str, str | None]]
"""A dict of the names of tensors, or of modules for all tensors in them; a function of a name; or pairs of a regular
expression and its replacement, which are used one after the other. None leaves tensors out."""


def as_path(name: str) -> str:
    """Return a name of a tensor or variable with `/` between its parts, as names are compared."""
    return name.replace(".", "/")


def renamed(names: Iterable[str], name_map: NameMap | None) -> dict[str, str]:
    """Return {name after the map, as a path: name in the file} of the tensors that the map does not leave out.

    TypeError if it is no name map. ValueError if two tensors get one name, or a dict names nothing of the file.
    """
    names = list(names)
    rename = _function(names, name_map)
    found: dict[str, str] = {}
    for name in names:
        mapped = rename(name)
        if mapped is None:
            continue
        if not isinstance(mapped, str):
            raise TypeError(f"name_map gives a name, or None, for {name!r}, not {safe_repr(mapped)}")
        first = found.setdefault(as_path(mapped), name)
        if first != name:
            raise ValueError(f"name_map gives {first!r} and {name!r} the same name, {mapped!r}")
    return found


def _function(names: Sequence[str], name_map: Any) -> Callable[[str], str | None]:
    if name_map is None:
        return str
    if isinstance(name_map, Mapping):
        return _by_module(names, name_map)
    if callable(name_map):
        function: Callable[[str], str | None] = name_map
        return function
    if isinstance(name_map, Sequence) and not isinstance(name_map, str):
        return _by_patterns(name_map)
    raise TypeError(f"name_map is a dict, a function or a list of pairs, not {safe_repr(name_map)}")


def _by_module(names: Sequence[str], name_map: Mapping[str, str | None]) -> Callable[[str], str | None]:
    """Rename by the longest module, or whole name, in a dict. Names and keys are compared as paths."""
    by_path = {as_path(str(key)): value for key, value in name_map.items()}

    def rename(name: str) -> str | None:
        for module in _modules(name):
            if module in by_path:
                begin = by_path[module]
                return None if begin is None else begin + as_path(name)[len(module) :]
        return name

    used = {module for name in names for module in _modules(name)}
    unused = sorted(key for key in name_map if as_path(str(key)) not in used)
    if unused:
        raise ValueError(f"name_map names {unused}, and no tensor or module of the file has such a name")
    return rename


def _modules(name: str) -> list[str]:
    """The name as a path, and those of the modules around it, the longest first."""
    parts = as_path(name).split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _by_patterns(pairs: Sequence[Any]) -> Callable[[str], str | None]:
    """Rename by pairs of a regular expression and its replacement."""
    compiled = [_pair(pair) for pair in pairs]

    def rename(name: str) -> str | None:
        for pattern, replacement in compiled:
            if replacement is not None:
                name = _replaced(pattern, replacement, name)
            elif pattern.search(name):
                return None
        return name

    return rename


def _replaced(pattern: re.Pattern[str], replacement: str, name: str) -> str:
    try:
        return pattern.sub(replacement, name)
    except (re.error, IndexError) as error:  # the replacement is looked at when the pattern is first found
        raise ValueError(f"name_map has {replacement!r}, which is no replacement: {error}") from None


def _pair(pair: Any) -> tuple[re.Pattern[str], str | None]:
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str | None):
        raise TypeError(f"name_map has pairs of a regular expression and its replacement, not {safe_repr(pair)}")
    try:
        return re.compile(pair[0]), pair[1]
    except re.error as error:
        raise ValueError(f"name_map has {pair[0]!r}, which is no regular expression: {error}") from None
