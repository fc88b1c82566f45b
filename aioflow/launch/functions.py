"""The functions of a module that `af.py_func` may call by their names on a task.

Who says which module, by `--py-funcs` or to a launch, may run there what he likes; nobody who connects says it.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from aioflow import errors


def functions_of(name: str) -> dict[str, Callable[..., Any]]:
    """Its functions by their names: those in its `__all__`, or else the public ones that it defines.

    InvalidArgumentError if there is no such module, or none in it.
    """
    check_module(name)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise errors.InvalidArgumentError(f"the functions of {name}: {error}") from None
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
    found = {key: getattr(module, key) for key in names if inspect.isroutine(getattr(module, key))}
    if not found:
        raise errors.InvalidArgumentError(f"the functions of {name}: the module has no functions")
    return found


def check_module(name: str) -> None:
    """InvalidArgumentError if that cannot be the name of a module."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise errors.InvalidArgumentError(f"{name[:200]!r} is no name of a module, as package.module")
