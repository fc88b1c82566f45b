"""`af.dtypes`: the dtypes, and conversions between them, under the names of TensorFlow's `dtypes`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.casting": "cast saturate_cast",
    "aioflow.kernels.math.complex": "complex",
    "aioflow.kernels.text.strings": "as_string",
    "aioflow.tensors.dtypes": (
        "DType QUANTIZED_DTYPES as_dtype bfloat16 bool=bool_ complex128 complex64 double=float64 float16 float32 "
        "float64 half=float16 int16 int32 int64 int8 qint16=int16 qint32=int32 qint8=int8 quint16=uint16 quint8=uint8 "
        "resource string uint16 uint32 uint64 uint8"
    ),
})  # fmt: skip
