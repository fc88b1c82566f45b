import numpy as np
import scipy.special

from aioflow.kernels.math import (
    bessel_i,
    bessel_j_y,
    bessel_k,
    comparison,
    division,
    error_functions,
    gamma,
    incomplete_beta,
    no_nan,
    special_integrals,
)
from tests.kernels.samples import sample

positive = np.array([[0.2, 0.7, 1.0], [1.6, 4.3, 12.5]])
either = np.array([-2.6, -1.3, -0.4, 0.3, 1.0, 2.0, 9.7])
shares = np.array([0.01, 0.04, 0.2, 0.5, 0.8, 0.97])
nothing = np.zeros((0, 3))

for op, inputs, reference in [
    (gamma.lgamma, positive, scipy.special.gammaln),
    (gamma.lgamma, either, scipy.special.gammaln),
    (gamma.digamma, positive, scipy.special.digamma),
    (gamma.digamma, either, scipy.special.digamma),
    (error_functions.ndtri, shares, scipy.special.ndtri),
    (error_functions.erfinv, 2 * shares[1:] - 1, scipy.special.erfinv),
    (error_functions.erfcinv, 2 * shares, scipy.special.erfcinv),
    (bessel_j_y.bessel_j0, np.array([-9.1, -2.3, 0.4, 7.9, 8.3]), scipy.special.j0),
    (bessel_j_y.bessel_j1, np.array([-9.1, -2.3, 0.4, 7.9, 8.3]), scipy.special.j1),
    (bessel_j_y.bessel_y0, np.array([0.4, 2.3, 7.9, 8.3]), scipy.special.y0),
    (bessel_j_y.bessel_y1, np.array([0.4, 2.3, 7.9, 8.3]), scipy.special.y1),
    (bessel_k.bessel_k0e, np.array([0.4, 1.9, 2.1, 9.3]), scipy.special.k0e),
    (bessel_k.bessel_k1e, np.array([0.4, 1.9, 2.1, 9.3]), scipy.special.k1e),
    (special_integrals.dawsn, np.array([-5.2, -0.3, 0.9, 4.9]), scipy.special.dawsn),
    (special_integrals.expint, np.array([0.2, 5.9, 6.1, 13.5]), scipy.special.expi),
    (special_integrals.fresnel_cos, np.array([-1.7, -0.3, 0.8, 2.9]), lambda x: scipy.special.fresnel(x)[1]),
    (special_integrals.fresnel_sin, np.array([-1.7, -0.3, 0.8, 2.9]), lambda x: scipy.special.fresnel(x)[0]),
    (special_integrals.spence, np.array([0.2, 0.7, 1.4, 1.7, 4.5]), scipy.special.spence),
    (bessel_i.bessel_i0e, np.array([-9.1, -2.3, 0.4, 7.9, 8.3]), scipy.special.i0e),
    (bessel_i.bessel_i1e, np.array([-9.1, -2.3, 0.4, 7.9, 8.3]), scipy.special.i1e),
]:
    sample(op.name, op, inputs, reference=reference)
    sample(op.name, op, nothing, reference=reference)
sample(
    "lbeta",
    gamma.lbeta,
    positive,
    reference=lambda x: np.sum(scipy.special.gammaln(x), -1) - scipy.special.gammaln(np.sum(x, -1)),
)
sample("bessel_i0", bessel_i.bessel_i0, either, reference=scipy.special.i0)
sample("bessel_i1", bessel_i.bessel_i1, either, reference=scipy.special.i1)

sample("bessel_k0", bessel_k.bessel_k0, positive, reference=scipy.special.k0)
sample("bessel_k1", bessel_k.bessel_k1, positive, reference=scipy.special.k1)

