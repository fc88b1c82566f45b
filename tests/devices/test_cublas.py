"""How matrices in memory are described to BLAS: checked by a product that reads memory as BLAS does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.devices.cublas import Operand, operand

VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.swapaxes(-1, -2),
    "rows apart": lambda x: x[..., ::2, :],
    "part of the rows": lambda x: x[..., 1:],
    "part of the columns": lambda x: x[..., 1:, :].swapaxes(-1, -2),
    "both apart": lambda x: x[..., ::2, ::2],
    "backwards": lambda x: x[..., ::-1, :],
    "last backwards": lambda x: x[..., ::-1],
    "every other matrix": lambda x: x[::2] if x.ndim > 2 else x,
    "batch turned": lambda x: x.swapaxes(0, 1) if x.ndim == 4 else x,
    "one repeated": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim > 2 else x,
    "columns repeated": lambda x: np.broadcast_to(x[..., :1], x.shape),
}
sizes = st.integers(1, 4)


def as_blas_reads(x, found, count):
    """The matrices by rows, read from the memory of `x` as the operand says."""
    rows, columns = x.shape[-2:]
    size = x.itemsize
    if found.by_columns:
        strides = (found.step * size, size, found.leading * size)
    else:
        strides = (found.step * size, found.leading * size, size)
    return np.lib.stride_tricks.as_strided(x, (count, rows, columns), strides)


@pytest.mark.parametrize("view", VIEWS)
@given(st.lists(sizes, max_size=2), sizes, sizes)
def test_an_operand_is_read_as_the_matrices_it_describes(view, batch, rows, columns):
    shape = (*batch, rows, columns)
    x = VIEWS[view](np.arange(np.prod(shape), dtype=float).reshape(shape))
    count = int(np.prod(x.shape[:-2]))
    found = operand(x.shape, x.strides, x.itemsize, count)
    if not x.size:
        return
    if found is not None:
        np.testing.assert_array_equal(as_blas_reads(x, found, count).reshape(x.shape), x)
        assert found.leading >= (x.shape[-2] if found.by_columns else x.shape[-1])
    assert operand(x.shape, np.ascontiguousarray(x).strides, x.itemsize, count) is not None


def test_what_needs_no_copy():
    x = np.zeros((5, 4, 6), np.float32)
    assert operand(x.shape, x.strides, 4, 5) == Operand(False, 6, 24)
    assert operand((5, 6, 4), x.swapaxes(1, 2).strides, 4, 5) == Operand(True, 6, 24)
    assert operand((4, 6), x[0].strides, 4, 5) == Operand(False, 6, 0)
    assert operand((5, 4, 3), x[..., :3].strides, 4, 5) == Operand(False, 6, 24)
    assert operand((1, 4, 6), (0, 24, 4), 4, 1) == Operand(False, 6, 0)


def test_what_needs_a_copy():
    x = np.zeros((5, 4, 6), np.float32)
    assert operand((5, 4, 3), x[..., ::2].strides, 4, 5) is None
    assert operand((4, 5, 4, 6), np.zeros((5, 4, 4, 6), np.float32).swapaxes(0, 1).strides, 4, 20) is None
    assert operand((5, 4, 6), x[..., ::-1].strides, 4, 5) is None
