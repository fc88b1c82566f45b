"""The optimizers: gradient descent, momentum, Adam, Adagrad, Adadelta, RMSProp and FTRL-proximal."""

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


class GradientDescentOptimizer(Optimizer):
    """Steps along the negative gradient: var -= learning_rate * gradient.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.GradientDescentOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> await session.run(weight)
        np.float32(0.8)
    """

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

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.MomentumOptimizer(0.1, momentum=0.9).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> await session.run(weight)
        np.float32(0.8)
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


class AdamOptimizer(Optimizer):
    """Divides a running mean of the gradient by the root of a running mean of its square [Kingma and Ba, 2015].

    t += 1; rate = learning_rate * √(1 - beta2^t) / (1 - beta1^t); m += (1 - beta1) * (gradient - m);
    v += (1 - beta2) * (gradient² - v); var -= rate * m / (√v + epsilon), where epsilon is the paper's "epsilon hat".
    With a sparse gradient all rows move, as if it were dense.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.AdamOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.9
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
        numbers = [self._number(name, var) for name in ("learning_rate", "beta1", "beta2", "epsilon")]
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


class AdagradOptimizer(Optimizer):
    """Takes smaller steps where gradients were large [Duchi et al., 2011].

    accum += gradient²; var -= learning_rate * gradient / √accum. ValueError unless `initial_accumulator_value` is
    positive.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.AdagradOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.901
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

    Examples:
        >>> v = af.Variable(1.0)
        >>> step = af.train.AdadeltaOptimizer(1.0).minimize(v * v)
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(step)
        >>> bool(await session.run(v) < 1.0)
        True
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
        return optimizers.apply_adadelta(*self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return optimizers.sparse_apply_adadelta(*self._inputs(var), grad.values, grad.indices)


class RMSPropOptimizer(Optimizer):
    """Divides the gradient by the root of a running mean of its square [Tieleman and Hinton, 2012].

    ms += (1 - decay) * (gradient² - ms); mom = momentum * mom + learning_rate * gradient / √(ms + epsilon); var -= mom.
    `centered` subtracts from ms the square of a running mean of the gradient. Rows that a sparse gradient does not name
    stay unchanged.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.RMSPropOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.825
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
            return optimizers.apply_centered_rms_prop(*self._inputs(var), grad)
        return optimizers.apply_rms_prop(*self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        if self._centered:
            return optimizers.sparse_apply_centered_rms_prop(*self._inputs(var), grad.values, grad.indices)
        return optimizers.sparse_apply_rms_prop(*self._inputs(var), grad.values, grad.indices)


class FtrlOptimizer(Optimizer):
    """Follows the regularised leader: for linear models, whose small weights become exactly 0 [McMahan et al., 2013].

    With g the gradient, r the learning rate and p = -learning_rate_power:
    n = accum + g²; linear += g - (n^p - accum^p) / r * var; accum = n;
    var = (l1 * sign(linear) - linear) / (n^p / r + 2 * l2) where |linear| > l1, else 0.
    The l2 shrinkage adds 2 * l2_shrinkage * var to g, though not in accum.

    Raises:
        ValueError: the initial accumulator value or a regularization strength is negative, or the power is positive.

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.FtrlOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.745
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
        apply = optimizers.apply_ftrl_v2 if self._shrinks else optimizers.apply_ftrl
        return apply(var.handle, self._slot(var, "accum"), self._slot(var, "linear"), grad, *self._all_numbers(var))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        apply = optimizers.sparse_apply_ftrl_v2 if self._shrinks else optimizers.sparse_apply_ftrl
        slots = self._slot(var, "accum"), self._slot(var, "linear")
        return apply(var.handle, *slots, grad.values, grad.indices, *self._all_numbers(var))

    def _all_numbers(self, var: Variable) -> list[Tensor]:
        return [self._number(name, var) for name in self._numbers]
