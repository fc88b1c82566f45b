"""A factor and a summand for each channel by oneDNN, whose threads share the rows. The bits are NumPy's."""

import functools
from typing import Final

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.tensors.dtypes import Array

_MULTIPLY: Final = 0x1FFF1
_SRC, _SRC_1, _DST = 1, 2, 17
SMALL: Final = 1 << 15
"""Elements up to which NumPy is not slower."""


def _scale(rows: int, channels: int, build: Builder) -> None:
    whole, vector = Layout.dense((rows, channels)), Layout.dense((1, channels))
    images, each = build.layout(whole), build.layout(vector)
    create = "dnnl_binary_primitive_desc_create"
    made = build.primitive(create, _MULTIPLY, images, each, images, after=[AfterStep.add(vector)])
    x, y, factor, summand = (build.array(layout) for layout in (images, images, each, each))
    build.run(made, {_SRC: x, _SRC_1: factor, _DST: y, AfterStep.argument(0, _SRC_1): summand})


def scale(lib: Library, x: Array, factor: Array, summand: Array, y: Array) -> bool:
    """Write `x * factor + summand` into `y`, for rows of channels; False if NumPy must compute it, or is as fast."""
    if x.size <= SMALL or not x.flags.c_contiguous:
        return False
    routine = ROUTINES.find(lib, (_scale, *x.shape), functools.partial(_scale, *x.shape))
    if routine is not None:
        routine(x, y, factor, summand)
    return routine is not None
