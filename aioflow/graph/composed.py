"""Objects that stand for several tensors, such as SparseTensor, and how ops and functions are composed for them.

A class of such objects has rules: one for each op or function that takes its objects. A call with an object of the
class runs the rule, which builds the result of other operations. Without a rule the call converts the object to a
tensor, or says why it cannot.
"""

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, TypeVar

from aioflow.graph.building import add_user_line, graph_to_build_in
from aioflow.graph.numpy_functions import Symbolic
from aioflow.lazy import Registry

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph

P = ParamSpec("P")
R = TypeVar("R")
Rule = Callable[..., Any]

ELEMENTWISE: Final = "elementwise"
"""The key of the rule for all elementwise ops without one of their own. It takes the op before its arguments."""


class Composed(Symbolic):
    """Base class of objects that stand for several tensors.

    Attributes:
        rules: {`key_of` an op or a function: how it is composed where an argument is an object of this class}.
    """

    __slots__ = ()
    rules: ClassVar[Registry[Rule]]

    @property
    def graph(self) -> "Graph":
        """The graph of the tensors."""
        raise NotImplementedError

    @classmethod
    def rule_for(cls, called: Any, elementwise: bool = False) -> Rule | None:
        """Return the rule for a call of that op or function; None if there is none."""
        try:
            return cls.rules[key_of(called)]
        except KeyError:
            return (
                functools.partial(cls.rules[ELEMENTWISE], called) if elementwise and ELEMENTWISE in cls.rules else None
            )


def key_of(called: Any) -> str:
    """Return the key of an op or a function among the rules of a class."""
    return f"{called.__module__}.{called.__name__}"


def composed_in(values: Iterable[Any]) -> Composed | None:
    """Return the first object that stands for several tensors, among the values or in lists of them; None without."""
    for value in values:
        if isinstance(value, Composed):
            return value
        if type(value) in (list, tuple):
            found = next((item for item in value if isinstance(item, Composed)), None)
            if found is not None:
                return found
    return None


def dispatching(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function of tensors, so that a call with an object that has a rule for it runs the rule."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        found = composed_in((*args, *kwargs.values()))
        rule = None if found is None else found.rule_for(call)
        if found is None or rule is None:
            return function(*args, **kwargs)
        try:
            graph = graph_to_build_in(found.graph)
            with graph.transaction(), graph.as_default():
                return rule(*args, **kwargs)  # type: ignore[no-any-return]
        except (TypeError, ValueError, RecursionError) as error:
            raise add_user_line(error, function.__name__, *args, *kwargs.values()) from error

    return call
