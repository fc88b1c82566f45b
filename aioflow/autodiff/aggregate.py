"""Adds the gradients that one tensor receives from its several uses."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.control.tensor_lists import add_lists
from aioflow.kernels.math.arithmetic import add_n
from aioflow.kernels.math.casting import cast
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import ListSpec

Gradient: TypeAlias = Tensor | IndexedSlices


class AggregationMethod:
    """How the gradients of several uses of one tensor are added.

    ADD_N (the DEFAULT) adds all at once, first on each device. EXPERIMENTAL_TREE and EXPERIMENTAL_ACCUMULATE_N add one
    after the other, so that each gradient is released early.

    Examples:
        >>> x = af.constant(2.0)
        >>> y = x * x + x * 3.0 + x
        >>> method = af.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N
        >>> await session.run(af.gradients(y, x, aggregation_method=method))
        [np.float32(8.0)]
    """

    ADD_N: Final = 0
    DEFAULT: Final = ADD_N
    EXPERIMENTAL_TREE: Final = 1
    EXPERIMENTAL_ACCUMULATE_N: Final = 2


def check_method(method: int | None) -> int:
    """Return the aggregation method, the default for None. ValueError for an unknown method."""
    if method is None:
        return AggregationMethod.DEFAULT
    if method not in (0, 1, 2):
        raise ValueError(f"{method!r} is not an aggregation method: use one of af.AggregationMethod's")
    return method


def aggregate(graph: Graph, gradients: Sequence[Gradient], of: Tensor, method: int) -> Gradient:
    """Add the gradients of `of`: IndexedSlices are concatenated, lists give a list, all others a dense tensor."""
    if len(gradients) == 1:
        return gradients[0]
    if isinstance(of.spec, ListSpec):
        return add_lists(gradients)
    slices = [gradient for gradient in gradients if isinstance(gradient, IndexedSlices)]
    if len(slices) == len(gradients):
        return _concat_slices(slices)
    like = next(gradient for gradient in gradients if isinstance(gradient, Tensor))
    tensors = [dense(gradient, like) for gradient in gradients]
    return _add_by_device(graph, tensors) if method == AggregationMethod.ADD_N else _add_one_by_one(graph, tensors, of)


def _concat_slices(slices: Sequence[IndexedSlices]) -> IndexedSlices:
    indices = [part.indices for part in slices]
    if len({index.dtype for index in indices}) > 1:
        indices = [cast(index, dtypes.int64) for index in indices]
    sizes = next((part.dense_shape for part in slices if part.dense_shape is not None), None)
    values = [part.values for part in slices]
    return IndexedSlices(concat(values, 0), concat(indices, 0), sizes)


def _add_by_device(graph: Graph, tensors: Sequence[Tensor]) -> Tensor:
    """Add on each device first, so that each device sends one value."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.device, []).append(tensor)
    if len(groups) == 1:
        return add_n(tensors)
    sums = []
    for _, group in sorted(groups.items()):
        with graph.colocate_with(group[0].op, ignore_existing=True):
            sums.append(group[0] if len(group) == 1 else add_n(group))
    return add_n(sums)


def _add_one_by_one(graph: Graph, tensors: Sequence[Tensor], of: Tensor) -> Tensor:
    with graph.name_scope(f"{of.op.name}_gradient_sum"):
        total = tensors[0]
        for tensor in tensors[1:]:
            total = add_n([total, tensor])
    return total
