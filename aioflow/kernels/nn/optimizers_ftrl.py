"""One step of FTRL-proximal on one variable: see `training`."""

from aioflow.graph.op import Indices, T
from aioflow.kernels.nn.optimizers import Arrays
from aioflow.kernels.nn.update import update
from aioflow.tensors.dtypes import Array, Namespace, Spec


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
