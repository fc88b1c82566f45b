"""`RunOptions(check_numerics=True)`: the first tensor that is not finite, with all that helps to find out why."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.plan.passes.flow import Node
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Array, spec_of

Blamed = TypeVar("Blamed", bound=errors.OpError)


def check_feeds(tensors: Sequence[Tensor], values: Sequence[Array]) -> None:
    """InvalidArgumentError naming the first fed tensor, in the order of the graph, that is not finite."""
    for tensor, value in zip(tensors, values, strict=True):
        found = not_finite(value)
        if found is not None:
            raise _blame(tensor.op, f"{tensor.name} was fed a value that is not finite: {found}", [value])


def check_finite(node: Node, inputs: Sequence[Array], outputs: Sequence[Array], device: str) -> None:
    """InvalidArgumentError naming the node, its line, device, inputs' shapes and ranges, if an output is not finite."""
    for index, value in enumerate(outputs):
        found = not_finite(value)
        if found is not None:
            raise _blame(node.operation, f"{node.name}:{index} is not finite: {found}", inputs, device)


def check_promised(node: Node, inputs: Sequence[Array], outputs: Sequence[Array], device: str) -> None:
    """Raise InternalError, naming the node, if its kernel broke the dtype or shape of its op's shape rule."""
    for index, (value, spec) in enumerate(zip(outputs, node.output_specs, strict=False)):
        found = spec_of(value)
        if dtypes.resource in (found.dtype, spec.dtype):
            continue
        if found.dtype is not spec.dtype or not spec.shape.is_compatible_with(found.shape):
            text = f"{node.name}:{index} is {found}, and the shape rule of {node.definition.name} promised {spec}"
            raise _placed(errors.InternalError(text), node.operation, inputs, device)


def _blame(
    operation: Operation, message: str, inputs: Sequence[Array], device: str | None = None
) -> errors.InvalidArgumentError:
    return _placed(errors.InvalidArgumentError(message), operation, inputs, device)


def _placed(error: Blamed, operation: Operation, inputs: Sequence[Array], device: str | None) -> Blamed:
    shapes = [describe_range(value) for value in inputs]
    return error.at(operation.name, operation.type, line=describe_line(operation), device=device, shapes=shapes)


def not_finite(value: Array) -> str | None:
    """How many values are NaN or infinite, None if all are finite."""
    array = _numbers(value)
    if array is None or array.dtype.kind not in "fc" or np.isfinite(array).all():
        return None
    return f"{int(np.isnan(array).sum())} NaN and {int(np.isinf(array).sum())} Inf among {array.size} values"


def describe_range(value: Array) -> str:
    """Dtype and shape; of numbers the smallest and largest, and how many are not finite."""
    array = _numbers(value)
    if array is None or array.dtype.kind not in "iuf" or array.size == 0:
        return str(spec_of(value)) if not hasattr(value, "name") else f"resource {value.name!r}"
    finite = array[np.isfinite(array)]
    span = f" in [{finite.min():.6g}, {finite.max():.6g}]" if finite.size else ""
    stray = not_finite(array)
    return f"{spec_of(value)}{span}" + (f" ({stray})" if stray else "")


def _numbers(value: Array) -> AnyArray | None:
    """The value as an array NumPy can look at, None if it is text or no array at all."""
    dtype = spec_of(value).dtype
    if dtype in (dtypes.string, dtypes.resource):
        return None
    array = np.asarray(value)
    return array.astype(np.float32) if dtype.is_floating and dtype.size < 4 else array
