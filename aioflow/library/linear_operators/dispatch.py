"""What operators make together, such as their product: by rules for kinds of operators, the nearest kinds first."""

import itertools
from collections.abc import Callable
from typing import Any


class Dispatch:
    """A function of operators, whose rules are each for operators of certain classes."""

    def __init__(self) -> None:
        self._rules: dict[tuple[type, ...], Callable[..., Any]] = {}

    def of(self, *kinds: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function for operators of these classes and of classes below them.

        A rule that returns None does not hold for its operators; the next one is asked.
        """

        def register(rule: Callable[..., Any]) -> Callable[..., Any]:
            self._rules[kinds] = rule
            return rule

        return register

    def __call__(self, *operators: Any) -> Any:
        """What the first rule gives that holds for these operators; the last of all is that of the base class."""
        paths = [list(enumerate(type(operator).__mro__)) for operator in operators]
        for steps in sorted(itertools.product(*paths), key=lambda path: sum(step for step, _ in path)):
            rule = self._rules.get(tuple(kind for _, kind in steps))
            found = None if rule is None else rule(*operators)
            if found is not None:
                return found
        raise NotImplementedError(f"there is no rule for {', '.join(type(each).__name__ for each in operators)}")


product = Dispatch()
"""The product of two operators."""
adjoint_of = Dispatch()
"""The adjoint of an operator."""
inverse_of = Dispatch()
"""The inverse of an operator."""
cholesky_of = Dispatch()
"""The lower triangular factor of a self-adjoint, positive definite operator."""
