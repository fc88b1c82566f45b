"""The stub files of the faces: what type checkers and editors see of their names.

    make stubs

A face lists names that it imports when they are used, and an op is an object that is called, so both need a stub file:
it has a function for each op, made from the op's declaration, and imports all else from where it is defined. An op that
several faces list is written in the first, from which the others import it.
"""

import importlib
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NewType

import aioflow
from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.op import Op
from aioflow.graph.params import Param
from aioflow.lazy import Face
from aioflow.tensors.dtypes import UNKNOWN, DType, Spec, TensorShape, complex64, float32, int32, string
from aioflow.tensors.dtypes import DTypeLike as DTypeLike
from aioflow.tensors.dtypes import ShapeLike as ShapeLike

PACKAGE: Final = Path(aioflow.__file__).parent
LINE: Final = 120
HEADER: Final = '''"""{doc}"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike
'''
KINDS: Final = (float32, int32, complex64, string)
ALIASES: Final = {DTypeLike: "DTypeLike", ShapeLike: "ShapeLike"}


def faces() -> list[types.ModuleType]:
    """The modules that list public names, the top one first."""
    files = [PACKAGE / "__init__.py", *sorted(PACKAGE.rglob("*/*.py"))]
    names = [file.relative_to(PACKAGE.parent).with_suffix("") for file in files if "= Face(" in file.read_text()]
    return [importlib.import_module(".".join(name.parts).removesuffix(".__init__")) for name in names]


def stubs() -> dict[Path, str]:
    """The text of each stub file."""
    written: dict[int, tuple[str, str]] = {}
    return {Path(str(face.__file__)).with_suffix(".pyi"): _stub(face, written) for face in faces()}


def _stub(face: types.ModuleType, written: dict[int, tuple[str, str]]) -> str:
    """The stub of one face. `written` has the import of each op that an earlier one defines."""
    table = face._face
    assert isinstance(table, Face)
    imports, functions, again = [], [], []
    for name, (home, defined) in table.homes.items():
        value = None if home == "." else getattr(importlib.import_module(home), defined, None)
        if not isinstance(value, Op):
            imports.append(f"from {face.__name__ if home == '.' else home} import {defined} as {name}")
        elif id(value) in written:
            where, first = written[id(value)]
            if where == face.__name__:
                again.append(f"{name} = {first}")
            else:
                imports.append(f"from {where} import {first} as {name}")
        else:
            written[id(value)] = face.__name__, name
            functions.append(_function(name, value, table.homes))
    listed = f"__all__ = [{', '.join(map(repr, table.names))}]"
    doc = (face.__doc__ or "").replace("\\", "\\\\")
    return "\n".join([HEADER.format(doc=doc), *sorted(imports), "", _wrapped(listed), *functions, *again]) + "\n"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text.replace("'", '"'), LINE, subsequent_indent="    ", break_long_words=False)
    return "\n".join(lines)


def _function(name: str, op: Op[Any], shadowed: Mapping[str, object]) -> str:
    """The op as a function, with its docstring."""
    signature, narrow = inspect.signature(op), _narrowed(op)
    shown = list(_parameters(signature, narrow, shadowed))
    result = f" -> {_text(signature.return_annotation, shadowed)}:"
    line = f"def {name}({', '.join(shown)}){result}"
    if len(line) > LINE:
        line = f"def {name}(\n    " + ",\n    ".join(shown) + f",\n){result}"
    doc = textwrap.indent(inspect.getdoc(op) or "", "    ").strip().replace("\\", "\\\\")
    end = "\n    " if "\n" in doc else ""
    return f'\n{line}\n    """{doc}{end}"""\n'


def _parameters(
    signature: inspect.Signature, narrow: Mapping[str, Any], shadowed: Mapping[str, object]
) -> Iterator[str]:
    keywords = False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        annotation = _text(p.annotation, shadowed)
        if p.annotation is TensorLike or annotation == "Sequence[TensorLike]":
            annotation = annotation.replace("TensorLike", narrow[p.name].__name__)
        yield f"{p.name}: {annotation}" + ("" if p.default is p.empty else f" = {_default(p.default)}")


def _default(value: Any) -> str:
    return repr(value).replace("'", '"') if isinstance(value, (bool, int, float, str, tuple, type(None))) else "..."


def _text(annotation: Any, shadowed: Mapping[str, object]) -> str:
    """An annotation as it is written in a stub."""
    if annotation in ALIASES:
        return ALIASES[annotation]
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " | ".join(_text(each, shadowed) for each in typing.get_args(annotation))
    origin = typing.get_origin(annotation)
    if origin is not None:
        inner = ", ".join(_text(each, shadowed) for each in typing.get_args(annotation))
        return f"{_text(origin, shadowed)}[{inner}]"
    name: str = annotation.__name__
    return f"builtins.{name}" if annotation.__module__ == "builtins" and name in shadowed else name


# Which data may be text


def _narrowed(op: Op[Any]) -> dict[str, NewType]:
    """For each data parameter what it takes: found out by calling the shape rule with Specs of unknown shape."""
    data = [param for param in op.params if param.role != "attr"]
    taken: dict[str, set[DType]] = {param.name: set() for param in data}
    for dtypes in itertools.product(KINDS, repeat=len(data)):
        given = dict(zip(taken, dtypes, strict=True))
        if _accepts(op, given):
            for name, dtype in given.items():
                taken[name].add(dtype)
    return {name: _like(dtypes) for name, dtypes in taken.items()}


def _like(dtypes: set[DType]) -> Any:
    if dtypes == {string}:
        return TextLike
    return TensorLike if string in dtypes or not dtypes else NumberLike


def _accepts(op: Op[Any], dtypes: Mapping[str, DType]) -> bool:
    arguments = [_argument(param, op.rule, dtypes) for param in _all_params(op)]
    try:
        op.rule(*arguments)
    except Exception:
        return False
    return True


def _all_params(op: Op[Any]) -> list[Param]:
    roles = {param.name: param for param in op.params}
    return [roles.get(name, Param(name, "attr")) for name in inspect.signature(op.rule).parameters]


def _argument(param: Param, rule: Any, dtypes: Mapping[str, DType]) -> Any:
    declared = inspect.signature(rule).parameters[param.name]
    if param.role != "attr":
        spec = Spec(dtypes[param.name], UNKNOWN)
        return [spec] if param.role == "list" else spec
    if declared.default is not declared.empty:
        return declared.default
    likely = {bool: False, int: 2, float: 1.0, str: "SAME", DType: float32, TensorShape: UNKNOWN}
    return likely.get(declared.annotation, (0,))


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
