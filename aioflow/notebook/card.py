"""The frame around everything that a notebook shows, its tables, and its colours.

Notebooks are dark or light, and each kind of notebook tells it in another way. So texts and lines have the colour of
the text around them, backgrounds are transparent, and the colours of bars can be told from black and from white.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from aioflow.notebook.markup import Markup, element, joined

COLOURS: Final = ("#4f86d8", "#d98324", "#3d9a5f", "#c4578f", "#8468cf", "#2a9aa5", "#a8851c")
OTHER: Final = "#7b889c"
"""The colour of all that has none of `COLOURS`."""
_WORD: Final = 40
"""Characters of a cell that stays in one line, at most."""
_STYLES: Final = Markup(
    """
.aioflow { font: 13px/1.5 system-ui, "DejaVu Sans", sans-serif; color: inherit; max-width: 960px; overflow-x: auto; }
.aioflow .head { font-weight: 600; margin: 2px 0 4px; overflow-wrap: anywhere; unicode-bidi: isolate; }
.aioflow .muted { opacity: 0.7; font-weight: 400; }
.aioflow.aioflow table { border-collapse: collapse; margin: 2px 0 4px; color: inherit; font-size: 12px; }
.aioflow.aioflow th, .aioflow.aioflow td { text-align: left; vertical-align: top; padding: 1px 14px 1px 0; border: 0;
  background: none; color: inherit; overflow-wrap: anywhere; unicode-bidi: isolate; white-space: pre-wrap; }
.aioflow.aioflow th { font-weight: 400; opacity: 0.7; white-space: nowrap; }
.aioflow.aioflow td.word { white-space: nowrap; }
.aioflow td b { font-weight: 600; }
.aioflow details { margin: 1px 0; padding-left: 9px;
  border-left: 2px solid color-mix(in srgb, currentColor 22%, transparent); }
.aioflow summary { cursor: pointer; overflow-wrap: anywhere; unicode-bidi: isolate; }
.aioflow .key { display: inline-block; margin: 0 14px 2px 0; font-size: 12px; unicode-bidi: isolate; }
.aioflow .key i { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
.aioflow .bad { border: 1px solid #d9484f; border-radius: 6px; padding: 5px 9px; margin: 4px 0; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: 12px; }
.aioflow svg { display: block; max-width: 100%; height: auto; }
.aioflow svg text { fill: currentColor; font: 11px system-ui, "DejaVu Sans", sans-serif; }
.aioflow .track { display: inline-block; width: 180px; height: 8px; border-radius: 4px; overflow: hidden;
  background: color-mix(in srgb, currentColor 15%, transparent); }
.aioflow .track i { display: block; height: 100%; background: #4f86d8; }
"""
)
"""The doubled class outweighs the rules that notebooks have for tables."""


def card(head: str, *children: str | None, note: str = "") -> str:
    """The HTML of an object.

    Args:
        head: its name.
        *children: the elements below.
        note: more about it, beside its name.
    """
    about = element("span", f"  {note}", class_="muted") if note else None
    title = element("div", head, about, class_="head") if head else None
    return str(element("div", element("style", _STYLES), title, *children, class_="aioflow"))


def table(rows: Iterable[Sequence[str]], columns: Sequence[str] = ()) -> Markup:
    """Rows of texts or elements, below the names of their columns."""
    head = element("tr", *[element("th", name) for name in columns]) if columns else None
    body = [element("tr", *[_cell(cell) for cell in row]) for row in rows]
    return element("table", head, *body)


def _cell(content: str) -> Markup:
    is_word = len(content) <= _WORD and not isinstance(content, Markup)
    return element("td", content, class_="word" if is_word else None)


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names with texts or elements; those that are empty are left out."""
    return element(
        "table", *[element("tr", element("th", name), element("td", value)) for name, value in rows if value]
    )


def more(count: int, what: str) -> Markup | None:
    """A line about what is not shown; None if there is nothing."""
    return element("div", f"… and {count:,} more {what}", class_="muted") if count > 0 else None


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Colours, with what each stands for."""
    keys = [element("span", element("i", style=f"background:{colour}"), name, class_="key") for colour, name in entries]
    return element("div", *keys)


def lines(texts: Iterable[str]) -> Markup:
    """Texts below each other."""
    return joined([element("div", each) for each in texts])
