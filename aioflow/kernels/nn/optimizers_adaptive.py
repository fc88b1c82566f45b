"""One step of Adadelta and of RMSProp on one variable: see `training`."""

from aioflow.graph.op import Indices, T
from aioflow.kernels.nn.optimizers import Arrays, approach
from aioflow.kernels.nn.update import update
from aioflow.tensors.dtypes import Array, Namespace, Spec

# Adadelta


def _blend(xp: Namespace, average: Array, rho: Array, square: Array) -> None:
    """Do average = rho * average + (1 - rho) * square; `square` is used up."""
    xp.multiply(average, rho, average)
    xp.multiply(square, 1 - rho[()], square)
    xp.add(average, square, average)


def _adadelta(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, accum, accum_update), (lr, rho, epsilon) = states, numbers
    scratch = xp.multiply(grad, grad)
    _blend(xp, accum, rho, scratch)
    step = xp.add(accum_update, epsilon)
    xp.sqrt(step, step)
    xp.add(accum, epsilon, scratch)
    xp.sqrt(scratch, scratch)
    xp.divide(step, scratch, step)
    xp.multiply(step, grad, step)
    xp.subtract(var, xp.multiply(step, lr, scratch), var)
    _blend(xp, accum_update, rho, xp.multiply(step, step, step))


@update(_adadelta, 14)
def apply_adadelta(
    var: Spec, accum: Spec, accum_update: Spec, lr: T, rho: T, epsilon: T, grad: T, use_locking: bool = False
) -> None:
    """The variable has taken a step by Adadelta.

    accum = rho * accum + (1 - rho) * g²; u = √(accum_update + epsilon) / √(accum + epsilon) * g; var -= lr * u;
    accum_update = rho * accum_update + (1 - rho) * u².
    """


@update(_adadelta, 14)
def sparse_apply_adadelta(
    var: Spec, accum: Spec, accum_update: Spec, lr: T, rho: T, epsilon: T, grad: T, indices: Indices,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` have taken a step by Adadelta, by the formula of `apply_adadelta`; the others rest."""


# RMSProp


def _fall(xp: Namespace, grad: Array, var: Array, mom: Array, variance: Array, numbers: Arrays, scratch: Array) -> None:
    """Do mom = momentum * mom + lr * g / √(variance + epsilon); var -= mom; `scratch` is used up."""
    lr, _, momentum, epsilon = numbers
    xp.add(variance, epsilon, scratch)
    xp.sqrt(scratch, scratch)
    xp.divide(xp.multiply(grad, lr), scratch, scratch)
    xp.multiply(mom, momentum, mom)
    xp.add(mom, scratch, mom)
    xp.subtract(var, mom, var)


def _rms_prop(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, ms, mom), rho = states, numbers[1]
    square = xp.multiply(grad, grad)
    scratch = approach(xp, ms, square, 1 - rho[()], square)
    _fall(xp, grad, var, mom, ms, numbers, scratch)


@update(_rms_prop, 10)
def apply_rms_prop(
    var: Spec, ms: Spec, mom: Spec, lr: T, rho: T, momentum: T, epsilon: T, grad: T, use_locking: bool = False
) -> None:
    """The variable has taken a step by RMSProp.

    ms += (1 - rho) * (g² - ms); mom = momentum * mom + lr * g / √(ms + epsilon); var -= mom.
    """


@update(_rms_prop, 10)
def sparse_apply_rms_prop(
    var: Spec, ms: Spec, mom: Spec, lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Indices,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` have taken a step by RMSProp, by the formula of `apply_rms_prop`; the others rest."""


def _centered_rms_prop(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, mg, ms, mom), rho = states, numbers[1]
    square = xp.multiply(grad, grad)
    scratch = approach(xp, ms, square, 1 - rho[()], square)
    approach(xp, mg, grad, 1 - rho[()], scratch)
    xp.subtract(ms, xp.multiply(mg, mg, scratch), scratch)
    _fall(xp, grad, var, mom, scratch, numbers, scratch)


@update(_centered_rms_prop, 15)
def apply_centered_rms_prop(
    var: Spec, mg: Spec, ms: Spec, mom: Spec, lr: T, rho: T, momentum: T, epsilon: T, grad: T,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The variable has taken a step by RMSProp, which here divides by the deviation instead of the root mean square.

    ms += (1 - rho) * (g² - ms); mg += (1 - rho) * (g - mg); mom = momentum * mom + lr * g / √(ms - mg² + epsilon);
    var -= mom.
    """


@update(_centered_rms_prop, 15)
def sparse_apply_centered_rms_prop(
    var: Spec, mg: Spec, ms: Spec, mom: Spec, lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Indices,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` have taken a step, by the formula of `apply_centered_rms_prop`; the others rest."""
