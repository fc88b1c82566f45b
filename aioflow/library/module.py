"""`Module`: a named object whose variables are those in its attributes."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from aioflow.graph.building import get_default_graph
from aioflow.library.partitioned_variables import PartitionedVariable
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Module")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z0-9])")


class _Scope:
    """The name scope of a module, which can be entered again and again.

    Attributes:
        name: the scope, with a slash at its end.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._open: Final[list[Any]] = []

    def __enter__(self) -> str:
        scope = get_default_graph().name_scope(self.name)
        name = scope.__enter__()
        self._open.append(scope)
        return name

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


class Module:
    """A part of a model: variables, other modules, and functions of them. Derive classes from it.

    Variables and modules are found in the attributes of the object, also in lists, tuples and dicts: in the order of
    the names of the attributes and of the keys of dicts, first those of the module itself. Layers of `af.layers` and
    Templates count with their variables.

    Args:
        name: its name, an identifier of Python; by default that of its class in small letters.

    Attributes:
        name: its name.
        name_scope: its name scope, for `with`. It is unique in the graph in which the module is made.

    Raises:
        ValueError: the name is no identifier.

    Examples:
        >>> class Scale(af.Module):
        ...     def __init__(self, factor):
        ...         super().__init__()
        ...         with self.name_scope:
        ...             self.factor = af.Variable(factor, name="factor")
        ...
        ...     @af.Module.with_name_scope
        ...     def __call__(self, x):
        ...         return af.multiply(x, self.factor, name="scaled")
        >>> scale = Scale(2.0)
        >>> y = scale(af.constant(3.0))
        >>> await session.run(af.variables_initializer(scale.variables))
        >>> print(y.name, await session.run(y))
        scale/scaled:0 6.0
    """

    def __init__(self, name: str | None = None) -> None:
        chosen = _WORD.sub("_", type(self).__name__).lower() if name is None else name
        if not isinstance(chosen, str) or not chosen.isidentifier():
            raise ValueError(f"the name of a module is an identifier of Python, not {safe_repr(chosen)}")
        self._name = chosen
        with get_default_graph().name_scope(chosen) as scope:
            self._scope = _Scope(scope)

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def name_scope(self) -> _Scope:
        """Its name scope, for `with`."""
        return self._scope

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables and those of its modules, each once."""
        found = (each for module in (self, *self.submodules) for each in module._own_variables())
        return tuple({id(each): each for each in found}.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The variables among these that training changes."""
        return tuple([each for each in self.variables if each.trainable])

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """The variables among these that training does not change."""
        return tuple([each for each in self.variables if not each.trainable])

    @property
    def submodules(self) -> "tuple[Module, ...]":
        """The modules in its attributes, and theirs, each once; not itself."""
        seen: dict[int, Module] = {id(self): self}

        def add(module: Module) -> None:
            own = [each for each in module._leaves() if isinstance(each, Module) and id(each) not in seen]
            seen.update({id(each): each for each in own})
            for each in own:
                add(each)

        add(self)
        return tuple([*seen.values()][1:])

    def _own_variables(self) -> Iterator[Variable]:
        for leaf in self._leaves():
            if isinstance(leaf, Variable):
                yield leaf
            elif isinstance(leaf, PartitionedVariable):
                yield from leaf
            elif not isinstance(leaf, Module) and hasattr(type(leaf), "trainable_variables"):
                yield from leaf.variables

    def _leaves(self) -> Iterator[Any]:
        """The values of the attributes, and what lists, tuples and dicts among them hold."""
        for name in sorted(vars(self)):
            yield from _flat(vars(self)[name])

    @classmethod
    def with_name_scope(cls, method: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
        """Return the method in the name scope of its module; a decorator."""

        def scoped(self: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with self.name_scope:
                return method(self, *args, **kwargs)

        functools.update_wrapper(scoped, method)
        return scoped


def _flat(value: Any, around: tuple[int, ...] = ()) -> Iterator[Any]:
    if id(value) in around:
        return
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: (type(key).__name__, key)) if _sortable(value) else [*value]
        for key in keys:
            yield from _flat(value[key], (*around, id(value)))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _flat(each, (*around, id(value)))
    else:
        yield value


def _sortable(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, (str, int)) for key in value)
