"""An optimizer that scales the loss of another, and leaves out steps whose gradients are not finite."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import NumberLike
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import reciprocal
from aioflow.library.branches import cond
from aioflow.library.control import group
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr
from aioflow.train.loss_scales import LossScale, loss_scale_of
from aioflow.train.optimizer import Optimizer, part_of_training, with_gradients


class MixedPrecisionLossScaleOptimizer(Optimizer):
    """Another optimizer, whose gradients are those of the loss times a loss scale, divided by it.

    Intermediate gradients of float16 that would be 0 are not. With a dynamic loss scale, a step whose gradients are not
    all finite changes no variable and no global step; only the loss scale shrinks.

    Args:
        opt: the other optimizer.
        loss_scale: a number, "dynamic", or an `af.train.experimental.LossScale`.

    Raises:
        ValueError: `opt` is no optimizer, or `loss_scale` is something else.

    Examples:
        >>> weight = af.Variable(2.0)
        >>> inner = af.train.GradientDescentOptimizer(0.5)
        >>> optimizer = af.train.experimental.MixedPrecisionLossScaleOptimizer(inner, "dynamic")
        >>> x = af.placeholder(af.float32, [])
        >>> train = optimizer.minimize(weight * x)
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(train, {x: 1.0})
        >>> await session.run(train, {x: float("inf")})
        >>> await session.run([weight, *optimizer.variables()])
        [np.float32(1.5), np.float32(16384.0), np.int64(0)]
    """

    def __init__(self, opt: Optimizer, loss_scale: float | str | LossScale) -> None:
        if not isinstance(opt, Optimizer):
            raise ValueError(f"opt is an af.train.Optimizer, not {safe_repr(opt)}")
        super().__init__(False, opt.get_name())
        self._opt: Final = opt
        self._loss_scale: Final = loss_scale_of(loss_scale)

    def compute_gradients(
        self,
        loss: Tensor | Callable[[], Tensor],
        var_list: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: NumberLike | None = None,
    ) -> list[tuple[Any, Any]]:
        """Return the gradients, divided by the loss scale: see `Optimizer.compute_gradients`."""
        plain = loss() if callable(loss) else loss
        if not isinstance(plain, Tensor):
            raise TypeError(f"the loss must be a tensor, not {safe_repr(plain)}")
        with plain.graph.transaction():
            scale = self._loss_scale()
            scaled = plain * cast(scale, plain.dtype)
            pairs = self._opt.compute_gradients(
                scaled, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
            )
            inverse = reciprocal(scale)
            return [(_times(gradient, inverse), variable) for gradient, variable in pairs]

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """Return an operation that applies the gradients if all are finite, and updates the loss scale.

        Raises:
            ValueError: there is no gradient.
        """
        pairs = with_gradients(grads_and_vars)
        graph = graph_to_build_in(pairs[0][1].graph)
        label = name or self.get_name()
        with graph.transaction(), graph.as_default():
            update, finite = self._loss_scale.update([gradient for gradient, _ in pairs])
            if isinstance(finite, bool):
                inner = part_of_training(self._opt.apply_gradients(pairs, global_step, label))
                done = group(inner, update, name=label)
            else:
                apply = self._opt.apply_gradients
                applied = cond(finite, lambda: apply(pairs, global_step), lambda: no_op(), name="apply_if_finite")
                done = group(applied, update, name=label)
            graph.add_to_collection(GraphKeys.TRAIN_OP, done)
        return done

    def variables(self) -> list[Variable]:
        """Return the variables of the other optimizer, then those of the loss scale."""
        return [*self._opt.variables(), *self._loss_scale.variables()]

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot of the other optimizer."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the other optimizer."""
        return self._opt.get_slot_names()


def _times(gradient: Any, factor: Tensor) -> Any:
    """A gradient times a number; None stays None."""
    if gradient is None:
        return None
    if isinstance(gradient, IndexedSlices):
        values = gradient.values * cast(factor, gradient.values.dtype)
        return IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * cast(factor, gradient.dtype)
