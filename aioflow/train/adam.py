"""Adam."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import NumberLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn import optimizers
from aioflow.library.control import group
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.train.numbers import as_number
from aioflow.train.optimizer import Optimizer


class AdamOptimizer(Optimizer):
    """Divides a running mean of the gradient by the root of a running mean of its square [Kingma and Ba, 2015].

    t += 1; rate = learning_rate * √(1 - beta2^t) / (1 - beta1^t); m += (1 - beta1) * (gradient - m);
    v += (1 - beta2) * (gradient² - v); var -= rate * m / (√v + epsilon), where epsilon is the paper's "epsilon hat".
    With a sparse gradient all rows move, as if it were dense.
    """

    def __init__(
        self,
        learning_rate: NumberLike = 0.001,
        beta1: NumberLike = 0.9,
        beta2: NumberLike = 0.999,
        epsilon: NumberLike = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._numbers = {"learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        self._powers: list[Tensor] = []

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda var: var.name)
        dtype = dtypes.float64 if any(var.dtype is dtypes.float64 for var in var_list) else dtypes.float32
        for name in ("beta1", "beta2"):
            start = as_number(self._call_if_callable(self._numbers[name]), dtype, name)
            self._create_non_slot_variable(start, f"{name}_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._powers = [power.value() for power in self._beta_powers()]

    def _beta_powers(self) -> list[Variable]:
        found = [self._get_non_slot_variable(f"{name}_power") for name in ("beta1", "beta2")]
        return [power for power in found if power is not None]

    def _inputs(self, var: Variable) -> list[Tensor]:
        powers = [as_number(power, var.dtype) for power in self._powers]
        numbers = [self._number(name, var) for name in self._numbers]
        return [var.handle, self._slot(var, "m"), self._slot(var, "v"), *powers, *numbers]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return optimizers.apply_adam(*self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return optimizers.sparse_apply_adam(*self._inputs(var), grad.values, grad.indices)

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        beta1_power, beta2_power = self._beta_powers()
        graph = graph_to_build_in(beta1_power.graph)
        with graph.control_dependencies(update_ops), graph.colocate_with(beta1_power.handle, ignore_existing=True):
            grown = [
                beta1_power.assign_mul(self._number("beta1", beta1_power), read_value=False),
                beta2_power.assign_mul(self._number("beta2", beta2_power), read_value=False),
            ]
        return group(*update_ops, *grown, name=name_scope)
