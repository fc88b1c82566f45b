"""One step of an optimizer with regularisation, which makes small weights exactly 0: see `optimizers`.

These are gradient descent and Adagrad with a proximal step, and Adagrad by dual averaging. Formulas as documented for
TensorFlow's `ApplyProximalGradientDescent`, `ApplyProximalAdagrad` and `ApplyAdagradDA`, with g for the gradient.
"""

from collections.abc import Sequence

from aioflow.graph.op import Indices, T
from aioflow.kernels.nn.update import update
from aioflow.tensors.dtypes import Array, Namespace, Spec

Arrays = Sequence[Array]


def _shrink(xp: Namespace, moved: Array, threshold: Array, scale: Array, var: Array) -> None:
    """Set var = sign(moved) * max(|moved| - threshold, 0) / scale. Overwrites `moved`."""
    size = xp.subtract(xp.abs(moved), threshold)
    xp.maximum(size, 0, out=size)
    xp.multiply(xp.sign(moved, moved), size, size)
    xp.divide(size, scale, var)


def _proximal_descent(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var,), (alpha, l1, l2) = states, numbers
    moved = xp.multiply(grad, alpha)
    xp.subtract(var, moved, moved)
    _shrink(xp, moved, alpha * l1, 1 + alpha * l2, var)


@update(_proximal_descent, 7)
def apply_proximal_gradient_descent(var: Spec, alpha: T, l1: T, l2: T, delta: T, use_locking: bool = False) -> None:
    """The variable has taken a step and is drawn to 0.

    moved = var - alpha * delta; var = sign(moved) * max(|moved| - alpha * l1, 0) / (1 + alpha * l2).
    """


@update(_proximal_descent, 7)
def sparse_apply_proximal_gradient_descent(
    var: Spec, alpha: T, l1: T, l2: T, grad: T, indices: Indices, use_locking: bool = False
) -> None:
    """The rows `indices` have taken a step, by the formula of `apply_proximal_gradient_descent`; the others rest."""


def _proximal_adagrad(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, accum), (lr, l1, l2) = states, numbers
    xp.add(accum, xp.multiply(grad, grad), accum)
    rate = xp.sqrt(accum)
    xp.divide(lr, rate, rate)
    moved = xp.multiply(grad, rate)
    xp.subtract(var, moved, moved)
    _shrink(xp, moved, xp.multiply(rate, l1), 1 + rate * l2, var)


@update(_proximal_adagrad, 12)
def apply_proximal_adagrad(var: Spec, accum: Spec, lr: T, l1: T, l2: T, grad: T, use_locking: bool = False) -> None:
    """The variable has taken a step by Adagrad and is drawn to 0.

    accum += g²; r = lr / √accum; moved = var - r * g; var = sign(moved) * max(|moved| - r * l1, 0) / (1 + r * l2).
    """


@update(_proximal_adagrad, 12)
def sparse_apply_proximal_adagrad(
    var: Spec, accum: Spec, lr: T, l1: T, l2: T, grad: T, indices: Indices, use_locking: bool = False
) -> None:
    """The rows `indices` have taken a step, by the formula of `apply_proximal_adagrad`; the others rest."""


def _adagrad_da(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, total, squares), (lr, l1, l2, steps) = states, numbers
    xp.add(total, grad, total)
    xp.add(squares, xp.multiply(grad, grad), squares)
    scale = xp.sqrt(squares)
    xp.add(scale, l2 * steps * lr, scale)
    xp.divide(scale, -lr, scale)
    _shrink(xp, total.copy(), l1 * steps, scale, var)


@update(_adagrad_da, 12)
def apply_adagrad_da(
    var: Spec, gradient_accumulator: Spec, gradient_squared_accumulator: Spec, grad: T, lr: T, l1: T, l2: T,
    steps: T, use_locking: bool = False,
) -> None:  # fmt: skip
    """The variable is where the sum of all gradients leads it, by Adagrad with dual averaging.

    total += g; squares += g²; var = -lr * sign(total) * max(|total| - l1 * steps, 0) /
    (l2 * steps * lr + √squares).
    """


@update(_adagrad_da, 12)
def sparse_apply_adagrad_da(
    var: Spec, gradient_accumulator: Spec, gradient_squared_accumulator: Spec, grad: T, indices: Indices, lr: T,
    l1: T, l2: T, steps: T, use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` are where their gradients lead them, by the formula of `apply_adagrad_da`; the others rest."""
