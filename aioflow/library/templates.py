"""Functions that share their variables between calls."""

import functools
from collections.abc import Callable
from typing import Any, Final

from aioflow.library.state import trainable_variables
from aioflow.library.variable_scope import VariableScope, variable_scope
from aioflow.library.variables import Variable

# Templates


class Template:
    """A function whose first call creates its variables, and whose later calls use the same ones.

    They are the variables that `func` gets from `get_variable`. See `make_template`.

    Examples:
        >>> def layer(x):
        ...     return x * af.get_variable("scale", initializer=2.0)
        >>> shared = af.make_template("layer", layer)
        >>> a, b = shared(af.constant(1.0)), shared(af.constant(3.0))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run([a, b])
        [np.float32(2.0), np.float32(6.0)]
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Callable[..., Any] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("a template needs a name, not None")
        self.name: Final = name
        self.func: Final = func
        self._unique_name: Final = unique_name
        self._custom_getter: Final = custom_getter
        self._scope: VariableScope | None = None
        self._called = False
        if create_scope_now:
            with self._first(auxiliary_name_scope=False) as scope:
                self._scope = scope

    def _first(self, **options: Any) -> Any:
        return variable_scope(self._unique_name, self.name, custom_getter=self._custom_getter, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and return its result.

        Raises:
            ValueError: a later call creates a trainable variable, as by `Variable` instead of `get_variable`.
        """
        again = self._scope is not None
        with variable_scope(self._scope, reuse=self._called) if again else self._first() as scope:
            if not again:
                self._scope = scope
            before = len(trainable_variables())
            result = self.func(*args, **kwargs)
            if self._called and len(trainable_variables()) != before:
                names = [variable.op.name for variable in trainable_variables()[before:]]
                raise ValueError(f"template {self.name!r} made {names} in a later call; did you mean af.get_variable?")
            self._called = True
            return result

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of its variables, None before the first call."""
        return self._scope

    @property
    def var_scope(self) -> VariableScope | None:
        """The scope of its variables, None before the first call."""
        return self._scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of that scope."""
        return None if self._scope is None else self._scope.name

    @property
    def global_variables(self) -> list[Variable]:
        """Its variables that sessions share and checkpoints keep."""
        return [] if self._scope is None else self._scope.global_variables()

    @property
    def local_variables(self) -> list[Variable]:
        """Its variables that each process has for itself."""
        return [] if self._scope is None else self._scope.local_variables()

    @property
    def trainable_variables(self) -> list[Variable]:
        """Its variables that optimizers change."""
        return [] if self._scope is None else self._scope.trainable_variables()

    @property
    def variables(self) -> list[Variable]:
        """All its variables."""
        return [*self.global_variables, *self.local_variables]


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Template:
    """Return `func_` as a function that shares its variables among all its calls.

    Args:
        name_: the name of the variable scope, made unique.
        func_: gets its variables from `get_variable`.
        create_scope_now_: whether the scope is made unique now, not at the first call.
        unique_name_: the exact name of the scope, instead of `name_`.
        custom_getter_: see `get_variable`.
        **kwargs: arguments for every call of `func_`.

    Examples:
        >>> def scaled(x):
        ...     return x * af.get_variable("factor", [], initializer=af.ones_initializer())
        >>> template = af.make_template("scale", scaled)
        >>> both = template(2.0), template(3.0)
        >>> [variable.name for variable in af.global_variables()]
        ['scale/factor:0']
    """
    func = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, func, create_scope_now_, unique_name_, custom_getter_)
