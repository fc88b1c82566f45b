"""Starts the event loop: the statements at the top of a program that wait become `async def main()`.

Where one call of a coroutine function is all that waits there, `asyncio.run` takes the call itself.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from aioflow.porting.tensorflow1.awaiting import is_run_by_asyncio
from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.coroutines import is_guard, starts_program
from aioflow.porting.tensorflow1.inference import bound_names
from aioflow.porting.tensorflow1.kinds import OwnFunction, TensorFlowName
from aioflow.porting.tensorflow1.script import FunctionNode

_NAMES: Final = ("main", "train", "program")


def change_entry(changes: Changes) -> None:
    """Run what waits at the top of the program by `asyncio.run`."""
    script = changes.script
    for node in changes.nodes:
        if isinstance(node, ast.Call) and starts_program(changes.inference, node):
            _change_start(changes, node)
    top = [node for node in changes.coroutines.waiting if script.scope(node) is script.tree]
    if not top:
        return
    changes.need_module("asyncio")
    if isinstance(top[0], ast.Call) and is_run_by_asyncio(changes, top[0]):
        changes.edits.insert(script.start(top[0]), "asyncio.run(")
        changes.edits.insert(script.end(top[0]), ")")
        return
    statements = {_at_top(changes, node) for node in top}
    guard = script.parents[next(iter(statements))]
    body = (
        guard.body if is_guard(guard) and len({script.parents[each] for each in statements}) == 1 else script.tree.body
    )
    if body is script.tree.body:
        statements = {each if script.parents[each] is script.tree else script.parents[each] for each in statements}  # type: ignore[misc]
    numbers = [number for number, each in enumerate(body) if each in statements]
    first, last = body[numbers[0]].lineno, body[numbers[-1]].end_lineno or 0
    _wrap(changes, [each for each in body if (each.end_lineno or 0) >= first and each.lineno <= last])


def _at_top(changes: Changes, node: ast.AST) -> ast.stmt:
    """The statement of the module, or of its guard, that a node is part of."""
    script = changes.script
    statement = script.statement(node if isinstance(node, (ast.stmt, ast.expr)) else script.parents[node])
    while not isinstance(script.parents[statement], ast.Module) and not is_guard(script.parents[statement]):
        statement = script.statement(script.parents[statement])
    return statement


def _wrap(changes: Changes, statements: Sequence[ast.stmt]) -> None:
    name = changes.free_name(*_NAMES)
    header = f"async def {name}():"
    shared = sorted(_shared(changes, statements))
    if shared:
        header += f"\n{changes.script.unit}global {', '.join(shared)}"
    first, last = statements[0], statements[-1]
    decorators = [each.lineno for each in getattr(first, "decorator_list", [])]
    blank = "\n\n" if isinstance(changes.script.parents[first], ast.Module) else "\n"
    footer = f"{blank}asyncio.run({name}())"
    changes.edits.wrap(min([first.lineno, *decorators]), last.end_lineno or last.lineno, header, footer)
    changes.counts["coroutine functions"] += 1


def _shared(changes: Changes, statements: Sequence[ast.stmt]) -> set[str]:
    """The names that the statements bind, and that the rest of the program uses or binds, too."""
    script = changes.script
    inside = {node for each in statements for node in ast.walk(each)}
    bound = {name for node in inside if script.scope(node) is script.tree for name in bound_names(node)}
    outside = {name for node in changes.nodes if node not in inside for name in _mentioned(node)}
    declared = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
    return bound & (outside | declared) - {*_unbound(changes, bound, inside)}


def _mentioned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Global):
        yield from node.names


def _unbound(changes: Changes, names: set[str], inside: set[ast.AST]) -> Iterator[str]:
    """The names that mean variables of other scopes wherever they appear outside."""
    for name in names:
        places = [
            each for each in changes.nodes if isinstance(each, ast.Name) and each.id == name and each not in inside
        ]
        if all(changes.inference.home(name, place) is not changes.script.tree for place in places):
            yield name


def _change_start(changes: Changes, call: ast.Call) -> None:
    """Change `tf.app.run()`; absl's stays, and gets a function that runs the coroutine."""
    script, inference = changes.script, changes.inference
    given = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "main"), None)
    main = _main(changes, given)
    if main is None:
        changes.note(call, "call the function that begins the program; `asyncio.run` runs a coroutine function")
        return
    arguments = "sys.argv" if main.args.args and len(main.args.defaults) < len(main.args.args) else ""
    waits = main in changes.coroutines.functions
    if isinstance(inference.kind(call.func), TensorFlowName):
        text = f"{main.name}({arguments})"
        changes.edits.replace(script.start(call), script.end(call), f"asyncio.run({text})" if waits else text)
        for module in ["sys"] * bool(arguments) + ["asyncio"] * waits:
            changes.need_module(module)
    elif waits and given is not None:
        text = f"lambda argv: asyncio.run({script.source(given)}(argv))"
        changes.edits.replace(script.start(given), script.end(given), text)
        changes.need_module("asyncio")


def _main(changes: Changes, given: ast.expr | None) -> FunctionNode | None:
    kind = None if given is None else changes.inference.kind(given)
    if isinstance(kind, OwnFunction):
        return kind.node
    functions = (each for each in changes.script.tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((each for each in functions if each.name == "main" and given is None), None)
