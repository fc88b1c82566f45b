"""The progress of long work: a bar with a line of text, and a table of epochs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.notebook.card import card, more, table
from aioflow.notebook.markup import Markup, element
from aioflow.notebook.quantities import seconds

_EPOCHS: Final = 12
"""Epochs that are shown, the last ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgressLine:
    """How far work is.

    Attributes:
        text: in words.
        share: the part that is done, from 0 to 1; None if unknown.
    """

    text: str
    share: float | None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return card("", _bar(self.share), element("span", f"  {self.text}"))


@dataclasses.dataclass(frozen=True, slots=True)
class EpochRow:
    """How far an epoch is.

    Attributes:
        number: its number, from 1 on.
        done: the batches that are done.
        steps: all its batches; None if unknown.
        took: the seconds since it began.
        values: losses and metrics.
    """

    number: int
    done: int
    steps: int | None
    took: float
    values: Mapping[str, float]

    def __str__(self) -> str:
        shown = "  ".join([f"{name}: {value:.4g}" for name, value in self.values.items()])
        return f"{self.done}/{self.steps or '?'} {seconds(self.took)}  {shown}".rstrip()


@dataclasses.dataclass(frozen=True, slots=True)
class EpochTable:
    """How far a training in epochs is.

    Attributes:
        epochs: the number of all epochs.
        rows: those that have begun.
    """

    epochs: int
    rows: Sequence[EpochRow]

    def __repr__(self) -> str:
        return f"epoch {self.rows[-1].number}/{self.epochs}: {self.rows[-1]}"

    def _repr_html_(self) -> str:
        shown = self.rows[-_EPOCHS:]
        names = list(dict.fromkeys(name for row in shown for name in row.values))
        rows = table([_cells(row, names) for row in shown], ("epoch", "batches", "time", *names))
        note = f"epoch {shown[-1].number} of {self.epochs}"
        return card("Training", more(len(self.rows) - len(shown), "epochs before"), rows, note=note)


def _cells(row: EpochRow, names: Sequence[str]) -> list[str]:
    share = row.done / row.steps if row.steps else None
    batches = element("span", _bar(share), f"  {row.done}/{row.steps or '?'}")
    numbers = [f"{row.values[name]:.4g}" if name in row.values else "" for name in names]
    return [str(row.number), batches, seconds(row.took), *numbers]


def _bar(share: float | None) -> Markup | None:
    """A bar as long as the part that is done; None if that is unknown."""
    if share is None:
        return None
    width = f"width:{100 * min(1.0, max(0.0, share)):.1f}%"
    return element("span", element("i", style=width), class_="track")
