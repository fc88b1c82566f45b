"""`af.debugging`: assertions and tests of values, under the names of TensorFlow's `debugging`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.array.sorting": "is_non_decreasing is_strictly_increasing",
    "aioflow.kernels.control.assertions": (
        "Assert assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal "
        "assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal assert_positive "
        "assert_rank assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type"
    ),
    "aioflow.kernels.control.debugging": "assert_all_finite=verify_tensor_all_finite check_numerics",
    "aioflow.kernels.math.rounding": "is_finite is_inf is_nan",
    "aioflow.library.arrays": "is_numeric_tensor",
    "aioflow.library.known_values": "assert_proper_iterable",
    "aioflow.library.shape_assertions": "assert_shapes",
    "aioflow.session.default_config": (
        "disable_check_numerics enable_check_numerics get_log_device_placement set_log_device_placement"
    ),
})  # fmt: skip
