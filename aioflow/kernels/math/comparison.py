"""Comparisons, logic of truth values, and bits of integers. Tensor's == compares identity; `equal` compares values."""

from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import binary, elementwise
from aioflow.tensors.dtypes import ANY, BOOL, FLOAT, INTEGER, DType, bool_

_JUMPS = "it is piecewise constant"
_WHOLE = "truth values and bits do not vary smoothly"

equal: Final = binary("equal", _JUMPS, "Whether x == y; NaN equals nothing.", ANY, commutative=True, compares=True)
not_equal: Final = binary(
    "not_equal", _JUMPS, "Whether x != y; NaN differs from all.", ANY, commutative=True, compares=True
)
less: Final = binary("less", _JUMPS, "Whether x < y.", FLOAT, INTEGER, compares=True)
less_equal: Final = binary("less_equal", _JUMPS, "Whether x <= y.", FLOAT, INTEGER, compares=True)
greater: Final = binary("greater", _JUMPS, "Whether x > y.", FLOAT, INTEGER, compares=True)
greater_equal: Final = binary("greater_equal", _JUMPS, "Whether x >= y.", FLOAT, INTEGER, compares=True)

logical_and: Final = binary("logical_and", _WHOLE, "Whether x and y are both true.", BOOL, commutative=True)
logical_or: Final = binary("logical_or", _WHOLE, "Whether x or y is true, or both.", BOOL, commutative=True)
logical_xor: Final = binary("logical_xor", _WHOLE, "Whether exactly one of x and y is true.", BOOL, commutative=True)
logical_not: Final = elementwise("logical_not", _WHOLE, "Whether x is false.", BOOL)

bitwise_and: Final = binary("bitwise_and", _WHOLE, "The bits set in both x and y.", INTEGER, commutative=True)
bitwise_or: Final = binary("bitwise_or", _WHOLE, "The bits set in x or y, or both.", INTEGER, commutative=True)
bitwise_xor: Final = binary("bitwise_xor", _WHOLE, "The bits set in exactly one of x and y.", INTEGER, commutative=True)
invert: Final = elementwise("invert", _WHOLE, "x with every bit flipped: -x - 1 where it has a sign.", INTEGER)


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
