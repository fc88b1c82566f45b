"""Products with packed matrices by oneDNN, beside those by NumPy."""

import numpy as np
import pytest

from aioflow.devices import onednn
from aioflow.devices.onednn_primitive import AfterStep, Layout
from aioflow.kernels.linalg import onednn_packed
from aioflow.kernels.linalg.onednn_packed import Product
from tests.support.onednn import needs_library, numbers

pytestmark = needs_library
TANH = 0x21


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(32, 256, 1024), (1, 600, 700), (33, 1024, 255)])
@pytest.mark.parametrize("transposed", [False, True])
def test_many_matrices_are_multiplied_by_the_packed_one(adds, rows, inner, columns, transposed):
    matrix = numbers(columns, inner).T if transposed else numbers(inner, columns)
    product = Product([matrix], Layout.dense((1, rows, columns)), (AfterStep.sum(),) * adds)
    multiply = onednn_packed.multiplier(onednn.library(), product)
    for seed in range(3):
        a, out = numbers(rows, inner, seed=seed), numbers(rows, columns, seed=seed)
        wanted = a @ matrix + adds * out
        multiply(a, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("gaps", [False, True])
def test_products_with_several_parts_of_a_matrix_are_written_side_by_side(gaps):
    whole, a = numbers(96, 400) / 20, numbers(40, 96)
    first, second, *_ = parts = [whole[:, part : part + 80] for part in (160, 0, 320)]
    out, other = numbers(2, 1 + gaps, 40, 80, seed=2), np.empty((40, 80), np.float32)
    before = out.copy()
    added = Product(parts[:2], Layout((2, 40, 80), (out[0].size, 80, 1)), (AfterStep.sum(), AfterStep.apply(TANH)))
    onednn_packed.multiplier(onednn.library(), added, Product(parts[2:], Layout.dense((1, 40, 80))))(
        a, out[0, -1], other
    )
    np.testing.assert_allclose(out[0, -1], np.tanh(before[0, -1] + a @ first), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out[1, -1], np.tanh(before[1, -1] + a @ second), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other, a @ parts[2], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(out[:, :gaps], before[:, :gaps])


@pytest.mark.parametrize("part", [slice(None), slice(40, 70)])
def test_the_bias_is_added_to_each_row(part):
    a, b, bias = numbers(128, 128), numbers(128, 96)[:, part], numbers(96)[part].copy()
    out = np.empty((128, b.shape[1]), np.float32)
    assert onednn_packed.affine(onednn.library(), a, b, bias, out)
    np.testing.assert_allclose(out, a @ b + bias, rtol=1e-4, atol=1e-3)


def test_small_products_with_a_bias_stay_with_numpy():
    out = np.zeros((4, 4), np.float32)
    assert not onednn_packed.affine(onednn.library(), numbers(4, 4), numbers(4, 4), numbers(4), out)
    assert not out.any()
