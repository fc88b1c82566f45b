"""The progress of long work: a bar with a line of text, and a table of epochs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.notebook.card import card, more, table
from aioflow.notebook.markup import Markup, element
from aioflow.notebook.quantities import seconds

_EPOCHS: Final = 12
"""Epochs that are shown, the last ones."""
_WIDTH: Final = 20
"""Characters of a bar in a terminal."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgressLine:
    """How far work is.

    Attributes:
        done: the part that is done, as `step 3/4`.
        more: losses, speeds and the like.
        share: the part that is done, from 0 to 1; None if unknown.
    """

    done: str
    more: str
    share: float | None

    @property
    def line(self) -> str:
        """Its text in a log."""
        return f"{self.done}  {self.more}".rstrip()

    @property
    def drawn(self) -> str:
        """Its text in a terminal, with a bar."""
        if self.share is None:
            return self.line
        full = round(_WIDTH * _bounded(self.share))
        return f"{self.done} [{'=' * full}{'.' * (_WIDTH - full)}]  {self.more}".rstrip()

    def __repr__(self) -> str:
        return self.line

    def _repr_html_(self) -> str:
        return card("", _bar(self.share), element("span", f"  {self.line}"))


def texts(values: Mapping[str, float]) -> list[str]:
    """Return losses and metrics as texts."""
    return [f"{name}: {value:.4g}" for name, value in values.items()]


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

    @property
    def progress(self) -> ProgressLine:
        """The same as a line."""
        each = [f"{seconds(self.took / self.done)}/step"] if self.done else []
        share = self.done / self.steps if self.steps else None
        text = "  ".join([seconds(self.took), *each, *texts(self.values)])
        return ProgressLine(f"{self.done}/{self.steps or '?'}", text, share)


@dataclasses.dataclass(frozen=True, slots=True)
class EpochTable:
    """How far a training in epochs is.

    Attributes:
        epochs: the number of all epochs.
        rows: those that have begun.
    """

    epochs: int
    rows: Sequence[EpochRow]

    @property
    def line(self) -> str:
        """The text of its last epoch in a log."""
        return self.rows[-1].progress.line

    @property
    def drawn(self) -> str:
        """The text of its last epoch in a terminal, with a bar."""
        return self.rows[-1].progress.drawn

    def __repr__(self) -> str:
        return f"epoch {self.rows[-1].number}/{self.epochs}: {self.line}"

    def _repr_html_(self) -> str:
        shown = self.rows[-_EPOCHS:]
        names = list(dict.fromkeys(name for row in shown for name in row.values))
        rows = table([_cells(row, names) for row in shown], ("epoch", "batches", "time", *names))
        note = f"epoch {shown[-1].number} of {self.epochs}"
        return card("Training", more(len(self.rows) - len(shown), "epochs before"), rows, note=note)


def _cells(row: EpochRow, names: Sequence[str]) -> list[str]:
    progress = row.progress
    batches = element("span", _bar(progress.share), f"  {progress.done}")
    numbers = [f"{row.values[name]:.4g}" if name in row.values else "" for name in names]
    return [str(row.number), batches, seconds(row.took), *numbers]


def _bar(share: float | None) -> Markup | None:
    """A bar as long as the part that is done; None if that is unknown."""
    if share is None:
        return None
    return element("span", element("i", style=f"width:{100 * _bounded(share):.1f}%"), class_="track")


def _bounded(share: float) -> float:
    return min(1.0, max(0.0, share))
