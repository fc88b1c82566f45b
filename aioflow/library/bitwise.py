"""`af.bitwise`: the bits of integers, under the names TensorFlow has for them."""

from aioflow.kernels.math.bits import left_shift, right_shift
from aioflow.kernels.math.comparison import bitwise_and, bitwise_or, bitwise_xor, invert

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]
