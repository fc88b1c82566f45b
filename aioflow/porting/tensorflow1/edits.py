"""Changes of a text that leave every other character as it is.

Positions are those of the text before all changes. Lines that are put into a block gain a level of indentation, except
those that begin inside a string.
"""

import ast
from typing import Final, NamedTuple

from aioflow.porting.tensorflow1.script import Script


class _Change(NamedTuple):
    start: int
    end: int
    text: str


class _Block(NamedTuple):
    """Lines that become the body of a new block."""

    first: int
    last: int
    header: str
    footer: str


class Edits:
    """The changes of one program.

    Args:
        script: the program.
    """

    def __init__(self, script: Script) -> None:
        self._script: Final = script
        self._changes: Final[list[_Change]] = []
        self._blocks: Final[list[_Block]] = []
        self._before: Final[dict[int, list[str]]] = {}
        self._outer_before: Final[dict[int, list[str]]] = {}

    def insert(self, position: int, text: str) -> None:
        """Insert a text; earlier insertions at the same position stand before it."""
        self._changes.append(_Change(position, position, text))

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace the characters from start to end; other changes between them are dropped."""
        self._changes.append(_Change(start, end, text))

    def line_before(self, line: int, text: str, outside: bool = False) -> None:
        """Put a line before another one, with its indentation.

        Args:
            line: the number of the line.
            text: the new line; the same text is put there once.
            outside: whether the new line stands before a block that begins with this line, and not in it.
        """
        known = (self._outer_before if outside else self._before).setdefault(line, [])
        if text not in known:
            known.append(text)

    def wrap(self, first: int, last: int, header: str = "", footer: str = "") -> None:
        """Make lines the body of a new block with a header and, behind it, a footer; an empty one is no line."""
        self._blocks.append(_Block(first, last, header, footer))

    def comment_out(self, statement: ast.stmt) -> None:
        """Make a statement a comment, and `pass` where its block would be empty."""
        script = self._script
        last = statement.end_lineno or statement.lineno
        for number in range(statement.lineno, last + 1):
            self.insert(script.line_start(number) + len(script.indentation(statement.lineno)), "# ")
        body = getattr(script.parents[statement], "body", None)
        if body == [statement] and not isinstance(script.parents[statement], ast.Module):
            self.insert(script.line_end(last), f"\n{script.indentation(statement.lineno)}pass")

    @property
    def any(self) -> bool:
        """Whether there are changes."""
        return bool(self._changes or self._blocks or self._before or self._outer_before)

    def render(self) -> str:
        """Return the changed text."""
        script, parts, at = self._script, [], 0
        for change in self._ordered():
            if change.start < at:  # inside a replaced part
                continue
            parts += [script.text[at : change.start], change.text]
            at = change.end
        return "".join([*parts, script.text[at:]])

    def _ordered(self) -> list[_Change]:
        """All changes, those of lines included, by position: insertions first, then long replacements."""
        script = self._script
        lines = [change for number in range(1, script.line_count + 1) for change in self._line_changes(number)]
        padded = [change._replace(text=self._padded(change)) for change in self._changes]
        return sorted(lines + padded, key=lambda change: (change.start, change.end > change.start, -change.end))

    def _padded(self, change: _Change) -> str:
        """The text of a change, whose new lines have the indentation that its line gains."""
        script = self._script
        line = next(n for n in range(script.line_count, 0, -1) if script.line_start(n) <= change.start)
        return change.text.replace("\n", script.newline + self._gained(line))

    def _enclosing(self, line: int) -> list[_Block]:
        """The new blocks that hold a line, from the outside in."""
        found = [block for block in self._blocks if block.first <= line <= block.last]
        return sorted(found, key=lambda block: (block.first, -block.last))

    def _gained(self, line: int) -> str:
        return self._script.unit * len(self._enclosing(line))

    def _line_changes(self, number: int) -> list[_Change]:
        script, start = self._script, self._script.line_start(number)
        own = script.indentation(number)
        opened = [block for block in self._enclosing(number) if block.first == number]
        depth = len(self._enclosing(number)) - len(opened)
        added = [script.unit * depth + own + text for text in self._outer_before.get(number, [])]
        for block in opened:
            if block.header:
                added += [script.unit * depth + own + line for line in block.header.split("\n")]
            depth += 1
        added += [script.unit * depth + own + text for text in self._before.get(number, [])]
        text = "".join(line + script.newline for line in added)
        if number not in script.lines_in_strings and script.line(number).strip():
            text += script.unit * depth
        return [_Change(start, start, text)] * bool(text) + self._footers(number)

    def _footers(self, number: int) -> list[_Change]:
        script, end = self._script, self._script.line_end(number)
        found = []
        for block in reversed(self._enclosing(number)):
            if block.last == number and block.footer:
                outer = script.unit * self._enclosing(number).index(block) + script.indentation(block.first)
                found.append(
                    _Change(
                        end,
                        end,
                        "".join(script.newline + (outer + line if line else "") for line in block.footer.split("\n")),
                    )
                )
        return found
