"""What the class of a layer takes when it is made, and when it is called."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioflow.graph.operation import Tensor


@functools.cache
def parameters(function: Callable[..., Any]) -> Sequence[str]:
    """The names of its parameters."""
    return list(inspect.signature(function).parameters)


def check_arguments(kind: type, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError for an argument that is not known."""
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, 1)
            mend = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{kind.__name__} has no argument {option!r}{mend}")


@functools.cache
def accepted(kind: type) -> Sequence[str] | None:
    """The names of the arguments of a class of layers; None if one outside of aioflow decides about further ones."""
    found: list[str] = []
    for each in kind.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(vars(each)["__init__"]).parameters.values()
            found += [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return found
            if not each.__module__.startswith("aioflow."):
                return None
    return found


@functools.cache
def takes_one_tensor(call: Callable[..., Any]) -> bool:
    """Whether the first parameter is annotated as a tensor, and so is no structure."""
    annotations = [each.annotation for each in inspect.signature(call).parameters.values()]
    return annotations[1:2] == [Tensor]


def first_of(call: Callable[..., Any], inputs: Any, arguments: dict[str, Any]) -> Any:
    """The first argument of a call, which may be among the others by its name. TypeError if there is none."""
    if inputs is not None:
        return inputs
    name = next(iter(parameters(call)[1:]), "inputs")
    if arguments.get(name) is None:
        raise TypeError(f"a layer is called with a tensor, its argument {name!r}, and none was given")
    return arguments.pop(name)
