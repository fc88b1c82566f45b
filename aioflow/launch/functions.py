"""The functions of a module that `af.py_func` may call by name on a task.

Only the user who starts the task selects the module, by `--py-funcs` or as an argument of a launcher, since its
functions may do anything on that machine. A client that connects cannot select it.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from aioflow import errors


def load_functions(name: str) -> dict[str, Callable[..., Any]]:
    """Return {name: function} for the module's `__all__`, or else for its own public functions.

    InvalidArgumentError if there is no such module, or if it has no functions.
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
    """Raise InvalidArgumentError if that cannot be the name of a module."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise errors.InvalidArgumentError(f"{name[:200]!r} is not a module name such as package.module")
