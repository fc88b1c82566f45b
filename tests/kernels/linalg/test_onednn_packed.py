"""Products with a packed matrix by oneDNN, beside those by NumPy."""

import numpy as np
import pytest

from aioflow.devices import onednn
from aioflow.kernels.linalg import onednn_packed
from tests.support.onednn import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(32, 256, 1024), (1, 600, 700), (33, 1024, 255)])
@pytest.mark.parametrize("transposed", [False, True])
def test_many_matrices_are_multiplied_by_the_packed_one(adds, rows, inner, columns, transposed):
    matrix = numbers(columns, inner).T if transposed else numbers(inner, columns)
    multiply = onednn_packed.multiplier(onednn.library(), matrix, rows, adds)
    for seed in range(3):
        a, out = numbers(rows, inner, seed=seed), numbers(rows, columns, seed=seed)
        wanted = a @ matrix + adds * out
        multiply(a, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-3)


def test_the_bias_is_added_to_each_row():
    a, b, bias, out = numbers(64, 128), numbers(128, 96), numbers(96), np.empty((64, 96), np.float32)
    assert onednn_packed.affine(onednn.library(), a, b, bias, out)
    np.testing.assert_allclose(out, a @ b + bias, rtol=1e-4, atol=1e-3)


def test_small_products_and_other_dtypes_stay_with_numpy():
    library, out = onednn.library(), np.zeros((4, 4), np.float32)
    assert onednn_packed.multiplier(library, numbers(4, 4), 4, adds=False) is None
    assert onednn_packed.multiplier(library, np.ones((999, 999)), 99, adds=True) is None
    assert not onednn_packed.affine(library, numbers(4, 4), numbers(4, 4), numbers(4), out)
    assert not out.any()
