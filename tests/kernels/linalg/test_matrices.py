from types import SimpleNamespace

import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.linalg import decompositions, determinants, diagonals, least_squares, matrices, products, solvers
from aioflow.kernels.linalg.products import einsum
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.tensors.dtypes import as_dtype
from tests.support.evaluate import evaluate

random = np.random.default_rng(29)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def types(graph):
    return [operation.type for operation in graph.get_operations()]


SQUARE = {
    "matrix_inverse": solvers.matrix_inverse,
    "matrix_determinant": determinants.matrix_determinant,
    "log_matrix_determinant": determinants.slogdet,
    "cholesky": decompositions.cholesky,
    "self_adjoint_eig": decompositions.self_adjoint_eig,
    "self_adjoint_eigvals": decompositions.self_adjoint_eigvals,
    "matrix_exponential": solvers.expm,
    "matrix_solve": lambda x: solvers.matrix_solve(x, x),
    "matrix_triangular_solve": lambda x: solvers.matrix_triangular_solve(x, x),
}
ANY_SHAPE = {"qr": decompositions.qr, "svd": decompositions.svd, "pinv": least_squares.pinv}


@pytest.mark.parametrize("name", SQUARE)
def test_matrices_that_are_not_square_are_refused_when_the_graph_is_built(name):
    with pytest.raises(ValueError, match=rf"{name}: a square matrix is needed, the shape is \[2, 3\]\n  inputs: "):
        SQUARE[name](np.ones((2, 3)))
    with pytest.raises(ValueError, match=rf"{name}: a matrix has at least rank 2, the shape is \[3\]"):
        SQUARE[name](np.ones(3))


@pytest.mark.parametrize("name", SQUARE)
def test_what_a_run_finds_not_to_be_square_matrices_is_an_error(name):
    x = placeholder("float64", None)
    result = SQUARE[name](x)
    for shape in [(2, 3), (2,)]:
        with pytest.raises((errors.InvalidArgumentError, ValueError)):
            evaluate(list(result) if isinstance(result, tuple) else result, {x: np.ones(shape)})


