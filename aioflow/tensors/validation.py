"""Checks values received over a network, because kernels, some of them C code, rely on their dtype and shape."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Array, DType, ListSpec, Spec, TensorShape, resource
from aioflow.tensors.plain_data import summarise
from aioflow.tensors.tensor_list import TensorList


def check_fits(name: str, dtype: DType, shape: TensorShape, value: Any) -> None:
    """Raise InvalidArgumentError, with the name, if a value has another dtype or shape.

    The only valid handles are lists.
    """
    if dtype is resource:
        fits = isinstance(value, TensorList)
    elif isinstance(value, (np.ndarray, np.generic)):
        found = value.shape
        fits = value.dtype == dtype.np and (found == shape.sizes or shape.is_compatible_with(found))
    else:
        fits = isinstance(value, bytes) and dtype.np.hasobject and shape.is_compatible_with(())
    if not fits:
        raise errors.InvalidArgumentError(f"{name} is {dtype.name} of shape {shape}, not {_describe_value(value)}")


def check_all_fit(specs: Sequence[tuple[str, Spec]], values: Sequence[Array]) -> None:
    """Check each value against its Spec. InvalidArgumentError if their numbers differ."""
    if len(specs) != len(values):
        raise errors.InvalidArgumentError(f"{len(values)} values were given for {len(specs)} feeds")
    for (name, spec), value in zip(specs, values, strict=True):
        check_spec(f"feed {name!r}", spec, value)


def check_spec(name: str, spec: Spec, value: Any) -> None:
    """Raise InvalidArgumentError, with the name, if a value, or an element of a list, does not fit the Spec."""
    check_fits(name, spec.dtype, spec.shape, value)
    if isinstance(spec, ListSpec):
        if spec.size not in (None, len(value)):
            raise errors.InvalidArgumentError(f"{name} is a {spec}, not a list of {len(value)}")
        for index, item in value.written().items():
            check_spec(f"element {index} of {name}", spec.element, item)


def check_options(options: Iterable[str], known: frozenset[str]) -> None:
    """Raise InvalidArgumentError if an option is not in `known`."""
    if strange := sorted(set(options) - known):
        raise errors.InvalidArgumentError(f"a run has no option {', '.join(map(summarise, strange))}")


def _describe_value(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"a value of {value.dtype} and shape {list(value.shape)}"
    return f"{summarise(value)} of type {type(value).__name__}"
