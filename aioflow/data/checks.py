"""Checks of the arguments of datasets."""

import math
import operator
import os
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from aioflow.data.stage import Stage
from aioflow.files.filesystem import Path, as_name
from aioflow.tensors.recursion import safe_repr

AUTOTUNE: Final = -1
"""For numbers of parallel calls, of open datasets and of prefetched elements: the number of CPUs."""


INFINITE_CARDINALITY: Final = -1
"""The cardinality of a dataset that never ends."""
UNKNOWN_CARDINALITY: Final = -2
"""The cardinality of a dataset whose end only an iteration can tell."""


def switch(value: bool, name: str) -> bool:
    """Return a boolean. TypeError if it is none: text such as "no" would count as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {safe_repr(value)}")
    return bool(value)


def integer(value: int, name: str) -> int:
    """Return an integer. TypeError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {safe_repr(value)}") from None


def positive(value: int, name: str) -> int:
    """Return an integer from 1 on. TypeError or ValueError if it is none."""
    return _at_least(1, value, name)


def natural(value: int, name: str) -> int:
    """Return an integer from 0 on. TypeError or ValueError if it is none."""
    return _at_least(0, value, name)


def _at_least(least: int, value: int, name: str) -> int:
    number = integer(value, name)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    return number


def parallel(value: int, name: str) -> int:
    """Return a positive integer, which is the number of CPUs for AUTOTUNE."""
    return os.cpu_count() or 1 if value == AUTOTUNE else positive(value, name)


def paths(value: Path | Sequence[Path]) -> list[str]:
    """Return the names of files for one name or several. TypeError for other values."""
    return [as_name(name) for name in value] if isinstance(value, (list, tuple)) else [as_name(cast(Path, value))]


def finite(stage: Stage, what: str) -> Stage:
    """Return the stage. ValueError if it never ends."""
    if stage.cardinality() == math.inf:
        raise ValueError(f"{what} needs the end of a dataset, and {stage} never ends: use take(count) before")
    return stage


def stage_of(dataset: Any) -> Stage:
    """Return the last stage of a dataset. TypeError if it is none."""
    stage = getattr(dataset, "stage", None)
    if not isinstance(stage, Stage):
        raise TypeError(f"a dataset is needed, not {safe_repr(dataset)}")
    return stage


def stages_of(datasets: Any) -> list[Stage]:
    """Return the last stages of several datasets. TypeError or ValueError if there are none."""
    if not isinstance(datasets, (list, tuple)):
        raise TypeError(f"datasets is a list of datasets, not {safe_repr(datasets)}")
    if not datasets:
        raise ValueError("at least one dataset is needed")
    return [stage_of(dataset) for dataset in datasets]