@pytest.mark.parametrize("name", SQUARE | ANY_SHAPE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_results_keep_the_dtype(name, dtype):
    x = (np.eye(3) * 2 + 0.1).astype(dtype)
    result = (SQUARE | ANY_SHAPE)[name](x)
    for output in result if isinstance(result, tuple) else [result]:
        value = np.asarray(evaluate(output))
        assert value.dtype == output.dtype.np
        assert value.dtype in (x.dtype, x.real.dtype)


@pytest.mark.parametrize("name", SQUARE | ANY_SHAPE)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool"])
def test_dtypes_that_lapack_does_not_compute_in_are_refused(name, dtype):
    with pytest.raises(TypeError, match=f"{name}: dtype {dtype} is not supported"):
        (SQUARE | ANY_SHAPE)[name](constant(np.eye(2), dtype))


def test_shapes_are_as_known_as_they_can_be():
    x = placeholder("float32", [None, 3, None])
    assert solvers.matrix_inverse(x).shape.as_list() == [None, 3, 3]
    assert determinants.matrix_determinant(x).shape.as_list() == [None]
    assert [part.shape.as_list() for part in decompositions.qr(x)] == [[None, 3, None], [None, None, None]]
    assert [part.shape.as_list() for part in decompositions.svd(x, full_matrices=True)] == [
        [None, None], [None, 3, 3], [None, None, None],
    ]  # fmt: skip
    assert solvers.matrix_solve(placeholder("float32", [3, None]), x).shape is x.shape
    assert diagonals.matrix_band_part(x, 0, 0).shape is x.shape
    square = placeholder("float32", [None, None])
    assert solvers.matrix_inverse(square).shape is square.shape


# Matrices that are wrong


BAD = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (solvers.matrix_inverse, "is singular: it has no inverse"),
        (lambda x: solvers.matrix_inverse(x, adjoint=True), "is singular: it has no inverse"),
        (lambda x: solvers.matrix_solve(x, np.ones((2, 1))), "is singular"),
        (lambda x: decompositions.cholesky(-x), "is not positive definite"),
        (
            lambda x: solvers.matrix_triangular_solve(x - [[0, 0], [0, 4.0]], np.ones((2, 1))),
            r"is singular: .*\[1, 1\]",
        ),
    ],
)
def test_a_singular_matrix_is_named(build, message):
    good = np.array([[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(errors.InvalidArgumentError, match="the matrix " + message):
        evaluate(build(constant(np.array(BAD))))
    batch = np.array([[good, good, BAD]])
    if "positive" in message:
        batch[0, :2] *= -1
    with pytest.raises(errors.InvalidArgumentError, match=r"matrix \[0, 2\] of the batch " + message):
        evaluate(build(constant(batch)))


@pytest.mark.parametrize(
    "build",
    [
        decompositions.svd,
        lambda x: decompositions.svd(x, compute_uv=False),
        decompositions.self_adjoint_eig,
        decompositions.self_adjoint_eigvals,
        solvers.expm,
    ],
)
@pytest.mark.parametrize("stray", [np.nan, np.inf])
def test_elements_that_are_not_finite_are_an_error_where_lapack_would_make_something_up(build, stray):
    result = build(np.array([[stray, 1.0], [1.0, stray]]))
    with pytest.raises(errors.InvalidArgumentError, match="has elements that are not finite"):
        evaluate(result[0] if isinstance(result, tuple) else result)


def test_a_singular_matrix_has_a_determinant():
    assert evaluate(determinants.matrix_determinant(np.array(BAD))) == pytest.approx(0)
    sign, log = evaluate(list(determinants.slogdet(np.zeros((2, 2)))))
    assert (sign, log) == (0, -np.inf)


def test_right_hand_sides_must_fit():
    x = placeholder("float64", [3, 3])
    for solve in (solvers.matrix_solve, solvers.matrix_triangular_solve):
        with pytest.raises(ValueError, match="3 equations have right hand sides of 3 rows, not 2"):
            solve(x, np.ones((2, 1)))
        with pytest.raises(ValueError, match="a matrix has at least rank 2"):
            solve(x, np.ones(3))
        with pytest.raises(ValueError, match="cannot be broadcast"):
            solve(np.ones((2, 3, 3)), np.ones((4, 3, 1)))
        unknown = placeholder("float64", None)
        with pytest.raises(errors.InvalidArgumentError, match="right hand sides"):
            evaluate(solve(x, unknown), {x: np.eye(3), unknown: np.ones(3)})


# Triangles


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_triangles_of_any_size_are_solved_without_a_look_at_the_other_one(size, lower, adjoint):
    part = np.tril if lower else np.triu
    triangle = part(random.standard_normal((2, size, size)) / size + np.eye(size))
    given = np.where(part(np.ones((size, size), bool)), triangle, np.nan)
    right = random.standard_normal((size, 3))
    result = evaluate(solvers.matrix_triangular_solve(given, right, lower, adjoint))
    flipped = triangle.swapaxes(1, 2) if adjoint else triangle
    np.testing.assert_allclose(flipped @ result, np.broadcast_to(right, (2, size, 3)), atol=1e-10)


def test_cholesky_reads_the_lower_triangle_and_gives_a_symmetric_gradient():
    x = np.array([[4.0, np.nan], [2.0, 3.0]])
    factor = decompositions.cholesky(constant(x))
    np.testing.assert_allclose(evaluate(factor) @ evaluate(factor).T, [[4, 2], [2, 3]])
    (dx,) = evaluate(gradients(factor, factor.op.inputs[0]))
    np.testing.assert_allclose(dx, dx.T)


def test_cholesky_solves_for_the_product():
    x = np.array([[4.0, 2.0], [2.0, 3.0]])
    right = np.array([[1.0], [2.0]])
    result = solvers.cholesky_solve(decompositions.cholesky(constant(x)), right, name="found")
    assert result.op.name == "found"
    np.testing.assert_allclose(x @ evaluate(result), right)


# Singular and eigenvalues


@pytest.mark.parametrize(
    "build", [lambda x: decompositions.svd(x)[0], lambda x: decompositions.svd(x, compute_uv=False)]
)
def test_gradients_of_equal_singular_values_are_finite(build):
    x = constant(np.eye(3))
    (dx,) = evaluate(gradients(reduce_sum(build(x)), x))
    np.testing.assert_allclose(dx, np.eye(3))


def test_gradients_of_equal_eigenvalues_are_finite(graph):
    x = constant(np.eye(3))
    (dx,) = evaluate(gradients(reduce_sum(decompositions.self_adjoint_eig(x)[0]), x))
    np.testing.assert_allclose(dx, np.eye(3))


def test_singular_values_alone_need_no_vectors(graph):
    decompositions.svd(np.ones((2, 3)), compute_uv=False)
    assert types(graph) == ["constant", "singular_values"]


def test_singular_vectors_are_columns_not_their_adjoints():
    x = random.standard_normal((3, 2)) + 1j * random.standard_normal((3, 2))
    s, u, v = evaluate(list(decompositions.svd(x)))
    assert s.dtype == np.float64
    np.testing.assert_allclose(u * s @ v.conj().T, x)


# Least squares


def test_least_squares_of_open_shapes_find_the_shortest_solution():
    a, b = placeholder("float64", [None, None]), placeholder("float64", [None, 1])
    found = least_squares.matrix_solve_ls(a, b)
    for shape in [(4, 2), (2, 4)]:
        x, y = random.standard_normal(shape), random.standard_normal((shape[0], 1))
        np.testing.assert_allclose(evaluate(found, {a: x, b: y}), np.linalg.lstsq(x, y, rcond=None)[0])


def test_the_regularizer_may_be_a_tensor():
    x, y, weight = random.standard_normal((3, 2)), random.standard_normal((3, 1)), placeholder("float64", [])
    expected = np.linalg.solve(x.T @ x + 0.3 * np.eye(2), x.T @ y)
    for value, feeds in [(weight, {weight: np.float64(0.3)}), (0.3, {})]:
        np.testing.assert_allclose(evaluate(least_squares.matrix_solve_ls(x, y, value), feeds), expected)
    with pytest.raises(ValueError, match=r"l2_regularizer cannot be negative: -1\.0"):
        least_squares.matrix_solve_ls(x, y, -1.0)


def test_a_gpu_is_not_waited_for_to_see_whether_a_matrix_is_singular():
    def solve(a, b):
        return b / a

    assert matrices.guarded(SimpleNamespace(), solve, "is singular") is solve


def test_a_matrix_without_full_rank_is_solved_by_the_pseudo_inverse_alone():
    x = np.array(BAD)
    with pytest.raises(errors.InvalidArgumentError, match="is not positive definite"):
        evaluate(least_squares.matrix_solve_ls(np.zeros((3, 2)), np.ones((3, 1))))
    found = evaluate(least_squares.matrix_solve_ls(x, np.ones((2, 1)), fast=False))
    np.testing.assert_allclose(found, np.linalg.pinv(x) @ np.ones((2, 1)))


# Diagonals


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: diagonals.matrix_diag_part(np.ones((2, 3)), k=3), "2 rows and 3 columns has no diagonal 3"),
        (
            lambda: diagonals.matrix_diag_part(np.ones((2, 3)), k=(1, 0)),
            r"the lowest and the highest of several, not \(1, 0\)",
        ),
        (lambda: diagonals.matrix_diag_part(np.ones(3)), "a matrix has at least rank 2"),
        (lambda: diagonals.matrix_diag(np.ones(3), num_rows=2), "length 3 do not fit a matrix of 2 rows and 3 columns"),
        (lambda: diagonals.matrix_diag(np.ones((3, 2)), k=(0, 1)), r"2 diagonals do not have shape \[3, 2\]"),
        (lambda: diagonals.matrix_set_diag(np.ones((2, 3)), np.ones(3)), r"shape \[2\] are needed .* not \[3\]"),
        (lambda: diagonals.matrix_band_part(np.ones((2, 3)), 3, 0), "num_lower is negative or at most 2, not 3"),
    ],
)
def test_diagonals_that_are_not_there_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "bfloat16", "complex64"])
def test_diagonals_and_bands_have_any_numbers(dtype):
    kind = as_dtype(dtype).np
    for tensor, expected in [
        (diagonals.matrix_diag(np.ones(2, kind)), [[1, 0], [0, 1]]),
        (diagonals.matrix_set_diag(np.ones((2, 2), kind), np.zeros(2, kind)), [[0, 1], [1, 0]]),
        (diagonals.matrix_band_part(np.ones((2, 2), kind), -1, 0), [[1, 0], [1, 1]]),
        (diagonals.matrix_diag_part(np.ones((2, 2), kind), k=(0, 1)), [[1, 0], [1, 1]]),
    ]:
        value = evaluate(tensor)
        assert value.dtype == kind
        np.testing.assert_array_equal(value, np.array(expected).astype(kind))


