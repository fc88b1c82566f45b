"""`af.math.special`: Bessel functions and integrals without a closed form, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.bessel_j_y": "bessel_j0 bessel_j1 bessel_y0 bessel_y1",
    "aioflow.kernels.math.bessel_k": "bessel_k0 bessel_k0e bessel_k1 bessel_k1e",
    "aioflow.kernels.math.bessel_i": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e",
    "aioflow.kernels.math.special_integrals": "dawsn expint fresnel_cos fresnel_sin spence",
})  # fmt: skip
