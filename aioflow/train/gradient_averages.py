"""The mean of gradients of several replicas in one graph, and lossy compression of gradients [P15 section 5.5]."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioflow.graph.building import graph_to_build_in, transactional
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.control.lossy import LOSSY, lossy, lossy_keep
from aioflow.kernels.math.arithmetic import add, divide
from aioflow.kernels.math.casting import cast
from aioflow.kernels.nn.optimizers import deduplicate_rows
from aioflow.tensors import dtypes
from aioflow.tensors.codecs import Codec
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

    Examples:
        >>> weight = af.Variable(1.0)
        >>> towers = [[(af.constant(1.0), weight)], [(af.constant(3.0), weight)]]
        >>> ((gradient, _),) = af.train.average_gradients(towers)
        >>> await session.run(gradient)
        np.float32(2.0)
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


SMALLEST: Final = 64
"""The least number of elements for which an encoding pays."""


@transactional
def compress_gradients(
    grads_and_vars: Iterable[tuple[Any, Any]], codec: str, smallest: int = SMALLEST
) -> list[tuple[Any, Any]]:
    """Return the same pairs, whose gradients are sent between devices in a lossy form.

    Use it between `compute_gradients` and `apply_gradients`. With `top_k` each worker keeps the omitted elements of a
    gradient and adds them to the next step's gradient, so that in the long run nothing is lost [Lin and others 2018,
    section 3]; it keeps nothing of a step that fails or drops the gradient. A gradient that stays on its device is
    exact.

    Args:
        grads_and_vars: (gradient, variable) pairs; gradients may be None, or IndexedSlices, whose rows are sent so.
        codec: a lossy form, see `af.lossy`.
        smallest: gradients known to have fewer elements are sent exactly, and so are those of other dtypes than float32
            and float64. Rows are never sent by `top_k`, since different rows are sent in each step.

    Raises:
        ValueError: there is no such codec.

    Examples:
        >>> v = af.Variable(np.ones(100, np.float32))
        >>> pairs = af.train.compress_gradients([(v * 1.0, v)], "bfloat16")
        >>> pairs[0][0].shape
        TensorShape([100])
    """
    parsed = Codec.parse(codec)
    return [(_mark_lossy(gradient, parsed, smallest), variable) for gradient, variable in grads_and_vars]


def kept_if(accepted: Tensor, gradients: Iterable[Any]) -> list[Operation]:
    """Return operations that make `top_k` forget what it sent, on each gradient's device, unless it was accepted."""
    found = []
    for gradient in gradients:
        marked = isinstance(gradient, Tensor) and gradient.op.type == "lossy"
        if marked and _keeps(Codec.parse(gradient.op.attrs["codec"])):
            with gradient.graph.colocate_with(gradient.op, ignore_existing=True):
                found.append(lossy_keep(accepted, name="keep"))
    return found


def _keeps(codec: Codec) -> bool:
    return codec.name == "top_k"


def _mark_lossy(gradient: Any, codec: Codec, smallest: int) -> Any:
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    if not isinstance(values, Tensor) or values.dtype not in LOSSY:
        return gradient
    known = values.shape.num_elements()
    rows = _keeps(codec) and isinstance(gradient, IndexedSlices)
    return gradient if rows or (known is not None and known < smallest) else lossy(gradient, str(codec))
