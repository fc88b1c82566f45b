"""Rounding, clipping, and tests for NaN and infinity."""

from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import binary, elementwise, ufunc
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.tensors.dtypes import FLOAT, Spec, bool_, float32, float64

_JUMPS = "it is piecewise constant"

floor: Final = elementwise("floor", _JUMPS, "The greatest whole number not above x.", FLOAT)
ceil: Final = elementwise("ceil", _JUMPS, "The smallest whole number not below x.", FLOAT)
rint: Final = elementwise("rint", _JUMPS, "The whole number nearest to x, the even one of two.", FLOAT)
_round = elementwise("round", _JUMPS, "The whole number nearest to x, the even one of two.", FLOAT, kernel="rint")


nextafter: Final = binary(
    "nextafter", lambda z, x, y, dz: (dz, None), "The number of the dtype next to x on the way to y; y where they are "
    "equal.", frozenset({float32, float64}),
)  # fmt: skip


def round(x: NumberLike, name: str | None = None) -> Tensor:
    """The whole number nearest to x, the even one of two; an integer x itself."""
    tensor = convert_to_tensor(x)
    return tensor if tensor.dtype.is_integer else _round(tensor, name=name)


def _test(name: str, kernel: str, doc: str) -> Op[Tensor]:
    def rule(x: Spec) -> Spec:
        return x.only(FLOAT).with_dtype(bool_)

    rule.__doc__ = doc
    made = op(name=name, elementwise=True)(rule)
    ufunc(made, kernel)
    made.no_gradient(_JUMPS)
    return made


is_finite: Final = _test("is_finite", "isfinite", "Whether x is a number and not infinite.")
is_inf: Final = _test("is_inf", "isinf", "Whether x is infinite.")
is_nan: Final = _test("is_nan", "isnan", "Whether x is not a number.")


@transactional
def clip_by_value(
    t: NumberLike, clip_value_min: NumberLike, clip_value_max: NumberLike, name: str | None = None
) -> Tensor:
    """`t`, but nowhere below `clip_value_min` nor above `clip_value_max`, which broadcast to its shape.

    The gradient is that of `minimum` and `maximum`: 0 where a limit took effect. ValueError if a limit does not
    broadcast to the shape of `t`.
    """
    tensor = convert_to_tensor(t)
    clipped = maximum(minimum(tensor, clip_value_max), clip_value_min, name=name)
    if not clipped.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"clip_by_value: limits of shape {clipped.shape} do not broadcast to {tensor.shape}")
    return clipped


__all__ = ["ceil", "clip_by_value", "floor", "is_finite", "is_inf", "is_nan", "nextafter", "rint", "round"]

OPERATORS.update({name: globals()[name] for name in __all__})
