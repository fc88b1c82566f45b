"""Optimizers whose step adapts to each element: Adagrad, Adadelta, RMSProp."""

from typing import Any

from aioflow.graph.convert import NumberLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn import optimizers, optimizers_adaptive
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Optimizer


class AdagradOptimizer(Optimizer):
    """Takes smaller steps where gradients were large [Duchi et al., 2011].

    accum += gradient²; var -= learning_rate * gradient / √accum. ValueError unless `initial_accumulator_value` is
    positive.
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0:
            raise ValueError(f"initial_accumulator_value must be positive, not {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate}
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._filled_slot(var, self._initial_accumulator_value, "accumulator", self._name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate = self._number("learning_rate", var)
        return optimizers.apply_adagrad(var.handle, self._slot(var, "accumulator"), rate, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate = self._number("learning_rate", var)
        slot = self._slot(var, "accumulator")
        return optimizers.sparse_apply_adagrad(var.handle, slot, rate, grad.values, grad.indices)


class AdadeltaOptimizer(Optimizer):
    """Scales the gradient by the ratio of running means: of the steps so far to the gradients so far [Zeiler, 2012].

    accum = rho * accum + (1 - rho) * gradient²; u = √(accum_update + epsilon) / √(accum + epsilon) * gradient;
    var -= learning_rate * u; accum_update = rho * accum_update + (1 - rho) * u².
    """

    def __init__(
        self,
        learning_rate: NumberLike = 0.001,
        rho: NumberLike = 0.95,
        epsilon: NumberLike = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._numbers = {"lr": learning_rate, "rho": rho, "epsilon": epsilon}

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _inputs(self, var: Variable) -> list[Tensor]:
        slots = [self._slot(var, name) for name in ("accum", "accum_update")]
        return [var.handle, *slots, *[self._number(name, var) for name in self._numbers]]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return optimizers_adaptive.apply_adadelta(*self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return optimizers_adaptive.sparse_apply_adadelta(*self._inputs(var), grad.values, grad.indices)


class RMSPropOptimizer(Optimizer):
    """Divides the gradient by the root of a running mean of its square [Tieleman and Hinton, 2012].

    ms += (1 - decay) * (gradient² - ms); mom = momentum * mom + learning_rate * gradient / √(ms + epsilon); var -= mom.
    `centered` subtracts from ms the square of a running mean of the gradient. Rows that a sparse gradient does not name
    stay unchanged.
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        decay: NumberLike = 0.9,
        momentum: NumberLike = 0.0,
        epsilon: NumberLike = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate, "decay": decay, "momentum": momentum, "epsilon": epsilon}
        self._centered = centered

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._filled_slot(var, 1, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _inputs(self, var: Variable) -> list[Tensor]:
        names = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        slots = [self._slot(var, name) for name in names]
        return [var.handle, *slots, *[self._number(name, var) for name in self._numbers]]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        if self._centered:
            return optimizers_adaptive.apply_centered_rms_prop(*self._inputs(var), grad)
        return optimizers_adaptive.apply_rms_prop(*self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        if self._centered:
            return optimizers_adaptive.sparse_apply_centered_rms_prop(*self._inputs(var), grad.values, grad.indices)
        return optimizers_adaptive.sparse_apply_rms_prop(*self._inputs(var), grad.values, grad.indices)
