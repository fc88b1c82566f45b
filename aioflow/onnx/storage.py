"""Where the data of the tensors of a model lie: in its own bytes, or in files beside it."""

import dataclasses
from typing import Any, Final

import numpy as np

from aioflow.onnx.detaching import Detached
from aioflow.onnx.external import ExternalData
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.fixed_memory import frozen_copy, is_fixed

_LARGE: Final = 1 << 16
"""The fewest bytes whose copy gets pages of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Storage:
    """The places of data that messages name."""

    detached: Detached = dataclasses.field(default_factory=Detached)
    external: ExternalData = dataclasses.field(default_factory=lambda: ExternalData(None))


def as_elements(data: memoryview, dtype: np.dtype[Any]) -> AnyArray:
    """The elements in these bytes: in the mapped file itself, if they lie there aligned, else in a copy."""
    array: AnyArray = np.frombuffer(data, dtype)
    if array.flags.aligned and is_fixed(array):
        return array
    return np.frombuffer(frozen_copy(data), dtype) if data.nbytes >= _LARGE else array.copy()
