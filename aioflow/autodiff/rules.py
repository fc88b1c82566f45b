"""Finds the gradient function of an operation: the op's own, one registered by name, or an override of a scope."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation, describe_line
from aioflow.tensors.recursion import safe_repr

Rule = Callable[..., Any]
"""(operation, one gradient or None per output) -> one gradient or None per input."""
F = TypeVar("F", bound=Rule)

_registered: Final[dict[str, Rule | None]] = {}


class RegisterGradient:
    """A decorator that registers a gradient by name, for `Graph.gradient_override_map` or for an op without a gradient.

        @af.RegisterGradient("straight_through")
        def _(op, dy):
            return dy

        with graph.gradient_override_map({"round": "straight_through"}):
            y = af.round(x)

    The function takes the operation and a gradient per output, and returns one gradient or None per input.

    Raises:
        KeyError: a gradient of that name is registered already.

    Examples:
        >>> @af.RegisterGradient("HalfGradient")
        ... def _half(op, gradient):
        ...     return gradient / 2.0
        >>> x = af.constant(3.0)
        >>> with af.get_default_graph().gradient_override_map({"identity": "HalfGradient"}):
        ...     y = af.identity(x)
        >>> await session.run(af.gradients(y, x))
        [np.float32(0.5)]
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError(f"a gradient is registered by a name, not by {safe_repr(op_type)}")
        self._name = op_type

    def __call__(self, function: F) -> F:
        """Register `function`, and return it."""
        _register(self._name, function)
        return function


def no_gradient(op_type: str) -> None:
    """Stop gradients at operations of that type, and at operations whose gradient is overridden by that name.

    Raises:
        KeyError: a gradient of that name is registered already.

    Examples:
        >>> af.NoGradient("Step")
    """
    _register(op_type, None)


NoGradient: Final = no_gradient
NotDifferentiable: Final = no_gradient


def _register(name: str, rule: Rule | None) -> None:
    REGISTRY.complete()  # an op that the program has not used yet may declare a gradient of that name
    if name in _registered or _declares_gradient(name):
        raise KeyError(f"a gradient named {name!r} is registered already")
    _registered[name] = rule


def _declares_gradient(op_type: str) -> bool:
    definition = REGISTRY.get(op_type)
    return definition is not None and bool(definition.gradient_rule or definition.gradient_reason)


def get_gradient_function(op: Operation) -> Rule | None:
    """Return the gradient function of `op`; None if gradients stop there.

    Raises:
        LookupError: the op declares neither a gradient nor that it has none.
    """
    override = op.gradient_override
    if override is None:
        definition = op.definition
        if definition.gradient_rule is not None or definition.gradient_reason is not None:
            rule: Rule | None = definition.gradient_rule
            return rule
        return _find_registered(op.type, op)
    return override if callable(override) else _find_registered(override, op)


def _find_registered(name: str, op: Operation) -> Rule | None:
    if name in _registered:
        return _registered[name]
    if _declares_gradient(name):
        return REGISTRY[name].gradient_rule
    wanted = "no gradient" if name == op.type else f"no gradient named {name!r}"
    raise LookupError(f"{wanted} is known for {op.name!r} ({op.type})\n  built at: {describe_line(op)}")


def stops_gradient(op: Operation) -> bool:
    """Whether gradients stop at `op`."""
    if op.gradient_override is None and op.definition.gradient_rule is not None:
        return False
    try:
        return get_gradient_function(op) is None
    except LookupError:
        return False