# No gradient flows to the order of zeta and polygamma, nor to a and b of betainc.
exponents = np.array([[1.3], [2.0], [7.5]])
sample("zeta", gamma.zeta, exponents, positive[0], reference=scipy.special.zeta, gradient=False)
sample("zeta", lambda q: gamma.zeta(exponents, q), positive[0], reference=lambda q: scipy.special.zeta(exponents, q))
orders = np.array([[0.0], [1.0], [4.0]])
sample("polygamma", gamma.polygamma, orders, positive[1], reference=scipy.special.polygamma, gradient=False)
sample(
    "polygamma", lambda x: gamma.polygamma(orders, x), positive[1],
    reference=lambda x: scipy.special.polygamma(orders.astype(int), x),
)  # fmt: skip

shapes, places = np.array([[0.3], [2.4], [20.5]]), np.array([0.2, 0.9, 3.1, 25.2])
sample("igamma", gamma.igamma, shapes, places, reference=scipy.special.gammainc)
sample("igammac", gamma.igammac, shapes, places, reference=scipy.special.gammaincc)
sample("igamma", gamma.igamma, positive, positive, reference=scipy.special.gammainc)
for order in (1, 2):
    sample("igamma_derivative", lambda a, x, k=order: gamma.igamma_derivative(a, x, k), shapes, places)
a, b, x = np.array([[0.3], [2.4], [20.5]]), np.array([0.7, 3.1, 18.5]), np.array([[0.1], [0.4], [0.93]])
sample("betainc", incomplete_beta.betainc, a, b, x, reference=scipy.special.betainc, gradient=False)
sample("betainc", lambda x: incomplete_beta.betainc(a, b, x), x, reference=lambda x: scipy.special.betainc(a, b, x))

sample("log_sigmoid", division.log_sigmoid, either, reference=scipy.special.log_expit)

# Division

x, y = np.array([[1.5, 0.0, -2.5], [0.0, 3.5, 4.5]]), np.array([0.7, 2.0, 1.2])
complexes = np.array([[0.4 + 0.7j, -1.2 + 0.3j, 0.0], [0.8 - 1.1j, 2.1 + 0.2j, -0.3j]])
for op, reference in [
    (division.xlogy, scipy.special.xlogy),
    (division.xlog1py, scipy.special.xlog1py),
    (no_nan.xdivy, np.divide),
    (no_nan.div_no_nan, np.divide),
    (no_nan.multiply_no_nan, np.multiply),
]:
    sample(op.name, op, x, y, reference=reference)
    sample(op.name, op, y, x + 5, reference=reference)
    sample(op.name, op, complexes, complexes[:1] * 1j + 2, reference=reference)
    sample(op.name, op, x[:0], y, reference=reference)
sample(
    "div_no_nan",
    no_nan.div_no_nan,
    y,
    x,
    reference=lambda x, y: np.where(y == 0, 0, x / np.where(y, y, 1)),
    gradient=False,
)
sample("reciprocal_no_nan", division.reciprocal_no_nan, y, reference=np.reciprocal)
integers = np.array([[7, -7], [-8, 9]], np.int32), np.array([2, -3], np.int32)
sample("truncatediv", division.truncatediv, *integers, reference=lambda x, y: np.trunc(x / y).astype(np.int32))
sample("truncatediv", division.truncatediv, x, y, reference=lambda x, y: np.trunc(x / y))
sample("truncatemod", division.truncatemod, *integers, reference=np.fmod)
sample("truncatemod", division.truncatemod, x + 0.2, y, reference=np.fmod)
sample("div", division.div, *integers, reference=np.floor_divide)
sample("div", division.div, x, y, reference=np.divide)

# Bits

pairs = np.array([[1, -3], [100, 7]], np.int16), np.array([3, 1], np.int16)
sample("left_shift", comparison.left_shift, *pairs, reference=np.left_shift)
sample("right_shift", comparison.right_shift, *pairs, reference=np.right_shift)
for wide in (np.int8, np.uint16, np.int32, np.int64):
    sample(
        "population_count", comparison.population_count, np.array([[0, 1, 7], [100, 127, -1]]).astype(wide),
        reference=lambda x: np.vectorize(lambda v, w=8 * x.itemsize: (int(v) % 2**w).bit_count(), otypes=[np.uint8])(x),
    )  # fmt: skip
