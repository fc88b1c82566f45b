"""Gradient descent, with and without momentum."""

from typing import Any

from aioflow.graph.convert import NumberLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn import optimizers
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Optimizer


class GradientDescentOptimizer(Optimizer):
    """Steps along the negative gradient: var -= learning_rate * gradient."""

    def __init__(self, learning_rate: NumberLike, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate}

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return optimizers.apply_gradient_descent(var.handle, self._number("learning_rate", var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate = self._number("learning_rate", var)
        return optimizers.sparse_apply_gradient_descent(var.handle, rate, grad.values, grad.indices)


class MomentumOptimizer(Optimizer):
    """Steps along a decaying sum of gradients.

    accum = momentum * accum + gradient; var -= learning_rate * accum. With `use_nesterov` the step uses the accumulator
    after the next update [Sutskever et al., 2013]. Rows that a sparse gradient does not name stay unchanged.
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        momentum: NumberLike,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate, "momentum": momentum}
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return optimizers.apply_momentum(
            var.handle,
            self._slot(var, "momentum"),
            self._number("learning_rate", var),
            grad,
            self._number("momentum", var),
            use_nesterov=self._use_nesterov,
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return optimizers.sparse_apply_momentum(
            var.handle,
            self._slot(var, "momentum"),
            self._number("learning_rate", var),
            grad.values,
            grad.indices,
            self._number("momentum", var),
            use_nesterov=self._use_nesterov,
        )
