"""The mean of gradients of several replicas in one graph."""

import functools
from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.math.arithmetic import add, divide
from aioflow.kernels.math.casting import cast
from aioflow.kernels.nn.optimizers import deduplicate_rows
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType
from aioflow.train.optimizer import Gradient

Pair = tuple[Gradient | None, Any]


def average_gradients(tower_grads: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Return the mean of the gradients of several replicas, for `apply_gradients`: synchronous training in one graph.

        towers = []
        for task in range(3):
            with af.device(f"/job:worker/task:{task}"):
                towers.append(opt.compute_gradients(loss_of(task)))
        train = opt.apply_gradients(af.train.average_gradients(towers), global_step)

    Gradients are added on the devices of their variables, in the order of the replicas, and divided by the number of
    replicas [P15 section 7]: the result equals that of `SyncReplicasOptimizer` to the last bit. A missing gradient
    counts as zeros; a variable without gradients in all replicas has None.

    Args:
        tower_grads: the (gradient, variable) pairs of each replica, with the same variables in the same order.

    Raises:
        ValueError: there are no replicas, or their variables differ.
        TypeError: gradients of one variable are tensors in one replica and IndexedSlices in another.
    """
    if not tower_grads:
        raise ValueError("there are no replicas: give a list with the gradients of each")
    variables = [[variable for _, variable in pairs] for pairs in tower_grads]
    if any(len(each) != len(variables[0]) or any(map(_differ, each, variables[0])) for each in variables):
        raise ValueError("each replica gives the gradients of the same variables in the same order")
    columns = zip(*[[gradient for gradient, _ in pairs] for pairs in tower_grads], strict=True)
    return [(_mean(column, variable), variable) for column, variable in zip(columns, variables[0], strict=True)]


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _mean(column: Sequence[Gradient | None], variable: Any) -> Gradient | None:
    found = [gradient for gradient in column if gradient is not None]
    if not found:
        return None
    kinds = {type(gradient) for gradient in found}
    if len(kinds) > 1:
        raise TypeError(f"gradients of {variable.name!r} are tensors in one replica, and IndexedSlices in another")
    graph = graph_to_build_in(variable.graph)
    with graph.as_default(), graph.transaction(), graph.colocate_with(variable.handle, ignore_existing=True):
        tensors = [_wide(gradient) for gradient in found if isinstance(gradient, Tensor)]
        if tensors:
            return _divided(functools.reduce(add, tensors), len(column), variable.dtype)
        slices = [gradient for gradient in found if isinstance(gradient, IndexedSlices)]
        values, indices = deduplicate_rows(
            concat([_wide(each.values) for each in slices], 0), concat([each.indices for each in slices], 0)
        )
        return IndexedSlices(_divided(values, len(column), variable.dtype), indices, slices[0].dense_shape)


def _wide(gradient: Tensor) -> Tensor:
    """Return the sum; narrow floats are added as float32."""
    return cast(gradient, dtypes.float32) if gradient.dtype.size < 4 else gradient


def _divided(total: Tensor, count: int, dtype: DType) -> Tensor:
    return cast(divide(total, cast(count, total.dtype)), dtype)
