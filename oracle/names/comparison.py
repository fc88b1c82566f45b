"""How a name of aioflow differs from TensorFlow's: in what it is, or in the names and order of its parameters."""

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tensorflow.python.util import tf_decorator

import aioflow as af
from aioflow.name_hints import instead
from aioflow.porting.tensorflow1.names import DIFFERS, MISSING, SAME

UNUSED: Final = frozenset({"use_locking", "use_resource", "validate_args", "back_prop", "swap_memory", "keep_dims"})


class State(NamedTuple):
    """How a name of TensorFlow's stands in aioflow: "same", "differs" or "missing", and how or what instead."""

    state: str
    text: str = ""


def state_of(path: str, theirs: Any) -> State:
    """Return how aioflow's object at that path below `af` compares with TensorFlow's `theirs`."""
    try:
        ours = _found(path)
    except AttributeError:
        return State(MISSING, instead(path))
    difference = _difference(ours, theirs)
    return State(DIFFERS, difference) if difference else State(SAME)


def _found(path: str) -> Any:
    found: Any = af
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _difference(ours: Any, theirs: Any) -> str:
    """How the two differ for a caller; empty where nothing is known to."""
    if inspect.iscoroutinefunction(ours):
        return "is awaited"
    if not callable(ours) or not callable(theirs):
        return ""
    had, has = _parameters(theirs), _parameters(ours)
    if had is None or has is None:
        return ""
    lost = [name for name in had if name not in has]
    if lost:
        return f"without {', '.join(f'`{name}`' for name in lost)}"
    kept = [name for name in has if name in had]
    return "" if kept == had else f"takes {', '.join(f'`{name}`' for name in has)}"


def _parameters(called: Callable[..., Any]) -> list[str] | None:
    """The names of the parameters by position or name, in order; None where Python knows none."""
    try:
        parameters = inspect.signature(
            tf_decorator.unwrap(called)[1] if not inspect.isclass(called) else called
        ).parameters
    except (TypeError, ValueError):
        return None
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters.values()):
        return None
    return [name for name in parameters if name != "self"]
