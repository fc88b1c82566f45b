"""One step of an optimizer on one variable: its slots and then itself, from the gradient, in place.

The optimizers are gradient descent, momentum, Adagrad, Adam, Adadelta, RMSProp and FTRL-proximal. `lr`, `rho` and the
like are tensors of rank 0. The rows that a sparse update names must be different: see `deduplicate_rows`. The formulas
are those of [F: core/kernels/training_ops.cc], with g for the gradient.
"""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, T, op
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.math.segments import add_rows
from aioflow.kernels.nn import onednn_descent
from aioflow.kernels.nn.update import check_shapes, compute, update
from aioflow.resources.containers import VariableState
from aioflow.tensors.dtypes import COMPLEX, FLOAT, INTEGER, NUMERIC, Array, Namespace, Spec, TensorShape

Arrays = Sequence[Array]

# Gradient descent


def _descend(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var,), (lr,) = states, numbers
    xp.subtract(var, xp.multiply(grad, lr), var)


@update(_descend, 2, FLOAT, COMPLEX)
def apply_gradient_descent(var: Spec, alpha: T, delta: T, use_locking: bool = False) -> None:
    """The variable has taken one step down: var -= alpha * delta."""


@apply_gradient_descent.kernel(CPU, GPU, fresh=True, priority=1)
def _(ctx: Context, state: VariableState, alpha: Array, delta: Array) -> None:
    ctx.step.check()
    state.begin_change()
    try:
        state.note(ctx.step.journal)
        if delta.size > onednn_descent.SMALL:
            _descend_large(state, ctx, alpha, delta)
            return
        var = state.writable()
        if var.shape != delta.shape:
            check_shapes((state,), (var,), delta.shape)
        ctx.xp.subtract(var, ctx.xp.multiply(delta, alpha), var)
    finally:
        state.end_change()


def _descend_large(state: VariableState, ctx: Context, alpha: Array, delta: Array) -> None:
    draft = array, source = state.draft(ctx.xp)
    check_shapes((state,), (array,), delta.shape)
    if not onednn_descent.descend(array if source is None else source, alpha, delta, array):
        compute(ctx, _descend, delta, [draft], (alpha,))
    state.settle(array)


@update(_descend, 2, FLOAT, COMPLEX)
def sparse_apply_gradient_descent(var: Spec, alpha: T, grad: T, indices: Indices, use_locking: bool = False) -> None:
    """The rows `indices` have taken one step down: var -= alpha * g."""


# Momentum


def _momentum(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, accum), (lr, momentum, use_nesterov) = states, numbers
    xp.multiply(accum, momentum, accum)
    xp.add(accum, grad, accum)
    if not use_nesterov:
        xp.subtract(var, xp.multiply(accum, lr), var)
        return
    step = xp.multiply(accum, momentum)
    xp.multiply(step, lr, step)
    xp.add(step, xp.multiply(grad, lr), step)
    xp.subtract(var, step, var)


@update(_momentum, 4, FLOAT, COMPLEX, attr="use_nesterov")
def apply_momentum(
    var: Spec, accum: Spec, lr: T, grad: T, momentum: T, use_locking: bool = False, use_nesterov: bool = False
) -> None:
    """The variable has moved on with momentum.

    accum = momentum * accum + g; var -= lr * accum, or with Nesterov's look ahead
    var -= lr * g + lr * momentum * accum.
    """


