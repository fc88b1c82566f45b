"""The calls of a session, by their fetches and feeds."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from aioflow.config import Config
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.runtime.engine import AnyCall, Changing, Engine, Unexamined
from aioflow.runtime.feeds import arrangement, check_distinct, feed_key, in_order
from aioflow.runtime.fetches import parse_fetches
from aioflow.runtime.update_gate import Boundary, changed_by

_LARGE: Final = 2000
"""The planning work of a graph from which on a search through its operations takes over 2 ms."""


class Prepared(NamedTuple):
    """A call whose fetches and feeds are checked.

    Attributes:
        call: the prepared call.
        arrange: puts the values of the feeds in the order of the call; None if they are in that order.
        marks: the marks of the graph when the fetches and feeds were checked.
    """

    call: AnyCall
    arrange: Callable[[Sequence[Any]], Sequence[Any]] | None
    marks: int


class CallCache:
    """A bounded cache: the oldest call makes room for a new one."""

    def __init__(self, graph: Graph, config: Config, engine: Engine, boundary: Boundary) -> None:
        self._graph: Final = graph
        self._engine: Final = engine
        self._boundary: Final = boundary
        self._size: Final = config.plan_cache_size
        self._calls: Final[dict[Any, Prepared]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def get(self, fetches: Any, feeds: Iterable[Any]) -> Prepared:
        """The call of these fetches and feeds, made now if it is new.

        Raises:
            TypeError, ValueError: fetches or feeds do not fit the graph.
        """
        key = _key(fetches)
        if key is None:
            return self.make(fetches, feeds)
        key = key, *feeds
        found = self._calls.get(key)
        if found is not None and found.marks == self._graph.marks:
            return found
        made = self.make(fetches, feeds)
        if found is None and len(self._calls) >= self._size:
            self._calls.pop(next(iter(self._calls)))
        self._calls[key] = made
        return made

    def make(self, fetches: Any, feeds: Iterable[Any]) -> Prepared:
        """A new call, which the cache does not keep. TypeError or ValueError as `get` raises them."""
        keys = [feed_key(self._graph, feed) for feed in feeds]
        check_distinct(keys)
        flat = [tensor for key in keys for tensor in key.tensors]
        ordered = in_order(flat)
        parsed = parse_fetches(self._graph, fetches)
        call: AnyCall = self._engine.call(parsed, ordered)
        targets = (*parsed.operations, *[tensor.op for tensor in parsed.tensors])
        asked = targets, tuple(ordered)
        examine = functools.partial(self._graph.memo.get, (changed_by, *asked), functools.partial(changed_by, *asked))
        if self._graph.planning_work > _LARGE:
            call = Unexamined(call, examine, self._boundary)
        elif changed := examine():
            call = Changing(call, changed, self._boundary)
        arrange = arrangement(keys, [flat.index(tensor) for tensor in ordered])
        return Prepared(call, arrange, self._graph.marks)

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()


def _key(fetches: Any) -> Any:
    """A key for fetch structures that are often repeated: one element, or a flat list of elements."""
    if type(fetches) in (Tensor, Operation, str):
        return fetches
    if type(fetches) in (list, tuple) and all(type(item) in (Tensor, Operation, str) for item in fetches):
        return type(fetches), *fetches
    return None
