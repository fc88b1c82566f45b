"""The graphs of a master. Sessions whose clients have sent the same operations have one graph, and share its plans.

A graph is known by the digest of the additions that made it. A client that adds operations to a graph of several
sessions extends it for all of them: the others do not ask for operations that they have not sent. If another session
has added other operations before, the graph is built a second time.
"""

import asyncio
import functools
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from aioflow.devices.cpu import Threads
from aioflow.graph.graph import Graph
from aioflow.net.wire.digests import HASHED, digest, size
from aioflow.net.wire.graph_updates import extend
from aioflow.tensors.dtypes import Array

_LONG: Final = 1 << 13
"""Bytes of operations above which they are read on a thread: reading takes over 4 ms."""
_KEPT: Final = 8
"""The most graphs that are kept after their last session has ended."""
_MOST_KEPT: Final = 4 << 20
"""Bytes of operations and constants: a larger graph is not kept."""


class Addition(NamedTuple):
    """Operations that a client adds to its graph.

    Attributes:
        data: the operations, as a GraphDef in msgpack.
        constants: the arrays sent as values, by the names of their operations.
    """

    data: bytes
    constants: Mapping[str, Array]

    @property
    def is_large(self) -> bool:
        """Whether it is hashed and read on a thread."""
        return size(*self, HASHED) > HASHED


class SharedGraph:
    """A graph with the additions that made it.

    Attributes:
        graph: the graph.
        digests: the digest after each addition.
        versions: the number of operations after each addition.
        nbytes: the bytes of its additions, each counted up to the most that is kept.
    """

    def __init__(self) -> None:
        self.graph: Final = Graph()
        self.digests: Final[list[bytes]] = []
        self.versions: Final[list[int]] = []
        self.nbytes: int = 0
        self._additions: Final[list[Addition]] = []
        self._lock: Final = asyncio.Lock()
        self._is_final = False

    async def add(self, addition: Addition, count: int, key: bytes, threads: Threads) -> bool:
        """Add operations after the first `count` additions. False if others come after these already.

        InvalidArgumentError if they cannot be built; the graph is unchanged then. A cancelled call leaves a graph to
        which nothing more is added: a thread may still add these operations to it.
        """
        async with self._lock:
            if count != len(self.digests) or self._is_final:
                return False
            read = functools.partial(self._read, addition)
            long = len(addition.data) > _LONG or addition.is_large
            try:
                self.nbytes += await threads.run(read, "reading a graph") if long else read()
            except asyncio.CancelledError:
                self._is_final = True
                raise
            self._additions.append(addition)
            self.digests.append(key)
            self.versions.append(self.graph.version)
            return True

    def _read(self, addition: Addition) -> int:
        """Add the operations to the graph. Returns the bytes of the addition, counted up to the most that is kept."""
        extend(self.graph, *addition)
        return size(*addition, _MOST_KEPT)

    async def copy(self, count: int, threads: Threads) -> "SharedGraph":
        """The graph of its first `count` additions."""
        made = SharedGraph()
        for place in range(count):
            await made.add(self._additions[place], place, self.digests[place], threads)
        return made


class GraphState(NamedTuple):
    """The graph of a session: one that may have more operations, which other sessions have added.

    Attributes:
        shared: the graph.
        additions: the number of additions that the session knows.
    """

    shared: SharedGraph
    additions: int

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.shared.graph

    @property
    def version(self) -> int:
        """The number of operations that the session knows."""
        return self.shared.versions[self.additions - 1] if self.additions else 0


class SharedGraphs:
    """The graphs of the sessions of a master, and the small ones used last."""

    def __init__(self, threads: Threads) -> None:
        self._threads: Final = threads
        self._by_digest: Final[weakref.WeakValueDictionary[bytes, SharedGraph]] = weakref.WeakValueDictionary()
        self._last: Final[OrderedDict[SharedGraph, None]] = OrderedDict()
        self._extending: Final[weakref.WeakValueDictionary[bytes, asyncio.Lock]] = weakref.WeakValueDictionary()
        """By digest, the lock of the session whose addition makes the graph of that digest, and of those that wait."""

    async def extended(self, state: GraphState, addition: Addition) -> GraphState:
        """The graph of a session with more operations. InvalidArgumentError if they cannot be built."""
        before = state.shared.digests[state.additions - 1] if state.additions else b""
        hashing = functools.partial(digest, *addition, before)
        key = await self._threads.run(hashing, "hashing a graph") if addition.is_large else hashing()
        async with self._extending.setdefault(key, asyncio.Lock()):  # sessions that send it at once build it once
            found = self._by_digest.get(key) or await self._built(state, addition, key)
            self._by_digest[key] = found
        self._use(found)
        return GraphState(found, found.digests.index(key) + 1)

    async def _built(self, state: GraphState, addition: Addition, key: bytes) -> SharedGraph:
        """The session's graph with the addition, or a copy of it if other sessions have added other operations."""
        found = state.shared
        if not await found.add(addition, state.additions, key, self._threads):
            found = await found.copy(state.additions, self._threads)
            await found.add(addition, state.additions, key, self._threads)
        return found

    def _use(self, graph: SharedGraph) -> None:
        """Keep the graph, if it is small, as the one used last."""
        self._last[graph] = None
        self._last.move_to_end(graph)
        if graph.nbytes > _MOST_KEPT:
            del self._last[graph]
        if len(self._last) > _KEPT:
            self._last.popitem(last=False)
