"""Where the user's calls build: the default graph, and constructions that leave it as it was if they fail."""

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from aioflow.graph import scopes
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor, user_line
from aioflow.tensors.recursion import too_deep_error

P = ParamSpec("P")
R = TypeVar("R")

_BUILT_AT: Final = "\n  built at: "

_process_graph: list[Graph] = []


def get_default_graph() -> Graph:
    """The innermost `with graph.as_default()` of this task, else the process's graph."""
    graph: Graph | None = scopes.innermost_graph.get()
    if graph is not None:
        return graph
    if not _process_graph:
        _process_graph.append(Graph())
    return _process_graph[0]


def reset_default_graph() -> None:
    """The process's graph is a new, empty one from here on. RuntimeError inside a `with graph.as_default()`."""
    if scopes.innermost_graph.get() is not None:
        raise RuntimeError("reset_default_graph() inside `with graph.as_default()`: leave the block first")
    _process_graph.clear()


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """A function that builds nodes in the default graph.

    If it raises, the graph is as it was, and the error names the function and the user's line.
    """

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with get_default_graph().transaction():
                return function(*args, **kwargs)
        except (TypeError, ValueError, RecursionError) as error:
            raise add_user_line(error, function.__name__, *args, *kwargs.values()) from error

    return build


def add_user_line(error: TypeError | ValueError | RecursionError, what: str, *given: Any) -> TypeError | ValueError:
    """The error, saying what could not be built and at which of the user's lines, unless it says so already."""
    line = user_line()
    error = too_deep_error(*given) if isinstance(error, RecursionError) else error
    if _BUILT_AT in str(error) or line is None:
        return error
    return with_text(error, f"{with_subject(error, what)}{_BUILT_AT}{line[0]}:{line[1]} in {line[2]}")


def with_subject(error: TypeError | ValueError, what: str) -> str:
    """What the error says, with what could not be built first."""
    return text if (text := str(error)).startswith((f"{what}:", f"{what} ", f"{what}(")) else f"{what}: {text}"


def with_text(error: TypeError | ValueError, text: str) -> TypeError | ValueError:
    """A TypeError or ValueError, as `error` is one, with another text."""
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)


def same_graph(*values: object) -> Graph:
    """The graph to build in: that of the first tensor or operation among the values, else the default one."""
    for value in values:
        if isinstance(value, (Tensor, Operation)):
            return graph_to_build_in(value.graph, value)
    return get_default_graph()


def graph_to_build_in(graph: Graph, used: Tensor | Operation | None = None) -> Graph:
    """Where what uses tensors of `graph` is built: there, or in the branch or loop that is being described.

    ValueError, naming `used`, if `graph` itself is a branch or loop, and not being described.
    """
    inner: Graph | None = scopes.innermost_graph.get()
    if inner is not None and inner.sees(graph):
        return inner
    if graph.root is not graph:
        what = "a tensor" if used is None else repr(used.name)
        raise ValueError(f"{what} is inside a branch or loop and used outside of it: the branch or loop must return it")
    return graph
