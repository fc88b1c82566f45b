"""Products of matrices by oneDNN: the same as by NumPy, and where each matrix lies when the library gets it."""

import numpy as np
import pytest

from aioflow.devices import onednn
from aioflow.graph.graph import Graph
from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.constants import constant
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.onednn_matmul import SMALL, faster, faster_batches, is_small, laid
from aioflow.tensors.dtypes import DeviceKind, Spec, TensorShape, float32
from tests.support.evaluate import bound, evaluate
from tests.support.onednn import agree, needs_library, numbers

BATCHES = [(4,), (2, 3), (1,), (2, 1, 2)]


@needs_library
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 4, 5), (64, 200, 80), (1, 1024, 1024), (1024, 1024, 1), (0, 3, 4), (300, 400, 500)]
)
def test_products_of_matrices(m, k, n, flip_a, flip_b):
    a, b = numbers(*((k, m) if flip_a else (m, k))), numbers(*((n, k) if flip_b else (k, n)), seed=1)
    with Graph().as_default():
        y = matmul(constant(a), constant(b), transpose_a=flip_a, transpose_b=flip_b)
        expected = (a.T if flip_a else a).astype(np.float64) @ (b.T if flip_b else b)
        np.testing.assert_allclose(evaluate(y), expected, rtol=1e-4, atol=1e-3)


@needs_library
def test_a_product_may_be_written_over_one_of_its_factors():
    a, b = numbers(128, 128), numbers(128, 128, seed=1)
    assert a.size * 128 > SMALL
    with Graph().as_default():
        y = matmul(constant(a), constant(b))
        call = bound(REGISTRY["matmul"].kernel_for(DeviceKind.CPU, [t.spec for t in y.op.inputs]), y.op)
    expected = a.astype(np.float64) @ b
    for place in (0, 1):
        copies = [a.copy(), b.copy()]
        result = call(*copies, out=copies[place])
        assert result is copies[place]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@needs_library
def test_a_batch_of_matrices_and_one_matrix_are_one_product():
    agree(matmul, numbers(4, 30, 200), numbers(200, 90, seed=1))


@needs_library
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_products_of_large_batches(batch, flip_a, flip_b):
    rows, inner, columns = 96, 80, 72
    assert rows * inner * columns > SMALL
    a = np.random.default_rng(1).standard_normal((*batch, *((inner, rows) if flip_a else (rows, inner))), np.float32)
    b = np.random.default_rng(2).standard_normal(
        (*batch, *((columns, inner) if flip_b else (inner, columns))), np.float32
    )
    agree(lambda x, y: matmul(x, y, transpose_a=flip_a, transpose_b=flip_b), a, b)


def products(lib=None):
    """The products of batches by oneDNN, and how often they were left to NumPy."""
    left = []

    def by_numpy(a, b, out=None):
        left.append(a.shape)
        return np.matmul(a, b, out=out)

    return faster_batches(lib or onednn.library(), by_numpy), left


@needs_library
@pytest.mark.parametrize("into", ["a new array", "a given one", "an input", "columns of a larger one"])
@pytest.mark.parametrize("order", ["plain", "transposed", "heads"])
def test_products_of_batches_have_the_same_bits_wherever_they_are_written(into, order):
    size, rows = 6, 80
    x = np.random.default_rng(1).standard_normal((2, size // 2, rows, rows), np.float32)
    a = {"plain": x, "transposed": x.swapaxes(-1, -2), "heads": x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)}[
        order
    ]
    b = np.random.default_rng(2).standard_normal(a.shape, np.float32)
    product, left = products()
    expected = product(a, b)
    np.testing.assert_allclose(expected, np.matmul(a, b), rtol=1e-3, atol=1e-4)
    if into == "an input":
        out = b
    else:
        out = np.empty((*a.shape[:-1], 2 * rows), np.float32)[..., ::2] if "columns" in into else np.empty_like(b)
    found = product(a, b) if into == "a new array" else product(a, b, out)
    assert into == "a new array" or found is out
    np.testing.assert_array_equal(found, expected)
    assert left == []


def heads(rows=16):
    """Queries as attention takes them: every third part of the rows of one product, a matrix for each head."""
    return numbers(2, rows, 3, 4, 32).transpose(2, 0, 3, 1, 4)[1]


def test_batches_are_multiplied_where_they_lie_unless_both_rows_and_columns_have_gaps_or_elements_are_shared():
    lying = [heads(), heads().swapaxes(-1, -2), numbers(6, 8, 9)[::2, 1:, :7], heads(rows=1)]
    x, row = numbers(2, 4, 6), numbers(2, 1, 6)
    gaps = x[:, :, ::2], x[:, :, ::2].swapaxes(-1, -2), x[..., ::-1], x.T
    shared = np.broadcast_to(row, (2, 4, 6)), np.lib.stride_tricks.sliding_window_view(row[:, 0], 3, 1)
    for x in [*lying, *gaps, *shared]:
        y, layout = laid(x)
        np.testing.assert_array_equal(y, x)
        assert layout.sizes == x.shape
        assert np.shares_memory(x, y) == any(x is one for one in lying)


@needs_library
def test_products_of_heads_need_no_copy_and_have_the_bits_of_copied_ones():
    query, key = heads(128), heads(128) + 1
    product, left = products()
    in_place = key.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3).swapaxes(-1, -2)
    expected = product(query.copy(), key.copy().swapaxes(-1, -2))
    np.testing.assert_array_equal(product(query, in_place), expected)
    np.testing.assert_allclose(expected, np.matmul(query, in_place), rtol=1e-3, atol=1e-4)
    assert left == []


