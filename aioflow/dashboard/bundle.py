"""The page's modules of JavaScript as one script, for a page that is one file.

Each module becomes a function that runs once and returns what the module exports. A module comes after those that it
imports. The page's modules use few forms of `import` and `export`; any other form is an error here. Libraries of others
keep their licences.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aioflow.dashboard.app import STATIC

_IMPORT: Final = re.compile(r'^import (\{[^}]*\}|\* as \w+|\w+) from "([^"]+)";$', re.MULTILINE)
_DECLARATION: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_DEFAULT: Final = re.compile(r"^export default (\w+);$", re.MULTILINE)
_LIST: Final = re.compile(r"\bexport\{([\w$, ]+)\};?")
_OTHER: Final = re.compile(r"(?:^|(?<=;))(?:import|export)\b.{,60}", re.MULTILINE)


def bundle(main: str, replaced: Mapping[str, str]) -> str:
    """The script that runs a module of the page, with all modules that it needs. ValueError for an unknown form.

    Args:
        main: the module: its path in `static`.
        replaced: paths of modules, and of those that take their places.
    """
    parts: dict[Path, str] = {}
    _add((STATIC / main).resolve(), {STATIC / old: STATIC / new for old, new in replaced.items()}, parts)
    return "".join(parts.values())


def _add(path: Path, replaced: Mapping[Path, Path], parts: dict[Path, str]) -> None:
    """Add a module, after those that it imports."""
    text = path.read_text(encoding="utf-8")
    needed = {name: (path.parent / name).resolve() for _, name in _IMPORT.findall(text)}
    used = {name: replaced.get(module, module) for name, module in needed.items()}
    for module in used.values():
        if module not in parts:
            _add(module, replaced, parts)
    parts[path] = f"{_licence(path)}const {_variable(path)} = (() => {{\n{_as_function(path, text, used)}}})();\n"


def _as_function(path: Path, text: str, used: Mapping[str, Path]) -> str:
    """The body of the function that a module becomes."""

    def taken(found: re.Match[str]) -> str:
        what, variable = found[1], _variable(used[found[2]])
        if what.startswith("*"):
            return f"const {what.removeprefix('* as ')} = {variable};"
        return f"const {what.replace(' as ', ': ') if what.startswith('{') else f'{{ default: {what} }}'} = {variable};"

    exported = [*_DECLARATION.findall(text), *[f"default: {name}" for name in _DEFAULT.findall(text)]]
    for names in _LIST.findall(text):
        exported += [": ".join(reversed(name.split(" as "))) for name in names.split(",")]
    body = _LIST.sub("", _DEFAULT.sub("", _DECLARATION.sub("", _IMPORT.sub(taken, text))))
    if strange := _OTHER.search(body):
        raise ValueError(f"{path.name}: {strange[0]!r} is an import or export of an unknown form")
    return f"{body}\nreturn {{ {', '.join(exported)} }};\n"


def _variable(path: Path) -> str:
    """The name of what a module exports."""
    return "module_" + re.sub(r"\W", "_", path.relative_to(STATIC.resolve()).with_suffix("").as_posix())


def _licence(path: Path) -> str:
    """The licence of a library, as a comment; nothing for a module of the page itself."""
    file = path.with_name(f"{path.stem}-LICENSE.txt")
    return f"/*\n{file.read_text(encoding='utf-8')}*/\n" if file.is_file() else ""
