"""Samples of values as text and as messages."""

import numpy as np

from aioflow.kernels.control.debugging import timestamp
from aioflow.kernels.data.tensor_messages import parse_tensor, serialize_tensor
from aioflow.kernels.text.string_format import print_text, string_format
from aioflow.tensors.dtypes import float64

from . import sample

NUMBERS = np.array([[1.5, -2.0], [0.25, 1e300]])
sample("serialize_tensor", lambda x: parse_tensor(serialize_tensor(x), x.dtype), NUMBERS, reference=lambda x: x)
sample("parse_tensor", lambda x: parse_tensor(serialize_tensor(x), float64), NUMBERS, reference=lambda x: x)
sample(
    "string_format", lambda x, y: string_format([x, y], "{} and {}"), NUMBERS, np.array(3),
    reference=lambda x, y: np.array(b"[[1.5 -2]\n [0.25 1e+300]] and 3", object),
)  # fmt: skip
sample("print_text", print_text, np.array(b"printed", object))
sample("timestamp", timestamp)
