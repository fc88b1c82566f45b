"""Text and tables for a terminal, plain and by rich."""

import re
import sys

import pytest

from aioflow.cli.quantities import in_bytes, in_seconds, number
from aioflow.cli.tables import Line, Row, Table, cleaned, drawn

HOSTILE = "[red]name[/red]\x1b[31m\x1b]0;title\x07\r\u202egnirts" + "w" * 10_000
TABLE = Table(
    ("task", "state", "steps"), (Row(("worker 0", "up", "12")), Row(("ps 0", "lost", "3,400"), "bad")), texts=2
)


def without_colours(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_columns_are_aligned_and_lines_are_cut_at_the_width():
    assert drawn([Line("three tasks", "head"), TABLE], 80, colour=False) == [
        "three tasks",
        "task      state  steps",
        "worker 0  up        12",
        "ps 0      lost   3,400",
    ]
    assert drawn([TABLE], 12, colour=False)[1] == "worker 0  u…"


def test_rich_draws_the_same_texts_with_colours():
    pytest.importorskip("rich")
    lines = drawn([Line("three tasks", "head"), TABLE], 80, colour=True)
    assert any("\x1b[" in line for line in lines)
    plain = [without_colours(line).split() for line in lines]
    assert plain == [line.split() for line in drawn([Line("three tasks"), TABLE], 80, colour=False)]


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert drawn([TABLE], 80, colour=True) == drawn([TABLE], 80, colour=False)


@pytest.mark.parametrize("colour", [False, True])
def test_names_neither_move_the_cursor_nor_are_markup(colour):
    lines = drawn([Line(HOSTILE), Table((("name"),), (Row((HOSTILE,)),))], 60, colour)
    assert len(lines) == 3
    for line in map(without_colours, lines):
        assert line.isprintable()
        assert len(line) <= 60
    assert "[red]name[/red]?[31m" in without_colours(lines[0])
    assert cleaned("a\nb\tc\u202ed") == "a?b?c?d"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (number, {None: "-", float("nan"): "-", 0: "0", 1234567: "1,234,567", 0.12345: "0.123", 1234.5: "1,234"}),
        (in_bytes, {None: "-", 0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 500 * 2**20: "500 MiB", 2**50: "1024 TiB"}),
        (in_seconds, {None: "-", 0: "0 s", 2e-9: "2 ns", 0.0015: "1.5 ms", 125: "2 min 5 s", 7260: "2 h 1 min"}),
    ],
)  # fmt: skip
def test_numbers_are_short(text, values):
    assert {value: text(value) for value in values} == values
