"""Optimizers that Keras has besides those of TensorFlow 1: Adamax, Nadam, Lion, LAMB and Adafactor.

Each composes its step of ordinary ops, where those of `optimizers` are one op. A sparse gradient counts as a dense one
with zeros, so that all rows move.
"""

import functools
from collections.abc import Sequence
from typing import ClassVar

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant, zeros
from aioflow.kernels.array.partition import ensure_shape
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, logical_and
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import rsqrt, sign, sqrt, square
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.library.control import group
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import float32, float64
from aioflow.train.optimizer import Optimizer


class ComposedOptimizer(Optimizer):
    """An optimizer that counts its steps, and whose subclass says in `_step` how far a variable moves.

    A gradient that does not fit its variable changes nothing.
    """

    moments: ClassVar[Sequence[str]] = ()
    """The names of the slots, which begin with zeros."""

    def __init__(self, name: str, **numbers: NumberLike) -> None:
        super().__init__(False, name)
        self._numbers = numbers
        self._t: Tensor | None = None

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        """What to subtract from the variable."""
        raise NotImplementedError

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda var: var.name)
        dtype = float64 if any(var.dtype is float64 for var in var_list) else float32
        self._create_non_slot_variable(constant(0, dtype), "step", first)
        for var in var_list:
            for name in self.moments:
                self._zeros_slot(var, name, self._name)

    def _prepare(self) -> None:
        self._t = self._own("step").read_value() + 1.0

    def _own(self, name: str) -> Variable:
        """A variable of the optimizer that belongs to no other."""
        found = self._get_non_slot_variable(name)
        assert found is not None
        return found

    def _moment(self, var: Variable, name: str) -> Variable:
        found = self.get_slot(var, name)
        assert found is not None
        return found

    def _count(self, var: Variable) -> Tensor:
        """The number of the step, from 1."""
        assert self._t is not None
        return cast(self._t, var.dtype)

    def _bias(self, beta: str, var: Variable) -> Tensor:
        """1 - beta^t: the sum of the weights of all gradients in a running mean."""
        assert self._t is not None
        return cast(1.0 - self._number(beta, self._own("step")) ** self._t, var.dtype)

    def _approached(self, var: Variable, name: str, value: Tensor, beta: str) -> Tensor:
        """The running mean after it has moved towards the value by the part 1 - beta."""
        mean = self._moment(var, name)
        return mean.assign_add((value - mean.read_value()) * (1.0 - self._number(beta, var)))

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return var.assign_sub(self._step(ensure_shape(grad, var.shape), var), read_value=False)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        dense = convert_to_tensor(IndexedSlices(grad.values, grad.indices, shape(var.read_value())))
        return self._apply_dense(dense, var)

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        counter = self._own("step")
        graph = graph_to_build_in(counter.graph)
        with graph.control_dependencies(update_ops), graph.colocate_with(counter.handle, ignore_existing=True):
            return group(*update_ops, *self._counted(counter), name=name_scope)

    def _counted(self, counter: Variable) -> list[Operation]:
        """What the end of a step changes."""
        return [counter.assign_add(1.0, read_value=False)]


