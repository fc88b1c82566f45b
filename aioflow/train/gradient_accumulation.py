"""Adds up the gradients of several micro-batches before applying them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.scatter import tensor_scatter_add
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.arithmetic import add, divide
from aioflow.kernels.math.casting import cast
from aioflow.library import control
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType
from aioflow.train.optimizer import Gradient, Optimizer, WrappingOptimizer, filled, part_of_training, with_gradients


class GradientAccumulationOptimizer(WrappingOptimizer):
    """Applies the mean of the gradients of several runs: for batches larger than memory, or to send less.

        opt = af.train.GradientAccumulationOptimizer(af.train.GradientDescentOptimizer(0.1))
        train = opt.minimize(loss, global_step)
        ...
        for batch in micro_batches[:-1]:
            await session.run(opt.accumulate_op, batch)
        await session.run(train, micro_batches[-1])

    `accumulate_op` adds the gradients of its run to the sums. The train operation adds its own gradients, passes the
    mean of all to the inner optimizer, and clears the sums once that has applied it: a run that fails earlier leaves
    the sums unchanged and can be repeated. Gradients are added in the order of the runs, with the same result to the
    last bit as one run that adds those of all micro-batches; narrow floats are added as float32. The sums are local
    variables (`af.local_variables_initializer`) on the devices of the gradients: nothing is sent to parameter servers
    before it is applied. Around a `SyncReplicasOptimizer` it gives each replica several gradients per step.

    Args:
        opt: the optimizer that applies the means.
        name: the name scope of the operations, and the last part of the names of the variables.

    Examples:
        >>> v, x = af.Variable(1.0), af.placeholder(af.float32, [])
        >>> optimizer = af.train.GradientAccumulationOptimizer(af.train.GradientDescentOptimizer(0.1))
        >>> step = optimizer.minimize(v * x)
        >>> await session.run([af.global_variables_initializer(), af.local_variables_initializer()])
        [None, None]
        >>> await session.run(optimizer.accumulate_op, {x: 1.0})
        >>> await session.run(step, {x: 3.0})
        >>> await session.run(v)
        np.float32(0.8)
    """

    def __init__(self, opt: Optimizer, name: str = "accumulated") -> None:
        super().__init__(opt, False, name)
        self._accumulate: Operation | None = None

    @property
    def accumulate_op(self) -> Operation:
        """The operation that adds the gradients of a run to the sums."""
        if self._accumulate is None:
            raise ValueError("apply_gradients() or minimize() comes first")
        return self._accumulate

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Variable | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Operation:
        """Return an operation that applies the mean of the gradients of its run and of all that were added before it.

        `kwargs` are for the inner optimizer. The sum of a sparse gradient is dense.

        Raises:
            ValueError: there are no gradients, or gradients were applied before.
        """
        pairs = with_gradients(grads_and_vars)
        if self._accumulate is not None:
            raise ValueError(f"{self._name!r} has applied gradients before: it accumulates the gradients of one call")
        graph = graph_to_build_in(pairs[0][1].graph)
        with graph.transaction(), graph.as_default(), graph.name_scope(name or self._name) as scope:
            graph.on_failure(lambda: setattr(self, "_accumulate", None))
            with graph.colocate_with(_parts(pairs[0][0])[0], ignore_existing=True):
                count = _local(graph, np.int32(0), "count")
            sums = [self._sum(graph, gradient, variable) for gradient, variable in pairs]
            added = [_add(graph, total, gradient) for total, (gradient, _) in zip(sums, pairs, strict=True)]
            self._accumulate = control.group(count.assign_add(1), *added, name="accumulate")
            counted = add(count.value(), 1)
            wholes = [_with(graph, total, gradient) for total, (gradient, _) in zip(sums, pairs, strict=True)]
            means = [_mean(graph, whole, counted, v.dtype) for whole, (_, v) in zip(wholes, pairs, strict=True)]
            variables = [variable for _, variable in pairs]
            applied = self._opt.apply_gradients(list(zip(means, variables, strict=True)), global_step, **kwargs)
            part_of_training(applied)
            done = control.group(*_clear(graph, [count, *sums], applied), name=scope)
            graph.add_to_collection(GraphKeys.TRAIN_OP, done)
            return done

    def _sum(self, graph: Graph, gradient: Gradient, variable: Variable) -> Variable:
        if not variable.shape.is_fully_defined():
            raise ValueError(f"the shape of {variable.name!r} is unknown, so its gradients cannot be accumulated")
        with graph.colocate_with(_parts(gradient)[0], ignore_existing=True):
            return _local(graph, filled(variable, 0, _wide(variable.dtype)), f"{variable.op.name}_sum")


def _local(graph: Graph, value: Any, name: str) -> Variable:
    with graph.control_dependencies(None):
        return Variable(value, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], name=name)


def _parts(gradient: Gradient) -> Sequence[Tensor]:
    return [gradient] if isinstance(gradient, Tensor) else [gradient.values, gradient.indices]


def _wide(dtype: DType) -> DType:
    """Return the dtype of a sum: float32 for narrow floats."""
    return dtypes.float32 if dtype.size < 4 else dtype


def _widen(gradient: Gradient) -> Gradient:
    if isinstance(gradient, IndexedSlices):
        values = cast(gradient.values, _wide(gradient.values.dtype))
        return IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return cast(gradient, _wide(gradient.dtype))


def _add(graph: Graph, total: Variable, gradient: Gradient) -> Tensor:
    """Return the sum with this gradient; the variable holds it from then on."""
    with graph.colocate_with(total.handle, ignore_existing=True):
        more = _widen(gradient)
        if isinstance(more, IndexedSlices):
            return total.scatter_add(more)
        added: Tensor = total.assign_add(more)
        return added


def _with(graph: Graph, total: Variable, gradient: Gradient) -> Tensor:
    """Return the same sum; the variable keeps its value, because the run may fail and be repeated."""
    with graph.colocate_with(total.handle, ignore_existing=True):
        more = _widen(gradient)
        if isinstance(more, IndexedSlices):
            return tensor_scatter_add(total.value(), expand_dims(more.indices, -1), more.values)
        return add(total.value(), more)


def _mean(graph: Graph, total: Tensor, count: Tensor, dtype: DType) -> Tensor:
    with graph.colocate_with(total, ignore_existing=True):
        return cast(divide(total, cast(count, total.dtype)), dtype)


def _clear(graph: Graph, variables: Sequence[Variable], applied: Operation) -> list[Operation]:
    with graph.control_dependencies([applied]):
        return [variable.assign(zeros_like(variable.value()), read_value=False) for variable in variables]
