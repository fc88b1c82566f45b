"""Products of operators keep their structure; operators of blocks take their arguments in blocks."""

import numpy as np
import pytest

import aioflow as af

made = af.linalg


def operators():
    """A square operator of each kind that has rules, of one size and dtype."""
    one = made.LinearOperatorDiag([4.0])
    return {
        "FullMatrix": made.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 5.0]]),
        "LowerTriangular": made.LinearOperatorLowerTriangular([[2.0, 9.0], [1.0, 4.0]]),
        "Diag": made.LinearOperatorDiag([2.0, -1.0], is_non_singular=True),
        "Identity": made.LinearOperatorIdentity(2),
        "ScaledIdentity": made.LinearOperatorScaledIdentity(2, 3.0),
        "Zeros": made.LinearOperatorZeros(2),
        "Circulant": made.LinearOperatorCirculant([3.0, 2.0], af.float32),
        "BlockDiag": made.LinearOperatorBlockDiag([one, made.LinearOperatorDiag([5.0])]),
        "Kronecker": made.LinearOperatorKronecker([made.LinearOperatorDiag([5.0, 2.0]), one]),
    }


KEPT = {
    ("Diag", "Diag"): "Diag",
    ("Diag", "ScaledIdentity"): "Diag",
    ("ScaledIdentity", "Diag"): "Diag",
    ("ScaledIdentity", "ScaledIdentity"): "ScaledIdentity",
    ("Diag", "LowerTriangular"): "LowerTriangular",
    ("LowerTriangular", "Diag"): "LowerTriangular",
    ("Circulant", "Circulant"): "Circulant",
    ("BlockDiag", "BlockDiag"): "BlockDiag",
}
"""Products that are of the kind of their factors; those with the identity or zeros are known anyway."""


def kind_of_product(left, right):
    if "Zeros" in (left, right):
        return "Zeros"
    if "Identity" in (left, right):
        return right if left == "Identity" else left
    return KEPT.get((left, right), "Composition")


async def test_products_and_solutions_of_operators_are_those_of_their_matrices():
    with af.Graph().as_default() as graph:
        kinds = operators()
        dense = {name: each.to_dense() for name, each in kinds.items()}
        pairs = [(left, right) for left in kinds for right in kinds]
        products = {pair: kinds[pair[0]] @ kinds[pair[1]] for pair in pairs}
        solutions = {pair: kinds[pair[0]].solve(kinds[pair[1]]) for pair in pairs if pair[0] != "Zeros"}
        for pair, product in products.items():
            assert type(product).__name__ == f"LinearOperator{kind_of_product(*pair)}", pair
        turned = kinds["FullMatrix"].matmul(kinds["LowerTriangular"], adjoint=True, adjoint_arg=True)
        fetches = [{k: v.to_dense() for k, v in found.items()} for found in (products, solutions)]
    async with af.Session(graph=graph) as session:
        values, (multiplied, solved), both = await session.run((dense, fetches, turned.to_dense()))
    for (left, right), value in multiplied.items():
        np.testing.assert_allclose(value, values[left] @ values[right], 1e-5, 1e-5, err_msg=f"{left} {right}")
    for (left, right), value in solved.items():
        expected = np.linalg.inv(values[left]) @ values[right]
        np.testing.assert_allclose(value, expected, 1e-5, 1e-5, err_msg=f"{left} {right}")
    np.testing.assert_allclose(both, values["FullMatrix"].T @ values["LowerTriangular"].T, 1e-5)


def test_an_identity_with_a_batch_spreads_the_other_operator():
    with af.Graph().as_default():
        batch = made.LinearOperatorIdentity(2, batch_shape=[3])
        assert (batch @ made.LinearOperatorDiag([1.0, 2.0])).shape == [3, 2, 2]
        assert (made.LinearOperatorZeros(2, batch_shape=[4, 1]) @ batch).shape == [4, 3, 2, 2]


def columns(vectors):
    return [each[..., None] for each in vectors]


@pytest.mark.parametrize("is_triangle", [False, True])
async def test_blocks_of_an_argument_give_blocks_of_the_result(is_triangle):
    with af.Graph().as_default() as graph:
        first, last = made.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 5.0]]), made.LinearOperatorDiag([[4.0], [2.0]])
        if is_triangle:
            below = made.LinearOperatorFullMatrix([[6.0, 7.0]])
            operator = made.LinearOperatorBlockLowerTriangular([[first], [below, last]])
        else:
            operator = made.LinearOperatorBlockDiag([first, last])
        x, y = af.constant([[1.0, 2.0], [3.0, 4.0]]), af.constant([[5.0, 6.0]])
        whole = af.concat([x, y], 0)
        pairs = [
            (operator.matmul([x, y]), operator.matmul(whole)),
            (operator.matmul([x, y], adjoint=True), operator.matmul(whole, adjoint=True)),
            (operator.matmul([af.transpose(x), af.transpose(y)], adjoint_arg=True), operator.matmul(whole)),
            (operator.solve([x, y]), operator.solve(whole)),
            (operator.solve([x, y], adjoint=True), operator.solve(whole, adjoint=True)),
            (columns(operator.matvec([x[0], y[0, :1]])), operator.matvec([1.0, 2.0, 5.0])[..., None]),
            (columns(operator.solvevec([x[0], y[0, :1]])), operator.solvevec([1.0, 2.0, 5.0])[..., None]),
        ]
    async with af.Session(graph=graph) as session:
        for parts, expected in await session.run(pairs):
            spread = [np.broadcast_to(part, (*expected.shape[:1], *part.shape[-2:])) for part in parts]
            np.testing.assert_allclose(np.concatenate(spread, -2), expected, 1e-5)
