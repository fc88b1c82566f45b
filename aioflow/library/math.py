"""Functions of numbers under the names of TensorFlow's `math`, and older names of some."""
# ruff: noqa: I001 (one line or block for each module)

from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.building import transactional
from aioflow.graph.indexed_slices import IndexedSlices

# fmt: off
from aioflow.kernels.math.accumulation import accumulate_n, cumulative_logsumexp, polyval
from aioflow.kernels.nn.activation import softplus, softsign
from aioflow.kernels.math.argmax import argmax, argmin
from aioflow.kernels.math.arithmetic import (
    add, add_n, divide, floordiv, floormod, maximum, minimum, mod, multiply, pow, squared_difference, subtract,
    truediv,
)
from aioflow.kernels.math.bessel import bessel_i0, bessel_i0e, bessel_i1, bessel_i1e
from aioflow.kernels.math.comparison import (
    equal, greater, greater_equal, less, less_equal, logical_and, logical_not, logical_or, logical_xor, not_equal,
)
from aioflow.kernels.math.complex import angle, conj, imag, real
from aioflow.kernels.math.cumulative import cumprod, cumsum
from aioflow.kernels.math.division import divide_no_nan, reciprocal_no_nan, xlogy
from aioflow.kernels.math.no_nan import multiply_no_nan, xdivy
from aioflow.kernels.math.erf import erf, erfc
from aioflow.kernels.math.gamma import digamma, lbeta, lgamma
from aioflow.kernels.math.histograms import bincount, confusion_matrix
from aioflow.kernels.math.incomplete_beta import betainc
from aioflow.kernels.math.incomplete_gamma import igamma, igammac
from aioflow.kernels.math.logistic import log_sigmoid
from aioflow.kernels.math.elementwise import (
    abs, acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, exp, expm1, log, log1p, negative, reciprocal,
    rsqrt, sigmoid, sign, sin, sinh, sqrt, square, tan, tanh,
)
from aioflow.kernels.array.ordering import is_non_decreasing, is_strictly_increasing
from aioflow.kernels.math.quantiles import erfinv, ndtri
from aioflow.kernels.math.reduction import (
    count_nonzero, reduce_all, reduce_any, reduce_logsumexp, reduce_max, reduce_mean, reduce_min, reduce_prod,
    reduce_sum,
)
from aioflow.kernels.math.rounding import ceil, floor, is_finite, is_inf, is_nan, nextafter, rint, round
from aioflow.kernels.math.segment_families import segment_max, segment_mean, segment_min, segment_prod
from aioflow.kernels.math.segments import segment_sum, unsorted_segment_sum
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.kernels.array.sorting import in_top_k, invert_permutation, top_k
from aioflow.kernels.math.statistics import reduce_euclidean_norm, reduce_std, reduce_variance
from aioflow.kernels.math.unsorted_segments import (
    unsorted_segment_max, unsorted_segment_mean, unsorted_segment_min, unsorted_segment_prod,
    unsorted_segment_sqrt_n,
)
from aioflow.kernels.math.zeta import polygamma, zeta
from aioflow.library.nn import l2_normalize, zero_fraction
from aioflow.graph.operation import Tensor
# fmt: on

realdiv = truediv


@transactional
def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Tensor | IndexedSlices:
    """`x` times a number, in the dtype of x; of IndexedSlices their values times it.

    Raises:
        ValueError: `scalar` has a rank other than 0.
    """
    values = x.values if isinstance(x, IndexedSlices) else convert_to_tensor(x)
    factor = convert_to_tensor(scalar, values.dtype)
    if factor.spec.rank not in (None, 0):
        raise ValueError(f"a scalar is needed, its shape is {factor.shape}")
    product = multiply(factor, values, name=name or "scalar_mul")
    return IndexedSlices(product, x.indices, x.dense_shape) if isinstance(x, IndexedSlices) else product


__all__ = [
    "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin", "asin", "asinh", "atan",
    "atan2", "atanh", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "bincount", "ceil",
    "confusion_matrix", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "cumulative_logsumexp", "digamma",
    "divide", "divide_no_nan", "equal", "erf", "erfc", "erfinv", "exp", "expm1", "floor", "floordiv", "floormod",
    "greater", "greater_equal", "igamma", "igammac", "imag", "in_top_k", "invert_permutation", "is_finite", "is_inf",
    "is_nan", "is_non_decreasing", "is_strictly_increasing", "l2_normalize", "lbeta", "less", "less_equal", "lgamma",
    "log", "log1p", "log_sigmoid", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "mod", "multiply", "multiply_no_nan", "ndtri", "negative", "nextafter", "not_equal", "polygamma",
    "polyval", "pow", "real", "realdiv", "reciprocal", "reciprocal_no_nan", "reduce_all", "reduce_any",
    "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
    "reduce_std", "reduce_sum", "reduce_variance", "rint", "round", "rsqrt", "scalar_mul", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "sigmoid", "sign", "sin", "sinh", "softmax",
    "softplus", "softsign", "sqrt", "square", "squared_difference", "subtract", "tan", "tanh", "top_k", "truediv",
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod",
    "unsorted_segment_sqrt_n", "unsorted_segment_sum", "xdivy", "xlogy", "zero_fraction", "zeta",
]  # fmt: skip
