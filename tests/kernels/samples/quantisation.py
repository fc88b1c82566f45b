import functools

import numpy as np

from aioflow.kernels.math.quantisation import dequantize, quantize
from aioflow.kernels.math.quantised_rounding import quantize_and_dequantize
from aioflow.tensors.dtypes import float32, int8, uint8, uint16
from tests.kernels.samples import sample

x = np.array([[-3.0, 0.1], [0.37, 5.0]], np.float32)
low, high = np.float32(-1.0), np.float32(2.0)


def stored(x, low, high):
    return np.round((np.clip(x, low, high) - low) * (255 / (high - low))).astype(np.uint8), low, high


sample(
    "quantize", functools.partial(quantize, dtype=uint8, mode="MIN_COMBINED", half_to_even=False, narrow_range=False,
    axis=None, ensure_minimum_range=0.01), x, low, high, reference=stored,
)  # fmt: skip
for mode, dtype in [("MIN_FIRST", int8), ("SCALED", uint16)]:
    sample(
        "quantize", functools.partial(quantize, dtype=dtype, mode=mode, half_to_even=False, narrow_range=True, axis=1,
        ensure_minimum_range=0.01), x, np.stack([low, low]), np.stack([high, low + 1]),
    )  # fmt: skip
sample(
    "dequantize", functools.partial(dequantize, mode="SCALED", narrow_range=True, axis=None, dtype=float32),
    np.array([-127, 0, 127], np.int8), low, high,
    reference=lambda q, low, high: (q / np.float32(127) * high).astype(np.float32),
)  # fmt: skip
sample(
    "dequantize", functools.partial(dequantize, mode="MIN_COMBINED", narrow_range=False, axis=0, dtype=float32),
    np.array([[0], [255]], np.uint8), np.stack([low, low]), np.stack([high, high]),
    reference=lambda q, low, high: np.array([[-1], [2]], np.float32),
)  # fmt: skip

wide = np.array([[-3.0, 0.1], [0.37, 5.0]])
sample(
    "quantize_and_dequantize", functools.partial(quantize_and_dequantize, num_bits=3, range_given=True), wide,
    np.array(-3.0), np.array(3.0), reference=lambda x, low, high: np.round(np.clip(x, -4, 3)), gradient=False,
)  # fmt: skip
sample(
    "quantize_and_dequantize", functools.partial(quantize_and_dequantize, axis=0, round_mode="HALF_UP"), wide,
    np.zeros(2), np.zeros(2),
    reference=lambda x, low, high: np.floor(x * [[128 / 3], [127 / 5]] + 0.5) / [[128 / 3], [127 / 5]], gradient=False,
)  # fmt: skip
