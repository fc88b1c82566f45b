"""Texts of bounded length."""

from typing import Final

_LONGEST: Final = 400
"""Characters of a text, at most."""


def clip(text: str, most: int = _LONGEST) -> str:
    """The text, or its begin and end with `…` between them if it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"