class AdamaxOptimizer(ComposedOptimizer):
    """Adam by the largest of the gradients so far, in place of their mean square [Kingma and Ba, 2015].

    m += (1 - beta1) * (gradient - m); u = max(beta2 * u, |gradient|);
    var -= learning_rate * m / ((1 - beta1^t) * (u + epsilon)).

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.AdamaxOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> round(float(await session.run(weight)), 3)
        0.9
    """

    moments = ("m", "u")

    def __init__(
        self, learning_rate: NumberLike = 0.001, beta1: NumberLike = 0.9, beta2: NumberLike = 0.999,
        epsilon: NumberLike = 1e-7, name: str = "Adamax",
    ) -> None:  # fmt: skip
        super().__init__(name, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        largest = self._moment(var, "u")
        m = self._approached(var, "m", grad, "beta1")
        u = largest.assign(maximum(largest.read_value() * self._number("beta2", var), absolute(grad)))
        return self._number("learning_rate", var) * m / (self._bias("beta1", var) * (u + self._number("epsilon", var)))


class NadamOptimizer(ComposedOptimizer):
    """Adam with Nesterov's look ahead, whose momentum grows with the steps [Dozat, 2015].

    With w(t) = beta1 * (1 - 0.96^t / 2) and p(t) the product of w(1) to w(t): m and v as for Adam, and
    var -= learning_rate * (w(t+1) * m / (1 - p(t+1)) + (1 - w(t)) * gradient / (1 - p(t))) / (√(v / (1 - beta2^t)) +
    epsilon).

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.NadamOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> bool(0.8 < await session.run(weight) < 0.95)
        True
    """

    moments = ("m", "v")

    def __init__(
        self, learning_rate: NumberLike = 0.001, beta1: NumberLike = 0.9, beta2: NumberLike = 0.999,
        epsilon: NumberLike = 1e-7, name: str = "Nadam",
    ) -> None:  # fmt: skip
        super().__init__(name, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        self._ahead: Sequence[Tensor] = ()

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        super()._create_slots(var_list)
        counter = self._own("step")
        self._create_non_slot_variable(constant(1, counter.dtype), "momentum_product", counter)

    def _prepare(self) -> None:
        """Compute w(t), p(t), w(t+1) and p(t+1)."""
        super()._prepare()
        assert self._t is not None
        beta1 = self._number("beta1", self._own("step"))
        now, then = (beta1 * (1.0 - 0.5 * constant(0.96, t.dtype) ** t) for t in (self._t, self._t + 1.0))
        product = self._own("momentum_product").read_value() * now
        self._ahead = now, product, then, product * then

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        now, product, then, next_product = [cast(each, var.dtype) for each in self._ahead]
        m = self._approached(var, "m", grad, "beta1")
        v = self._approached(var, "v", square(grad), "beta2")
        mean = then * m / (1.0 - next_product) + (1.0 - now) * grad / (1.0 - product)
        size = sqrt(v / self._bias("beta2", var)) + self._number("epsilon", var)
        return self._number("learning_rate", var) * mean / size

    def _counted(self, counter: Variable) -> list[Operation]:
        product = self._own("momentum_product").assign(self._ahead[1], read_value=False)
        return [*super()._counted(counter), product]


class LionOptimizer(ComposedOptimizer):
    """Steps of one size, by the sign of a running mean of gradients [Chen et al., 2023].

    var -= learning_rate * sign(beta1 * m + (1 - beta1) * gradient); m += (1 - beta2) * (gradient - m).

    Examples:
        >>> weight = af.Variable(1.0)
        >>> train = af.train.LionOptimizer(0.1).minimize(af.square(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> await session.run(weight)
        np.float32(0.9)
    """

    moments = ("m",)

    def __init__(
        self, learning_rate: NumberLike = 0.001, beta1: NumberLike = 0.9, beta2: NumberLike = 0.99, name: str = "Lion"
    ) -> None:
        super().__init__(name, learning_rate=learning_rate, beta1=beta1, beta2=beta2)

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        m, beta1 = self._moment(var, "m").read_value(), self._number("beta1", var)
        direction = sign(m * beta1 + grad * (1.0 - beta1))
        with direction.graph.control_dependencies([self._approached(var, "m", grad, "beta2").op]):
            return self._number("learning_rate", var) * direction


class LambOptimizer(ComposedOptimizer):
    """Adam whose step is as long as the variable, times the learning rate: for large batches [You et al., 2020].

    m and v as for Adam; r = (m / (1 - beta1^t)) / (√(v / (1 - beta2^t)) + epsilon);
    var -= learning_rate * r * ‖var‖ / ‖r‖, without the quotient where one of the norms is 0.

    Examples:
        >>> weight = af.Variable([3.0, 4.0])
        >>> train = af.train.LambOptimizer(0.1).minimize(af.reduce_sum(weight))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> (await session.run(weight)).round(3)
        array([2.646, 3.646], dtype=float32)
    """

    moments = ("m", "v")

    def __init__(
        self, learning_rate: NumberLike = 0.001, beta1: NumberLike = 0.9, beta2: NumberLike = 0.999,
        epsilon: NumberLike = 1e-7, name: str = "Lamb",
    ) -> None:  # fmt: skip
        super().__init__(name, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        m = self._approached(var, "m", grad, "beta1") / self._bias("beta1", var)
        v = self._approached(var, "v", square(grad), "beta2") / self._bias("beta2", var)
        r = m / (sqrt(v) + self._number("epsilon", var))
        own, length = (sqrt(reduce_sum(square(each))) for each in (var.read_value(), r))
        both = logical_and(greater(own, 0.0), greater(length, 0.0))
        one = constant(1, var.dtype)
        return self._number("learning_rate", var) * r * select(both, own / select(both, length, one), one)


class AdafactorOptimizer(ComposedOptimizer):
    """Adam with little memory: of a matrix it keeps a mean square for each row and column [Shazeer and Stern, 2018].

    With b = 1 - t^beta2_decay and s = gradient² + epsilon1: v = b * v + (1 - b) * s, of which the last two axes of a
    variable have only means along each; u = gradient / √v; var -= rate * u / max(1, rms(u) / clip_threshold). The rate
    is max(epsilon2, rms(var)) * learning_rate, or with `relative_step` * min(learning_rate, 1 / √t).

    Raises:
        ValueError: the shape of a variable is not known when the graph is built.

    Examples:
        >>> weight = af.Variable([[1.0, 2.0], [3.0, 4.0]])
        >>> optimizer = af.train.AdafactorOptimizer(0.1)
        >>> train = optimizer.minimize(af.reduce_sum(weight))
        >>> optimizer.get_slot(weight, "rows").shape
        TensorShape([2])
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train)
        >>> (await session.run(weight)).round(2)
        array([[0.73, 1.73],
               [2.73, 3.73]], dtype=float32)
    """

    def __init__(
        self, learning_rate: NumberLike = 0.001, beta2_decay: NumberLike = -0.8, epsilon1: NumberLike = 1e-30,
        epsilon2: NumberLike = 1e-3, clip_threshold: NumberLike = 1.0, relative_step: bool = True,
        name: str = "Adafactor",
    ) -> None:  # fmt: skip
        numbers = {"epsilon1": epsilon1, "epsilon2": epsilon2, "clip_threshold": clip_threshold}
        super().__init__(name, learning_rate=learning_rate, beta2_decay=beta2_decay, **numbers)
        self._relative_step = relative_step

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        super()._create_slots(var_list)
        for var in var_list:
            if not var.shape.is_fully_defined():
                raise ValueError(f"Adafactor keeps means of rows and columns, and the shape of {var.name!r} is open")
            sizes = [int(size) for size in var.shape.as_list() if size is not None]
            parts = {"rows": sizes[:-1], "columns": [*sizes[:-2], sizes[-1]]} if len(sizes) > 1 else {"v": sizes}
            for name, part in parts.items():
                self._get_or_make_slot(var, functools.partial(zeros, part, var.dtype), name, self._name)

    def _step(self, grad: Tensor, var: Variable) -> Tensor:
        t, rate = self._count(var), self._number("learning_rate", var)
        if self._relative_step:
            rate = minimum(rate, rsqrt(t))
        rate *= maximum(self._number("epsilon2", var), _root_mean_square(var.read_value()))
        u = grad * rsqrt(self._mean_square(grad, var))
        return rate * u / maximum(constant(1, var.dtype), _root_mean_square(u) / self._number("clip_threshold", var))

    def _mean_square(self, grad: Tensor, var: Variable) -> Tensor:
        """The running mean of squares, of a matrix as the product of those of rows and columns."""
        size = square(grad) + self._number("epsilon1", var)
        if len(var.shape.as_list()) < 2:
            return self._mixed(var, "v", size)
        rows = self._mixed(var, "rows", reduce_mean(size, -1))
        columns = self._mixed(var, "columns", reduce_mean(size, -2))
        return expand_dims(rows / reduce_mean(rows, -1, keepdims=True), -1) * expand_dims(columns, -2)

    def _mixed(self, var: Variable, name: str, value: Tensor) -> Tensor:
        """The running mean after the step: the first one takes the value itself."""
        mean, kept = self._moment(var, name), 1.0 - self._count(var) ** self._number("beta2_decay", var)
        return mean.assign(kept * mean.read_value() + (1.0 - kept) * value)


def _root_mean_square(x: Tensor) -> Tensor:
    return sqrt(reduce_mean(square(x)))
