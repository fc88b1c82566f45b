import ml_dtypes
import numpy as np

from aioflow.kernels.math import casting
from tests.kernels.samples import sample

values = np.array([[-2.7, -0.2, 0.0], [0.9, 1.5, 99.5]])

for dtype in ("float32", "float16", "complex128", "int32", "uint8", "bool"):
    inputs = np.abs(values) if dtype == "uint8" else values
    sample(
        "cast", lambda x, d=dtype: casting.cast(x, d), inputs, reference=lambda x, d=dtype: x.astype(d),
        gradient=dtype == "complex128",
    )  # fmt: skip
sample("cast", lambda x: casting.cast(x, "float64"), np.array([1 + 2j, 3 - 4j]), reference=np.real)
sample("cast", lambda x: casting.cast(x, "bool"), np.array([0j, 3j]), reference=lambda x: x != 0, gradient=False)
sample("cast", lambda x: casting.cast(x, "int64"), np.array([True, False]), reference=lambda x: x.astype(np.int64))
for narrow in (ml_dtypes.int4, ml_dtypes.float8_e4m3fnuz):
    sample(
        "cast_narrow", lambda x, d=narrow: casting.cast(x, d), np.array([[-8.0, 2.5], [0.0, 7.0]]),
        reference=lambda x, d=narrow: x.astype(d), gradient=False,
    )  # fmt: skip
sample(
    "cast_narrow", lambda x: casting.cast(x, "float32"), np.array([0, 3], ml_dtypes.uint4), gradient=False,
    reference=lambda x: x.astype(np.float32),
)  # fmt: skip

words = np.array([[0x3F800000, 0x40000000]], np.int32)
sample("bitcast", lambda x: casting.bitcast(x, "float32"), words, reference=lambda x: x.view(np.float32))
sample("bitcast", lambda x: casting.bitcast(x, "int16"), words, reference=lambda x: x.view(np.int16).reshape(1, 2, 2))
sample("bitcast", lambda x: casting.bitcast(x, "int64"), words, reference=lambda x: x.view(np.int64).reshape(1))

far = np.array([-6e4, -129.0, -128.9, -3.7, 0.5, 127.9, 128.0, np.inf, -np.inf, np.nan])
near = np.array([-128, -128, -128, -3, 0, 127, 127, 127, -128, 0], np.int8)
sample("saturate_to_integer", lambda x: casting.saturate_cast(x, "int8"), far, reference=lambda x: near)
