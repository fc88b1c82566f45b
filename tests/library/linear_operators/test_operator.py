"""All kinds of operators, compared with NumPy; `oracle/test_linear_operators.py` compares them with TensorFlow."""

import itertools

import numpy as np
import pytest

import aioflow as af
from tests.library.linear_operators.kinds import KINDS, Numbers, arguments, calls


def adjoint(matrix):
    return np.swapaxes(matrix.conj(), -1, -2)


def references(dense, given):
    """What each call gives for that matrix, as a function without arguments."""
    x, y, one, more, u, v, z = given.values()
    rows, columns = dense.shape[-2:]

    def solved(matrix, right):
        return np.linalg.inv(matrix) @ right

    return {
        "to_dense": lambda: dense,
        "matmul": lambda: dense @ x,
        "matmul, adjoint": lambda: adjoint(dense) @ y,
        "matmul, adjoint_arg": lambda: dense @ x,
        "matmul, one": lambda: dense @ one,
        "matvec": lambda: (dense @ u[..., None])[..., 0],
        "matvec, adjoint": lambda: (adjoint(dense) @ v[..., None])[..., 0],
        "add_to_tensor": lambda: dense + z[0],
        "add_to_tensor, more": lambda: dense + (z[:, :1] if z.ndim > 3 else z),
        "diag_part": lambda: np.diagonal(dense, 0, -2, -1),
        "trace": lambda: np.trace(dense, 0, -2, -1),
        "adjoint": lambda: adjoint(dense),
        "shape_tensor": lambda: np.array(dense.shape),
        "batch_shape_tensor": lambda: np.array(dense.shape[:-2]),
        "sizes": lambda: [rows, columns],
        "tensor_rank_tensor": lambda: dense.ndim,
        "cond": lambda: np.linalg.cond(dense),
        "determinant": lambda: np.linalg.det(dense),
        "log_abs_determinant": lambda: np.linalg.slogdet(dense)[1],
        "solve": lambda: solved(dense, y),
        "solve, adjoint": lambda: solved(adjoint(dense), y),
        "solve, more": lambda: solved(dense, more),
        "solvevec": lambda: solved(dense, v[..., None])[..., 0],
        "solvevec, adjoint": lambda: solved(adjoint(dense), v[..., None])[..., 0],
        "inverse": lambda: np.linalg.inv(dense),
        "eigvals": lambda: np.linalg.eigvalsh(dense),
        "cholesky": lambda: np.linalg.cholesky(dense),
    }


def check(found, dense, given, dtype):
    expected = references(dense, given)
    for call, value in found.items():
        wanted = expected[call]()
        if call == "eigvals":
            value = np.sort(value.real)
        np.testing.assert_allclose(value, wanted, 1e-8, 1e-10, err_msg=call)
        assert np.shape(value) == np.shape(wanted), call
        if call not in ("shape_tensor", "batch_shape_tensor", "sizes", "tensor_rank_tensor", "cond", "eigvals"):
            assert value.dtype == dtype, call


