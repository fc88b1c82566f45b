"""Optimizers with regularisation, for models whose small weights become exactly 0."""

from typing import Any

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn import proximal_optimizers as kernels
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Optimizer


class _Regularised(Optimizer):
    """An optimizer with strengths of regularisation by absolute values, `l1`, and by squares, `l2`."""

    def __init__(self, learning_rate: NumberLike, l1: float, l2: float, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate, "l1": l1, "l2": l2}

    def _all_numbers(self, var: Variable) -> list[Tensor]:
        return [self._number(name, var) for name in self._numbers]


class ProximalGradientDescentOptimizer(_Regularised):
    """Steps along the negative gradient, and draws the variable to 0 [Duchi and Singer, 2009].

    With r the learning rate: moved = var - r * gradient; var = sign(moved) * max(|moved| - r * l1, 0) / (1 + r * l2).

    Examples:
        >>> weight = af.Variable([1.0, 0.1])
        >>> optimizer = af.train.ProximalGradientDescentOptimizer(0.5, l1_regularization_strength=0.5)
        >>> train = optimizer.minimize(af.reduce_sum(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> await session.run(weight)
        array([ 0.25, -0.15], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return kernels.apply_proximal_gradient_descent(var.handle, *self._all_numbers(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        numbers = self._all_numbers(var)
        return kernels.sparse_apply_proximal_gradient_descent(var.handle, *numbers, grad.values, grad.indices)


class ProximalAdagradOptimizer(_Regularised):
    """Takes smaller steps where gradients were large, and draws the variable to 0.

    accum += gradient²; r = learning_rate / √accum; moved = var - r * gradient;
    var = sign(moved) * max(|moved| - r * l1, 0) / (1 + r * l2). ValueError unless `initial_accumulator_value` is
    positive.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.ProximalAdagradOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.901
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        _check_positive("initial_accumulator_value", initial_accumulator_value)
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._filled_slot(var, self._initial_accumulator_value, "accumulator", self._name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        accum = self._slot(var, "accumulator")
        return kernels.apply_proximal_adagrad(var.handle, accum, *self._all_numbers(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        numbers, accum = self._all_numbers(var), self._slot(var, "accumulator")
        return kernels.sparse_apply_proximal_adagrad(var.handle, accum, *numbers, grad.values, grad.indices)


class AdagradDAOptimizer(_Regularised):
    """Goes where the sum of all gradients leads, by Adagrad with dual averaging [Duchi et al., 2011].

    total += gradient; squares += gradient²; with r the learning rate and t = global_step + 1:
    var = -r * sign(total) * max(|total| - l1 * t, 0) / (l2 * t * r + √squares). The initial value of the variable does
    not matter after the first step. ValueError unless `initial_gradient_squared_accumulator_value` is positive.

    Examples:
        >>> weight, step = af.Variable([1.0, 1.0]), af.train.create_global_step()
        >>> optimizer = af.train.AdagradDAOptimizer(0.5, step, l1_regularization_strength=0.5)
        >>> train = optimizer.minimize(af.reduce_sum(weight * [1.0, 0.25]), global_step=step)
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> (await session.run(weight)).round(3).tolist()
        [-0.238, -0.0]
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        global_step: NumberLike,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if global_step is None:
            raise ValueError("dual averaging needs the global_step")
        _check_positive("initial_gradient_squared_accumulator_value", initial_gradient_squared_accumulator_value)
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._numbers["steps"] = lambda: convert_to_tensor(global_step) + 1
        self._initial_squares = initial_gradient_squared_accumulator_value

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            self._filled_slot(var, self._initial_squares, "gradient_squared_accumulator", self._name)

    def _slots_of(self, var: Variable) -> list[Tensor]:
        return [self._slot(var, name) for name in ("gradient_accumulator", "gradient_squared_accumulator")]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return kernels.apply_adagrad_da(var.handle, *self._slots_of(var), grad, *self._all_numbers(var))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        numbers = self._all_numbers(var)
        return kernels.sparse_apply_adagrad_da(var.handle, *self._slots_of(var), grad.values, grad.indices, *numbers)


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be positive, not {value}")
