"""`af.debugging`: assertions and tests of values, under the names of TensorFlow's `debugging`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import Assert as Assert
from aioflow import check_numerics as check_numerics
from aioflow import is_finite as is_finite
from aioflow import is_inf as is_inf
from aioflow import is_nan as is_nan
from aioflow.kernels.array.sorting import is_non_decreasing as is_non_decreasing
from aioflow.kernels.array.sorting import is_strictly_increasing as is_strictly_increasing
from aioflow.kernels.control.assertions import assert_equal as assert_equal
from aioflow.kernels.control.assertions import assert_greater as assert_greater
from aioflow.kernels.control.assertions import assert_greater_equal as assert_greater_equal
from aioflow.kernels.control.assertions import assert_integer as assert_integer
from aioflow.kernels.control.assertions import assert_less as assert_less
from aioflow.kernels.control.assertions import assert_less_equal as assert_less_equal
from aioflow.kernels.control.assertions import assert_near as assert_near
from aioflow.kernels.control.assertions import assert_negative as assert_negative
from aioflow.kernels.control.assertions import assert_non_negative as assert_non_negative
from aioflow.kernels.control.assertions import assert_non_positive as assert_non_positive
from aioflow.kernels.control.assertions import assert_none_equal as assert_none_equal
from aioflow.kernels.control.assertions import assert_positive as assert_positive
from aioflow.kernels.control.assertions import assert_rank as assert_rank
from aioflow.kernels.control.assertions import assert_rank_at_least as assert_rank_at_least
from aioflow.kernels.control.assertions import assert_rank_in as assert_rank_in
from aioflow.kernels.control.assertions import assert_same_float_dtype as assert_same_float_dtype
from aioflow.kernels.control.assertions import assert_scalar as assert_scalar
from aioflow.kernels.control.assertions import assert_type as assert_type
from aioflow.kernels.control.debugging import verify_tensor_all_finite as assert_all_finite
from aioflow.library.arrays import is_numeric_tensor as is_numeric_tensor
from aioflow.library.known_values import assert_proper_iterable as assert_proper_iterable
from aioflow.library.shape_assertions import assert_shapes as assert_shapes
from aioflow.session.default_config import disable_check_numerics as disable_check_numerics
from aioflow.session.default_config import enable_check_numerics as enable_check_numerics
from aioflow.session.default_config import get_log_device_placement as get_log_device_placement
from aioflow.session.default_config import set_log_device_placement as set_log_device_placement

__all__ = ["Assert", "assert_all_finite", "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer",
    "assert_less", "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative", "assert_non_positive",
    "assert_none_equal", "assert_positive", "assert_proper_iterable", "assert_rank", "assert_rank_at_least",
    "assert_rank_in", "assert_same_float_dtype", "assert_scalar", "assert_shapes", "assert_type", "check_numerics",
    "disable_check_numerics", "enable_check_numerics", "get_log_device_placement", "is_finite", "is_inf", "is_nan",
    "is_non_decreasing", "is_numeric_tensor", "is_strictly_increasing", "set_log_device_placement"]
