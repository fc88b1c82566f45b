"""All kinds of `af.linalg.LinearOperator` have TensorFlow's arguments, shapes, hints, results and gradients."""

import asyncio
import inspect
import itertools
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle.both import tensorflow
from tests.library.linear_operators.kinds import KINDS, Numbers, arguments, calls

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
NAMES = sorted({f"LinearOperator{name.split(',')[0]}" for name in KINDS})
HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
OTHERWISE = {
    ("Diag", "add_to_tensor, more"),
    ("Identity, batch", "add_to_tensor"),
    ("Identity, batch", "add_to_tensor, more"),
    ("ScaledIdentity", "add_to_tensor, more"),
    ("Zeros, wide", "add_to_tensor"),
    ("Zeros, wide", "add_to_tensor, more"),
}
"""TensorFlow's sum has not the shape of the batch, or fails, or is the argument itself in place of a tensor."""
BROKEN = (NotImplementedError, ValueError, TypeError, AttributeError)
"""What TensorFlow raises where it has no method, or where its method does not broadcast."""


def built(library: Any, name: str, dtype: Any, errors: tuple[type[Exception], ...] = ()) -> dict[str, Any]:
    """A tensor of each method, and its gradients by the parameters; None where there is one of the errors."""
    new = Numbers(library, dtype)
    operator = KINDS[name](library.linalg, new)
    shape = tuple(operator.shape.as_list())
    found: dict[str, Any] = {"shape": shape, "hints": [getattr(operator, hint) for hint in HINTS]}
    for call, make in calls(operator, name, arguments(shape, new)).items():
        try:
            found[call] = value = make()
            found |= slopes(library, call, value, new.parameters)
        except errors:
            found.setdefault(call, None)
    return found


def slopes(library: Any, call: str, value: Any, parameters: list[Any]) -> dict[str, Any]:
    """The gradients of a result by each parameter.

    TensorFlow's gradients of determinants and of three diagonals lack a conjugate: they are compared for real numbers.
    """
    if not parameters or isinstance(value, list) or not value.dtype.is_floating:
        return {}
    found = library.gradients(value, parameters, unconnected_gradients="zero")
    return {f"{call} by {i}": library.convert_to_tensor(slope) for i, slope in enumerate(found)}


def tensors(name: str, found: dict[str, Any]) -> dict[str, Any]:
    kept = {call: value for call, value in found.items() if call not in ("shape", "hints") and value is not None}
    return {call: value for call, value in kept.items() if (name, call.split(" by ")[0]) not in OTHERWISE}


def theirs(name: str, dtype: Any) -> dict[str, Any]:
    tf = tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        found = built(tf, name, dtype, BROKEN)
        return {**found, **session.run(tensors(name, found))}


async def ours(name: str, dtype: Any) -> dict[str, Any]:
    with af.Graph().as_default() as graph:
        found = built(af, name, dtype)
    async with af.Session(graph=graph) as session:
        return {**found, **await session.run(tensors(name, found))}


def difference(name: str, call: str, mine: Any, other: Any, near: float) -> str | None:
    if call in ("shape", "hints"):
        return None if mine == other else f"{call}: {mine}, not {other}"
    if other is None or (name, call.split(" by ")[0]) in OTHERWISE:
        return None
    if name == "FullMatrix, definite" and " by " in call:
        mine, other = (each + each.conj().T for each in (mine, other))
    try:
        np.testing.assert_allclose(mine, other, near, near / 10)
    except AssertionError as error:
        return f"{call}: {str(error)[-400:]}"
    return None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", KINDS)
def test_results_and_gradients_are_tensorflows(name: str, dtype: Any) -> None:
    expected, found = theirs(name, dtype), asyncio.run(ours(name, dtype))
    assert {call for call in expected if " by " not in call} <= found.keys()
    assert name == "Toeplitz, one row" or expected["to_dense"] is not None
    near = 2e-3 if dtype is np.float32 else 1e-7
    wrong = [difference(name, call, found[call], value, near) for call, value in expected.items() if call in found]
    assert [each for each in wrong if each] == []


def test_arguments_and_members_are_tensorflows() -> None:
    theirs = tensorflow().linalg
    for name in [*NAMES, "LinearOperator"]:
        mine, other = getattr(af.linalg, name), getattr(theirs, name)
        assert [*inspect.signature(mine).parameters] == [*inspect.signature(other.__init__).parameters][1:], name
        inherited = {*dir(theirs.LinearOperator.__mro__[1]), "variables", "trainable_variables"}
        missing = [each for each in dir(other) if not each.startswith("_") and not hasattr(mine, each)]
        assert [each for each in missing if each not in inherited] == [], name
        for each in (each for each in dir(other) if not each.startswith("_") and each not in inherited):
            if callable(getattr(other, each)):
                mine_takes, takes = (inspect.signature(getattr(one, each)).parameters for one in (mine, other))
                assert [*mine_takes] == [*takes], f"{name}.{each}"


