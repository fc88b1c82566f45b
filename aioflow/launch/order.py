"""The order that a launcher sends to start a task."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from aioflow.config import Config


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One task of a cluster to serve.

    Attributes:
        cluster: addresses of all tasks by job.
        job: the name of its job.
        index: its number.
        settings: the fields in which its `Config` differs from the default.
        token: the credential of the tasks and the session.
        py_funcs: the module whose functions `af.py_func` may name; None for no functions.
        version: the version of the addresses in `cluster`.
    """

    cluster: Mapping[str, Any]
    job: str
    index: int
    settings: Mapping[str, Any]
    token: str = dataclasses.field(repr=False)
    py_funcs: str | None = None
    version: int = 0


def changed_settings(config: Config) -> dict[str, Any]:
    """Return the fields that differ from a `Config()`. TypeError if a value cannot be sent to other processes."""
    default = Config()
    names = [field.name for field in dataclasses.fields(Config)]
    stated = {
        name: _paths_to_text(getattr(config, name)) for name in names if getattr(config, name) != getattr(default, name)
    }
    for name, value in stated.items():
        if not _is_plain(value):
            raise TypeError(f"config: {name} cannot be sent to tasks on other machines")
    return stated


def _paths_to_text(value: Any) -> Any:
    """Convert paths to texts."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_paths_to_text, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
