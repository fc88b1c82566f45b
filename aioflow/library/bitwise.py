"""`af.bitwise`: functions of the bits of integers, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.comparison": "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
})  # fmt: skip
