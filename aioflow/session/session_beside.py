"""A session of another graph beside a session, with the same devices, variables and other objects."""

from typing import TYPE_CHECKING

from aioflow.graph.graph import Graph
from aioflow.runtime.engine import LocalEngine
from aioflow.session.session import Session

if TYPE_CHECKING:
    from aioflow.net.client.client import Address, RemoteEngine


class SessionBeside(Session):
    """Runs another graph. Its default container is that of the session beside it; its `own_container` is another one.

    So the other session's graph stays as it is, also if it is finalized. It is closed with the other session, if not
    before; then its runs must have ended.
    """

    def __init__(self, owner: Session, graph: Graph) -> None:
        self._owner = owner
        super().__init__("", graph, owner.config)
        owner.beside.add(self)

    def _make_engine(self, target: "str | Address", graph: Graph) -> "LocalEngine | RemoteEngine":
        return self._owner._engine.beside(graph)