def test_what_is_outside_of_a_band_is_zero_even_if_it_was_nan():
    x = np.full((2, 2), np.nan)
    assert evaluate(diagonals.matrix_band_part(x, 0, 0))[0, 1] == 0


# Products


def test_vector_products_need_three_numbers():
    with pytest.raises(ValueError, match=r"cross: the last axis must have size 3, the shape is \[2\]"):
        products.cross(np.ones(2), np.ones(3))
    x = placeholder("float64", None)
    with pytest.raises(errors.InvalidArgumentError, match="the last axes must have size 3"):
        evaluate(products.cross(x, x), {x: np.ones(2)})


def test_the_adjoint_of_real_matrices_is_their_transpose():
    assert evaluate(products.adjoint(np.array([[1j, 2]]))).tolist() == [[-1j], [2]]
    assert evaluate(products.adjoint(np.array([[1.0, 2]]))).tolist() == [[1], [2]]


def test_the_exponential_of_great_matrices_is_that_of_halves_squared():
    turn = np.array([[0.0, -20 * np.pi], [20 * np.pi, 0]])
    np.testing.assert_allclose(evaluate(solvers.expm(turn)), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(evaluate(solvers.expm(np.diag([1.0, -300]))), np.diag(np.exp([1.0, -300])), atol=1e-12)


# Einstein sums


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], ["matmul"]),
        ("ij,jk->ki", [(2, 3), (3, 4)], ["matmul"]),
        ("ij,kj->ik", [(2, 3), (4, 3)], ["matmul"]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)], ["matmul"]),
        ("ij,ij->ij", [(2, 3), (2, 3)], ["multiply"]),
        ("ij->ji", [(2, 3)], ["transpose"]),
        ("ij->i", [(2, 3)], ["reduce_sum"]),
        ("ij,jk->i", [(2, 3), (3, 4)], ["reduce_sum", "reshape", "matmul", "reshape"]),
    ],
)
def test_einsum_builds_no_more_than_it_needs(graph, equation, shapes, expected):
    tensors = [placeholder("float64", shape) for shape in shapes]
    einsum(equation, *tensors)
    assert [kind for kind in types(graph) if kind not in ("placeholder", "constant")] == expected


