"""Changes TensorFlow's flags into arguments of an `argparse.ArgumentParser`."""

import ast
from typing import Final

from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.coroutines import starts_program
from aioflow.porting.tensorflow1.kinds import TensorFlowName

_FLAGS: Final = ("app.flags", "flags")
_DEFINED: Final = {
    "DEFINE_bool": "action=argparse.BooleanOptionalAction",
    "DEFINE_boolean": "action=argparse.BooleanOptionalAction",
    "DEFINE_float": "type=float",
    "DEFINE_integer": "type=int",
    "DEFINE_string": "",
}


def change_flags(changes: Changes) -> None:
    """Define flags as arguments of a parser, and parse the command line before the program begins."""
    used = [
        (node, name) for node in changes.nodes if isinstance(node, ast.Attribute) and (name := _member(changes, node))
    ]
    if not used:
        return
    changes.need_module("argparse")
    parser = _alias(changes) or changes.free_name("flags", "parser")
    first = min((changes.script.statement(node) for node, _ in used), key=lambda each: each.lineno)
    if _alias(changes) is None:
        changes.edits.line_before(first.lineno, f"{parser} = argparse.ArgumentParser()")
    for node, name in used:
        _change(changes, node, name, parser)
    _parse(changes, parser, [changes.script.statement(node) for node, _ in used])


def _path(changes: Changes, node: ast.expr) -> str | None:
    """The path of a name below the module of flags; empty for the module itself."""
    kind = changes.inference.kind(node)
    if not isinstance(kind, TensorFlowName):
        return None
    for module in _FLAGS:
        if kind.path == module or kind.path.startswith(f"{module}."):
            return kind.path[len(module) + 1 :]
    return None


def _member(changes: Changes, node: ast.Attribute) -> str | None:
    path = _path(changes, node)
    return path if path and "." not in path else None


def _alias(changes: Changes) -> str | None:
    """The name that the program gives the module of flags by an assignment."""
    for node in changes.nodes:
        if isinstance(node, ast.Assign) and _path(changes, node.value) == "" and isinstance(node.targets[0], ast.Name):
            start, end = changes.script.start(node.value), changes.script.end(node.value)
            changes.edits.replace(start, end, "argparse.ArgumentParser()")
            return node.targets[0].id
    return None


def _change(changes: Changes, node: ast.Attribute, name: str, parser: str) -> None:
    script, parent = changes.script, changes.script.parents[node]
    if name == "FLAGS" and not isinstance(parent, ast.Attribute):
        changes.edits.replace(script.start(node), script.end(node), "argparse.Namespace()")
    elif name in _DEFINED and isinstance(parent, ast.Call) and _is_plain(parent):
        flag, default, *text = [*parent.args, *(each.value for each in parent.keywords)]
        assert isinstance(flag, ast.Constant)
        parts = [f'"--{flag.value!s}"', _DEFINED[name], f"default={script.source(default)}"]
        parts += [f"help={script.source(each)}" for each in text]
        changed = f"{parser}.add_argument({', '.join(filter(None, parts))})"
        changes.edits.replace(script.start(parent), script.end(parent), changed)
        changes.counts["flags"] += 1
    else:
        changes.note(node, f"flags.{name} has no counterpart here: use argparse")


def _is_plain(call: ast.Call) -> bool:
    """Whether a definition has a constant name, a default and perhaps a help."""
    count = len(call.args) + len(call.keywords)
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and count in (2, 3)


def _parse(changes: Changes, parser: str, used: list[ast.stmt]) -> None:
    """Parse the command line where the program begins, or else behind the last definition."""
    script = changes.script
    holders = [each for each in used if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)]
    name = next((script.source(each.targets[0]) for each in holders), None)
    if name is None:
        changes.note(used[0], f"give the parsed arguments a name: FLAGS = {parser}.parse_args()")
        return
    text = f"{parser}.parse_args(namespace={name})"
    starts = [each for each in changes.nodes if isinstance(each, ast.Call) and starts_program(changes.inference, each)]
    if starts:
        changes.edits.line_before(script.statement(starts[0]).lineno, text)
        return
    last = max((each for each in used if isinstance(script.parents[each], ast.Module)), key=lambda each: each.lineno)
    changes.edits.insert(script.line_end(last.end_lineno or last.lineno), f"\n{text}")
