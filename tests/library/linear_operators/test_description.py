"""What operators refuse: hints that contradict each other, dtypes and shapes that do not fit."""

import numpy as np
import pytest

import aioflow as af

made = af.linalg


def full(rows=2, columns=None, **hints):
    return made.LinearOperatorFullMatrix(np.ones((rows, columns or rows)), **hints)


WRONG = {
    "definite and singular": (lambda: full(is_positive_definite=True, is_non_singular=False), "non-singular"),
    "self-adjoint, not square": (lambda: full(is_self_adjoint=True, is_square=False), "always square"),
    "not square": (lambda: full(is_square=False), r"is_square=False contradicts the shape \[2, 2\]"),
    "square": (lambda: full(2, 3, is_square=True), r"is_square=True contradicts the shape \[2, 3\]"),
    "real diagonal": (
        lambda: made.LinearOperatorDiag([1.0], is_self_adjoint=False),
        "real diagonal operator is always",
    ),
    "identity": (lambda: made.LinearOperatorIdentity(2, is_non_singular=False), "is_non_singular is False"),
    "zeros": (lambda: made.LinearOperatorZeros(2, is_positive_definite=True), "never positive definite"),
    "wide zeros": (lambda: made.LinearOperatorZeros(2, 3), "contradicts the shape"),
    "reflection": (lambda: made.LinearOperatorHouseholder([1.0], is_positive_definite=True), "never positive definite"),
    "permutation": (lambda: made.LinearOperatorPermutation([1, 0], is_non_singular=False), "always non-singular"),
    "repeated": (lambda: made.LinearOperatorPermutation([1, 1]), r"from 0 to 1 once, not \[1, 1\]"),
    "spectrum": (lambda: made.LinearOperatorCirculant([1.0], is_self_adjoint=False), "real spectrum"),
    "no images": (lambda: made.LinearOperatorCirculant2D([1.0]), "at least 2 axes"),
    "column and row": (lambda: made.LinearOperatorToeplitz([1.0, 2.0], [1.0]), "2 elements and a row of 1"),
    "two diagonals": (lambda: made.LinearOperatorTridiag(np.ones((2, 4))), r"\[\.\.\., 3, n\]"),
    "format": (lambda: made.LinearOperatorTridiag(np.ones((3, 4)), "rows"), "'rows'"),
    "triangle": (lambda: made.LinearOperatorLowerTriangular(np.ones((2, 3))), "contradicts the shape"),
    "scalar": (lambda: made.LinearOperatorDiag(1.0), "at least 1 axes"),
    "negative": (lambda: made.LinearOperatorIdentity(-2), "not negative, but is -2"),
    "sizes": (lambda: made.LinearOperatorIdentity([2]), "one number"),
    "batch": (lambda: made.LinearOperatorIdentity(2, batch_shape=3), "vector"),
    "inverse": (lambda: made.LinearOperatorInversion(full(is_non_singular=False)), "only a non-singular operator"),
    "wide inverse": (lambda: full(2, 3).inverse(), "not square"),
    "factor": (lambda: full().cholesky(), "is_positive_definite"),
    "adjoint": (lambda: made.LinearOperatorAdjoint(full(is_non_singular=True), is_non_singular=False), "share"),
    "no operators": (lambda: made.LinearOperatorComposition([]), "one or more"),
    "composition": (lambda: made.LinearOperatorComposition([full(2), full(3)]), r"shapes \[2, 2\] and \[3, 3\]"),
    "product": (lambda: full(2) @ full(3), "no product"),
    "row": (lambda: made.LinearOperatorBlockLowerTriangular([[full()], [full()]]), "2 operators, not 1"),
    "block": (
        lambda: made.LinearOperatorBlockLowerTriangular([[full(2)], [full(3), full(3)]]),
        r"shape \[3, 2\], not \[3, 3\]",
    ),
    "blocks": (lambda: made.LinearOperatorBlockDiag([full(), full()]).matmul([np.ones((2, 1))]), "2 blocks"),
    "columns": (lambda: made.LinearOperatorLowRankUpdate(full(2), np.ones((3, 1))), "rows of u are 2, not 3"),
    "definite update": (
        lambda: made.LinearOperatorLowRankUpdate(made.LinearOperatorIdentity(2), [[1.0], [1.0]], is_non_singular=False),
        "positive definite if L and D are",
    ),
    "x": (lambda: full(2, 3).matmul(np.ones((2, 1))), r"axis -2 of x has the size 3, not 2: the operator is \[2, 3\]"),
    "vector": (lambda: full().matmul(np.ones(2)), "at least 2 axes"),
}
TYPES = {
    "integers": (lambda: made.LinearOperatorFullMatrix([[1, 2]]), "int32"),
    "dtype of x": (lambda: full().matvec(af.ones([2])), "dtype float64 of LinearOperatorFullMatrix, not float32"),
    "dtypes": (lambda: made.LinearOperatorKronecker([full(), made.LinearOperatorDiag([1.0])]), "one dtype"),
    "update": (lambda: made.LinearOperatorLowRankUpdate(full(), af.ones([2, 1])), "float64"),
    "rows": (lambda: made.LinearOperatorIdentity(2.0), "integers"),
    "order": (lambda: made.LinearOperatorPermutation([1.0, 0.0]), "integers"),
    "no operator": (lambda: made.LinearOperatorBlockDiag([1.0]), "linear operators, not 1.0"),
}
MISSING = {
    "wide determinant": lambda: full(2, 3).determinant(),
    "wide solution": lambda: full(2, 3).solve(np.ones((2, 1))),
    "singular solution": lambda: full(is_non_singular=False).solvevec(np.ones(2)),
    "eigenvalues": lambda: full().eigvals(),
    "nothing defined": lambda: made.LinearOperator(af.float32).to_dense(),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", [*WRONG, *TYPES, *MISSING])
def test_wrong_operators_are_refused_at_once(case):
    with af.Graph().as_default():
        if case in MISSING:
            with pytest.raises(NotImplementedError):
                MISSING[case]()
        else:
            call, text = WRONG[case] if case in WRONG else TYPES[case]
            with pytest.raises(ValueError if case in WRONG else TypeError, match=text):
                call()


def test_hints_imply_others_and_pass_to_operators_made_of_operators():
    with af.Graph().as_default():
        definite = full(is_positive_definite=True, is_self_adjoint=True)
        assert (definite.is_non_singular, definite.is_square) == (True, True)
        for whole in (made.LinearOperatorKronecker([definite] * 2), made.LinearOperatorBlockDiag([definite] * 2)):
            assert (whole.is_non_singular, whole.is_self_adjoint, whole.is_positive_definite) == (True, True, True)
            assert whole.cholesky().operators[0].name == definite.cholesky().name
        assert made.LinearOperatorComposition([definite, full()]).is_non_singular is None
        assert (full(is_non_singular=False) @ definite).is_non_singular is False
        assert (definite @ definite).is_self_adjoint
        assert definite.H is definite
        assert definite.inverse().inverse() is definite


def test_an_operator_tells_what_it_was_made_of():
    with af.Graph().as_default():
        operator = made.LinearOperatorDiag([[1.0, 2.0]], name="scale")
        wide = full(2, 3)
    assert operator.parameters["diag"] == [[1.0, 2.0]]
    assert operator.parameters["name"] == "scale"
    assert [each.name for each in operator.graph_parents] == ["scale/diag:0"]
    assert repr(operator) == "<af.linalg.LinearOperatorDiag 'scale' shape=[1, 2, 2] dtype=float32>"
    assert (operator.batch_shape, operator.tensor_rank, operator.dtype) == ([1], 3, af.float32)
    assert (wide.range_dimension, wide.domain_dimension, wide.is_square) == (2, 3, False)
