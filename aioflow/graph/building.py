"""The default graph, and functions that build operations all together or not at all."""

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
    """Return the graph of the innermost `with graph.as_default()` of this task, else the process's graph.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     print(af.get_default_graph() is graph)
        True
    """
    graph: Graph | None = scopes.innermost_graph.get()
    if graph is not None:
        return graph
    if not _process_graph:
        _process_graph.append(Graph())
    return _process_graph[0]


def reset_default_graph() -> None:
    """Replace the process's graph by an empty one. RuntimeError inside a `with graph.as_default()`.

    Examples:
        >>> with af.Graph().as_default():
        ...     try:
        ...         af.reset_default_graph()
        ...     except RuntimeError:
        ...         print("leave the block first")
        leave the block first
    """
    if scopes.innermost_graph.get() is not None:
        raise RuntimeError("reset_default_graph() inside `with graph.as_default()`: leave the block first")
    _process_graph.clear()


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that builds operations in the default graph.

    If it raises, the graph is unchanged, and the error names the function and the user's line.
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
    """Return the error with the failed function and the user's line in its text, if the text has no line yet."""
    line = user_line()
    error = too_deep_error(*given) if isinstance(error, RecursionError) else error
    if _BUILT_AT in str(error) or line is None:
        return error
    return with_text(error, f"{with_subject(error, what)}{_BUILT_AT}{line[0]}:{line[1]} in {line[2]}")


def with_subject(error: TypeError | ValueError, what: str) -> str:
    """Return the error's text, preceded by the name of the failed function."""
    return text if (text := str(error)).startswith((f"{what}:", f"{what} ", f"{what}(")) else f"{what}: {text}"


def with_text(error: TypeError | ValueError, text: str) -> TypeError | ValueError:
    """Return a TypeError or ValueError like `error` with another text."""
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)


def same_graph(*values: object) -> Graph:
    """Return the graph of the first tensor or operation among the values, else the default graph."""
    for value in values:
        if isinstance(value, (Tensor, Operation)):
            return graph_to_build_in(value.graph, value)
    return get_default_graph()


def graph_to_build_in(graph: Graph, used: Tensor | Operation | None = None) -> Graph:
    """Return the graph in which consumers of tensors of `graph` are built: `graph`, or the body being built inside it.

    ValueError, naming `used`, if `graph` is a finished branch or loop.
    """
    inner: Graph | None = scopes.innermost_graph.get()
    if inner is not None and inner.sees(graph):
        return inner
    if graph.root is not graph:
        what = "a tensor" if used is None else repr(used.name)
        raise ValueError(f"{what} is inside a branch or loop and used outside of it: the branch or loop must return it")
    return graph
