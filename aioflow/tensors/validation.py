"""Whether values that came over a network are what they are taken for: kernels believe it, some of them in C code."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Array, DType, Spec, TensorShape, resource
from aioflow.tensors.plain_data import brief
from aioflow.tensors.tensor_list import TensorList


def check_fits(name: str, dtype: DType, shape: TensorShape, value: Any) -> None:
    """InvalidArgumentError, naming it, if a value has another dtype or shape. Of handles only lists are values."""
    if dtype is resource:
        fits = isinstance(value, TensorList)
    elif isinstance(value, (np.ndarray, np.generic)):
        fits = value.dtype == dtype.np and shape.is_compatible_with(value.shape)
    else:
        fits = isinstance(value, bytes) and dtype.np.hasobject and shape.is_compatible_with(())
    if not fits:
        raise errors.InvalidArgumentError(f"{name} is {dtype.name} of shape {shape}, not {_told(value)}")


def check_all_fit(specs: Sequence[tuple[str, Spec]], values: Sequence[Array]) -> None:
    """The same for several. InvalidArgumentError if they are not as many."""
    if len(specs) != len(values):
        raise errors.InvalidArgumentError(f"{len(values)} values were given for {len(specs)} feeds")
    for (name, spec), value in zip(specs, values, strict=True):
        check_fits(f"feed {name!r}", spec.dtype, spec.shape, value)


def in_number(values: Mapping[str, Array], count: int) -> list[Array]:
    """The values named by their numbers, in that order. InvalidArgumentError if one is missing, or too many."""
    if values.keys() != {str(index) for index in range(count)}:
        raise errors.InvalidArgumentError(f"feeds {brief(', '.join(values))} are not the numbers of {count}")
    return [values[str(index)] for index in range(count)]


def check_options(options: Iterable[str], known: frozenset[str]) -> None:
    """InvalidArgumentError if there are others than those known."""
    if strange := sorted(set(options) - known):
        raise errors.InvalidArgumentError(f"a run has no option {', '.join(map(brief, strange))}")


def _told(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"a value of {value.dtype} and shape {list(value.shape)}"
    return f"{brief(value)} of type {type(value).__name__}"
