"""Adam with weights that decay by themselves, and not by a penalty of the loss that Adam would scale."""

import functools
from collections.abc import Callable

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import NumberLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.train.optimizers import AdamOptimizer


class AdamWOptimizer(AdamOptimizer):
    """Adam, before which each step takes learning_rate * weight_decay * var from a variable [Loshchilov 2019].

    With a sparse gradient all rows decay and move.

    Args:
        weight_decay: the part that a step takes, times the learning rate.
        learning_rate: as for `AdamOptimizer`, and so are the others.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.AdamWOptimizer(0.5, learning_rate=0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.85
    """

    def __init__(
        self, weight_decay: NumberLike = 0.004, learning_rate: NumberLike = 0.001, beta1: NumberLike = 0.9,
        beta2: NumberLike = 0.999, epsilon: NumberLike = 1e-8, use_locking: bool = False, name: str = "AdamW",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._numbers["weight_decay"] = weight_decay

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._decayed(var, functools.partial(super()._apply_dense, grad, var))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._decayed(var, functools.partial(super()._apply_sparse, grad, var))

    def _decayed(self, var: Variable, apply: Callable[[], Operation]) -> Operation:
        """Apply the gradient, and then the decay of the value before: a gradient that does not fit changes nothing."""
        graph = graph_to_build_in(var.graph)
        decay = var.read_value() * (self._number("learning_rate", var) * self._number("weight_decay", var))
        with graph.control_dependencies([decay.op]):
            applied = apply()
        with graph.control_dependencies([applied]):
            return var.assign_sub(decay, read_value=False)
