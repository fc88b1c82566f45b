"""Pooling along three axes."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.nn.pooling import max_pooling, mean_pooling
from aioflow.kernels.nn.windows import per_axis

_max_pool3d, max_pool3d_grad, max_pool3d_grad_grad = max_pooling("max_pool3d", 3)
_avg_pool3d, avg_pool3d_grad = mean_pooling("avg_pool3d", 3)


def max_pool3d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The highest element of each window of volumes.

    Args:
        input: volumes [batch, depth, height, width, channels], or channels second with 'NCDHW'.
        ksize: the size of the window: one number, one for each of depth, height and width, or one per axis of `input`.
        strides: by how much the window moves, given as `ksize` is.
        padding: "SAME" or "VALID".
        data_format: "NDHWC" or "NCDHW".
        name: the name of the operation.
    """
    window, steps = per_axis(ksize, data_format, 3), per_axis(strides, data_format, 3)
    return _max_pool3d(input, window, steps, padding, data_format, name=name)


def avg_pool3d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of volumes, without padding; arguments as in `max_pool3d`."""
    window, steps = per_axis(ksize, data_format, 3), per_axis(strides, data_format, 3)
    return _avg_pool3d(input, window, steps, padding, data_format, name=name)
