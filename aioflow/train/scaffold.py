"""A scaffold: the operations that prepare a graph for training, found or built."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.library.control import group
from aioflow.library.state import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr

InitFn = Callable[["Scaffold", Session], Awaitable[None] | None]


class Scaffold:
    """The operations of a graph that a monitored session uses. Missing ones come from its collections or are built.

    The arguments are attributes, too; `finalize` fills in those that are missing.

    Args:
        init_op: gives all global variables their initial values; run if there is no checkpoint.
        init_feed_dict: feeds for `init_op`.
        init_fn: (scaffold, session), called after it; it may be a coroutine function.
        ready_op: returns the names of the variables without a value: an empty vector when all have one.
        ready_for_local_init_op: the same for the variables that `local_init_op` needs: the global ones by default.
        local_init_op: gives local variables their initial values.
        summary_op: gives all summaries; none by default if the graph has none.
        saver: saves and restores; one of all global variables by default.
        copy_from_scaffold: gives the missing arguments.
        local_init_feed_dict: feeds for `local_init_op`.

    Examples:
        >>> v = af.Variable(1.0)
        >>> scaffold = af.train.Scaffold(init_op=v.assign(5.0))
        >>> async with af.train.SingularMonitoredSession(scaffold=scaffold) as monitored:
        ...     print(await monitored.run(v))
        5.0
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: InitFn | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: "Scaffold | None" = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError(f"copy_from_scaffold is a scaffold, not {safe_repr(copy_from_scaffold)}")
        if init_fn is not None and not callable(init_fn):
            raise TypeError(f"init_fn is a function of a scaffold and a session, not {safe_repr(init_fn)}")
        self.init_op = init_op
        self.init_feed_dict = init_feed_dict
        self.init_fn = init_fn
        self.ready_op = ready_op
        self.ready_for_local_init_op = ready_for_local_init_op
        self.local_init_op = local_init_op
        self.summary_op = summary_op
        self.saver = saver
        self.local_init_feed_dict = local_init_feed_dict
        if copy_from_scaffold is not None:
            for name, part in vars(copy_from_scaffold).items():
                if getattr(self, name) is None:
                    setattr(self, name, part)

    def finalize(self) -> "Scaffold":
        """Fill in every part, and finalize the default graph.

        Raises:
            RuntimeError: a collection holds several operations for one part; or a part is missing and the graph is
                finalized already.
        """
        for name, (key, make) in _DEFAULTS.items():
            if getattr(self, name) is None:
                setattr(self, name, self.get_or_default(name, key, make))
        get_default_graph().finalize()
        return self

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """Return the element in the collection of the default graph. If there is none, build it and add it.

        RuntimeError if it holds several: `arg_name` is the argument of `Scaffold` that chooses one.
        """
        graph = get_default_graph()
        found = graph.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f"collection {collection_key!r} holds {len(found)} of them: choose by Scaffold({arg_name}=)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Return an operation that gives each local variable of the default graph its initial value."""
        return group(local_variables_initializer(), name="init_local")


def _ready_for_local_init() -> Any:
    return report_uninitialized_variables(global_variables(), name="report_uninitialized_global_variables")


def _saver() -> Any:
    """Return a saver of all global variables; None if there are none."""
    from aioflow.train.saver import Saver

    return Saver() if global_variables() else None


def _summaries() -> Any:
    """Return all summaries in one; None if there are none."""
    if not get_default_graph().get_collection(GraphKeys.SUMMARIES):
        return None
    from aioflow.summary.functions import merge_all

    return merge_all()


_DEFAULTS: Final[Mapping[str, tuple[str, Callable[[], Any]]]] = {
    "init_op": (GraphKeys.INIT_OP, global_variables_initializer),
    "ready_op": (GraphKeys.READY_OP, report_uninitialized_variables),
    "ready_for_local_init_op": (GraphKeys.READY_FOR_LOCAL_INIT_OP, _ready_for_local_init),
    "local_init_op": (GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op),
    "summary_op": (GraphKeys.SUMMARY_OP, _summaries),
    "saver": (GraphKeys.SAVERS, _saver),
}
