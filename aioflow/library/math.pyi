"""`af.math`: mathematical functions under the names of TensorFlow's `math`, and older names of some."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import abs as abs
from aioflow import acos as acos
from aioflow import acosh as acosh
from aioflow import add_n as add_n
from aioflow import argmax as argmax
from aioflow import argmin as argmin
from aioflow import asin as asin
from aioflow import asinh as asinh
from aioflow import atan as atan
from aioflow import atan2 as atan2
from aioflow import atanh as atanh
from aioflow import bessel_i0e as bessel_i0e
from aioflow import bessel_i1e as bessel_i1e
from aioflow import betainc as betainc
from aioflow import ceil as ceil
from aioflow import cos as cos
from aioflow import cosh as cosh
from aioflow import count_nonzero as count_nonzero
from aioflow import cumprod as cumprod
from aioflow import cumsum as cumsum
from aioflow import cumulative_logsumexp as cumulative_logsumexp
from aioflow import digamma as digamma
from aioflow import divide as divide
from aioflow import divide as realdiv
from aioflow import divide as truediv
from aioflow import divide_no_nan as divide_no_nan
from aioflow import equal as equal
from aioflow import erf as erf
from aioflow import erfc as erfc
from aioflow import erfinv as erfinv
from aioflow import exp as exp
from aioflow import expm1 as expm1
from aioflow import floor as floor
from aioflow import floordiv as floordiv
from aioflow import floormod as floormod
from aioflow import floormod as mod
from aioflow import greater as greater
from aioflow import greater_equal as greater_equal
from aioflow import igamma as igamma
from aioflow import igammac as igammac
from aioflow import invert_permutation as invert_permutation
from aioflow import is_finite as is_finite
from aioflow import is_inf as is_inf
from aioflow import is_nan as is_nan
from aioflow import less as less
from aioflow import less_equal as less_equal
from aioflow import lgamma as lgamma
from aioflow import log as log
from aioflow import log1p as log1p
from aioflow import logical_and as logical_and
from aioflow import logical_not as logical_not
from aioflow import logical_or as logical_or
from aioflow import logical_xor as logical_xor
from aioflow import maximum as maximum
from aioflow import minimum as minimum
from aioflow import multiply as multiply
from aioflow import multiply_no_nan as multiply_no_nan
from aioflow import ndtri as ndtri
from aioflow import negative as negative
from aioflow import not_equal as not_equal
from aioflow import polygamma as polygamma
from aioflow import pow as pow
from aioflow import reciprocal as reciprocal
from aioflow import reduce_all as reduce_all
from aioflow import reduce_any as reduce_any
from aioflow import reduce_euclidean_norm as reduce_euclidean_norm
from aioflow import reduce_logsumexp as reduce_logsumexp
from aioflow import reduce_max as reduce_max
from aioflow import reduce_mean as reduce_mean
from aioflow import reduce_min as reduce_min
from aioflow import reduce_prod as reduce_prod
from aioflow import reduce_sum as reduce_sum
from aioflow import rint as rint
from aioflow import rsqrt as rsqrt
from aioflow import segment_max as segment_max
from aioflow import segment_mean as segment_mean
from aioflow import segment_min as segment_min
from aioflow import segment_prod as segment_prod
from aioflow import segment_sum as segment_sum
from aioflow import sigmoid as sigmoid
from aioflow import sign as sign
from aioflow import sin as sin
from aioflow import sinh as sinh
from aioflow import sqrt as sqrt
from aioflow import square as square
from aioflow import squared_difference as squared_difference
from aioflow import subtract as subtract
from aioflow import tan as tan
from aioflow import tanh as tanh
from aioflow import unsorted_segment_max as unsorted_segment_max
from aioflow import unsorted_segment_min as unsorted_segment_min
from aioflow import unsorted_segment_prod as unsorted_segment_prod
from aioflow import unsorted_segment_sum as unsorted_segment_sum
from aioflow import xdivy as xdivy
from aioflow import xlogy as xlogy
from aioflow import zeta as zeta
from aioflow.kernels.array.sorting import is_non_decreasing as is_non_decreasing
from aioflow.kernels.array.sorting import is_strictly_increasing as is_strictly_increasing
from aioflow.kernels.array.sorting import top_k as top_k
from aioflow.kernels.math.arithmetic import add as add
from aioflow.kernels.math.bessel_i import bessel_i0 as bessel_i0
from aioflow.kernels.math.bessel_i import bessel_i1 as bessel_i1
from aioflow.kernels.math.complex import angle as angle
from aioflow.kernels.math.complex import conj as conj
from aioflow.kernels.math.complex import imag as imag
from aioflow.kernels.math.complex import real as real
from aioflow.kernels.math.cumulative import accumulate_n as accumulate_n
from aioflow.kernels.math.cumulative import polyval as polyval
from aioflow.kernels.math.division import log_sigmoid as log_sigmoid
from aioflow.kernels.math.division import reciprocal_no_nan as reciprocal_no_nan
from aioflow.kernels.math.gamma import lbeta as lbeta
from aioflow.kernels.math.histograms import bincount as bincount
from aioflow.kernels.math.histograms import confusion_matrix as confusion_matrix
from aioflow.kernels.math.rounding import round as round
from aioflow.kernels.math.unsorted_segments import unsorted_segment_mean as unsorted_segment_mean
from aioflow.kernels.math.unsorted_segments import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from aioflow.kernels.math.variance import reduce_std as reduce_std
from aioflow.kernels.math.variance import reduce_variance as reduce_variance
from aioflow.library import math_special as special
from aioflow.library.approximate_top_k import approx_max_k as approx_max_k
from aioflow.library.approximate_top_k import approx_min_k as approx_min_k
from aioflow.library.arrays import scalar_mul as scalar_mul
from aioflow.library.nn_functions import l2_normalize as l2_normalize
from aioflow.library.nn_functions import zero_fraction as zero_fraction

__all__ = ["abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "approx_max_k", "approx_min_k", "argmax",
    "argmin", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e",
    "betainc", "bincount", "ceil", "confusion_matrix", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum",
    "cumulative_logsumexp", "digamma", "divide", "divide_no_nan", "equal", "erf", "erfc", "erfcinv", "erfinv", "exp",
    "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal", "igamma", "igammac", "imag", "in_top_k",
    "invert_permutation", "is_finite", "is_inf", "is_nan", "is_non_decreasing", "is_strictly_increasing",
    "l2_normalize", "lbeta", "less", "less_equal", "lgamma", "log", "log1p", "log_sigmoid", "log_softmax",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply",
    "multiply_no_nan", "ndtri", "negative", "nextafter", "not_equal", "polygamma", "polyval", "pow", "real", "realdiv",
    "reciprocal", "reciprocal_no_nan", "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint",
    "round", "rsqrt", "scalar_mul", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "sigmoid", "sign", "sin", "sinh", "sobol_sample", "softmax", "softplus", "softsign", "special", "sqrt", "square",
    "squared_difference", "subtract", "tan", "tanh", "top_k", "truediv", "unsorted_segment_max",
    "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n",
    "unsorted_segment_sum", "xdivy", "xlog1py", "xlogy", "zero_fraction", "zeta"]

def in_top_k(predictions: NumberLike, targets: NumberLike, k: NumberLike, name: str | None = None) -> Tensor:
    """Whether fewer than `k` elements of each row of `predictions` are greater than the one at its target.

    False for a target out of range, and for a row that holds an infinity or NaN.

    Examples:
        >>> await session.run(af.nn.in_top_k([[0.1, 0.8, 0.3]], [2], k=2))
        array([ True])
    """


def xlog1py(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x log(1 + y), exact also near y = 0; and 0 where x is 0, even if y is below -1 or NaN.

    Examples:
        >>> await session.run(af.math.xlog1py([0.0, 2.0], [-1.0, 0.0]))
        array([0., 0.], dtype=float32)
    """


