"""The memory that reads of unwritten TensorArray slots need: the array stores none for them, but a read makes zeros."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Array, ListSpec, Spec
from aioflow.tensors.tensor_list import TensorList

_MOST: Final = 1 << 22
"""The most unwritten slots that are read at a time."""


def check_gaps(flow: TensorList, indices: Array | None = None) -> None:
    """ResourceExhaustedError for more unwritten slots than it is sensible to fill: each takes over 100 bytes.

    None stands for all slots.
    """
    count = len(flow) if indices is None else indices.size
    if count <= _MOST:
        return
    written = flow.written()
    gaps = count - (len(written) if indices is None else int(np.isin(indices, list(written)).sum()))
    if gaps > _MOST:
        raise errors.ResourceExhaustedError(f"{gaps:,} slots are not written; at most {_MOST:,} are read at a time")


def bytes_gathered(inputs: Sequence[Any], attrs: Any, specs: Sequence[Spec]) -> int:
    """The bytes of a gather of slots, if each slot is as large as an unwritten one."""
    flow, indices = inputs
    return int(indices.size) * _bytes_of_gap(flow, specs[0])


def bytes_concatenated(inputs: Sequence[Any], attrs: Any, specs: Sequence[Spec]) -> int:
    """The bytes of the concatenation of all slots."""
    flow = inputs[0]
    written = flow.written()
    gaps = (len(flow) - len(written)) * _bytes_of_gap(flow, specs[0])
    return gaps + sum([getattr(item, "nbytes", 0) for item in written.values()])


def _bytes_of_gap(flow: TensorList, spec: Spec) -> int:
    """The bytes of the zeros that a read of an unwritten slot makes; 0 if the shape is unknown."""
    known, element = ListSpec.check(spec), ListSpec.check(spec).element
    if element.shape.is_fully_defined() or not known.infer_shape:
        return element.bytes or 0
    return int(getattr(flow.example(), "nbytes", 0))
