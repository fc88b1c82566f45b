"""The state of training, its histograms and its pictures."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Epoch:
    """The values of one epoch, validation included."""

    number: int
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Training:
    """The progress of training.

    Attributes:
        time: the time of the last report.
        step: the steps that are done; None if unknown.
        steps: all steps; None if unknown.
        epoch: the number of the epoch, from 0; None if there are none.
        epochs: the number of epochs.
        left: the seconds that are left; None if unknown.
        values: losses, metrics and the like.
        history: the last epochs.
    """

    time: float
    step: int | None
    steps: int | None
    epoch: int | None
    epochs: int | None
    left: float | None
    values: Mapping[str, float]
    history: tuple[Epoch, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Histogram:
    """A summary of many numbers: `counts[i]` of them lie below `limits[i]`, and not below the limit before."""

    tag: str
    step: int
    least: float
    most: float
    limits: tuple[float, ...]
    counts: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """A summary with a picture: PNG in base64."""

    tag: str
    step: int
    png: str


@dataclasses.dataclass(frozen=True, slots=True)
class Summaries:
    """The last histogram and picture of each tag."""

    histograms: tuple[Histogram, ...]
    pictures: tuple[Picture, ...]
