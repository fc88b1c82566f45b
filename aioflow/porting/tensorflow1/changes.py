"""The state of a port while it is made: the program and its analysis, the edits, the counts and the notes."""

import ast
from collections import Counter
from collections.abc import Iterable
from typing import Final

from aioflow.porting.tensorflow1.coroutines import Coroutines
from aioflow.porting.tensorflow1.edits import Edits
from aioflow.porting.tensorflow1.inference import Inference, below_tensorflow
from aioflow.porting.tensorflow1.names import DIFFERS, MISSING
from aioflow.porting.tensorflow1.script import Script
from aioflow.porting.tensorflow1.usage import MISSING_METHODS, Use

MARK: Final = "# aioflow: "
"""How a comment begins that marks a place for a person."""


class Changes:
    """What the kinds of changes share.

    Attributes:
        script: the program.
        nodes: all nodes of its tree.
        inference: the kinds of its expressions.
        coroutines: its calls, blocks and functions that wait.
        edits: the changes of its text.
        counts: how many changes of each kind there are.
        notes: the lines that need a person, and why.
        alias: the name of the package aioflow in the ported program.
        listed: the generators that have become lists.
        handled: the arguments that have a new name or are gone.

    Args:
        script: the program.
    """

    def __init__(self, script: Script) -> None:
        self.script: Final = script
        self.nodes: Final = list(ast.walk(script.tree))
        self.inference: Final = Inference(script)
        self.coroutines: Final = Coroutines(self.inference)
        self.edits: Final = Edits(script)
        self.counts: Final[Counter[str]] = Counter()
        self.notes: Final[list[tuple[int, str]]] = []
        self._names: Final = {each.id for each in self.nodes if isinstance(each, ast.Name)}
        self._imported: Final[set[str]] = set()
        self.listed: Final[set[ast.GeneratorExp]] = set()
        self.handled: Final[set[ast.keyword]] = set()
        self.alias: Final = "aioflow" if "af" in self._names else "af"

    @property
    def has_tensorflow(self) -> bool:
        """Whether the program imports TensorFlow."""
        return any(
            below_tensorflow(module) is not None
            for node in self.nodes
            for module in (
                [each.name for each in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )
        )  # fmt: skip

    def note(self, node: ast.AST, text: str) -> None:
        """Mark the statement with a node for a person, by a comment before it."""
        statement = self.script.statement(node)
        while not self._begins_line(statement):
            statement = self.script.statement(self.script.parents[statement])
        self.edits.line_before(statement.lineno, MARK + text)
        self.notes.append((getattr(node, "lineno", statement.lineno), text))

    def _begins_line(self, statement: ast.stmt) -> bool:
        before = self.script.text[self.script.line_start(statement.lineno) : self.script.start(statement)]
        return not before.strip()

    def note_missing(self, found: Iterable[Use]) -> None:
        """Mark the names and methods that are missing, and the arguments that aioflow's functions do not take."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and node.attr in MISSING_METHODS:
                self.note(node, f"{node.attr} is missing: {MISSING_METHODS[node.attr]}")
        for use in found:
            if use.state.state == MISSING:
                hint = use.state.text or "nothing takes its place yet"
                self.note(use.node, f"tf.{use.state.path} is missing: {hint}")
            elif use.state.state == DIFFERS and use.state.path == use.path:
                self._note_arguments(use)

    def _note_arguments(self, use: Use) -> None:
        call = self.script.parents[use.node]
        lost = use.state.text.removeprefix("without ").replace("`", "").split(", ")
        if isinstance(call, ast.Call) and call.func is use.node and use.state.text.startswith("without "):
            given = [each.arg for each in call.keywords if each.arg in lost and each not in self.handled]
            if given:
                self.note(call, f"af.{use.path} does not take {', '.join(map(str, given))}")

    def free_name(self, *wanted: str) -> str:
        """Return the first of some names that the program does not use."""
        return next(name for name in (*wanted, f"{wanted[0]}_in_aioflow") if name not in self._names | self._defined())

    def _defined(self) -> set[str]:
        return {each.name for each in self.nodes if isinstance(each, (ast.FunctionDef, ast.ClassDef))}

    def need_module(self, name: str) -> None:
        """Let the program import a module of Python's."""
        imports = (node for node in self.script.tree.body if isinstance(node, ast.Import))
        imported = {alias.name for node in imports for alias in node.names}
        if name not in imported:
            self._imported.add(name)

    def write_imports(self) -> None:
        """Write the imports of all these modules before the first one that is there."""
        body = self.script.tree.body
        heads = (
            each for each in body if isinstance(each, (ast.Import, ast.ImportFrom, ast.Try)) and not _is_future(each)
        )
        first = next(heads, body[1] if ast.get_docstring(self.script.tree) and len(body) > 1 else body[0])
        line = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", []))])
        for name in sorted(self._imported):
            self.edits.line_before(line, f"import {name}", outside=True)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
