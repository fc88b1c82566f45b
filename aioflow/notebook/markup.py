"""Elements of HTML and SVG. Texts inside are escaped, so names from graphs and programs change nothing."""

import html
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 200
"""Characters of a text, at most."""


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: object) -> Markup:
    """An element. Children that are no `Markup` are texts; None stands for nothing.

    The name of an attribute may end in `_`, and has `_` in place of `-`. An attribute that is None or False is left
    out; one that is True has no value.
    """
    opening = "".join([tag, *[_attribute(name, value) for name, value in attributes.items()]])
    return Markup(f"<{opening}>{joined(children)}</{tag}>")


def joined(children: Iterable[str | None]) -> Markup:
    """Elements and texts one after another."""
    return Markup("".join([each if isinstance(each, Markup) else text(each) for each in children if each is not None]))


def text(plain: str) -> Markup:
    """A text, escaped. A long one keeps its begin and its end."""
    return Markup(html.escape(clip(plain)).encode(errors="replace").decode())


def clip(plain: str, most: int = LONGEST) -> str:
    """The text, or its begin and end with `…` between them if it is longer than `most` characters."""
    return plain if len(plain) <= most else f"{plain[: most * 2 // 3]}…{plain[-(most // 3) :]}"


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{text(str(value))}"'
