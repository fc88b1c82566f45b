"""A model, and the history of its training."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow.notebook.card import card, lines, more, table

_ROWS: Final = 100
"""Layers that are shown, at most."""
_EPOCHS: Final = 12
"""Epochs that are shown, the last ones."""


def model_html(name: str, kind: str, head: Sequence[str], rows: Sequence[Sequence[str]], total: str) -> str:
    """A model as a table of its layers.

    Args:
        name: its name.
        kind: its class.
        head: the names of the columns.
        rows: the layers.
        total: the numbers of all parameters; or why there are no rows.
    """
    body = table(rows[:_ROWS], head) if rows else None
    return card(name, body, more(len(rows) - _ROWS, "layers"), lines([total]), note=kind)


def history_html(epochs: Sequence[int], history: Mapping[str, Sequence[Any]]) -> str:
    """The losses and metrics of the last epochs of a training."""
    names = [name for name, values in history.items() if len(values) == len(epochs)]
    numbers = range(len(epochs))[-_EPOCHS:]
    rows = [[str(epochs[number] + 1), *[_number(history[name][number]) for name in names]] for number in numbers]
    body = table(rows, ("epoch", *names)) if rows else None
    return card("History", more(len(epochs) - len(rows), "epochs before"), body, note=f"{len(epochs):,} epochs")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