def nextafter(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The number of the dtype next to x on the way to y; y where they are equal.

    Examples:
        >>> await session.run(af.math.nextafter([1.0], [2.0]))
        array([1.0000001], dtype=float32)
    """


def sobol_sample(
    dim: NumberLike,
    num_results: NumberLike,
    skip: NumberLike = 0,
    dtype: DTypeLike = ...,
    name: str | None = None,
) -> Tensor:
    """Points [num_results, dim] of the Sobol sequence of `dim` dimensions, from 0 up to but not 1.

    Joe and Kuo's direction numbers make them, for at most 1111 dimensions. The sequence has the order of Antonov and
    Saleev and begins with the point of which each coordinate is 1/2, after which `skip` points are left out.

    Raises:
        InvalidArgumentError: `dim` or `num_results` is below 1, `skip` is negative, or there are not that many.
        TypeError: the dtype is neither float32 nor float64.

    Examples:
        >>> await session.run(af.math.sobol_sample(2, 3))
        array([[0.5 , 0.5 ],
               [0.75, 0.25],
               [0.25, 0.75]], dtype=float32)
    """


def erfcinv(x: NumberLike, name: str | None = None) -> Tensor:
    """The number whose `erfc` is x; infinite at 0 and 2, NaN beyond. On the CPU alone.

    Examples:
        >>> await session.run(af.math.erfcinv([0.5, 1.0]))
        array([0.47693628, 0.        ], dtype=float32)
    """


def softplus(features: NumberLike, name: str | None = None) -> Tensor:
    """log(exp(features) + 1), without overflow: near 0 far below 0, near `features` far above.

    Examples:
        >>> (await session.run(af.nn.softplus([-1.0, 0.0, 100.0]))).round(4)
        array([  0.3133,   0.6931, 100.    ], dtype=float32)
    """


def softsign(features: NumberLike, name: str | None = None) -> Tensor:
    """features / (abs(features) + 1), between -1 and 1.

    Examples:
        >>> await session.run(af.nn.softsign([-1.0, 0.0, 3.0]))
        array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """


def log_softmax(logits: NumberLike, axis: int = -1, name: str | None = None, *, dim: int = -1) -> Tensor:
    """The logarithm of `softmax`: logits - log(sum(exp(logits))), exact where the softmax itself would be 0.

    Examples:
        >>> await session.run(af.nn.log_softmax([0.0, 1000.0]))
        array([-1000.,     0.], dtype=float32)
    """


def softmax(logits: NumberLike, axis: int = -1, name: str | None = None, *, dim: int = -1) -> Tensor:
    """exp(logits) divided by its sum along `axis`: positive numbers that add up to 1, without overflow on the way.

    Examples:
        >>> await session.run(af.nn.softmax([1.0, 2.0, 3.0]))
        array([0.09003057, 0.24472846, 0.66524094], dtype=float32)
    """

