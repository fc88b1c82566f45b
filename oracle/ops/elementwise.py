"""Element-wise ops of one tensor."""

import numpy as np

from oracle.draw import ANY, BOOL, COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, SIGNED, one
from oracle.table import compare, differs

POLES = differs(
    "SciPy's digamma is infinite at both zeros, and polygamma at all poles", lambda x: (x <= 0) & (x == np.round(x))
)
EDGES = differs(
    "on a branch cut, or at its end, there is no derivative",
    lambda x: ((np.real(x) == 0) | (np.imag(x) == 0)) & (abs(x) >= 1),
)
SMOOTH = one(*FLOATS, *COMPLEX)

for name in ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "sigmoid", "reciprocal"):
    compare(name, SMOOTH)
for name in ("sqrt", "rsqrt", "log", "log1p"):
    compare(name, SMOOTH)
for name in ("acos", "asin", "asinh", "acosh", "atanh"):
    compare(name, SMOOTH, differs=EDGES)
for name in ("negative", "square", "sign", "abs"):
    compare(name, one(*NUMBERS))
for name in ("floor", "ceil", "rint", "round"):
    compare(name, one(*FLOATS, *SIGNED))
compare("erf", one(*FLOATS), differs=differs("of infinity it is 1, not NaN", np.isinf))
compare("erfc", one(*FLOATS), differs=differs("of infinity it is 0 or 2, not NaN", np.isinf))
for name in ("lgamma", "digamma"):
    compare(name, one(*FLOATS), differs=POLES)
for name in ("is_finite", "is_inf", "is_nan"):
    compare(name, one(*FLOATS))
compare("logical_not", one(*BOOL))
compare("invert", one(*INTS), theirs="bitwise.invert")
compare("identity", one(*ANY))
compare("stop_gradient", one(*ANY))
compare("erfinv", one(*FLOAT, low=-1, high=1), theirs="math.erfinv", rtol=64)
compare("ndtri", one(*FLOAT, low=0, high=1), theirs="math.ndtri", rtol=64)
compare("math.bessel_i0e", one(*FLOATS), rtol=64)
compare("math.bessel_i1e", one(*FLOATS), rtol=64, differs=differs("the second derivative jumps at 0", lambda x: x == 0))
compare("math.bessel_i0", one(*FLOAT, low=-4), ops=(), rtol=64)
compare("math.bessel_i1", one(*FLOAT, low=-4), ops=(), rtol=64)
for name in ("bessel_j0", "bessel_j1", "dawsn", "fresnel_cos", "fresnel_sin"):
    compare(f"math.special.{name}", one(*FLOAT, low=-4, high=12), rtol=256)
for name in ("bessel_y0", "bessel_y1", "bessel_k0e", "bessel_k1e", "expint", "spence"):
    compare(f"math.special.{name}", one(*FLOAT, low=0.1, high=12), rtol=256)
compare("math.special.bessel_k0", one(*FLOAT, low=0.1, high=12), ops=(), rtol=256)
compare("math.special.bessel_k1", one(*FLOAT, low=0.1, high=12), ops=(), rtol=256)
compare("math.erfcinv", one(*FLOAT, low=0, high=2), rtol=64)
compare("math.reciprocal_no_nan", one(*FLOATS, *COMPLEX), ops=())
compare("math.log_sigmoid", one(*FLOATS), ops=())
compare("population_count", one(*INTS), theirs=lambda lib, x: lib.raw_ops.PopulationCount(x=x))
for name in ("real", "imag", "angle"):
    compare(name, one(*COMPLEX))
compare("conj", one(*NUMBERS))
compare("check_numerics", one(*FLOATS), lambda lib, x: lib.check_numerics(x, "text"))
