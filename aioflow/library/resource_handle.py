"""The base of handles to live objects."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from aioflow.graph import scopes
from aioflow.graph.building import add_user_line, get_default_graph, same_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.tensors.dtypes import DType, TensorShape, as_dtype, as_shape

R = TypeVar("R")


class Handle:
    """A live object in a graph, which outlives steps. Its `ref` is a tensor; operations on it are built beside it."""

    def __init__(self, ref: Tensor) -> None:
        self._ref: Final = ref

    @property
    def name(self) -> str:
        """The last part of its operation's name."""
        return self._ref.op.name.rpartition("/")[2]

    @property
    def graph(self) -> Graph:
        """The graph of the handle."""
        return self._ref.graph

    def _build(self, what: str, name: str | None, build: Callable[[str], R]) -> R:
        """Return the result of `build` with a name, in its graph or the body being built there, on its device."""
        chosen = name or f"{self.name}_{what}"
        graph = same_graph(self._ref)
        try:
            with graph.as_default(), graph.transaction(), self._at_home(graph):
                return build(chosen)
        except (TypeError, ValueError) as error:
            raise add_user_line(error, chosen) from error

    def _at_home(self, graph: Graph) -> contextlib.AbstractContextManager[None]:
        scope = scopes.scope_of(graph)
        elsewhere = scope.devices or scope.colocation
        return graph.colocate_with(self._ref, ignore_existing=True) if elsewhere else contextlib.nullcontext()

    def __repr__(self) -> str:
        return f"<af.{type(self).__name__} {self._ref.op.name!r}>"


@contextlib.contextmanager
def outside() -> Iterator[str]:
    """Build outside of all branches and loops, since a live object outlives them. Yields its container."""
    inner = get_default_graph()
    graph, scope = inner.root, scopes.scope_of(inner)
    names = scopes.change_scope(graph, name=scope.name)
    with graph.transaction(), graph.as_default(), names, graph.control_dependencies(None):
        yield scope.container


def dtypes_of(given: Any) -> list[DType]:
    """Return a list of one or several dtypes."""
    return [as_dtype(dtype) for dtype in (given if isinstance(given, (list, tuple)) else [given])]


def shapes_of(given: Any, count: int) -> list[TensorShape]:
    """Return the shapes of `count` components, in a list or a single one; unknown shapes for None.

    ValueError if the number of shapes differs.
    """
    if given is None:
        return [TensorShape(None)] * count
    single = not isinstance(given, (list, tuple)) or (
        count == 1 and all(size is None or isinstance(size, int) for size in given)
    )
    shapes = [given] if single else list(given)
    if len(shapes) != count:
        raise ValueError(f"{len(shapes)} shapes were given for {count} components: give a list with one of each")
    return [as_shape(shape) for shape in shapes]


def names_of(given: Sequence[str] | None, count: int) -> list[str] | None:
    """Return the names of `count` components, None for no names. ValueError for another number or repeated names."""
    if given is None:
        return None
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != count or len(set(names)) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{count} different names of components are needed, not {names}")
    return names
