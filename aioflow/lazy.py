"""Imports modules at their first use, so that `import aioflow` imports little else.

A face is a module that defines nothing, and lists public names with the modules that define them. Each name is imported
at its first use. `dir` shows all names, and the stub file beside the face gives them to type checkers and editors.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

V = TypeVar("V")


class Face:
    """The public names of one module, which gets an `__all__`, a `__getattr__` and a `__dir__` that know no others.

        _face = Face(__name__, {"aioflow.graph.graph": "Graph", "aioflow.tensors.dtypes": "DType bool=bool_"})

    Attributes:
        names: the names that are listed, sorted.
        homes: the module that defines each name, and its name there.

    Args:
        module: the name of the face.
        homes: names by module; `public=defined` where the two differ. The module "." has the submodules of the face.
    """

    def __init__(self, module: str, homes: Mapping[str, str]) -> None:
        self._module: Final = module
        self.names: Final = sorted(_by_name(homes))
        self.homes: Final = _by_name(homes)
        vars(sys.modules[module]).update(__all__=self.names, __getattr__=self._find, __dir__=lambda: [*self.names])

    def _find(self, name: str) -> Any:
        """The object of that name, imported now. AttributeError, with the right name if one is close."""
        if name not in self.homes:
            raise _unknown(self._module, name, self.names)
        home, defined = self.homes[name]
        if home == ".":
            return importlib.import_module(f"{self._module}.{defined}")
        found = getattr(__import__(home, fromlist=[defined]), defined)
        setattr(sys.modules[self._module], name, found)
        return found


def _unknown(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module lacks, with its replacement or similar names."""
    text = f"module {module!r} has no attribute {name!r}"
    if not name.startswith("_"):
        text += importlib.import_module("aioflow.name_hints").hint(module, name, names)
    return AttributeError(text, name=name, obj=sys.modules.get(module))


def import_all(package: str) -> None:
    """Import every module of a package, at any depth, so that their declarations are registered."""
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{package}."):
        importlib.import_module(module.name)


def _by_name(homes: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for home, names in homes.items():
        for item in names.split():
            public, _, defined = item.partition("=")
            found[public] = home, defined or public
    return found


class Registry(dict[str, V]):
    """Entries that modules add when they are imported: a lookup imports the packages that may have the entry.

    Only `registry[name]` does. Call `complete` before names that come from elsewhere are looked up in other ways.
    """

    def __init__(self, *packages: str) -> None:
        super().__init__()
        self._packages: list[str] = [*packages]

    def __missing__(self, name: str) -> V:
        while self._packages:
            import_all(self._packages.pop(0))
            if name in self:
                return self[name]
        raise KeyError(name)

    def complete(self) -> None:
        """Import every module that may add an entry."""
        while self._packages:
            import_all(self._packages.pop(0))
