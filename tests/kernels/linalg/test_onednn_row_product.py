"""Products of one row by prepared calls: the bits of all other products of that row, and where another way is taken."""

import numpy as np
import pytest

from aioflow.devices import onednn
from aioflow.errors import OpError
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.onednn_matmul import SMALL, faster
from aioflow.kernels.linalg.onednn_row_product import of_row
from aioflow.kernels.linalg.row_product import row_product
from aioflow.tensors.dtypes import Spec, TensorShape, float32
from tests.support.evaluate import evaluate
from tests.support.onednn import needs_library, numbers

INNER, COLUMNS = 500, 600
SPECS = Spec(float32, TensorShape([None, INNER])), Spec(float32, TensorShape([INNER, COLUMNS]))


def prepared():
    """The product for one row, and the operands for which it took the general way."""
    left, lib = [], onednn.library()
    general = faster(lib, np.matmul)

    def noted(a, b, out=None):
        left.append(a.shape)
        return general(a, b, out)

    return of_row(lib, noted, *SPECS), general, left


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@needs_library
def test_a_row_has_the_same_bits_in_every_way():
    product, general, left = prepared()
    a, b = numbers(1, INNER), numbers(INNER, COLUMNS, seed=1)
    expected = general(a, b)
    np.testing.assert_allclose(expected, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    for row, weights in [(a, b), (read_only(a), b), (a, read_only(b))]:
        np.testing.assert_array_equal(product(row, weights), expected)
    assert left == []
    gaps, out = np.empty((INNER, COLUMNS, 2), np.float32)[..., 0], np.empty_like(expected)
    gaps[...] = b
    for found in (product(a, gaps), product(np.repeat(a, 2, 1)[:, ::2], b), product(a, b, out)):
        np.testing.assert_array_equal(found, expected)
    assert left == [(1, INNER)] * 3
    for sizes in [[None, INNER], [1, INNER], [None, None]]:
        with Graph().as_default():
            x, w = placeholder(float32, sizes), placeholder(float32, [INNER, COLUMNS])
            for product in (matmul, row_product):
                np.testing.assert_array_equal(evaluate(product(x, w), {x: a, w: b}), expected)


@needs_library
def test_other_shapes_and_dtypes_take_the_general_way():
    product, _, left = prepared()
    a, b = numbers(3, INNER), numbers(INNER, COLUMNS, seed=1)
    assert product(a, b).shape == (3, COLUMNS)
    assert product(a[:1].astype(np.float64), b).dtype == np.float64
    assert product(a[:1, :9], b[:9, :9]).shape == (1, 9)
    assert left == [(3, INNER), (1, INNER), (1, 9)]
    with pytest.raises((ValueError, OpError)):
        product(a[:1], b[1:])


@needs_library
@pytest.mark.parametrize("a", [[None, None], [2, 512], [1, 512], None])
@pytest.mark.parametrize("b", [[512, 512], [512, 513], [512, None], None])
def test_only_one_row_or_open_rows_and_large_known_weights_are_prepared(a, b):
    specs = [Spec(float32) if sizes is None else Spec(float32, TensorShape(sizes)) for sizes in (a, b)]
    chosen = of_row(onednn.library(), np.matmul, *specs, SMALL) is not np.matmul
    assert chosen == (a is not None and a[0] != 2 and b == [512, 513])
    assert SMALL == 512 * 512
