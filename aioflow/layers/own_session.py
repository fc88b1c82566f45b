"""The sessions that models open themselves: one for all models of a graph.

Models may share weights, and another model that shares those of two may be made at any time: in one session each
weight has one value.
"""

import weakref
from typing import TYPE_CHECKING, Final

from aioflow.config import Config
from aioflow.graph.graph import Graph
from aioflow.session import Session

if TYPE_CHECKING:
    from aioflow.layers.stored_weights import StoredWeights

_OPEN: Final = "__model_sessions"
"""The collection of a graph that holds the open ones."""


class OwnSession:
    """The session of the models of a graph. It closes with the last of them.

    Attributes:
        session: the session.
    """

    def __init__(self, graph: Graph) -> None:
        self.session: Final = Session(graph=graph, config=Config(allow_soft_placement=True))
        self._users: Final[weakref.WeakSet[StoredWeights]] = weakref.WeakSet()

    @classmethod
    def of(cls, model: "StoredWeights") -> "OwnSession":
        """The open one of the graph of the model, else a new one."""
        kept = _open_ones(model.graph)
        found = next((each for each in kept if not each.session.closed), None) or cls(model.graph)
        kept.add(found)
        found._users.add(model)
        return found

    async def leave(self, model: "StoredWeights") -> None:
        """Close the session, unless another model uses it."""
        self._users.discard(model)
        if not self._users:
            await self.session.close()


def _open_ones(graph: Graph) -> "weakref.WeakSet[OwnSession]":
    kept = graph.get_collection_ref(_OPEN)
    if not kept:
        kept.append(weakref.WeakSet())
    found: weakref.WeakSet[OwnSession] = kept[0]
    return found