def test_einsum_multiplies_the_small_ones_first(graph):
    tensors = [placeholder("float32", shape) for shape in [(1000, 1000), (1000, 1000), (1000,)]]
    einsum("ij,jk,k->i", *tensors)
    assert max(op.output.shape.num_elements() for op in graph.get_operations() if op.type == "matmul") == 1000


@pytest.mark.parametrize("shape_of", [np.shape, lambda x: [None] * np.ndim(x), lambda x: None])
def test_einsum_takes_tensors_of_open_shape(shape_of):
    for equation, shapes in [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("abc,dbe->ace", [(2, 3, 4), (5, 3, 2)]),
        ("ii->", [(3, 3)]),
    ]:
        arrays = [random.standard_normal(shape) for shape in shapes]
        tensors = [placeholder("float64", shape_of(array)) for array in arrays]
        result = einsum(equation, *tensors)
        found = evaluate(result, dict(zip(tensors, arrays, strict=True)))
        np.testing.assert_allclose(found, np.einsum(equation, *arrays))
        assert result.shape.is_compatible_with(np.shape(found))


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3)], "is for 2 tensors, not 1"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "axis 'j' in 'ij,jk->ik' has the sizes 3 and 4"),
        ("ii->i", [(2, 3)], "axis 'i' in 'ii->i' has the sizes 2 and 3"),
        ("ij->ik", [(2, 3)], "must name axes of inputs, each once"),
        ("ij->ii", [(2, 3)], "must name axes of inputs, each once"),
        ("...i->i", [(2, 3)], "and ... if they do"),
        ("ijk->i", [(2, 3)], r"'ijk' does not name the axes of a tensor of shape \[2, 3\]"),
        ("i...jk->i", [(2, 3)], r"'i...jk' does not name the axes of a tensor of shape \[2, 3\]"),
        ("i1->i", [(2, 3)], "'i1' in 'i1->i' is not made of letters"),
        ("i......->i", [(2, 3)], "is not made of letters and one ..."),
        ("ij->i->j", [(2, 3)], "is not made of letters"),
    ],
)
def test_equations_that_do_not_fit_are_refused(graph, equation, shapes, message):
    with pytest.raises(ValueError, match=f"einsum: .*{message}"):
        einsum(equation, *[np.ones(shape) for shape in shapes])
    assert types(graph) == []


def test_dots_need_a_known_rank():
    with pytest.raises(ValueError, match=r"einsum: ... needs a tensor of known rank"):
        einsum("...i->i...", placeholder("float32", None))


def test_diagonals_of_what_a_run_finds_not_to_be_square_are_an_error():
    x = placeholder("float64", [None, None])
    with pytest.raises((errors.InvalidArgumentError, ValueError)):
        evaluate(einsum("ii->i", x), {x: np.ones((2, 3))})


def test_einsum_has_a_name_scope_and_takes_literals_of_the_tensors_dtype():
    x = placeholder("float64", [2])
    result = einsum("i,i->", x, [1.0, 2.0], name="mine")
    assert result.op.name.startswith("mine/")
    assert evaluate(result, {x: np.array([3.0, 4.0])}) == 11
