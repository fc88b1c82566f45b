"""The default session of a task: the session that `Tensor.eval` and `Operation.run` use."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph


class Runner(Protocol):
    """The part of a session that `Tensor.eval` and `Operation.run` use."""

    @property
    def graph(self) -> "Graph":
        """The graph of the session."""

    async def run(self, fetches: Any, feeds: Any = None) -> Any:
        """Return the values of the fetches."""


default_session: ContextVar[Runner | None] = ContextVar("aioflow_default_session", default=None)


def current_session() -> Runner:
    """Return the innermost session that this task has entered or made its default. ValueError if there is none."""
    session = default_session.get()
    if session is None:
        raise ValueError(
            "no default session: use `async with af.Session()` or `with session.as_default():` around this, or call "
            "session.run(...)"
        )
    return session


def enter_session(session: Runner, outer: Runner | None) -> Runner | None:
    """Make `session` the default of this task. Returns the former default, or `outer` if `session` was it already."""
    before = default_session.get()
    default_session.set(session)
    return outer if before is session else before


def leave_session(session: Runner, outer: Runner | None) -> None:
    """Make `outer` the default session again, unless `session` is not the default.

    Sessions may be left in any order and task.
    """
    if default_session.get() is session:
        default_session.set(outer)