SIMPLE: dict[str, tuple[Any, ...]] = {
    "FullMatrix": (np.eye(2),),
    "LowerTriangular": (np.eye(2),),
    "Diag": (np.ones(2),),
    "Identity": (2, None, "float64"),
    "ScaledIdentity": (2, np.float64(3)),
    "Zeros": (2, None, None, "float64"),
    "Householder": (np.ones(2),),
    "Permutation": ([1, 0], "float64"),
    "Toeplitz": (np.ones(2), np.ones(2)),
    "Tridiag": (np.ones((3, 2)),),
    "Circulant": (np.ones(2), "float64"),
    "Circulant2D": (np.ones((1, 2), np.complex128), "float64"),
    "Inversion": (),
    "Adjoint": (),
    "Composition": (2,),
    "Kronecker": (1, 1),
    "BlockDiag": (2,),
    "LowRankUpdate": (np.ones((2, 1)),),
}
"""The arguments of small square operators of float64; for those that are made of others, the number of these."""


def simple(linalg: Any, name: str, **hints: Any) -> Any:
    """An operator of real numbers with these hints."""
    full, given = linalg.LinearOperatorFullMatrix(np.eye(2)), list(SIMPLE[name])
    if name in ("Composition", "Kronecker"):
        given = [[full, full] if name == "Composition" else [full, linalg.LinearOperatorFullMatrix(np.eye(1))]]
    elif name == "BlockDiag":
        given = [[linalg.LinearOperatorFullMatrix(np.eye(1))] * 2]
    elif name in ("Inversion", "Adjoint", "LowRankUpdate"):
        given = [full, *given]
    return getattr(linalg, f"LinearOperator{name}")(*given, **hints)


def outcome(make: Any) -> Any:
    """The class and the hints of an operator, or the class of the error."""
    try:
        made = make()
        return type(made).__name__, [getattr(made, hint) for hint in HINTS]
    except (TypeError, ValueError, NotImplementedError) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", SIMPLE)
def test_hints_and_their_contradictions_are_tensorflows(name: str) -> None:
    tf = tensorflow()
    with tf.Graph().as_default(), af.Graph().as_default():
        for values in itertools.product([None, True, False], repeat=4):
            hints = dict(zip(HINTS, values, strict=True))
            if None in values[3:] if name == "ScaledIdentity" else name in ("Identity", "Zeros") and None in values:
                continue  # TensorFlow takes None for False there
            expected = outcome(lambda hints=hints: simple(tf.linalg, name, **hints))
            assert outcome(lambda hints=hints: simple(af.linalg, name, **hints)) == expected, hints


@pytest.mark.parametrize("act", ["matmul", "solve", "inverse", "adjoint", "cholesky"])
def test_what_operators_make_together_is_of_tensorflows_classes(act: str) -> None:
    tf = tensorflow()
    differing = []
    with tf.Graph().as_default(), af.Graph().as_default():
        for left, right in (
            itertools.product(SIMPLE, SIMPLE) if act in ("matmul", "solve") else [(x, x) for x in SIMPLE]
        ):
            if act == "solve" and right == "Zeros":
                continue  # zeros here, a composition there

            def made(linalg: Any, left: str = left, right: str = right) -> Any:
                first, second = simple(linalg, left), simple(linalg, right)
                return getattr(first, act)(*([second] if act in ("matmul", "solve") else []))

            expected, found = outcome(lambda: made(tf.linalg)), outcome(lambda: made(af.linalg))
            if expected != found:
                differing.append((left, right, expected, found))
    assert differing == []


def test_conjugate_gradients_take_tensorflows_steps() -> None:
    tf = tensorflow()
    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
    right = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])

    def states(library: Any) -> Any:
        hints = {"is_self_adjoint": True, "is_positive_definite": True}
        operator = library.linalg.LinearOperatorFullMatrix(library.constant(matrix), **hints)
        near = library.linalg.LinearOperatorDiag(library.constant(1 / np.diag(matrix)), **hints)
        solve = library.linalg.experimental.conjugate_gradient
        rhs, start = library.constant(right), library.constant(np.ones_like(right))
        return [
            tuple(solve(operator, rhs)),
            tuple(solve(operator, rhs, max_iter=2, x=start)),
            tuple(solve(operator, rhs, preconditioner=near, x=start, tol=0.1)),
        ]

    with tf.Graph().as_default(), tf.Session() as session:
        expected = session.run(states(tf))

    async def run() -> Any:
        with af.Graph().as_default() as graph:
            found = states(af)
        async with af.Session(graph=graph) as session:
            return await session.run(found)

    for mine, other in zip(asyncio.run(run()), expected, strict=True):
        for found, value in zip(mine, other, strict=True):
            np.testing.assert_allclose(found, value, 1e-7, 1e-12)
