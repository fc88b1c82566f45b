import ml_dtypes
import numpy as np

from aioflow.kernels.control.lossy import lossy, lossy_decode, lossy_encode
from aioflow.tensors import codecs, dtypes
from aioflow.tensors.dtypes import TensorShape
from tests.kernels.samples import sample

x = np.array([[-2.75, 0.3, 1e-3], [np.pi, 100.125, -7.0]])
wild = np.array([[np.nan, np.inf, -np.inf], [3.0, 0.1, -0.0]], np.float32)


def halves(x):
    return x.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)


def cut(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


sample("lossy", lambda x: lossy(x, "int8"), x, reference=lambda x: x)
sample("lossy", lambda x: lossy(x, "top_k:0.5", gradients=True), x, reference=lambda x: x)

for array in (x, x[:, ::2], np.array(0.3), np.zeros((0, 2))):
    sample("lossy_encode", lambda x: lossy_encode(x, "bfloat16"), array, reference=halves)
    sample("lossy_encode", lambda x: lossy_encode(x, "bfloat16_truncated"), array, reference=cut)
    sample("lossy_encode", lambda x: lossy_encode(x, "float16"), array, reference=lambda x: x.astype(np.float16))
sample("lossy_encode", lambda x: lossy_encode(x, "bfloat16"), wild, reference=halves)

for array in (x.astype(np.float32), wild, np.float32(0.3), np.zeros((0, 2), np.float32)):
    for name in ("int8", "int8_rows"):
        rows = name == "int8_rows"
        codes = codecs.to_int8(np, array, rows)
        sample("lossy_encode", lambda x, n=name: lossy_encode(x, n), array, reference=lambda x, c=codes: c)
        sample(
            "lossy_decode",
            lambda c, n=name, s=array.shape: lossy_decode(c, n, dtypes.float32, TensorShape(s), "edge"), codes,
            reference=lambda c, r=rows: codecs.from_int8(np, c, np.dtype(np.float32), TensorShape(None), r),
        )  # fmt: skip

sample(
    "lossy_decode", lambda c: lossy_decode(c, "bfloat16", dtypes.float64, TensorShape([2, 3]), "edge"), halves(x),
    reference=lambda c: c.view(ml_dtypes.bfloat16).astype(np.float64),
)  # fmt: skip
sample(
    "lossy_decode", lambda c: lossy_decode(c, "float16", dtypes.float32, TensorShape([2, 3]), "edge"),
    x.astype(np.float16), reference=lambda c: c.astype(np.float32),
)  # fmt: skip
sample(
    "lossy_decode", lambda c: lossy_decode(c, "top_k:0.5", dtypes.float64, TensorShape([2, 3]), "edge"),
    codecs.to_top_k(np, x, 0.5, None)[0], reference=lambda c: np.array([[0, 0, 0], [np.pi, 100.125, -7.0]]),
)  # fmt: skip
