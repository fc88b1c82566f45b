"""The public names of `tf.compat.v1`, without the modules that `excluded.toml` lists."""

import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tensorflow.compat.v1 as tf

EXCLUDED: Final[dict[str, str]] = tomllib.loads(Path(__file__).with_name("excluded.toml").read_text())


def public_names() -> dict[str, Any]:
    """Return what each public name of TensorFlow's v1 API stands for, by its path below `tf`, sorted."""
    return dict(sorted(_below(tf, "", set())))


def _below(module: types.ModuleType, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for name in dir(module):
        found = getattr(module, name, None)
        if name.startswith("_") or f"{path}{name}" in EXCLUDED:
            continue
        if not isinstance(found, types.ModuleType):
            yield f"{path}{name}", found
        elif _is_public(found) and id(found) not in seen:
            seen.add(id(found))
            yield from _below(found, f"{path}{name}.", seen)


def _is_public(module: types.ModuleType) -> bool:
    """Whether a module is a part of TensorFlow's interface, and not one that a file of it has imported."""
    return "_api" in str(vars(module).get("__name__"))
