"""Statistics of the results of operations, computed while a step is traced, since their memory may be used again."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from aioflow.dashboard.messages import ValueStatistics, clip
from aioflow.tensors.dtypes import Array

_LARGEST: Final = 1 << 16
"""The most numbers of a result that has statistics."""
_MOST: Final = 500
"""The most operations of a step that have statistics."""


class ValueCollector:
    """Takes the results of operations, as `RunMetadata.on_values` gives them.

    Attributes:
        found: the statistics by the name of the operation; in a loop, those of the last iteration.
    """

    def __init__(self) -> None:
        self.found: Final[dict[str, ValueStatistics]] = {}

    def __call__(self, name: str, outputs: Sequence[Array]) -> None:
        """Look at the first result, if it is an array of not too many numbers in this process's memory."""
        value = outputs[0] if outputs else None
        if not isinstance(value, (np.ndarray, np.number)) or not 0 < value.size <= _LARGEST:
            return
        if value.dtype.kind in "iuf" and (name in self.found or len(self.found) < _MOST):
            self.found[name] = statistics_of(name, np.asarray(value))


def statistics_of(name: str, value: Array) -> ValueStatistics:
    """The statistics of an array of numbers. An array without a number that is not finite is not copied."""
    finite = value
    if not np.isfinite(total := _sum(finite)):
        finite = value[np.isfinite(value)]
        total = _sum(finite)
    strange = value.size - finite.size
    if not finite.size:
        return ValueStatistics(clip(name), value.size, np.nan, np.nan, np.nan, strange)
    least, most, mean = float(finite.min()), float(finite.max()), total / finite.size
    return ValueStatistics(clip(name), value.size, least, most, mean, strange)


def _sum(value: Array) -> float:
    """The sum, which is finite only if all numbers are."""
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.add.reduce(value, None, dtype=np.float64))