@needs_library
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 8, 8), (5, 8, 8)), ((2, 96, 96), (1, 96, 96)), ((96, 96), (2, 96, 96)), ((0, 96, 96), (0, 96, 96))],
)
def test_small_products_and_broadcast_ones_are_left_to_numpy(a, b):
    product, left = products()
    found = product(np.ones(a, np.float32), np.ones(b, np.float32))
    np.testing.assert_array_equal(found, np.matmul(np.ones(a, np.float32), np.ones(b, np.float32)))
    assert left == [a]
    with pytest.raises(ValueError, match="mismatch"):
        product(np.ones((2, 96, 96), np.float32), np.ones((2, 95, 96), np.float32))


class NotedProducts:
    """oneDNN as far as `faster` sees it.

    It notes the distance of rows of the first matrix of each dnnl_sgemm, and where the second begins.
    """

    def __init__(self, avx512):
        self.avx512, self.steps, self.begins, self._sgemm = avx512, [], [], onednn.library().sgemm

    def sgemm(self, *arguments):
        self.steps.append(arguments[7])
        self.begins.append(arguments[8])
        return self._sgemm(*arguments)


def beginning_at(matrix, offset):
    """A copy at the given offset from a multiple of 64 bytes."""
    memory = np.empty(matrix.nbytes + 64, np.uint8)
    begin = (offset - memory.ctypes.data) % 64
    copied = memory[begin : begin + matrix.nbytes].view(np.float32).reshape(matrix.shape)
    copied[...] = matrix
    return copied


@needs_library
@pytest.mark.parametrize("flipped", [False, True])
def test_dnnl_sgemm_gets_a_matrix_of_long_rows_where_it_packs_it_and_the_bits_are_the_same(flipped):
    draw, lib = np.random.default_rng(3), NotedProducts(avx512=False)
    a, b = draw.standard_normal((128, 32), np.float32), draw.standard_normal((128, 512), np.float32)
    a = a.T if flipped else np.ascontiguousarray(a.T)
    product = faster(lib, np.ndarray.dot)
    first, *others = [product(a, beginning_at(b, offset)) for offset in (0, 16, 32, 48)]
    assert [begin % 32 for begin in lib.begins] == [16] * 4
    for other in others:
        np.testing.assert_array_equal(other, first)
    np.testing.assert_allclose(first, a @ b, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize("small", [SMALL, 0])
@pytest.mark.parametrize("inner", [1024, 1025])
def test_dnnl_sgemm_gets_products_that_are_not_small(inner, small):
    lib, a, b = NotedProducts(avx512=True), numbers(1, inner), numbers(inner, 256, seed=1)
    b.flags.writeable = False
    found = faster(lib, np.ndarray.dot, small)(a, b)
    assert bool(lib.begins) == (inner * 256 > small)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("a", "columns"), [((1, 1024), 256), ((2, 512), 256), ((32, 64), 128), ((0, 8), 8)])
def test_small_products_are_known_before_the_run(a, columns):
    def spec(*sizes):
        return Spec(float32, TensorShape(sizes))

    assert is_small(spec(*a), spec(a[0], columns))
    assert not is_small(spec(*a), spec(a[0], None))
    assert not is_small(spec(None, a[1]), spec(None, columns))
    if a[0]:
        assert not is_small(spec(*a), spec(a[0], columns + 1))


@needs_library
@pytest.mark.parametrize("columns", [128, 512])
def test_dnnl_sgemm_gets_gaps_between_long_rows_of_a_transposed_matrix_and_the_bits_are_the_same(columns):
    draw, found = np.random.default_rng(3), []
    a, b = draw.standard_normal((512, 512), np.float32), draw.standard_normal((512, columns), np.float32)
    for avx512 in (False, True):
        lib = NotedProducts(avx512)
        found.append(faster(lib, np.ndarray.dot)(a.T, beginning_at(b, 16)))
        assert lib.steps == [512 if avx512 else 528]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], a.T @ b, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize(("rows", "inner", "columns"), [(513, 256, 128), (512, 255, 128), (512, 256, 127)])
def test_dnnl_sgemm_gets_other_transposed_matrices_where_they_are(rows, inner, columns):
    lib = NotedProducts(avx512=False)
    a, b = np.ones((inner, rows), np.float32), np.ones((inner, columns), np.float32)
    assert faster(lib, np.ndarray.dot)(a.T, b)[0, 0] == inner
    assert lib.steps == [rows]


@needs_library
@pytest.mark.parametrize(
    ("avx512", "rows", "inner", "columns"),
    [
        (True, 32, 128, 512),
        (False, 31, 128, 512),
        (False, 32, 127, 512),
        (False, 32, 128, 511),
        (False, 32, 1025, 512),
        (False, 355, 128, 1024),
    ],
)
def test_dnnl_sgemm_gets_other_matrices_where_they_are(avx512, rows, inner, columns):
    lib = NotedProducts(avx512)
    b = beginning_at(np.ones((inner, columns), np.float32), 0)
    assert rows * inner * columns > SMALL
    assert faster(lib, np.ndarray.dot)(np.ones((rows, inner), np.float32), b)[0, 0] == inner
    assert lib.begins == [b.ctypes.data]
