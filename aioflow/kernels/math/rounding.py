"""Rounding, clipping, and tests for NaN and infinity."""

from typing import Final, overload

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import binary, elementwise, ufunc
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.tensors.dtypes import FLOAT, Spec, bool_, float32, float64

_JUMPS = "it is piecewise constant"

floor: Final = elementwise(
    "floor",
    _JUMPS,
    """The greatest whole number not above x.

    Examples:
        >>> await session.run(af.floor([1.7, -1.2]))
        array([ 1., -2.], dtype=float32)
    """,
    FLOAT,
)
ceil: Final = elementwise(
    "ceil",
    _JUMPS,
    """The smallest whole number not below x.

    Examples:
        >>> await session.run(af.ceil([1.2, -1.2]))
        array([ 2., -1.], dtype=float32)
    """,
    FLOAT,
)
rint: Final = elementwise(
    "rint",
    _JUMPS,
    """The whole number nearest to x, the even one of two.

    Examples:
        >>> await session.run(af.rint([0.5, 1.5, -1.7]))
        array([ 0.,  2., -2.], dtype=float32)
    """,
    FLOAT,
)
_round = elementwise("round", _JUMPS, "The whole number nearest to x, the even one of two.", FLOAT, kernel="rint")


nextafter: Final = binary(
    "nextafter",
    lambda z, x, y, dz: (dz, None),
    """The number of the dtype next to x on the way to y; y where they are equal.

    Examples:
        >>> await session.run(af.math.nextafter([1.0], [2.0]))
        array([1.0000001], dtype=float32)
    """,
    frozenset({float32, float64}),
)


@dispatching
def round(x: NumberLike, name: str | None = None) -> Tensor:
    """The whole number nearest to x, the even one of two; an integer x itself.

    Examples:
        >>> await session.run(af.round([0.5, 1.5, 2.7]))
        array([0., 2., 3.], dtype=float32)
    """
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


is_finite: Final = _test(
    "is_finite",
    "isfinite",
    """Whether x is a number and not infinite.

    Examples:
        >>> await session.run(af.is_finite([1.0, float("inf"), float("nan")]))
        array([ True, False, False])
    """,
)
is_inf: Final = _test(
    "is_inf",
    "isinf",
    """Whether x is infinite.

    Examples:
        >>> await session.run(af.is_inf([1.0, float("inf"), float("nan")]))
        array([False,  True, False])
    """,
)
is_nan: Final = _test(
    "is_nan",
    "isnan",
    """Whether x is not a number.

    Examples:
        >>> await session.run(af.is_nan([1.0, float("inf"), float("nan")]))
        array([False, False,  True])
    """,
)


@overload
def clip_by_value(  # type: ignore[overload-overlap]
    t: IndexedSlices, clip_value_min: NumberLike, clip_value_max: NumberLike, name: str | None = None
) -> IndexedSlices: ...
@overload
def clip_by_value(
    t: NumberLike, clip_value_min: NumberLike, clip_value_max: NumberLike, name: str | None = None
) -> Tensor: ...
@transactional
@dispatching
def clip_by_value(
    t: NumberLike, clip_value_min: NumberLike, clip_value_max: NumberLike, name: str | None = None
) -> Tensor | IndexedSlices:
    """`t`, but nowhere below `clip_value_min` nor above `clip_value_max`, which broadcast to its shape.

    IndexedSlices stay such, with their values clipped.

    The gradient is that of `minimum` and `maximum`: 0 where a limit took effect. ValueError if a limit does not
    broadcast to the shape of `t`.

    Examples:
        >>> await session.run(af.clip_by_value([-2.0, 0.5, 9.0], 0.0, 1.0))
        array([0. , 0.5, 1. ], dtype=float32)
    """
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_value(t.values, clip_value_min, clip_value_max, name), t.indices, t.dense_shape)
    tensor = convert_to_tensor(t)
    clipped = maximum(minimum(tensor, clip_value_max), clip_value_min, name=name)
    if not clipped.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"clip_by_value: limits of shape {clipped.shape} do not broadcast to {tensor.shape}")
    return clipped


__all__ = ["ceil", "clip_by_value", "floor", "is_finite", "is_inf", "is_nan", "nextafter", "rint", "round"]

OPERATORS.update({name: globals()[name] for name in __all__})
