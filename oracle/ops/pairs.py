"""Element-wise ops of several tensors, broadcast together."""

from typing import Any

import numpy as np

from oracle.draw import ANY, BOOL, COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, STRING, Call, Draw, alike, call, several, two
from oracle.table import NUMPY, compare, differs, open_sizes

QUOTIENTS = differs(NUMPY + "infinity has no whole quotient", lambda x, y: np.isinf(x) & np.isfinite(y)) + differs(
    NUMPY + "the quotient is below 0 also where it cannot be told from 0",
    lambda x, y: y.dtype.kind == "f" and (abs(y) > 1e4),
)
POLE = differs("at a pole there is no derivative", lambda x, y: (y == 0).any())
CONJUGATE = differs("TensorFlow forgets to conjugate the gradient", lambda x, y: x.dtype.kind == "c")
REAL = two(*FLOATS, *INTS)

compare("add", two(*NUMBERS))
compare("add of texts", two(*STRING), ops="string_add")
for name in ("subtract", "multiply"):
    compare(name, two(*NUMBERS))
compare("divide", two(*NUMBERS), differs=POLE)
compare("truediv", two(*FLOATS, *INTS), ops=(), differs=POLE)
compare("realdiv", two(*FLOATS, *COMPLEX), ops=(), differs=POLE)
for name in ("floordiv", "floormod"):
    compare(name, REAL, ops="mod" if name == "floormod" else None, differs=QUOTIENTS)
for name in ("truncatediv", "truncatemod"):
    compare(name, REAL)
compare("pow", two(*FLOATS, *COMPLEX), rtol=64)
compare("pow of integers", two("int32", "int64", low=0, high=4))
for name in ("maximum", "minimum", "less", "less_equal", "greater", "greater_equal"):
    compare(name, REAL)
for name in ("equal", "not_equal"):
    compare(name, two(*ANY))
compare(
    "add of open sizes",
    two(*FLOAT),
    lambda lib, x, y: open_sizes(lib, x) + open_sizes(lib, y),
    ops=("add", "sum_to_shape"),
)
compare("squared_difference", two(*NUMBERS))
compare("div_no_nan", two(*FLOATS, *COMPLEX))
compare("math.multiply_no_nan", two(*FLOATS, *COMPLEX), differs=CONJUGATE)
for name in ("xlogy", "xlog1py", "xdivy"):
    compare(f"math.{name}", two(*FLOATS, *COMPLEX), differs=CONJUGATE)
compare("atan2", two(*FLOATS))
compare("math.nextafter", two(*FLOAT))
for name in ("logical_and", "logical_or", "logical_xor"):
    compare(name, two(*BOOL))
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    compare(name, two(*INTS), theirs=f"bitwise.{name}")


def shifted(d: Draw) -> Call:
    dtype = d.dtype(*INTS)
    x, y = d.broadcast(2)
    return call(d.array(dtype, x), d.array(dtype, y, 0, 7))


for name in ("left_shift", "right_shift"):
    compare(name, shifted, theirs=f"bitwise.{name}")
compare("zeta", two(*FLOAT, low=0.5, high=6), rtol=256)


def order_and_point(d: Draw) -> Call:
    dtype = d.dtype(*FLOAT)
    n, x = d.broadcast(2)
    return call(d.array(dtype, n, 0, 4).round(), d.array(dtype, x, 0.3, 6))


compare("polygamma", order_and_point, rtol=256, gradient="TensorFlow has none for the order, aioflow NaN")
compare("igamma", two(*FLOATS, low=0.1, high=6), rtol=512, ops=("igamma", "igamma_derivative"))
compare("igammac", two(*FLOATS, low=0.1, high=6), rtol=512)
compare(
    "betainc",
    several(3, *FLOAT, low=0.05, high=0.95),
    rtol=512,
    differs=differs("TensorFlow broadcasts scalars only", lambda a, b, x: not a.shape == b.shape == x.shape),
)
compare("complex", two(*FLOAT))
compare("clip_by_value", several(3, *FLOATS, *INTS), ops=())


def summed(lib: Any, *terms: Any) -> Any:
    return lib.add_n(list(terms))


for count in (1, 2, 3):
    compare(f"add_n of {count}", alike(count, *NUMBERS), summed)
compare("accumulate_n", alike(3, *NUMBERS), lambda lib, *terms: lib.accumulate_n(list(terms)), ops=())


def picked(d: Draw) -> Call:
    """Condition and branches of one shape, or a condition per row."""
    dtype, shape = d.dtype(*ANY), d.shape()
    mask = d.pick(shape, shape[:1] if shape else shape)
    return call(d.array("bool", mask), d.array(dtype, shape), d.array(dtype, shape))


compare("where", picked, ops=("select", "masked"))


def picked_broadcast(d: Draw) -> Call:
    dtype = d.dtype(*ANY)
    mask, x, y = d.broadcast(3)
    return call(d.array("bool", mask), d.array(dtype, x), d.array(dtype, y))


compare("where_v2", picked_broadcast, ops="select")
compare(
    "where of places",
    lambda d: call(d.array("bool", d.shape(0, 3))),
    lambda lib, x: lib.where(x),
    differs=differs(NUMPY + "argwhere of a scalar has one row or none, of no columns", lambda x: not x.ndim),
)
