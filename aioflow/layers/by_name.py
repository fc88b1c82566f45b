"""Activations, initializers, regularizers and constraints by their names, as arguments of layers take them."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.layers import activations, constraints, regularizers
from aioflow.library import initializers
from aioflow.tensors.recursion import safe_repr

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: Final[Mapping[str, Activation]] = {
    **{name: getattr(activations, name) for name in activations.__all__ if name != "threshold"},
    "hard_swish": activations.hard_silu,
}
"""All that need no other arguments."""
INITIALIZERS: Final[Mapping[str, Callable[[], Callable[..., Any]]]] = {
    "constant": initializers.Constant, "glorot_normal": initializers.GlorotNormal,
    "glorot_uniform": initializers.GlorotUniform, "he_normal": initializers.he_normal,
    "he_uniform": initializers.he_uniform, "identity": initializers.Identity,
    "lecun_normal": initializers.lecun_normal, "lecun_uniform": initializers.lecun_uniform,
    "ones": initializers.Ones, "orthogonal": initializers.Orthogonal, "zeros": initializers.Zeros,
    "normal": lambda: initializers.RandomNormal(0.0, 0.05),
    "uniform": lambda: initializers.RandomUniform(-0.05, 0.05),
    "random_normal": lambda: initializers.RandomNormal(0.0, 0.05),
    "random_uniform": lambda: initializers.RandomUniform(-0.05, 0.05),
    "truncated_normal": lambda: initializers.TruncatedNormal(0.0, 0.05),
    "variance_scaling": initializers.VarianceScaling,
}  # fmt: skip
REGULARIZERS: Final[Mapping[str, Callable[[], regularizers.Regularizer]]] = {
    "l1": regularizers.l1, "l2": regularizers.l2, "l1_l2": regularizers.l1_l2,
    "orthogonal_regularizer": regularizers.OrthogonalRegularizer,
}  # fmt: skip
CONSTRAINTS: Final[Mapping[str, Callable[[], Callable[[Any], Tensor]]]] = {
    "max_norm": constraints.MaxNorm, "min_max_norm": constraints.MinMaxNorm, "non_neg": constraints.NonNeg,
    "unit_norm": constraints.UnitNorm,
}  # fmt: skip


def activation(given: str | Activation | None) -> Activation | None:
    """The function of that name, or the given one; None for None and "linear". ValueError for an unknown name."""
    if given is None or given == "linear":
        return None
    found: Activation = _found("activation", given, ACTIVATIONS)
    return found


def initializer(given: Any) -> Callable[..., Any]:
    """The initializer of that name, or the given one. ValueError for an unknown name."""
    found: Callable[..., Any] = _made("initializer", given, INITIALIZERS)
    return found


def regularizer(given: Any) -> regularizers.Regularizer | None:
    """The regularizer of that name, or the given one, or None. ValueError for an unknown name."""
    return None if given is None else _made("regularizer", given, REGULARIZERS)


def constraint(given: Any) -> Callable[[Any], Tensor] | None:
    """The constraint of that name, or the given one, or None. ValueError for an unknown name."""
    return None if given is None else _made("constraint", given, CONSTRAINTS)


def _made(what: str, given: Any, table: Mapping[str, Callable[[], Any]]) -> Any:
    found = _found(what, given, table)
    return found() if isinstance(given, (str, type)) else found


def _found(what: str, given: Any, table: Mapping[str, Any]) -> Any:
    if not isinstance(given, str):
        if not callable(given):
            raise TypeError(f"an {what} is a name or a function, not {safe_repr(given)}")
        return given
    if given not in table:
        close = difflib.get_close_matches(given, table, 1)
        raise ValueError(f"no {what} is named {given!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return table[given]


class Weight(NamedTuple):
    """What a weight is made with, in the order of `Layer.add_weight`."""

    initializer: Callable[..., Any]
    regularizer: regularizers.Regularizer | None
    trainable: bool
    constraint: Callable[[Any], Tensor] | None


def weight(given_initializer: Any, given_regularizer: Any, given_constraint: Any) -> Weight:
    """What a trainable weight is made with. ValueError for an unknown name."""
    return Weight(initializer(given_initializer), regularizer(given_regularizer), True, constraint(given_constraint))
