"""The pages of the API: each public object once, below the name by which programs use it.

A page has a directive of mkdocstrings for each object; mkdocstrings writes signature, docstring and members in its
place. A public module has a page. The names of aioflow itself are many, so they are divided by the modules that define
them. A name that several modules list is described once, and the other pages have a link.
"""

import enum
import functools
import importlib
import inspect
import types
from typing import Any, Final, NamedTuple

import aioflow
from aioflow.name_hints import SHOWN
from aioflow.tensors.dtypes import DType

PARTS: Final = {
    "sessions": ("Sessions", "session config errors tracing devices plan tensors.codecs version"),
    "graphs": ("Graphs", "graph library.control library.custom_gradient autodiff kernels.control.py_func"),
    "variables": ("Variables", "library.state library.variables library.variable_scope library.critical_section"),
    "control-flow": ("Control flow", "library.branches library.loops library.functional library.tensor_array"),
    "queues": (
        "Queues, readers and files",
        "library.queues library.staging library.accumulators library.batching library.readers library.parsing "
        "kernels.data kernels.state",
    ),
    "math": (
        "Mathematics",
        "kernels.math library.clip library.fourier library.fake_quantisation library.quantised_numbers "
        "library.approximate_top_k",
    ),
    "arrays": ("Arrays", "kernels.array kernels.nn library.arrays library.random library.nn_convolution"),
    "linear-algebra": ("Matrices", "kernels.linalg"),
    "sparse": ("Sparse tensors", "kernels.sparse library.sparse library.sparse_reduction"),
    "ragged": ("Ragged tensors", "library.ragged"),
    "strings": ("Strings", "kernels.text"),
    "initializers": ("Initializers", "library.initializers"),
    "models": ("Models", "layers.model"),
    "dtypes": ("Dtypes and shapes", "tensors.dtypes tensors.shape"),
    "debugging": ("Checks and debugging", "kernels.control porting"),
    "more": ("Further names", ""),
}
"""The pages for the names of aioflow itself: the title of each, and the modules below `aioflow` that it describes."""

MODULES: Final = {
    **{name: shown for name, shown in SHOWN.items() if shown != "af"},
    "aioflow.testing": "aioflow.testing",
}
"""The other public modules, and the names by which programs use them."""

START: Final = """\
An example continues these lines, in `python -m asyncio`:

    >>> import numpy as np
    >>> import aioflow as af
    >>> session = af.Session()
"""


class Public(NamedTuple):
    """A public name: its module, the name there, the name in programs, the object."""

    module: str
    name: str
    shown: str
    value: Any

    @property
    def documented(self) -> bool:
        """Whether it has a docstring of its own: a function, a class or an op, no number, no set and no module."""
        plain = (types.ModuleType, DType, int, float, str, tuple, frozenset, type(None))
        return not isinstance(self.value, plain) or isinstance(self.value, enum.Enum)


def public(module: str) -> list[Public]:
    """The public names of a module, but for further modules."""
    found = importlib.import_module(module)
    shown = SHOWN.get(module, module)
    names = [Public(module, name, f"{shown}.{name}", getattr(found, name)) for name in found.__all__]
    return [each for each in names if not isinstance(each.value, types.ModuleType)]


@functools.cache
def objects() -> dict[int, Public]:
    """Every public object that has a docstring, by its id, under the first name that it has."""
    found: dict[int, Public] = {}
    for module in ("aioflow", *MODULES):
        for each in public(module):
            if each.documented:
                found.setdefault(id(each.value), each)
    return found


def pages() -> dict[str, str]:
    """The text of each page, by its file."""
    written = {f"{part}.md": _page(title, None, names) for part, (title, names) in _parts().items() if names}
    for module, shown in MODULES.items():
        written[f"{shown}.md"] = _page(shown, importlib.import_module(module), public(module))
    return written


def _parts() -> dict[str, tuple[str, list[Public]]]:
    """The title of each part of aioflow itself, and its names: in the order of its modules, and of the alphabet."""
    parts: dict[str, tuple[str, list[Public]]] = {part: (title, []) for part, (title, _) in PARTS.items()}
    for each in sorted(public("aioflow"), key=lambda each: (_place(each), each.name)):
        parts[_place(each)[0]][1].append(each)
    return parts


def _place(each: Public) -> tuple[str, int]:
    """The part of a name of aioflow, and its place there: that of its module, or else after that of its folder."""
    home = name = aioflow._face.homes[each.name][0].removeprefix("aioflow.")
    while name:
        for part, (_, modules) in PARTS.items():
            if name in modules.split():
                return part, 2 * modules.split().index(name) + (name != home)
        name = name.rpartition(".")[0]
    return "more", 0


def _page(title: str, module: types.ModuleType | None, names: list[Public]) -> str:
    mine, others = [], []
    for each in names:
        first = objects().get(id(each.value), None)
        (mine if first and first.shown == each.shown else others).append(each)
    about = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0] + "\n" if module else ""
    blocks = [f"# {title}\n", about, START if mine else "", *map(_directive, mine)]
    if others:
        blocks += ["## Further names\n", *map(_link, others)]
    return "\n".join(filter(None, blocks)) + "\n"


def _directive(each: Public) -> str:
    options = [f"heading: {each.shown}", f"toc_label: {each.name}"]
    if members := _members(each.value):
        options += [f"members: [{', '.join(members)}]", "inherited_members: true"]
    elif inspect.isclass(each.value) and _public_bases(each.value):
        options.append("members: false")
    lines = "".join(f"      {option}\n" for option in options)
    return f"::: {each.module}.{each.name}\n    options:\n{lines}"


def _members(value: Any) -> list[str]:
    """The methods and properties that a class or a base that is not public adds to those of its public bases."""
    if not inspect.isclass(value):
        return []
    mine = [base for base in value.__mro__ if base is value or (_is_ours(base) and id(base) not in objects())]
    known = {name for base in _public_bases(value) for name in dir(base)}
    names = [name for base in mine for name, member in vars(base).items() if _is_method(member)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_") and name not in known]


def _public_bases(value: type) -> list[type]:
    return [base for base in value.__mro__[1:] if _is_ours(base) and id(base) in objects()]


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("aioflow.")


def _is_method(member: Any) -> bool:
    kinds = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
    return isinstance(member, kinds) and bool(member.__doc__)


def _link(each: Public) -> str:
    known = objects().get(id(each.value))
    if known is None:
        return f"- `{each.shown}`" + ("" if isinstance(each.value, DType) else f": {each.value!r}")
    return f"- `{each.shown}` is [`{known.shown}`][{known.module}.{known.name}]"
