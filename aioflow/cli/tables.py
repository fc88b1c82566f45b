"""Text and tables for a terminal: coloured by the package rich where it is installed, plain elsewhere."""

import dataclasses
import io
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_GAP: Final = 2
_CUT: Final = "…"


class Line(NamedTuple):
    """A line of text.

    Attributes:
        text: the text.
        style: the words "bad", "good", "head" or none.
    """

    text: str
    style: str = ""


class Row(NamedTuple):
    """A row of a table, with a style as a line has."""

    cells: tuple[str, ...]
    style: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows below the names of their columns. The columns from the number `texts` on hold numbers, aligned at the right.

    Attributes:
        columns: the names.
        rows: the rows, each with a cell for each column.
        texts: how many of the first columns hold text.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    texts: int = 1


Part = Line | Table
_STYLES: Final = {"bad": "bold red", "good": "green", "head": "bold"}


def cleaned(text: str) -> str:
    """The text in one line, without characters that move the cursor, colour the terminal or turn the direction."""
    return "".join([letter if letter.isprintable() else "?" for letter in text])


def drawn(parts: Sequence[Part], width: int, colour: bool) -> list[str]:
    """The lines of the parts, none longer than the width. With `colour`, rich colours them if it is installed."""
    if colour and (console := _console(width)) is not None:
        for part in parts:
            console.print(_in_rich(part), overflow="ellipsis", no_wrap=True, crop=True)
        return str(console.file.getvalue()).splitlines()
    return [_cut(line, width) for part in parts for line in plain(part)]


def plain(part: Part) -> list[str]:
    """The lines of a part without colours, however long they are."""
    if isinstance(part, Line):
        return [cleaned(part.text)]
    rows = [part.columns, *[tuple(map(cleaned, row.cells)) for row in part.rows]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_joined(row, widths, part.texts) for row in rows]


def _joined(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    cells = zip(row, widths, strict=True)
    aligned = [cell.ljust(width) if place < texts else cell.rjust(width) for place, (cell, width) in enumerate(cells)]
    return (" " * _GAP).join(aligned).rstrip()


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + _CUT


def _console(width: int) -> Any:
    """A console of rich that writes into memory; None where rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="standard", highlight=False, markup=False,
        emoji=False, legacy_windows=False,
    )  # fmt: skip


def _in_rich(part: Part) -> Any:
    """The part as an object of rich. Texts are no markup there."""
    from rich.table import Table as RichTable
    from rich.text import Text

    if isinstance(part, Line):
        return Text(cleaned(part.text), _STYLES.get(part.style, ""))
    table = RichTable(box=None, padding=(0, _GAP, 0, 0), header_style="bold", show_edge=False)
    for place, name in enumerate(part.columns):
        table.add_column(name, justify="left" if place < part.texts else "right", no_wrap=True, overflow="ellipsis")
    for row in part.rows:
        table.add_row(*[Text(cleaned(cell)) for cell in row.cells], style=_STYLES.get(row.style, ""))
    return table