@update(_momentum, 4, FLOAT, COMPLEX, attr="use_nesterov")
def sparse_apply_momentum(
    var: Spec, accum: Spec, lr: T, grad: T, indices: Indices, momentum: T,
    use_locking: bool = False, use_nesterov: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` have moved on with momentum, by the formula of `apply_momentum`; the others rest."""


# Adagrad


def _adagrad(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, accum), (lr, update_slots) = states, numbers
    if update_slots:
        xp.add(accum, xp.multiply(grad, grad), accum)
    step = xp.multiply(grad, lr)
    xp.divide(step, xp.sqrt(accum), step)
    xp.subtract(var, step, var)


@update(_adagrad, 6, attr="update_slots")
def apply_adagrad(var: Spec, accum: Spec, lr: T, grad: T, use_locking: bool = False, update_slots: bool = True) -> None:
    """The variable has taken a step by Adagrad: accum += g²; var -= lr * g / √accum."""


@update(_adagrad, 6, attr="update_slots")
def sparse_apply_adagrad(
    var: Spec, accum: Spec, lr: T, grad: T, indices: Indices, use_locking: bool = False, update_slots: bool = True
) -> None:
    """The rows `indices` have taken a step by Adagrad: accum += g²; var -= lr * g / √accum."""


# Adam


def _adam_rate(lr: Array, beta1_power: Array, beta2_power: Array) -> Array:
    """The rate lr * √(1 - beta2_power) / (1 - beta1_power)."""
    return lr[()] * (1 - beta2_power[()]) ** 0.5 / (1 - beta1_power[()])


def _adam_move(xp: Namespace, var: Array, v: Array, step: Array, epsilon: Array, scratch: Array) -> None:
    """Do var -= step / (√v + epsilon); `step` and `scratch` are used up."""
    xp.sqrt(v, scratch)
    xp.add(scratch, epsilon, scratch)
    xp.divide(step, scratch, step)
    xp.subtract(var, step, var)


def _adam(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, m, v), (beta1_power, beta2_power, lr, beta1, beta2, epsilon, use_nesterov) = states, numbers
    step = approach(xp, m, grad, 1 - beta1[()])
    square = xp.multiply(grad, grad)
    scratch = approach(xp, v, square, 1 - beta2[()], square)
    rate = _adam_rate(lr, beta1_power, beta2_power)
    if use_nesterov:
        xp.multiply(m, beta1, step)
        xp.add(step, xp.multiply(grad, 1 - beta1[()]), step)
        xp.multiply(step, rate, step)
    else:
        xp.multiply(m, rate, step)
    _adam_move(xp, var, v, step, epsilon, scratch)


def approach(xp: Namespace, average: Array, value: Array, rate: Array, scratch: Array | None = None) -> Array:
    """Do average += (value - average) * rate. Gives memory to use, `scratch` if it was given."""
    gap = xp.subtract(value, average, scratch)
    xp.multiply(gap, rate, gap)
    xp.add(average, gap, average)
    return gap


@update(_adam, 13, attr="use_nesterov")
def apply_adam(
    var: Spec, m: Spec, v: Spec, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T,
    use_locking: bool = False, use_nesterov: bool = False,
) -> None:  # fmt: skip
    """The variable has taken a step by Adam; the powers are beta1 and beta2 to the number of this step, from 1.

    rate = lr * √(1 - beta2_power) / (1 - beta1_power); m += (1 - beta1) * (g - m); v += (1 - beta2) * (g² - v);
    var -= rate * m / (√v + epsilon), or with Nesterov's look ahead
    var -= rate * (beta1 * m + (1 - beta1) * g) / (√v + epsilon).
    """


def _sparse_adam(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    (var, m, v), (rows, beta1_power, beta2_power, lr, beta1, beta2, epsilon) = states, numbers
    xp.multiply(m, beta1, m)
    m[rows] += grad * (1 - beta1[()])
    xp.multiply(v, beta2, v)
    v[rows] += grad * grad * (1 - beta2[()])
    step = xp.multiply(m, _adam_rate(lr, beta1_power, beta2_power))
    _adam_move(xp, var, v, step, epsilon, xp.empty_like(v))


@update(_sparse_adam, 13, whole=True)
def sparse_apply_adam(
    var: Spec, m: Spec, v: Spec, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T,
    indices: Indices, use_locking: bool = False,
) -> None:  # fmt: skip
    """The variable has taken a step by Adam, with a gradient that is zero but for the rows `indices`.

    All rows move, as in TensorFlow: m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g²;
    var -= rate * m / (√v + epsilon), with the rate of `apply_adam`.
    """


# Rows named twice


@op
def deduplicate_rows(values: Spec, indices: Indices) -> tuple[Spec, Spec]:
    """The rows `values`, those of the same index summed, and the indices, each once and in ascending order."""
    values.only(NUMERIC)
    indices.only(INTEGER).with_rank(1, "indices").shape.merge_with(values.shape[:1])
    count = TensorShape.vector(None)
    return values.with_shape(count.concatenate(values.shape[1:])), indices.with_shape(count)


deduplicate_rows.no_gradient("an update has no history")
deduplicate_rows.on_host("indices")  # how many rows there are depends on them


@deduplicate_rows.kernel(CPU, fresh=True)
def _(xp: Namespace, values: Array, indices: Array, *, node: NodeView) -> tuple[Array, Array]:
    order = xp.argsort(indices, kind="stable")
    ascending, rows = indices[order], values[order]
    first = xp.ones(indices.shape, bool)
    first[1:] = ascending[1:] != ascending[:-1]
    if first.all():
        return rows, ascending
    once = ascending[first]
    return add_rows(xp, rows, xp.cumsum(first) - 1, len(once), node.output_specs[0].dtype), once


@deduplicate_rows.kernel(GPU, fresh=True)
def _(xp: Namespace, values: Array, indices: Array, *, node: NodeView) -> tuple[Array, Array]:
    once, places = np.unique(indices, return_inverse=True)
    return add_rows(xp, values, xp.asarray(places), len(once), node.output_specs[0].dtype), xp.asarray(once)


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


def _ftrl(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    _lead(xp, grad, grad, states, numbers)


def _ftrl_v2(xp: Namespace, grad: Array, states: Arrays, numbers: Arrays) -> None:
    lr, l1, l2, l2_shrinkage, lr_power = numbers
    shrunk = xp.multiply(states[0], 2 * l2_shrinkage[()])
    _lead(xp, grad, xp.add(shrunk, grad, shrunk), states, (lr, l1, l2, lr_power))


def _lead(xp: Namespace, grad: Array, pull: Array, states: Arrays, numbers: Arrays) -> None:
    """The formula of `apply_ftrl`, with `pull` for g in `linear`."""
    (var, accum, linear), (lr, l1, l2, lr_power) = states, numbers
    scratch = _root(xp, accum, lr_power)
    xp.add(accum, xp.multiply(grad, grad), accum)
    root = _root(xp, accum, lr_power)
    xp.subtract(root, scratch, scratch)
    xp.divide(scratch, lr, scratch)
    xp.subtract(pull, xp.multiply(scratch, var, scratch), scratch)
    xp.add(linear, scratch, linear)
    xp.divide(root, lr, root)
    xp.add(root, 2 * l2[()], root)
    xp.multiply(xp.sign(linear), l1, scratch)
    xp.subtract(scratch, linear, scratch)
    xp.divide(scratch, root, scratch)
    var[...] = xp.where(xp.abs(linear) > l1, scratch, var.dtype.type(0))


def _root(xp: Namespace, accum: Array, lr_power: Array) -> Array:
    """The array accum to the power of -lr_power."""
    return xp.sqrt(accum) if lr_power == -0.5 else xp.power(accum, -lr_power[()])


@update(_ftrl, 18)
def apply_ftrl(
    var: Spec, accum: Spec, linear: Spec, grad: T, lr: T, l1: T, l2: T, lr_power: T, use_locking: bool = False
) -> None:
    """The variable is where FTRL-proximal leads it [McMahan et al., 2013].

    n = accum + g²; linear += g - (n^-lr_power - accum^-lr_power) / lr * var; accum = n;
    var = (l1 * sign(linear) - linear) / (n^-lr_power / lr + 2 * l2) where |linear| > l1, else 0.
    """


@update(_ftrl, 18)
def sparse_apply_ftrl(
    var: Spec, accum: Spec, linear: Spec, grad: T, indices: Indices, lr: T, l1: T, l2: T, lr_power: T,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` are where FTRL-proximal leads them, by the formula of `apply_ftrl`; the others rest."""


@update(_ftrl_v2, 20)
def apply_ftrl_v2(
    var: Spec, accum: Spec, linear: Spec, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """As `apply_ftrl`, with g + 2 * l2_shrinkage * var for g in `linear`, though not in `accum`."""


@update(_ftrl_v2, 20)
def sparse_apply_ftrl_v2(
    var: Spec, accum: Spec, linear: Spec, grad: T, indices: Indices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T,
    use_locking: bool = False,
) -> None:  # fmt: skip
    """The rows `indices` are led as by `apply_ftrl_v2`; the others rest."""
