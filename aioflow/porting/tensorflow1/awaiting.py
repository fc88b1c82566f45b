"""Writes `await` and `async` where a program waits."""

import ast
from itertools import groupby, pairwise
from typing import Final

from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.kinds import Foreign, OwnClass
from aioflow.porting.tensorflow1.script import FunctionNode

_STARTERS: Final = ("start", "set_up", "prepare")
"""Names for the method that a constructor becomes."""


def change_waiting(changes: Changes) -> None:
    """Change all that waits, and the functions around it; mark what cannot be changed."""
    coroutines = changes.coroutines
    for node in sorted(coroutines.waiting, key=_order):
        match node:
            case ast.Call():
                _await(changes, node)
            case ast.With():
                _enter(changes, node)
            case ast.Assign():
                _enter_rest(changes, node)
            case ast.For():
                changes.edits.insert(changes.script.start(node), "async ")
            case ast.comprehension():
                at = changes.script.text.rindex("for", 0, changes.script.start(node.target))
                changes.edits.insert(at, "async ")
    for function in coroutines.functions:
        changes.edits.insert(changes.script.start(function), "async ")
        changes.counts["coroutine functions"] += 1
        if function in coroutines.starters:
            _change_constructor(changes, function)
    _change_sleeps(changes)
    for place, text in coroutines.remarks.items():
        changes.note(place, text)


def _order(node: ast.AST) -> tuple[int, int, int, int]:
    """Outer nodes before the inner ones that begin at the same character."""
    place = node.target if isinstance(node, ast.comprehension) else node
    assert isinstance(place, (ast.expr, ast.stmt))
    return place.lineno, place.col_offset, -(place.end_lineno or 0), -(place.end_col_offset or 0)


# Calls


def _await(changes: Changes, call: ast.Call) -> None:
    script, parent = changes.script, changes.script.parents[call]
    inner = isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is call
    inner = inner or (isinstance(parent, ast.Call) and parent.func is call)
    if is_run_by_asyncio(changes, call):
        return
    _make_list(changes, call)
    changes.edits.insert(script.start(call), "(await " if inner else "await ")
    if isinstance(changes.inference.kind(call.func), OwnClass):
        changes.edits.insert(script.end(call.func), f"().{_starter(changes)}")
    if inner:
        changes.edits.insert(script.end(call), ")")
    changes.counts["awaits"] += 1


def is_run_by_asyncio(changes: Changes, call: ast.Call) -> bool:
    """Whether `asyncio.run` takes a call at the top of the program: the only thing there that waits."""
    coroutines, script = changes.coroutines, changes.script
    top = [node for node in coroutines.waiting if script.scope(node) is script.tree]
    loops = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.With)
    nested = any(isinstance(outer, loops) for outer in script.above(call))
    callee = coroutines.callee(call)
    return top == [call] and not nested and callee is not None and callee not in coroutines.starters


def _make_list(changes: Changes, call: ast.Call) -> None:
    """Make a list of a generator that awaits: functions such as `sum` take no async generator."""
    for inner, outer in zip([call, *changes.script.above(call)], changes.script.above(call), strict=False):
        if isinstance(outer, ast.stmt) or (isinstance(outer, ast.comprehension) and inner is outer.iter):
            return
        if isinstance(outer, ast.GeneratorExp) and outer not in changes.listed:
            changes.listed.add(outer)
            changes.edits.insert(changes.script.start(outer.elt), "[")
            changes.edits.insert(changes.script.end(outer) - 1, "]")
            return


# Blocks


def _enter(changes: Changes, block: ast.With) -> None:
    """Enter the items of a block by `async with` or `with`: one block in the other where it has both kinds."""
    script, edits = changes.script, changes.edits
    groups = [
        list(items) for _, items in groupby(block.items, lambda item: changes.coroutines.enters(item) is not None)
    ]
    changes.counts["async blocks"] += 1
    between = script.text[script.start(block) + len("with") : script.start(block.items[0].context_expr)]
    if len(groups) > 1 and (between.strip() or block.body[0].lineno == block.lineno):
        changes.note(block, "enter the session by an `async with` of its own")
        return
    if changes.coroutines.enters(groups[0][0]):
        edits.insert(script.start(block), "async ")
    indentation = script.indentation(block.lineno)
    for depth, (before, group) in enumerate(pairwise(groups), 1):
        last = before[-1].optional_vars or before[-1].context_expr
        keyword = "async with" if changes.coroutines.enters(group[0]) else "with"
        text = f":\n{indentation}{script.unit * depth}{keyword} "
        edits.replace(script.end(last), script.start(group[0].context_expr), text)
        edits.wrap(block.body[0].lineno, block.end_lineno or block.lineno)


def _enter_rest(changes: Changes, made: ast.Assign) -> None:
    """Put the rest of a block into an `async with` of the object that an assignment makes."""
    script, edits = changes.script, changes.edits
    body: list[ast.stmt] = script.parents[made].body  # type: ignore[attr-defined]
    (target,) = made.targets
    edits.replace(script.start(made), script.start(made.value), "async with ")
    edits.insert(script.end(made.value), f" as {script.source(target)}:")
    edits.wrap(body[body.index(made) + 1].lineno, body[-1].end_lineno or 0)
    changes.counts["async blocks"] += 1


# Functions


def _starter(changes: Changes) -> str:
    """The name of the method that a constructor becomes."""
    return changes.free_name(*_STARTERS)


def _change_constructor(changes: Changes, function: FunctionNode) -> None:
    """Make a constructor a method that returns the object."""
    script, edits = changes.script, changes.edits
    at = script.text.index("__init__", script.start(function))
    edits.replace(at, at + len("__init__"), _starter(changes))
    own = function.args.args[0].arg
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and script.scope(node) is function:
            edits.replace(script.start(node), script.end(node), f"return {own}")
    last = function.body[-1].end_lineno or function.lineno
    indentation = script.indentation(function.body[0].lineno)
    edits.insert(script.line_end(last), f"\n{indentation}return {own}")


def _change_sleeps(changes: Changes) -> None:
    """Let coroutine functions sleep without stopping all others."""
    script, coroutines = changes.script, changes.coroutines
    for node in changes.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep":
            is_module = isinstance(changes.inference.kind(node.func), Foreign)
            if is_module and script.scope(node) in coroutines.functions and script.is_placed(node):
                edits = changes.edits
                edits.replace(script.start(node.func), script.end(node.func), "await asyncio.sleep")
                changes.need_module("asyncio")
                changes.counts["awaits"] += 1
