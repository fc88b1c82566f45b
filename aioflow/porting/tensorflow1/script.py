"""A program in Python: its text, its syntax tree, and where each node stands in the text."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from aioflow import errors

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | FunctionNode | ast.Lambda | ast.ClassDef
SCOPES: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")


class Script:
    """The text of a program and its tree.

    Args:
        text: the program.
        name: the name of its file, for errors.
        encoding: how its file stores characters.

    Raises:
        InvalidArgumentError: Python cannot parse the text.
    """

    def __init__(self, text: str, name: str = "<program>", encoding: str = "utf-8") -> None:
        self.text: Final = text
        self.encoding: Final = encoding
        self.name: Final = name
        try:
            self.tree: Final = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise _unreadable(name, error) from None
        self._starts: Final = [0, *(found.end() for found in _NEWLINE.finditer(text))]
        self.parents: Final = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def newline(self) -> str:
        """The characters that end a line."""
        found = _NEWLINE.search(self.text)
        return found[0] if found else "\n"

    @cached_property
    def unit(self) -> str:
        """One level of indentation."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                inner, outer = self.indentation(body[0].lineno), self.indentation(node.lineno)
                if inner.startswith(outer) and inner != outer:
                    return inner.removeprefix(outer)
        return "    "

    @cached_property
    def lines_in_strings(self) -> frozenset[int]:
        """The lines that begin inside a string, whose indentation belongs to its value."""
        found: set[int] = set()
        opened: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(_NEWLINE.sub("\n", self.text)).readline):
            kind = tokenize.tok_name[token.type]
            if kind == "STRING":
                found.update(range(token.start[0] + 1, token.end[0] + 1))
            elif kind == "FSTRING_START":
                opened.append(token.start[0])
            elif kind == "FSTRING_END":
                found.update(range(opened.pop() + 1, token.end[0] + 1))
        return frozenset(found)

    @property
    def line_count(self) -> int:
        """The number of lines."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line without its end; lines are numbered from 1."""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")

    def line_start(self, number: int) -> int:
        """Return the position of the first character of a line."""
        return self._starts[number - 1]

    def line_end(self, number: int) -> int:
        """Return the position behind the last character of a line, before its end."""
        return self.line_start(number) + len(self.line(number))

    def indentation(self, number: int) -> str:
        """Return the white space at the beginning of a line."""
        line = self.line(number)
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def _position(self, line: int, column: int) -> int:
        """The position of a column, which the syntax tree counts in bytes."""
        return self.line_start(line) + len(self.line(line).encode()[:column].decode(errors="ignore"))

    def start(self, node: ast.expr | ast.stmt | ast.alias | ast.keyword | ast.arg) -> int:
        """Return the position of the first character of a node."""
        return self._position(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.alias | ast.keyword | ast.arg) -> int:
        """Return the position behind the last character of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._position(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that a node is part of, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope(self, node: ast.AST) -> Scope:
        """Return the innermost function, class or module that a node is evaluated in."""
        inner = node
        for outer in self.above(node):
            if isinstance(outer, ast.Module) or (isinstance(outer, SCOPES) and _is_evaluated_in(outer, inner)):
                return outer
            inner = outer
        assert isinstance(node, ast.Module)
        return node

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that a node is part of."""
        return next(each for each in (node, *self.above(node)) if isinstance(each, ast.stmt))

    def is_placed(self, node: ast.expr) -> bool:
        """Whether the position of a node is exact: Python 3.11 misplaces some expressions inside f-strings."""
        if not any(isinstance(outer, ast.JoinedStr) for outer in self.above(node)):
            return True
        try:
            found = ast.parse(self.source(node), mode="eval").body
        except (SyntaxError, ValueError):
            return False
        return ast.dump(found) == ast.dump(node)


def _is_evaluated_in(scope: ast.AST, part: ast.AST) -> bool:
    """Whether a part of a function or class is evaluated inside it; decorators, defaults and bases are not."""
    body = getattr(scope, "body", None)
    return part is body or (isinstance(body, list) and part in body)


def _unreadable(name: str, error: Exception) -> errors.InvalidArgumentError:
    line, reason = (error.lineno, error.msg) if isinstance(error, SyntaxError) else (None, str(error))
    place = name if line is None else f"{name}:{line}"
    return errors.InvalidArgumentError(
        f"{place}: Python cannot parse the program: {reason}. Make it a program of Python 3 first; 2to3 does so for "
        "programs of Python 2."
    )


def read_script(path: str) -> Script:
    """Return the program in a file.

    Raises:
        OSError: the file cannot be read.
        InvalidArgumentError: it is no program of Python 3.
    """
    data = Path(path).read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    return Script(text, path, encoding)
