"""`af.bitwise`: the bits of integers, under the names TensorFlow has for them."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.bits": "left_shift right_shift",
    "aioflow.kernels.math.comparison": "bitwise_and bitwise_or bitwise_xor invert",
})  # fmt: skip
