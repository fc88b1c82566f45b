"""`af.dtypes`: the dtypes, and conversions between them, under the names of TensorFlow's `dtypes`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import as_string as as_string
from aioflow import complex as complex
from aioflow.kernels.math.casting import cast as cast
from aioflow.kernels.math.casting import saturate_cast as saturate_cast
from aioflow.tensors.dtypes import DType as DType
from aioflow.tensors.dtypes import QUANTIZED_DTYPES as QUANTIZED_DTYPES
from aioflow.tensors.dtypes import as_dtype as as_dtype
from aioflow.tensors.dtypes import bfloat16 as bfloat16
from aioflow.tensors.dtypes import bool_ as bool
from aioflow.tensors.dtypes import complex128 as complex128
from aioflow.tensors.dtypes import complex64 as complex64
from aioflow.tensors.dtypes import float16 as float16
from aioflow.tensors.dtypes import float16 as half
from aioflow.tensors.dtypes import float32 as float32
from aioflow.tensors.dtypes import float64 as double
from aioflow.tensors.dtypes import float64 as float64
from aioflow.tensors.dtypes import int16 as int16
from aioflow.tensors.dtypes import int16 as qint16
from aioflow.tensors.dtypes import int32 as int32
from aioflow.tensors.dtypes import int32 as qint32
from aioflow.tensors.dtypes import int64 as int64
from aioflow.tensors.dtypes import int8 as int8
from aioflow.tensors.dtypes import int8 as qint8
from aioflow.tensors.dtypes import resource as resource
from aioflow.tensors.dtypes import string as string
from aioflow.tensors.dtypes import uint16 as quint16
from aioflow.tensors.dtypes import uint16 as uint16
from aioflow.tensors.dtypes import uint32 as uint32
from aioflow.tensors.dtypes import uint64 as uint64
from aioflow.tensors.dtypes import uint8 as quint8
from aioflow.tensors.dtypes import uint8 as uint8

__all__ = ["DType", "QUANTIZED_DTYPES", "as_dtype", "as_string", "bfloat16", "bool", "cast", "complex", "complex128",
    "complex64", "double", "float16", "float32", "float64", "half", "int16", "int32", "int64", "int8", "qint16",
    "qint32", "qint8", "quint16", "quint8", "resource", "saturate_cast", "string", "uint16", "uint32", "uint64",
    "uint8"]
