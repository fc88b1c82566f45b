"""The sessions that models open themselves. Models that share weights share a session, and so the values of these."""

import weakref
from typing import TYPE_CHECKING, Any, Final

from aioflow.graph.graph import Graph
from aioflow.session import Session

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable

_OPEN: Final = "__model_sessions"
"""The collection of a graph that holds the open ones."""


class OwnSession:
    """A session of one or more models. It closes with the last of them.

    Attributes:
        session: the session.
    """

    def __init__(self, graph: Graph) -> None:
        self.session: Final = Session(graph=graph)
        self._users: Final[weakref.WeakSet[Trainable]] = weakref.WeakSet()

    @classmethod
    def of(cls, model: "Trainable") -> "OwnSession":
        """That of a model which shares a weight, else a new one."""
        kept = _open_ones(model.graph)
        weights = set(model.weights)
        shared = (each for each in kept if not each.session.closed and not weights.isdisjoint(each._weights))
        found = next(shared, None) or cls(model.graph)
        kept.add(found)
        found._users.add(model)
        return found

    @property
    def _weights(self) -> list[Any]:
        return [weight for user in self._users for weight in user.weights]

    async def leave(self, model: "Trainable") -> None:
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
