"""Convolution and its gradients as products of matrices, for large filters that see few places.

oneDNN copies a filter to the layout of its kernel, and the gradient of a filter back. Where each number of a filter is
used in few places, the copies take longer than the sums. Here each element of the window is one product, which reads
the filter, or writes its gradient, where it lies in memory. The products leave out the places where that element is on
padding.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from aioflow.kernels.nn.windows import Slides, taps
from aioflow.tensors.dtypes import Array

Product = Callable[..., Array]
"""(a, b, out) -> the product of two matrices, in `out`."""
PER_PLACE: Final = 4096
"""The numbers of a filter for each place, from which products are not slower than oneDNN's convolution."""
LARGE: Final = 1 << 16
"""The numbers of a filter for each element of its window, from which the calls of the products do not matter."""


def suits(window: Sequence[int], y: Sequence[int]) -> bool:
    """Whether products are faster for such a filter, and a result of that shape with channels last."""
    places = math.prod(y[:-1])
    return window[-2] * window[-1] >= LARGE and 0 < places * PER_PLACE <= math.prod(window)


def forward(product: Product, slides: Slides, x: Array, window: Array, y: Sequence[int]) -> Array:
    """The result, of the shape `y`."""
    result = np.zeros(y, np.float32)
    for index, places, seen in taps(slides):
        _add(result[places], product(_rows(x[seen]), window[index]))
    return result


def backprop_filter(product: Product, slides: Slides, x: Array, window: Sequence[int], dy: Array) -> Array:
    """The gradient for a filter of the shape `window`, from that of the result."""
    dwindow = np.empty(window, np.float32)
    for index, places, seen in taps(slides):
        product(_rows(x[seen]).T, _rows(dy[places]), dwindow[index])
    return dwindow


def backprop_input(product: Product, slides: Slides, x: Sequence[int], window: Array, dy: Array) -> Array:
    """The gradient for images of the shape `x`, from that of the result."""
    dx = np.zeros(x, np.float32)
    for index, places, seen in taps(slides):
        _add(dx[seen], product(_rows(dy[places]), window[index].T))
    return dx


def _rows(images: Array) -> Array:
    """A matrix with a row for each place."""
    return np.ascontiguousarray(images).reshape(-1, images.shape[-1])


def _add(images: Array, rows: Array) -> None:
    images += rows.reshape(images.shape)
