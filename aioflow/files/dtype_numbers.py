"""The numbers that stand for dtypes in TensorFlow's files and messages."""

from typing import Final

from aioflow.tensors import dtypes

NUMBERS: Final = {
    dtypes.float32: 1, dtypes.float64: 2, dtypes.int32: 3, dtypes.uint8: 4, dtypes.int16: 5, dtypes.int8: 6,
    dtypes.string: 7, dtypes.complex64: 8, dtypes.int64: 9, dtypes.bool_: 10, dtypes.bfloat16: 14, dtypes.uint16: 17,
    dtypes.complex128: 18, dtypes.float16: 19, dtypes.resource: 20, dtypes.uint32: 22, dtypes.uint64: 23,
    dtypes.float8_e5m2: 24, dtypes.float8_e4m3fn: 25,
}  # fmt: skip
"""The numbers of TensorFlow's DataType."""
