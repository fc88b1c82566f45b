"""FTRL-proximal."""

from typing import Any

from aioflow.graph.convert import NumberLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn import optimizers_ftrl
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Optimizer


class FtrlOptimizer(Optimizer):
    """Follows the regularised leader: for linear models, whose small weights become exactly 0 [McMahan et al., 2013].

    With g the gradient, r the learning rate and p = -learning_rate_power:
    n = accum + g²; linear += g - (n^p - accum^p) / r * var; accum = n;
    var = (l1 * sign(linear) - linear) / (n^p / r + 2 * l2) where |linear| > l1, else 0.
    The l2 shrinkage adds 2 * l2_shrinkage * var to g, though not in accum.

    Raises:
        ValueError: the initial accumulator value or a regularization strength is negative, or the power is positive.
    """

    def __init__(
        self,
        learning_rate: NumberLike,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        if initial_accumulator_value < 0:
            raise ValueError(f"initial_accumulator_value must not be negative, as {initial_accumulator_value} is")
        if learning_rate_power > 0:
            raise ValueError(f"learning_rate_power must not be positive, as {learning_rate_power} is")
        self._check_strength("l1", l1_regularization_strength)
        self._check_strength("l2", l2_regularization_strength)
        self._check_strength("l2_shrinkage", l2_shrinkage_regularization_strength)
        super().__init__(use_locking, name)
        self._shrinks = bool(l2_shrinkage_regularization_strength)
        self._numbers = {
            "learning_rate": learning_rate,
            "l1": l1_regularization_strength,
            "l2": l2_regularization_strength,
            **({"l2_shrinkage": l2_shrinkage_regularization_strength} if self._shrinks else {}),
            "learning_rate_power": learning_rate_power,
        }
        self._initial_accumulator_value = initial_accumulator_value
        self._slot_names = accum_name or name, linear_name or name

    @staticmethod
    def _check_strength(name: str, value: float) -> None:
        if value < 0:
            raise ValueError(f"{name}_regularization_strength must not be negative, as {value} is")

    def _create_slots(self, var_list: Any) -> None:
        accum, linear = self._slot_names
        for var in var_list:
            self._filled_slot(var, self._initial_accumulator_value, "accum", accum)
            self._zeros_slot(var, "linear", linear)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        apply = optimizers_ftrl.apply_ftrl_v2 if self._shrinks else optimizers_ftrl.apply_ftrl
        return apply(var.handle, self._slot(var, "accum"), self._slot(var, "linear"), grad, *self._all_numbers(var))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        apply = optimizers_ftrl.sparse_apply_ftrl_v2 if self._shrinks else optimizers_ftrl.sparse_apply_ftrl
        slots = self._slot(var, "accum"), self._slot(var, "linear")
        return apply(var.handle, *slots, grad.values, grad.indices, *self._all_numbers(var))

    def _all_numbers(self, var: Variable) -> list[Tensor]:
        return [self._number(name, var) for name in self._numbers]
