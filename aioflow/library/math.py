"""`af.math`: mathematical functions under the names of TensorFlow's `math`, and older names of some."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.array.sorting": "in_top_k invert_permutation is_non_decreasing is_strictly_increasing top_k",
    "aioflow.kernels.math.arithmetic": (
        "add add_n divide floordiv floormod maximum minimum mod multiply pow realdiv=truediv squared_difference "
        "subtract truediv"
    ),
    "aioflow.kernels.math.comparison": (
        "equal greater greater_equal less less_equal logical_and logical_not logical_or logical_xor not_equal"
    ),
    "aioflow.kernels.math.complex": "angle conj imag real",
    "aioflow.kernels.math.cumulative": "accumulate_n cumprod cumsum cumulative_logsumexp polyval",
    "aioflow.kernels.math.division": "divide_no_nan log_sigmoid reciprocal_no_nan xlog1py xlogy",
    "aioflow.kernels.math.elementwise": (
        "abs acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 log log1p negative reciprocal rsqrt sigmoid "
        "sign sin sinh sqrt square tan tanh"
    ),
    "aioflow.kernels.math.gamma": "digamma igamma igammac lbeta lgamma polygamma zeta",
    "aioflow.kernels.math.histograms": "bincount confusion_matrix",
    "aioflow.kernels.math.incomplete_beta": "betainc",
    "aioflow.kernels.math.no_nan": "multiply_no_nan xdivy",
    "aioflow.kernels.math.reduction": (
        "argmax argmin count_nonzero reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max "
        "reduce_mean reduce_min reduce_prod reduce_sum"
    ),
    "aioflow.kernels.math.rounding": "ceil floor is_finite is_inf is_nan nextafter rint round",
    "aioflow.kernels.math.segments": (
        "segment_max segment_mean segment_min segment_prod segment_sum unsorted_segment_sum"
    ),
    "aioflow.kernels.math.sobol": "sobol_sample",
    "aioflow.kernels.math.bessel_i": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e",
    "aioflow.kernels.math.error_functions": "erf erfc erfcinv erfinv ndtri",
    "aioflow.kernels.math.unsorted_segments": (
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod "
        "unsorted_segment_sqrt_n"
    ),
    "aioflow.kernels.math.variance": "reduce_std reduce_variance",
    "aioflow.kernels.nn.activation": "softplus softsign",
    "aioflow.kernels.nn.softmax": "log_softmax softmax",
    "aioflow.library": "special=math_special",
    "aioflow.library.approximate_top_k": "approx_max_k approx_min_k",
    "aioflow.library.arrays": "scalar_mul",
    "aioflow.library.nn_functions": "l2_normalize zero_fraction",
})  # fmt: skip
