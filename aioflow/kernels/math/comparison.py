"""Comparisons, logic of bools, and bits of integers. Tensor's == compares identity; `equal` compares values."""

from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, binary, elementwise
from aioflow.tensors.dtypes import ANY, BOOL, FLOAT, INTEGER, Array, DType, Namespace, Spec, bool_, uint8

_JUMPS = "it is piecewise constant"
_WHOLE = "truth values and bits do not vary smoothly"

equal: Final = binary(
    "equal",
    _JUMPS,
    """Whether x == y; NaN equals nothing.

    Examples:
        >>> await session.run(af.equal([1, 2, 3], [1, 0, 3]))
        array([ True, False,  True])
    """,
    ANY,
    commutative=True,
    compares=True,
)
not_equal: Final = binary(
    "not_equal",
    _JUMPS,
    """Whether x != y; NaN differs from all.

    Examples:
        >>> await session.run(af.not_equal([1, 2, 3], [1, 0, 3]))
        array([False,  True, False])
    """,
    ANY,
    commutative=True,
    compares=True,
)
less: Final = binary(
    "less",
    _JUMPS,
    """Whether x < y.

    Examples:
        >>> await session.run(af.less([1, 2, 3], 2))
        array([ True, False, False])
    """,
    FLOAT,
    INTEGER,
    compares=True,
)
less_equal: Final = binary(
    "less_equal",
    _JUMPS,
    """Whether x <= y.

    Examples:
        >>> await session.run(af.less_equal([1, 2, 3], 2))
        array([ True,  True, False])
    """,
    FLOAT,
    INTEGER,
    compares=True,
)
greater: Final = binary(
    "greater",
    _JUMPS,
    """Whether x > y.

    Examples:
        >>> await session.run(af.greater([1, 2, 3], 2))
        array([False, False,  True])
    """,
    FLOAT,
    INTEGER,
    compares=True,
)
greater_equal: Final = binary(
    "greater_equal",
    _JUMPS,
    """Whether x >= y.

    Examples:
        >>> await session.run(af.greater_equal([1, 2, 3], 2))
        array([False,  True,  True])
    """,
    FLOAT,
    INTEGER,
    compares=True,
)

logical_and: Final = binary(
    "logical_and",
    _WHOLE,
    """Whether x and y are both true.

    Examples:
        >>> await session.run(af.logical_and([True, False], [True, True]))
        array([ True, False])
    """,
    BOOL,
    commutative=True,
)
logical_or: Final = binary(
    "logical_or",
    _WHOLE,
    """Whether x or y is true, or both.

    Examples:
        >>> await session.run(af.logical_or([True, False], [False, False]))
        array([ True, False])
    """,
    BOOL,
    commutative=True,
)
logical_xor: Final = binary(
    "logical_xor",
    _WHOLE,
    """Whether exactly one of x and y is true.

    Examples:
        >>> await session.run(af.logical_xor([True, False], [True, True]))
        array([False,  True])
    """,
    BOOL,
    commutative=True,
)
logical_not: Final = elementwise(
    "logical_not",
    _WHOLE,
    """Whether x is false.

    Examples:
        >>> await session.run(af.logical_not([True, False]))
        array([False,  True])
    """,
    BOOL,
)

bitwise_and: Final = binary(
    "bitwise_and",
    _WHOLE,
    """The bits set in both x and y.

    Examples:
        >>> await session.run(af.bitwise_and(12, 10))
        np.int32(8)
    """,
    INTEGER,
    commutative=True,
)
bitwise_or: Final = binary(
    "bitwise_or",
    _WHOLE,
    """The bits set in x or y, or both.

    Examples:
        >>> await session.run(af.bitwise_or(12, 10))
        np.int32(14)
    """,
    INTEGER,
    commutative=True,
)
bitwise_xor: Final = binary(
    "bitwise_xor",
    _WHOLE,
    """The bits set in exactly one of x and y.

    Examples:
        >>> await session.run(af.bitwise_xor(12, 10))
        np.int32(6)
    """,
    INTEGER,
    commutative=True,
)
invert: Final = elementwise(
    "invert",
    _WHOLE,
    """x with every bit flipped: -x - 1 where it has a sign.

    Examples:
        >>> await session.run(af.invert(af.constant([0, 255], af.uint8)))
        array([255,   0], dtype=uint8)
    """,
    INTEGER,
)


def _for_both(logical: Op[Tensor], bitwise: Op[Tensor]) -> Callable[..., Tensor]:
    """Tensor's operator: `logical` for bools, `bitwise` for integers."""

    def build(*values: Any) -> Tensor:
        dtype = next((v.dtype for v in values if isinstance(getattr(v, "dtype", None), DType)), None)
        return (logical if dtype is bool_ else bitwise)(*values)

    return build


OPERATORS.update(
    equal=equal, not_equal=not_equal, less=less, less_equal=less_equal, greater=greater, greater_equal=greater_equal,
    logical_and=logical_and, logical_or=logical_or, logical_xor=logical_xor, logical_not=logical_not,
    bitand=_for_both(logical_and, bitwise_and), bitor=_for_both(logical_or, bitwise_or),
    bitxor=_for_both(logical_xor, bitwise_xor), invert=_for_both(logical_not, invert),
)  # fmt: skip


_BITS = "bits do not vary smoothly"

left_shift: Final = binary(
    "left_shift", _BITS,
    """The bits of x moved y places up, zeros moving in; 0 where y is x's width or more, or negative (TensorFlow
    replaces a y that is too large by the width less 1, and a negative one by 0).

    Examples:
        >>> await session.run(af.left_shift([1, 3], 2))
        array([ 4, 12], dtype=int32)
    """,
    INTEGER,
)  # fmt: skip
right_shift: Final = binary(
    "right_shift", _BITS,
    """The bits of x moved y places down, zeros moving in, or ones where x is negative; where y is x's width or more,
    or negative, nothing else is left (TensorFlow takes a y that is too large for the width less 1, and a
    negative one for 0).

    Examples:
        >>> await session.run(af.right_shift([4, 12], 2))
        array([1, 3], dtype=int32)
    """,
    INTEGER,
)  # fmt: skip


@op
def population_count(x: Spec) -> Spec:
    """How many bits of x are 1, negative numbers as two's complements: a uint8.

    Examples:
        >>> await session.run(af.population_count([1, 7, 255]))
        array([1, 3, 8], dtype=uint8)
    """
    return Spec(uint8, x.only(INTEGER).shape)


population_count.no_gradient(_BITS)


@population_count.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    count, bits = xp.bitwise_count, xp.dtype(f"u{node.input_specs[0].dtype.size}")
    return lambda x, out=None: count(x.view(bits), out=out)
