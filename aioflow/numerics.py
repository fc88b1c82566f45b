"""`RunOptions(check_numerics=True)`: the first tensor that is not finite, with all that helps to find out why."""

from collections.abc import Sequence

import numpy as np

from aioflow import errors
from aioflow.dtypes import Array
from aioflow.node import describe_line
from aioflow.passes.flow import Node


def check_finite(node: Node, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """InvalidArgumentError naming the node, its line, its inputs' shapes and ranges, if an output is not finite."""
    for index, value in enumerate(outputs):
        array = np.asarray(value)
        if array.dtype.kind not in "fcV" or array.size == 0:
            continue
        array = array.astype(np.float32) if array.dtype.kind == "V" else array
        bad = ~np.isfinite(array)
        if not bad.any():
            continue
        count = f"{int(np.isnan(array).sum())} NaN and {int(np.isinf(array).sum())} Inf among {array.size} values"
        message = f"{node.name}:{index} is not finite: {count}"
        raise errors.InvalidArgumentError(message).at(
            node.name,
            node.definition.name,
            line=describe_line(node.operation),
            device=None,
            shapes=[describe_range(value) for value in inputs],
        )


def describe_range(value: Array) -> str:
    """dtype, shape, smallest and largest value."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.size == 0:
        return f"{array.dtype}{list(array.shape)}"
    return f"{array.dtype}{list(array.shape)} in [{np.nanmin(array):.6g}, {np.nanmax(array):.6g}]"
