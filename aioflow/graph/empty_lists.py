"""Empty lists among the arguments of an op: Python does not say what they are lists of.

They count as lists of float32, as in TensorFlow. Where the op then refuses the dtype and has only one other, as ops of
strings and of bools have, they are lists of that.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from aioflow.graph.params import Like, Param
from aioflow.tensors.dtypes import DType, DTypeError

R = TypeVar("R")


def with_empty_lists(build: Callable[[list[Any]], R], params: Sequence[Param], values: list[Any]) -> R:
    """What `build` makes of the arguments, if need be with the empty lists of one parameter, or group, as others."""
    try:
        return build(values)
    except TypeError as error:
        for typed in _typed_lists(error, params, values):
            with contextlib.suppress(TypeError, ValueError):
                return build(typed)
        raise


def _typed_lists(error: TypeError, params: Sequence[Param], values: Sequence[Any]) -> Iterator[list[Any]]:
    """The arguments with empty lists of the one dtype that a refusal leaves, for each group of parameters."""
    dtype = _only_dtype(error)
    empty = [_is_empty(param, value) for param, value in zip(params, values, strict=True)]
    if dtype is None:
        return
    for group in dict.fromkeys(_group(param) for param, is_empty in zip(params, empty, strict=True) if is_empty):
        yield [
            _typed(param, value, dtype) if is_empty and _group(param) == group else value
            for param, value, is_empty in zip(params, values, empty, strict=True)
        ]


def _only_dtype(error: BaseException) -> DType | None:
    """The one dtype that a refusal among the causes of an error leaves."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DTypeError) and len(cause.allowed) == 1:
            return next(iter(cause.allowed))
        cause = cause.__cause__
    return None


def _group(param: Param) -> str:
    """The name of the parameters that have one dtype."""
    return f"dtype {param.marker.group}" if isinstance(param.marker, Like) else param.name


def _is_empty(param: Param, value: Any) -> bool:
    """Whether an argument is an empty list, or a list of several arguments among which is one."""
    if param.role == "list":
        return isinstance(value, (list, tuple)) and any(_has_nothing(item) for item in value)
    return param.role == "tensor" and _has_nothing(value)


def _has_nothing(value: Any) -> bool:
    """Whether it is a list without elements, at any depth."""
    return isinstance(value, (list, tuple)) and all(_has_nothing(item) for item in value)


def _typed(param: Param, value: Any, dtype: DType) -> Any:
    if param.role == "list":
        return [np.empty(np.shape(item), dtype.np) if _has_nothing(item) else item for item in value]
    return np.empty(np.shape(value), dtype.np)