@pytest.mark.whole
@pytest.mark.parametrize(
    ("dtype", "are_open"),
    [
        pytest.param(np.float64, False, id="real"),
        pytest.param(np.complex128, True, id="complex, open"),
        pytest.param(np.complex128, False, id="complex", marks=pytest.mark.long),
        pytest.param(np.float64, True, id="real, open", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", KINDS)
async def test_each_method_gives_what_the_dense_matrix_gives(name, dtype, are_open):
    with af.Graph().as_default() as graph:
        shape = tuple(KINDS[name](af.linalg, Numbers(af, dtype)).shape.as_list())
        new = Numbers(af, dtype, are_open)
        operator = KINDS[name](af.linalg, new)
        given = arguments(shape, new)
        tensors = {call: made() for call, made in calls(operator, name, given).items()}
        for call, tensor in tensors.items():
            for each in tensor if isinstance(tensor, list) else [tensor]:
                assert are_open or each.shape.is_fully_defined(), call
    assert operator.shape.is_compatible_with(shape)
    async with af.Session(graph=graph) as session:
        found = await session.run(tensors, dict(zip(new.parameters, new.values, strict=True)) if are_open else None)
    with np.errstate(divide="ignore"):
        check(found, found["to_dense"], given, dtype)
    assert found["to_dense"].shape == shape


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [pytest.param(np.float64, marks=pytest.mark.long), np.complex128])
@pytest.mark.parametrize("name", [name for name in KINDS if "wide" not in name and not name.startswith("Zeros")])
async def test_gradients_flow_as_through_the_dense_matrix(name, dtype):
    with af.Graph().as_default() as graph:
        new = Numbers(af, dtype)
        operator = KINDS[name](af.linalg, new)
        dense = af.linalg.LinearOperatorFullMatrix(operator.to_dense())
        right = new.array(operator.shape[-1].value, 2)

        def slopes(one):
            results = one.matmul(right), one.solve(right), one.determinant(), one.log_abs_determinant()
            sums = [af.reduce_sum(af.real(each) + 2 * af.imag(each)) for each in results]
            return [af.gradients(each, new.parameters, unconnected_gradients="zero") for each in sums]

        pairs = slopes(operator), slopes(dense)
    async with af.Session(graph=graph) as session:
        mine, other = await session.run(pairs)
    for found, expected in zip(itertools.chain(*mine), itertools.chain(*other), strict=True):
        if name == "FullMatrix, definite":  # either triangle of a self-adjoint matrix may be the one that is moved
            found, expected = found + adjoint(found), expected + adjoint(expected)
        if name == "LowRankUpdate, definite" and found.ndim == 1:  # a diagonal that stays self-adjoint
            found, expected = found.real, expected.real
        np.testing.assert_allclose(found, expected, 1e-8, 1e-10)


async def test_a_subclass_defines_a_product_and_has_all_methods():
    class Turning(af.linalg.LinearOperator):
        def __init__(self):
            super().__init__(af.float32, is_non_singular=True, name="turning")

        def _shape(self):
            return af.TensorShape([2, 2])

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            turned = af.stack([-x[..., 1, :], x[..., 0, :]], -2)
            return -turned if adjoint else turned

    with af.Graph().as_default() as graph:
        operator = Turning()
        results = operator.to_dense(), operator.solvevec([1.0, 2.0]), operator.determinant(), operator.H.to_dense()
    assert all(each.name.startswith("turning/") for each in results[:3])
    async with af.Session(graph=graph) as session:
        dense, solved, determinant, adjoint = await session.run(results)
    np.testing.assert_allclose(dense, [[0, -1], [1, 0]])
    np.testing.assert_allclose(adjoint, dense.T)
    np.testing.assert_allclose((*solved, determinant), (2, -1, 1), 1e-6)


async def test_checks_in_a_run_find_what_a_matrix_is_not():
    made = af.linalg
    with af.Graph().as_default() as graph:
        singular, turn = af.constant([[1.0, 2.0], [2.0, 4.0]]), af.constant([[0.0, -1.0], [1.0, 0.0]])
        rows = af.placeholder_with_default(2, [])
        wrong = [
            made.LinearOperatorFullMatrix(singular).assert_non_singular(),
            made.LinearOperatorFullMatrix(singular).assert_positive_definite(),
            made.LinearOperatorFullMatrix(turn).assert_positive_definite(),
            made.LinearOperatorFullMatrix(turn).assert_self_adjoint(),
            made.LinearOperatorLowerTriangular(af.sin(turn)).assert_non_singular(),
            made.LinearOperatorDiag(af.sin([0.0, 1.0])).assert_non_singular(),
            made.LinearOperatorDiag(af.sin([0.0, 1.0])).assert_positive_definite(),
            made.LinearOperatorScaledIdentity(2, af.sin(0.0)).assert_non_singular(),
            made.LinearOperatorPermutation([1, 2, 0]).assert_self_adjoint(),
            made.LinearOperatorCirculant(af.sin([0.0, 1.0])).assert_positive_definite(),
            made.LinearOperatorCirculant(af.complex(af.sin([1.0, 2.0]), [1.0, 2.0])).assert_hermitian_spectrum(),
            made.LinearOperatorIdentity(rows, assert_proper_shapes=True).matmul(af.ones([3, 1])),
        ]
        right = [
            made.LinearOperatorFullMatrix(turn + af.eye(2)).assert_positive_definite(),
            made.LinearOperatorFullMatrix(singular).assert_self_adjoint(),
            made.LinearOperatorPermutation([1, 0, 2]).assert_self_adjoint(),
            made.LinearOperatorCirculant(af.fft(af.complex([1.0, 2.0, 3.0], 0.0))).assert_hermitian_spectrum(),
            made.LinearOperatorIdentity(2).assert_positive_definite(),
            made.LinearOperatorHouseholder([1.0, 2.0]).assert_non_singular(),
        ]
        zeros = made.LinearOperatorZeros(2)
        for never in (zeros.assert_non_singular, made.LinearOperatorHouseholder([1.0]).assert_positive_definite):
            with pytest.raises(af.errors.InvalidArgumentError):
                never()
    async with af.Session(graph=graph) as session:
        for each in wrong:
            with pytest.raises(af.errors.InvalidArgumentError):
                await session.run(each)
        await session.run(right)


def test_structure_keeps_operators_from_building_their_matrix():
    size, made = 64, af.linalg
    with af.Graph().as_default() as graph:
        x = af.ones([size])
        kinds = [
            made.LinearOperatorDiag(x),
            made.LinearOperatorIdentity(size),
            made.LinearOperatorScaledIdentity(size, 2.0),
            made.LinearOperatorHouseholder(x),
            made.LinearOperatorPermutation(np.arange(size)[::-1]),
            made.LinearOperatorTridiag([x, 4 * x, x], "sequence"),
            made.LinearOperatorCirculant(x, af.float32),
            made.LinearOperatorKronecker([made.LinearOperatorDiag(x[:8]), made.LinearOperatorFullMatrix(af.eye(8))]),
            made.LinearOperatorBlockDiag([made.LinearOperatorDiag(x[:32]), made.LinearOperatorDiag(x[32:])]),
            made.LinearOperatorLowRankUpdate(made.LinearOperatorDiag(x), x[:, None]),
        ]
        for each in (*kinds, made.LinearOperatorZeros(size), made.LinearOperatorToeplitz(x, x)):
            each.matvec(x)
            each.matvec(x, adjoint=True)
            each.trace()
        for each in kinds:
            each.solvevec(x)
            if not isinstance(each, made.LinearOperatorTridiag):
                each.log_abs_determinant()
        (kinds[0] @ kinds[3]).matvec(x)
        counts = {t.name: t.shape.num_elements() or 0 for each in graph.get_operations() for t in each.outputs}
    assert {name: count for name, count in counts.items() if count >= size**2} == {}
