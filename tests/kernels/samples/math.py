import numpy as np
import scipy.special

from aioflow.kernels.math import (
    elementwise,
    error_functions,
    rounding,
)
from tests.kernels.samples import sample

anywhere = np.array([[-1.7, -0.6, 0.3], [0.9, 1.4, 2.2]])
inside = np.array([-0.8, -0.3, 0.1, 0.6])
above_1 = np.array([1.1, 1.7, 3.0])
positive = np.array([0.2, 1.0, 3.5])
complexes = np.array([0.4 + 0.7j, -1.2 + 0.3j, 0.8 - 1.1j])
nothing = np.zeros((0, 3))

for op, inputs, reference in [
    (elementwise.negative, anywhere, np.negative),
    (elementwise.abs, anywhere, np.abs),
    (elementwise.sign, anywhere, np.sign),
    (elementwise.square, anywhere, np.square),
    (elementwise.sqrt, positive, np.sqrt),
    (elementwise.rsqrt, positive, lambda x: x**-0.5),
    (elementwise.reciprocal, anywhere, np.reciprocal),
    (elementwise.exp, anywhere, np.exp),
    (elementwise.expm1, anywhere, np.expm1),
    (elementwise.log, positive, np.log),
    (elementwise.log1p, positive, np.log1p),
    (elementwise.sin, anywhere, np.sin),
    (elementwise.cos, anywhere, np.cos),
    (elementwise.tan, inside, np.tan),
    (elementwise.asin, inside, np.arcsin),
    (elementwise.acos, inside, np.arccos),
    (elementwise.atan, anywhere, np.arctan),
    (elementwise.sinh, anywhere, np.sinh),
    (elementwise.cosh, anywhere, np.cosh),
    (elementwise.tanh, anywhere, np.tanh),
    (elementwise.asinh, anywhere, np.arcsinh),
    (elementwise.acosh, above_1, np.arccosh),
    (elementwise.atanh, inside, np.arctanh),
    (elementwise.sigmoid, anywhere, scipy.special.expit),
]:
    sample(op.name, op, inputs, reference=reference)
    sample(op.name, op, complexes, reference=None if op is elementwise.sigmoid else reference)
    sample(op.name, op, nothing, reference=reference)

for op, reference in [(error_functions.erf, scipy.special.erf), (error_functions.erfc, scipy.special.erfc)]:
    sample(op.name, op, anywhere, reference=reference)
    sample(op.name, op, np.array([-5.5, -0.2, 0.0, 0.47, 3.9, 4.1, 7.0]), reference=reference)

angles = np.array([[0.5], [-1.2]]), np.array([0.7, -0.4, 1.9])
sample("atan2", elementwise.atan2, *angles, reference=np.arctan2)
sample("atan2", elementwise.atan2, angles[1], angles[1][::-1].copy(), reference=np.arctan2)

halves = np.array([-2.5, -1.5, -0.5, 0.4, 0.5, 1.5, 2.6])
sample("floor", rounding.floor, halves, reference=np.floor)
sample("ceil", rounding.ceil, halves, reference=np.ceil)
sample("rint", rounding.rint, halves, reference=np.rint)
sample("round", rounding.round, halves, reference=np.round)

odd = np.array([0.0, np.inf, -np.inf, np.nan, 1e3])
sample("is_finite", rounding.is_finite, odd, reference=np.isfinite)
sample("is_inf", rounding.is_inf, odd, reference=np.isinf)
sample("is_nan", rounding.is_nan, odd, reference=np.isnan)
sample("nextafter", rounding.nextafter, np.array([[0.5, -1.0]]), np.array([[2.0], [-3.0]]), reference=np.nextafter)
sample("nextafter", rounding.nextafter, np.array([1, -1, 0], np.float32), np.float32(0), reference=np.nextafter)
