"""Changes imports of TensorFlow, and the names that come from them."""

import ast
from typing import Final

from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.inference import below_tensorflow
from aioflow.porting.tensorflow1.kinds import TensorFlowName
from aioflow.porting.tensorflow1.usage import renamed

_COUNTED: Final = "imports"


def change_imports(changes: Changes) -> None:
    """Import aioflow instead of TensorFlow, and let all names of TensorFlow's begin with it."""
    done: set[ast.AST] = set()
    for node in changes.nodes:
        if isinstance(node, ast.Import):
            _change_import(changes, node, done)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and below_tensorflow(node.module or "") is not None:
            _replace(changes, node, done)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            _change_name(changes, node)


def _import(changes: Changes) -> str:
    return "aioflow as af" if changes.alias == "af" else "aioflow"


def _change_import(changes: Changes, node: ast.Import, done: set[ast.AST]) -> None:
    found = [alias for alias in node.names if below_tensorflow(alias.name) is not None]
    if found and len(found) == len(node.names):
        _replace(changes, node, done)
        return
    for alias in found:
        changes.edits.replace(changes.script.start(alias), changes.script.end(alias), _import(changes))
        changes.counts[_COUNTED] += 1


def _replace(changes: Changes, node: ast.Import | ast.ImportFrom, done: set[ast.AST]) -> None:
    """Make a statement import aioflow; a second one in the same block goes."""
    script, parent = changes.script, changes.script.parents[node]
    start, end = script.start(node), script.end(node)
    changes.counts[_COUNTED] += 1
    alone = script.line(node.lineno).strip() == script.text[start:end].strip()
    if parent in done and alone:
        changes.edits.replace(script.line_start(node.lineno), script.line_start((node.end_lineno or 0) + 1), "")
        return
    done.add(parent)
    changes.edits.replace(start, end, f"import {_import(changes)}")


def _change_name(changes: Changes, root: ast.Name) -> None:
    """Change a dotted name whose first part an import has bound."""
    script, inference = changes.script, changes.inference
    kind, home = inference.kind(root), inference.home(root.id, root)
    if not isinstance(kind, TensorFlowName) or home is None or not _is_imported(changes, root.id):
        return
    chain: list[ast.Name | ast.Attribute] = [root]
    while isinstance(parent := script.parents[chain[-1]], ast.Attribute):
        chain.append(parent)
    if not script.is_placed(root):
        changes.note(root, f"write {changes.alias} instead of {root.id} in the f-string")
        return
    paths = [each.path if isinstance(each, TensorFlowName) else None for each in map(inference.kind, chain)]
    for node, path in zip(chain, paths, strict=True):
        moved = renamed(path) if path else None
        if moved is not None:
            changes.edits.replace(script.start(root), script.end(node), f"{changes.alias}.{moved}")
            return
    last = max((number for number, path in enumerate(paths) if path == ""), default=0)
    text = ".".join(filter(None, [changes.alias, paths[last]]))
    changes.edits.replace(script.start(root), script.end(chain[last]), text)


def _is_imported(changes: Changes, name: str) -> bool:
    return any(
        (alias.asname or alias.name.partition(".")[0]) == name
        for node in changes.nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )
