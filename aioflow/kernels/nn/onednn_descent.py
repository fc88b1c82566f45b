"""Gradient descent on a large variable of float32 by oneDNN, with the bits that NumPy computes.

The product that makes the gradient of a matrix leaves half of it in the cache of another core. The threads of oneDNN
each update the part that they have there: five times as fast as one core, which has to fetch it.
"""

import functools
from typing import Final

import numpy as np

from aioflow.devices.onednn import library
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.tensors.dtypes import Array

SMALL: Final = 1 << 14
"""Elements up to which NumPy is not slower."""
_ADD: Final = 0x1FFF0
_VAR, _DELTA, _RESULT = 1, 2, 17
_NUMBER: Final = Layout.dense((1,))


def descend(var: Array, alpha: Array, delta: Array, out: Array) -> bool:
    """Write var - alpha * delta to `out`, which may be `var`, and say whether oneDNN could."""
    if not (_is_dense(var) and _is_dense(delta) and _is_dense(out)):
        return False
    lib = library()
    routine = None if lib is None else ROUTINES.find(lib, (_step, var.size), functools.partial(_step, var.size))
    if routine is None:
        return False
    routine(var, delta, np.negative(alpha).reshape(1), out)
    return True


def _is_dense(x: Array) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float32 and x.flags.c_contiguous


def _step(size: int, build: Builder) -> None:
    """The sum of the variable and the multiple of the gradient, each rounded."""
    layout, number = build.layout(Layout.dense((size,))), build.layout(_NUMBER)
    create = "dnnl_binary_primitive_desc_create"
    made = build.primitive(create, _ADD, layout, layout, layout, multiplied=_DELTA)
    places = {_VAR: layout, _DELTA: layout, build.factor_of(_DELTA): number, _RESULT: layout}
    build.run(made, {place: build.array(descriptor) for place, descriptor in places.items()})
